//! Rows in batches, each a transaction: at least once.
//!
//! Of a result that changes a batch holds whole beats, however long they are: the rows of a beat are kept apart until it has
//! ended.

use super::options::{BATCH_AGE, BATCH_ROWS};
use super::sink::Database;
use super::waiting::WaitingRows;
use crate::locked;
use millstream_types::{Diagnostic, Options};
use std::mem::take;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where rows go that are written in batches.
pub(super) trait BatchTarget {
    /// Writes rows in one transaction.
    fn write(&self, rows: &WaitingRows) -> Result<(), Diagnostic>;
}

/// Rows that wait for the next transaction.
pub(super) struct Batches {
    /// Rows that a batch has at most.
    limit: usize,
    /// How long the first of them waits.
    interval: Duration,
    /// Whether rows may only be seen when their beat has ended.
    in_beats: bool,
    /// Those that the next transaction writes.
    batch: WaitingRows,
    /// Those of the beat that has not ended.
    beat: WaitingRows,
    since: Instant,
}

impl Batches {
    /// As large and as old as the options say.
    pub(super) fn open(options: &Options, in_beats: bool) -> Result<Batches, Diagnostic> {
        let limit = Some(BATCH_ROWS.parse(options)?).filter(|rows| *rows > 0).unwrap_or(usize::MAX);
        let interval = BATCH_AGE.duration(options)?;
        let (batch, beat) = (WaitingRows::default(), WaitingRows::default());
        Ok(Batches { limit, interval, in_beats, batch, beat, since: Instant::now() })
    }

    pub(super) fn write(&mut self, data: &[u8], rows: usize, target: &dyn BatchTarget) -> Result<(), Diagnostic> {
        if self.batch.rows() + self.beat.rows() == 0 {
            self.since = Instant::now();
        }
        if self.in_beats {
            return self.beat.write(data, rows);
        }
        self.batch.write(data, rows)?;
        self.flush_if_due(target)
    }

    /// All rows so far are those of whole beats.
    pub(super) fn end_beat(&mut self, target: &dyn BatchTarget) -> Result<(), Diagnostic> {
        if !self.batch.fits(&self.beat) {
            self.flush(target)?;
        }
        self.batch.append(take(&mut self.beat));
        self.flush_if_due(target)
    }

    fn flush_if_due(&mut self, target: &dyn BatchTarget) -> Result<(), Diagnostic> {
        let is_large = self.batch.rows() >= self.limit || self.batch.is_large();
        if is_large || self.since.elapsed() >= self.interval { self.flush(target) } else { Ok(()) }
    }

    /// Writes the batch.
    pub(super) fn flush(&mut self, target: &dyn BatchTarget) -> Result<(), Diagnostic> {
        if self.batch.rows() == 0 {
            return Ok(());
        }
        target.write(&self.batch)?;
        self.batch.clear();
        self.since = Instant::now();
        Ok(())
    }

    /// Writes the batch, behind which there are no rows.
    pub(super) fn finish(&mut self, target: &dyn BatchTarget) -> Result<(), Diagnostic> {
        match self.beat.rows() {
            0 => self.flush(target),
            _ => Err(Diagnostic::bug("rows were written behind the last beat")),
        }
    }
}

impl BatchTarget for Mutex<Database> {
    fn write(&self, rows: &WaitingRows) -> Result<(), Diagnostic> {
        let Database { connection, table } = &mut *locked(self);
        connection.run(|client| {
            let mut transaction = client.transaction()?;
            table.copy(&mut transaction, &mut rows.reader()?)?;
            table.settle(&mut transaction)?;
            Ok(transaction.commit()?)
        })
    }
}
