//! Message digests, as lower-case hexadecimal digits.

use crate::context::Failure;
use sha2::Digest;

/// `MD5(s)`, `SHA1(s)`, `SHA224(s)` …
pub(crate) fn digest<D: Digest>(bytes: &[u8]) -> String {
    hex::encode(D::digest(bytes))
}

/// `SHA2(s, bits)`
pub(crate) fn sha2(s: &[u8], bits: i32) -> Result<String, Failure> {
    match bits {
        224 => Ok(digest::<sha2::Sha224>(s)),
        256 => Ok(digest::<sha2::Sha256>(s)),
        384 => Ok(digest::<sha2::Sha384>(s)),
        512 => Ok(digest::<sha2::Sha512>(s)),
        _ => Err(Failure::argument(format!("SHA2 knows digests of 224, 256, 384 and 512 bits, not {bits}"))),
    }
}
