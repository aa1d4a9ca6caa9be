//! What a query that has ended tells on standard error: a line for people, a page for the curious, or one JSON object.
//!
//! The fields of the object are described in `docs/statistics.md`; names stay what they are.

use crate::arguments::StatsArgument;
use crate::status::{amount, duration, timestamp};
use millstream::{
    CheckpointSnapshot, CodeOrigin, ColumnSnapshot, Compilation, Event, HardwareSnapshot, MemorySnapshot,
    PipelineSnapshot, ProfileSnapshot, ProgramSnapshot, SinkSnapshot, SourceSnapshot, SplitSnapshot, StatsSnapshot,
    Times, TriggerSnapshot, VariantSnapshot, WorkerSnapshot,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

/// Writes the summary of a query that has ended, as asked for.
pub(crate) fn summarise(form: Option<StatsArgument>, quiet: bool, stats: &StatsSnapshot) {
    if form.is_none() && !quiet {
        note_empty_columns(stats);
    }
    let text = match form {
        None if !quiet && stderr().is_terminal() => line(stats),
        // Rows that are missing in the result are told to logs, too.
        None if !quiet && stats.late_rows + stats.skipped_rows + stats.error_rows > 0 => {
            format!("note: {}", line(stats))
        }
        None | Some(StatsArgument::None) => return,
        Some(StatsArgument::Text) => line(stats) + &details(stats),
        Some(StatsArgument::Json) => object(stats).to_string(),
    };
    let _ = writeln!(stderr(), "{text}");
}

/// Says which columns nothing was found for: a misspelt name is no error where records may lack fields.
fn note_empty_columns(stats: &StatsSnapshot) {
    for source in stats.sources.iter().filter(|source| !source.empty_columns.is_empty()) {
        let table = source.name.rsplit(' ').next().unwrap_or_default();
        let (columns, are) = match source.empty_columns.as_slice() {
            [one] => (format!("column `{one}`"), "is"),
            several => (format!("columns `{}`", several.join("`, `")), "are"),
        };
        let rows = if source.rows == 1 { "the only row".into() } else { format!("all {} rows", source.rows) };
        let _ = writeln!(
            stderr(),
            "note: {columns} of {table} {are} NULL in {rows} that were read; does the name match the data? Letter case counts"
        );
    }
}

/// Writes what a query has done so far, in the same form.
pub(crate) fn report(form: Option<StatsArgument>, stats: &StatsSnapshot) {
    summarise(Some(form.unwrap_or(StatsArgument::Text)), false, stats);
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
        text += &format!(", {} late rows", s.late_rows);
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
    for x in &s.programs {
        for v in &x.variants {
            let choices = if v.choices.is_empty() { "generic" } else { &v.choices };
            let cost = v.nanos_per_row().map_or(String::new(), |nanos| format!(", {nanos:.1} ns per row"));
            let current = if v.is_current { ", in use" } else { "" };
            let _ = write!(out, "\n{}, variant {} ({}, {choices}): ", x.name, v.number, v.tier);
            let _ = write!(out, "{} rows{cost}{current}", v.rows);
        }
    }
    for e in &s.events {
        let at = duration(e.at);
        let _ = write!(out, "\nafter {at}, {}: {}; {}", e.subject, e.observed, e.decided);
        if let Some((before, after)) = e.gain {
            let _ = write!(out, " ({before:.2} to {after:.2} ns per row)");
        }
    }
    if s.checkpoints.begun > 0 {
        let c = &s.checkpoints;
        let [written, state] = [c.bytes_written, c.state_bytes].map(|bytes| amount(bytes as f64));
        let (took, held) = (times(&c.duration), times(&c.handing_over));
        let _ = write!(out, "\n{} checkpoints begun, {} complete, {written}B written, ", c.begun, c.duration.count);
        let _ = write!(out, "the last one of {state}B; each took {took}, of threads that process rows {held}");
    }
    let [peak, limit] = [s.memory.peak, s.memory.limit].map(|bytes| amount(bytes as f64));
    let _ = write!(out, "\nmemory: at most {peak}B of {limit}B");
    if s.spill.files > 0 {
        let [written, read] = [s.spill.bytes_written, s.spill.bytes_read].map(|bytes| amount(bytes as f64));
        let _ = write!(out, "\nspilled: {written}B in {} files, {read}B read back", s.spill.files);
    }
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
        "spill": {
            "written_bytes": s.spill.bytes_written,
            "read_bytes": s.spill.bytes_read,
            "held_bytes": s.spill.bytes_held,
            "files": s.spill.files,
        },
        "records_late_total": s.late_rows,
        "records_malformed_total": s.skipped_rows,
        "records_failed_total": s.error_rows,
        "first_error": s.first_error.as_ref().map(ToString::to_string),
        "checkpoints": checkpoints(&s.checkpoints),
        "compilations": s.compilations.iter().map(compilation).collect::<Vec<_>>(),
        "programs": s.programs.iter().map(|p| program(p, s.cycles_per_nano)).collect::<Vec<_>>(),
        "events": s.events.iter().map(event).collect::<Vec<_>>(),
        "sources": s.sources.iter().map(source).collect::<Vec<_>>(),
        "pipelines": s.pipelines.iter().map(pipeline).collect::<Vec<_>>(),
        "aggregations": s.aggregations.iter().map(|a| trigger(a, "windows")).collect::<Vec<_>>(),
        "operators": s.operators.iter().map(|o| trigger(o, "jobs")).collect::<Vec<_>>(),
        "sinks": s.sinks.iter().map(sink).collect::<Vec<_>>(),
        "cycles_per_nano": s.cycles_per_nano,
        "hardware": s.hardware.as_ref().map(hardware),
        "workers": s.workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn compilation(c: &Compilation) -> Value {
    json!({
        "program": c.program,
        "time_s": c.time.as_secs_f64(),
        "code_bytes": c.code_bytes,
        "origin": c.origin.name(),
        "reused": c.origin != CodeOrigin::Compiled,
        "cache_problem": c.cache_problem,
    })
}

fn program(p: &ProgramSnapshot, cycles_per_nano: Option<f64>) -> Value {
    json!({
        "name": p.name,
        "variants": p.variants.iter().map(|v| variant(v, cycles_per_nano)).collect::<Vec<_>>(),
        "profile": p.profile.as_ref().map(profile),
    })
}

fn variant(v: &VariantSnapshot, cycles_per_nano: Option<f64>) -> Value {
    json!({
        "number": v.number,
        "tier": v.tier.to_string(),
        "choices": v.choices,
        "rows": v.rows,
        "buffers": v.buffers,
        "time_s": Duration::from_nanos(v.nanos).as_secs_f64(),
        "nanos_per_row": v.nanos_per_row(),
        "cycles_per_row": v.nanos_per_row().zip(cycles_per_nano).map(|(nanos, cycles)| nanos * cycles),
        "current": v.is_current,
    })
}

fn profile(p: &ProfileSnapshot) -> Value {
    let keys = p.keys.map(|keys| {
        json!({
            "distinct": keys.distinct,
            "heaviest_share": keys.heaviest,
            "null_share": keys.null_share,
            "least": keys.range.map(|range| range.0),
            "greatest": keys.range.map(|range| range.1),
        })
    });
    let column = |c: &ColumnSnapshot| {
        json!({
            "name": c.name,
            "null_share": c.null_rate,
            "distinct": c.distinct,
            "text_bytes": c.text_bytes,
        })
    };
    json!({
        "sampled_rows": p.rows,
        "filter_shares": p.filters,
        "keys": keys,
        "out_of_order_share": p.out_of_order,
        "disorder_ms": p.disorder_ms,
        "rows_per_slice": p.rows_per_slice,
        "columns": p.columns.iter().map(column).collect::<Vec<_>>(),
    })
}

fn event(e: &Event) -> Value {
    json!({
        "at_s": e.at.as_secs_f64(),
        "subject": e.subject,
        "observed": e.observed,
        "decided": e.decided,
        "nanos_per_row_before": e.gain.map(|gain| gain.0),
        "nanos_per_row_after": e.gain.map(|gain| gain.1),
    })
}

fn checkpoints(c: &CheckpointSnapshot) -> Value {
    json!({
        "begun": c.begun,
        "complete": c.duration.count,
        "last": c.last,
        "written_bytes": c.bytes_written,
        "state_bytes": c.state_bytes,
        "duration": times_object(&c.duration),
        "handing_over": times_object(&c.handing_over),
        "handing_over_processor": times_object(&c.handing_over_processor),
    })
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
        "empty_columns": x.empty_columns,
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
        "rows_out": x.rows_out,
        "busy_s": x.busy.as_secs_f64(),
        "trigger_delay": times_object(&x.delay),
    })
}

fn sink(x: &SinkSnapshot) -> Value {
    json!({
        "name": x.name,
        "rows": x.rows,
        "busy_s": x.busy.as_secs_f64(),
    })
}

fn hardware(x: &HardwareSnapshot) -> Value {
    json!({
        "mispredictions_per_row": x.mispredictions_per_row,
        "cache_misses_per_row": x.cache_misses_per_row,
    })
}

fn worker(x: &WorkerSnapshot) -> Value {
    json!({
        "tasks": x.tasks,
        "busy_s": x.busy.as_secs_f64(),
        "idle_s": x.idle.as_secs_f64(),
    })
}
