//! Joins of rows as they come: interval joins and regular joins.
//!
//! Each side keeps its rows by number and, for each group of the key, a chain of them, newest first. A new row walks the
//! chain of its group on the other side; then it is in its own chain. A pair is output when the later of the two rows
//! (in merged order) is consumed.
//!
//! **Interval join.** A row of the left at *l* meets rows of the right at *r* with `r + lower ≤ l ≤ r + upper`. The
//! exchange drops a row when its time plus the *reach* of its input is at or before the watermark before it. So the last
//! partner that a left row can meet, at `l - lower`, is late once the watermark is at `l - lower + reach of the right`:
//! then the row is dead, in the same way for the right at `r + upper + reach of the left`. A dead row is forgotten, and
//! output with NULLs if its side is an outer one and it had no partner. No row that is output later, alone or in a pair,
//! is older than the watermark minus the longest of these times, which is what the output's watermark is held back by.
//!
//! **Regular join.** All rows meet, or those that came within the time to live (processing time).

use super::batch::{Batch, times_of};
use super::encoding::{check_count, restore_flags, save_flags};
use super::groups::Groups;
use super::pairs::{Matched, Pairs, Sides, emit_left, emit_right};
use super::store::{Doubling, RowStore};
use super::window_join::groups_of;
use super::{State, Work};
use crate::input::OperatorCode;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::KeyedOperator;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::Diagnostic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// End of a chain, and the group of keys with NULL.
const NONE: u32 = u32::MAX;

/// How far the rows of an interval join reach, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    lower: i64,
    upper: i64,
    /// Left and right rows are accepted until the watermark is this far behind their time.
    accepted: [i64; 2],
}

impl Reach {
    /// As the plan says; where it does not, rows are late when they cannot meet rows that are not.
    pub(crate) fn of(plan: &KeyedOperator, lower: i64, upper: i64) -> Reach {
        let reach = |port: usize, default: i64| {
            plan.inputs.get(port).and_then(|i| i.reach_ms).unwrap_or_else(|| default.max(0))
        };
        Reach { lower, upper, accepted: [reach(0, lower.saturating_neg()), reach(1, upper)] }
    }

    /// After how long a row of a side is dead.
    fn life(self, port: usize) -> i64 {
        match port {
            0 => self.accepted[1].saturating_sub(self.lower),
            _ => self.accepted[0].saturating_add(self.upper),
        }
    }

    /// See the file's description.
    pub(crate) fn held_back(self) -> i64 {
        let longest = self.life(0).max(self.life(1));
        longest.max(self.accepted[0]).max(self.accepted[1]).max(0)
    }

    #[inline]
    fn matches(self, left: i64, right: i64) -> bool {
        right.saturating_add(self.lower) <= left && left <= right.saturating_add(self.upper)
    }
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    Interval(Reach),
    Regular { ttl_ms: Option<i64> },
}

/// The rows of an input.
struct Side {
    store: RowStore,
    /// Event time of each row, or when it came.
    times: Vec<i64>,
    groups: Vec<u32>,
    /// The row before in the chain of the group.
    next: Vec<u32>,
    /// The newest row of each group.
    heads: Vec<u32>,
    /// Whether rows without partner are output.
    is_outer: bool,
    /// Of outer sides.
    matched: Matched,
    /// When the rows of an outer side are dead.
    deadlines: BinaryHeap<Reverse<(i64, u32)>>,
    /// Position of the event time.
    time: Option<usize>,
}

/// What a probe reads of a side.
#[derive(Clone, Copy)]
struct View<'a> {
    times: &'a [i64],
    groups: &'a [u32],
    next: &'a [u32],
    heads: &'a [u32],
}

/// See the file's description.
pub(crate) struct StreamJoin {
    rule: Rule,
    sides: [Side; 2],
    groups: Groups,
    doubling: Doubling,
    /// When expired rows are looked for, at the earliest.
    next_sweep: i64,
    /// The time of the last job.
    now_ms: i64,
}

impl Side {
    fn new(plan: &KeyedOperator, port: usize, is_outer: bool) -> Side {
        Side {
            store: RowStore::new(&plan.inputs[port].schema),
            times: Vec::new(),
            groups: Vec::new(),
            next: Vec::new(),
            heads: Vec::new(),
            is_outer,
            matched: Vec::new(),
            deadlines: BinaryHeap::new(),
            time: plan.inputs[port].time,
        }
    }

