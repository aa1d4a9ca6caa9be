//! String, regular expression, encoding and hash functions.

use super::call::{BoundCall, Call, case, convert, fits, int, is_null, native, string, text_of};
use super::function::{Binding, Category, Function, functions};
use super::overload::Parameter::{Bytes, Int, Long, Text, TextOrBytes};
use super::overload::{Gives, Overload, Parameter, both_texts, length_of, same_text, shorter_text, together};
use millstream_abi::RuntimeFn as F;
use millstream_plan::expr::Expr;
use millstream_types::DataType;

const fn text(parameters: &'static [Parameter], function: F) -> Overload {
    Overload::new(parameters, function, |_| DataType::STRING)
}

const fn sized(parameters: &'static [Parameter], function: F, gives: Gives) -> Overload {
    Overload::new(parameters, function, gives)
}

const fn truth(parameters: &'static [Parameter], function: F) -> Overload {
    Overload::new(parameters, function, |_| DataType::Boolean)
}

const fn number(parameters: &'static [Parameter], function: F) -> Overload {
    Overload::new(parameters, function, |_| DataType::Int)
}

use crate::catalog;
use Binding::{Custom, Overloads};

/// Functions on strings.
pub(super) const STRING: &[Function] = functions! {String;
    "UPPER" ("UPPER(string)") Overloads(&[sized(&[Text], F::Upper, same_text)]), "The string in upper case.";
    "LOWER" ("LOWER(string)") Overloads(&[sized(&[Text], F::Lower, same_text)]), "The string in lower case.";
    "CHAR_LENGTH" ["CHARACTER_LENGTH", "LENGTH"] ("CHAR_LENGTH(string)") Overloads(&[number(&[Text], F::CharLength)]),
        "Number of characters.";
    "OCTET_LENGTH" ("OCTET_LENGTH(string | binary)") Overloads(&[number(&[TextOrBytes], F::OctetLength)]),
        "Number of bytes in UTF-8.";
    "TRIM" ("TRIM([BOTH | LEADING | TRAILING] [characters] FROM string)", "TRIM(string)") Custom(trim),
        "The string without the given characters (spaces by default) at its start, its end, or both.";
    "BTRIM" ("BTRIM(string [, characters])") Overloads(&[
        text(&[Text], F::TrimBoth).with(&[|| string(" ")]), text(&[Text, Text], F::TrimBoth)]),
        "The string without the given characters (spaces by default) at both ends.";
    "LTRIM" ("LTRIM(string [, characters])") Overloads(&[
        sized(&[Text], F::TrimLeading, shorter_text).with(&[|| string(" ")]), sized(&[Text, Text], F::TrimLeading, shorter_text)]),
        "The string without the given characters (spaces by default) at its start.";
    "RTRIM" ("RTRIM(string [, characters])") Overloads(&[
        sized(&[Text], F::TrimTrailing, shorter_text).with(&[|| string(" ")]), sized(&[Text, Text], F::TrimTrailing, shorter_text)]),
        "The string without the given characters (spaces by default) at its end.";
    "SUBSTRING" ["SUBSTR"] ("SUBSTRING(string FROM position [FOR length])", "SUBSTRING(string, position [, length])")
        Overloads(&[
            sized(&[Text, Int], F::Substring, shorter_text).with(&[|| int(i32::MAX)]),
            sized(&[Text, Int, Int], F::Substring, shorter_text).or_null()]),
        "The rest of the string from a position (from 1; negative counts from the end), or length characters of it; NULL for a negative length.";
    "LEFT" ("LEFT(string, n)") Overloads(&[sized(&[Text, Int], F::Left, shorter_text)]), "The first n characters.";
    "RIGHT" ("RIGHT(string, n)") Overloads(&[sized(&[Text, Int], F::Right, shorter_text)]), "The last n characters.";
    "LPAD" ("LPAD(string, length, pad)") Overloads(&[text(&[Text, Int, Text], F::Lpad).or_null()]),
        "The string padded at its start with pad, or truncated, to a length; NULL for a negative length or an empty pad.";
    "RPAD" ("RPAD(string, length, pad)") Overloads(&[text(&[Text, Int, Text], F::Rpad).or_null()]),
        "The string padded at its end with pad, or truncated, to a length; NULL for a negative length or an empty pad.";
    "REPEAT" ("REPEAT(string, n)") Overloads(&[text(&[Text, Int], F::Repeat)]), "The string repeated n times.";
    "REPLACE" ("REPLACE(string, search, replacement)") Overloads(&[text(&[Text, Text, Text], F::Replace)]),
        "The string with every occurrence of search replaced.";
    "REVERSE" ("REVERSE(string)") Overloads(&[text(&[Text], F::Reverse)]), "The characters in reverse order.";
    "INITCAP" ("INITCAP(string)") Overloads(&[sized(&[Text], F::InitCap, same_text)]),
        "Each word with an upper-case first letter, the rest in lower case.";
    "CONCAT" ("CONCAT(string, …)") Custom(concat), "The strings joined; NULL if any is NULL.";
    "||" ("string || string") Custom(concatenation), "The two strings joined; a CHAR if both are.";
    "CONCAT_WS" ("CONCAT_WS(separator, string, …)") Custom(concat_ws),
        "The strings that are not NULL, joined with the separator.";
    "POSITION" ("POSITION(search IN string)") Overloads(&[number(&[Text, Text], F::Position).with(&[|| int(1)])]),
        "Position (from 1) of the first occurrence, 0 if there is none.";
    "LOCATE" ("LOCATE(search, string [, from])") Overloads(&[
        number(&[Text, Text], F::Position).with(&[|| int(1)]), number(&[Text, Text, Int], F::Position)]),
        "Position (from 1) of the first occurrence at or after from, 0 if there is none.";
    "INSTR" ("INSTR(string, search)") Custom(instr), "Position (from 1) of the first occurrence, 0 if there is none.";
    "OVERLAY" ("OVERLAY(string PLACING replacement FROM position [FOR length])") Custom(overlay),
        "The string with length characters (by default as many as the replacement has) replaced, from a position on.";
    "SPLIT_INDEX" ("SPLIT_INDEX(string, separator, index)") Overloads(&[
        text(&[Text, Text, Int], F::SplitIndex).or_null(), text(&[Text, Int, Int], F::SplitIndexCode).or_null()]),
        "The part at an index (from 0) of the string split at the separator, a string or the code of a character; NULL if there is none.";
    "STARTSWITH" ("STARTSWITH(value, start)") Overloads(&[
        truth(&[Text, Text], F::StartsWith), truth(&[Bytes, Bytes], F::StartsWith)]),
        "Whether the value, a string or bytes, starts with the other one.";
    "ENDSWITH" ("ENDSWITH(value, end)") Overloads(&[
        truth(&[Text, Text], F::EndsWith), truth(&[Bytes, Bytes], F::EndsWith)]),
        "Whether the value, a string or bytes, ends with the other one.";
    "TRANSLATE" ("TRANSLATE(string, from, to)") Overloads(&[text(&[Text, Text, Text], F::Translate)]),
        "The string with each character of from replaced by the one at the same place in to, or removed if to is shorter.";
    "ASCII" ("ASCII(string)") Overloads(&[number(&[Text], F::Ascii)]), "The first byte as a number; 0 for an empty string.";
    "CHR" ("CHR(integer)") Overloads(&[text(&[Long], F::Chr)]), "The character with a code, taken modulo 256.";
    "IS_ALPHA" ("IS_ALPHA(string)") Overloads(&[truth(&[Text], F::IsAlpha)]), "Whether all characters are letters.";
    "IS_DIGIT" ("IS_DIGIT(string)") Overloads(&[truth(&[Text], F::IsDigit)]), "Whether all characters are digits.";
    "IS_DECIMAL" ("IS_DECIMAL(string)") Overloads(&[truth(&[Text], F::IsDecimal)]), "Whether the string is a number.";
    "PARSE_URL" ("PARSE_URL(url, part [, key])") Overloads(&[
        text(&[Text, Text], F::ParseUrl).or_null(), text(&[Text, Text, Text], F::ParseUrlKey).or_null()]),
        "The HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE or USERINFO of a URL, or a parameter of its QUERY; NULL if it has none.";
    "URL_ENCODE" ("URL_ENCODE(string)") Overloads(&[text(&[Text], F::UrlEncode)]),
        "The string encoded as application/x-www-form-urlencoded.";
    "URL_DECODE" ("URL_DECODE(string)") Overloads(&[text(&[Text], F::UrlDecode).or_null()]),
        "The inverse of URL_ENCODE; NULL for malformed text.";
    "URL_DECODE_RECURSIVE" ("URL_DECODE_RECURSIVE(string [, depth])") Overloads(&[
        text(&[Text], F::UrlDecodeRecursive).with(&[|| int(10)]).or_null(),
        text(&[Text, Int], F::UrlDecodeRecursive).or_null()]),
        "URL_DECODE repeated until nothing changes, at most depth times (10 by default).";
    "PRINTF" ("PRINTF(format, value, …)") Custom(super::printf::bind),
        "The values formatted as Java's Formatter does; NULL if the format is malformed or does not fit the values.";
    "ENCODE" ("ENCODE(string, charset)") Overloads(&[Overload::new(&[Text, Text], F::Encode, |_| DataType::BYTES)]),
        "The bytes of the string in US-ASCII, ISO-8859-1, UTF-8, UTF-16, UTF-16BE or UTF-16LE.";
    "DECODE" ("DECODE(binary, charset)") Overloads(&[text(&[Bytes, Text], F::Decode)]),
        "The bytes decoded as a string of a character set (see ENCODE).";
    "TO_BASE64" ("TO_BASE64(string)") Overloads(&[text(&[TextOrBytes], F::ToBase64)]), "The string, or the bytes, encoded in Base64.";
    "FROM_BASE64" ("FROM_BASE64(string)") Overloads(&[text(&[Text], F::FromBase64)]), "The string decoded from Base64.";
    "HEX" ("HEX(integer | string)") Overloads(&[text(&[Long], F::HexInteger), text(&[TextOrBytes], F::HexBytes)]),
        "The hexadecimal digits of an integer, or of the bytes of a string.";
    "UNHEX" ("UNHEX(string)") Overloads(&[Overload::new(&[Text], F::Unhex, |_| DataType::BYTES).or_null()]),
        "The bytes that hexadecimal digits stand for; NULL if there are other characters.";
    "BIN" ("BIN(integer)") Overloads(&[text(&[Long], F::Bin)]), "The binary digits of an integer.";
    "CURRENT_DATABASE" ("CURRENT_DATABASE()") Custom(current_database), "The name of the current database, always default_database.";
    "UUID" ("UUID()") Overloads(&[text(&[], F::Uuid)]), "A new random UUID for every row.";
};

