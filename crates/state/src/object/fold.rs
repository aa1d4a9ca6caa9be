//! States of aggregate functions of the program: what they are of is the program's business, so they are bytes here.
//!
//! A function is called for many rows at once: an object keeps rows until there are many, and states of others until there are [`STATES`], before
//! it has them folded into one state. What is shown of it are states and rows: whoever shows them folds the rest. What cannot be folded is kept, so
//! that the error is one of the result, and a checkpoint has all that a corrected function needs.

use super::Values;
use millstream_abi::{Phys, Slot};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// Bytes of rows that are kept before they are folded, however few rows they are.
const BYTES: usize = 256 << 10;
/// States that are kept before they are folded.
const STATES: usize = 16;

/// An aggregate function with a state.
pub trait Fold: Send + Sync + fmt::Debug {
    /// The state of what the states are of, and rows, each as the argument of the aggregate has them. The order of both is any: results must
    /// not depend on it. `run` is the number of the run that calls. An error is that of the whole group.
    fn fold(&self, states: &[&[u8]], rows: &[&[u8]], run: u64) -> Result<Vec<u8>, String>;
}

/// Functions by number, as long as somebody has them.
static FOLDS: RwLock<BTreeMap<u32, Weak<dyn Fold>>> = RwLock::new(BTreeMap::new());

/// Makes a function known; its number in this process.
pub fn register_fold(fold: &Arc<dyn Fold>) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let mut folds = FOLDS.write().unwrap_or_else(PoisonError::into_inner);
    folds.retain(|_, fold| fold.strong_count() > 0);
    folds.insert(number, Arc::downgrade(fold));
    number
}

thread_local! {
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// Says which run this thread works for.
pub fn set_run(run: u64) {
    RUN.set(run);
}

/// What an object of an aggregate function keeps.
#[derive(Debug, Clone)]
pub(crate) struct Folded {
    number: u32,
    /// Rows that are kept before they are folded.
    most: usize,
    states: Vec<Vec<u8>>,
    rows: Values,
    /// How often in a row they could not be folded: each time twice as many are kept before it is tried again.
    failures: u32,
}

impl Folded {
    pub(super) fn new(number: u32, most: u16) -> Folded {
        Folded { number, most: most.into(), states: vec![], rows: Values::new(Phys::Str), failures: 0 }
    }

    /// Takes in a row.
    ///
    /// # Safety
    /// As for [`Values::push`].
    pub(super) unsafe fn push(&mut self, phys: Phys, row: &Slot) {
        // SAFETY: forwarded.
        unsafe { self.rows.push(phys, row) };
        self.compact();
    }

    /// Takes in what another one keeps.
    pub(super) fn merge(&mut self, other: &Folded) {
        self.states.extend_from_slice(&other.states);
        (0..other.rows.len()).for_each(|row| self.rows.push_from(&other.rows, row));
        self.compact();
    }

    fn compact(&mut self) {
        let keeps = |most: usize| most.saturating_mul(1 << self.failures.min(30));
        let is_little = self.rows.len() < keeps(self.most) && self.states.len() < keeps(STATES);
        if is_little && self.rows.bytes() < keeps(BYTES) {
            return;
        }
        match self.folded() {
            Ok(state) => {
                (self.states, self.rows, self.failures) = (vec![state], Values::new(Phys::Str), 0);
            }
            // Whoever makes the result tries again, and tells why.
            Err(_) => self.failures += 1,
        }
    }

    fn folded(&self) -> Result<Vec<u8>, String> {
        let fold = FOLDS.read().unwrap_or_else(PoisonError::into_inner).get(&self.number).and_then(Weak::upgrade);
        let fold = fold.ok_or("the aggregate function is gone")?;
        let states: Vec<&[u8]> = self.states.iter().map(Vec::as_slice).collect();
        let rows: Vec<&[u8]> = (0..self.rows.len()).map(|row| self.rows.string(row)).collect();
        fold.fold(&states, &rows, RUN.get())
    }

    pub(super) fn bytes(&self) -> usize {
        self.states.iter().map(Vec::capacity).sum::<usize>()
            + self.states.capacity() * size_of::<Vec<u8>>()
            + self.rows.bytes()
    }

    /// Writes what [`FoldState::read`] reads.
    pub(crate) fn save(&self, out: &mut ByteWriter) {
        out.length(self.states.len());
        self.states.iter().for_each(|state| out.bytes(state));
        out.length(self.rows.len());
        (0..self.rows.len()).for_each(|row| out.bytes(self.rows.string(row)));
    }

    pub(super) fn restore(number: u32, most: u16, from: &mut ByteReader<'_>) -> Result<Folded, Damaged> {
        let FoldState { states, rows } = FoldState::restore(from)?;
        let states = states.into_iter().map(<[u8]>::to_vec).collect();
        Ok(Folded { states, rows: Values::of_strings(rows), ..Folded::new(number, most) })
    }
}

/// What a column shows of an object: states and rows that are not folded yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoldState<'a> {
    /// As [`Fold::fold`] has made them.
    pub states: Vec<&'a [u8]>,
    /// As the argument of the aggregate has them.
    pub rows: Vec<&'a [u8]>,
}

