//! Inserts that are stopped with a checkpoint.

use millstream::{Collected, Diagnostic, Outcome, RunMonitor, Session, code};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs an insert to its end, or until its sources have read that many rows in this run; whether it has ended. Sources with a
/// rate limit keep what they read between two looks small, so that the place of the stop does not depend on the machine.
pub fn run_or_stop(session: &mut Session, insert: &str, stop_at_row: Option<u64>) -> Result<bool, Diagnostic> {
    run_or_stop_with(session, insert, stop_at_row, &RunMonitor::new())
}

/// The same with a monitor.
pub fn run_or_stop_with(
    session: &mut Session,
    insert: &str,
    stop_at_row: Option<u64>,
    monitor: &RunMonitor,
) -> Result<bool, Diagnostic> {
    let is_over = &AtomicBool::new(false);
    let statement = &session.parse(insert)?[0];
    let outcome = std::thread::scope(|scope| {
        if let Some(rows) = stop_at_row {
            scope.spawn(move || stop_at(rows, monitor, is_over));
        }
        let outcome = session.execute(statement, &mut Collected::new(), monitor);
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    match outcome {
        Ok(Outcome::Ran(_) | Outcome::Done(_)) => Ok(true),
        Err(diagnostic) if diagnostic.code == code::SUSPENDED => Ok(false),
        Ok(_) => panic!("an insert has no other outcome"),
        Err(diagnostic) => Err(diagnostic),
    }
}

fn stop_at(rows: u64, monitor: &RunMonitor, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        if monitor.stats().is_some_and(|stats| stats.snapshot().rows_in >= rows) {
            return monitor.cancel().stop();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
