//! Window join: rows of equal keys of the same window (Flink's window join).
//!
//! Rows wait by their `window_time`. When the watermark reaches it, the window has all its rows: its keys get groups, the
//! rows of the right are listed by group, and the rows of the left find theirs. Nothing is kept after that. Windows that one
//! advance of the watermark completes are joined together, since of short ones each partition has a few rows only; their rows
//! are put out one window after the other.

use super::batch::{Batch, times_of};
use super::groups::Groups;
use super::key_share::{KeyShare, of_same_operator};
use super::pairs::{Matched, PairTimes, Pairs, Sides, emit_padded};
use super::state::{State, Work};
use super::store::RowStore;
use crate::executable_plan::OperatorCode;
use crate::groups::ByGroup;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::KeyedOperator;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::Diagnostic;
use std::collections::BTreeMap;

/// Windows are joined together up to about this many rows: more are no cheaper, and what is made of them needs memory.
const TOGETHER: usize = if cfg!(debug_assertions) { 200 } else { 32 << 10 };

/// Rows that wait for the end of their window.
pub(crate) struct Windows {
    /// Stores of each input without rows, of which others are made.
    empty: Vec<RowStore>,
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
            empty: plan.inputs.iter().map(|i| RowStore::new(&i.schema)).collect(),
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
        let empty = &self.empty;
        let stores = self.open.entry(time).or_insert_with(|| empty.iter().map(RowStore::another).collect());
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

    /// Takes out windows that the watermark completes, with what has come of them just now; other rows that have come wait, and so do
    /// later windows if there are many rows. Nothing when no window is complete.
    fn take_complete(&mut self, inputs: Vec<Batch>, watermark: i64) -> Result<Option<Vec<Complete>>, Diagnostic> {
        if inputs.is_empty() && self.due() > watermark {
            return Ok(None);
        }
        let mut all: Vec<Complete> = self.empty.iter().map(|empty| Complete::new(empty, self.is_plenty)).collect();
        let waiting = self.open.range(..=watermark).flat_map(|(_, stores)| stores).map(RowStore::len);
        let are_many = waiting.chain(inputs.iter().map(Batch::rows)).sum::<usize>() > TOGETHER;
        let (waiting, inputs) = if are_many { (inputs, Vec::new()) } else { (Vec::new(), inputs) };
        for (port, batch) in waiting.into_iter().enumerate() {
            self.add(port, batch)?;
        }
        while all.iter().map(|complete| complete.store.len()).sum::<usize>() < TOGETHER
            && let Some((window, stores)) = self.complete(watermark)
        {
            for (complete, store) in all.iter_mut().zip(&stores) {
                complete.windows.resize(complete.windows.len() + store.len(), window);
                complete.store.push_all(store)?;
            }
        }
        for (port, (complete, batch)) in all.iter_mut().zip(inputs).enumerate().filter(|(_, (_, b))| b.rows() > 0) {
            let windows = times_of(&batch.column(self.times[port])?)?;
            let (now, later): (Vec<u32>, Vec<u32>) =
                (0..windows.len() as u32).partition(|&row| windows[row as usize] <= watermark);
            if now.is_empty() {
                self.add(port, batch)?;
                continue;
            }
            if !later.is_empty() {
                self.add(port, batch.pick(later)?)?;
            }
            complete.windows.extend(now.iter().map(|&row| windows[row as usize]));
            complete.store.push_batch(if now.len() < windows.len() { batch.pick(now)? } else { batch })?;
        }
        all.iter_mut().for_each(Complete::put_in_order);
        Ok(all.iter().any(|complete| complete.store.len() > 0).then_some(all))
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
            let mut stores: Vec<RowStore> = self.empty.iter().map(RowStore::another).collect();
            stores.iter_mut().try_for_each(|store| store.restore(from))?;
            if self.open.last_key_value().is_some_and(|(&last, _)| last >= time) {
                return Err(Damaged("windows are not in order".into()).into());
            }
            self.put_back(time, stores);
        }
        Ok(())
    }

    /// Takes over the rows of a share from others.
    pub(crate) fn absorb(&mut self, other: &Windows, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        for (&time, stores) in &other.open {
            let rows = stores.iter().enumerate().map(|(port, store)| share.rows(port, store));
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            if rows.iter().all(Vec::is_empty) {
                continue;
            }
            let mut own = self.take(time).unwrap_or_else(|| self.empty.iter().map(RowStore::another).collect());
            for ((own, other), rows) in own.iter_mut().zip(stores).zip(&rows) {
                own.absorb(other, rows)?;
            }
            self.put_back(time, own);
        }
        Ok(())
    }

    /// `window_time` of the first window.
    pub(crate) fn due(&self) -> i64 {
        self.open.first_key_value().map_or(i64::MAX, |(&time, _)| time)
    }
}

/// The rows of an input that are of complete windows.
struct Complete {
    store: RowStore,
    /// The window of each row.
    windows: Vec<i64>,
    /// The numbers of the rows, one window after the other, in each as they came.
    order: Vec<u32>,
    is_of_one_window: bool,
}

impl Complete {
    fn new(empty: &RowStore, is_plenty: bool) -> Complete {
        Complete {
            store: empty.another().sharing(is_plenty),
            windows: Vec::new(),
            order: Vec::new(),
            is_of_one_window: false,
        }
    }

