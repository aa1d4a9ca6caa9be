//! Binding: names, types and functions of a parsed query.
