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

use super::ages::Ages;
use super::batch::Batch;
use super::chains::{Chains, NONE};
use super::contents::Contents;
use super::encoding::check_count;
use super::groups::{Groups, pays_to_forget};
use super::pairs::residual_of;
use super::state::{State, Work};
use super::store::{Doubling, NO_ROW, RowStore};
use super::weights::{ADDED, TAKEN_BACK, of_column};
use crate::columns::{compact, selected};
use crate::executable_plan::OperatorCode;
use arrow_array::{ArrayRef, Int8Array, UInt32Array};
use millstream_abi::hash_bytes;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::{self, KeyedOperator};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::sync::Arc;

/// See the module.
pub(crate) struct ChangingJoin {
    kind: JoinKind,
    sides: [JoinSide; 2],
    groups: Groups,
    doubling: Doubling,
}

/// The rows of an input.
struct JoinSide {
    schema: Schema,
    store: RowStore,
    chains: Chains,
    /// Of an input that changes.
    changing: Option<ChangingSide>,
    /// How often each row is there, where rows may go.
    counts: Option<RowCounts>,
    /// When rows of it are put out by themselves.
    shows: Option<Shows>,
    /// How many partners each row has, if that is so.
    partners: Vec<i64>,
    /// Rows that have changed in the beat that is ending, with how often they were there before, and how many partners they had.
    touched: Vec<(u32, i64, i64)>,
    is_touched: Vec<bool>,
    /// The rows of this beat.
    waiting: Vec<Batch>,
    /// Where rows are forgotten that have not been written in a while.
    ages: Ages,
}

/// How often rows are there.
#[derive(Default)]
struct RowCounts {
    of: Vec<i64>,
    /// Rows that are there.
    alive: usize,
}

impl RowCounts {
    /// A row is there more often, or less.
    fn add(&mut self, row: u32, by: i64) {
        let count = &mut self.of[row as usize];
        self.alive -= usize::from(*count > 0);
        *count += by;
        self.alive += usize::from(*count > 0);
    }
}

/// What else is known of rows that may be taken back.
struct ChangingSide {
    /// Position of the weight.
    weight: usize,
    contents: Contents,
}

/// Which rows of a side are put out by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Those without a partner.
    Alone,
    /// Those that have one.
    Met,
}

impl Shows {
    fn of(kind: JoinKind, port: usize) -> Option<Shows> {
        match (kind, port) {
            (JoinKind::Left | JoinKind::Full | JoinKind::Anti, 0) | (JoinKind::Right | JoinKind::Full, 1) => {
                Some(Shows::Alone)
            }
            (JoinKind::Semi, 0) => Some(Shows::Met),
            _ => None,
        }
    }

    /// How often a row is put out by itself.
    fn count(self, count: i64, partners: i64) -> i64 {
        if (partners == 0) == (self == Shows::Alone) { count } else { 0 }
    }
}

/// A row that is there more or less often than before the beat.
#[derive(Clone, Copy)]
struct Delta {
    row: u32,
    by: i64,
    /// Whether the store has it since this beat, so that its partners have not been counted.
    is_new: bool,
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

impl JoinSide {
    fn new(
        schema: &Schema,
        weight: Option<usize>,
        shows: Option<Shows>,
        ttl_ms: Option<u64>,
    ) -> Result<JoinSide, Diagnostic> {
        let changing = |weight| {
            let contents = Contents::new(schema, weight)?;
            Ok::<_, Diagnostic>(ChangingSide { weight, contents })
        };
        Ok(JoinSide {
            schema: schema.clone(),
            store: RowStore::new(schema),
            chains: Chains::default(),
            changing: weight.map(changing).transpose()?,
            counts: (weight.is_some() || ttl_ms.is_some()).then(RowCounts::default),
            shows,
            partners: Vec::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            waiting: Vec::new(),
            ages: Ages::new(ttl_ms),
        })
    }

    /// How often a row is there.
    fn count(&self, row: u32) -> i64 {
        self.counts.as_ref().map_or(1, |counts| counts.of[row as usize])
    }

    /// Adds rows, whose groups are those of the batch, and which are not there yet.
    fn push(&mut self, columns: Vec<ArrayRef>, groups: Vec<u32>, of_all: usize) -> Result<u32, Diagnostic> {
        let rows = groups.len();
        let first = self.store.push(columns, rows)?;
        self.chains.add(groups, of_all);
        self.counts.iter_mut().for_each(|counts| counts.of.resize(self.store.len(), 0));
        if self.shows.is_some() {
            self.partners.resize(self.store.len(), 0);
            self.is_touched.resize(self.store.len(), false);
        }
        Ok(first)
    }