/// Patterns and regular expressions.
pub(super) const REGEX: &[Function] = functions! {Regex;
    "LIKE" ("string LIKE pattern [ESCAPE character]") Overloads(&[
        truth(&[Text, Text], F::Like), truth(&[Text, Text, Text], F::LikeEscape)]),
        "Whether the string matches the pattern: % stands for any characters, _ for one. There is no escape character by default.";
    "ILIKE" ("string ILIKE pattern [ESCAPE character]") Overloads(&[
        truth(&[Text, Text], F::ILike), truth(&[Text, Text, Text], F::ILikeEscape)]),
        "LIKE that ignores case. The case of the escape character counts.";
    "SIMILAR TO" ["SIMILAR"] ("string SIMILAR TO pattern [ESCAPE character]") Overloads(&[
        truth(&[Text, Text], F::SimilarTo), truth(&[Text, Text, Text], F::SimilarToEscape)]),
        "Whether the whole string matches a regular expression of the SQL standard.";
    "REGEXP" ["REGEXP_LIKE"] ("REGEXP(string, regex)") Overloads(&[truth(&[Text, Text], F::Regexp)]),
        "Whether any part of the string matches the regular expression, written as in Java; FALSE for an empty one.";
    "REGEXP_EXTRACT" ("REGEXP_EXTRACT(string, regex [, group])") Overloads(&[
        text(&[Text, Text], F::RegexpExtract).with(&[|| int(0)]).or_null(),
        text(&[Text, Text, Int], F::RegexpExtract).or_null()]),
        "A group of the first match (0, the default, is the whole match); NULL without a match.";
    "REGEXP_REPLACE" ("REGEXP_REPLACE(string, regex, replacement)") Overloads(&[
        text(&[Text, Text, Text], F::RegexpReplace).or_null()]),
        "The string with every match replaced. The replacement is plain text: $1 is no group.";
    "REGEXP_COUNT" ("REGEXP_COUNT(string, regex)") Overloads(&[number(&[Text, Text], F::RegexpCount).or_null()]),
        "The number of matches.";
    "REGEXP_INSTR" ("REGEXP_INSTR(string, regex)") Overloads(&[number(&[Text, Text], F::RegexpInstr).or_null()]),
        "Position (from 1) of the first match, 0 if there is none.";
    "REGEXP_SUBSTR" ("REGEXP_SUBSTR(string, regex)") Overloads(&[text(&[Text, Text], F::RegexpSubstr).or_null()]),
        "The first match; NULL without one.";
};