    /// Sets `order` and `is_of_one_window`.
    fn put_in_order(&mut self) {
        self.order = (0..self.windows.len() as u32).collect();
        if !self.windows.is_sorted() {
            self.order.sort_by_key(|&row| self.windows[row as usize]);
        }
        self.is_of_one_window = self.windows.iter().all(|window| *window == self.windows[0]);
    }

    /// The window of the first of the rows that are left in order.
    fn window_of(&self, rows: &[u32]) -> Option<i64> {
        rows.first().map(|&row| self.windows[row as usize])
    }

    /// Cuts the rows of a window off those that are left in order, of which no row is of an earlier window.
    fn cut<'a>(&self, rows: &mut &'a [u32], window: i64) -> &'a [u32] {
        let (of_window, later) = rows.split_at(rows.partition_point(|&row| self.windows[row as usize] <= window));
        *rows = later;
        of_window
    }

    /// Those of some rows in order that are of a window.
    fn within<'a>(&self, rows: &'a [u32], window: i64) -> &'a [u32] {
        if self.is_of_one_window {
            return if self.windows.first() == Some(&window) { rows } else { &[] };
        }
        let first = rows.partition_point(|&row| self.windows[row as usize] < window);
        let mut rest = &rows[first..];
        self.cut(&mut rest, window)
    }
}

/// See the module.
pub(crate) struct WindowJoin {
    kind: JoinKind,
    windows: Windows,
    /// Of the windows that are being joined.
    groups: Groups,
}

impl WindowJoin {
    /// No rows.
    pub(crate) fn new(plan: &KeyedOperator, kind: JoinKind, code: &OperatorCode) -> Result<WindowJoin, Diagnostic> {
        Ok(WindowJoin { kind, windows: Windows::new(plan), groups: Groups::new(plan, code)? })
    }

    fn join(&mut self, [left, right]: [&Complete; 2], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if left.store.len() == 0 && !self.kind.left_is_optional() {
            return Ok(());
        }
        self.groups.make_room(left.store.len().max(right.store.len()));
        let left_groups = self.groups.assign_parts(0, left.store.parts(), work)?;
        let right_groups = self.groups.assign_parts(1, right.store.parts(), work)?;
        let by_group = ByGroup::in_order(&right_groups, right.order.iter().copied(), self.groups.table.len());
        let is_null: Vec<bool> = (0..self.groups.table.len() as u64).map(|g| self.groups.table.is_null(g)).collect();
        self.groups.clear();
        let keeps_left = matches!(self.kind, JoinKind::Left | JoinKind::Full | JoinKind::Semi | JoinKind::Anti);
        let left_matched: Matched = vec![false; if keeps_left { left.store.len() } else { 0 }];
        let right_matched: Matched = vec![false; if self.kind.left_is_optional() { right.store.len() } else { 0 }];
        let shows_pairs = self.kind.shows_right();
        let only_existence = !shows_pairs && work.code.residual.is_none();
        let mut sides = Sides::new([&left.store, &right.store], [left_matched, right_matched], shows_pairs, work);
        sides.times = PairTimes::Windows;
        let mut pairs = Pairs::default();
        let (mut lefts, mut rights) = (&left.order[..], &right.order[..]);
        // Where pairs of several windows wait for each other, each knows its own.
        let puts_out_each = self.kind != JoinKind::Inner || left.is_of_one_window;
        while let Some(window) = [left.window_of(lefts), right.window_of(rights)].into_iter().flatten().min() {
            let (of_left, of_right) = (left.cut(&mut lefts, window), right.cut(&mut rights, window));
            work.window = window;
            for &row in of_left {
                let group = left_groups[row as usize];
                let partners = match is_null[group as usize] {
                    true => &[],
                    false => right.within(by_group.rows(group), window),
                };
                if only_existence {
                    sides.matched[0][row as usize] = !partners.is_empty();
                    continue;
                }
                for &partner in partners {
                    match puts_out_each {
                        true => pairs.push(row, partner),
                        false => pairs.push_at(row, partner, window),
                    }
                    if pairs.len() == work.most_rows {
                        pairs.flush(&mut sides, work)?;
                    }
                }
            }
            if puts_out_each {
                pairs.flush(&mut sides, work)?;
                self.emit_alone(&sides, [of_left, of_right], work)?;
            }
        }
        pairs.flush(&mut sides, work)
    }

    /// Outputs the rows of a window that are shown without a partner, or because they have one.
    fn emit_alone(&self, sides: &Sides<'_>, [left, right]: [&[u32]; 2], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let rows = |of: &[u32], matched: &Matched, wanted: bool| -> Vec<u32> {
            of.iter().copied().filter(|&row| matched.get(row as usize) == Some(&wanted)).collect()
        };
        let [left_matched, right_matched] = &sides.matched;
        if sides.shows_pairs {
            emit_padded(sides.stores, 0, &rows(left, left_matched, false), &[], work)?;
            return emit_padded(sides.stores, 1, &rows(right, right_matched, false), &[], work);
        }
        for part in rows(left, left_matched, self.kind == JoinKind::Semi).chunks(work.most_rows) {
            work.emit(sides.stores[0].gather(part)?, part.len());
        }
        Ok(())
    }
}

impl State for WindowJoin {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let mut inputs = inputs;
        while let Some(complete) = self.windows.take_complete(std::mem::take(&mut inputs), watermark)? {
            let [left, right] = &complete[..] else { return Err(Diagnostic::bug("a join has two inputs")) };
            self.join([left, right], work)?;
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

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        self.windows.absorb(&of_same_operator::<WindowJoin>(other)?.windows, share)
    }
}
