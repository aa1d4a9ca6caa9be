//! The functions of the dialect.