    /// Makes the chains and deadlines of the rows from number `first` on, whose groups and times are there.
    fn link(&mut self, first: usize, groups: usize, life: Option<i64>) {
        self.heads.resize(groups, NONE);
        self.next.truncate(first);
        for row in first..self.groups.len() {
            let group = self.groups[row];
            let head = match group {
                NONE => NONE,
                group => std::mem::replace(&mut self.heads[group as usize], row as u32),
            };
            self.next.push(head);
        }
        if let (true, Some(life)) = (self.is_outer, life) {
            let deadline = |row: usize| Reverse((self.times[row].saturating_add(life), row as u32));
            self.deadlines.extend((first..self.times.len()).map(deadline));
        }
    }

    /// Writes the rows, with times that are relative to `now`.
    fn save(&self, now: i64, out: &mut ByteWriter) {
        self.store.save(out);
        out.i64s(&self.times.iter().map(|time| time.saturating_sub(now)).collect::<Vec<_>>());
        out.u32s(&self.groups);
        if self.is_outer {
            save_flags(&self.matched, out);
            let mut is_waiting = vec![false; self.times.len()];
            self.deadlines.iter().for_each(|Reverse((_, row))| is_waiting[*row as usize] = true);
            save_flags(&is_waiting, out);
        }
    }

    /// Has the rows that [`Side::save`] has written, of so many groups, with times that are relative to `now`; there are none
    /// so far.
    fn restore(
        &mut self,
        groups: usize,
        life: Option<i64>,
        now: i64,
        from: &mut ByteReader<'_>,
    ) -> Result<(), Diagnostic> {
        self.store.restore(from)?;
        (self.times, self.groups) = (from.i64s()?, from.u32s()?);
        self.times.iter_mut().for_each(|time| *time = time.saturating_add(now));
        check_count("times", self.times.len(), self.store.len())?;
        check_count("groups of rows", self.groups.len(), self.store.len())?;
        if self.groups.iter().any(|&group| group != NONE && group as usize >= groups) {
            return Err(Damaged("a row is in no group".into()).into());
        }
        self.link(0, groups, None);
        if self.is_outer {
            self.matched = restore_flags(from)?;
            let is_waiting = restore_flags(from)?;
            check_count("marks of rows", self.matched.len(), self.store.len())?;
            check_count("deadlines", is_waiting.len(), self.store.len())?;
            let deadline = |row: usize| Reverse((self.times[row].saturating_add(life.unwrap_or(0)), row as u32));
            self.deadlines = (0..is_waiting.len()).filter(|&row| is_waiting[row]).map(deadline).collect();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let numbers = self.groups.capacity() + self.next.capacity() + self.heads.capacity();
        self.store.bytes()
            + self.times.capacity() * size_of::<i64>()
            + numbers * size_of::<u32>()
            + self.matched.capacity()
            + self.deadlines.capacity() * size_of::<Reverse<(i64, u32)>>()
    }

    fn view(&self) -> View<'_> {
        View { times: &self.times, groups: &self.groups, next: &self.next, heads: &self.heads }
    }
}

