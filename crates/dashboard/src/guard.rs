//! Who may ask for what.
//!
//! A browser on this machine visits pages of others, and these can send requests to a server here: as forms or scripts of another origin,
//! or under a name of theirs that resolves to this machine (DNS rebinding). So a server of this machine wants to be called by a name
//! of this machine, and what changes a job wants a header that other origins cannot send, because nothing here allows them to
//! ([CORS](https://fetch.spec.whatwg.org/#http-cors-protocol) is not answered). Beyond this machine a token is wanted as well, which travels
//! under TLS alone.
//!
//! Scripts are more than actions: whoever sends one reads and writes what the process can. So they want the token on this machine, too, which
//! other users of it and the pages that they look at do not have.

use crate::jobs::Mode;
use crate::rejection::Rejection;
use crate::served::{Exposure, Served};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// What a request that changes a job has to have, with any value.
pub(crate) const ACTION_HEADER: &str = "x-millstream-action";

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever reaches the address: probes and metrics, which have names and numbers, no rows and no SQL.
    Open,
    /// Where the dashboard is served: its files, which are the same for everybody.
    Page,
    /// Who may see jobs: on this machine everybody, elsewhere who has the token.
    Read,
    /// Who may see jobs, and asks from the dashboard or a program, not from a page of another site.
    Act,
    /// Who may do that and has the token, which is needed on this machine as well: where the command takes scripts.
    Submit,
}

/// What every answer says to browsers: nothing but the files of this server is loaded, framed or guessed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Lets a request pass, or answers it.
pub(crate) async fn guard(
    State((served, access)): State<(Arc<Served>, Access)>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match permit(&served, access, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    protect(response.headers_mut());
    response
}

/// Adds what browsers are told.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let cached = headers.contains_key(header::CACHE_CONTROL);
    let mut set = |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    if !cached {
        set(header::CACHE_CONTROL, "no-store");
    }
}

fn permit(served: &Served, access: Access, headers: &HeaderMap) -> Result<(), Rejection> {
    let exposure = &served.exposure;
    if *exposure == Exposure::ThisMachine && !is_called_by_its_name(headers, &served.names) {
        return Err(Rejection::new(StatusCode::MISDIRECTED_REQUEST, "this server is not called by this name")
            .advise("use http://127.0.0.1 or http://localhost, or give the name with --http-name"));
    }
    if access == Access::Open {
        return Ok(());
    }
    match exposure {
        Exposure::ThisMachine => {}
        Exposure::MetricsOnly => {
            return Err(Rejection::new(StatusCode::FORBIDDEN, "only /metrics, /health and /ready are served to other machines")
                .advise("give --http-token-file, --http-certificate and --http-key, or listen on this machine and forward the port: ssh -L"));
        }
        Exposure::Token(token) if access != Access::Page => {
            let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
            if !bool::from(given.trim().as_bytes().ct_eq(token.0.as_bytes())) {
                return Err(Rejection::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
                    .advise("send it as a header: Authorization: Bearer TOKEN"));
            }
        }
        Exposure::Token(_) => {}
    }
    if access == Access::Submit {
        takes_scripts(served)?;
    }
    if ![Access::Act, Access::Submit].contains(&access) {
        return Ok(());
    }
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_foreign = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        origin.split_once("://").is_none_or(|(_, host)| host != own)
    };
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok()).unwrap_or("same-origin");
    if !headers.contains_key(ACTION_HEADER)
        || headers.get(header::ORIGIN).is_some_and(is_foreign)
        || !["same-origin", "none"].contains(&site)
    {
        return Err(Rejection::new(
            StatusCode::FORBIDDEN,
            "what changes a job is asked for by the dashboard or a program",
        )
        .advise(format!("send the header {ACTION_HEADER}: 1")));
    }
    Ok(())
}

/// Whether scripts are taken from those who have the token.
fn takes_scripts(served: &Served) -> Result<(), Rejection> {
    let has_token = matches!(served.exposure, Exposure::Token(_));
    let (message, advice) = match served.jobs.mode() {
        _ if has_token && served.jobs.scripts().is_some() => return Ok(()),
        Mode::Run => (
            "the jobs of this process are those of its command line, so it takes no scripts",
            "millstream serve DIR --allow-submit --http-token-file FILE takes them",
        ),
        Mode::Serve => (
            "scripts are taken over HTTP with --allow-submit only",
            "start millstream serve with --allow-submit and --http-token-file FILE, or write the file into its directory",
        ),
    };
    Err(Rejection::new(StatusCode::FORBIDDEN, message).advise(advice))
}

/// Whether the header `Host` names this machine, or is one of `names`.
fn is_called_by_its_name(headers: &HeaderMap, names: &[String]) -> bool {
    let hosts: Vec<&HeaderValue> = headers.get_all(header::HOST).iter().collect();
    let [host] = hosts[..] else { return false };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_address = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost") || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::Token;

    fn is_called(hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        is_called_by_its_name(&headers, &["dash.example".to_string()])
    }

    #[test]
    fn a_server_of_this_machine_is_called_by_its_name() {
        for host in
            ["127.0.0.1:9464", "127.0.0.1", "localhost:1", "LocalHost", "[::1]:9464", "[::1]", "Dash.Example:80"]
        {
            assert!(is_called(&[host]), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:9464",
            "localhost.evil.example",
            "[::2]",
            "0.0.0.0",
            "",
            ":80",
            "[::1",
        ] {
            assert!(!is_called(&[host]), "{host}");
        }
        assert!(!is_called(&[]) && !is_called(&["localhost", "evil.example"]));
    }

    #[test]
    fn a_token_is_not_shown() {
        assert_eq!(format!("{:?}", Exposure::Token(Token("s3cret".into()))), "Token(***)");
    }
}
