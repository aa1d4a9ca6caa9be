//! Rows under checkpoints: each span in one transaction, exactly once.
//!
//! ```text
//! write → rows in memory, then in a file       prepare → the file is on disk, with its name
//! commit → BEGIN; SELECT … FROM millstream_progress FOR UPDATE; rows; progress = checkpoint; COMMIT; the file is removed
//! ```
//! The row of `millstream_progress` for job and sink says up to which checkpoint the database has the rows; each of several nodes has its
//! own row, under the name of the job with the node's number. Because it changes with them, a span can be committed again at any time, whatever has become of an earlier attempt: what an earlier process still
//! has under way holds the row's lock, so one waits for the end of it. What cannot be done is to take rows back.
//!
//! The files are in the job's state directory. If that is in an object store, they are put there when they are prepared, under names
//! that no other process uses; what is local then is only a copy.

use super::connection::Failure;
use super::sink::Database;
use super::span_file::{DurableSpan, SpanRows};
use crate::ended_spans::EndedSpans;
use crate::filesystem::write_error;
use crate::{Commit, RestoredSink, SinkJob, locked};
use millstream_types::{Diagnostic, code};
use postgres::Client;
use postgres::error::SqlState;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

/// See the module.
pub(super) struct Spans {
    open: SpanRows,
    shared: Arc<Shared>,
}

/// What the sink and its commits have in common.
struct Shared {
    job: SinkJob,
    /// What the names of new files start with.
    prefix: String,
    database: Arc<Mutex<Database>>,
    ended: EndedSpans<SpanRows, DurableSpan>,
}

impl Spans {
    /// Begins the spans of a job: commits that of its checkpoint, unless the database has it.
    pub(super) fn begin(
        database: Arc<Mutex<Database>>,
        job: &SinkJob,
        restored: Option<&RestoredSink>,
    ) -> Result<Spans, Diagnostic> {
        fs::create_dir_all(&job.directory).map_err(|e| write_error(&job.directory, &e))?;
        let prefix = format!("{}{}-", prefix(job), job.writer);
        let shared = Arc::new(Shared { job: job.clone(), prefix, database, ended: EndedSpans::default() });
        shared.enter()?;
        if job.writer.is_first() {
            let (committed, checkpoint) = (shared.committed()?, restored.map_or(0, |restored| restored.checkpoint));
            if committed > checkpoint {
                return Err(cannot_take_back(job, committed, restored));
            }
            shared.apply(&spans_of(restored.map_or(&[], |restored| &restored.tokens))?)?;
            shared.remove_files()?;
        }
        Ok(Spans { open: shared.new_rows(), shared })
    }

    /// Commits spans that other nodes have prepared.
    pub(super) fn commit_of_others(&self, tokens: &[Value]) -> Result<(), Diagnostic> {
        let spans = spans_of(tokens)?;
        self.shared.apply(&spans)?;
        self.shared.forget(&spans);
        Ok(())
    }

    pub(super) fn write(&mut self, data: &[u8], rows: usize) -> Result<(), Diagnostic> {
        self.open.write(data, rows)
    }

    pub(super) fn cut(&mut self, checkpoint: u64) -> Box<dyn Commit> {
        let rows = std::mem::replace(&mut self.open, self.shared.new_rows());
        if !rows.is_empty() {
            self.shared.ended.end(checkpoint, rows);
        }
        Box::new(SpanCommit { checkpoint, shared: self.shared.clone() })
    }

    pub(super) fn finish(self) -> Result<(), Diagnostic> {
        if self.open.is_empty() { Ok(()) } else { Err(Diagnostic::bug("rows were written behind the last checkpoint")) }
    }
}

struct SpanCommit {
    checkpoint: u64,
    shared: Arc<Shared>,
}

impl Commit for SpanCommit {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        let spans = self.shared.ended.prepare(self.checkpoint, |ended| {
            let keep = |(checkpoint, rows)| Ok((checkpoint, self.shared.keep(checkpoint, rows)?));
            ended.into_iter().map(keep).collect()
        })?;
        Ok(json!({ "spans": spans }))
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        let spans = self.shared.ended.commit(self.checkpoint, |spans| {
            self.shared.apply(spans)?;
            Ok(spans.to_vec())
        })?;
        self.shared.forget(&spans);
        Ok(())
    }
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS millstream_progress \
     (job text, sink integer, checkpoint bigint NOT NULL, PRIMARY KEY (job, sink))";
