//! Top-N of all rows so far: `ROW_NUMBER`, `RANK` and `DENSE_RANK` without a window, and deduplication.
//!
//! The rows of a group are in order, as numbers of a store. What was shown of a group is taken before its first row in the beat. At the
//! end of the beat the two are compared, rank by rank or, where nobody sees ranks, row by row.
//!
//! Of rows that only come those behind the last rank are never needed again: most rows are compared with the last one that is kept, and
//! forgotten. Of a result that changes all rows are kept, since one that ranks before others may be taken back. Then the rows of a beat
//! wait for its end, where they are sorted, added up and merged into the group at once.

use super::ages::Ages;
use super::batch::Batch;
use super::encoding::{Owned, check_ascending, check_count, restore_flags, save_flags};
use super::groups::{Groups, pays_to_forget};
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::sort_bytes::{KeptBytes, SortBytes};
use super::state::{State, Work};
use super::store::{Doubling, RowStore};
use super::versions::{Versioned, Versions};
use super::weights::{ADDED, TAKEN_BACK, of_column, weights};
use crate::columns::{compact, selected};
use crate::executable_plan::OperatorCode;
use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use millstream_plan::logical::RankFunction;
use millstream_plan::pipeline::{self, KeyedOperator};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, code};
use std::sync::Arc;

/// A group that shows more rows than this has the rows of a beat merged into it at once: each by itself would move too many.
const MANY_RANKS: u64 = 4 << 10;
/// No rows of the group have come in this beat.
const UNTOUCHED: u32 = u32::MAX;

/// See the module.
pub(crate) struct Top {
    plan: pipeline::Top,
    groups: Groups,
    sort: SortBytes,
    rows: RowStore,
    bytes: KeptBytes,
    all: Vec<TopGroup>,
    touched: Vec<Touched>,
    /// Rows that are in a group.
    alive: usize,
    /// Numbers of rows that wait for the end of the beat, or were shown at the end of the last one.
    noted: usize,
    doubling: Doubling,
    /// Whether there are no keys: then there is one group.
    is_global: bool,
    /// Whether each row is put into its place when it comes.
    at_once: bool,
    /// Where groups are forgotten to which no row has been added in a while.
    ages: Ages,
    /// Of groups, and of rows, which change when they leave their group.
    versions: Versions,
    row_versions: Versions,
}

/// A group.
struct TopGroup {
    /// Its rows in order.
    rows: Vec<u32>,
    /// Its place among those that rows of this beat have come for, or [`UNTOUCHED`].
    touched: u32,
}

impl TopGroup {
    const NONE: TopGroup = TopGroup { rows: Vec::new(), touched: UNTOUCHED };
}

/// A group that rows of this beat have come for.
struct Touched {
    group: u64,
    /// What was shown of it: rows with their ranks.
    before: Vec<Numbered>,
    /// Rows that wait for the end of the beat, and whether they come.
    waiting: Vec<(u32, bool)>,
}

/// A row and its rank.
type Numbered = (u32, i64);

impl Top {
    /// Without rows.
    pub(super) fn new(plan: &KeyedOperator, top: &pipeline::Top, code: &OperatorCode) -> Result<Top, Diagnostic> {
        let schema = &plan.inputs[0].schema;
        let is_plain = top.function != RankFunction::DenseRank && top.range.1 <= MANY_RANKS;
        Ok(Top {
            plan: top.clone(),
            groups: Groups::new(plan, code)?,
            sort: SortBytes::new(schema, &top.order, top.ties, top.weight)?,
            rows: RowStore::new(schema),
            bytes: KeptBytes::default(),
            all: Vec::new(),
            touched: Vec::new(),
            alive: 0,
            noted: 0,
            doubling: Doubling::default(),
            is_global: plan.keys.is_empty(),
            at_once: is_plain && top.weight.is_none() && !top.is_alone,
            ages: Ages::new(top.ttl_ms),
            versions: Versions::default(),
            row_versions: Versions::default(),
        })
    }

