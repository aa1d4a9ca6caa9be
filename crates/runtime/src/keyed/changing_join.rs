//! Joins of all rows whose output changes: those of results that change, and outer, semi and anti joins.
//!
//! ```text
//! rows of a beat, by side ─► added up by row: -old +new of the same row is nothing ─► ΔL, ΔR
//! ΔL ⋈ R, then (L + ΔL) ⋈ ΔR ─► pairs, whose weight is the product of those of their rows
//!                             └► partners of each row ─► rows that have got their first partner, or lost their last
//! ```
//!
//! Each side keeps every row once, with how often it is there, and, where rows without a partner are shown or hidden, with how many
//! partners it has. A row that is there no more is kept until so many are gone that it pays to forget them: it may come back, and so
//! keeps count of its partners. All that happens in a beat is added up before it is put out, so nobody sees a row padded with NULLs whose
//! partner has come in the same beat.

use super::batch::Batch;
use super::chains::NONE;
use super::changing_side::{Delta, JoinSide, Shows};
use super::groups::{Groups, pays_to_forget};
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::pairs::residual_of;
use super::state::{State, Work};
use super::store::{Doubling, NO_ROW};
use super::versions::{Versioned, Versions};
use super::weights::{ADDED, TAKEN_BACK};
use crate::executable_plan::OperatorCode;
use arrow_array::{ArrayRef, Int8Array};
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::{self, KeyedOperator};
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// See the module.
pub(crate) struct ChangingJoin {
    kind: JoinKind,
    sides: [JoinSide; 2],
    groups: Groups,
    doubling: Doubling,
    versions: Versions,
}

/// Pairs of rows of equal keys, about which the residual has to decide.
#[derive(Default)]
struct Candidates {
    rows: [Vec<u32>; 2],
    /// How often a pair comes or goes.
    weights: Vec<i64>,
    /// How many partners more the row of each side has.
    more: [Vec<i64>; 2],
}

impl Candidates {
    fn clear(&mut self) {
        self.rows.iter_mut().for_each(Vec::clear);
        self.more.iter_mut().for_each(Vec::clear);
        self.weights.clear();
    }
}

impl ChangingJoin {
    /// Without rows.
    pub(super) fn new(
        plan: &KeyedOperator,
        join: &pipeline::ChangingJoin,
        code: &OperatorCode,
    ) -> Result<ChangingJoin, Diagnostic> {
        let side = |port: usize| {
            JoinSide::new(&plan.inputs[port].schema, join.weights[port], Shows::of(join.kind, port), join.ttl_ms[port])
        };
        let (sides, groups) = ([side(0)?, side(1)?], Groups::new(plan, code)?);
        let (doubling, versions) = (Doubling::default(), Versions::default());
        Ok(ChangingJoin { kind: join.kind, sides, groups, doubling, versions })
    }

    /// Has rows of a side meet those of the other one.
    fn probe(&mut self, port: usize, deltas: &[Delta], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let other = 1 - port;
        // A row that may come back counts its partners meanwhile.
        let counts = self.sides.iter().any(|side| side.shows.is_some()) && self.sides[other].changing.is_some();
        let mut candidates = Candidates::default();
        for &Delta { row, by, is_new } in deltas {
            let mut partner = self.sides[other].chains.newest(self.sides[port].chains.group(row));
            while partner != NONE {
                let count = self.sides[other].count(partner);
                if counts || count != 0 {
                    candidates.rows[port].push(row);
                    candidates.rows[other].push(partner);
                    candidates.weights.push(by * count);
                    candidates.more[port].push(if is_new { count } else { 0 });
                    candidates.more[other].push(by);
                    if candidates.weights.len() == work.most_rows {
                        self.decide(&mut candidates, work)?;
                    }
                }
                partner = self.sides[other].chains.before(partner);
            }
        }
        self.decide(&mut candidates, work)
    }

    /// Has the residual decide about pairs, and forgets them.
    fn decide(&mut self, candidates: &mut Candidates, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let rows = candidates.weights.len();
        if rows == 0 {
            return Ok(());
        }
        let kept: Vec<u32> = match work.code.residual.is_some() {
            true => residual_of(&self.pairs(&candidates.rows)?, rows, work)?,
            false => (0..rows as u32).collect(),
        };
        for (side, (rows, more)) in self.sides.iter_mut().zip(candidates.rows.iter().zip(&candidates.more)) {
            kept.iter().for_each(|&pair| side.meet(rows[pair as usize], more[pair as usize]));
        }
        if self.kind.shows_right() {
            let pair = |&pair: &u32| {
                let pair = pair as usize;
                ([candidates.rows[0][pair], candidates.rows[1][pair]], candidates.weights[pair])
            };
            self.put_out(kept.iter().map(pair), work)?;
        }
        candidates.clear();
        Ok(())
    }

    /// The columns of pairs.
    fn pairs(&self, rows: &[Vec<u32>; 2]) -> Result<Vec<ArrayRef>, Diagnostic> {
        let mut columns = self.sides[0].store.gather(&rows[0])?;
        if self.kind.shows_right() || !rows[1].is_empty() {
            columns.extend(self.sides[1].store.gather(&rows[1])?);
        }
        Ok(columns)
    }

