//! A sink that notes when the last row of each window was written, for latencies.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use millstream::connectors::{ColumnEncoder, Encoded, Encoder, Sink};
use millstream::{Diagnostic, ResultTarget, Schema};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Times of the clock `T`, by the end of the window, which is a column of the result. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Written<T> {
    end_column: usize,
    now: fn() -> T,
    times: Arc<Mutex<BTreeMap<i64, T>>>,
}

impl<T: Clone> Written<T> {
    /// Nothing written yet; the window's end in milliseconds is in the column `end_column`.
    pub(crate) fn new(end_column: usize, now: fn() -> T) -> Written<T> {
        Written { end_column, now, times: Arc::default() }
    }

    /// When the last row of each window was written.
    pub(crate) fn times(&self) -> BTreeMap<i64, T> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T: Clone + Send + 'static> ResultTarget for Written<T> {
    fn open(&mut self, _: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(Box::new(self.clone()))
    }
}

impl<T: Clone + Send> Sink for Written<T> {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let Encoded::Columns { columns, .. } = piece else {
            return Err(Diagnostic::bug("bytes reached a sink of columns"));
        };
        let now = (self.now)();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = columns[self.end_column].as_primitive::<TimestampMillisecondType>().values();
        for run in ends.chunk_by(|a, b| a == b) {
            times.insert(run[0], now.clone());
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
