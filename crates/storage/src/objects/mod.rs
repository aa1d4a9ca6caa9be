//! Object stores, where the feature `s3` is on. Without it no directory is in one, and an address of one is refused.

mod failure;
#[cfg(not(feature = "s3"))]
mod none;
#[cfg(feature = "s3")]
mod s3;

use crate::store::StoredFile;
pub(crate) use failure::is_unavailable;
pub use failure::store_failed;
#[cfg(not(feature = "s3"))]
pub(crate) use none::NoObjects as ObjectDirectory;
#[cfg(feature = "s3")]
pub(crate) use s3::ObjectDirectory;

/// Where S3 is, if it is not Amazon's.
pub(crate) fn endpoint() -> Option<String> {
    ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].iter().find_map(|name| std::env::var(name).ok())
}

/// What is in a directory.
pub(crate) struct Entries {
    /// In order of their names.
    pub(crate) files: Vec<StoredFile>,
    pub(crate) directories: Vec<String>,
}
