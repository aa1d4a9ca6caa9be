//! Message digests, as lower-case hexadecimal digits.

use crate::context::{Failure, FunctionContext};
use sha2::Digest;

fn digest<D: Digest>(bytes: &[u8]) -> String {
    hex::encode(D::digest(bytes))
}

/// `MD5(s)`
pub(crate) fn md5(_: &mut FunctionContext, s: &[u8]) -> String {
    digest::<md5::Md5>(s)
}

/// `SHA1(s)`
pub(crate) fn sha1(_: &mut FunctionContext, s: &[u8]) -> String {
    digest::<sha1::Sha1>(s)
}

/// `SHA224(s)`
pub(crate) fn sha224(_: &mut FunctionContext, s: &[u8]) -> String {
    digest::<sha2::Sha224>(s)
}

/// `SHA256(s)`
pub(crate) fn sha256(_: &mut FunctionContext, s: &[u8]) -> String {
    digest::<sha2::Sha256>(s)
}

/// `SHA384(s)`
pub(crate) fn sha384(_: &mut FunctionContext, s: &[u8]) -> String {
    digest::<sha2::Sha384>(s)
}

/// `SHA512(s)`
pub(crate) fn sha512(_: &mut FunctionContext, s: &[u8]) -> String {
    digest::<sha2::Sha512>(s)
}

/// `SHA2(s, bits)`
pub(crate) fn sha2(context: &mut FunctionContext, s: &[u8], bits: i32) -> Result<String, Failure> {
    match bits {
        224 => Ok(sha224(context, s)),
        256 => Ok(sha256(context, s)),
        384 => Ok(sha384(context, s)),
        512 => Ok(sha512(context, s)),
        _ => Err(Failure::argument(format!("SHA2 knows digests of 224, 256, 384 and 512 bits, not {bits}"))),
    }
}
