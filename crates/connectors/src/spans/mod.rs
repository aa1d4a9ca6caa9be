//! Deferred spans: the rows of a checkpoint's span wait in the job's state, and are written when the checkpoint is complete, each span of a
//! node in one transaction, exactly once.
//!
//! ```text
//! write → rows in memory, then in a file       prepare → the file is on disk, with its name
//! commit → one transaction: rows, and a note of the checkpoint for (job, sink, node); then the file is removed
//! ```
//! Because the note changes with the rows, a span can be written again at any time, by any node and process, whatever has become of an
//! earlier attempt: the outside is asked how far it is, and keeps writers apart that do not know of each other ([`SpanTarget`]). What
//! cannot be done is to take rows back.
//!
//! The files are in the job's state directory. If that is in an object store, they are put there when they are prepared, under names
//! that no other process uses; what is local then is only a copy.

mod ended;
mod file;
#[cfg(test)]
mod tests;

pub(crate) use ended::EndedSpans;
pub(crate) use file::{CheckedReader, DurableSpan, SpanRows};

use crate::filesystem::{removed, write_error};
use crate::{Commit, LostSink, RestoredSink, SinkJob, SinkWriter};
use millstream_types::{Diagnostic, code};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;

/// Spans by the node that has written them.
pub(crate) type OfNodes<'a> = BTreeMap<usize, Vec<&'a DurableSpan>>;

/// What takes the rows of spans.
pub(crate) trait SpanTarget: Send + Sync {
    /// The run begins on this node: an earlier process of the node must not be heard any more before a span of this one is durable.
    fn open(&self) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Called before a span of this node becomes durable.
    fn prepare(&self) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Writes spans of this node in one transaction with the last of their checkpoints, unless they are there.
    fn write(&self, spans: &[&DurableSpan], files: &SpanFiles) -> Result<(), Diagnostic>;

    /// Writes those of the spans of other processes that are not there, those of a node in one transaction. A process that has begun to write one
    /// of them, and not ended, does not come to its end. `is_lost` says of which nodes it is known that their processes take no part any more.
    fn finish(&self, spans: &OfNodes<'_>, files: &SpanFiles, is_lost: &dyn Fn(usize) -> bool)
    -> Result<(), Diagnostic>;
}

/// The spans of a sink on one node.
pub(crate) struct Spans<T> {
    open: SpanRows,
    shared: Arc<Shared<T>>,
}

/// What the sink and its commits have in common.
struct Shared<T> {
    files: SpanFiles,
    target: T,
    ended: EndedSpans<SpanRows, DurableSpan>,
}

impl<T: SpanTarget + 'static> Spans<T> {
    /// Begins the spans of a job: the first node writes those of the checkpoint it resumes from.
    pub(crate) fn begin(target: T, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<Spans<T>, Diagnostic> {
        let files = SpanFiles::new(job)?;
        if job.writer.is_first() {
            files.finish(&target, restored)?;
        }
        target.open()?;
        let open = files.new_rows();
        Ok(Spans { open, shared: Arc::new(Shared { files, target, ended: EndedSpans::default() }) })
    }

    /// Writes spans that other nodes have prepared.
    pub(crate) fn commit_of_others(&self, tokens: &[Value]) -> Result<(), Diagnostic> {
        self.commit(tokens, &|_| true)
    }

    fn commit(&self, tokens: &[Value], is_lost: &dyn Fn(usize) -> bool) -> Result<(), Diagnostic> {
        let (spans, Shared { target, files, .. }) = (spans_of(tokens)?, &*self.shared);
        target.finish(&of_nodes(&spans), files, is_lost)?;
        files.forget(&spans);
        Ok(())
    }

    /// Writes the span that a lost node has prepared, if it is not there, and removes the files of those that it has begun since.
    pub(crate) fn succeed(&self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        lost.token.map_or(Ok(()), |token| self.commit(std::slice::from_ref(token), lost.is_lost))?;
        self.shared.files.remove(|writer| writer.is_some_and(|writer| writer.node == lost.node))
    }

    pub(crate) fn write(&mut self, data: &[u8], rows: usize) -> Result<(), Diagnostic> {
        self.open.write(data, rows)
    }

    pub(crate) fn cut(&mut self, checkpoint: u64) -> Box<dyn Commit> {
        let rows = std::mem::replace(&mut self.open, self.shared.files.new_rows());
        if !rows.is_empty() {
            self.shared.ended.end(checkpoint, rows);
        }
        Box::new(SpanCommit { checkpoint, shared: self.shared.clone() })
    }

    pub(crate) fn finish(self) -> Result<(), Diagnostic> {
        if self.open.is_empty() { Ok(()) } else { Err(Diagnostic::bug("rows were written behind the last checkpoint")) }
    }
}

struct SpanCommit<T> {
    checkpoint: u64,
    shared: Arc<Shared<T>>,
}

impl<T: SpanTarget> Commit for SpanCommit<T> {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        let Shared { files, target, ended } = &*self.shared;
        target.prepare()?;
        let spans = ended.prepare(self.checkpoint, |ended| {
            let keep = |(checkpoint, rows)| Ok((checkpoint, files.keep(checkpoint, rows)?));
            ended.into_iter().map(keep).collect()
        })?;
        Ok(json!({ "spans": spans }))
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        let Shared { files, target, ended } = &*self.shared;
        ended.commit(self.checkpoint, |spans| {
            if !spans.is_empty() {
                target.write(&spans.iter().collect::<Vec<_>>(), files)?;
                files.forget(spans);
            }
            Ok(())
        })
    }
}

