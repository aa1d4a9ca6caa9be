//! Byte strings as hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends two lower-case hexadecimal digits a byte.
pub fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() * 2);
    for &byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Appends a SQL literal: `x'cafe'`, as Flink prints BINARY and BYTES.
pub fn write_bytes_literal(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"x'");
    write_hex(out, bytes);
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_written_as_digits() {
        let mut out = Vec::new();
        super::write_bytes_literal(&mut out, &[0xCA, 0xFE, 0x00]);
        assert_eq!(out, b"x'cafe00'");
    }
}
