//! Inserts that are stopped with a checkpoint.

use millstream::{Collected, Diagnostic, Outcome, RunMonitor, Session, code};
use std::time::Duration;

/// Runs an insert until it ends, or, for a while, until it has stopped; whether it has ended.
pub fn run_or_stop(session: &mut Session, insert: &str, stop_after: Option<Duration>) -> Result<bool, Diagnostic> {
    let monitor = RunMonitor::new();
    let statement = &session.parse(insert)?[0];
    let cancel = monitor.cancel().clone();
    let stopper = stop_after.map(|time| {
        std::thread::spawn(move || {
            std::thread::sleep(time);
            cancel.stop();
        })
    });
    let outcome = session.execute(statement, &mut Collected::new(), &monitor);
    stopper.into_iter().for_each(|thread| thread.join().unwrap());
    match outcome {
        Ok(Outcome::Ran(_) | Outcome::Done(_)) => Ok(true),
        Err(diagnostic) if diagnostic.code == code::SUSPENDED => Ok(false),
        Ok(_) => panic!("an insert has no other outcome"),
        Err(diagnostic) => Err(diagnostic),
    }
}