    /// The group of each row.
    fn assign(&mut self, batch: &Batch, work: &mut Work<'_>) -> Result<Vec<u64>, Diagnostic> {
        let groups = self.groups.assign_or_one(&batch.columns, batch.rows(), work)?;
        self.all.resize_with(self.groups.len_or_one(), || TopGroup::NONE);
        Ok(groups)
    }

    /// Notes that a group is going to change.
    fn touch(&mut self, group: u64, now_ms: i64) -> usize {
        let of = &self.all[group as usize];
        if of.touched != UNTOUCHED {
            return of.touched as usize;
        }
        let before = self.shown(&of.rows);
        self.ages.touch(group as usize, now_ms);
        self.versions.touch(group as usize);
        self.noted += before.len();
        let place = self.touched.len();
        self.all[group as usize].touched = place as u32;
        self.touched.push(Touched { group, before, waiting: Vec::new() });
        place
    }

    /// The ranks of rows that are in order: 1, 2, 3, …, with the rows.
    fn ranked<'a>(&'a self, rows: &'a [u32]) -> impl Iterator<Item = Numbered> + 'a {
        let (function, mut rank, mut dense) = (self.plan.function, 0, 0);
        rows.iter().enumerate().map(move |(i, &row)| {
            let place = i as i64 + 1;
            if function == RankFunction::RowNumber {
                return (row, place);
            }
            if i == 0 || self.bytes.order(rows[i - 1]) != self.bytes.order(row) {
                (rank, dense) = (place, dense + 1);
            }
            (row, if function == RankFunction::Rank { rank } else { dense })
        })
    }

    /// What is shown of rows that are in order.
    fn shown(&self, rows: &[u32]) -> Vec<Numbered> {
        let (from, to) = self.plan.range;
        let (from, to) = (i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(to).unwrap_or(i64::MAX));
        let skipped = if self.plan.function == RankFunction::RowNumber { rows.len().min(from as usize - 1) } else { 0 };
        let shift = skipped as i64;
        let ranked = self.ranked(&rows[skipped..]).map(|(row, rank)| (row, rank + shift));
        ranked.skip_while(|&(_, rank)| rank < from).take_while(|&(_, rank)| rank <= to).collect()
    }

    /// Puts rows into their places, as far as they can be shown.
    fn insert(&mut self, batch: &Batch, groups: &[u64], now_ms: i64) -> Result<(), Diagnostic> {
        let of = self.sort.of(&batch.columns, &batch.ordinals)?;
        let most = self.plan.range.1 as usize;
        let mut kept = Vec::new();
        for (row, &group) in groups.iter().enumerate() {
            if let Some(&last) = self.all[group as usize].rows.get(most - 1)
                && of.order(row) > self.bytes.order(last)
            {
                continue;
            }
            let number = self.bytes.len() as u32;
            self.bytes.push(&of, row);
            let bytes = &self.bytes;
            let place = |rows: &[u32]| rows.partition_point(|&other| bytes.whole(other) < bytes.whole(number));
            let at = place(&self.all[group as usize].rows);
            let is_behind = at >= most && self.plan.function == RankFunction::RowNumber;
            if is_behind {
                self.bytes.pop();
                continue;
            }
            self.touch(group, now_ms);
            let rows = &mut self.all[group as usize].rows;
            rows.insert(at, number);
            kept.push(row as u32);
            let bytes = &self.bytes;
            let is_left = |rows: &[u32]| match (rows.last(), self.plan.function) {
                _ if rows.len() <= most => true,
                (Some(&last), RankFunction::Rank) => bytes.order(last) == bytes.order(rows[most - 1]),
                _ => false,
            };
            while !is_left(rows) {
                rows.pop().into_iter().for_each(|row| self.row_versions.touch(row as usize));
                self.alive -= 1;
            }
            self.alive += 1;
        }
        self.keep(batch, kept)
    }

