//! `--output live`: the newest rows of a SELECT, or the rows of one whose result changes, as a table that stays where it is on the
//! terminal, over a line that says how fast rows come in.

use crate::current::{CurrentRows, without_kinds};
use crate::log;
use crate::status::{rows_per_second, status_line};
use crate::table::Layout;
use millstream::connectors::{ColumnEncoder, Encoded, Encoder, Sink};
use millstream::{Diagnostic, RunMonitor, Schema, StatsSnapshot, counted};
use rustix::termios::tcgetwinsize;
use std::collections::VecDeque;
use std::io::{Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use unicode_width::UnicodeWidthChar;

/// From one picture to the next.
const FRAME: Duration = Duration::from_millis(100);
/// Frames from one rate to the next.
const FRAMES_PER_RATE: usize = 5;
/// Most rows that are shown; fewer on a small terminal.
const MOST_ROWS: usize = 24;
/// Lines of a picture that are not rows: header, rule, an empty one, status, and that of the cursor.
const OTHER_LINES: usize = 5;
/// Width of a bar, in cells.
const BAR: usize = 16;
/// Rates that are drawn.
const RATES: usize = 24;
/// Parts of a cell, of a bar and of a rate.
const PARTS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is on the terminal of the query that runs.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    layout: Option<Layout>,
    /// The newest rows; of a result that changes the first ones.
    newest: VecDeque<Vec<String>>,
    changes: bool,
    rows: u64,
    /// What is to be told above the table.
    notes: Vec<String>,
    /// Input rows per second, the last one at the end.
    rates: VecDeque<f64>,
    /// Lines of the last picture.
    drawn: usize,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a message appear above the table.
    pub(crate) fn note(&self, text: String) {
        self.lock().notes.push(text);
    }

    /// The sink of the query.
    pub(crate) fn sink(self: &Arc<Live>, schema: &Schema) -> Box<dyn Sink> {
        self.lock().layout = Some(Layout::new(schema));
        Box::new(LiveSink(Arc::clone(self)))
    }

    /// The sink of the query, whose result changes: all rows are shown, from the first one on.
    pub(crate) fn sink_of_changes(self: &Arc<Live>, schema: &Schema, key: Option<&[usize]>) -> Box<dyn Sink> {
        let mut shown = self.lock();
        (shown.layout, shown.changes) = (Some(Layout::new(schema)), true);
        Box::new(ChangingSink { live: Arc::clone(self), rows: CurrentRows::new(schema, key) })
    }

    /// Draws until the query has ended, and then its last rows and their number. The next query's table stands below.
    pub(crate) fn paint(&self, monitor: &RunMonitor, ended: &AtomicBool) {
        let mut last: Option<StatsSnapshot> = None;
        let mut status = String::new();
        for frame in 0.. {
            if ended.load(Relaxed) {
                break;
            }
            if frame % FRAMES_PER_RATE == 0
                && let Some(stats) = monitor.stats()
            {
                let now = stats.snapshot();
                if last.is_some() {
                    self.lock().note_rate(rows_per_second(&now, last.as_ref()));
                }
                status = status_line(&now, last.as_ref());
                last = Some(now);
            }
            self.lock().draw(Some(&status));
            std::thread::park_timeout(FRAME);
        }
        let mut shown = self.lock();
        shown.draw(None);
        *shown = Shown::default();
    }
}

impl Shown {
    fn note_rate(&mut self, rate: f64) {
        self.rates.push_back(rate);
        if self.rates.len() > RATES {
            self.rates.pop_front();
        }
    }