impl StreamJoin {
    /// An interval join without rows.
    pub(crate) fn interval(
        plan: &KeyedOperator,
        kind: JoinKind,
        lower: i64,
        upper: i64,
        code: &OperatorCode,
    ) -> Result<StreamJoin, Diagnostic> {
        if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
            return Err(Diagnostic::bug("there are no semi and anti joins of intervals"));
        }
        let (left, right) = (kind.right_is_optional(), kind.left_is_optional());
        StreamJoin::new(plan, Rule::Interval(Reach::of(plan, lower, upper)), [left, right], code)
    }

    /// A regular join without rows.
    pub(crate) fn regular(
        plan: &KeyedOperator,
        ttl_ms: Option<u64>,
        code: &OperatorCode,
    ) -> Result<StreamJoin, Diagnostic> {
        let ttl_ms = ttl_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
        StreamJoin::new(plan, Rule::Regular { ttl_ms }, [false, false], code)
    }

    fn new(
        plan: &KeyedOperator,
        rule: Rule,
        is_outer: [bool; 2],
        code: &OperatorCode,
    ) -> Result<StreamJoin, Diagnostic> {
        let sides = [Side::new(plan, 0, is_outer[0]), Side::new(plan, 1, is_outer[1])];
        let groups = Groups::new(plan, code)?;
        Ok(StreamJoin { rule, sides, groups, doubling: Doubling::default(), next_sweep: i64::MAX, now_ms: 0 })
    }

    fn life(&self, port: usize) -> Option<i64> {
        match self.rule {
            Rule::Interval(reach) => Some(reach.life(port)),
            Rule::Regular { .. } => None,
        }
    }

    /// Takes rows of an input in; returns the number of the first.
    fn insert(&mut self, port: usize, mut batch: Batch, work: &mut Work<'_>) -> Result<usize, Diagnostic> {
        let mut groups = self.groups.assign(port, &batch.columns, batch.rows(), work)?;
        let is_null = |&group: &u64| self.groups.is_null(group);
        let any_null = groups.iter().any(is_null);
        if any_null && !self.sides[port].is_outer {
            let rows = (0..batch.rows()).filter(|&i| !is_null(&groups[i])).map(|i| i as u32).collect();
            batch = batch.pick(rows)?;
            groups.retain(|g| !is_null(g));
        }
        let life = self.life(port);
        let side = &mut self.sides[port];
        let (first, rows) = (side.store.len(), batch.rows());
        match (self.rule, side.time) {
            (Rule::Interval(_), Some(time)) if rows > 0 => {
                side.times.extend_from_slice(&times_of(&batch.columns[time])?)
            }
            _ => side.times.resize(first + rows, work.now_ms),
        }
        side.store.push(batch.columns, rows)?;
        let group = |&g: &u64| if any_null && self.groups.is_null(g) { NONE } else { g as u32 };
        side.groups.extend(groups.iter().map(group));
        if side.is_outer {
            side.matched.resize(first + rows, false);
        }
        side.link(first, self.groups.len(), life);
        Ok(first)
    }

    /// Finds the partners of the rows of an input from number `first` on.
    fn probe(&mut self, port: usize, first: usize, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let rule = self.rule;
        let [left, right] = &mut self.sides;
        let (mut left_matched, mut right_matched) =
            (std::mem::take(&mut left.matched), std::mem::take(&mut right.matched));
        let mut sides = Sides {
            left: &left.store,
            right: &right.store,
            left_matched: &mut left_matched,
            right_matched: &mut right_matched,
            shows_pairs: true,
        };
        let (new, other) = if port == 0 { (left.view(), right.view()) } else { (right.view(), left.view()) };
        let mut pairs = Pairs::default();
        for row in first..new.groups.len() {
            let group = new.groups[row];
            if group == NONE {
                continue;
            }
            let time = new.times[row];
            let mut partner = other.heads.get(group as usize).copied().unwrap_or(NONE);
            while partner != NONE {
                let other_time = other.times[partner as usize];
                let is_match = match rule {
                    Rule::Interval(reach) if port == 0 => reach.matches(time, other_time),
                    Rule::Interval(reach) => reach.matches(other_time, time),
                    Rule::Regular { ttl_ms } => ttl_ms.is_none_or(|ttl| other_time.saturating_add(ttl) > work.now_ms),
                };
                if is_match {
                    if port == 0 {
                        pairs.push(row as u32, partner);
                    } else {
                        pairs.push(partner, row as u32);
                    }
                    if pairs.len() == work.most_rows {
                        pairs.flush(&mut sides, work)?;
                    }
                }
                partner = other.next[partner as usize];
            }
        }
        pairs.flush(&mut sides, work)?;
        (self.sides[0].matched, self.sides[1].matched) = (left_matched, right_matched);
        Ok(())
    }

    /// Outputs rows of outer sides that are dead and had no partner.
    fn emit_unmatched(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let mut alone = [Vec::new(), Vec::new()];
        for (side, alone) in self.sides.iter_mut().zip(&mut alone) {
            while let Some(Reverse((deadline, row))) = side.deadlines.peek().copied() {
                if deadline > watermark {
                    break;
                }
                side.deadlines.pop();
                if !side.matched[row as usize] {
                    alone.push(row);
                }
            }
        }
        let (left_matched, right_matched) = (&mut Vec::new(), &mut Vec::new());
        let (left, right) = (&self.sides[0].store, &self.sides[1].store);
        let sides = Sides { left, right, left_matched, right_matched, shows_pairs: true };
        emit_left(&sides, &alone[0], work)?;
        emit_right(&sides, &alone[1], work)
    }

    /// Forgets what is dead, when so much has come that it pays, or the time to live has passed.
    fn forget(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let kept: usize = self.sides.iter().map(|s| s.store.len()).sum();
        let (ttl, now) = match self.rule {
            Rule::Regular { ttl_ms: None } => return Ok(()),
            Rule::Regular { ttl_ms: Some(ttl) } => (ttl, work.now_ms),
            Rule::Interval(_) => (0, watermark),
        };
        if !self.doubling.is_due(kept, work.is_tight) && work.now_ms < self.next_sweep {
            return self.plan_sweep(ttl, work.now_ms);
        }
        let lives = [0, 1].map(|port| self.life(port).unwrap_or(ttl));
        self.groups.clear();
        for (port, side) in self.sides.iter_mut().enumerate() {
            let is_alive = |&row: &u32| side.times[row as usize].saturating_add(lives[port]) > now;
            let alive: Vec<u32> = (0..side.times.len() as u32).filter(is_alive).collect();
            let had_null: Vec<bool> = alive.iter().map(|&row| side.groups[row as usize] == NONE).collect();
            side.store.keep(&alive)?;
            side.times = alive.iter().map(|&row| side.times[row as usize]).collect();
            if side.is_outer {
                side.matched = alive.iter().map(|&row| side.matched[row as usize]).collect();
            }
            let groups = groups_of(&mut self.groups, port, &side.store, work)?;
            let group = |(&g, &is_null): (&u64, &bool)| if is_null { NONE } else { g as u32 };
            side.groups = groups.iter().zip(&had_null).map(group).collect();
            side.heads.clear();
            side.deadlines.clear();
        }
        let count = self.groups.len();
        let lives = [0, 1].map(|port| self.life(port));
        for (side, life) in self.sides.iter_mut().zip(lives) {
            side.link(0, count, life);
        }
        self.doubling.done(self.sides.iter().map(|s| s.store.len()).sum());
        self.next_sweep = i64::MAX;
        self.plan_sweep(ttl, work.now_ms)
    }

    /// Notes when the oldest row expires, but not oftener than twice within the time to live.
    fn plan_sweep(&mut self, ttl: i64, now: i64) -> Result<(), Diagnostic> {
        if let (Rule::Regular { .. }, i64::MAX) = (self.rule, self.next_sweep) {
            let oldest = self.sides.iter().filter_map(|s| s.times.first()).min();
            self.next_sweep = oldest.map_or(i64::MAX, |o| o.saturating_add(ttl).max(now.saturating_add(ttl / 2 + 1)));
        }
        Ok(())
    }
}

