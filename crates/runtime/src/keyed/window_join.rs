//! Window join: rows of equal keys of the same window (Flink's window join).
//!
//! Rows wait by their `window_time`. When the watermark reaches it, the window has all its rows: its keys get groups, the
//! rows of the right are listed by group, and the rows of the left find theirs. Nothing is kept after that.

use super::batch::{Batch, times_of};
use super::groups::Groups;
use super::pairs::{Matched, Pairs, Sides, emit_padded};
use super::state::{State, Work};
use super::store::RowStore;
use crate::executable_plan::OperatorCode;
use crate::groups::ByGroup;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::KeyedOperator;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::collections::BTreeMap;

/// Rows that wait for the end of their window.
pub(crate) struct Windows {
    schemas: Vec<Schema>,
    /// Position of `window_time` in each input.
    times: Vec<usize>,
    /// The rows of each input, by `window_time`.
    open: BTreeMap<i64, Vec<RowStore>>,
    /// Bytes of all rows.
    bytes: usize,
    /// As for [`RowStore::settle`].
    is_plenty: bool,
}

impl Windows {
    /// For the inputs of an operator, which all have a time.
    pub(crate) fn new(plan: &KeyedOperator) -> Windows {
        Windows {
            schemas: plan.inputs.iter().map(|i| i.schema.clone()).collect(),
            times: plan.inputs.iter().filter_map(|i| i.time).collect(),
            open: BTreeMap::new(),
            bytes: 0,
            is_plenty: false,
        }
    }

    /// Takes rows in; `each` is told the window of each part.
    pub(crate) fn add(&mut self, port: usize, batch: Batch) -> Result<Vec<i64>, Diagnostic> {
        if batch.rows() == 0 {
            return Ok(vec![]);
        }
        let times = times_of(&batch.column(self.times[port])?)?;
        let first = times[0];
        if times.iter().all(|&t| t == first) {
            self.put(port, first, batch)?;
            return Ok(vec![first]);
        }
        let mut windows: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        times.iter().enumerate().for_each(|(row, &t)| windows.entry(t).or_default().push(row as u32));
        let met = windows.keys().copied().collect();
        for (time, rows) in windows {
            self.put(port, time, batch.pick(rows)?)?;
        }
        Ok(met)
    }

    fn put(&mut self, port: usize, time: i64, batch: Batch) -> Result<(), Diagnostic> {
        let schemas = &self.schemas;
        let stores = self.open.entry(time).or_insert_with(|| schemas.iter().map(RowStore::new).collect());
        let store = &mut stores[port];
        store.settle(self.is_plenty)?;
        self.bytes -= store.bytes();
        let pushed = store.push_batch(batch);
        self.bytes += store.bytes();
        pushed.map(|_| ())
    }

    /// Number of rows of an input in a window.
    pub(crate) fn rows(&self, time: i64, port: usize) -> usize {
        self.open.get(&time).map_or(0, |stores| stores[port].len())
    }

    /// Takes the rows of a window out.
    pub(crate) fn take(&mut self, time: i64) -> Option<Vec<RowStore>> {
        let stores = self.open.remove(&time)?;
        self.bytes -= stores.iter().map(RowStore::bytes).sum::<usize>();
        Some(stores)
    }

    /// Puts rows of a window back.
    pub(crate) fn put_back(&mut self, time: i64, stores: Vec<RowStore>) {
        self.bytes += stores.iter().map(RowStore::bytes).sum::<usize>();
        self.open.insert(time, stores);
    }

    /// Takes the first window that the watermark completes.
    pub(crate) fn complete(&mut self, watermark: i64) -> Option<(i64, Vec<RowStore>)> {
        let first = *self.open.first_key_value()?.0;
        if first > watermark {
            return None;
        }
        self.take(first).map(|stores| (first, stores))
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// See [`RowStore::settle`].
    pub(crate) fn settle(&mut self, is_plenty: bool) -> Result<(), Diagnostic> {
        if std::mem::replace(&mut self.is_plenty, is_plenty) != is_plenty {
            self.open.values_mut().flatten().try_for_each(|store| store.settle(is_plenty))?;
            self.bytes = self.open.values().flatten().map(RowStore::bytes).sum();
        }
        Ok(())
    }

    /// Writes all windows.
    pub(crate) fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        out.length(self.open.len());
        for (&time, stores) in &self.open {
            out.i64(time);
            stores.iter().try_for_each(|store| store.save(out))?;
        }
        Ok(())
    }

