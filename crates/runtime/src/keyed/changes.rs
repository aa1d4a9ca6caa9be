//! Net changes: what the rows of a beat come to, by row, and paired by key.
//!
//! Rows that come and are taken back in one beat, in whatever order, cancel each other out. What is left of a key is a row that comes,
//! one that goes, or one in place of another. Rows of a partition are put out in the order of their keys.

use super::batch::Batch;
use super::comparable::{Comparable, Equality};
use super::key_share::KeyShare;
use super::state::{State, Work};
use super::weights::of_column;
use crate::columns::{bytes_of, selected};
use arrow_array::{ArrayRef, Int8Array, UInt32Array};
use millstream_plan::pipeline::{Changes as Planned, KeyedOperator};
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::{Diagnostic, RowKind, Schema};
use std::sync::Arc;

/// See the module.
pub(crate) struct Changes {
    plan: Planned,
    schema: Schema,
    /// Positions of the keys, and of the other columns.
    keys: Vec<usize>,
    others: Vec<usize>,
    /// Position of the weight.
    weight: usize,
    /// The rows of this beat.
    batches: Vec<Batch>,
    bytes: usize,
}

/// What is left of the rows of a beat.
#[derive(Default)]
struct Net {
    rows: Vec<u32>,
    kinds: Vec<i8>,
}

impl Net {
    fn push(&mut self, row: u32, kind: RowKind, times: i64) {
        for _ in 0..times {
            self.rows.push(row);
            self.kinds.push(kind as i8);
        }
    }
}

impl Changes {
    /// Without rows.
    pub(super) fn new(plan: &KeyedOperator, changes: Planned) -> Result<Changes, Diagnostic> {
        let input = &plan.inputs[0];
        let weight = input.schema.fields.len().checked_sub(1);
        let weight = weight.ok_or_else(|| Diagnostic::bug("changes have no weight"))?;
        let others: Vec<usize> = (0..weight).filter(|column| !input.keys.contains(column)).collect();
        let keys = input.keys.clone();
        let schema = input.schema.clone();
        Ok(Changes { plan: changes, schema, keys, others, weight, batches: Vec::new(), bytes: 0 })
    }

    /// What the rows come to: those of one key are adjacent in `order`. Most are one row, or one and what replaces it, which are compared in
    /// their place: only others are made comparable as a whole.
    fn net(
        &self,
        mut order: Vec<u32>,
        keys: &Comparable,
        others: &[ArrayRef],
        weights: &[i8],
    ) -> Result<Net, Diagnostic> {
        let key = |row: &u32| keys.row(*row as usize);
        let weight = |row: u32| i64::from(weights[row as usize]);
        let equality = Equality::of(others);
        let (mut comparable, mut net) = (None, Net::default());
        // What is left of the rows of a key: each, and how often it comes or goes.
        let mut left: Vec<(u32, i64)> = Vec::new();
        for of_key in order.chunk_by_mut(|a, b| key(a) == key(b)) {
            left.clear();
            match (&*of_key, &equality) {
                (&[row], _) => left.push((row, weight(row))),
                (&[a, b], Some(equality)) if weight(a) + weight(b) == 0 => {
                    if !equality.is_equal(a as usize, b as usize) {
                        left.extend([(a, weight(a)), (b, weight(b))]);
                    }
                }
                _ => {
                    let rows: &Comparable = match &mut comparable {
                        Some(rows) => rows,
                        none => {
                            let [rows] = Comparable::of([others])?;
                            none.insert(rows)
                        }
                    };
                    let value = |row: &u32| rows.row(*row as usize);
                    of_key.sort_unstable_by(|a, b| value(a).cmp(value(b)));
                    let runs = of_key.chunk_by(|a, b| value(a) == value(b));
                    let sums = runs.map(|run| (run[0], run.iter().map(|&row| weight(row)).sum::<i64>()));
                    left.extend(sums.filter(|(_, sum)| *sum != 0));
                }
            }
            match left[..] {
                [(one, a), (other, b)] if self.plan.is_keyed && a + b == 0 && a.abs() == 1 => {
                    let (old, new) = if a < 0 { (one, other) } else { (other, one) };
                    net.push(old, RowKind::UpdateBefore, 1);
                    net.push(new, RowKind::UpdateAfter, 1);
                }
                _ => {
                    let gone = left.iter().filter(|(_, sum)| *sum < 0);
                    gone.for_each(|&(row, sum)| net.push(row, RowKind::Delete, -sum));
                    let come = left.iter().filter(|(_, sum)| *sum > 0);
                    come.for_each(|&(row, sum)| net.push(row, RowKind::Insert, sum));
                }
            }
        }
        Ok(net)
    }
}

impl State for Changes {
    fn advance(&mut self, inputs: Vec<Batch>, _: i64, _: &mut Work<'_>) -> Result<(), Diagnostic> {
        for batch in inputs.into_iter().filter(|batch| batch.rows() > 0) {
            self.bytes += bytes_of(&batch.columns);
            self.batches.push(batch);
        }
        Ok(())
    }

    fn end_beat(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let batch = Batch::gathered_to_pass_on(std::mem::take(&mut self.batches))?;
        self.bytes = 0;
        if batch.rows() == 0 {
            return Ok(());
        }
        let of = |columns: &[usize]| -> Vec<ArrayRef> {
            columns.iter().map(|&column| Arc::clone(&batch.columns[column])).collect()
        };
        let [keys] = Comparable::of([&of(&self.keys)])?;
        let net =
            self.net(keys.order(batch.rows()), &keys, &of(&self.others), of_column(&batch.columns[self.weight])?)?;
        work.stats.beats.count(&net.kinds);
        let (rows, places) = (net.rows.len(), UInt32Array::from(net.rows));
        let mut columns: Vec<ArrayRef> =
            batch.columns[..self.weight].iter().map(|column| selected(column, &places)).collect::<Result<_, _>>()?;
        columns.push(Arc::new(Int8Array::from(net.kinds)));
        work.emit(columns, rows);
        Ok(())
    }

    fn bytes(&mut self) -> usize {
        self.bytes
    }

    /// Nothing is left between two beats. Within one, rows wait that do not fit into memory.
    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        out.length(self.batches.len());
        self.batches.iter().try_for_each(|batch| batch.save(out))
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        for _ in 0..from.count(1)? {
            self.batches.push(Batch::restore(&self.schema, from)?);
        }
        self.bytes = self.batches.iter().map(|batch| bytes_of(&batch.columns)).sum();
        Ok(())
    }

    /// Nothing is left between two beats.
    fn absorb(&mut self, _: &mut dyn State, _: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
