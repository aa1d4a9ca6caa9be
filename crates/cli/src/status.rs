//! What people see of a running query on standard error: a status line while it runs, a summary at its end.

use crate::arguments::StatsArgument;
use millstream::{RunMonitor, StatsSnapshot, text};
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A query must run this long before it gets a status line.
const PATIENCE: Duration = Duration::from_millis(700);
const REFRESH: Duration = Duration::from_millis(250);

/// Runs `query` with a status line beside it, if standard error is a terminal and `show` is set.
pub(crate) fn with_status_line<T>(show: bool, monitor: &RunMonitor, query: impl FnOnce() -> T) -> T {
    if !show || !stderr().is_terminal() {
        return query();
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let painter = scope.spawn(|| paint(monitor, &ended));
        let result = query();
        ended.store(true, Relaxed);
        painter.thread().unpark();
        result
    })
}

fn paint(monitor: &RunMonitor, ended: &AtomicBool) {
    let started = Instant::now();
    let mut last: Option<(Instant, u64, u64)> = None;
    let mut drawn = false;
    while !ended.load(Relaxed) {
        std::thread::park_timeout(REFRESH);
        let Some(stats) = monitor.stats() else { continue };
        if ended.load(Relaxed) || started.elapsed() < PATIENCE {
            continue;
        }
        let now = Instant::now();
        let snapshot = stats.snapshot();
        let (since, rows, bytes) = last.unwrap_or((started, 0, 0));
        let seconds = (now - since).as_secs_f64().max(1e-3);
        let line = status_line(
            &snapshot,
            (snapshot.rows_in - rows) as f64 / seconds,
            (snapshot.bytes_in - bytes) as f64 / seconds,
        );
        last = Some((now, snapshot.rows_in, snapshot.bytes_in));
        // The line is cut to a usual width, because a wrapped line cannot be overwritten.
        let cut: String = line.chars().take(110).collect();
        let _ = write!(stderr(), "\r\x1b[2K{cut}").and_then(|()| stderr().flush());
        drawn = true;
    }
    if drawn {
        let _ = write!(stderr(), "\r\x1b[2K").and_then(|()| stderr().flush());
    }
}

fn status_line(s: &StatsSnapshot, rows_per_s: f64, bytes_per_s: f64) -> String {
    let mut line = format!("{} in, {} rows/s", amount(s.rows_in as f64), amount(rows_per_s));
    if s.bytes_in > 0 {
        line += &format!(", {}B/s", amount(bytes_per_s));
    }
    line += &format!(", {} out", amount(s.rows_out as f64));
    if let Some(watermark) = s.watermark_ms {
        line += &format!(", watermark {}", timestamp(watermark));
    }
    if s.windows_fired > 0 {
        line += &format!(", {} windows", s.windows_fired);
    }
    for (count, what) in [(s.late_rows, "late"), (s.skipped_rows, "malformed"), (s.error_rows, "failed")] {
        if count > 0 {
            line += &format!(", {} {what}", amount(count as f64));
        }
    }
    line
}

/// A number with three digits and a unit: 12.3 M.
fn amount(x: f64) -> String {
    match x {
        x if x >= 1e9 => format!("{:.2} G", x / 1e9),
        x if x >= 1e6 => format!("{:.2} M", x / 1e6),
        x if x >= 1e4 => format!("{:.1} k", x / 1e3),
        x => format!("{x:.0} "),
    }
    .trim_end()
    .to_string()
}

fn timestamp(ms: i64) -> String {
    let mut out = Vec::new();
    text::write_timestamp(&mut out, ms, millstream::DataType::Timestamp(3).time_unit(), 0);
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes the summary of a query that has ended, as asked for.
pub(crate) fn summarise(form: Option<StatsArgument>, quiet: bool, stats: &StatsSnapshot) {
    let form = form.unwrap_or(if !quiet && stderr().is_terminal() { StatsArgument::Text } else { StatsArgument::None });
    let text = match form {
        StatsArgument::None => return,
        StatsArgument::Text => summary_text(stats),
        StatsArgument::Json => summary_json(stats).to_string(),
    };
    let _ = writeln!(stderr(), "{text}");
}

fn summary_text(s: &StatsSnapshot) -> String {
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

fn summary_json(s: &StatsSnapshot) -> serde_json::Value {
    let sources: Vec<_> = s
        .sources
        .iter()
        .map(|x| {
            serde_json::json!({
                "rows": x.rows, "bytes": x.bytes, "chunks": x.chunks,
                "decode_s": x.decode_nanos as f64 / 1e9, "watermark_ms": x.watermark_ms,
            })
        })
        .collect();
    let pipelines: Vec<_> = s
        .pipelines
        .iter()
        .map(|x| {
            serde_json::json!({
                "rows_in": x.rows_in, "rows_out": x.rows_out, "buffers": x.buffers, "busy_s": x.nanos as f64 / 1e9,
            })
        })
        .collect();
    serde_json::json!({
        "elapsed_s": s.elapsed.as_secs_f64(),
        "rows_in": s.rows_in,
        "bytes_in": s.bytes_in,
        "rows_out": s.rows_out,
        "buffers": s.buffers,
        "windows": s.windows_fired,
        "records_late_total": s.late_rows,
        "records_malformed_total": s.skipped_rows,
        "records_failed_total": s.error_rows,
        "first_error": s.first_error.as_ref().map(ToString::to_string),
        "sources": sources,
        "pipelines": pipelines,
    })
}
