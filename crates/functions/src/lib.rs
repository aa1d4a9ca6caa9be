//! Bodies of the built-in scalar functions
