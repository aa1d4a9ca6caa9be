//! The text form of values, shared by casts, formats, printing and error messages.
