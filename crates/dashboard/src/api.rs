//! The routes that answer with JSON or text: metrics, probes, and the REST interface that `openapi.json` describes.

use crate::body::body;
use crate::jobs::{Action, JobSnapshot, JobView};
use crate::problems::Problem;
use crate::rejection::{JSON, Rejection};
use crate::served::{Peer, Served};
use crate::{metrics, problems};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use millstream::{ProgramText, StatsSnapshot, VariantText, secret};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of the body of a request.
const BODY_BYTES: usize = 4 << 10;
/// Between two events of statistics.
const EVENT_EVERY: Duration = Duration::from_secs(1);

/// What is asked of.
type Asked = State<Arc<Served>>;
/// Who asks.
type AskedBy = Extension<Peer>;
/// The name of a job in a path.
type Name = Path<String>;

/// An answer in which no text has a secret, whatever part of a plan or a failure has brought it along.
pub(crate) fn answer(value: &impl Serialize) -> Response {
    match serde_json::to_value(value) {
        Ok(mut value) => {
            conceal(&mut value);
            plain_answer(&value)
        }
        Err(error) => Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// One of data, which is shown as it is.
fn plain_answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, JSON)], value.to_string()).into_response()
}

fn conceal(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = secret::conceal(text) {
                *text = masked;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(conceal),
        Value::Object(fields) => fields.values_mut().for_each(conceal),
        _ => {}
    }
}

/// What a job is, for lists.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    id: &'a str,
    name: &'a str,
    state: crate::jobs::JobState,
    since_ms: u64,
    running_s: f64,
    restarts: u64,
    rows_in: u64,
    rows_out: u64,
    #[serde(flatten)]
    rates: crate::history::Rates,
    watermark_ms: Option<i64>,
    memory_used_bytes: u64,
    memory_limit_bytes: u64,
    late: u64,
    malformed: u64,
    failed: u64,
    checkpoint_age_s: Option<f64>,
    error: Option<&'a str>,
    file: Option<&'a str>,
    problems: Vec<Problem>,
}

fn ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// What is known of a job at a glance.
fn summary(served: &Served, snapshot: &JobSnapshot) -> Value {
    let JobSnapshot { view, stats } = snapshot;
    let (rates, problems) =
        served.histories.of(&view.name, |history| (history.rates(), problems::of(snapshot, history.recent())));
    let unbegun = StatsSnapshot::default();
    let stats = stats.as_ref().unwrap_or(&unbegun);
    let summary = Summary {
        id: &view.name,
        name: &view.name,
        state: view.state,
        since_ms: ms(view.since),
        running_s: stats.elapsed.as_secs_f64(),
        restarts: view.restarts,
        rows_in: stats.rows_in,
        rows_out: stats.rows_out,
        rates,
        watermark_ms: stats.watermark_ms,
        memory_used_bytes: stats.memory.used,
        memory_limit_bytes: stats.memory.limit,
        late: stats.late_rows,
        malformed: stats.skipped_rows,
        failed: stats.error_rows,
        checkpoint_age_s: stats.checkpoints.age.map(|age| age.as_secs_f64()),
        error: view.error.as_deref(),
        file: view.file.as_deref(),
        problems,
    };
    json!(summary)
}

fn found(served: &Served, name: &str) -> Result<JobView, Rejection> {
    served.view(name).ok_or_else(|| {
        Rejection::new(StatusCode::NOT_FOUND, format!("there is no job {name:?}")).advise("GET /api/v1/jobs lists them")
    })
}

/// `GET /metrics`
pub(crate) async fn metrics(State(served): Asked) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, metrics::page(&served.snapshots())).into_response()
}

/// `GET /health`: the process answers: it is for restarting one that hangs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// `GET /ready`: whether all jobs have begun: then rows can be sent.
pub(crate) async fn ready(State(served): Asked) -> Response {
    let waiting: Vec<String> = served.snapshots().iter().filter_map(JobSnapshot::waits_for).collect();
    match waiting.is_empty() {
        true => "ready\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, waiting.join("\n") + "\n").into_response(),
    }
}

/// `GET /api/v1/openapi.json`
pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, JSON)], include_str!("openapi.json")).into_response()
}

