//! The single list of functions that row programs call out to.
//!
//! Each entry names the function, its argument types and its result type. The functions crate matches every variant
//! to a body (so a missing body does not compile), the interpreter and LLVM call it through the same signature, and
//! the verifier checks calls against the list. To add one, see `docs/how-to/add-a-function.md`.

use crate::Phys;
use std::ffi::c_void;

/// An argument or result: 16 bytes, the value in its natural size at the start (Bool a byte 0 or 1), the rest
/// undefined.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Slot(pub [u8; 16]);

impl Slot {
    /// All zero.
    pub const ZERO: Slot = Slot([0; 16]);

    /// A slot that starts with the bytes of `value`, which has at most 16.
    #[inline]
    pub fn of<const N: usize>(bytes: [u8; N]) -> Slot {
        let mut slot = Slot::ZERO;
        slot.0[..N].copy_from_slice(&bytes);
        slot
    }

    /// The first `N` bytes.
    #[inline]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[..N]);
        bytes
    }
}

/// What a runtime function returns.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// `out` holds the value.
    Value = 0,
    /// The result is NULL.
    Null = 1,
    /// The row is bad; the reason is in the function context.
    Error = 2,
}

/// The signature of every runtime function: context, arguments (none of them NULL), result. Returns a [`CallStatus`].
/// Never unwinds. Strings in the result live in the function context's arena until the end of the task.
pub type RuntimeFnPtr = unsafe extern "C" fn(context: *mut c_void, args: *const Slot, out: *mut Slot) -> u32;

macro_rules! runtime_functions {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal ($($arg:ident),*) -> $result:ident;)*) => {
        /// A function that row programs call out to. Arguments are never NULL: lowering guards the call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RuntimeFn {
            $($(#[doc = $doc])* $variant,)*
        }

        impl RuntimeFn {
            /// Every function, in the order of the list.
            pub const ALL: &[RuntimeFn] = &[$(RuntimeFn::$variant),*];

            /// Name in printed row programs and as a symbol in generated code.
            pub const fn name(self) -> &'static str {
                match self { $(RuntimeFn::$variant => $name,)* }
            }

            /// Types of the arguments.
            pub const fn arguments(self) -> &'static [Phys] {
                match self { $(RuntimeFn::$variant => &[$(Phys::$arg),*],)* }
            }

            /// Whether equal arguments give equal results. Calls of other functions are neither repeated nor merged.
            pub const fn is_deterministic(self) -> bool {
                use RuntimeFn::{Rand, RandInteger, RandIntegerSeed, RandSeed, Uuid};
                !matches!(self, Rand | RandInteger | RandIntegerSeed | RandSeed | Uuid)
            }

            /// Type of the result.
            pub const fn result(self) -> Phys {
                match self { $(RuntimeFn::$variant => Phys::$result,)* }
            }
        }
    };
}

