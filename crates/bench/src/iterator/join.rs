//! The join of two streams whose rows lie in the same tumbling window.

use super::{Boxed, Operator, Row};
use std::collections::{HashMap, VecDeque};

/// Joins rows with equal keys in the same window. It reads the left input to its end first: its inputs are bounded, and are those of
/// aggregations or of tests.
pub(crate) struct WindowJoin<'a> {
    left: Boxed<'a>,
    right: Boxed<'a>,
    keys: (usize, usize),
    times: (usize, usize),
    size_ms: i64,
    is_built: bool,
    /// Rows of the left input by key and number of the window.
    built: HashMap<(i64, i64), Vec<Row>>,
    found: VecDeque<Row>,
}

impl<'a> WindowJoin<'a> {
    /// Keys and times are columns of the left and of the right input.
    pub(crate) fn new(
        left: Boxed<'a>,
        right: Boxed<'a>,
        keys: (usize, usize),
        times: (usize, usize),
        size_ms: i64,
    ) -> WindowJoin<'a> {
        WindowJoin { left, right, keys, times, size_ms, is_built: false, built: HashMap::new(), found: VecDeque::new() }
    }

    fn place(&self, row: &Row, key: usize, time: usize) -> (i64, i64) {
        (row[key].integer(), row[time].integer().div_euclid(self.size_ms))
    }
}

impl Operator for WindowJoin<'_> {
    fn next(&mut self) -> Option<Row> {
        if !self.is_built {
            self.is_built = true;
            while let Some(row) = self.left.next() {
                let place = self.place(&row, self.keys.0, self.times.0);
                self.built.entry(place).or_default().push(row);
            }
        }
        loop {
            if let Some(row) = self.found.pop_front() {
                return Some(row);
            }
            let right = self.right.next()?;
            if let Some(rows) = self.built.get(&self.place(&right, self.keys.1, self.times.1)) {
                self.found.extend(rows.iter().map(|left| left.iter().chain(&right).cloned().collect()));
            }
        }
    }
}
