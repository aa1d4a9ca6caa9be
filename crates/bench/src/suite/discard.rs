//! Runs of queries whose result is not added up: it is thrown away, or kept until the query ends.

use super::{Failure, Measured, System, query, timed};
use millstream::{Collected, Diagnostic, Discarded, ResultTarget, RunMonitor, Session};

/// Millstream with its own session: the first run adds up the rows of the result, the others do with them what `rest`
/// does.
pub(crate) fn first_checked<'a>(
    threads: usize,
    mut session: Session,
    rest: fn(&mut Session, &str) -> Result<Measured, Failure>,
    sql: &'a str,
) -> System<'a> {
    let mut is_checked = false;
    System::measured("millstream", threads, move || {
        let run = if is_checked { rest } else { query };
        is_checked = true;
        run(&mut session, sql)
    })
}

/// Runs a script and throws the rows of its queries away; parsing, binding and compiling are inside the measured time.
pub(crate) fn discard(session: &mut Session, sql: &str) -> Result<Measured, Failure> {
    run(session, sql, &mut Discarded)
}

/// Runs a script and keeps the rows of its queries in memory until all are there.
pub(crate) fn collect(session: &mut Session, sql: &str) -> Result<Measured, Failure> {
    run(session, sql, &mut Collected::new())
}

fn run(session: &mut Session, sql: &str, target: &mut dyn ResultTarget) -> Result<Measured, Failure> {
    let (seconds, run) = timed(|| -> Result<(), Diagnostic> {
        for statement in &session.parse(sql)? {
            session.execute(statement, target, &RunMonitor::new())?;
        }
        Ok(())
    });
    run?;
    Ok(Measured { seconds, ..Measured::default() })
}