    /// Has rows wait for the end of the beat.
    fn wait(&mut self, batch: &Batch, groups: &[u64], now_ms: i64) -> Result<(), Diagnostic> {
        let of = self.sort.of(&batch.columns, &batch.ordinals)?;
        let weights = match self.plan.weight {
            Some(weight) => Some(of_column(&batch.columns[weight])?),
            None => None,
        };
        for (row, &group) in groups.iter().enumerate() {
            let number = self.bytes.len() as u32;
            self.bytes.push(&of, row);
            let touched = self.touch(group, now_ms);
            let comes = weights.is_none_or(|weights| weights[row] > 0);
            self.touched[touched].waiting.push((number, comes));
        }
        self.noted += groups.len();
        self.keep(batch, (0..groups.len() as u32).collect())
    }

    /// Keeps rows of a batch, whose bytes are kept already.
    fn keep(&mut self, batch: &Batch, kept: Vec<u32>) -> Result<(), Diagnostic> {
        let rows = kept.len();
        if rows < batch.rows() {
            let kept = UInt32Array::from(kept);
            let columns = batch.columns.iter().map(|column| selected(column, &kept).map(|column| compact(&column)));
            self.rows.push(columns.collect::<Result<_, _>>()?, rows)?;
        } else {
            self.rows.push(batch.columns.clone(), rows)?;
        }
        Ok(())
    }

    /// Merges rows that have waited into those of their group: rows that come and are taken back cancel each other out. Those that are in
    /// the group now, and those that are not, or no more.
    fn merge(&self, rows: &[u32], mut waiting: Vec<(u32, bool)>) -> (Vec<u32>, Vec<u32>) {
        let bytes = &self.bytes;
        waiting.sort_unstable_by(|a, b| bytes.whole(a.0).cmp(bytes.whole(b.0)));
        let (mut merged, mut gone, mut left) = (Vec::with_capacity(rows.len() + waiting.len()), Vec::new(), rows);
        for equal in waiting.chunk_by(|a, b| bytes.whole(a.0) == bytes.whole(b.0)) {
            let key = bytes.whole(equal[0].0);
            let (before, rest) = left.split_at(left.partition_point(|&row| bytes.whole(row) < key));
            merged.extend_from_slice(before);
            let (same, after) = rest.split_at(rest.partition_point(|&row| bytes.whole(row) == key));
            left = after;
            let come = equal.iter().filter(|(_, comes)| *comes).map(|(row, _)| *row);
            let taken_back = equal.iter().filter(|(_, comes)| !comes).count();
            // Rows of equal bytes are equal. One that is taken back and was never there is ignored.
            let mut equal = same.iter().copied().chain(come);
            gone.extend(equal.by_ref().take(taken_back));
            merged.extend(equal);
        }
        merged.extend_from_slice(left);
        if self.plan.weight.is_none() {
            let last = i64::try_from(self.plan.range.1).unwrap_or(i64::MAX);
            let kept = self.ranked(&merged).take_while(|&(_, rank)| rank <= last).count();
            gone.extend(merged.drain(kept..));
        }
        (merged, gone)
    }

    /// Puts rows with their ranks out.
    fn put_out(&self, ranked: &[Numbered], weight: i8, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for part in ranked.chunks(work.most_rows) {
            let rows: Vec<u32> = part.iter().map(|(row, _)| *row).collect();
            let mut columns = self.rows.gather(&rows)?;
            if self.plan.shows_rank {
                columns.push(Arc::new(Int64Array::from_iter_values(part.iter().map(|(_, rank)| *rank))) as ArrayRef);
            }
            columns.push(weights(weight, part.len()));
            work.emit(columns, part.len());
        }
        Ok(())
    }

    /// The error of a group that has two rows and may have one.
    fn second_row(&self, group: u64) -> Diagnostic {
        let key = if self.is_global { Vec::new() } else { self.groups.columns(&[group]) };
        let options = FormatOptions::default().with_null("NULL");
        let value = |column: &ArrayRef| {
            ArrayFormatter::try_new(column, &options).map_or_else(|_| "?".into(), |values| values.value(0).to_string())
        };
        let values: Vec<String> = key.iter().map(value).collect();
        let message = format!("two rows of the result have the PRIMARY KEY ({})", values.join(", "));
        Diagnostic::new(code::DUPLICATE_KEY, message)
            .advise("say which one counts: INSERT … ON CONFLICT DO NOTHING or DO DEDUPLICATE")
    }

