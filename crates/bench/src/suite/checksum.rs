//! What results are compared by: their number of rows and the sum of a hash of each, the same for the same rows in any
//! order; and a sink that adds up what reaches it, so that results of any size are compared without being kept.
//!
//! The hash of a row is the fold of its columns from 0: `h = rotate_left((h ^ value) × 0x9E3779B97F4A7C15, 29)` in 64
//! bits that wrap. A value is an integer or the number of a timestamp sign-extended to 64 bits, a boolean 0 or 1, a
//! double rounded to a thousandth and multiplied by 1,000, a decimal its digits without the point, a text its FNV-1a
//! hash, NULL the number `i64::MIN`. External systems compute the same (docs/benchmarks.md).

use super::{Failure, Measured, timed};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use millstream::connectors::{Encoded, Encoder, Sink, encoding_sink, with_kinds};
use millstream::{Diagnostic, Outcome, ResultTarget, RunMonitor, Schema, Session};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Rows, and the sum of a hash of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checksum {
    pub(crate) rows: u64,
    sum: u64,
}

impl Checksum {
    /// Adds a row of these values.
    #[inline]
    pub(crate) fn add(&mut self, values: &[i64]) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(values.iter().fold(0, |hash, value| mix(hash, *value)));
    }

    /// Adds rows by their hashes.
    pub(super) fn add_hashes(&mut self, hashes: &[u64]) {
        self.rows += hashes.len() as u64;
        self.sum = hashes.iter().fold(self.sum, |sum, hash| sum.wrapping_add(*hash));
    }

    /// The number of rows alone.
    pub(crate) fn counted(self) -> Checksum {
        Checksum { sum: 0, ..self }
    }

    /// The rows of both.
    pub(crate) fn and(self, other: Checksum) -> Checksum {
        Checksum { rows: self.rows + other.rows, sum: self.sum.wrapping_add(other.sum) }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rows, self.sum)
    }
}

impl std::str::FromStr for Checksum {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Checksum, Failure> {
        let (rows, sum) = text.split_once(' ').ok_or_else(|| format!("`{text}` is no checksum"))?;
        Ok(Checksum { rows: rows.parse()?, sum: sum.parse()? })
    }
}

#[inline]
fn mix(hash: u64, value: i64) -> u64 {
    (hash ^ value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// The number that a double counts as.
#[inline]
pub(crate) fn hash_double(value: f64) -> i64 {
    (value * 1000.0).round() as i64
}

/// The number that a text counts as (FNV-1a).
#[inline]
pub(crate) fn hash_text(text: &[u8]) -> i64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    text.iter().fold(0xCBF2_9CE4_8422_2325, fold) as i64
}

/// Runs a script and adds the rows of its queries up; parsing, binding and compiling are inside the measured
/// time.
pub(crate) fn query(session: &mut Session, sql: &str) -> Result<Measured, Failure> {
    let mut adder = Adder::default();
    let mut compile = Duration::ZERO;
    let (seconds, run) = timed(|| -> Result<(), Diagnostic> {
        for statement in &session.parse(sql)? {
            if let Outcome::Ran(stats) = session.execute(statement, &mut adder, &RunMonitor::new())? {
                compile = compile.max(stats.compilations.iter().map(|c| c.time).max().unwrap_or_default());
            }
        }
        Ok(())
    });
    run?;
    Ok(Measured { seconds, checksum: Some(adder.checksum()), compile, ..Measured::default() })
}

/// Shared by the workers, who add as they encode.
#[derive(Debug, Default)]
struct Totals {
    rows: AtomicU64,
    sum: AtomicU64,
}

/// Adds rows up and forgets them. Clones share the sum.
#[derive(Debug, Default, Clone)]
pub(crate) struct Adder(Arc<Totals>);

impl Adder {
    /// Of the rows so far.
    pub(crate) fn checksum(&self) -> Checksum {
        Checksum { rows: self.0.rows.load(Relaxed), sum: self.0.sum.load(Relaxed) }
    }
}

impl ResultTarget for Adder {
    fn open(&mut self, _: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(encoding_sink(Arc::new(Adding { adder: self.clone(), changes: false })))
    }

    fn open_changing(&mut self, _: &Schema, _: Option<&[usize]>) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(encoding_sink(Arc::new(Adding { adder: self.clone(), changes: true })))
    }
}

