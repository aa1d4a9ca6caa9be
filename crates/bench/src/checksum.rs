//! A sink that adds up what reaches it, so that results of any size are compared without being kept.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use millstream::connectors::{Encoded, Encoder, Sink};
use millstream::{Diagnostic, ResultTarget, RunMonitor, Schema, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rows, and the sum of a hash of each: the same for the same rows in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) rows: u64,
    sum: u64,
}

/// Runs a query of BIGINT and TIMESTAMP(3) columns and adds its rows up.
pub(crate) fn checksum(session: &mut Session, sql: &str) -> Result<Checksum, Diagnostic> {
    let mut adder = Adder::default();
    for statement in &session.parse(sql)? {
        session.execute(statement, &mut adder, &RunMonitor::new())?;
    }
    Ok(Checksum { rows: adder.0.rows.load(Relaxed), sum: adder.0.sum.load(Relaxed) })
}

/// Shared by the workers, who add as they encode.
#[derive(Debug, Default)]
struct Totals {
    rows: AtomicU64,
    sum: AtomicU64,
}

#[derive(Debug, Default, Clone)]
struct Adder(Arc<Totals>);

impl ResultTarget for Adder {
    fn open(&mut self, _: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(Box::new(self.clone()))
    }
}

impl Encoder for Adder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let mut hashes = vec![0u64; rows];
        for column in columns {
            let values = match column.as_primitive_opt::<Int64Type>() {
                Some(numbers) => numbers.values().clone(),
                None => column.as_primitive::<TimestampMillisecondType>().values().clone(),
            };
            let mix = |h: u64, v: i64| (h ^ v as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
            hashes.iter_mut().zip(&values).for_each(|(hash, value)| *hash = mix(*hash, *value));
        }
        self.0.sum.fetch_add(hashes.iter().fold(0, |sum, hash| sum.wrapping_add(*hash)), Relaxed);
        self.0.rows.fetch_add(rows as u64, Relaxed);
        Ok(Encoded::Bytes { data: Vec::new(), rows })
    }
}

impl Sink for Adder {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(self.clone())
    }

    fn write(&mut self, _: Encoded) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