    /// Notes what a row is before it changes, if it is one that is put out by itself.
    fn touch(&mut self, row: u32, count: i64) {
        if self.shows.is_some() && !std::mem::replace(&mut self.is_touched[row as usize], true) {
            self.touched.push((row, count, self.partners[row as usize]));
        }
    }

    /// Rows have other numbers of partners.
    fn meet(&mut self, row: u32, more: i64) {
        if self.shows.is_some() && more != 0 {
            self.touch(row, self.count(row));
            self.partners[row as usize] += more;
        }
    }

    /// The net changes of the rows of this beat. Rows that are not there yet are in the store now, but not there.
    fn deltas(&mut self, port: usize, groups: &mut Groups, work: &mut Work<'_>) -> Result<Vec<Delta>, Diagnostic> {
        let batch = Batch::gathered(std::mem::take(&mut self.waiting))?;
        if batch.rows() == 0 {
            return Ok(Vec::new());
        }
        let Some(changing) = &self.changing else {
            let of = grouped(groups, port, &batch.columns, batch.rows(), work)?;
            let first = self.push(batch.columns, of, groups.table.len())?;
            let new = |row| Delta { row, by: 1, is_new: true };
            let deltas: Vec<Delta> = (first..self.store.len() as u32).map(new).collect();
            deltas.iter().for_each(|delta| self.touch(delta.row, 0));
            return Ok(deltas);
        };
        let bytes = changing.contents.rows_of(&batch.columns)?;
        let weights = of_column(&batch.columns[changing.weight])?;
        let mut order: Vec<(u64, u32)> =
            (0..batch.rows()).map(|row| (hash_bytes(bytes.row(row)), row as u32)).collect();
        let key = |&(hash, row): &(u64, u32)| (hash, bytes.row(row as usize));
        order.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        let runs = order.chunk_by(|a, b| key(a) == key(b));
        let net = |run: &[(u64, u32)]| run.iter().map(|&(_, row)| i64::from(weights[row as usize])).sum::<i64>();
        let (mut rows, mut nets) = (Vec::new(), Vec::new());
        for (run, net) in runs.map(|run| (run, net(run))).filter(|(_, net)| *net != 0) {
            rows.push((run[0].1, run[0].0));
            nets.push(net);
        }
        let found = changing.contents.find(&self.store, &bytes, &rows)?;
        let (mut deltas, mut new) = (Vec::new(), Vec::new());
        for ((&(row, hash), &net), found) in rows.iter().zip(&nets).zip(found) {
            match found {
                Some(number) => {
                    // A row that is taken back and was never there is ignored.
                    let by = net.max(-self.count(number));
                    deltas.push(Delta { row: number, by, is_new: false });
                }
                None if net > 0 => new.push((row, hash, net)),
                None => {}
            }
        }
        deltas.retain(|delta| delta.by != 0);
        if !new.is_empty() {
            let places = UInt32Array::from_iter_values(new.iter().map(|(row, ..)| *row));
            let column = |column: &ArrayRef| selected(column, &places).map(|column| compact(&column));
            let columns = batch.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
            let of = grouped(groups, port, &columns, new.len(), work)?;
            let first = self.push(columns, of, groups.table.len())?;
            if let Some(changing) = &mut self.changing {
                new.iter().for_each(|&(_, hash, _)| changing.contents.add(hash));
            }
            deltas.extend(new.iter().zip(first..).map(|(&(.., by), row)| Delta { row, by, is_new: true }));
        }
        for delta in &deltas {
            self.touch(delta.row, self.count(delta.row));
        }
        Ok(deltas)
    }

    /// Rows are there as often as they are from now on.
    fn apply(&mut self, deltas: &[Delta], now_ms: i64) {
        let Some(counts) = &mut self.counts else { return };
        for &Delta { row, by, .. } in deltas {
            counts.add(row, by);
            self.ages.touch(row as usize, now_ms);
        }
    }

    /// Has rows be gone whose time to live is over, without telling anybody: neither pairs nor partners are.
    fn expire(&mut self, now_ms: i64) {
        let Some(counts) = &mut self.counts else { return };
        for row in self.ages.expired(now_ms) {
            let count = counts.of[row as usize];
            counts.add(row, -count);
        }
    }

