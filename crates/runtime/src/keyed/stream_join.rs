//! Joins of rows as they come: interval joins and regular joins.
//!
//! Each side keeps its rows by number and, for each group of the key, a chain of them, newest first. A new row walks the
//! chain of its group on the other side; then it is in its own chain. A pair is output when the later of the two rows
//! (in merged order) is consumed.
//!
//! When rows meet and die is in `interval_join` and `regular_join`.

use super::batch::{Batch, merged, times_of};
use super::chains::{Chains, NONE};
use super::encoding::{check_count, restore_flags, save_flags};
use super::groups::Groups;
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::pairs::{Matched, Pairs, Sides, emit_padded};
use super::state::{State, Work};
use super::store::{Doubling, RowStore};
use super::versions::{Versioned, Versions};
use crate::executable_plan::OperatorCode;
use millstream_plan::pipeline::KeyedOperator;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How far the rows of an interval join reach, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    lower: i64,
    upper: i64,
}

impl Reach {
    /// With these bounds.
    pub(crate) fn new(lower: i64, upper: i64) -> Reach {
        Reach { lower, upper }
    }

    /// How much later than a row of a side its last partner is; negative when it is earlier.
    fn of(self, port: usize) -> i64 {
        if port == 0 { self.lower.saturating_neg() } else { self.upper }
    }

    /// The time of the last partner of a row: the last watermark under which it is not dead.
    #[inline]
    fn last(self, port: usize, time: i64) -> i64 {
        time.saturating_add(self.of(port))
    }

    /// See `interval_join`.
    pub(crate) fn held_back(self) -> i64 {
        self.of(0).max(self.of(1)).max(0).saturating_add(1)
    }

    #[inline]
    fn matches(self, left: i64, right: i64) -> bool {
        right.saturating_add(self.lower) <= left && left <= right.saturating_add(self.upper)
    }
}

/// When rows meet, and for how long they are kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Interval(Reach),
    /// With how long a row of each side is kept.
    Regular {
        ttl_ms: [Option<i64>; 2],
    },
}

/// The rows of an input.
struct Side {
    store: RowStore,
    /// Event time of each row, or when it came.
    times: Vec<i64>,
    chains: Chains,
    /// Whether rows without partner are output.
    is_outer: bool,
    /// Of outer sides.
    matched: Matched,
    /// After how long a row is dead; `None` in regular joins.
    life: Option<i64>,
    /// When the rows of an outer side are dead.
    deadlines: BinaryHeap<Reverse<(i64, u32)>>,
    /// Position of the event time.
    time: Option<usize>,
}

/// See `interval_join`.
pub(crate) struct StreamJoin {
    rule: Rule,
    sides: [Side; 2],
    groups: Groups,
    doubling: Doubling,
    /// When expired rows are looked for, at the earliest.
    next_sweep: i64,
    /// The time of the last job.
    now_ms: i64,
    /// Of groups, and of the rows of each side.
    versions: [Versions; 3],
}

/// Rows of an input of an interval join that have just come.
#[derive(Default)]
struct NewRows {
    /// Number of the first.
    first: usize,
    ordinals: Vec<Ordinal>,
    groups: Vec<u32>,
    is_kept: Vec<bool>,
}

impl Side {
    fn new(plan: &KeyedOperator, port: usize, is_outer: bool, rule: Rule) -> Side {
        Side {
            store: RowStore::new(&plan.inputs[port].schema),
            times: Vec::new(),
            chains: Chains::default(),
            is_outer,
            matched: Vec::new(),
            life: match rule {
                Rule::Interval(reach) => Some(reach.of(port).saturating_add(1)),
                Rule::Regular { .. } => None,
            },
            deadlines: BinaryHeap::new(),
            time: plan.inputs[port].time,
        }
    }

    /// Has rows that are kept wait for a partner, if it is an outer side.
    fn wait(&mut self, rows: impl Iterator<Item = usize>) {
        if let (true, Some(life)) = (self.is_outer, self.life) {
            let deadline = |row: usize| Reverse((self.times[row].saturating_add(life), row as u32));
            self.deadlines.extend(rows.map(deadline));
        }
    }

    /// Writes the rows from number `first` on, with times that are relative to `now`.
    fn save_from(&self, first: usize, now: i64, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.store.save_from(first, out)?;
        out.i64s(&self.times[first..].iter().map(|time| time.saturating_sub(now)).collect::<Vec<_>>());
        self.chains.save_from(first, out);
        Ok(())
    }

