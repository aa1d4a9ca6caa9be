//! A row at a time, an operator at a time: how engines without a compiler work (Graefe's iterators; the second engine of the
//! HPI thesis). It shares nothing with the engine but Arrow's arrays, so it is an oracle in tests too.
//!
//! An [`Operator`] is asked for its next row and asks the operator below. Rows are vectors of [`Value`]s whose types are found
//! out at each use; expressions are trees that are walked for each row. Windows close when the watermark, the greatest time
//! minus a delay, has passed their end.

mod aggregate;
mod expression;
mod join;
mod scan;

pub(crate) use aggregate::{Aggregate, Windows};
pub(crate) use expression::{Arithmetic, Comparison, Expression};
pub(crate) use join::WindowJoin;
pub(crate) use scan::Scan;

use crate::suite::{Checksum, hash_double, hash_text};
use std::sync::Arc;

/// A value of any type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Integer(i64),
    Double(f64),
    Text(Arc<str>),
    Boolean(bool),
}

impl Value {
    /// The number; of a time its milliseconds.
    pub(crate) fn integer(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Double(number) => *number as i64,
            Value::Boolean(is) => i64::from(*is),
            Value::Text(_) => panic!("a text is no number"),
        }
    }

    /// The number, perhaps rounded.
    pub(crate) fn double(&self) -> f64 {
        match self {
            Value::Double(number) => *number,
            other => other.integer() as f64,
        }
    }

    /// What it counts as in a checksum.
    fn hash(&self) -> i64 {
        match self {
            Value::Integer(number) => *number,
            Value::Double(number) => hash_double(*number),
            Value::Text(text) => hash_text(text.as_bytes()),
            Value::Boolean(is) => i64::from(*is),
        }
    }
}

/// One value for each column.
pub(crate) type Row = Vec<Value>;

/// Hands over rows until there are none.
pub(crate) trait Operator {
    /// The next row.
    fn next(&mut self) -> Option<Row>;
}

/// An operator of any kind.
pub(crate) type Boxed<'a> = Box<dyn Operator + 'a>;

/// Passes the rows for which an expression is true.
pub(crate) struct Filter<'a> {
    pub(crate) input: Boxed<'a>,
    pub(crate) condition: Expression,
}

impl Operator for Filter<'_> {
    fn next(&mut self) -> Option<Row> {
        loop {
            let row = self.input.next()?;
            if self.condition.evaluate(&row) == Value::Boolean(true) {
                return Some(row);
            }
        }
    }
}

/// Makes rows of expressions.
pub(crate) struct Project<'a> {
    pub(crate) input: Boxed<'a>,
    pub(crate) columns: Vec<Expression>,
}

impl Operator for Project<'_> {
    fn next(&mut self) -> Option<Row> {
        let row = self.input.next()?;
        Some(self.columns.iter().map(|column| column.evaluate(&row)).collect())
    }
}

/// Asks for all rows and adds them up.
pub(crate) fn drain(mut operator: Boxed<'_>) -> Checksum {
    let mut sum = Checksum::default();
    while let Some(row) = operator.next() {
        let hashes: Vec<i64> = row.iter().map(Value::hash).collect();
        sum.add(&hashes);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(std::vec::IntoIter<Row>);

    impl Operator for Given {
        fn next(&mut self) -> Option<Row> {
            self.0.next()
        }
    }

    /// Rows of integers: key, value, time.
    fn given(rows: &[[i64; 3]]) -> Boxed<'static> {
        let rows: Vec<Row> = rows.iter().map(|row| row.iter().copied().map(Value::Integer).collect()).collect();
        Box::new(Given(rows.into_iter()))
    }

    fn numbers(mut operator: Boxed<'_>) -> Vec<Vec<i64>> {
        let mut rows: Vec<Vec<i64>> =
            std::iter::from_fn(|| operator.next()).map(|row| row.iter().map(Value::integer).collect()).collect();
        rows.sort_unstable();
        rows
    }

    fn windows(input: Boxed<'static>, size_ms: i64, slide_ms: i64, delay_ms: i64) -> Boxed<'static> {
        let aggregates = vec![Aggregate::Count, Aggregate::Sum(1)];
        Box::new(Windows::new(input, vec![0], 2, (size_ms, slide_ms), delay_ms, aggregates))
    }

    #[test]
    fn rows_are_filtered_and_projected() {
        let condition = Expression::compare(Comparison::Greater, Expression::Integer(2), Expression::Column(0));
        let filter = Filter { input: given(&[[1, 10, 0], [2, 20, 0], [0, 30, 0]]), condition };
        let columns = vec![Expression::Column(1)];
        assert_eq!(numbers(Box::new(Project { input: Box::new(filter), columns })), [[10], [30]]);
    }

    #[test]
    fn windows_close_behind_the_watermark_and_late_rows_are_dropped() {
        let rows = [[7, 1, 3], [7, 2, 12], [7, 4, 9], [7, 8, 25], [7, 16, 5]];
        // Key, start, count, sum. The row of 9 comes before the watermark, 12 - 5, has passed 10; that of 5 after.
        assert_eq!(numbers(windows(given(&rows), 10, 10, 5)), [[7, 0, 2, 5], [7, 10, 1, 2], [7, 20, 1, 8]]);
    }

    #[test]
    fn a_row_lies_in_all_windows_that_slide_over_it() {
        let wanted = [[1, -10, 1, 5], [1, 0, 2, 11], [1, 10, 1, 6]];
        assert_eq!(numbers(windows(given(&[[1, 5, 5], [1, 6, 15]]), 20, 10, 0)), wanted);
    }

    #[test]
    fn rows_of_the_same_window_are_joined() {
        let (left, right) = ([[1, 10, 0], [2, 20, 1], [1, 30, 12]], [[1, 5, 3], [1, 6, 11], [3, 7, 2]]);
        let join = WindowJoin::new(given(&left), given(&right), (0, 0), (2, 2), 10);
        assert_eq!(numbers(Box::new(join)), [[1, 10, 0, 1, 5, 3], [1, 30, 12, 1, 6, 11]]);
    }
}
