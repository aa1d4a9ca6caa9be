//! Rows in batches, each a transaction: at least once.

use super::sink::{Database, locked};
use millstream_types::{Diagnostic, Options};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Rows that wait for the next transaction.
pub(super) struct Batches {
    limits: Limits,
    database: Arc<Mutex<Database>>,
    data: Vec<u8>,
    rows: usize,
    since: Instant,
}

/// When a batch is written.
pub(super) struct Limits {
    rows: usize,
    interval: Duration,
}

/// Encoded rows that a batch has at most, but for its last piece.
const BATCH_BYTES: usize = 8 << 20;

impl Batches {
    /// What the options say.
    pub(super) fn limits(options: &Options) -> Result<Limits, Diagnostic> {
        let rows = options.parse("sink.buffer-flush.max-rows", 5000)?;
        let interval = options.duration("sink.buffer-flush.interval", Duration::from_secs(1))?;
        Ok(Limits { rows: if rows == 0 { usize::MAX } else { rows }, interval })
    }

    pub(super) fn new(limits: Limits, database: Arc<Mutex<Database>>) -> Batches {
        Batches { limits, database, data: Vec::new(), rows: 0, since: Instant::now() }
    }

    pub(super) fn write(&mut self, data: &[u8], rows: usize) -> Result<(), Diagnostic> {
        if self.rows == 0 {
            self.since = Instant::now();
        }
        self.data.extend_from_slice(data);
        self.rows += rows;
        let is_large = self.rows >= self.limits.rows || self.data.len() >= BATCH_BYTES;
        if is_large || self.since.elapsed() >= self.limits.interval { self.flush() } else { Ok(()) }
    }

    /// Writes the batch.
    pub(super) fn flush(&mut self) -> Result<(), Diagnostic> {
        if self.rows == 0 {
            return Ok(());
        }
        let Database { connection, table } = &mut *locked(&self.database);
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