/// `GET /api/v1`
pub(crate) async fn about(State(served): Asked) -> Response {
    let commit = option_env!("MILLSTREAM_BUILD_COMMIT").unwrap_or("");
    answer(
        &json!({"version": env!("CARGO_PKG_VERSION"), "commit": commit, "mode": served.jobs.mode(), "actions": true}),
    )
}

/// `GET /api/v1/jobs`
pub(crate) async fn jobs(State(served): Asked) -> Response {
    let jobs: Vec<Value> = served.snapshots().iter().map(|job| summary(&served, job)).collect();
    answer(&json!({"jobs": jobs}))
}

/// `GET /api/v1/jobs/{job}`
pub(crate) async fn job(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    let snapshot = JobSnapshot::of(found(&served, &name)?);
    let mut summary = summary(&served, &snapshot);
    let JobSnapshot { view, stats } = snapshot;
    let nodes = stats.map_or(1, |stats| stats.nodes.len().max(1));
    let more =
        json!({"sql": view.statement, "state_dir": view.state_dir, "nodes": nodes, "can_rescale": view.can_rescale});
    if let (Value::Object(fields), Value::Object(more)) = (&mut summary, more) {
        fields.extend(more);
    }
    Ok(answer(&summary))
}

/// `GET /api/v1/jobs/{job}/plan`
pub(crate) async fn plan(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    let description = found(&served, &name)?.description.ok_or_else(|| unplanned(&name))?;
    let graph = &description.graph;
    let node = |node: &millstream::GraphNode| {
        let title = node.steps.first().map_or("", |step| first_part(step));
        json!({"id": node.name, "kind": node.kind.name(), "title": title, "detail": node.steps})
    };
    let nodes: Vec<Value> = graph.nodes.iter().map(node).collect();
    let edge = |&(from, to): &(usize, usize)| json!({"from": graph.nodes[from].name, "to": graph.nodes[to].name});
    let edges: Vec<Value> = graph.edges.iter().map(edge).collect();
    Ok(answer(&json!({"nodes": nodes, "edges": edges, "explain": description.explanation})))
}

/// What a step says before its first comma that is not in brackets.
fn first_part(step: &str) -> &str {
    let mut depth = 0;
    let end = step.char_indices().find(|(_, c)| {
        depth += match c {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        depth == 0 && *c == ','
    });
    &step[..end.map_or(step.len(), |(at, _)| at)]
}

fn unplanned(name: &str) -> Rejection {
    Rejection::new(StatusCode::CONFLICT, format!("the job {name:?} has not been planned yet"))
}

fn unbegun(name: &str) -> Rejection {
    Rejection::new(StatusCode::CONFLICT, format!("the job {name:?} has not begun yet"))
}

/// `GET /api/v1/jobs/{job}/stats`
pub(crate) async fn stats(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    let stats = found(&served, &name)?.stats();
    let stats = stats.ok_or_else(|| unbegun(&name))?;
    Ok(answer(&stats))
}

/// `GET /api/v1/jobs/{job}/checkpoints`
pub(crate) async fn checkpoints(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    let stats = found(&served, &name)?.monitor.and_then(|monitor| monitor.stats());
    let stats = stats.ok_or_else(|| unbegun(&name))?;
    Ok(answer(&stats.counters().checkpoints))
}

/// `GET /api/v1/jobs/{job}/history`
pub(crate) async fn history(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    found(&served, &name)?;
    Ok(answer(&served.histories.of(&name, |history| history.columns())))
}

/// `GET /api/v1/jobs/{job}/code`
pub(crate) async fn code(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    let view = found(&served, &name)?;
    let description = view.description.ok_or_else(|| unplanned(&name))?;
    let used = view.monitor.and_then(|monitor| monitor.stats()).map(|stats| stats.used_variants()).unwrap_or_default();
    let made = tokio::task::spawn_blocking(move || description.code(&used)).await;
    let texts = made.map_err(|error| Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))??;
    let variant = |text: &VariantText| {
        let VariantText { number, tier, choices, program, ir, assembly } = text;
        let tier = tier.map(|tier| tier.to_string());
        json!({"number": number, "tier": tier, "choices": choices, "program": program, "ir": ir, "assembly": assembly})
    };
    let program = |text: &ProgramText| {
        let variants: Vec<Value> = text.variants.iter().map(variant).collect();
        json!({"name": text.name, "sql": view.statement, "variants": variants})
    };
    Ok(answer(&json!({"programs": texts.iter().map(program).collect::<Vec<_>>()})))
}