/// Digests.
pub(super) const HASH: &[Function] = functions! {Hash;
    "MD5" ("MD5(string)") Overloads(&[sized(&[TextOrBytes], F::Md5, |_| DataType::Char(32))]), "The MD5 digest, in hexadecimal digits.";
    "SHA1" ("SHA1(string)") Overloads(&[sized(&[TextOrBytes], F::Sha1, |_| DataType::Char(40))]), "The SHA-1 digest.";
    "SHA224" ("SHA224(string)") Overloads(&[sized(&[TextOrBytes], F::Sha224, |_| DataType::Char(56))]), "The SHA-224 digest.";
    "SHA256" ("SHA256(string)") Overloads(&[sized(&[TextOrBytes], F::Sha256, |_| DataType::Char(64))]), "The SHA-256 digest.";
    "SHA384" ("SHA384(string)") Overloads(&[sized(&[TextOrBytes], F::Sha384, |_| DataType::Char(96))]), "The SHA-384 digest.";
    "SHA512" ("SHA512(string)") Overloads(&[sized(&[TextOrBytes], F::Sha512, |_| DataType::Char(128))]), "The SHA-512 digest.";
    "SHA2" ("SHA2(string, bits)") Overloads(&[sized(&[TextOrBytes, Int], F::Sha2, |_| DataType::Varchar(128))]),
        "The SHA-2 digest of 224, 256, 384 or 512 bits.";
};

