//! The single list of functions that row programs call out to.
//!
//! Each entry names the function, its argument types, its result type, two facts (what decides on the result, and whether
//! every call has one) and its body, a path in the functions crate. A row without its facts or with a body that is not there
//! does not compile. The interpreter and LLVM call the body through the same signature, and
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

/// What decides on the result of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionValue {
    /// The arguments.
    Pure,
    /// The arguments and the session: its time zone, the start of the query.
    Session,
    /// The moment of the call as well. All calls of a row with equal arguments count as one call.
    Clock,
    /// Chance.
    Random,
}

/// For which arguments a function has a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionDomain {
    /// For all of them; it can be NULL.
    Total,
    /// Some arguments make the row an error, or nobody has shown that none does.
    Partial,
}

macro_rules! declare {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal ($($arg:ident),*) -> $result:ident, $value:ident $domain:ident, $body:path;)*) => {
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

            /// What decides on the result.
            const fn value(self) -> FunctionValue {
                match self { $(RuntimeFn::$variant => FunctionValue::$value,)* }
            }

            /// Whether no call fails, whatever the arguments: then it may be made for rows that do not need it.
            pub const fn is_total(self) -> bool {
                match self { $(RuntimeFn::$variant => matches!(FunctionDomain::$domain, FunctionDomain::Total),)* }
            }

            /// Type of the result.
            pub const fn result(self) -> Phys {
                match self { $(RuntimeFn::$variant => Phys::$result,)* }
            }
        }
    };
}

impl RuntimeFn {
    /// Whether equal arguments give equal results within a row. Calls of other functions are neither repeated nor merged.
    pub const fn is_deterministic(self) -> bool {
        !matches!(self.value(), FunctionValue::Random)
    }

    /// Whether the arguments alone decide on the result. Then it can be computed before the query runs.
    pub const fn is_pure(self) -> bool {
        matches!(self.value(), FunctionValue::Pure)
    }
}