/// The files of a sink's spans.
pub(crate) struct SpanFiles {
    job: SinkJob,
}

impl SpanFiles {
    /// Those of a sink of a job; their directory is made if it is not there.
    pub(crate) fn new(job: &SinkJob) -> Result<SpanFiles, Diagnostic> {
        fs::create_dir_all(&job.directory).map_err(|e| write_error(&job.directory, &e))?;
        Ok(SpanFiles { job: job.clone() })
    }

    /// Writes the spans of a checkpoint that a job resumes from, and removes the files of these and of those that no checkpoint knows.
    pub(crate) fn finish(&self, target: &dyn SpanTarget, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        let spans = spans_of(restored.map_or(&[], |restored| &restored.tokens))?;
        target.finish(&of_nodes(&spans), self, &|_| true)?;
        self.remove(|_| true)
    }

    fn new_rows(&self) -> SpanRows {
        SpanRows::new(&self.job.directory, &format!("{}{}-", self.prefix(), self.job.writer))
    }

    /// Makes the file of a span that will be found after a failure.
    fn keep(&self, checkpoint: u64, rows: SpanRows) -> Result<DurableSpan, Diagnostic> {
        let mut span = rows.keep(checkpoint)?;
        span.node = self.job.writer.node;
        if let Some(remote) = &self.job.remote {
            remote.put(&span.file, &self.job.directory.join(&span.file)).map_err(|e| self.failed(&e))?;
        }
        Ok(span)
    }

    /// Opens the file of a span, which is copied if another machine has written it.
    pub(crate) fn open<'a>(&self, span: &'a DurableSpan) -> Result<CheckedReader<'a>, Diagnostic> {
        let file = self.job.directory.join(&span.file);
        if let Some(remote) = self.job.remote.as_ref().filter(|_| !file.exists()) {
            match remote.get(&span.file, &file) {
                // Then it is damage that there is no local file either.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(|e| self.failed(&e))?,
            }
        }
        span.open(&self.job.directory)
    }

    /// Removes the files of spans that are committed: nobody needs them any more. What stays is removed at the next start.
    fn forget(&self, spans: &[DurableSpan]) {
        for span in spans {
            fs::remove_file(self.job.directory.join(&span.file)).ok();
            self.job.remote.iter().for_each(|remote| drop(remote.delete(&span.file)));
        }
    }

    /// Removes files of the sink, by who has written them.
    fn remove(&self, is_left: impl Fn(Option<SinkWriter>) -> bool) -> Result<(), Diagnostic> {
        let failed = |e: io::Error| self.failed(&e);
        let prefix = self.prefix();
        let is_left = |name: &str| {
            let rest = name.strip_prefix('.').unwrap_or(name).strip_prefix(&prefix);
            rest.is_some_and(|rest| is_left(rest.split('-').next().and_then(|writer| writer.parse().ok())))
        };
        for entry in fs::read_dir(&self.job.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if is_left(&name.to_string_lossy()) {
                removed(fs::remove_file(entry.path())).map_err(failed)?;
            }
        }
        let Some(remote) = &self.job.remote else { return Ok(()) };
        let files = remote.list().map_err(failed)?;
        files.iter().filter(|name| is_left(name)).try_for_each(|name| remote.delete(name)).map_err(failed)
    }

    /// What the names of all files of the sink start with.
    fn prefix(&self) -> String {
        format!("sink-{}-", self.job.sink)
    }

    fn failed(&self, error: &io::Error) -> Diagnostic {
        write_error(&self.job.directory, error)
    }
}

fn of_nodes(spans: &[DurableSpan]) -> OfNodes<'_> {
    let mut of_nodes = OfNodes::new();
    spans.iter().for_each(|span| of_nodes.entry(span.node).or_default().push(span));
    of_nodes
}

fn spans_of(tokens: &[Value]) -> Result<Vec<DurableSpan>, Diagnostic> {
    let mut all = Vec::new();
    for token in tokens {
        let spans = token.get("spans").and_then(Value::as_array);
        let spans: Option<Vec<_>> = spans.and_then(|spans| spans.iter().map(DurableSpan::of_json).collect());
        all.extend(spans.ok_or_else(|| {
            let message = format!("the checkpoint says '{token}' of rows that wait, which makes no sense");
            Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
        })?);
    }
    Ok(all)
}