impl<'a> FoldState<'a> {
    /// Of the bytes of a column.
    ///
    /// # Errors
    /// When they are none of such a column.
    pub fn read(bytes: &'a [u8]) -> Result<FoldState<'a>, Damaged> {
        let mut from = ByteReader::new(bytes);
        let state = FoldState::restore(&mut from)?;
        from.end()?;
        Ok(state)
    }

    fn restore(from: &mut ByteReader<'a>) -> Result<FoldState<'a>, Damaged> {
        let mut list = || (0..from.count(8)?).map(|_| from.bytes()).collect::<Result<Vec<_>, _>>();
        Ok(FoldState { states: list()?, rows: list()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up numbers; refuses 13.
    #[derive(Debug)]
    struct Sum;

    impl Fold for Sum {
        fn fold(&self, states: &[&[u8]], rows: &[&[u8]], _: u64) -> Result<Vec<u8>, String> {
            let number = |bytes: &&[u8]| i64::from_le_bytes((*bytes).try_into().unwrap());
            if rows.iter().any(|row| number(row) == 13) {
                return Err("13 is refused".into());
            }
            Ok(states.iter().chain(rows).map(number).sum::<i64>().to_le_bytes().to_vec())
        }
    }

    fn folded(number: u32, numbers: impl IntoIterator<Item = i64>) -> Folded {
        let mut folded = Folded::new(number, 1024);
        for number in numbers {
            let bytes = number.to_le_bytes();
            let Values::Strings(all, ends) = &mut folded.rows else { unreachable!("rows are strings") };
            all.extend_from_slice(&bytes);
            ends.push(all.len());
            folded.compact();
        }
        folded
    }

    fn saved(folded: &Folded) -> Vec<u8> {
        let mut bytes = ByteWriter::new();
        folded.save(&mut bytes);
        bytes.into_bytes()
    }

    fn total(folded: &Folded) -> Result<i64, String> {
        let bytes = saved(folded);
        let FoldState { states, rows } = FoldState::read(&bytes).unwrap();
        Sum.fold(&states, &rows, 0).map(|state| i64::from_le_bytes(state.try_into().unwrap()))
    }

    #[test]
    fn rows_and_states_are_folded_when_there_are_many() {
        let sum: Arc<dyn Fold> = Arc::new(Sum);
        let number = register_fold(&sum);
        let mut all = folded(number, 100..2_600);
        assert!(all.states.len() == 1 && all.rows.len() < 1024, "rows have been folded");
        for start in 0..40 {
            all.merge(&folded(number, 3_000 + start..3_100 + start));
            assert!(all.states.len() < STATES && all.rows.len() < 1024 && all.bytes() < 100_000, "it keeps little");
        }
        let merged: i64 = (0..40).map(|start| (3_000 + start..3_100 + start).sum::<i64>()).sum();
        assert_eq!(total(&all), Ok((100..2_600).sum::<i64>() + merged));
        let bytes = saved(&all);
        let restored = Folded::restore(number, 1024, &mut ByteReader::new(&bytes)).unwrap();
        assert_eq!(total(&restored), total(&all));
        assert!((0..bytes.len()).all(|end| FoldState::read(&bytes[..end]).is_err()), "cut bytes are noticed");
    }

    #[test]
    fn what_cannot_be_folded_is_kept() {
        let sum: Arc<dyn Fold> = Arc::new(Sum);
        let number = register_fold(&sum);
        let failed = folded(number, 0..10_000);
        assert_eq!(total(&failed), Err("13 is refused".into()));
        assert!(failed.states.is_empty() && failed.rows.len() == 10_000);
        assert_eq!(failed.failures, 4, "it is tried at 1,024, 2,048, 4,096 and 8,192 rows");
        let mut other = folded(number, 20..30);
        other.merge(&failed);
        assert_eq!(total(&other), Err("13 is refused".into()));
        drop(sum);
        let orphan = folded(number, 20..1_100);
        assert!(orphan.states.is_empty() && total(&orphan) == Ok((20..1_100).sum()), "the function is gone");
    }
}
