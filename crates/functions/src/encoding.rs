//! Character sets, Base64, hexadecimal and binary digits.

use crate::context::Failure;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Java's basic decoder: padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The character sets that ENCODE and DECODE know.
#[derive(Clone, Copy)]
enum Charset {
    Ascii,
    Latin1,
    Utf8,
    Utf16,
    Utf16Big,
    Utf16Little,
}

impl Charset {
    fn of(name: &str) -> Result<Charset, Failure> {
        const ALL: [(&str, Charset); 6] = [
            ("US-ASCII", Charset::Ascii),
            ("ISO-8859-1", Charset::Latin1),
            ("UTF-8", Charset::Utf8),
            ("UTF-16", Charset::Utf16),
            ("UTF-16BE", Charset::Utf16Big),
            ("UTF-16LE", Charset::Utf16Little),
        ];
        match ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, charset)) => Ok(*charset),
            None => Err(Failure::argument(format!(
                "unknown character set '{name}'; use US-ASCII, ISO-8859-1, UTF-8, UTF-16, UTF-16BE or UTF-16LE"
            ))),
        }
    }
}

/// `ENCODE(s, charset)`: a character that the set lacks becomes `?`; UTF-16 is big-endian with a byte order mark.
pub(crate) fn encode(s: &str, charset: &str) -> Result<Vec<u8>, Failure> {
    let single = |limit: u32| s.chars().map(|c| if (c as u32) < limit { c as u32 as u8 } else { b'?' }).collect();
    Ok(match Charset::of(charset)? {
        Charset::Ascii => single(0x80),
        Charset::Latin1 => single(0x100),
        Charset::Utf8 => s.as_bytes().to_vec(),
        Charset::Utf16 => [0xFE, 0xFF].into_iter().chain(s.encode_utf16().flat_map(u16::to_be_bytes)).collect(),
        Charset::Utf16Big => s.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Charset::Utf16Little => s.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let mut text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if bytes.len() % 2 == 1 {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}

/// `DECODE(bytes, charset)`: bytes that mean nothing become U+FFFD.
pub(crate) fn decode(bytes: &[u8], charset: &str) -> Result<String, Failure> {
    Ok(match Charset::of(charset)? {
        Charset::Ascii => {
            bytes.iter().map(|&b| if b.is_ascii() { char::from(b) } else { char::REPLACEMENT_CHARACTER }).collect()
        }
        Charset::Latin1 => bytes.iter().map(|&b| char::from(b)).collect(),
        Charset::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Charset::Utf16 => match bytes {
            [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
            _ => utf16(bytes, u16::from_be_bytes),
        },
        Charset::Utf16Big => utf16(bytes, u16::from_be_bytes),
        Charset::Utf16Little => utf16(bytes, u16::from_le_bytes),
    })
}

/// `TO_BASE64(s)`
pub(crate) fn to_base64(s: &[u8]) -> String {
    BASE64.encode(s)
}

/// `FROM_BASE64(s)`: decoded bytes that are not UTF-8 become U+FFFD.
pub(crate) fn from_base64(s: &[u8]) -> Result<String, Failure> {
    match BASE64.decode(s) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(Failure::argument(format!("FROM_BASE64 got text that is not Base64: {error}"))),
    }
}

/// `HEX(n)`: upper-case digits of the two's complement.
pub(crate) fn hex_integer(n: i64) -> String {
    format!("{n:X}")
}

/// `HEX(s)`: two digits for each byte.
pub(crate) fn hex_bytes(s: &[u8]) -> String {
    hex::encode_upper(s)
}

/// `BIN(n)`: binary digits of the two's complement.
pub(crate) fn bin(n: i64) -> String {
    format!("{n:b}")
}

/// `UNHEX(s)`: NULL unless all characters are digits; with an odd number of them the first one only has to be a
/// digit and stands for a zero byte, as in Flink.
pub(crate) fn unhex(s: &[u8]) -> Option<Vec<u8>> {
    if !s.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let (odd, pairs) = s.split_at(s.len() % 2);
    let mut bytes = vec![0; odd.len()];
    bytes.extend(hex::decode(pairs).ok()?);
    Some(bytes)
}
