//! What a query that has ended tells on standard error: a line for people, a page for the curious, or one JSON object.
//!
//! The fields of the object are described in `docs/statistics.md`; names stay what they are.

use crate::arguments::StatsArgument;
use crate::log;
use crate::units::{amount, duration, timestamp};
use millstream::{Begun, SentSnapshot, StatsSnapshot, Times, counted};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr};

/// Writes the summary of a query that has ended, as asked for.
pub(crate) fn summarise(form: Option<StatsArgument>, quiet: bool, stats: &StatsSnapshot) {
    if form.is_none() && !quiet {
        note_empty_columns(stats);
    }
    let text = match form {
        None if quiet => return,
        // Rows that are missing in the result are told to logs, too.
        None if stats.late_rows + stats.skipped_rows + stats.error_rows > 0
            && !(log::is_text() && stderr().is_terminal()) =>
        {
            return log::note(&line(stats));
        }
        None if !log::is_text() || stderr().is_terminal() => return log::info(&line(stats)),
        None | Some(StatsArgument::None) => return,
        Some(StatsArgument::Text) => line(stats) + &details(stats),
        Some(StatsArgument::Json) => json!(stats).to_string(),
    };
    let _ = writeln!(stderr(), "{text}");
}

/// Says which columns nothing was found for: a misspelt name is not an error where records may lack fields.
fn note_empty_columns(stats: &StatsSnapshot) {
    for source in stats.sources.iter().filter(|source| !source.empty_columns.is_empty()) {
        let table = source.name.rsplit(' ').next().unwrap_or_default();
        let (columns, are) = match source.empty_columns.as_slice() {
            [one] => (format!("column `{one}`"), "is"),
            several => (format!("columns `{}`", several.join("`, `")), "are"),
        };
        let rows = match source.rows {
            1 => "the only row that was read".into(),
            rows => format!("all {rows} rows that were read"),
        };
        log::note(&format!(
            "{columns} of {table} {are} NULL in {rows}; does the name match the data? Letter case counts"
        ));
    }
}

/// Writes what a query has done so far, in the same form.
pub(crate) fn report(form: Option<StatsArgument>, stats: &StatsSnapshot) {
    summarise(Some(form.unwrap_or(StatsArgument::Text)), false, stats);
}

fn line(s: &StatsSnapshot) -> String {
    let seconds = s.elapsed.as_secs_f64();
    let rate = s.rows_in as f64 / seconds.max(1e-9);
    let mut text = format!(
        "{} in, {} out in {seconds:.3} s ({} rows/s",
        counted(s.rows_in, "row"),
        counted(s.rows_out, "row"),
        amount(rate)
    );
    if s.bytes_in > 0 {
        text += &format!(", {}B/s", amount(s.bytes_in as f64 / seconds.max(1e-9)));
    }
    text += ")";
    let counts = [
        (s.windows_fired, "window", ""),
        (s.late_rows, "late row", ""),
        (s.skipped_rows, "malformed record", " skipped"),
        (s.error_rows, "failed row", " skipped"),
    ];
    for (count, what, done) in counts.into_iter().filter(|(count, ..)| *count > 0) {
        text += &format!(", {}{done}", counted(count, what));
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
        let _ = write!(out, "\n{}: {}, {bytes}B in {}", x.name, counted(x.rows, "row"), counted(x.chunks, "chunk"));
        let _ = write!(
            out,
            " of {}, each decoded in {decode}{}",
            counted(x.split_count, "split"),
            watermark(x.watermark_ms)
        );
    }
    for x in &s.pipelines {
        let _ = write!(
            out,
            "\n{}: {} in, {} out, {}, each in {}, at most {} waiting{}",
            x.name,
            counted(x.rows_in, "row"),
            x.rows_out,
            counted(x.buffers, "buffer"),
            times(&x.task_time),
            x.queued_max,
            watermark(x.watermark_ms)
        );
    }
    for x in s.aggregations.iter().chain(&s.operators) {
        let begun = match x.begun {
            Begun::Windows(count) => counted(count, "window"),
            Begun::Jobs(count) => counted(count, "job"),
        };
        let _ = write!(out, "\n{}: {begun}, delivered after {}{}", x.name, times(&x.delay), sent(&x.sent, "to"));
    }
    for x in s.sinks.iter().filter(|sink| sink.sent.frames > 0) {
        let _ = write!(out, "\n{}: {}{}", x.name, counted(x.rows, "row"), sent(&x.sent, "by"));
    }
    for x in &s.programs {
        for v in &x.variants {
            let choices = if v.choices.is_empty() { "generic" } else { &v.choices };
            let cost = v.nanos_per_row.map_or(String::new(), |nanos| format!(", {nanos:.1} ns per row"));
            let current = if v.is_current { ", in use" } else { "" };
            let _ = write!(out, "\n{}, variant {} ({}, {choices}): ", x.name, v.number, v.tier);
            let _ = write!(out, "{}{cost}{current}", counted(v.rows, "row"));
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
        let _ =
            write!(out, "\n{} begun, {} complete, {written}B written, ", counted(c.begun, "checkpoint"), c.complete);
        let _ = write!(out, "the last one of {state}B; each took {took}, of threads that process rows {held}");
    }
    let [peak, limit] = [s.memory.peak, s.memory.limit].map(|bytes| amount(bytes as f64));
    let _ = write!(out, "\nmemory: at most {peak}B of {limit}B");
    if s.spill.files > 0 {
        let [written, read] = [s.spill.bytes_written, s.spill.bytes_read].map(|bytes| amount(bytes as f64));
        let _ = write!(out, "\nspilled: {written}B in {}, {read}B read back", counted(s.spill.files, "file"));
    }
    for x in &s.nodes {
        let (state, sent) = (amount(x.state_bytes as f64), amount(x.sent_bytes as f64));
        let (read, rate) = (counted(x.rows_in, "row"), amount(x.rows_per_second));
        let _ = write!(out, "\nnode {}: {read} in ({rate} rows/s), {} out, ", x.node, x.rows_out);
        let _ = write!(out, "{state}B of state, {sent}B sent to other nodes{}", watermark(x.watermark_ms));
        if x.replaced > 0 {
            let _ = write!(out, ", replaced {}", counted(x.replaced, "time"));
        }
    }
    let of_node = if s.nodes.is_empty() { "" } else { " of node 0" };
    for (index, x) in s.workers.iter().enumerate() {
        let (busy, idle) = (duration(x.busy), duration(x.idle));
        let _ = write!(out, "\nworker {index}{of_node}: {}, busy {busy}, idle {idle}", counted(x.tasks, "task"));
    }
    out
}

/// What nodes have sent each other, if they have.
fn sent(sent: &SentSnapshot, way: &str) -> String {
    match sent.frames {
        0 => String::new(),
        frames => format!(", {}B in {} sent {way} other nodes", amount(sent.bytes as f64), counted(frames, "frame")),
    }
}

fn times(t: &Times) -> String {
    let [mean, p99, max] = [t.mean, t.p99, t.max].map(duration);
    format!("{mean} (99 %: {p99}, most: {max})")
}