runtime_functions! {
    /// Byte order: -1, 0 or 1.
    StrCompare = "str_compare" (Str, Str) -> I32;
    /// `UPPER(s)`
    Upper = "upper" (Str) -> Str;
    /// `CHAR_LENGTH(s)` in code points.
    CharLength = "char_length" (Str) -> I32;

    // Strings.
    /// `LOWER(s)`
    Lower = "lower" (Str) -> Str;
    /// `OCTET_LENGTH(s)`
    OctetLength = "octet_length" (Str) -> I32;
    /// `TRIM(BOTH chars FROM s)`: s, chars.
    TrimBoth = "trim_both" (Str, Str) -> Str;
    /// `TRIM(LEADING chars FROM s)`: s, chars.
    TrimLeading = "trim_leading" (Str, Str) -> Str;
    /// `TRIM(TRAILING chars FROM s)`: s, chars.
    TrimTrailing = "trim_trailing" (Str, Str) -> Str;
    /// `SUBSTRING(s, position, length)`
    Substring = "substring" (Str, I32, I32) -> Str;
    /// `LEFT(s, n)`
    Left = "left" (Str, I32) -> Str;
    /// `RIGHT(s, n)`
    Right = "right" (Str, I32) -> Str;
    /// `LPAD(s, length, pad)`
    Lpad = "lpad" (Str, I32, Str) -> Str;
    /// `RPAD(s, length, pad)`
    Rpad = "rpad" (Str, I32, Str) -> Str;
    /// `REPEAT(s, n)`
    Repeat = "repeat" (Str, I32) -> Str;
    /// `REPLACE(s, search, replacement)`
    Replace = "replace" (Str, Str, Str) -> Str;
    /// `REVERSE(s)`
    Reverse = "reverse" (Str) -> Str;
    /// `INITCAP(s)`
    InitCap = "initcap" (Str) -> Str;
    /// `a || b`, for byte strings as well.
    Concat2 = "concat2" (Str, Str) -> Str;
    /// `CONCAT(a, b, c)`
    Concat3 = "concat3" (Str, Str, Str) -> Str;
    /// `CONCAT(a, b, c, d)`
    Concat4 = "concat4" (Str, Str, Str, Str) -> Str;
    /// The last step of `CONCAT_WS`: s without the prefix, if it has it.
    DropPrefix = "drop_prefix" (Str, Str) -> Str;
    /// `OVERLAY(s PLACING replacement FROM position FOR length)`
    Overlay = "overlay" (Str, Str, I32, I32) -> Str;
    /// `TRANSLATE(s, from, to)`
    Translate = "translate" (Str, Str, Str) -> Str;
    /// `ASCII(s)`
    Ascii = "ascii" (Str) -> I32;
    /// `CHR(n)`
    Chr = "chr" (I64) -> Str;
    /// `IS_ALPHA(s)`
    IsAlpha = "is_alpha" (Str) -> Bool;
    /// `IS_DIGIT(s)`
    IsDigit = "is_digit" (Str) -> Bool;
    /// `IS_DECIMAL(s)`
    IsDecimal = "is_decimal" (Str) -> Bool;

    // Searching and splitting.
    /// `LOCATE(search, s, from)`
    Position = "position" (Str, Str, I32) -> I32;
    /// `SPLIT_INDEX(s, separator, index)`
    SplitIndex = "split_index" (Str, Str, I32) -> Str;
    /// `SPLIT_INDEX(s, code, index)`
    SplitIndexCode = "split_index_code" (Str, I32, I32) -> Str;
    /// `STARTSWITH(s, start)`
    StartsWith = "starts_with" (Str, Str) -> Bool;
    /// `ENDSWITH(s, end)`
    EndsWith = "ends_with" (Str, Str) -> Bool;
    /// `s LIKE pattern`
    Like = "like" (Str, Str) -> Bool;
    /// `s LIKE pattern ESCAPE escape`
    LikeEscape = "like_escape" (Str, Str, Str) -> Bool;

    // Regular expressions.
    /// `s SIMILAR TO pattern`
    SimilarTo = "similar_to" (Str, Str) -> Bool;
    /// `s SIMILAR TO pattern ESCAPE escape`
    SimilarToEscape = "similar_to_escape" (Str, Str, Str) -> Bool;
    /// `REGEXP(s, pattern)`
    Regexp = "regexp" (Str, Str) -> Bool;
    /// `REGEXP_EXTRACT(s, pattern, group)`
    RegexpExtract = "regexp_extract" (Str, Str, I32) -> Str;
    /// `REGEXP_REPLACE(s, pattern, replacement)`
    RegexpReplace = "regexp_replace" (Str, Str, Str) -> Str;
    /// `REGEXP_COUNT(s, pattern)`
    RegexpCount = "regexp_count" (Str, Str) -> I32;
    /// `REGEXP_INSTR(s, pattern)`
    RegexpInstr = "regexp_instr" (Str, Str) -> I32;
    /// `REGEXP_SUBSTR(s, pattern)`
    RegexpSubstr = "regexp_substr" (Str, Str) -> Str;

    // Encodings and digests.
    /// `ENCODE(s, charset)`
    Encode = "encode" (Str, Str) -> Str;
    /// `DECODE(bytes, charset)`
    Decode = "decode" (Str, Str) -> Str;
    /// `TO_BASE64(s)`
    ToBase64 = "to_base64" (Str) -> Str;
    /// `FROM_BASE64(s)`
    FromBase64 = "from_base64" (Str) -> Str;
    /// `HEX(n)`
    HexInteger = "hex_integer" (I64) -> Str;
    /// `HEX(s)`
    HexBytes = "hex_bytes" (Str) -> Str;
    /// `BIN(n)`
    Bin = "bin" (I64) -> Str;
    /// `UNHEX(s)`
    Unhex = "unhex" (Str) -> Str;
    /// `URL_ENCODE(s)`
    UrlEncode = "url_encode" (Str) -> Str;
    /// `URL_DECODE(s)`
    UrlDecode = "url_decode" (Str) -> Str;
    /// `PARSE_URL(url, part)`
    ParseUrl = "parse_url" (Str, Str) -> Str;
    /// `PARSE_URL(url, part, key)`
    ParseUrlKey = "parse_url_key" (Str, Str, Str) -> Str;
    /// `MD5(s)`
    Md5 = "md5" (Str) -> Str;
    /// `SHA1(s)`
    Sha1 = "sha1" (Str) -> Str;
    /// `SHA224(s)`
    Sha224 = "sha224" (Str) -> Str;
    /// `SHA256(s)`
    Sha256 = "sha256" (Str) -> Str;
    /// `SHA384(s)`
    Sha384 = "sha384" (Str) -> Str;
    /// `SHA512(s)`
    Sha512 = "sha512" (Str) -> Str;
    /// `SHA2(s, bits)`
    Sha2 = "sha2" (Str, I32) -> Str;

    // Mathematics.
    /// `ABS(x)` of an integer.
    AbsInteger = "abs_integer" (I64) -> I64;
    /// `ABS(x)` of a decimal.
    AbsDecimal = "abs_decimal" (I128) -> I128;
    /// `ABS(x)` of a double.
    AbsDouble = "abs_double" (F64) -> F64;
    /// `SIGN(x)` of a double.
    SignDouble = "sign_double" (F64) -> F64;
    /// `FLOOR(x)` of a double.
    FloorDouble = "floor_double" (F64) -> F64;
    /// `CEIL(x)` of a double.
    CeilDouble = "ceil_double" (F64) -> F64;
    /// `FLOOR(x)` of a decimal: x, its scale; the result has scale 0.
    FloorDecimal = "floor_decimal" (I128, I32) -> I128;
    /// `CEIL(x)` of a decimal: x, its scale; the result has scale 0.
    CeilDecimal = "ceil_decimal" (I128, I32) -> I128;
    /// `ROUND(x, places)` of an integer.
    RoundInteger = "round_integer" (I64, I32) -> I64;
    /// `ROUND(x, places)` of a decimal: x, its scale, places, scale of the result.
    RoundDecimal = "round_decimal" (I128, I32, I32, I32) -> I128;
    /// `ROUND(x, places)` of a double.
    RoundDouble = "round_double" (F64, I32) -> F64;
    /// `TRUNCATE(x, places)` of an integer.
    TruncateInteger = "truncate_integer" (I64, I32) -> I64;
    /// `TRUNCATE(x, places)` of a decimal: x, its scale, places, scale of the result.
    TruncateDecimal = "truncate_decimal" (I128, I32, I32, I32) -> I128;
    /// `TRUNCATE(x, places)` of a double.
    TruncateDouble = "truncate_double" (F64, I32) -> F64;
    /// `SQRT(x)`
    Sqrt = "sqrt" (F64) -> F64;
    /// `EXP(x)`
    Exp = "exp" (F64) -> F64;
    /// `LN(x)`
    Ln = "ln" (F64) -> F64;
    /// `LOG10(x)`
    Log10 = "log10" (F64) -> F64;
    /// `SIN(x)`
    Sin = "sin" (F64) -> F64;
    /// `COS(x)`
    Cos = "cos" (F64) -> F64;
    /// `TAN(x)`
    Tan = "tan" (F64) -> F64;
    /// `ASIN(x)`
    Asin = "asin" (F64) -> F64;
    /// `ACOS(x)`
    Acos = "acos" (F64) -> F64;
    /// `ATAN(x)`
    Atan = "atan" (F64) -> F64;
    /// `SINH(x)`
    Sinh = "sinh" (F64) -> F64;
    /// `COSH(x)`
    Cosh = "cosh" (F64) -> F64;
    /// `TANH(x)`
    Tanh = "tanh" (F64) -> F64;
    /// `ATAN2(y, x)`
    Atan2 = "atan2" (F64, F64) -> F64;
    /// `POWER(x, y)`
    Power = "power" (F64, F64) -> F64;
    /// `BITAND(a, b)`
    BitAnd = "bit_and" (I64, I64) -> I64;
    /// `BITOR(a, b)`
    BitOr = "bit_or" (I64, I64) -> I64;
    /// `BITXOR(a, b)`
    BitXor = "bit_xor" (I64, I64) -> I64;
    /// `BITNOT(a)`
    BitNot = "bit_not" (I64) -> I64;

    // Random values.
    /// `RAND()`
    Rand = "rand" () -> F64;
    /// `RAND(seed)`
    RandSeed = "rand_seed" (I32) -> F64;
    /// `RAND_INTEGER(bound)`
    RandInteger = "rand_integer" (I32) -> I32;
    /// `RAND_INTEGER(seed, bound)`
    RandIntegerSeed = "rand_integer_seed" (I32, I32) -> I32;
    /// `UUID()`
    Uuid = "uuid" () -> Str;
}
