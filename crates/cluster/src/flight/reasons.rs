//! Reasons on the wire: diagnostics as JSON, and as the statuses that end streams of gRPC.

use crate::transport::lost;
use millstream_types::{Code, Diagnostic, Place};
use serde::{Deserialize, Serialize};
use tonic::Status;

/// What marks the answer that a node has not begun an attempt yet.
const NOT_YET: &[u8] = b"not yet";

/// A diagnostic on the wire.
#[derive(Serialize, Deserialize)]
struct WireDiagnostic {
    code: u16,
    message: String,
    advice: Option<String>,
    place: Option<WirePlace>,
}

#[derive(Serialize, Deserialize)]
enum WirePlace {
    Sql { line: u64, column: u64, length: u64 },
    Data { resource: String, offset: Option<u64>, line: Option<u64>, column: Option<String> },
    Option(String),
}

/// A diagnostic as bytes.
pub(super) fn encode(why: &Diagnostic) -> Vec<u8> {
    let place = why.place.clone().map(|place| match place {
        Place::Sql { line, column, length } => WirePlace::Sql { line, column, length },
        Place::Data { resource, offset, line, column } => WirePlace::Data { resource, offset, line, column },
        Place::Option(name) => WirePlace::Option(name),
    });
    let wire = WireDiagnostic { code: why.code.0, message: why.message.clone(), advice: why.advice.clone(), place };
    serde_json::to_vec(&wire).expect("texts and numbers can be written as JSON")
}

/// What [`encode`] has written.
pub(super) fn decode(bytes: &[u8]) -> Option<Diagnostic> {
    let wire: WireDiagnostic = serde_json::from_slice(bytes).ok()?;
    let mut why = Diagnostic::new(Code(wire.code), wire.message);
    if let Some(advice) = wire.advice {
        why = why.advise(advice);
    }
    Some(match wire.place {
        None => why,
        Some(WirePlace::Sql { line, column, length }) => why.at(Place::Sql { line, column, length }),
        Some(WirePlace::Data { resource, offset, line, column }) => {
            why.at(Place::Data { resource, offset, line, column })
        }
        Some(WirePlace::Option(name)) => why.at(Place::Option(name)),
    })
}

/// A diagnostic as the end of a stream.
pub(super) fn status_of(why: &Diagnostic) -> Status {
    Status::with_details(tonic::Code::FailedPrecondition, why.code.to_string(), encode(why).into())
}

/// What a status without a diagnostic says.
pub(super) fn text_of(status: &Status) -> String {
    match (std::error::Error::source(status), status.message()) {
        (Some(source), _) => innermost(source),
        (None, "") => status.code().to_string(),
        (None, message) => message.to_string(),
    }
}

/// Why a stream with a node has ended.
pub(super) fn diagnostic_of(status: &Status, node: usize) -> Diagnostic {
    decode(status.details()).unwrap_or_else(|| lost(node, text_of(status)))
}

/// The answer that a node has not begun an attempt yet.
pub(super) fn not_yet() -> Status {
    Status::with_details(tonic::Code::Unavailable, "", NOT_YET.into())
}

/// Whether a status is [`not_yet`].
pub(super) fn is_not_yet(status: &Status) -> bool {
    status.details() == NOT_YET
}

/// What is at the bottom of an error: layers of HTTP say only that something below failed.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
