//! Rows in batches, each a transaction: at least once.

use super::options::{BATCH_AGE, BATCH_ROWS};
use super::sink::Database;
use crate::locked;
use millstream_types::{Diagnostic, Options};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Rows that wait for the next transaction.
pub(super) struct Batches {
    /// Rows that a batch has at most.
    limit: usize,
    /// How long the first of them waits.
    interval: Duration,
    data: Vec<u8>,
    rows: usize,
    since: Instant,
}

/// Encoded rows that a batch has at most, but for its last piece.
const BATCH_BYTES: usize = 8 << 20;

impl Batches {
    /// As large and as old as the options say.
    pub(super) fn open(options: &Options) -> Result<Batches, Diagnostic> {
        let limit = Some(BATCH_ROWS.parse(options)?).filter(|rows| *rows > 0).unwrap_or(usize::MAX);
        let interval = BATCH_AGE.duration(options)?;
        Ok(Batches { limit, interval, data: Vec::new(), rows: 0, since: Instant::now() })
    }

    pub(super) fn write(&mut self, data: &[u8], rows: usize, database: &Mutex<Database>) -> Result<(), Diagnostic> {
        if self.rows == 0 {
            self.since = Instant::now();
        }
        self.data.extend_from_slice(data);
        self.rows += rows;
        let is_large = self.rows >= self.limit || self.data.len() >= BATCH_BYTES;
        if is_large || self.since.elapsed() >= self.interval { self.flush(database) } else { Ok(()) }
    }

    /// Writes the batch.
    pub(super) fn flush(&mut self, database: &Mutex<Database>) -> Result<(), Diagnostic> {
        if self.rows == 0 {
            return Ok(());
        }
        let Database { connection, table } = &mut *locked(database);
        connection.run(|client| {
            let mut transaction = client.transaction()?;
            table.copy(&mut transaction, &mut self.data.as_slice())?;
            table.settle(&mut transaction)?;
            Ok(transaction.commit()?)
        })?;
        self.data.clear();
        self.rows = 0;
        Ok(())
    }
}
