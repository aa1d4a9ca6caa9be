//! What a query that has ended tells on standard error: a line for people, a page for the curious, or one JSON object.
//!
//! The fields of the object are described in `docs/statistics.md`; names stay what they are.

use crate::arguments::StatsArgument;
use crate::status::{amount, duration, timestamp};
use millstream::{
    Compilation, MemorySnapshot, PipelineSnapshot, SourceSnapshot, SplitSnapshot, StatsSnapshot, Times,
    TriggerSnapshot, WorkerSnapshot,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr};

/// Writes the summary of a query that has ended, as asked for.
pub(crate) fn summarise(form: Option<StatsArgument>, quiet: bool, stats: &StatsSnapshot) {
    let text = match form {
        None if !quiet && stderr().is_terminal() => line(stats),
        None | Some(StatsArgument::None) => return,
        Some(StatsArgument::Text) => line(stats) + &details(stats),
        Some(StatsArgument::Json) => object(stats).to_string(),
    };
    let _ = writeln!(stderr(), "{text}");
}

fn line(s: &StatsSnapshot) -> String {
    let seconds = s.elapsed.as_secs_f64();
    let rate = s.rows_in as f64 / seconds.max(1e-9);
    let mut text = format!("{} rows in, {} rows out in {seconds:.3} s ({} rows/s", s.rows_in, s.rows_out, amount(rate));
    if s.bytes_in > 0 {
        text += &format!(", {}B/s", amount(s.bytes_in as f64 / seconds.max(1e-9)));
    }
    text += ")";
    if s.windows_fired > 0 {
        text += &format!(", {} windows", s.windows_fired);
    }
    if s.late_rows > 0 {
        text += &format!(", {} late rows dropped", s.late_rows);
    }
    if s.skipped_rows > 0 {
        text += &format!(", {} malformed records skipped", s.skipped_rows);
    }
    if s.error_rows > 0 {
        text += &format!(", {} failed rows skipped", s.error_rows);
    }
    if let Some(error) = &s.first_error {
        text += &format!("\nfirst skipped row: {error}");
    }
    text
}

/// A line for each part of the query. Writing to a String cannot fail.
fn details(s: &StatsSnapshot) -> String {
    let mut out = String::new();
    let watermark = |ms: Option<i64>| ms.map_or(String::new(), |ms| format!(", watermark {}", timestamp(ms)));
    for x in &s.sources {
        let (bytes, decode) = (amount(x.bytes as f64), times(&x.decode_time));
        let _ = write!(out, "\n{}: {} rows, {bytes}B in {} chunks", x.name, x.rows, x.chunks);
        let _ = write!(out, " of {} splits, each decoded in {decode}{}", x.splits.len(), watermark(x.watermark_ms));
    }
    for x in &s.pipelines {
        let _ = write!(
            out,
            "\n{}: {} rows in, {} out, {} buffers, each in {}, at most {} waiting{}",
            x.name,
            x.rows_in,
            x.rows_out,
            x.buffers,
            times(&x.task_time),
            x.queued_max,
            watermark(x.watermark_ms)
        );
    }
    for (what, triggers) in [("windows", &s.aggregations), ("jobs", &s.operators)] {
        for x in triggers {
            let _ = write!(out, "\n{}: {} {what}, delivered after {}", x.name, x.begun, times(&x.delay));
        }
    }
    let [peak, limit] = [s.memory.peak, s.memory.limit].map(|bytes| amount(bytes as f64));
    let _ = write!(out, "\nmemory: at most {peak}B of {limit}B");
    for (index, x) in s.workers.iter().enumerate() {
        let (busy, idle) = (duration(x.busy), duration(x.idle));
        let _ = write!(out, "\nworker {index}: {} tasks, busy {busy}, idle {idle}", x.tasks);
    }
    out
}

fn times(t: &Times) -> String {
    let [mean, p99, max] = [t.mean(), t.p99, t.max].map(duration);
    format!("{mean} (99 %: {p99}, most: {max})")
}

