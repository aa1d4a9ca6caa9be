//! The routes by which scripts come and go.
//!
//! They come in where the command gives [`Scripts`] only, and from those who have the token: a script can read and write all that the process can.

use crate::api::answer;
use crate::body::body;
use crate::jobs::{Jobs, ScriptRefused, Scripts};
use crate::rejection::Rejection;
use crate::served::{Peer, Served};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of a script.
const SCRIPT_BYTES: usize = 1 << 20;
/// Characters of a name in the log: nobody fills it with names.
const SHOWN_NAME: usize = 100;

impl From<ScriptRefused> for Rejection {
    fn from(refused: ScriptRefused) -> Rejection {
        match refused {
            ScriptRefused::Name(error) => Rejection::of(StatusCode::BAD_REQUEST, &error),
            ScriptRefused::Missing(error) => Rejection::of(StatusCode::NOT_FOUND, &error),
            ScriptRefused::Text(error) => Rejection::of(StatusCode::UNPROCESSABLE_ENTITY, &error),
            ScriptRefused::Unknown(error) => Rejection::of(StatusCode::SERVICE_UNAVAILABLE, &error),
            ScriptRefused::File(error) => Rejection::of(StatusCode::INTERNAL_SERVER_ERROR, &error),
        }
    }
}

/// `PUT /api/v1/scripts/{name}`
pub(crate) async fn submit(
    State(served): State<Arc<Served>>,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Rejection> {
    let sql = sql(request).await;
    done(served, (peer, "submit", name), move |scripts, name| Ok(scripts.submit(name, &sql?)?)).await
}

/// `DELETE /api/v1/scripts/{name}`
pub(crate) async fn remove(
    State(served): State<Arc<Served>>,
    Extension(peer): Extension<Peer>,
    Path(name): Path<String>,
) -> Result<Response, Rejection> {
    done(served, (peer, "remove", name), |scripts, name| Ok(scripts.remove(name)?)).await
}

/// The text that a request brings.
async fn sql(request: Request) -> Result<String, Rejection> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(is_text) {
        let rejection = Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a script is sent as text in UTF-8");
        return Err(rejection.advise("send the header Content-Type: application/sql, or text/plain"));
    }
    let bytes = body(request, SCRIPT_BYTES).await?;
    String::from_utf8(bytes).map_err(|_| Rejection::new(StatusCode::BAD_REQUEST, "the script is not UTF-8 text"))
}

/// Whether a content type is one of SQL in UTF-8.
fn is_text(kind: &str) -> bool {
    let mut parts = kind.split(';').map(|part| part.trim().to_ascii_lowercase());
    let is_kind = parts.next().is_some_and(|kind| ["application/sql", "text/plain"].contains(&kind.as_str()));
    let is_utf8 = |part: String| part.strip_prefix("charset=").is_none_or(|set| set.trim_matches('"') == "utf-8");
    is_kind && parts.all(is_utf8)
}

/// Has something done about a script, and writes down that it was asked for: never with the text, nor with what is wrong with it, as that may quote
/// the text. No other request waits for it.
async fn done(
    served: Arc<Served>,
    (Peer(peer), what, name): (Peer, &'static str, String),
    work: impl FnOnce(&dyn Scripts, &str) -> Result<String, Rejection> + Send + 'static,
) -> Result<Response, Rejection> {
    let jobs: Arc<dyn Jobs> = Arc::clone(&served.jobs);
    let done = tokio::task::spawn_blocking(move || {
        let no_scripts = || Rejection::new(StatusCode::FORBIDDEN, "no scripts are taken");
        // What is wrong with the command is written down as well, and nobody is told its words.
        let worked = catch_unwind(AssertUnwindSafe(|| {
            jobs.scripts().ok_or_else(no_scripts).and_then(|scripts| work(scripts, &name))
        }));
        let done = worked.unwrap_or_else(|_| Err(failed()));
        let outcome = match &done {
            Ok(message) => message.clone(),
            Err(rejection) => format!("refused: {}", rejection.reason()),
        };
        let shown: String = name.chars().take(SHOWN_NAME).collect();
        jobs.audit(&format!("HTTP request of {peer}: {what} script {shown:?}: {outcome}"));
        done
    });
    let message = done.await.unwrap_or_else(|_| Err(failed()))?;
    Ok((StatusCode::ACCEPTED, answer(&json!({"message": message}))).into_response())
}

fn failed() -> Rejection {
    Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, "the check of the script has failed: see the log of the process")
}

#[cfg(test)]
mod tests {
    use super::is_text;

    #[test]
    fn a_script_is_text_in_utf_8() {
        for kind in ["application/sql", "text/plain", "Text/Plain; charset=UTF-8", "application/sql;charset=\"utf-8\""]
        {
            assert!(is_text(kind), "{kind}");
        }
        for kind in ["", "application/json", "text/plain; charset=latin1", "text/plainer", "text/html"] {
            assert!(!is_text(kind), "{kind}");
        }
    }
}
