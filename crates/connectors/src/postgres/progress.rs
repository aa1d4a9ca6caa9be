//! Spans in a database, each in one transaction with the job's progress.
//!
//! ```text
//! BEGIN; SELECT … FROM millstream_progress FOR UPDATE; rows; progress = checkpoint; COMMIT
//! ```
//! The row of `millstream_progress` for job and sink says up to which checkpoint the database has the rows; each of several nodes has its
//! own row, under the name of the job with the node's number. What an earlier process still has under way holds the row's lock, so one waits
//! for the end of it.

use super::connection::Failure;
use super::sink::Database;
use crate::spans::{DurableSpan, OfNodes, SpanFiles, SpanTarget};
use crate::{RestoredSink, SinkJob, locked};
use millstream_types::{Diagnostic, code};
use postgres::Client;
use postgres::error::SqlState;
use std::sync::{Arc, Mutex};

/// See the module.
pub(super) struct JobProgress {
    job: SinkJob,
    database: Arc<Mutex<Database>>,
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS millstream_progress \
     (job text, sink integer, checkpoint bigint NOT NULL, PRIMARY KEY (job, sink))";
const READ: &str = "SELECT checkpoint FROM millstream_progress WHERE job = $1 AND sink = $2 FOR UPDATE";
const ENTER: &str = "INSERT INTO millstream_progress VALUES ($1, $2, 0) ON CONFLICT DO NOTHING";
const ADVANCE: &str = "INSERT INTO millstream_progress VALUES ($1, $2, $3) \
     ON CONFLICT (job, sink) DO UPDATE SET checkpoint = EXCLUDED.checkpoint";
const READ_ALL: &str = "SELECT checkpoint FROM millstream_progress \
     WHERE (job = $1 OR starts_with(job, $1 || '/')) AND sink = $2 FOR UPDATE";

impl JobProgress {
    /// Enters the node into the table of progress, which is made if it is not there: so there is a row that commits can lock.
    ///
    /// # Errors
    /// When the database has rows from behind the checkpoint that the job resumes from.
    pub(super) fn enter(
        database: Arc<Mutex<Database>>,
        job: &SinkJob,
        restored: Option<&RestoredSink>,
    ) -> Result<JobProgress, Diagnostic> {
        let progress = JobProgress { job: job.clone(), database };
        locked(&progress.database).connection.run(|client| {
            create_progress(client)?;
            client.execute(ENTER, &[&progress.of(job.writer.node), &progress.sink()])?;
            Ok(())
        })?;
        if job.writer.is_first() {
            let (committed, checkpoint) = (progress.committed()?, restored.map_or(0, |restored| restored.checkpoint));
            if committed > checkpoint {
                return Err(cannot_take_back(job, committed, restored));
            }
        }
        Ok(progress)
    }

    fn sink(&self) -> i32 {
        i32::try_from(self.job.sink).unwrap_or(i32::MAX)
    }

    /// Whose progress it is, in the table: that of a node.
    fn of(&self, node: usize) -> String {
        if node == 0 { self.job.job.clone() } else { format!("{}/{node}", self.job.job) }
    }

    /// Up to which checkpoint the database has rows of the job, of whichever node; 0: none. Waits for commits under way.
    fn committed(&self) -> Result<u64, Diagnostic> {
        locked(&self.database).connection.run(|client| {
            let mut transaction = client.transaction()?;
            let rows = transaction.query(READ_ALL, &[&self.job.job, &self.sink()])?;
            let committed = rows.iter().map(|row| row.try_get::<_, i64>(0)).collect::<Result<Vec<_>, _>>()?;
            transaction.commit()?;
            Ok(committed.into_iter().max().unwrap_or(0).unsigned_abs())
        })
    }

    /// Writes those of the spans of a node that the database does not have.
    fn apply(&self, node: usize, spans: &[&DurableSpan], files: &SpanFiles) -> Result<(), Diagnostic> {
        let progress = self.of(node);
        let Some(last) = spans.iter().map(|span| span.checkpoint).max() else { return Ok(()) };
        let last = i64::try_from(last).unwrap_or(i64::MAX);
        let Database { connection, table } = &mut *locked(&self.database);
        connection.run(|client| {
            let mut transaction = client.transaction()?;
            let row = transaction.query_opt(READ, &[&progress, &self.sink()])?;
            let committed: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
            if committed >= last {
                return Ok(());
            }
            for span in spans.iter().filter(|span| span.checkpoint > committed.unsigned_abs()) {
                let mut file = files.open(span)?;
                let rows = table.copy(&mut transaction, &mut file)?;
                file.check()?;
                if rows != span.rows {
                    let text =
                        format!("PostgreSQL took {rows} rows of the {} of checkpoint {}", span.rows, span.checkpoint);
                    return Err(Failure::Other(Diagnostic::bug(text)));
                }
            }
            table.settle(&mut transaction)?;
            transaction.execute(ADVANCE, &[&progress, &self.sink(), &last])?;
            Ok(transaction.commit()?)
        })
    }
}

impl SpanTarget for JobProgress {
    fn write(&self, spans: &[&DurableSpan], files: &SpanFiles) -> Result<(), Diagnostic> {
        self.apply(self.job.writer.node, spans, files)
    }

    /// Waits for what others have under way.
    fn finish(
        &self,
        spans: &OfNodes<'_>,
        files: &SpanFiles,
        _is_lost: &dyn Fn(usize) -> bool,
    ) -> Result<(), Diagnostic> {
        spans.iter().try_for_each(|(node, spans)| self.apply(*node, spans, files))
    }
}

/// Makes the table of progress. It is looked for first: who may not create tables can have it created for him.
fn create_progress(client: &mut Client) -> Result<(), Failure> {
    let is_there: bool = client.query_one("SELECT to_regclass('millstream_progress') IS NOT NULL", &[])?.try_get(0)?;
    if is_there {
        return Ok(());
    }
    match client.batch_execute(CREATE) {
        // Two that create a table at the same time get in each other's way.
        Err(e) if e.code() == Some(&SqlState::UNIQUE_VIOLATION) || e.code() == Some(&SqlState::DUPLICATE_TABLE) => {
            Ok(())
        }
        other => Ok(other?),
    }
}

fn cannot_take_back(job: &SinkJob, committed: u64, restored: Option<&RestoredSink>) -> Diagnostic {
    let from = match restored {
        Some(restored) => format!("resumes from checkpoint {}", restored.checkpoint),
        None => "starts from the beginning".into(),
    };
    let message = format!(
        "the query {from}, but the database has its rows up to checkpoint {committed} (job '{}', sink {}), which cannot be taken back",
        job.job, job.sink
    );
    Diagnostic::new(code::NOT_RECOVERABLE, message).advise(format!(
        "recover from checkpoint {committed} or a later one; or remove the rows from the table, and the job's row from millstream_progress"
    ))
}