impl State for StreamJoin {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.now_ms = work.now_ms;
        for (port, batch) in inputs.into_iter().enumerate() {
            if batch.rows() > 0 {
                let first = self.insert(port, batch, work)?;
                self.probe(port, first, work)?;
            }
        }
        if let Rule::Interval(_) = self.rule {
            self.emit_unmatched(watermark, work)?;
            if watermark == i64::MAX {
                return Ok(());
            }
        }
        self.forget(watermark, work)
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
        self.groups.bytes() + self.sides.iter().map(Side::bytes).sum::<usize>()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.save(out);
        let now = if let Rule::Regular { .. } = self.rule { self.now_ms } else { 0 };
        self.sides.iter().for_each(|side| side.save(now, out));
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let now = if let Rule::Regular { .. } = self.rule { now_ms } else { 0 };
        let lives = [0, 1].map(|port| self.life(port));
        for (side, life) in self.sides.iter_mut().zip(lives) {
            side.restore(self.groups.len(), life, now, from)?;
        }
        self.now_ms = now_ms;
        self.doubling.done(self.sides.iter().map(|side| side.store.len()).sum());
        match self.rule {
            Rule::Regular { ttl_ms: Some(ttl) } => self.plan_sweep(ttl, now_ms),
            _ => Ok(()),
        }
    }
}
