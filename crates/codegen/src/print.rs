//! The text form of row programs.
