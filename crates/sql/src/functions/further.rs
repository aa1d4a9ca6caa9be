//! What `docs/functions.md` says of DataFusion's functions, in the words of SQL types; a test compares their names with those
//! that [`super::fallback`] takes from DataFusion.

use super::function::{Category, Function, functions};

/// DataFusion's functions by name.
pub(super) const FURTHER: &[Function<()>] = functions! {Vectorised;
    "ACOSH" ("ACOSH(number)") (), "The inverse hyperbolic cosine.";
    "ASINH" ("ASINH(number)") (), "The inverse hyperbolic sine.";
    "ATANH" ("ATANH(number)") (), "The inverse hyperbolic tangent.";
    "BIT_LENGTH" ("BIT_LENGTH(string)") (), "The number of bits in UTF-8.";
    "CBRT" ("CBRT(number)") (), "The cube root.";
    "CONTAINS" ("CONTAINS(string, search)") (), "Whether the string contains the other one.";
    "DATE_BIN" ("DATE_BIN(interval, time [, origin])") (),
        "The start of the interval (a string) that a time lies in, counted from the origin, 1970-01-01 by default.";
    "DATE_PART" ["DATEPART"] ("DATE_PART(unit, time)") (),
        "A part of a date, time or timestamp as an INT (a DOUBLE for 'epoch'); the unit is a string.";
    "DATE_TRUNC" ["DATETRUNC"] ("DATE_TRUNC(unit, time)") (),
        "The start of the unit that a time lies in; the unit is a string.";
    "ENDS_WITH" ("ENDS_WITH(string, end)") (), "Whether the string ends with the other one.";
    "FACTORIAL" ("FACTORIAL(integer)") (), "The factorial; an error for negative numbers and above 20.";
    "FIND_IN_SET" ("FIND_IN_SET(string, list)") (), "Position (from 1) of the string in a list separated by commas, 0 if it is not there.";
    "GCD" ("GCD(integer, integer)") (), "The greatest common divisor.";
    "ISNAN" ("ISNAN(number)") (), "Whether the number is NaN.";
    "ISZERO" ("ISZERO(number)") (), "Whether the number is 0.0 or -0.0.";
    "LCM" ("LCM(integer, integer)") (), "The least common multiple; 0 if either number is 0.";
    "LEVENSHTEIN" ("LEVENSHTEIN(string, string)") (),
        "The least number of insertions, deletions and replacements of characters that turn one string into the other.";
    "MAKE_DATE" ("MAKE_DATE(year, month, day)") (), "The date of a year, month and day; an error if there is none.";
    "MAKE_TIME" ("MAKE_TIME(hour, minute, second)") (), "The time of day of an hour, minute and second; an error if there is none.";
    "NANVL" ("NANVL(number, replacement)") (), "The number, or the replacement if it is NaN.";
    "SIGNUM" ("SIGNUM(number)") (), "-1.0, 0.0 or 1.0.";
    "SPLIT_PART" ("SPLIT_PART(string, delimiter, position)") (),
        "The part at a position (from 1; negative counts from the end) of the string split at the delimiter; an empty string if there is none.";
    "STARTS_WITH" ("STARTS_WITH(string, start)") (), "Whether the string starts with the other one.";
    "STRPOS" ("STRPOS(string, search)") (), "Position (from 1) of the first occurrence, 0 if there is none.";
    "SUBSTRING_INDEX" ["SUBSTR_INDEX"] ("SUBSTRING_INDEX(string, delimiter, count)") (),
        "The part before count occurrences of the delimiter, or after those counted from the end if count is negative.";
    "TO_CHAR" ("TO_CHAR(time, format)") (),
        "The date, time or timestamp as text in a [format of strftime](https://docs.rs/chrono/latest/chrono/format/strftime/index.html).";
    "TO_HEX" ("TO_HEX(integer)") (), "The hexadecimal digits of an integer, in lower case.";
    "TO_LOCAL_TIME" ("TO_LOCAL_TIME(timestamp)") (), "The timestamp in UTC without a time zone, a TIMESTAMP.";
    "TO_TIME" ("TO_TIME(string [, format, …])") (),
        "The time of day that a string stands for, in the first format of strftime that fits; an error if none does.";
    "TO_TIMESTAMP_MICROS" ("TO_TIMESTAMP_MICROS(value [, format, …])") (),
        "The TIMESTAMP(6) of microseconds since the epoch, or of a string; an error for a malformed one.";
    "TO_TIMESTAMP_MILLIS" ("TO_TIMESTAMP_MILLIS(value [, format, …])") (),
        "The TIMESTAMP(3) of milliseconds since the epoch, or of a string; an error for a malformed one.";
    "TO_TIMESTAMP_NANOS" ("TO_TIMESTAMP_NANOS(value [, format, …])") (),
        "The TIMESTAMP(9) of nanoseconds since the epoch, or of a string; an error for a malformed one.";
    "TO_TIMESTAMP_SECONDS" ("TO_TIMESTAMP_SECONDS(value [, format, …])") (),
        "The TIMESTAMP(0) of seconds since the epoch, or of a string; an error for a malformed one.";
    "TO_UNIXTIME" ("TO_UNIXTIME(value [, format, …])") (),
        "Seconds since the epoch of a date, a timestamp or a string, in UTC; an error for a malformed string.";
};

/// The function of an upper-case name.
pub(super) fn find(name: &str) -> Option<&'static Function<()>> {
    FURTHER.iter().find(|function| function.names().any(|known| known == name))
}

/// How a function of an upper-case name is called.
#[cfg(feature = "fallback")]
pub(super) fn usage(name: &str) -> String {
    find(name).map(|function| function.signatures.join(" or ")).unwrap_or_default()
}