fn current_database(call: Call) -> BoundCall {
    let [] = call.take::<0>()?;
    Ok(string(catalog::DATABASE))
}

/// `TRIM(string)` or, from the special syntax, `TRIM('BOTH' | 'LEADING' | 'TRAILING', characters, string)`.
fn trim(call: Call) -> BoundCall {
    let function = match &call.arguments[..] {
        [_] => F::TrimBoth,
        [side, _, _] => match text_of(side) {
            Some("BOTH") => F::TrimBoth,
            Some("LEADING") => F::TrimLeading,
            Some("TRAILING") => F::TrimTrailing,
            _ => return Err(call.mismatch()),
        },
        _ => return Err(call.mismatch()),
    };
    if !call.arguments.iter().all(|a| fits(a, DataType::is_string)) {
        return Err(call.mismatch());
    }
    let data_type =
        call.arguments.last().and_then(|a| length_of(&a.data_type)).map_or(DataType::STRING, DataType::Varchar);
    let mut arguments = call.arguments.into_iter().rev().map(|a| convert(a, &DataType::STRING));
    let s = arguments.next().expect("there are one or three arguments");
    let characters = arguments.next().unwrap_or_else(|| string(" "));
    Ok(native(function, vec![s, characters], data_type, false))
}

/// `INSTR(string, search)` is LOCATE with its arguments the other way round.
fn instr(call: Call) -> BoundCall {
    if !call.arguments.iter().all(|a| fits(a, DataType::is_string)) {
        return Err(call.mismatch());
    }
    let [s, search] = call.take::<2>()?.map(|a| convert(a, &DataType::STRING));
    Ok(native(F::Position, vec![search, s, int(1)], DataType::Int, false))
}