    /// Has groups begin again whose time to live is over: nobody is told that their rows are gone.
    fn expire(&mut self, now_ms: i64) {
        for group in self.ages.expired(now_ms) {
            let of = &mut self.all[group as usize];
            if of.touched == UNTOUCHED {
                self.alive -= of.rows.len();
                std::mem::take(&mut of.rows).into_iter().for_each(|row| self.row_versions.touch(row as usize));
                self.versions.touch(group as usize);
            }
        }
    }

    /// Forgets rows that are in no group, when so many are that it pays, and groups without rows.
    fn forget(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.rows.len(), work.is_tight) {
            return Ok(());
        }
        self.versions.forget();
        let mut alive: Vec<u32> = self.all.iter().flat_map(|of| of.rows.iter().copied()).collect();
        alive.sort_unstable();
        let mut renumbered = vec![0; self.rows.len()];
        alive.iter().zip(0..).for_each(|(&row, number)| renumbered[row as usize] = number);
        self.rows.keep(&alive)?;
        self.bytes.keep(&alive);
        self.all.iter_mut().flat_map(|of| &mut of.rows).for_each(|row| *row = renumbered[*row as usize]);
        self.doubling.done(alive.len());
        let empty = self.all.iter().filter(|of| of.rows.is_empty()).count();
        if !self.is_global && pays_to_forget(empty, self.all.len()) {
            let left: Vec<u64> =
                (0..self.all.len() as u64).filter(|&group| !self.all[group as usize].rows.is_empty()).collect();
            self.groups.keep(&left, work)?;
            self.ages.keep(left.iter().map(|&group| group as usize));
            self.all.retain(|of| !of.rows.is_empty());
        }
        Ok(())
    }
}

/// What is in the one and not in the other: of ranks that are shown rows with other ranks differ, too.
fn without(these: &[Numbered], others: &[Numbered], with_ranks: bool) -> Vec<Numbered> {
    if with_ranks {
        // Both are in the order of ranks, so what is in both is mostly at the same place.
        let differs = |(i, ranked): &(usize, &Numbered)| others.get(*i) != Some(*ranked);
        return these.iter().enumerate().filter(differs).map(|(_, ranked)| *ranked).collect();
    }
    let mut known: Vec<u32> = others.iter().map(|(row, _)| *row).collect();
    known.sort_unstable();
    these.iter().filter(|(row, _)| known.binary_search(row).is_err()).copied().collect()
}

impl State for Top {
    fn advance(&mut self, inputs: Vec<Batch>, _: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.expire(work.now_ms);
        for batch in inputs.into_iter().filter(|batch| batch.rows() > 0) {
            let groups = self.assign(&batch, work)?;
            match self.at_once {
                true => self.insert(&batch, &groups, work.now_ms)?,
                false => self.wait(&batch, &groups, work.now_ms)?,
            }
        }
        Ok(())
    }

    fn end_beat(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for Touched { group, before, waiting } in std::mem::take(&mut self.touched) {
            let rows = std::mem::take(&mut self.all[group as usize].rows);
            let rows = if self.at_once {
                rows
            } else {
                let (merged, gone) = self.merge(&rows, waiting);
                gone.into_iter().for_each(|row| self.row_versions.touch(row as usize));
                self.alive = self.alive + merged.len() - rows.len();
                merged
            };
            if self.plan.is_alone && rows.len() > 1 {
                return Err(self.second_row(group));
            }
            let after = self.shown(&rows);
            gone.extend(without(&before, &after, self.plan.shows_rank));
            come.extend(without(&after, &before, self.plan.shows_rank));
            self.all[group as usize] = TopGroup { rows, touched: UNTOUCHED };
        }
        self.noted = 0;
        self.put_out(&gone, TAKEN_BACK, work)?;
        self.put_out(&come, ADDED, work)?;
        self.forget(work)
    }