    /// Writes all rows.
    fn save(&self, now: i64, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.save_from(0, now, out)?;
        if self.is_outer {
            save_flags(&self.matched, out);
            let mut is_waiting = vec![false; self.times.len()];
            self.deadlines.iter().for_each(|Reverse((_, row))| is_waiting[*row as usize] = true);
            save_flags(&is_waiting, out);
        }
        Ok(())
    }

    /// Adds the rows that [`Side::save_from`] has written; then there are `groups` groups.
    fn restore_more(&mut self, groups: usize, now: i64, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        self.store.restore(from)?;
        self.times.extend(from.i64s()?.into_iter().map(|time| time.saturating_add(now)));
        check_count("times", self.times.len(), self.store.len())?;
        Ok(self.chains.restore(self.store.len(), groups, from)?)
    }

    /// Restores the rows that [`Side::save`] has written, of `groups` groups, with times that are relative to `now`;
    /// there are none so far.
    fn restore(&mut self, groups: usize, now: i64, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        self.restore_more(groups, now, from)?;
        if self.is_outer {
            self.matched = restore_flags(from)?;
            let is_waiting = restore_flags(from)?;
            check_count("marks of rows", self.matched.len(), self.store.len())?;
            check_count("deadlines", is_waiting.len(), self.store.len())?;
            self.wait((0..is_waiting.len()).filter(|&row| is_waiting[row]));
        }
        Ok(())
    }

    /// Adds rows of the same side in another partition, whose groups have new numbers; then there are `groups` groups.
    fn absorb(&mut self, other: &Side, rows: &[u32], numbers: &NewNumbers, groups: usize) -> Result<(), Diagnostic> {
        let first = self.store.absorb(&other.store, rows)? as usize;
        self.times.extend(rows.iter().map(|&row| other.times[row as usize]));
        let group = |&row: &u32| numbers.of(other.chains.group(row) as usize).unwrap_or(NONE);
        self.chains.add(rows.iter().map(group), groups);
        if self.is_outer {
            self.matched.extend(rows.iter().map(|&row| other.matched[row as usize]));
            let mut is_waiting = vec![false; other.times.len()];
            other.deadlines.iter().for_each(|Reverse((_, row))| is_waiting[*row as usize] = true);
            let waiting = rows.iter().enumerate().filter(|(_, row)| is_waiting[**row as usize]);
            self.wait(waiting.map(|(place, _)| first + place));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.store.bytes()
            + self.times.capacity() * size_of::<i64>()
            + self.chains.bytes()
            + self.matched.capacity()
            + self.deadlines.capacity() * size_of::<Reverse<(i64, u32)>>()
    }
}

impl StreamJoin {
    /// Without rows; rows of outer sides without a partner are output, too.
    pub(super) fn new(
        plan: &KeyedOperator,
        rule: Rule,
        is_outer: [bool; 2],
        code: &OperatorCode,
    ) -> Result<StreamJoin, Diagnostic> {
        let sides = [0, 1].map(|port| Side::new(plan, port, is_outer[port], rule));
        let groups = Groups::new(plan, code)?;
        let (doubling, versions) = (Doubling::default(), Default::default());
        Ok(StreamJoin { rule, sides, groups, doubling, next_sweep: i64::MAX, now_ms: 0, versions })
    }

    /// All has been read, as if the last job had been at a moment.
    fn restored(&mut self, now_ms: i64) -> Result<(), Diagnostic> {
        (self.now_ms, self.next_sweep) = (now_ms, i64::MAX);
        self.doubling.done(self.sides.iter().map(|side| side.store.len()).sum());
        match self.rule {
            Rule::Regular { ttl_ms } if ttl_ms != [None, None] => {
                self.plan_sweep(ttl_ms.map(|ttl| ttl.unwrap_or(i64::MAX)), now_ms)
            }
            _ => Ok(()),
        }
    }

    fn stores(&self) -> [&RowStore; 2] {
        [&self.sides[0].store, &self.sides[1].store]
    }