/// Without a length, OVERLAY replaces as many characters as the replacement has.
fn overlay(mut call: Call) -> BoundCall {
    if call.arguments.len() == 3 && fits(&call.arguments[1], DataType::is_string) {
        let replacement = convert(call.arguments[1].clone(), &DataType::STRING);
        call.arguments.push(native(F::CharLength, vec![replacement], DataType::Int, false));
    }
    super::overload::choose(&[sized(&[Text, Text, Int, Int], F::Overlay, both_texts)], call)
}

/// Puts strings together with as few calls as possible.
fn concat_all(parts: Vec<Expr>, data_type: &DataType) -> Expr {
    let mut parts = parts.into_iter().peekable();
    let mut result = parts.next().expect("there is something to put together");
    while parts.peek().is_some() {
        let arguments: Vec<Expr> = std::iter::once(result).chain(parts.by_ref().take(3)).collect();
        let function = match arguments.len() {
            2 => F::Concat2,
            3 => F::Concat3,
            _ => F::Concat4,
        };
        result = native(function, arguments, data_type.clone(), false);
    }
    result
}

/// The type of strings put together: CHAR if all are.
fn text_together(parts: &[Expr]) -> DataType {
    let lengths = parts.iter().map(|part| length_of(&part.data_type)).collect::<Option<Vec<u32>>>();
    let Some(length) = lengths.and_then(|lengths| lengths.into_iter().reduce(together)) else {
        return DataType::STRING;
    };
    match parts.iter().all(|part| matches!(part.data_type, DataType::Char(_))) {
        true => DataType::Char(length),
        false => DataType::Varchar(length),
    }
}

/// `CONCAT(a, …)`
fn concat(call: Call) -> BoundCall {
    let all = |accepts: fn(&DataType) -> bool| call.arguments.iter().all(|a| fits(a, accepts));
    let data_type = match () {
        () if call.arguments.is_empty() => return Err(call.mismatch()),
        () if all(DataType::is_string) => DataType::STRING,
        () if all(DataType::is_binary) => DataType::BYTES,
        () => return Err(call.mismatch()),
    };
    let parts = call.arguments.into_iter().map(|a| convert(a, &data_type)).collect();
    let result = concat_all(parts, &data_type);
    Ok(Expr { data_type, ..result })
}

/// `a || b`
fn concatenation(call: Call) -> BoundCall {
    let data_type = text_together(&call.arguments);
    let result = concat(call)?;
    Ok(if result.data_type.is_string() { Expr { data_type, ..result } } else { result })
}

/// `CONCAT_WS(separator, a, …)`: every part gets the separator in front unless it is NULL, and the first separator is
/// dropped from what they give together.
fn concat_ws(call: Call) -> BoundCall {
    if call.arguments.is_empty() || !call.arguments.iter().all(|a| fits(a, DataType::is_string)) {
        return Err(call.mismatch());
    }
    let mut arguments = call.arguments.into_iter().map(|a| convert(a, &DataType::STRING));
    let separator = arguments.next().expect("there is at least one argument");
    let parts: Vec<Expr> = arguments
        .flat_map(|part| match part.nullable {
            false => vec![separator.clone(), part],
            true => {
                let joined = concat_all(vec![separator.clone(), part.clone()], &DataType::STRING);
                let joined = Expr { nullable: separator.nullable, ..joined };
                vec![case(vec![(is_null(part), string(""))], joined, DataType::STRING)]
            }
        })
        .collect();
    let joined = if parts.is_empty() { string("") } else { concat_all(parts, &DataType::STRING) };
    Ok(native(F::DropPrefix, vec![joined, separator], DataType::STRING, false))
}