    /// Puts pairs out, each as often as it comes or goes.
    fn put_out(&self, pairs: impl Iterator<Item = ([u32; 2], i64)>, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let (mut rows, mut weights) = ([Vec::new(), Vec::new()], Vec::new());
        let mut emit = |rows: &mut [Vec<u32>; 2], weights: &mut Vec<i8>| {
            let length = weights.len();
            if length > 0 {
                let mut columns = self.pairs(rows)?;
                columns.push(Arc::new(Int8Array::from(std::mem::take(weights))) as ArrayRef);
                work.emit(columns, length);
                rows.iter_mut().for_each(Vec::clear);
            }
            Ok::<_, Diagnostic>(())
        };
        for ([left, right], weight) in pairs {
            for _ in 0..weight.unsigned_abs() {
                rows[0].push(left);
                if self.kind.shows_right() {
                    rows[1].push(right);
                }
                weights.push(if weight > 0 { ADDED } else { TAKEN_BACK });
                if weights.len() == MOST_PAIRS {
                    emit(&mut rows, &mut weights)?;
                }
            }
        }
        emit(&mut rows, &mut weights)
    }

    /// Forgets rows that are not there, when so many are gone that it pays, and groups without rows.
    fn forget(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let changing = || self.sides.iter().filter_map(|side| Some((side.store.len(), side.counts.as_ref()?.alive)));
        let (kept, alive) = changing().fold((0, 0), |(kept, alive), (k, a)| (kept + k, alive + a));
        if kept == alive || !self.doubling.is_due(kept, work.is_tight) {
            return Ok(());
        }
        self.versions.forget();
        let mut groups = [self.sides[0].forget()?, self.sides[1].forget()?];
        let mut is_used = vec![false; self.groups.table.len()];
        groups.iter().flatten().filter(|&&group| group != NONE).for_each(|&group| is_used[group as usize] = true);
        let used: Vec<u64> = (0..is_used.len() as u64).filter(|&group| is_used[group as usize]).collect();
        let empty = is_used.len() - used.len();
        if pays_to_forget(empty, is_used.len()) {
            self.groups.keep(&used, work)?;
            let mut renumbered = vec![NONE; is_used.len()];
            used.iter().zip(0..).for_each(|(&group, number)| renumbered[group as usize] = number);
            let of_all = groups.iter_mut().flatten().filter(|group| **group != NONE);
            of_all.for_each(|group| *group = renumbered[*group as usize]);
        }
        let count = self.groups.table.len();
        for (side, groups) in self.sides.iter_mut().zip(groups) {
            side.chains.set(groups, count);
        }
        self.doubling.done(alive);
        Ok(())
    }
}

/// Pairs are put out in buffers of this many at most.
const MOST_PAIRS: usize = 8 << 10;

impl State for ChangingJoin {
    fn advance(&mut self, inputs: Vec<Batch>, _: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.sides.iter_mut().for_each(|side| side.expire(work.now_ms));
        for (side, batch) in self.sides.iter_mut().zip(inputs).filter(|(_, batch)| batch.rows() > 0) {
            side.waiting.push(batch);
        }
        Ok(())
    }

    fn due(&self) -> i64 {
        self.sides[0].ages.due().min(self.sides[1].ages.due())
    }

    fn end_beat(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.sides.iter_mut().for_each(|side| side.expire(work.now_ms));
        for port in [0, 1] {
            let deltas = self.sides[port].deltas(port, &mut self.groups, work)?;
            self.probe(port, &deltas, work)?;
            self.sides[port].apply(&deltas, work.now_ms);
        }
        for port in [0, 1] {
            let shown = self.sides[port].shown();
            let pair = |(row, by): (u32, i64)| (if port == 0 { [row, NO_ROW] } else { [NO_ROW, row] }, by);
            self.put_out(shown.into_iter().map(pair), work)?;
        }
        self.forget(work)
    }

    fn bytes(&mut self) -> usize {
        let sides: usize = self.sides.iter().map(JoinSide::bytes).sum();
        self.groups.table.bytes() + sides + self.versions.bytes()
    }

    fn versioned(&mut self) -> Option<&mut dyn Versioned> {
        Some(self)
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        self.sides.iter().try_for_each(|side| side.save(out))
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let groups = self.groups.table.len();
        self.sides.iter_mut().try_for_each(|side| side.restore(groups, from, now_ms))?;
        self.doubling.done(self.sides.iter().filter_map(|side| Some(side.counts.as_ref()?.alive)).sum());
        Ok(())
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let (other, first) = (of_same_operator::<ChangingJoin>(other)?, self.groups.table.len());
        let taken = self.groups.absorb(&other.groups, share)?;
        let numbers = NewNumbers::of_groups(&taken, other.groups.table.len(), first);
        let groups = self.groups.table.len();
        for (port, (side, other)) in self.sides.iter_mut().zip(&other.sides).enumerate() {
            side.absorb(other, &share.rows(port, &other.store)?, &numbers, groups)?;
        }
        self.doubling.done(self.sides.iter().filter_map(|side| Some(side.counts.as_ref()?.alive)).sum());
        Ok(())
    }
}

impl Versioned for ChangingJoin {
    fn versions(&mut self) -> Vec<(&mut Versions, usize)> {
        let sides = self.sides.iter_mut().map(|side| (&mut side.versions, side.store.len()));
        [(&mut self.versions, self.groups.table.len())].into_iter().chain(sides).collect()
    }

    fn is_between_beats(&self) -> bool {
        self.sides.iter().all(|side| side.waiting.is_empty())
    }

    fn save_since(&self, version: u32, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(self.versions.first_behind(version), out);
        self.sides.iter().try_for_each(|side| side.save_since(version, out))
    }

    fn apply(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let groups = self.groups.table.len();
        self.sides.iter_mut().try_for_each(|side| side.take_over(groups, from, now_ms))?;
        self.doubling.done(self.sides.iter().filter_map(|side| Some(side.counts.as_ref()?.alive)).sum());
        Ok(())
    }
}