/// `GET /api/v1/jobs/{job}/rows`
pub(crate) async fn rows(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    let stats = found(&served, &name)?.monitor.and_then(|monitor| monitor.stats());
    let stats = stats.ok_or_else(|| unbegun(&name))?;
    let written = stats.counters().sinks;
    let sink = |(seen, written): (millstream::SeenRows, &millstream::SinkSnapshot)| {
        let columns: Vec<Value> = seen.columns.iter().map(|(name, kind)| json!({"name": name, "type": kind})).collect();
        json!({"name": seen.sink, "columns": columns, "rows": seen.rows, "total": written.rows, "at_ms": ms(SystemTime::now())})
    };
    let sinks: Vec<Value> = stats.look_at_rows().into_iter().zip(&written).map(sink).collect();
    Ok(plain_answer(&json!({"sinks": sinks})))
}

/// `GET /api/v1/jobs/{job}/events`: each second the statistics and the summary, until the job is gone.
pub(crate) async fn events(State(served): Asked, Path(name): Name) -> Result<Response, Rejection> {
    found(&served, &name)?;
    let next = move |step: u64| {
        let (served, name) = (Arc::clone(&served), name.clone());
        async move {
            if step > 1 && step.is_multiple_of(2) {
                tokio::time::sleep(EVENT_EVERY).await;
            }
            let job = served.view(&name).map(JobSnapshot::of)?;
            let (kind, mut value) = match &job.stats {
                Some(stats) if step.is_multiple_of(2) => ("stats", json!(stats)),
                _ => ("summary", summary(&served, &job)),
            };
            conceal(&mut value);
            let event = Event::default().event(kind).data(value.to_string());
            Some((Ok::<Event, Infallible>(event), step + 1))
        }
    };
    Ok(Sse::new(stream::unfold(0, next)).keep_alive(KeepAlive::default()).into_response())
}

/// Has an action done; it may take its time, and no other request waits for it.
async fn act(served: Arc<Served>, Peer(peer): Peer, name: String, action: Action) -> Result<Response, Rejection> {
    found(&served, &name)?;
    let jobs = Arc::clone(&served.jobs);
    let done = tokio::task::spawn_blocking(move || {
        let done = jobs.act(&name, action);
        let outcome = match &done {
            Ok(message) => message,
            Err(refused) => &format!("refused: {}", refused.message),
        };
        jobs.audit(&format!("HTTP request of {peer}: {action} of job {name:?}: {outcome}"));
        done
    });
    let done = done.await;
    let message = done.map_err(|error| Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))??;
    Ok((StatusCode::ACCEPTED, answer(&json!({"message": message}))).into_response())
}

/// `POST /api/v1/jobs/{job}/checkpoint`
pub(crate) async fn checkpoint(
    State(served): Asked,
    Extension(peer): AskedBy,
    Path(name): Name,
) -> Result<Response, Rejection> {
    act(served, peer, name, Action::Checkpoint).await
}

/// `POST /api/v1/jobs/{job}/stop`
pub(crate) async fn stop(
    State(served): Asked,
    Extension(peer): AskedBy,
    Path(name): Name,
) -> Result<Response, Rejection> {
    act(served, peer, name, Action::Stop).await
}

/// The body of a request to rescale.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rescale {
    nodes: Option<NonZeroUsize>,
}

/// `POST /api/v1/jobs/{job}/rescale`
pub(crate) async fn rescale(
    State(served): Asked,
    Extension(peer): AskedBy,
    Path(name): Name,
    request: Request,
) -> Result<Response, Rejection> {
    let bytes = body(request, BODY_BYTES).await?;
    let Rescale { nodes } = serde_json::from_slice(&bytes).map_err(|error| {
        Rejection::new(StatusCode::BAD_REQUEST, format!("the body is not what is asked for: {error}"))
            .advise("send {\"nodes\": 3}, or {\"nodes\": null} for all that are there")
    })?;
    act(served, peer, name, Action::Rescale(nodes)).await
}
