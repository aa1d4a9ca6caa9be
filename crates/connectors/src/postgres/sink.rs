//! The sink: what workers have encoded goes into batches or spans.

use super::batches::Batches;
use super::connection::Connection;
use super::encode::CopyEncoder;
use super::options::GUARANTEE;
use super::progress::JobProgress;
use super::table::Table;
use crate::changes::not_at_least_once;
use crate::spans::Spans;
use crate::{Commit, Delivery, Encoded, Encoder, LostSink, RestoredSink, Sink, SinkJob, SinkRequest};
use millstream_types::Diagnostic;
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// Opens the sink: the database must be there, and have a table that fits.
pub(super) fn open(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let all = [("exactly-once", Delivery::ExactlyOnce), ("at-least-once", Delivery::AtLeastOnce)];
    let delivery = GUARANTEE.choice(&request.options, &all)?;
    let batches = Batches::open(&request.options, request.changes.is_some())?;
    let mut connection = Connection::open(&request.options)?;
    let table = Table::open(&mut connection, request)?;
    let encoder = Arc::new(CopyEncoder::new(request, table.forms.clone())?);
    let database = Arc::new(Mutex::new(Database { connection, table }));
    Ok(Box::new(JdbcSink { encoder, delivery, changes: request.changes.is_some(), database, batches, spans: None }))
}

/// A table and the way to it.
pub(super) struct Database {
    pub(super) connection: Connection,
    pub(super) table: Table,
}

struct JdbcSink {
    encoder: Arc<CopyEncoder>,
    delivery: Delivery,
    /// Whether rows are taken back.
    changes: bool,
    database: Arc<Mutex<Database>>,
    batches: Batches,
    /// Under checkpoints, instead of batches.
    spans: Option<Spans<JobProgress>>,
}

impl Sink for JdbcSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let Encoded::Bytes { data, rows } = piece else {
            return Err(Diagnostic::bug("columns reached the jdbc connector"));
        };
        match &mut self.spans {
            None => self.batches.write(&data, rows, &*self.database),
            Some(spans) => spans.write(&data, rows),
        }
    }

    /// Spans hold whole beats: a checkpoint ends one.
    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        match &mut self.spans {
            None => self.batches.end_beat(&*self.database),
            Some(_) => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        match &mut self.spans {
            None => self.batches.flush(&*self.database),
            Some(_) => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        match self.spans {
            None => self.batches.finish(&*self.database),
            Some(spans) => spans.finish(),
        }
    }

    fn delivery(&self) -> Delivery {
        self.delivery
    }

    fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        if self.changes && self.delivery == Delivery::AtLeastOnce {
            let advice = "leave 'sink.delivery-guarantee' out: under checkpoints rows are written exactly once";
            return Err(not_at_least_once(advice));
        }
        if self.delivery == Delivery::ExactlyOnce {
            let progress = JobProgress::enter(self.database.clone(), job, restored)?;
            self.spans = Some(Spans::begin(progress, job, restored)?);
        }
        Ok(())
    }

    fn commit_of_others(&mut self, tokens: &[Value]) -> Result<(), Diagnostic> {
        match &self.spans {
            Some(spans) => spans.commit_of_others(tokens),
            None => Err(Diagnostic::bug("rows of other nodes have been prepared, and those of this one have not")),
        }
    }

    fn succeed(&mut self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        self.spans.as_ref().map_or(Ok(()), |spans| spans.succeed(lost))
    }

    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        match &mut self.spans {
            None => self.batches.finish(&*self.database).map(|()| None),
            Some(spans) => Ok(Some(spans.cut(checkpoint))),
        }
    }
}