    fn due(&self) -> i64 {
        self.ages.due()
    }

    fn bytes(&mut self) -> usize {
        let lists = self.all.capacity() * size_of::<TopGroup>() + self.alive * size_of::<u32>();
        let touched = self.touched.capacity() * size_of::<Touched>() + self.noted * size_of::<Numbered>();
        let versions = self.versions.bytes() + self.row_versions.bytes();
        let rows = self.rows.bytes() + self.bytes.memory();
        self.groups.table.bytes() + rows + lists + touched + self.ages.bytes() + versions
    }

    fn versioned(&mut self) -> Option<&mut dyn Versioned> {
        Some(self)
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        self.rows.save(out)?;
        self.bytes.save_from(0, out);
        out.u32s(&self.all.iter().map(|of| of.rows.len() as u32).collect::<Vec<_>>());
        out.u32s(&self.all.iter().flat_map(|of| of.rows.iter().copied()).collect::<Vec<_>>());
        // Of a beat that has not ended, where memory is short; checkpoints come between beats.
        out.length(self.touched.len());
        for Touched { group, before, waiting } in &self.touched {
            out.u64(*group);
            out.u32s(&before.iter().map(|(row, _)| *row).collect::<Vec<_>>());
            out.i64s(&before.iter().map(|(_, rank)| *rank).collect::<Vec<_>>());
            out.u32s(&waiting.iter().map(|(row, _)| *row).collect::<Vec<_>>());
            save_flags(&waiting.iter().map(|(_, comes)| *comes).collect::<Vec<_>>(), out);
        }
        self.ages.save(self.all.len(), out);
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        self.rows.restore(from)?;
        self.bytes.restore(from)?;
        check_count("rows that are ordered", self.bytes.len(), self.rows.len())?;
        let (lengths, numbers) = (from.u32s()?, from.u32s()?);
        let groups = if self.is_global { lengths.len().min(1) } else { self.groups.table.len() };
        check_count("groups", lengths.len(), groups)?;
        let known = self.rows.len();
        let are_rows = |numbers: &[u32]| {
            Damaged::unless(numbers.iter().all(|&row| (row as usize) < known), "a group has a row that is not there")
        };
        are_rows(&numbers)?;
        let mut left = &numbers[..];
        for length in lengths {
            let rows = left.split_at_checked(length as usize);
            let (rows, rest) = rows.ok_or_else(|| Damaged("groups have more rows than there are".into()))?;
            self.all.push(TopGroup { rows: rows.to_vec(), touched: UNTOUCHED });
            left = rest;
        }
        check_count("rows without a group", left.len(), 0)?;
        self.alive = numbers.len();
        self.doubling.done(self.alive);
        for place in 0..from.count(1)? {
            let group = from.u64()?;
            let (rows, ranks) = (from.u32s()?, from.i64s()?);
            let (waiting, come) = (from.u32s()?, restore_flags(from)?);
            check_count("ranks", ranks.len(), rows.len())?;
            check_count("marks of rows", come.len(), waiting.len())?;
            are_rows(&rows)?;
            are_rows(&waiting)?;
            let of = usize::try_from(group).ok().and_then(|group| self.all.get_mut(group));
            let of = of.filter(|of| of.touched == UNTOUCHED);
            let of = of.ok_or_else(|| Damaged(format!("group {group} cannot have changed")))?;
            of.touched = place as u32;
            self.noted += rows.len() + waiting.len();
            let before = rows.into_iter().zip(ranks).collect();
            self.touched.push(Touched { group, before, waiting: waiting.into_iter().zip(come).collect() });
        }
        self.ages.restore(self.all.len(), from, now_ms)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let other = of_same_operator::<Top>(other)?;
        let taken = self.groups.absorb_or_one(&other.groups, other.all.len(), share)?;
        let mut rows: Vec<u32> =
            taken.iter().flat_map(|&group| other.all[group as usize].rows.iter().copied()).collect();
        rows.sort_unstable();
        let first = self.rows.absorb(&other.rows, &rows)?;
        let numbers = NewNumbers::new(rows.iter().map(|&row| row as usize), other.rows.len(), first as usize);
        self.bytes.absorb(&other.bytes, &rows);
        self.ages.absorb(self.all.len(), &other.ages, taken.iter().map(|&group| group as usize));
        for group in taken {
            let rows = other.all[group as usize].rows.iter().filter_map(|&row| numbers.of(row as usize)).collect();
            self.all.push(TopGroup { rows, touched: UNTOUCHED });
        }
        self.alive += rows.len();
        self.doubling.done(self.alive);
        Ok(())
    }
}

