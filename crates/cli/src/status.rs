//! The status line of a running query on standard error.

use crate::arguments::StatsArgument;
use crate::config::Config;
use crate::live::Live;
use crate::log;
use crate::silence::Silence;
use crate::summary;
use crate::units::{amount, duration, timestamp};
use millstream::{RunMonitor, StatsSnapshot};
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A query must run this long before it gets a status line.
const PATIENCE: Duration = Duration::from_millis(700);
const REFRESH: Duration = Duration::from_millis(250);

/// What is painted while a query runs.
#[derive(Clone, Copy)]
pub(crate) enum Painted<'a> {
    /// Nothing.
    Nothing,
    /// A status line, if standard error is a terminal.
    Line,
    /// Its rows.
    Rows(&'a Live),
}

/// Runs `query`; meanwhile reports, as configured, its statistics and why no rows come out, and paints.
pub(crate) fn telling<T>(painted: Painted<'_>, config: &Config, monitor: &RunMonitor, query: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = &ended;
        let painter = match painted {
            Painted::Line if log::is_text() && stderr().is_terminal() => {
                Some(log::spawn(scope, || paint(monitor, ended)))
            }
            Painted::Rows(live) => Some(log::spawn(scope, || live.paint(monitor, ended))),
            Painted::Nothing | Painted::Line => None,
        };
        let note = move |text: String| match painted {
            Painted::Rows(live) => live.note(text),
            _ => log::note(&text),
        };
        let teller = log::spawn(scope, move || {
            let mut silence = Silence::new(Instant::now());
            while !ended.load(Relaxed) {
                monitor.take_notices().into_iter().for_each(note);
                if !config.quiet {
                    let stats = monitor.stats().map(|stats| stats.snapshot());
                    if let Some(reason) = silence.look(stats.as_ref(), monitor.awaited().as_ref(), Instant::now()) {
                        note(reason);
                    }
                }
                std::thread::park_timeout(REFRESH);
            }
        });
        let reporter =
            config.stats_every.map(|every| log::spawn(scope, move || report(every, config.stats, monitor, ended)));
        let result = query();
        ended.store(true, Relaxed);
        painter.iter().chain(&reporter).chain([&teller]).for_each(|thread| thread.thread().unpark());
        result
    })
}

/// Writes what is worth telling to standard error.
pub(crate) fn tell_notices(monitor: &RunMonitor) {
    for notice in monitor.take_notices() {
        log::note(&notice);
    }
}

fn report(every: Duration, form: Option<StatsArgument>, monitor: &RunMonitor, ended: &AtomicBool) {
    let mut next = Instant::now() + every;
    while !ended.load(Relaxed) {
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
        if Instant::now() >= next && !ended.load(Relaxed) {
            next += every;
            monitor.stats().iter().for_each(|stats| summary::report(form, &stats.snapshot()));
        }
    }
}

fn paint(monitor: &RunMonitor, ended: &AtomicBool) {
    let started = Instant::now();
    let mut last: Option<StatsSnapshot> = None;
    let mut drawn = false;
    while !ended.load(Relaxed) {
        std::thread::park_timeout(REFRESH);
        let Some(stats) = monitor.stats() else { continue };
        if ended.load(Relaxed) || started.elapsed() < PATIENCE {
            continue;
        }
        let now = stats.snapshot();
        let line = status_line(&now, last.as_ref());
        last = Some(now);
        // The line is cut to a usual width, because a wrapped line cannot be overwritten.
        let cut: String = line.chars().take(110).collect();
        let _ = write!(stderr(), "\r\x1b[2K{cut}").and_then(|()| stderr().flush());
        drawn = true;
    }
    if drawn {
        let _ = write!(stderr(), "\r\x1b[2K").and_then(|()| stderr().flush());
    }
}

/// Seconds since the snapshot before, or the start.
fn seconds_since(s: &StatsSnapshot, before: Option<&StatsSnapshot>) -> f64 {
    (s.elapsed - before.map_or(Duration::ZERO, |b| b.elapsed)).as_secs_f64().max(1e-3)
}

/// How fast rows have come in since the snapshot before.
pub(crate) fn rows_per_second(s: &StatsSnapshot, before: Option<&StatsSnapshot>) -> f64 {
    s.rows_in.saturating_sub(before.map_or(0, |b| b.rows_in)) as f64 / seconds_since(s, before)
}

/// Totals, and rates since the snapshot before.
pub(crate) fn status_line(s: &StatsSnapshot, before: Option<&StatsSnapshot>) -> String {
    let since = |of: fn(&StatsSnapshot) -> u64| of(s).saturating_sub(before.map_or(0, of)) as f64;
    let seconds = seconds_since(s, before);
    let mut line = format!("{} in, {} rows/s", amount(s.rows_in as f64), amount(rows_per_second(s, before)));
    if s.bytes_in > 0 {
        line += &format!(", {}B/s", amount(since(|s| s.bytes_in) / seconds));
    }
    line += &format!(", {} out", amount(s.rows_out as f64));
    if let Some(watermark) = s.watermark_ms {
        line += &format!(", watermark {}{}", timestamp(watermark), lag(watermark));
    }
    line += &format!(", queue {}, memory {}B", s.queued, amount(s.memory.used as f64));
    let triggers = since(|s| s.trigger_delay.count);
    if triggers > 0.0 {
        let nanos = since(|s| u64::try_from(s.trigger_delay.sum.as_nanos()).unwrap_or(u64::MAX));
        line += &format!(", trigger {}", duration(Duration::from_nanos((nanos / triggers) as u64)));
    }
    for (count, what) in [(s.late_rows, "late"), (s.skipped_rows, "malformed"), (s.error_rows, "failed")] {
        if count > 0 {
            line += &format!(", {} {what}", amount(count as f64));
        }
    }
    line
}

/// How far a watermark is behind the clock, where that says something: rows of the past week.
fn lag(watermark_ms: i64) -> String {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    match u64::try_from(watermark_ms).ok().and_then(|ms| now.checked_sub(Duration::from_millis(ms))) {
        Some(lag) if lag < WEEK => format!(" ({} ago)", duration(lag)),
        _ => String::new(),
    }
}