    /// Rows that are put out by themselves now, or no more.
    fn shown(&mut self) -> Vec<(u32, i64)> {
        let Some(shows) = self.shows else { return Vec::new() };
        let mut shown = Vec::new();
        for (row, count, partners) in std::mem::take(&mut self.touched) {
            self.is_touched[row as usize] = false;
            let now = shows.count(self.count(row), self.partners[row as usize]);
            shown.push((row, now - shows.count(count, partners)));
        }
        shown.retain(|(_, by)| *by != 0);
        shown
    }

    /// Forgets rows that are not there; of those that are left the groups are to be set.
    fn forget(&mut self) -> Result<Vec<u32>, Diagnostic> {
        let Some(counts) = &mut self.counts else { return Ok(self.chains.groups().to_vec()) };
        let is_there = |row: &u32| counts.of[*row as usize] > 0;
        let alive: Vec<u32> = (0..self.store.len() as u32).filter(is_there).collect();
        let of = |numbers: &[i64]| alive.iter().map(|&row| numbers[row as usize]).collect::<Vec<_>>();
        counts.of = of(&counts.of);
        if self.shows.is_some() {
            self.partners = of(&self.partners);
            self.is_touched = vec![false; alive.len()];
        }
        self.changing.iter_mut().for_each(|changing| changing.contents.keep(&alive));
        self.ages.keep(alive.iter().map(|&row| row as usize));
        self.store.keep(&alive)?;
        Ok(alive.iter().map(|&row| self.chains.group(row)).collect())
    }

    fn bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Batch::bytes).sum();
        let contents = self.changing.as_ref().map_or(0, |changing| changing.contents.memory());
        let counts = self.counts.as_ref().map_or(0, |counts| counts.of.capacity() * size_of::<i64>());
        let changing = contents + counts + self.ages.bytes();
        let partners = self.partners.capacity() * size_of::<i64>() + self.is_touched.capacity();
        self.store.bytes() + self.chains.bytes() + changing + partners + waiting
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.store.save(out)?;
        self.chains.save(out);
        if let Some(changing) = &self.changing {
            changing.contents.save(out);
        }
        self.counts.iter().for_each(|counts| out.i64s(&counts.of));
        self.ages.save(self.store.len(), out);
        out.i64s(&self.partners);
        // Of a beat that has not ended, where memory is short; checkpoints come between beats.
        out.length(self.waiting.len());
        self.waiting.iter().try_for_each(|batch| batch.save(out))
    }

    fn restore(&mut self, groups: usize, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.store.restore(from)?;
        let rows = self.store.len();
        self.chains = Chains::restore(rows, groups, from)?;
        if let Some(changing) = &mut self.changing {
            check_count("hashes", changing.contents.restore(from)?, rows)?;
        }
        if let Some(counts) = &mut self.counts {
            counts.of = from.i64s()?;
            check_count("counts", counts.of.len(), rows)?;
            let most = if self.changing.is_some() { i64::MAX } else { 1 };
            let are_possible = counts.of.iter().all(|count| (0..=most).contains(count));
            Damaged::unless(are_possible, "a row is there less than never, or too often")?;
            counts.alive = counts.of.iter().filter(|&&count| count > 0).count();
        }
        self.ages.restore(rows, from, now_ms)?;
        self.partners = from.i64s()?;
        check_count("numbers of partners", self.partners.len(), if self.shows.is_some() { rows } else { 0 })?;
        self.is_touched = vec![false; self.partners.len()];
        for _ in 0..from.count(1)? {
            self.waiting.push(Batch::restore(&self.schema, from)?);
        }
        Ok(())
    }
}

/// The groups of rows of an input, [`NONE`] where a key is NULL.
fn grouped(
    groups: &mut Groups,
    port: usize,
    columns: &[ArrayRef],
    rows: usize,
    work: &mut Work<'_>,
) -> Result<Vec<u32>, Diagnostic> {
    let of = groups.assign(port, columns, rows, work)?;
    Ok(of.iter().map(|&group| if groups.table.is_null(group) { NONE } else { group as u32 }).collect())
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
        Ok(ChangingJoin { kind: join.kind, sides, groups, doubling: Doubling::default() })
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
        self.groups.table.bytes() + self.sides.iter().map(JoinSide::bytes).sum::<usize>()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save(out);
        self.sides.iter().try_for_each(|side| side.save(out))
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let groups = self.groups.table.len();
        self.sides.iter_mut().try_for_each(|side| side.restore(groups, from, now_ms))?;
        self.doubling.done(self.sides.iter().filter_map(|side| Some(side.counts.as_ref()?.alive)).sum());
        Ok(())
    }
}
