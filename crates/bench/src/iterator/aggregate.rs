//! Aggregates by key and window.

use super::{Boxed, Operator, Row, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// An aggregate, of a column where it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aggregate {
    Count,
    Sum(usize),
    /// Of doubles.
    Mean(usize),
}

/// What is kept of the rows of a key in a window.
#[derive(Debug, Clone)]
struct State {
    count: i64,
    /// One for each aggregate; unused for counts.
    sums: Vec<Value>,
}

/// Groups by columns of integers and by windows of event time. Its rows are the key, the window's start, and the aggregates.
pub(crate) struct Windows<'a> {
    input: Boxed<'a>,
    keys: Vec<usize>,
    time: usize,
    size_ms: i64,
    slide_ms: i64,
    delay_ms: i64,
    aggregates: Vec<Aggregate>,
    watermark: i64,
    /// Open windows by their start.
    open: BTreeMap<i64, HashMap<Vec<i64>, State>>,
    closed: VecDeque<Row>,
}

impl<'a> Windows<'a> {
    /// Windows of this size and slide; the watermark is `delay_ms` behind the greatest time.
    pub(crate) fn new(
        input: Boxed<'a>,
        keys: Vec<usize>,
        time: usize,
        (size_ms, slide_ms): (i64, i64),
        delay_ms: i64,
        aggregates: Vec<Aggregate>,
    ) -> Windows<'a> {
        let watermark = i64::MIN;
        let (open, closed) = (BTreeMap::new(), VecDeque::new());
        Windows { input, keys, time, size_ms, slide_ms, delay_ms, aggregates, watermark, open, closed }
    }

    fn take_up(&mut self, row: &Row) {
        let time = row[self.time].integer();
        let key: Vec<i64> = self.keys.iter().map(|column| row[*column].integer()).collect();
        let mut start = time.div_euclid(self.slide_ms) * self.slide_ms;
        while start + self.size_ms > time {
            // A window ends with its last millisecond.
            if start + self.size_ms - 1 > self.watermark {
                let aggregates = &self.aggregates;
                let state = self
                    .open
                    .entry(start)
                    .or_default()
                    .entry(key.clone())
                    .or_insert_with(|| State { count: 0, sums: vec![Value::Integer(0); aggregates.len()] });
                state.add(row, aggregates);
            }
            start -= self.slide_ms;
        }
        let watermark = time.saturating_sub(self.delay_ms);
        if watermark > self.watermark {
            self.watermark = watermark;
            self.close();
        }
    }

    /// Closes the windows that the watermark has passed.
    fn close(&mut self) {
        while let Some(first) = self.open.first_entry()
            && first.key() + self.size_ms - 1 <= self.watermark
        {
            let (start, groups) = first.remove_entry();
            for (key, state) in groups {
                let values: Vec<Value> = self
                    .aggregates
                    .iter()
                    .zip(&state.sums)
                    .map(|(aggregate, sum)| match aggregate {
                        Aggregate::Count => Value::Integer(state.count),
                        Aggregate::Sum(_) => sum.clone(),
                        Aggregate::Mean(_) => Value::Double(sum.double() / state.count as f64),
                    })
                    .collect();
                let key = key.into_iter().chain([start]).map(Value::Integer);
                self.closed.push_back(key.chain(values).collect());
            }
        }
    }
}

impl State {
    fn add(&mut self, row: &Row, aggregates: &[Aggregate]) {
        self.count += 1;
        for (aggregate, sum) in aggregates.iter().zip(&mut self.sums) {
            if let Aggregate::Sum(column) | Aggregate::Mean(column) = aggregate {
                *sum = match (&*sum, &row[*column]) {
                    (Value::Integer(sum), Value::Integer(value)) => Value::Integer(sum + value),
                    (sum, value) => Value::Double(sum.double() + value.double()),
                };
            }
        }
    }
}

impl Operator for Windows<'_> {
    fn next(&mut self) -> Option<Row> {
        loop {
            if let Some(row) = self.closed.pop_front() {
                return Some(row);
            }
            match self.input.next() {
                Some(row) => self.take_up(&row),
                None if self.open.is_empty() => return None,
                None => {
                    self.watermark = i64::MAX;
                    self.close();
                }
            }
        }
    }
}