    /// Gives the rows of an input their groups, [`NONE`] for keys with NULL; such rows of inner sides are left out.
    fn grouped(&mut self, port: usize, batch: Batch, work: &mut Work<'_>) -> Result<(Batch, Vec<u32>), Diagnostic> {
        let batch = batch.in_parts();
        let groups = self.groups.assign_parts(port, batch.parts().iter(), work)?;
        let is_null: Vec<bool> = groups.iter().map(|&group| self.groups.table.is_null(group)).collect();
        if self.sides[port].is_outer || !is_null.contains(&true) {
            let group = |(&group, &is_null): (&u64, &bool)| if is_null { NONE } else { group as u32 };
            return Ok((batch, groups.iter().zip(&is_null).map(group).collect()));
        }
        let kept: Vec<u32> = (0..batch.rows() as u32).filter(|&row| !is_null[row as usize]).collect();
        let groups = kept.iter().map(|&row| groups[row as usize] as u32).collect();
        Ok((batch.pick(kept)?, groups))
    }

    /// Takes rows of an input of a regular join in; returns the number of the first.
    fn insert(&mut self, port: usize, batch: Batch, work: &mut Work<'_>) -> Result<usize, Diagnostic> {
        let (batch, groups) = self.grouped(port, batch, work)?;
        let side = &mut self.sides[port];
        let (first, rows) = (side.store.len(), batch.rows());
        side.times.resize(first + rows, work.now_ms);
        side.store.push_batch(batch)?;
        side.chains.add(groups, self.groups.table.len());
        Ok(first)
    }

    /// Takes rows of an input of an interval join in. Those that are not kept are in no chain.
    fn arrive(&mut self, port: usize, reach: Reach, batch: Batch, work: &mut Work<'_>) -> Result<NewRows, Diagnostic> {
        let first = self.sides[port].store.len();
        if batch.rows() == 0 {
            return Ok(NewRows { first, ..NewRows::default() });
        }
        let (batch, groups) = self.grouped(port, batch, work)?;
        if batch.rows() == 0 {
            return Ok(NewRows { first, ..NewRows::default() });
        }
        let side = &mut self.sides[port];
        let time = side.time.ok_or_else(|| Diagnostic::bug("rows of an interval join have no time"))?;
        let (times, ordinals) = (times_of(&batch.column(time)?)?, batch.ordinals.clone());
        let watermarks = times.iter().zip(&ordinals).map(|(&time, ordinal)| (time, ordinal.watermark));
        let is_kept: Vec<bool> = watermarks.clone().map(|(t, watermark)| watermark < reach.last(port, t)).collect();
        let late = watermarks.filter(|&(t, watermark)| reach.last(port, t).max(t) <= watermark).count();
        work.stats.note_late(late as u64, || "an interval join".into());
        side.times.extend_from_slice(&times);
        side.store.push_batch(batch)?;
        let linked = groups.iter().zip(&is_kept).map(|(&group, &is_kept)| if is_kept { group } else { NONE });
        side.chains.add(linked, self.groups.table.len());
        if side.is_outer {
            side.matched.resize(first + ordinals.len(), false);
        }
        side.wait((0..is_kept.len()).filter(|&i| is_kept[i]).map(|i| first + i));
        Ok(NewRows { first, ordinals, groups, is_kept })
    }

    /// Has the rows of both inputs of an interval join meet those before them, in merged order.
    fn meet(&mut self, reach: Reach, inputs: Vec<Batch>, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let [left, right] = <[Batch; 2]>::try_from(inputs).map_err(|_| Diagnostic::bug("a join has two inputs"))?;
        let arrived = [self.arrive(0, reach, left, work)?, self.arrive(1, reach, right, work)?];
        let [left, right] = &mut self.sides;
        let matched = [std::mem::take(&mut left.matched), std::mem::take(&mut right.matched)];
        let views = [&*left, &*right];
        let mut sides = Sides::new(views.map(|side| &side.store), matched, true, work);
        let mut pairs = Pairs::default();
        for (port, i, before) in merged([&arrived[0].ordinals, &arrived[1].ordinals]) {
            let (row, other) = (arrived[port].first + i, 1 - port);
            let (time, watermark) = (views[port].times[row], arrived[port].ordinals[i].watermark);
            let others = (arrived[other].first + before) as u32;
            for partner in views[other].chains.of(arrived[port].groups[i]) {
                let other_time = views[other].times[partner as usize];
                let (l, r) = if port == 0 { (time, other_time) } else { (other_time, time) };
                if partner < others && watermark <= reach.last(other, other_time) && reach.matches(l, r) {
                    let (l, r) = if port == 0 { (row as u32, partner) } else { (partner, row as u32) };
                    pairs.push_at(l, r, watermark);
                    if pairs.len() == work.most_rows {
                        pairs.flush(&mut sides, work)?;
                    }
                }
            }
        }
        pairs.flush(&mut sides, work)?;
        [self.sides[0].matched, self.sides[1].matched] = sides.matched;
        self.emit_not_kept(&arrived, work)
    }

