//! Runs of a statement that is looked at while it runs.

use crate::suite::{Failure, process_time, timed};
use millstream::{CancelToken, ResultTarget, RunMonitor, Session, StatsSnapshot, code};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it is looked at.
const SAMPLE: Duration = Duration::from_millis(5);

/// What came of a run.
pub(super) struct Ran {
    /// Of the whole statement.
    pub(super) seconds: f64,
    /// Processor time of all threads of this process meanwhile.
    pub(super) processor_s: f64,
    /// In the end.
    pub(super) stats: StatsSnapshot,
}

/// Executes a statement in its own thread; `look` is called repeatedly with the current statistics, and may end it. A
/// query that was asked to end has not failed.
pub(super) fn run(
    session: &mut Session,
    sql: &str,
    target: &mut (dyn ResultTarget + Send),
    mut look: impl FnMut(&StatsSnapshot, &CancelToken),
) -> Result<Ran, Failure> {
    let statements = session.parse(sql)?;
    let [statement] = statements.as_slice() else { return Err("one statement is wanted".into()) };
    let monitor = RunMonitor::new();
    let before = process_time();
    let (seconds, ended) = timed(|| {
        std::thread::scope(|scope| {
            let query = scope.spawn(|| session.execute(statement, target, &monitor).map(drop));
            while !query.is_finished() {
                std::thread::sleep(SAMPLE);
                if let Some(stats) = monitor.stats() {
                    look(&stats.snapshot(), monitor.cancel());
                }
            }
            query.join().map_err(|_| Failure::from("the query panicked"))
        })
    });
    match ended? {
        Err(failed) if failed.code != code::SUSPENDED && failed.code != code::CANCELLED => return Err(failed.into()),
        _ => {}
    }
    let stats = monitor.stats().ok_or("the query did not run")?.snapshot();
    let processor_s = (process_time() - before).as_secs_f64();
    Ok(Ran { seconds, processor_s, stats })
}

/// A directory that is empty, and gone in the end.
#[derive(Debug)]
pub(crate) struct Emptied(PathBuf);

impl Emptied {
    pub(crate) fn new(path: PathBuf) -> Result<Emptied, Failure> {
        let directory = Emptied(path);
        directory.remove()?;
        std::fs::create_dir_all(&directory.0)?;
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn remove(&self) -> std::io::Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Emptied {
    fn drop(&mut self) {
        // What stays takes space, no more; the next run removes it.
        let _ = self.remove();
    }
}
