//! Why an object store did not do what it was asked for.

use millstream_types::{Code, Diagnostic};
use std::io;
use thiserror::Error;

/// The store could not be asked, or has refused: nothing is known about the object.
#[derive(Debug, Error)]
#[error("{text}")]
struct Unavailable {
    text: String,
    advice: &'static str,
}

#[cfg(feature = "s3")]
const UNREACHABLE: &str = "check that the store can be reached (AWS_ENDPOINT_URL, AWS_REGION, the network), and run the job \
     again: it resumes from its last checkpoint";
#[cfg(feature = "s3")]
const NO_BUCKET: &str = "make the bucket, or check its name, AWS_REGION and AWS_ENDPOINT_URL";
#[cfg(feature = "s3")]
const DENIED: &str = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the role of the machine): they must be allowed to \
     list the bucket, and to get, put and delete its objects";

/// An error of a store as one of input and output.
#[cfg(feature = "s3")]
pub(super) fn io_error(place: &str, error: &object_store::Error) -> io::Error {
    use object_store::Error;
    let whole = error.to_string();
    let unavailable = |kind, text, advice| io::Error::new(kind, Unavailable { text, advice });
    // What S3 says itself is better than what was made of it.
    let said = element(&whole, "Code").map_or(whole.as_str(), |code| code);
    let said = element(&whole, "Message").map_or(said.to_string(), |message| format!("{message} ({said})"));
    match error {
        // Without keys the metadata service of Amazon's machines is asked for some.
        _ if whole.contains("169.254.169.254") => {
            let text = format!("there are no credentials for {place}, and the machine has no role: {said}");
            unavailable(io::ErrorKind::PermissionDenied, text, DENIED)
        }
        _ if whole.contains("<Code>NoSuchBucket</Code>") => {
            unavailable(io::ErrorKind::NotFound, format!("the bucket of {place} does not exist"), NO_BUCKET)
        }
        Error::NotFound { .. } => io::ErrorKind::NotFound.into(),
        Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists.into(),
        // Behind the end of the object.
        _ if whole.contains("code: 416") => io::ErrorKind::UnexpectedEof.into(),
        // Lists that are denied come as errors of no kind.
        _ if ["code: 401", "code: 403"].iter().any(|status| whole.contains(status)) => {
            unavailable(io::ErrorKind::PermissionDenied, format!("access to {place} is denied: {said}"), DENIED)
        }
        _ => unavailable(io::ErrorKind::Other, format!("{place} does not answer as it should: {said}"), UNREACHABLE),
    }
}

/// The text of the first XML element of a name.
#[cfg(feature = "s3")]
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// Whether an error says that a store could not be asked, and nothing about the file.
pub(crate) fn is_unavailable(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unavailable>())
}

/// An error of a store as one for people; `what` could not be done.
pub fn store_failed(code: Code, what: &str, error: &io::Error) -> Diagnostic {
    let diagnostic = Diagnostic::new(code, format!("{what}: {error}"));
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Unavailable>()) {
        Some(Unavailable { advice, .. }) => diagnostic.advise(*advice),
        None => diagnostic,
    }
}