    /// Outputs rows of outer sides that came too late to be kept and met nothing.
    fn emit_not_kept(&mut self, arrived: &[NewRows; 2], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for (port, (side, arrived)) in self.sides.iter().zip(arrived).enumerate().filter(|(_, (side, _))| side.is_outer)
        {
            let is_alone = |&i: &usize| !arrived.is_kept[i] && !side.matched[arrived.first + i];
            let alone: Vec<usize> = (0..arrived.is_kept.len()).filter(is_alone).collect();
            let watermarks: Vec<i64> = alone.iter().map(|&i| arrived.ordinals[i].watermark).collect();
            let rows: Vec<u32> = alone.iter().map(|i| (arrived.first + i) as u32).collect();
            emit_padded(self.stores(), port, &rows, &watermarks, work)?;
        }
        Ok(())
    }

    /// Finds the partners of the rows of an input of a regular join from number `first` on.
    fn probe(&mut self, port: usize, first: usize, ttl_ms: Option<i64>, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let mut sides = Sides::new(self.stores(), Default::default(), true, work);
        let (new, other) = (&self.sides[port], &self.sides[1 - port]);
        let mut pairs = Pairs::default();
        for row in first..new.store.len() {
            for partner in other.chains.of(new.chains.group(row as u32)) {
                let came = other.times[partner as usize];
                if ttl_ms.is_none_or(|ttl| came.saturating_add(ttl) > work.now_ms) {
                    let (l, r) = if port == 0 { (row as u32, partner) } else { (partner, row as u32) };
                    pairs.push(l, r);
                    if pairs.len() == work.most_rows {
                        pairs.flush(&mut sides, work)?;
                    }
                }
            }
        }
        pairs.flush(&mut sides, work)
    }

    /// Outputs rows of outer sides that are dead and had no partner.
    fn emit_unmatched(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for port in [0, 1] {
            let (side, mut alone, mut watermarks) = (&mut self.sides[port], Vec::new(), Vec::new());
            while let Some(&Reverse((deadline, row))) =
                side.deadlines.peek().filter(|Reverse((at, _))| *at <= watermark)
            {
                side.deadlines.pop();
                if !side.matched[row as usize] {
                    alone.push(row);
                    watermarks.push(deadline - 1);
                }
            }
            emit_padded(self.stores(), port, &alone, &watermarks, work)?;
        }
        Ok(())
    }

    /// Forgets what is dead, when so much has come that it pays, or the time to live has passed.
    fn forget(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let kept: usize = self.sides.iter().map(|s| s.store.len()).sum();
        let (ttl, now) = match self.rule {
            Rule::Regular { ttl_ms: [None, None] } => return Ok(()),
            Rule::Regular { ttl_ms } => (ttl_ms.map(|ttl| ttl.unwrap_or(i64::MAX)), work.now_ms),
            Rule::Interval(_) => ([0; 2], watermark),
        };
        if !self.doubling.is_due(kept, work.is_tight) && work.now_ms < self.next_sweep {
            return self.plan_sweep(ttl, work.now_ms);
        }
        self.versions[0].forget();
        self.groups.clear();
        let mut regrouped = Vec::new();
        for (port, side) in self.sides.iter_mut().enumerate() {
            let life = side.life.unwrap_or(ttl[port]);
            let is_alive = |&row: &u32| side.times[row as usize].saturating_add(life) > now;
            let alive: Vec<u32> = (0..side.times.len() as u32).filter(is_alive).collect();
            let had_null: Vec<bool> = alive.iter().map(|&row| side.chains.group(row) == NONE).collect();
            side.store.keep(&alive)?;
            side.times = alive.iter().map(|&row| side.times[row as usize]).collect();
            if side.is_outer {
                side.matched = alive.iter().map(|&row| side.matched[row as usize]).collect();
            }
            let groups = self.groups.assign_parts(port, side.store.parts(), work)?;
            let group = |(&g, &is_null): (&u64, &bool)| if is_null { NONE } else { g as u32 };
            regrouped.push(groups.iter().zip(&had_null).map(group).collect());
            side.deadlines.clear();
        }
        let count = self.groups.table.len();
        for (side, groups) in self.sides.iter_mut().zip(regrouped) {
            side.chains.set(groups, count);
            side.wait(0..side.times.len());
        }
        self.doubling.done(self.sides.iter().map(|s| s.store.len()).sum());
        self.next_sweep = i64::MAX;
        self.plan_sweep(ttl, work.now_ms)
    }

