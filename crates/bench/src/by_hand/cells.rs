//! What hand-written tables keep of a key in a window.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The aggregates of a key; the default one has no rows.
pub(crate) trait Cell: Clone + Default + Send + Sync {
    /// What a row brings.
    type Input: Copy + Send;

    /// Takes up a row.
    fn add(&mut self, input: Self::Input);

    /// Takes up the rows of another.
    fn merge(&mut self, other: &Self);

    /// Whether there is a row.
    fn has_rows(&self) -> bool;
}

/// A cell that gives rows back, so that windows that share slices are summed once.
pub(crate) trait Invertible: Cell {
    /// Forgets the rows of another.
    fn remove(&mut self, other: &Self);
}

/// A cell that threads share.
pub(crate) trait SharedCell: Cell {
    /// Its atomic form.
    type Atomic: Default + Send + Sync;

    /// Takes up a row.
    fn add_shared(cell: &Self::Atomic, input: Self::Input);

    /// What has been taken up.
    fn load(cell: &Self::Atomic) -> Self;
}

/// Number of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count(pub(crate) u64);

impl Cell for Count {
    type Input = ();

    #[inline(always)]
    fn add(&mut self, (): ()) {
        self.0 += 1;
    }

    fn merge(&mut self, other: &Count) {
        self.0 += other.0;
    }

    fn has_rows(&self) -> bool {
        self.0 > 0
    }
}

impl Invertible for Count {
    fn remove(&mut self, other: &Count) {
        self.0 -= other.0;
    }
}

impl SharedCell for Count {
    type Atomic = AtomicU64;

    #[inline(always)]
    fn add_shared(cell: &AtomicU64, (): ()) {
        cell.fetch_add(1, Relaxed);
    }

    fn load(cell: &AtomicU64) -> Count {
        Count(cell.load(Relaxed))
    }
}

/// Number and sum of integers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CountSum {
    pub(crate) count: u64,
    pub(crate) sum: i64,
}

impl Cell for CountSum {
    type Input = i64;

    #[inline(always)]
    fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += value;
    }

    fn merge(&mut self, other: &CountSum) {
        self.count += other.count;
        self.sum += other.sum;
    }

    fn has_rows(&self) -> bool {
        self.count > 0
    }
}

impl Invertible for CountSum {
    fn remove(&mut self, other: &CountSum) {
        self.count -= other.count;
        self.sum -= other.sum;
    }
}

impl SharedCell for CountSum {
    type Atomic = [AtomicU64; 2];

    #[inline(always)]
    fn add_shared(cell: &[AtomicU64; 2], value: i64) {
        cell[0].fetch_add(1, Relaxed);
        cell[1].fetch_add(value as u64, Relaxed);
    }

    fn load(cell: &[AtomicU64; 2]) -> CountSum {
        CountSum { count: cell[0].load(Relaxed), sum: cell[1].load(Relaxed) as i64 }
    }
}

/// Number and sum of doubles, which in these data are multiples of a power of two, so that their order does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RealSum {
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

impl Cell for RealSum {
    type Input = f64;

    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
    }

    fn merge(&mut self, other: &RealSum) {
        self.count += other.count;
        self.sum += other.sum;
    }

    fn has_rows(&self) -> bool {
        self.count > 0
    }
}

impl Invertible for RealSum {
    fn remove(&mut self, other: &RealSum) {
        self.count -= other.count;
        self.sum -= other.sum;
    }
}

impl SharedCell for RealSum {
    type Atomic = [AtomicU64; 2];

    #[inline(always)]
    fn add_shared(cell: &[AtomicU64; 2], value: f64) {
        cell[0].fetch_add(1, Relaxed);
        let mut old = cell[1].load(Relaxed);
        while let Err(now) =
            cell[1].compare_exchange_weak(old, (f64::from_bits(old) + value).to_bits(), Relaxed, Relaxed)
        {
            old = now;
        }
    }

    fn load(cell: &[AtomicU64; 2]) -> RealSum {
        RealSum { count: cell[0].load(Relaxed), sum: f64::from_bits(cell[1].load(Relaxed)) }
    }
}

/// Number, sum and sum of squares.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) squares: f64,
}

impl Moments {
    /// Standard deviation of the population.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.sum / self.count as f64;
        (self.squares / self.count as f64 - mean * mean).max(0.0).sqrt()
    }
}

impl Cell for Moments {
    type Input = i64;

    #[inline(always)]
    fn add(&mut self, value: i64) {
        let value = value as f64;
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    fn has_rows(&self) -> bool {
        self.count > 0
    }
}

/// All values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Values(pub(crate) Vec<i64>);

impl Cell for Values {
    type Input = i64;

    #[inline(always)]
    fn add(&mut self, value: i64) {
        self.0.push(value);
    }

    fn merge(&mut self, other: &Values) {
        self.0.extend(&other.0);
    }

    fn has_rows(&self) -> bool {
        !self.0.is_empty()
    }
}