/// Adds rows up. Those that are taken back are taken off, so that the rows that are left count.
struct Adding {
    adder: Adder,
    /// Whether the last column says what each row does.
    changes: bool,
}

impl Encoder for Adding {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let (columns, kinds) = match self.changes {
            true => with_kinds(columns).map(|(columns, kinds)| (columns, Some(kinds)))?,
            false => (columns, None),
        };
        let mut hashes = vec![0u64; rows];
        for column in columns {
            fold(column, &mut hashes)?;
        }
        let mut added = rows as u64;
        let gone = kinds.iter().flatten().zip(&mut hashes).filter(|(kind, _)| !kind.adds());
        for (_, hash) in gone {
            *hash = hash.wrapping_neg();
            added = added.wrapping_sub(2);
        }
        let Totals { rows: all, sum } = &*self.adder.0;
        sum.fetch_add(hashes.iter().fold(0, |sum, hash| sum.wrapping_add(*hash)), Relaxed);
        all.fetch_add(added, Relaxed);
        Ok(Encoded::Bytes { data: Vec::new(), rows })
    }
}

/// Folds the values of a column into the hashes of its rows.
fn fold(column: &ArrayRef, hashes: &mut [u64]) -> Result<(), Diagnostic> {
    let number = |value: i64| value;
    let handled = integers::<Int64Type>(column, hashes, number)
        || integers::<TimestampMillisecondType>(column, hashes, number)
        || integers::<Int32Type>(column, hashes, i64::from)
        || integers::<Float64Type>(column, hashes, hash_double)
        || integers::<Int16Type>(column, hashes, i64::from)
        || integers::<Int8Type>(column, hashes, i64::from)
        || integers::<TimestampSecondType>(column, hashes, number)
        || integers::<TimestampMicrosecondType>(column, hashes, number)
        || integers::<TimestampNanosecondType>(column, hashes, number)
        || integers::<Decimal128Type>(column, hashes, |unscaled| unscaled as i64)
        || texts(column, hashes)
        || booleans(column, hashes);
    if handled { Ok(()) } else { Err(Diagnostic::bug(format!("no hash for {}", column.data_type()))) }
}

/// What NULL counts as.
const NULL: i64 = i64::MIN;

/// Folds values without NULL into the hashes of their rows.
pub(super) fn fold_values<T: Copy>(values: &[T], hashes: &mut [u64], value: impl Fn(T) -> i64) {
    hashes.iter_mut().zip(values).for_each(|(hash, v)| *hash = mix(*hash, value(*v)));
}

/// Folds a column of this type; says whether it is one.
fn integers<T: ArrowPrimitiveType>(column: &ArrayRef, hashes: &mut [u64], value: impl Fn(T::Native) -> i64) -> bool {
    let Some(array) = column.as_primitive_opt::<T>() else { return false };
    match array.nulls() {
        None => fold_values(array.values(), hashes, value),
        Some(_) => {
            hashes.iter_mut().zip(array).for_each(|(hash, v)| *hash = mix(*hash, v.map_or(NULL, &value)));
        }
    }
    true
}

fn texts(column: &ArrayRef, hashes: &mut [u64]) -> bool {
    let Some(array) = column.as_string_view_opt() else { return false };
    let value = |text: Option<&str>| text.map_or(NULL, |text| hash_text(text.as_bytes()));
    hashes.iter_mut().zip(array).for_each(|(hash, text)| *hash = mix(*hash, value(text)));
    true
}

fn booleans(column: &ArrayRef, hashes: &mut [u64]) -> bool {
    let Some(array) = column.as_boolean_opt() else { return false };
    hashes.iter_mut().zip(array).for_each(|(hash, value)| *hash = mix(*hash, value.map_or(NULL, i64::from)));
    true
}