fn object(s: &StatsSnapshot) -> Value {
    json!({
        "elapsed_s": s.elapsed.as_secs_f64(),
        "rows_in": s.rows_in,
        "bytes_in": s.bytes_in,
        "rows_out": s.rows_out,
        "buffers": s.buffers,
        "queued": s.queued,
        "workers_idle": s.workers_idle,
        "windows": s.windows_fired,
        "watermark_ms": s.watermark_ms,
        "trigger_delay": times_object(&s.trigger_delay),
        "memory": memory(&s.memory),
        "records_late_total": s.late_rows,
        "records_malformed_total": s.skipped_rows,
        "records_failed_total": s.error_rows,
        "first_error": s.first_error.as_ref().map(ToString::to_string),
        "compilations": s.compilations.iter().map(compilation).collect::<Vec<_>>(),
        "sources": s.sources.iter().map(source).collect::<Vec<_>>(),
        "pipelines": s.pipelines.iter().map(pipeline).collect::<Vec<_>>(),
        "aggregations": s.aggregations.iter().map(|a| trigger(a, "windows")).collect::<Vec<_>>(),
        "operators": s.operators.iter().map(|o| trigger(o, "jobs")).collect::<Vec<_>>(),
        "workers": s.workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn compilation(c: &Compilation) -> Value {
    json!({ "program": c.program, "time_s": c.time.as_secs_f64(), "code_bytes": c.code_bytes, "reused": c.is_reused })
}

fn memory(m: &MemorySnapshot) -> Value {
    let by_class: serde_json::Map<String, Value> =
        m.by_class.iter().map(|(class, bytes)| (class.name().to_string(), json!(bytes))).collect();
    json!({
        "limit_bytes": m.limit,
        "used_bytes": m.used,
        "peak_bytes": m.peak,
        "by_class": by_class,
    })
}

fn times_object(t: &Times) -> Value {
    json!({
        "count": t.count,
        "sum_s": t.sum.as_secs_f64(),
        "mean_s": t.mean().as_secs_f64(),
        "p50_s": t.p50.as_secs_f64(),
        "p99_s": t.p99.as_secs_f64(),
        "max_s": t.max.as_secs_f64(),
    })
}

fn source(x: &SourceSnapshot) -> Value {
    json!({
        "name": x.name,
        "rows": x.rows,
        "bytes": x.bytes,
        "chunks": x.chunks,
        "queued": x.queued,
        "watermark_ms": x.watermark_ms,
        "decode_time": times_object(&x.decode_time),
        "splits": x.splits.iter().map(split).collect::<Vec<_>>(),
    })
}

fn split(x: &SplitSnapshot) -> Value {
    json!({
        "name": x.name,
        "rows": x.rows,
        "bytes": x.bytes,
        "chunks": x.chunks,
        "queued": x.queued,
        "watermark_ms": x.watermark_ms,
        "idle": x.is_idle,
        "ended": x.has_ended,
    })
}

fn pipeline(x: &PipelineSnapshot) -> Value {
    json!({
        "name": x.name,
        "rows_in": x.rows_in,
        "rows_out": x.rows_out,
        "buffers": x.buffers,
        "queued": x.queued,
        "queued_max": x.queued_max,
        "epochs_in_flight": x.epochs_in_flight,
        "watermark_ms": x.watermark_ms,
        "task_time": times_object(&x.task_time),
    })
}

fn trigger(x: &TriggerSnapshot, what: &str) -> Value {
    json!({
        "name": x.name,
        what: x.begun,
        "in_flight": x.in_flight,
        "trigger_delay": times_object(&x.delay),
    })
}

fn worker(x: &WorkerSnapshot) -> Value {
    json!({
        "tasks": x.tasks,
        "busy_s": x.busy.as_secs_f64(),
        "idle_s": x.idle.as_secs_f64(),
    })
}
