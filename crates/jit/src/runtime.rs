//! What generated code calls for operations that would be long inline or need symbols that a process may not export
//! (128-bit division, `fmod`). All arguments are 64-bit words or doubles, so that no calling convention of 128-bit
//! values is relied on. None of these panics.

use millstream_abi::{Str, hash_bytes};
use millstream_codegen::semantics;

/// Types of the parameters and results of support functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// `u64`
    Int,
    /// `i32`
    Int32,
    /// `f64`
    Double,
    /// `f32`
    Single,
    /// `*mut i128`, written only.
    Out,
    /// No result.
    Nothing,
}

/// A support function.
pub(crate) struct Support {
    /// Symbol in generated code.
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [Word],
    pub(crate) result: Word,
    pub(crate) address: usize,
}

macro_rules! support_functions {
    ($($constant:ident = $name:literal $function:ident ($($parameter:ident),*) -> $result:ident;)*) => {
        $(
            #[doc = concat!("See `", stringify!($function), "`.")]
            pub(crate) const $constant: &str = $name;
        )*

        /// Every support function.
        pub(crate) fn all() -> Vec<Support> {
            vec![$(Support {
                name: $name,
                parameters: &[$(Word::$parameter),*],
                result: Word::$result,
                address: $function as *const () as usize,
            }),*]
        }
    };
}

support_functions! {
    DIVIDE = "rt.divide" divide (Int, Int, Int, Int, Out) -> Nothing;
    REMAINDER = "rt.remainder" remainder (Int, Int, Int, Int, Out) -> Nothing;
    SCALE_DOWN = "rt.scale_down" scale_down (Int, Int, Int, Out) -> Nothing;
    WIDE_TO_DOUBLE = "rt.wide_to_double" wide_to_double (Int, Int) -> Double;
    WIDE_TO_SINGLE = "rt.wide_to_single" wide_to_single (Int, Int) -> Single;
    DOUBLE_TO_WIDE = "rt.double_to_wide" double_to_wide (Double, Out) -> Nothing;
    FMOD = "rt.fmod" fmod (Double, Double) -> Double;
    FMODF = "rt.fmodf" fmodf (Single, Single) -> Single;
    BYTES_EQUAL = "rt.bytes_equal" bytes_equal (Int, Int, Int) -> Int32;
    COMPARE_STRINGS = "rt.compare_strings" compare_strings (Int, Int, Int, Int) -> Int32;
    TEXT_LENGTH = "rt.text_length" text_length (Int, Int) -> Int;
    HASH_BYTES = "rt.hash_bytes" hash_long (Int, Int) -> Int;
}

fn wide(low: u64, high: u64) -> i128 {
    ((high as u128) << 64 | low as u128) as i128
}

/// `Op::Div` of I128; any value for a divisor of 0.
unsafe extern "C" fn divide(a_low: u64, a_high: u64, b_low: u64, b_high: u64, out: *mut i128) {
    let (a, b) = (wide(a_low, a_high), wide(b_low, b_high));
    // SAFETY: generated code passes the address of a 16-byte slot of its own frame.
    unsafe { *out = if b == 0 { 0 } else { a.wrapping_div(b) } }
}

/// `Op::Rem` of I128; any value for a divisor of 0.
unsafe extern "C" fn remainder(a_low: u64, a_high: u64, b_low: u64, b_high: u64, out: *mut i128) {
    let (a, b) = (wide(a_low, a_high), wide(b_low, b_high));
    // SAFETY: as in `divide`.
    unsafe { *out = if b == 0 { 0 } else { a.wrapping_rem(b) } }
}

/// `Op::ScaleDown` by `10^digits`.
unsafe extern "C" fn scale_down(low: u64, high: u64, digits: u64, out: *mut i128) {
    // SAFETY: as in `divide`.
    unsafe { *out = semantics::scale_down(wide(low, high), digits as u8) }
}

/// `Op::Convert` of I128 to F64.
extern "C" fn wide_to_double(low: u64, high: u64) -> f64 {
    wide(low, high) as f64
}

/// `Op::Convert` of I128 to F32.
extern "C" fn wide_to_single(low: u64, high: u64) -> f32 {
    wide(low, high) as f32
}

/// `Op::Convert` of F64 to I128.
unsafe extern "C" fn double_to_wide(x: f64, out: *mut i128) {
    // SAFETY: as in `divide`.
    unsafe { *out = x as i128 }
}

/// `Op::Rem` of F64.
extern "C" fn fmod(a: f64, b: f64) -> f64 {
    a % b
}

/// `Op::Rem` of F32.
extern "C" fn fmodf(a: f32, b: f32) -> f32 {
    a % b
}

/// Whether two byte ranges of one length are equal: 1 or 0.
unsafe extern "C" fn bytes_equal(a: u64, b: u64, length: u64) -> i32 {
    // SAFETY: generated code passes addresses and length of two long strings that are alive during the run.
    let (a, b) = unsafe {
        (
            std::slice::from_raw_parts(a as *const u8, length as usize),
            std::slice::from_raw_parts(b as *const u8, length as usize),
        )
    };
    (a == b) as i32
}

/// Byte order of two strings: negative, 0 or positive.
unsafe extern "C" fn compare_strings(a_low: u64, a_high: u64, b_low: u64, b_high: u64) -> i32 {
    let (a, b) = (Str { low: a_low, high: a_high }, Str { low: b_low, high: b_high });
    // SAFETY: generated code passes strings that are alive during the run.
    unsafe { a.as_bytes().cmp(b.as_bytes()) as i32 }
}

/// Bytes of a text that ends at its first byte of 0, or at `width`.
unsafe extern "C" fn text_length(address: u64, width: u64) -> u64 {
    // SAFETY: generated code passes address and width of a field of a record that is alive during the run.
    let field = unsafe { std::slice::from_raw_parts(address as *const u8, width as usize) };
    memchr::memchr(0, field).unwrap_or(field.len()) as u64
}

/// Hash of the bytes of a long string.
unsafe extern "C" fn hash_long(address: u64, length: u64) -> u64 {
    // SAFETY: generated code passes address and length of a long string that is alive during the run.
    hash_bytes(unsafe { std::slice::from_raw_parts(address as *const u8, length as usize) })
}