    /// Adds the windows that [`Windows::save`] has written.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        for _ in 0..from.count(8)? {
            let time = from.i64()?;
            let mut stores: Vec<RowStore> = self.schemas.iter().map(RowStore::new).collect();
            stores.iter_mut().try_for_each(|store| store.restore(from))?;
            if self.open.last_key_value().is_some_and(|(&last, _)| last >= time) {
                return Err(Damaged("windows are not in order".into()).into());
            }
            self.put_back(time, stores);
        }
        Ok(())
    }

    /// `window_time` of the first window.
    pub(crate) fn due(&self) -> i64 {
        self.open.first_key_value().map_or(i64::MAX, |(&time, _)| time)
    }
}

/// See the module.
pub(crate) struct WindowJoin {
    kind: JoinKind,
    windows: Windows,
    /// Of the window that is being joined.
    groups: Groups,
}

impl WindowJoin {
    /// No rows.
    pub(crate) fn new(plan: &KeyedOperator, kind: JoinKind, code: &OperatorCode) -> Result<WindowJoin, Diagnostic> {
        Ok(WindowJoin { kind, windows: Windows::new(plan), groups: Groups::new(plan, code)? })
    }

    fn join(&mut self, left: &RowStore, right: &RowStore, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if left.len() == 0 && !self.kind.left_is_optional() {
            return Ok(());
        }
        let left_groups = self.groups.assign_parts(0, left.parts(), work)?;
        let right_groups = self.groups.assign_parts(1, right.parts(), work)?;
        let by_group = ByGroup::new(&right_groups, self.groups.table.len());
        let is_null: Vec<bool> = (0..self.groups.table.len() as u64).map(|g| self.groups.table.is_null(g)).collect();
        self.groups.clear();
        let keeps_left = matches!(self.kind, JoinKind::Left | JoinKind::Full | JoinKind::Semi | JoinKind::Anti);
        let left_matched: Matched = vec![false; if keeps_left { left.len() } else { 0 }];
        let right_matched: Matched = vec![false; if self.kind.left_is_optional() { right.len() } else { 0 }];
        let shows_pairs = self.kind.shows_right();
        let only_existence = !shows_pairs && work.code.residual.is_none();
        let mut sides = Sides::new([left, right], [left_matched, right_matched], shows_pairs, work);
        let mut pairs = Pairs::default();
        for (row, &group) in left_groups.iter().enumerate() {
            let partners = if is_null[group as usize] { &[] } else { by_group.rows(group) };
            if only_existence {
                sides.matched[0][row] = !partners.is_empty();
                continue;
            }
            for &partner in partners {
                pairs.push(row as u32, partner);
                if pairs.len() == work.most_rows {
                    pairs.flush(&mut sides, work)?;
                }
            }
        }
        pairs.flush(&mut sides, work)?;
        let rows = |matched: &Matched, wanted: bool| -> Vec<u32> {
            (0..matched.len()).filter(|&i| matched[i] == wanted).map(|i| i as u32).collect()
        };
        if shows_pairs {
            emit_padded([left, right], 0, &rows(&sides.matched[0], false), &[], work)?;
            return emit_padded([left, right], 1, &rows(&sides.matched[1], false), &[], work);
        }
        for part in rows(&sides.matched[0], self.kind == JoinKind::Semi).chunks(work.most_rows) {
            work.emit(left.gather(part)?, part.len());
        }
        Ok(())
    }
}

impl State for WindowJoin {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for (port, batch) in inputs.into_iter().enumerate() {
            self.windows.add(port, batch)?;
        }
        while let Some((window, stores)) = self.windows.complete(watermark) {
            work.window = window;
            let [left, right] = &stores[..] else { return Err(Diagnostic::bug("a join has two inputs")) };
            self.join(left, right, work)?;
        }
        Ok(())
    }

    fn settle(&mut self, is_plenty: bool) -> Result<(), Diagnostic> {
        self.windows.settle(is_plenty)
    }

    fn due(&self) -> i64 {
        self.windows.due()
    }

    fn bytes(&mut self) -> usize {
        self.windows.bytes()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.windows.save(out)
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.windows.restore(from)
    }
}
