//! All routes, and who may use each.

use crate::guard::{Access, guard, protect};
use crate::rejection::Rejection;
use crate::served::Served;
use crate::{api, pages, scripts};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use std::sync::Arc;

/// A route.
pub(crate) struct Route {
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    handler: fn() -> MethodRouter<Arc<Served>>,
}

macro_rules! route {
    ($method:ident, $path:literal, $access:ident, $handler:path) => {
        Route { method: stringify!($method), path: $path, access: Access::$access, handler: || $method($handler) }
    };
}

/// Every route that there is.
pub(crate) const ROUTES: &[Route] = &[
    route!(get, "/metrics", Open, api::metrics),
    route!(get, "/health", Open, api::health),
    route!(get, "/ready", Open, api::ready),
    route!(get, "/", Page, pages::index),
    route!(get, "/app.js", Page, pages::script),
    route!(get, "/app.css", Page, pages::style),
    route!(get, "/icon.svg", Page, pages::icon),
    route!(get, "/jobs.html", Read, pages::plain),
    route!(get, "/api/v1/openapi.json", Page, api::openapi),
    route!(get, "/api/v1", Read, api::about),
    route!(get, "/api/v1/jobs", Read, api::jobs),
    route!(get, "/api/v1/jobs/{job}", Read, api::job),
    route!(get, "/api/v1/jobs/{job}/plan", Read, api::plan),
    route!(get, "/api/v1/jobs/{job}/stats", Read, api::stats),
    route!(get, "/api/v1/jobs/{job}/checkpoints", Read, api::checkpoints),
    route!(get, "/api/v1/jobs/{job}/history", Read, api::history),
    route!(get, "/api/v1/jobs/{job}/code", Read, api::code),
    route!(get, "/api/v1/jobs/{job}/rows", Read, api::rows),
    route!(get, "/api/v1/jobs/{job}/events", Read, api::events),
    route!(post, "/api/v1/jobs/{job}/checkpoint", Act, api::checkpoint),
    route!(post, "/api/v1/jobs/{job}/stop", Act, api::stop),
    route!(post, "/api/v1/jobs/{job}/rescale", Act, api::rescale),
    route!(put, "/api/v1/scripts/{name}", Submit, scripts::submit),
    route!(delete, "/api/v1/scripts/{name}", Submit, scripts::remove),
];

/// All of them, each behind its guard.
pub(crate) fn router(served: &Arc<Served>) -> Router {
    let guarded = |router: Router<Arc<Served>>, route: &Route| {
        let guard = from_fn_with_state((Arc::clone(served), route.access), guard);
        router.route(route.path, (route.handler)().layer(guard))
    };
    ROUTES.iter().fold(Router::new(), guarded).fallback(nowhere).with_state(Arc::clone(served))
}

/// What is nowhere.
async fn nowhere() -> Response {
    let rejection = Rejection::new(StatusCode::NOT_FOUND, "there is nothing at this path")
        .advise("/ is the dashboard, /api/v1/openapi.json describes the API, /metrics is for Prometheus, /health and /ready are probes");
    let mut response = rejection.into_response();
    protect(response.headers_mut());
    response
}