/// The list, for every use that is made of it: `runtime_functions!(rows)` hands the rows to the macro `rows`.
#[macro_export]
macro_rules! runtime_functions {
    ($rows:ident) => {
        $rows! {
            /// Byte order: -1, 0 or 1.
            StrCompare = "str_compare" (Str, Str) -> I32, Pure Total, strings::compare;
            /// `UPPER(s)`
            Upper = "upper" (Str) -> Str, Pure Total, strings::upper;
            /// `CHAR_LENGTH(s)` in code points.
            CharLength = "char_length" (Str) -> I32, Pure Total, strings::char_length;

            // Strings.
            /// `LOWER(s)`
            Lower = "lower" (Str) -> Str, Pure Total, strings::lower;
            /// `OCTET_LENGTH(s)`
            OctetLength = "octet_length" (Str) -> I32, Pure Total, strings::octet_length;
            /// `TRIM(BOTH chars FROM s)`: s, chars.
            TrimBoth = "trim_both" (Str, Str) -> Str, Pure Total, strings::trim_both;
            /// `TRIM(LEADING chars FROM s)`: s, chars.
            TrimLeading = "trim_leading" (Str, Str) -> Str, Pure Total, strings::trim_leading;
            /// `TRIM(TRAILING chars FROM s)`: s, chars.
            TrimTrailing = "trim_trailing" (Str, Str) -> Str, Pure Total, strings::trim_trailing;
            /// `SUBSTRING(s, position, length)`
            Substring = "substring" (Str, I32, I32) -> Str, Pure Total, strings::substring;
            /// `LEFT(s, n)`
            Left = "left" (Str, I32) -> Str, Pure Total, strings::left;
            /// `RIGHT(s, n)`
            Right = "right" (Str, I32) -> Str, Pure Total, strings::right;
            /// `LPAD(s, length, pad)`
            Lpad = "lpad" (Str, I32, Str) -> Str, Pure Partial, strings::lpad;
            /// `RPAD(s, length, pad)`
            Rpad = "rpad" (Str, I32, Str) -> Str, Pure Partial, strings::rpad;
            /// `REPEAT(s, n)`
            Repeat = "repeat" (Str, I32) -> Str, Pure Partial, strings::repeat;
            /// `REPLACE(s, search, replacement)`
            Replace = "replace" (Str, Str, Str) -> Str, Pure Partial, strings::replace;
            /// How often `search` occurs in `s` without overlap: what `REPLACE(s, search, '')` leaves out.
            Occurrences = "occurrences" (Str, Str) -> I32, Pure Total, search::occurrences;
            /// `REVERSE(s)`
            Reverse = "reverse" (Str) -> Str, Pure Total, strings::reverse;
            /// `INITCAP(s)`
            InitCap = "initcap" (Str) -> Str, Pure Total, strings::initcap;
            /// `a || b`, for byte strings as well.
            Concat2 = "concat2" (Str, Str) -> Str, Pure Partial, strings::concat2;
            /// `CONCAT(a, b, c)`
            Concat3 = "concat3" (Str, Str, Str) -> Str, Pure Partial, strings::concat3;
            /// `CONCAT(a, b, c, d)`
            Concat4 = "concat4" (Str, Str, Str, Str) -> Str, Pure Partial, strings::concat4;
            /// The last step of `CONCAT_WS`: s without the prefix, if it has it.
            DropPrefix = "drop_prefix" (Str, Str) -> Str, Pure Total, strings::drop_prefix;
            /// `OVERLAY(s PLACING replacement FROM position FOR length)`
            Overlay = "overlay" (Str, Str, I32, I32) -> Str, Pure Partial, strings::overlay;
            /// `TRANSLATE(s, from, to)`
            Translate = "translate" (Str, Str, Str) -> Str, Pure Total, strings::translate;
            /// `ASCII(s)`
            Ascii = "ascii" (Str) -> I32, Pure Total, strings::ascii;
            /// `CHR(n)`
            Chr = "chr" (I64) -> Str, Pure Partial, strings::chr;
            /// `IS_ALPHA(s)`
            IsAlpha = "is_alpha" (Str) -> Bool, Pure Total, strings::is_alpha;
            /// `IS_DIGIT(s)`
            IsDigit = "is_digit" (Str) -> Bool, Pure Total, strings::is_digit;
            /// `IS_DECIMAL(s)`
            IsDecimal = "is_decimal" (Str) -> Bool, Pure Total, strings::is_decimal;

            // Searching and splitting.
            /// `LOCATE(search, s, from)`
            Position = "position" (Str, Str, I32) -> I32, Pure Total, search::position;
            /// `SPLIT_INDEX(s, separator, index)`
            SplitIndex = "split_index" (Str, Str, I32) -> Str, Pure Total, search::split_index;
            /// `SPLIT_INDEX(s, code, index)`
            SplitIndexCode = "split_index_code" (Str, I32, I32) -> Str, Pure Partial, search::split_index_code;
            /// `STARTSWITH(s, start)`
            StartsWith = "starts_with" (Str, Str) -> Bool, Pure Total, search::starts_with;
            /// `ENDSWITH(s, end)`
            EndsWith = "ends_with" (Str, Str) -> Bool, Pure Total, search::ends_with;
            /// `s LIKE pattern`
            Like = "like" (Str, Str) -> Bool, Pure Total, like::like;
            /// `s LIKE pattern ESCAPE escape`
            LikeEscape = "like_escape" (Str, Str, Str) -> Bool, Pure Partial, like::like_escape;
            /// `s ILIKE pattern`
            ILike = "ilike" (Str, Str) -> Bool, Pure Total, like::ilike;
            /// `s ILIKE pattern ESCAPE escape`
            ILikeEscape = "ilike_escape" (Str, Str, Str) -> Bool, Pure Partial, like::ilike_escape;

            // Regular expressions.
            /// `s SIMILAR TO pattern`
            SimilarTo = "similar_to" (Str, Str) -> Bool, Pure Partial, regex::similar_to;
            /// `s SIMILAR TO pattern ESCAPE escape`
            SimilarToEscape = "similar_to_escape" (Str, Str, Str) -> Bool, Pure Partial, regex::similar_to_escape;
            /// `REGEXP(s, pattern)`
            Regexp = "regexp" (Str, Str) -> Bool, Pure Total, regex::matches;
            /// `REGEXP_EXTRACT(s, pattern, group)`
            RegexpExtract = "regexp_extract" (Str, Str, I32) -> Str, Pure Total, regex::extract;
            /// `REGEXP_REPLACE(s, pattern, replacement)`
            RegexpReplace = "regexp_replace" (Str, Str, Str) -> Str, Pure Partial, regex::replace;
            /// `REGEXP_COUNT(s, pattern)`
            RegexpCount = "regexp_count" (Str, Str) -> I32, Pure Total, regex::count;
            /// `REGEXP_INSTR(s, pattern)`
            RegexpInstr = "regexp_instr" (Str, Str) -> I32, Pure Total, regex::instr;
            /// `REGEXP_SUBSTR(s, pattern)`
            RegexpSubstr = "regexp_substr" (Str, Str) -> Str, Pure Total, regex::substr;
            /// `REGEXP_EXTRACT_ALL(s, pattern, group)` as a JSON array.
            RegexpExtractAll = "regexp_extract_all" (Str, Str, I32) -> Str, Pure Partial, regex::extract_all;
            /// `REGEXP_SPLIT(s, pattern)` as a JSON array.
            RegexpSplit = "regexp_split" (Str, Str) -> Str, Pure Partial, regex::split;
            /// `STR_TO_MAP(s, pair, key_value)` as a JSON array of keys and values in turn.
            StrToMap = "str_to_map" (Str, Str, Str) -> Str, Pure Partial, regex::str_to_map;

            // Encodings and digests.
            /// `ENCODE(s, charset)`
            Encode = "encode" (Str, Str) -> Str, Pure Partial, encoding::encode;
            /// `DECODE(bytes, charset)`
            Decode = "decode" (Str, Str) -> Str, Pure Partial, encoding::decode;
            /// `TO_BASE64(s)`
            ToBase64 = "to_base64" (Str) -> Str, Pure Partial, encoding::to_base64;
            /// `FROM_BASE64(s)`
            FromBase64 = "from_base64" (Str) -> Str, Pure Partial, encoding::from_base64;
            /// `HEX(n)`
            HexInteger = "hex_integer" (I64) -> Str, Pure Partial, encoding::hex_integer;
            /// `HEX(s)`
            HexBytes = "hex_bytes" (Str) -> Str, Pure Partial, encoding::hex_bytes;
            /// `BIN(n)`
            Bin = "bin" (I64) -> Str, Pure Partial, encoding::bin;
            /// `UNHEX(s)`
            Unhex = "unhex" (Str) -> Str, Pure Partial, encoding::unhex;
            /// `URL_ENCODE(s)`
            UrlEncode = "url_encode" (Str) -> Str, Pure Partial, url::url_encode;
            /// `URL_DECODE(s)`
            UrlDecode = "url_decode" (Str) -> Str, Pure Partial, url::url_decode;
            /// `URL_DECODE_RECURSIVE(s, depth)`
            UrlDecodeRecursive = "url_decode_recursive" (Str, I32) -> Str, Pure Partial, url::url_decode_recursive;
            /// `PARSE_URL(url, part)`
            ParseUrl = "parse_url" (Str, Str) -> Str, Pure Total, url::parse_url;
            /// `PARSE_URL(url, part, key)`
            ParseUrlKey = "parse_url_key" (Str, Str, Str) -> Str, Pure Total, url::parse_url_key;
            /// `MD5(s)`
            Md5 = "md5" (Str) -> Str, Pure Total, hash::digest::<md5::Md5>;
            /// `SHA1(s)`
            Sha1 = "sha1" (Str) -> Str, Pure Total, hash::digest::<sha1::Sha1>;
            /// `SHA224(s)`
            Sha224 = "sha224" (Str) -> Str, Pure Partial, hash::digest::<sha2::Sha224>;
            /// `SHA256(s)`
            Sha256 = "sha256" (Str) -> Str, Pure Total, hash::digest::<sha2::Sha256>;
            /// `SHA384(s)`
            Sha384 = "sha384" (Str) -> Str, Pure Partial, hash::digest::<sha2::Sha384>;
            /// `SHA512(s)`
            Sha512 = "sha512" (Str) -> Str, Pure Partial, hash::digest::<sha2::Sha512>;
            /// `SHA2(s, bits)`
            Sha2 = "sha2" (Str, I32) -> Str, Pure Partial, hash::sha2;

            // Mathematics.
            /// `ABS(x)` of an integer.
            AbsInteger = "abs_integer" (I64) -> I64, Pure Total, i64::wrapping_abs;
            /// `ABS(x)` of a decimal.
            AbsDecimal = "abs_decimal" (I128) -> I128, Pure Partial, i128::wrapping_abs;
            /// `ABS(x)` of a double.
            AbsDouble = "abs_double" (F64) -> F64, Pure Total, f64::abs;
            /// `SIGN(x)` of a double.
            SignDouble = "sign_double" (F64) -> F64, Pure Total, math::sign_double;
            /// `FLOOR(x)` of a double.
            FloorDouble = "floor_double" (F64) -> F64, Pure Total, f64::floor;
            /// `CEIL(x)` of a double.
            CeilDouble = "ceil_double" (F64) -> F64, Pure Total, f64::ceil;
            /// `FLOOR(x)` of a decimal: x, its scale; the result has scale 0.
            FloorDecimal = "floor_decimal" (I128, I32) -> I128, Pure Partial, math::floor_decimal;
            /// `CEIL(x)` of a decimal: x, its scale; the result has scale 0.
            CeilDecimal = "ceil_decimal" (I128, I32) -> I128, Pure Partial, math::ceil_decimal;
            /// `ROUND(x, places)` of an integer.
            RoundInteger = "round_integer" (I64, I32) -> I64, Pure Partial, math::round_integer;
            /// `ROUND(x, places)` of a decimal: x, its scale, places, scale of the result.
            RoundDecimal = "round_decimal" (I128, I32, I32, I32) -> I128, Pure Partial, math::round_decimal;
            /// `ROUND(x, places)` of a double.
            RoundDouble = "round_double" (F64, I32) -> F64, Pure Partial, math::round_double;
            /// `TRUNCATE(x, places)` of an integer.
            TruncateInteger = "truncate_integer" (I64, I32) -> I64, Pure Partial, math::truncate_integer;
            /// `TRUNCATE(x, places)` of a decimal: x, its scale, places, scale of the result.
            TruncateDecimal = "truncate_decimal" (I128, I32, I32, I32) -> I128, Pure Partial, math::truncate_decimal;
            /// `TRUNCATE(x, places)` of a double.
            TruncateDouble = "truncate_double" (F64, I32) -> F64, Pure Partial, math::truncate_double;
            /// `SQRT(x)`
            Sqrt = "sqrt" (F64) -> F64, Pure Total, f64::sqrt;
            /// `EXP(x)`
            Exp = "exp" (F64) -> F64, Pure Total, f64::exp;
            /// `LN(x)`
            Ln = "ln" (F64) -> F64, Pure Total, f64::ln;
            /// `LOG10(x)`
            Log10 = "log10" (F64) -> F64, Pure Total, f64::log10;
            /// `SIN(x)`
            Sin = "sin" (F64) -> F64, Pure Total, f64::sin;
            /// `COS(x)`
            Cos = "cos" (F64) -> F64, Pure Total, f64::cos;
            /// `TAN(x)`
            Tan = "tan" (F64) -> F64, Pure Total, f64::tan;
            /// `ASIN(x)`
            Asin = "asin" (F64) -> F64, Pure Partial, f64::asin;
            /// `ACOS(x)`
            Acos = "acos" (F64) -> F64, Pure Partial, f64::acos;
            /// `ATAN(x)`
            Atan = "atan" (F64) -> F64, Pure Partial, f64::atan;
            /// `SINH(x)`
            Sinh = "sinh" (F64) -> F64, Pure Partial, f64::sinh;
            /// `COSH(x)`
            Cosh = "cosh" (F64) -> F64, Pure Partial, f64::cosh;
            /// `TANH(x)`
            Tanh = "tanh" (F64) -> F64, Pure Partial, f64::tanh;
            /// `ATAN2(y, x)`
            Atan2 = "atan2" (F64, F64) -> F64, Pure Partial, f64::atan2;
            /// `POWER(x, y)`
            Power = "power" (F64, F64) -> F64, Pure Total, math::power;
            /// `BITAND(a, b)`
            BitAnd = "bit_and" (I64, I64) -> I64, Pure Total, math::bit_and;
            /// `BITOR(a, b)`
            BitOr = "bit_or" (I64, I64) -> I64, Pure Total, math::bit_or;
            /// `BITXOR(a, b)`
            BitXor = "bit_xor" (I64, I64) -> I64, Pure Total, math::bit_xor;
            /// `BITNOT(a)`
            BitNot = "bit_not" (I64) -> I64, Pure Total, math::bit_not;

            // Random values.
            /// `RAND()`
            Rand = "rand" () -> F64, Random Partial, random::rand;
            /// `RAND(seed)`
            RandSeed = "rand_seed" (I32) -> F64, Random Partial, random::rand_seed;
            /// `RAND_INTEGER(bound)`
            RandInteger = "rand_integer" (I32) -> I32, Random Partial, random::rand_integer;
            /// `RAND_INTEGER(seed, bound)`
            RandIntegerSeed = "rand_integer_seed" (I32, I32) -> I32, Random Partial, random::rand_integer_seed;
            /// `UUID()`
            Uuid = "uuid" () -> Str, Random Partial, random::uuid;

            // Casts (how they are lowered: `casts` in the functions crate); a last Bool is TRUE for TRY_CAST.
            /// String to BOOLEAN: s, try.
            CastStrToBool = "cast_str_to_bool" (Str, Bool) -> Bool, Pure Partial, casts::str_to_bool;
            /// String to TINYINT: s, try.
            CastStrToI8 = "cast_str_to_i8" (Str, Bool) -> I8, Pure Partial, casts::str_to_i8;
            /// String to SMALLINT: s, try.
            CastStrToI16 = "cast_str_to_i16" (Str, Bool) -> I16, Pure Partial, casts::str_to_i16;
            /// String to INT: s, try.
            CastStrToI32 = "cast_str_to_i32" (Str, Bool) -> I32, Pure Partial, casts::str_to_i32;
            /// String to BIGINT: s, try.
            CastStrToI64 = "cast_str_to_i64" (Str, Bool) -> I64, Pure Partial, casts::str_to_i64;
            /// String to FLOAT: s, try.
            CastStrToF32 = "cast_str_to_f32" (Str, Bool) -> F32, Pure Partial, casts::str_to_f32;
            /// String to DOUBLE: s, try.
            CastStrToF64 = "cast_str_to_f64" (Str, Bool) -> F64, Pure Partial, casts::str_to_f64;
            /// String to DECIMAL: s, precision, scale, try.
            CastStrToDecimal = "cast_str_to_decimal" (Str, I32, I32, Bool) -> I128, Pure Partial, casts::str_to_decimal;
            /// String to DATE: s, try.
            CastStrToDate = "cast_str_to_date" (Str, Bool) -> I32, Pure Partial, casts::str_to_date;
            /// String to TIME: s, precision, try.
            CastStrToTime = "cast_str_to_time" (Str, I32, Bool) -> I32, Pure Partial, casts::str_to_time;
            /// String to TIMESTAMP: s, precision, try.
            CastStrToTimestamp = "cast_str_to_timestamp" (Str, I32, Bool) -> I64, Pure Partial, casts::str_to_timestamp;
            /// String to TIMESTAMP_LTZ: s, precision, try.
            CastStrToTimestampLtz = "cast_str_to_timestamp_ltz" (Str, I32, Bool) -> I64, Session Partial, casts::str_to_timestamp_ltz;
            /// Cuts a string to a number of code points; pads it with spaces when TRUE.
            FitString = "fit_string" (Str, I32, Bool) -> Str, Pure Partial, casts::fit_string;
            /// Cuts a byte string to a number of bytes; pads it with zeros when TRUE.
            FitBytes = "fit_bytes" (Str, I32, Bool) -> Str, Pure Partial, casts::fit_bytes;
            /// Bytes to STRING, as UTF-8.
            CastBytesToStr = "cast_bytes_to_str" (Str) -> Str, Pure Partial, casts::bytes_to_str;
            /// Integer to STRING.
            CastIntToStr = "cast_int_to_str" (I64) -> Str, Pure Total, casts::int_to_str;
            /// FLOAT to STRING.
            CastF32ToStr = "cast_f32_to_str" (F32) -> Str, Pure Partial, casts::f32_to_str;
            /// DOUBLE to STRING.
            CastF64ToStr = "cast_f64_to_str" (F64) -> Str, Pure Partial, casts::f64_to_str;
            /// DECIMAL to STRING: x, scale.
            CastDecimalToStr = "cast_decimal_to_str" (I128, I32) -> Str, Pure Partial, casts::decimal_to_str;
            /// DATE to STRING.
            CastDateToStr = "cast_date_to_str" (I32) -> Str, Pure Partial, casts::date_to_str;
            /// TIME to STRING: x, precision.
            CastTimeToStr = "cast_time_to_str" (I32, I32) -> Str, Pure Partial, casts::time_to_str;
            /// TIMESTAMP to STRING: x, precision.
            CastTimestampToStr = "cast_timestamp_to_str" (I64, I32) -> Str, Pure Partial, casts::timestamp_to_str;
            /// TIMESTAMP_LTZ to STRING: x, precision.
            CastTimestampLtzToStr = "cast_timestamp_ltz_to_str" (I64, I32) -> Str, Session Partial, casts::timestamp_ltz_to_str;
            /// INTERVAL YEAR TO MONTH to STRING.
            CastMonthsToStr = "cast_months_to_str" (I32) -> Str, Pure Partial, casts::months_to_str;
            /// INTERVAL DAY TO SECOND to STRING.
            CastMillisToStr = "cast_millis_to_str" (I64) -> Str, Pure Partial, casts::millis_to_str;
            /// DOUBLE to DECIMAL: x, precision, scale, try.
            CastF64ToDecimal = "cast_f64_to_decimal" (F64, I32, I32, Bool) -> I128, Pure Partial, casts::f64_to_decimal;
            /// DECIMAL to DOUBLE: x, scale.
            CastDecimalToF64 = "cast_decimal_to_f64" (I128, I32) -> F64, Pure Partial, casts::decimal_to_f64;
            /// DATE to TIMESTAMP: x, precision, try.
            DateToTimestamp = "date_to_timestamp" (I32, I32, Bool) -> I64, Pure Partial, casts::date_to_timestamp;
            /// TIMESTAMP to DATE: x, its precision.
            TimestampToDate = "timestamp_to_date" (I64, I32) -> I32, Pure Total, casts::timestamp_to_date;
            /// TIMESTAMP to TIME: x, its precision.
            TimestampToTime = "timestamp_to_time" (I64, I32) -> I32, Pure Total, casts::timestamp_to_time;
            /// Timestamp of one precision to another: x, from, to, try.
            TimestampRescale = "timestamp_rescale" (I64, I32, I32, Bool) -> I64, Pure Partial, casts::timestamp_rescale;
            /// Local time in the session's zone to a moment: x, precision of both.
            TimestampToLtz = "timestamp_to_ltz" (I64, I32) -> I64, Session Partial, casts::timestamp_to_ltz;
            /// Moment to local time in the session's zone: x, precision of both.
            LtzToTimestamp = "ltz_to_timestamp" (I64, I32) -> I64, Session Total, casts::ltz_to_timestamp;
            /// The local time in the session's zone that a watermark has reached for good, in milliseconds.
            LocalWatermark = "local_watermark" (I64) -> I64, Session Total, casts::local_watermark;

            // Decimal arithmetic (when it is inline instead: `decimal` in the functions crate).
            /// `a + b`: a, its scale, b, its scale, scale and precision of the result.
            DecimalAdd = "decimal_add" (I128, I32, I128, I32, I32, I32) -> I128, Pure Partial, decimal::add;
            /// `a - b`: a, its scale, b, its scale, scale and precision of the result.
            DecimalSubtract = "decimal_subtract" (I128, I32, I128, I32, I32, I32) -> I128, Pure Partial, decimal::subtract;
            /// `a * b`: a, b, digits to round away, precision of the result.
            DecimalMultiply = "decimal_multiply" (I128, I128, I32, I32) -> I128, Pure Partial, decimal::multiply;
            /// `a / b`: a, b, power of ten to multiply a with, precision of the result.
            DecimalDivide = "decimal_divide" (I128, I128, I32, I32) -> I128, Pure Partial, decimal::divide;
            /// `a % b`: a, its scale, b, its scale, scale and precision of the result.
            DecimalModulo = "decimal_modulo" (I128, I32, I128, I32, I32, I32) -> I128, Pure Partial, decimal::modulo;
            /// Decimal of one scale to another: x, from, to, precision of the result.
            DecimalRescale = "decimal_rescale" (I128, I32, I32, I32) -> I128, Pure Partial, decimal::rescale;
            /// `SIGN(x)` of a decimal: x, scale of it and of the result.
            DecimalSign = "decimal_sign" (I128, I32) -> I128, Pure Partial, decimal::sign;

            // JSON (what the numbers stand for: `json` in the functions crate).
            /// `JSON_VALUE(json, path)`: json, path, type of the result.
            JsonValue = "json_value" (Str, Str, I32) -> Str, Pure Partial, json::json_value;
            /// What JSON_VALUE finds: json, path, type of the result, what fails the row.
            JsonValueOutcome = "json_value_outcome" (Str, Str, I32, I32) -> I32, Pure Partial, json::value_outcome;
            /// `JSON_EXISTS(json, path)`: json, path, result for an error.
            JsonExists = "json_exists" (Str, Str, I32) -> Bool, Pure Partial, json::exists;
            /// `JSON_QUERY(json, path)`: json, path, wrapper, result for nothing, result for an error.
            JsonQuery = "json_query" (Str, Str, I32, I32, I32) -> Str, Pure Partial, json::query;
            /// `JSON(s)`: the text without white space.
            JsonText = "json_text" (Str) -> Str, Pure Partial, json::json;
            /// `s IS JSON`: s, kind of value.
            IsJson = "is_json" (Str, I32) -> Bool, Pure Partial, json::is_json;
            /// `JSON_QUOTE(s)`
            JsonQuote = "json_quote" (Str) -> Str, Pure Partial, json::quote;
            /// `JSON_UNQUOTE(s)`
            JsonUnquote = "json_unquote" (Str) -> Str, Pure Partial, json::unquote;

            // Dates and times (what is SQL's name for each: `datetime` in the functions crate); p is a timestamp's precision.
            /// `DATE_FORMAT(timestamp, format)`: x, p, format.
            DateFormat = "date_format" (I64, I32, Str) -> Str, Pure Partial, datetime::date_format;
            /// `DATE_FORMAT(string, format)`
            DateFormatStr = "date_format_str" (Str, Str) -> Str, Session Partial, datetime::date_format_str;
            /// `TO_DATE(s)`
            ToDate = "to_date" (Str) -> I32, Pure Partial, datetime::to_date;
            /// `TO_DATE(s, format)`
            ToDateFormat = "to_date_format" (Str, Str) -> I32, Session Partial, datetime::to_date_format;
            /// `TO_TIMESTAMP(s)`, in milliseconds.
            ToTimestamp = "to_timestamp" (Str) -> I64, Pure Partial, datetime::to_timestamp;
            /// `TO_TIMESTAMP(s, format)`, in milliseconds.
            ToTimestampFormat = "to_timestamp_format" (Str, Str) -> I64, Pure Partial, datetime::to_timestamp_format;
            /// `TO_TIMESTAMP_LTZ(integer, precision)`, in milliseconds.
            ToTimestampLtzInt = "to_timestamp_ltz_int" (I64, I32) -> I64, Pure Partial, datetime::to_timestamp_ltz_int;
            /// `TO_TIMESTAMP_LTZ(double, precision)`, in milliseconds.
            ToTimestampLtzDouble = "to_timestamp_ltz_double" (F64, I32) -> I64, Pure Partial, datetime::to_timestamp_ltz_double;
            /// `TO_TIMESTAMP_LTZ(decimal, precision)`, in milliseconds: x, its scale, precision.
            ToTimestampLtzDecimal = "to_timestamp_ltz_decimal" (I128, I32, I32) -> I64, Pure Partial, datetime::to_timestamp_ltz_decimal;
            /// `TO_TIMESTAMP_LTZ(s, format, zone)`, in milliseconds.
            ToTimestampLtzStr = "to_timestamp_ltz_str" (Str, Str, Str) -> I64, Pure Partial, datetime::to_timestamp_ltz_str;
            /// `FROM_UNIXTIME(seconds)`
            FromUnixtime = "from_unixtime" (I64) -> Str, Session Partial, datetime::from_unixtime;
            /// `FROM_UNIXTIME(seconds, format)`
            FromUnixtimeFormat = "from_unixtime_format" (I64, Str) -> Str, Session Partial, datetime::from_unixtime_format;
            /// `UNIX_TIMESTAMP()`
            UnixTimestampNow = "unix_timestamp_now" () -> I64, Clock Partial, datetime::unix_timestamp_now;
            /// `UNIX_TIMESTAMP(s)`
            UnixTimestamp = "unix_timestamp" (Str) -> I64, Session Partial, datetime::unix_timestamp;
            /// `UNIX_TIMESTAMP(s, format)`
            UnixTimestampFormat = "unix_timestamp_format" (Str, Str) -> I64, Session Partial, datetime::unix_timestamp_format;
            /// `CONVERT_TZ(s, from, to)`
            ConvertTz = "convert_tz" (Str, Str, Str) -> Str, Session Partial, datetime::convert_tz;
            /// `EXTRACT(unit FROM date)`: x, unit.
            ExtractDate = "extract_date" (I32, I32) -> I64, Pure Partial, datetime::extract_date;
            /// `EXTRACT(unit FROM time)`: x, unit.
            ExtractTime = "extract_time" (I32, I32) -> I64, Pure Partial, datetime::extract_time;
            /// `EXTRACT(unit FROM timestamp)`: x, p, unit.
            ExtractTimestamp = "extract_timestamp" (I64, I32, I32) -> I64, Pure Partial, datetime::extract_timestamp;
            /// `FLOOR(date TO unit)`: x, unit.
            FloorDate = "floor_date" (I32, I32) -> I32, Pure Partial, datetime::floor_date;
            /// `CEIL(date TO unit)`: x, unit.
            CeilDate = "ceil_date" (I32, I32) -> I32, Pure Partial, datetime::ceil_date;
            /// `FLOOR(time TO unit)`: x, unit.
            FloorTime = "floor_time" (I32, I32) -> I32, Pure Partial, datetime::floor_time;
            /// `CEIL(time TO unit)`: x, unit.
            CeilTime = "ceil_time" (I32, I32) -> I32, Pure Partial, datetime::ceil_time;
            /// `FLOOR(timestamp TO unit)`: x, p, unit.
            FloorTimestamp = "floor_timestamp" (I64, I32, I32) -> I64, Pure Partial, datetime::floor_timestamp;
            /// `CEIL(timestamp TO unit)`: x, p, unit.
            CeilTimestamp = "ceil_timestamp" (I64, I32, I32) -> I64, Pure Partial, datetime::ceil_timestamp;
            /// DATE + INTERVAL YEAR TO MONTH: x, months.
            AddMonthsDate = "add_months_date" (I32, I32) -> I32, Pure Partial, datetime::add_months_date;
            /// TIMESTAMP + INTERVAL YEAR TO MONTH: x, p, months.
            AddMonthsTimestamp = "add_months_timestamp" (I64, I32, I32) -> I64, Pure Partial, datetime::add_months_timestamp;
            /// TIME + INTERVAL DAY TO SECOND: x, milliseconds.
            AddMillisTime = "add_millis_time" (I32, I64) -> I32, Pure Partial, datetime::add_millis_time;
            /// `TIMESTAMPDIFF(unit, from, to)`: from, to, p, unit.
            TimestampDiff = "timestamp_diff" (I64, I64, I32, I32) -> I32, Pure Partial, datetime::timestamp_diff;
            /// `CURRENT_TIMESTAMP`, in milliseconds.
            CurrentTimestamp = "current_timestamp" () -> I64, Clock Partial, datetime::current_timestamp;
            /// `LOCALTIMESTAMP`, in milliseconds.
            LocalTimestamp = "local_timestamp" () -> I64, Clock Partial, datetime::local_timestamp;
            /// `CURRENT_DATE`
            CurrentDate = "current_date" () -> I32, Clock Partial, datetime::current_date;
            /// `LOCALTIME`
            LocalTime = "local_time" () -> I32, Clock Partial, datetime::local_time;
        }
    };
}

runtime_functions!(declare);