    /// Notes when the oldest row expires, but not oftener than twice within the time to live.
    fn plan_sweep(&mut self, ttl: [i64; 2], now: i64) -> Result<(), Diagnostic> {
        if let (Rule::Regular { .. }, i64::MAX) = (self.rule, self.next_sweep) {
            let oldest = self.sides.iter().zip(ttl).filter_map(|(side, ttl)| Some((*side.times.first()?, ttl)));
            let sweep = |(oldest, ttl): (i64, i64)| oldest.saturating_add(ttl).max(now.saturating_add(ttl / 2 + 1));
            self.next_sweep = oldest.map(sweep).min().unwrap_or(i64::MAX);
        }
        Ok(())
    }
}

impl State for StreamJoin {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.now_ms = work.now_ms;
        match self.rule {
            Rule::Interval(reach) => {
                self.meet(reach, inputs, work)?;
                self.emit_unmatched(watermark, work)?;
                if watermark == i64::MAX {
                    return Ok(());
                }
            }
            Rule::Regular { ttl_ms } => {
                for (port, batch) in inputs.into_iter().enumerate().filter(|(_, batch)| batch.rows() > 0) {
                    let first = self.insert(port, batch, work)?;
                    self.probe(port, first, ttl_ms[1 - port], work)?;
                }
            }
        }
        self.forget(watermark, work)
    }

    fn settle(&mut self, is_plenty: bool) -> Result<(), Diagnostic> {
        self.sides.iter_mut().try_for_each(|side| side.store.settle(is_plenty))
    }

    fn due(&self) -> i64 {
        match self.rule {
            Rule::Regular { .. } => self.next_sweep,
            Rule::Interval(_) => {
                let deadline = |s: &Side| s.deadlines.peek().map_or(i64::MAX, |Reverse((at, _))| *at);
                self.sides.iter().map(deadline).min().unwrap_or(i64::MAX)
            }
        }
    }

    fn bytes(&mut self) -> usize {
        self.groups.table.bytes() + self.sides.iter().map(Side::bytes).sum::<usize>()
    }

    /// An interval join keeps its rows for a while only, and marks most of them meanwhile.
    fn versioned(&mut self) -> Option<&mut dyn Versioned> {
        match self.rule {
            Rule::Regular { .. } => Some(self),
            Rule::Interval(_) => None,
        }
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        let now = if let Rule::Regular { .. } = self.rule { self.now_ms } else { 0 };
        self.sides.iter().try_for_each(|side| side.save(now, out))
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let now = if let Rule::Regular { .. } = self.rule { now_ms } else { 0 };
        self.sides.iter_mut().try_for_each(|side| side.restore(self.groups.table.len(), now, from))?;
        self.restored(now_ms)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let (other, first) = (of_same_operator::<StreamJoin>(other)?, self.groups.table.len());
        let taken = self.groups.absorb(&other.groups, share)?;
        let numbers = NewNumbers::of_groups(&taken, other.groups.table.len(), first);
        let groups = self.groups.table.len();
        for (port, (side, other)) in self.sides.iter_mut().zip(&other.sides).enumerate() {
            side.absorb(other, &share.rows(port, &other.store)?, &numbers, groups)?;
        }
        self.restored(0)
    }
}

impl Versioned for StreamJoin {
    fn versions(&mut self) -> Vec<(&mut Versions, usize)> {
        let entries = [self.groups.table.len(), self.sides[0].store.len(), self.sides[1].store.len()];
        self.versions.iter_mut().zip(entries).collect()
    }

    fn is_between_beats(&self) -> bool {
        true
    }

    fn save_since(&self, version: u32, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let [groups, left, right] = self.versions.each_ref().map(|versions| versions.first_behind(version));
        self.groups.table.save_from(groups, out);
        let mut sides = self.sides.iter().zip([left, right]);
        sides.try_for_each(|(side, first)| side.save_from(first, self.now_ms, out))
    }

    fn apply(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let groups = self.groups.table.len();
        self.sides.iter_mut().try_for_each(|side| side.restore_more(groups, now_ms, from))?;
        self.restored(now_ms)
    }
}