impl Versioned for Top {
    fn versions(&mut self) -> Vec<(&mut Versions, usize)> {
        vec![(&mut self.versions, self.all.len()), (&mut self.row_versions, self.rows.len())]
    }

    fn is_between_beats(&self) -> bool {
        self.touched.is_empty()
    }

    fn save_since(&self, version: u32, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let (first, first_row) = (self.versions.first_behind(version), self.row_versions.first_behind(version));
        self.groups.table.save_from(if self.is_global { 0 } else { first }, out);
        self.rows.save_from(first_row, out)?;
        self.bytes.save_from(first_row, out);
        out.u32s(&self.row_versions.changed_behind(version));
        let groups = self.versions.written_behind(version, self.all.len());
        out.u32s(&groups);
        let is_new = |row: &u32| *row as usize >= first_row;
        let new = |&group: &u32| self.all[group as usize].rows.iter().copied().filter(is_new);
        out.u32s(&groups.iter().map(|group| new(group).count() as u32).collect::<Vec<_>>());
        out.u32s(&groups.iter().flat_map(new).collect::<Vec<_>>());
        self.ages.save_some(&groups, out);
        Ok(())
    }

    fn apply(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        let first_row = self.rows.len();
        self.groups.restore(from)?;
        self.rows.restore(from)?;
        self.bytes.restore(from)?;
        check_count("rows that are ordered", self.bytes.len(), self.rows.len())?;
        let (gone, groups) = (from.u32s()?, from.u32s()?);
        let known = if self.is_global { self.all.len().max(groups.len().min(1)) } else { self.groups.table.len() };
        self.all.resize_with(known, || TopGroup::NONE);
        check_ascending(&gone, first_row)?;
        check_ascending(&groups, known)?;
        let (lengths, numbers) = (from.u32s()?, from.u32s()?);
        check_count("numbers of rows", lengths.len(), groups.len())?;
        let mut new = Owned::new(self.rows.len());
        for &row in &numbers {
            Damaged::unless(row as usize >= first_row, "a row that has come was there before")?;
            new.take(row as usize)?;
        }
        let mut left = &numbers[..];
        for (&group, &length) in groups.iter().zip(&lengths) {
            let come = left.split_at_checked(length as usize);
            let (come, rest) = come.ok_or_else(|| Damaged("groups have more rows than there are".into()))?;
            left = rest;
            let before = std::mem::take(&mut self.all[group as usize].rows);
            let (mut before, mut come) = (before.into_iter().peekable(), come.iter().copied().peekable());
            let mut rows = Vec::with_capacity(before.len() + come.len());
            loop {
                let is_before = match (before.peek(), come.peek()) {
                    (Some(row), _) if gone.binary_search(row).is_ok() => {
                        before.next();
                        continue;
                    }
                    (Some(&a), Some(&b)) => self.bytes.whole(a) <= self.bytes.whole(b),
                    (Some(_), None) => true,
                    (None, Some(_)) => false,
                    (None, None) => break,
                };
                rows.extend(if is_before { before.next() } else { come.next() });
            }
            self.all[group as usize].rows = rows;
            self.versions.touch(group as usize);
        }
        check_count("rows without a group", left.len(), 0)?;
        gone.iter().for_each(|&row| self.row_versions.touch(row as usize));
        self.alive = self.all.iter().map(|of| of.rows.len()).sum();
        self.doubling.done(self.alive);
        self.ages.restore_some(&groups, from, now_ms)
    }
}