    /// Puts a picture in the place of the last one; the last of all has no status.
    fn draw(&mut self, status: Option<&str>) {
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (width, height) = size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let picture: Vec<String> = self.picture(status, height).iter().map(|line| cut(line, width - 1)).collect();
        let mut text = String::new();
        if self.drawn > 0 {
            text += &format!("\x1b[{}A\r\x1b[J", self.drawn);
        }
        let mut out = stdout().lock();
        if !self.notes.is_empty() {
            // A terminal that has gone is found out by whoever writes rows.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            text.clear();
            self.notes.drain(..).for_each(|note| log::note(&note));
        }
        picture.iter().for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
        self.drawn = picture.len();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    fn picture(&mut self, status: Option<&str>, height: usize) -> Vec<String> {
        let Some(layout) = &mut self.layout else { return vec![] };
        let rows = height.saturating_sub(OTHER_LINES).clamp(1, MOST_ROWS);
        let left_out = if self.changes { 0 } else { self.newest.len().saturating_sub(rows) };
        let newest = self.newest.iter().skip(left_out).take(rows);
        if !self.newest.is_empty() || status.is_none() {
            layout.settle(newest.clone());
        }
        let mut lines = Vec::new();
        if layout.is_settled() {
            lines.extend(layout.header());
            let measured = layout.measure();
            let value = |row: &Vec<String>| measured.and_then(|i| row[i].parse::<f64>().ok()).unwrap_or(0.0);
            let most = newest.clone().map(value).fold(0.0, f64::max);
            lines.extend(newest.map(|row| format!("{}  {}", layout.line(row), bar(value(row), most))));
        }
        match status {
            Some(status) => {
                let rates: String = heights(&self.rates);
                lines.extend([
                    String::new(),
                    if rates.is_empty() { status.into() } else { format!("{rates}  {status}") },
                ]);
            }
            None => lines.push(format!("({})", counted(self.rows, "row"))),
        }
        lines
    }
}

/// A bar for a share of the longest.
fn bar(value: f64, most: f64) -> String {
    if !(value > 0.0 && most.is_finite()) {
        return String::new();
    }
    let parts = (value / most * (BAR * 8) as f64).round() as usize;
    "█".repeat(parts / 8) + PARTS[parts % 8]
}

/// Rates beside one another, as shares of the highest.
fn heights(rates: &VecDeque<f64>) -> String {
    let most = rates.iter().copied().fold(0.0, f64::max);
    let height = |rate: &f64| HEIGHTS[if most > 0.0 { (rate / most * 7.0).round() as usize } else { 0 }];
    rates.iter().map(height).collect()
}

/// As much of a line as fits: one that wraps could not be overwritten.
fn cut(line: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    line.chars().take_while(fits).collect()
}

/// Shows the rows of a changing result, as they are at the end of each beat.
struct ChangingSink {
    live: Arc<Live>,
    rows: CurrentRows,
}

impl Sink for ChangingSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let (kinds, piece) = without_kinds(piece)?;
        let shown = self.live.lock();
        let Some(layout) = &shown.layout else { return Err(Diagnostic::bug("rows came before their columns")) };
        let cells = layout.cells(&piece)?;
        drop(shown);
        kinds.into_iter().zip(cells).for_each(|(kind, row)| self.rows.change(kind, row));
        Ok(())
    }

    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        let mut shown = self.live.lock();
        shown.rows = self.rows.len();
        shown.newest = self.rows.first(MOST_ROWS).cloned().collect();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}

struct LiveSink(Arc<Live>);

impl Sink for LiveSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let mut shown = self.0.lock();
        let Some(layout) = &shown.layout else { return Err(Diagnostic::bug("rows came before their columns")) };
        let cells = layout.cells(&piece)?;
        shown.rows += cells.len() as u64;
        shown.newest.extend(cells);
        let surplus = shown.newest.len().saturating_sub(MOST_ROWS);
        shown.newest.drain(..surplus);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_rates_are_shares_of_the_highest() {
        assert_eq!((bar(8.0, 8.0), bar(4.0, 8.0), bar(0.0, 8.0)), ("█".repeat(16), "█".repeat(8), String::new()));
        assert_eq!(bar(1.0, 128.0), "▏");
        assert_eq!(heights(&VecDeque::from([0.0, 50.0, 100.0])), "▁▅█");
        assert_eq!(heights(&VecDeque::from([0.0])), "▁");
    }

    #[test]
    fn lines_are_cut_by_their_width_on_the_terminal() {
        assert_eq!((cut("abc", 2), cut("日本", 3), cut("ab", 9)), ("ab".into(), "日".to_string(), "ab".to_string()));
    }
}
