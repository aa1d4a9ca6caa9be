//! String functions.

use crate::context::FunctionContext;
use std::cmp::Ordering;

/// Byte order, which for UTF-8 is code point order.
pub(crate) fn compare(_: &mut FunctionContext, left: &[u8], right: &[u8]) -> i32 {
    match left.cmp(right) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

/// `UPPER(s)`
pub(crate) fn upper(_: &mut FunctionContext, s: &str) -> String {
    s.to_uppercase()
}

/// `CHAR_LENGTH(s)`
pub(crate) fn char_length(_: &mut FunctionContext, s: &str) -> i32 {
    s.chars().count() as i32
}
