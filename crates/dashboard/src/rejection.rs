//! Answers that are not what was asked for.

use crate::jobs::Refused;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream::{Diagnostic, secret};
use serde_json::json;

/// The type of a body in JSON.
pub(crate) const JSON: &str = "application/json";

/// An answer that is not what was asked for: status, and why.
#[derive(Debug)]
pub(crate) struct Rejection {
    status: StatusCode,
    code: Option<String>,
    message: String,
    advice: Option<String>,
}

impl Rejection {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Rejection {
        Rejection { status, code: None, message: message.into(), advice: None }
    }

    /// One that a diagnostic explains.
    pub(crate) fn of(status: StatusCode, error: &Diagnostic) -> Rejection {
        let advice = error.help().map(|advice| secret::conceal(advice).into_owned());
        let place = error.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        // What it was told of its text may be known as a secret by now.
        let message = secret::conceal(&format!("{}{place}", error.message)).into_owned();
        Rejection { status, code: Some(error.code.to_string()), message, advice }
    }

    /// What it is, without its words.
    pub(crate) fn reason(&self) -> String {
        self.code.clone().unwrap_or_else(|| self.status.as_str().to_string())
    }

    #[must_use]
    pub(crate) fn advise(self, advice: impl Into<String>) -> Rejection {
        Rejection { advice: Some(advice.into()), ..self }
    }
}

impl From<Refused> for Rejection {
    fn from(Refused { message, advice }: Refused) -> Rejection {
        Rejection { advice, ..Rejection::new(StatusCode::CONFLICT, message) }
    }
}

impl From<Diagnostic> for Rejection {
    fn from(error: Diagnostic) -> Rejection {
        Rejection::of(StatusCode::INTERNAL_SERVER_ERROR, &error)
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let Rejection { status, code, message, advice } = self;
        let error = json!({"error": {"code": code, "message": message, "advice": advice}});
        (status, [(header::CONTENT_TYPE, JSON)], error.to_string() + "\n").into_response()
    }
}
