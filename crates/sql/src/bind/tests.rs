//! Tests of the binder.
