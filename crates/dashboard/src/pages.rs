//! The files of the dashboard, and a table without script.

use crate::jobs::JobSnapshot;
use crate::served::Served;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use std::fmt::Write;
use std::io::Read;
use std::sync::Arc;

/// What `scripts/web.sh` had built when this was: names and bytes, compressed with gzip.
const ASSETS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Instead of the dashboard in a build without it.
const MISSING: &str = "<!doctype html><html lang=\"en\"><title>Millstream</title><h1>Millstream</h1><p>This program was built without the dashboard's pages: \
     run <code>scripts/web.sh</code>, which needs Node.js, and build it again.</p><p><a href=\"/jobs.html\">The jobs as a plain table</a></p></html>";

fn asset(name: &str, kind: &'static str, headers: &HeaderMap) -> Option<Response> {
    let (_, bytes) = ASSETS.iter().find(|(known, _)| *known == name)?;
    // A build has the same names as the one before.
    let head = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache"), (header::VARY, "accept-encoding")];
    let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if encodings.split(',').any(|encoding| encoding.trim() == "gzip") {
        return Some((head, [(header::CONTENT_ENCODING, "gzip")], *bytes).into_response());
    }
    let mut plain = Vec::new();
    // What has been embedded is whole.
    flate2::read::GzDecoder::new(*bytes).read_to_end(&mut plain).ok()?;
    Some((head, plain).into_response())
}

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    asset("index.html", "text/html; charset=utf-8", &headers).unwrap_or_else(|| Html(MISSING).into_response())
}

fn file(name: &str, kind: &'static str, headers: &HeaderMap) -> Response {
    asset(name, kind, headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

/// `GET /app.js`
pub(crate) async fn script(headers: HeaderMap) -> Response {
    file("app.js", "text/javascript; charset=utf-8", &headers)
}

/// `GET /app.css`
pub(crate) async fn style(headers: HeaderMap) -> Response {
    file("app.css", "text/css; charset=utf-8", &headers)
}

/// `GET /icon.svg`
pub(crate) async fn icon(headers: HeaderMap) -> Response {
    file("icon.svg", "image/svg+xml", &headers)
}

/// `GET /jobs.html`: for browsers without script, and for people with `curl`.
pub(crate) async fn plain(State(served): State<Arc<Served>>) -> Html<String> {
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><title>Jobs · Millstream</title><h1>Jobs</h1><table><caption>Jobs of this process</caption><thead><tr>\
         <th scope=\"col\">job</th><th scope=\"col\">state</th><th scope=\"col\">restarts</th><th scope=\"col\">rows in</th>\
         <th scope=\"col\">rows out</th><th scope=\"col\">error</th></tr></thead><tbody>",
    );
    for JobSnapshot { view, stats } in served.snapshots() {
        let stats = stats.unwrap_or_default();
        let state = serde_json::to_value(view.state).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&view.name),
            state.as_str().unwrap_or_default(),
            view.restarts,
            stats.rows_in,
            stats.rows_out,
            escaped(view.error.as_deref().unwrap_or_default())
        );
    }
    Html(out + "</tbody></table></html>\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
