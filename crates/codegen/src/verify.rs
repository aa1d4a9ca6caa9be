//! Checks that a row program is well formed.