const READ: &str = "SELECT checkpoint FROM millstream_progress WHERE job = $1 AND sink = $2 FOR UPDATE";
const ENTER: &str = "INSERT INTO millstream_progress VALUES ($1, $2, 0) ON CONFLICT DO NOTHING";
const ADVANCE: &str = "INSERT INTO millstream_progress VALUES ($1, $2, $3) \
     ON CONFLICT (job, sink) DO UPDATE SET checkpoint = EXCLUDED.checkpoint";
const READ_ALL: &str = "SELECT checkpoint FROM millstream_progress \
     WHERE (job = $1 OR starts_with(job, $1 || '/')) AND sink = $2 FOR UPDATE";

impl Shared {
    fn new_rows(&self) -> SpanRows {
        SpanRows::new(&self.job.directory, &self.prefix)
    }

    /// Makes the file of a span that will be found after a failure.
    fn keep(&self, checkpoint: u64, rows: SpanRows) -> Result<DurableSpan, Diagnostic> {
        let mut span = rows.keep(checkpoint)?;
        span.node = self.job.writer.node;
        if let Some(remote) = &self.job.remote {
            remote
                .put(&span.file, &self.job.directory.join(&span.file))
                .map_err(|e| write_error(&self.job.directory, &e))?;
        }
        Ok(span)
    }

    /// Copies the file of a span that another machine has written.
    fn fetch(&self, span: &DurableSpan) -> Result<(), Diagnostic> {
        let file = self.job.directory.join(&span.file);
        match &self.job.remote {
            Some(remote) if !file.exists() => match remote.get(&span.file, &file) {
                // Then it is damage that there is no local file either.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other.map_err(|e| write_error(&self.job.directory, &e)),
            },
            _ => Ok(()),
        }
    }

    fn sink(&self) -> i32 {
        i32::try_from(self.job.sink).unwrap_or(i32::MAX)
    }

    /// Removes the files of spans that are committed: nobody needs them any more. What stays is removed at the next start.
    fn forget(&self, spans: &[DurableSpan]) {
        for span in spans {
            fs::remove_file(self.job.directory.join(&span.file)).ok();
            self.job.remote.iter().for_each(|remote| drop(remote.delete(&span.file)));
        }
    }

    /// Whose progress it is, in the table: that of a node.
    fn progress_of(&self, node: usize) -> String {
        if node == 0 { self.job.job.clone() } else { format!("{}/{node}", self.job.job) }
    }

    /// Enters the node into the table of progress, which is made if it is not there: so there is a row that commits can lock.
    fn enter(&self) -> Result<(), Diagnostic> {
        locked(&self.database).connection.run(|client| {
            create_progress(client)?;
            client.execute(ENTER, &[&self.progress_of(self.job.writer.node), &self.sink()])?;
            Ok(())
        })
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

    /// Writes those of the spans that the database does not have, those of a node in one transaction.
    fn apply(&self, spans: &[DurableSpan]) -> Result<(), Diagnostic> {
        let mut of_nodes: BTreeMap<usize, Vec<&DurableSpan>> = BTreeMap::new();
        spans.iter().for_each(|span| of_nodes.entry(span.node).or_default().push(span));
        of_nodes.into_iter().try_for_each(|(node, spans)| self.apply_of(&self.progress_of(node), &spans))
    }

    /// The same of one node.
    fn apply_of(&self, progress: &str, spans: &[&DurableSpan]) -> Result<(), Diagnostic> {
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
                self.fetch(span)?;
                let mut file = span.open(&self.job.directory)?;
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

    /// Removes the files of spans that are committed, and of those that no checkpoint knows.
    fn remove_files(&self) -> Result<(), Diagnostic> {
        let failed = |e: io::Error| write_error(&self.job.directory, &e);
        let prefix = prefix(&self.job);
        for entry in fs::read_dir(&self.job.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.strip_prefix('.').unwrap_or(&name).starts_with(&prefix) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        let Some(remote) = &self.job.remote else { return Ok(()) };
        let files = remote.list().map_err(failed)?;
        files.iter().filter(|name| name.starts_with(&prefix)).try_for_each(|name| remote.delete(name)).map_err(failed)
    }
}

/// What the names of all files of the sink start with.
fn prefix(job: &SinkJob) -> String {
    format!("sink-{}-", job.sink)
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

fn spans_of(tokens: &[Value]) -> Result<Vec<DurableSpan>, Diagnostic> {
    let mut all = Vec::new();
    for token in tokens {
        let spans = token.get("spans").and_then(Value::as_array);
        let spans: Option<Vec<_>> = spans.and_then(|spans| spans.iter().map(DurableSpan::of_json).collect());
        all.extend(spans.ok_or_else(|| {
            let message = format!("the checkpoint says '{token}' of the rows for PostgreSQL, which makes no sense");
            Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
        })?);
    }
    Ok(all)
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
