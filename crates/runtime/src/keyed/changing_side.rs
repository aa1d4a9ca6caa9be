//! A side of a join of all rows whose output changes (`changing_join`): its rows, how often each is there, and how many partners it has.

use super::ages::Ages;
use super::batch::Batch;
use super::chains::{Chains, NONE};
use super::contents::Contents;
use super::encoding::{check_ascending, check_count};
use super::groups::Groups;
use super::key_share::NewNumbers;
use super::state::Work;
use super::store::RowStore;
use super::versions::Versions;
use super::weights::of_column;
use crate::columns::{compact, selected};
use arrow_array::{ArrayRef, UInt32Array};
use millstream_abi::hash_bytes;
use millstream_plan::logical::JoinKind;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};

/// The rows of an input.
pub(super) struct JoinSide {
    schema: Schema,
    pub(super) store: RowStore,
    pub(super) chains: Chains,
    /// Of an input that changes.
    pub(super) changing: Option<ChangingSide>,
    /// How often each row is there, where rows may go.
    pub(super) counts: Option<RowCounts>,
    /// When rows of it are put out by themselves.
    pub(super) shows: Option<Shows>,
    /// How many partners each row has, if that is so.
    partners: Vec<i64>,
    /// Rows that have changed in the beat that is ending, with how often they were there before, and how many partners they had.
    touched: Vec<(u32, i64, i64)>,
    is_touched: Vec<bool>,
    /// The rows of this beat.
    pub(super) waiting: Vec<Batch>,
    /// Where rows are forgotten that have not been written in a while.
    pub(super) ages: Ages,
    pub(super) versions: Versions,
}

/// How often rows are there.
#[derive(Default)]
pub(super) struct RowCounts {
    of: Vec<i64>,
    /// Rows that are there.
    pub(super) alive: usize,
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
pub(super) struct ChangingSide {
    /// Position of the weight.
    weight: usize,
    contents: Contents,
}

/// Which rows of a side are put out by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// Those without a partner.
    Alone,
    /// Those that have one.
    Met,
}

impl Shows {
    pub(super) fn of(kind: JoinKind, port: usize) -> Option<Shows> {
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
pub(super) struct Delta {
    pub(super) row: u32,
    pub(super) by: i64,
    /// Whether the store has it since this beat, so that its partners have not been counted.
    pub(super) is_new: bool,
}

impl JoinSide {
    pub(super) fn new(
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
            versions: Versions::default(),
        })
    }

    /// How often a row is there.
    pub(super) fn count(&self, row: u32) -> i64 {
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
    pub(super) fn meet(&mut self, row: u32, more: i64) {
        if self.shows.is_some() && more != 0 {
            self.touch(row, self.count(row));
            self.partners[row as usize] += more;
            self.versions.touch(row as usize);
        }
    }

    /// The net changes of the rows of this beat. Rows that are not there yet are in the store now, but not there.
    pub(super) fn deltas(
        &mut self,
        port: usize,
        groups: &mut Groups,
        work: &mut Work<'_>,
    ) -> Result<Vec<Delta>, Diagnostic> {
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
    pub(super) fn apply(&mut self, deltas: &[Delta], now_ms: i64) {
        let Some(counts) = &mut self.counts else { return };
        for &Delta { row, by, .. } in deltas {
            counts.add(row, by);
            self.ages.touch(row as usize, now_ms);
            self.versions.touch(row as usize);
        }
    }

    /// Has rows be gone whose time to live is over, without telling anybody: neither pairs nor partners are.
    pub(super) fn expire(&mut self, now_ms: i64) {
        let Some(counts) = &mut self.counts else { return };
        for row in self.ages.expired(now_ms) {
            let count = counts.of[row as usize];
            counts.add(row, -count);
            self.versions.touch(row as usize);
        }
    }

    /// Rows that are put out by themselves now, or no more.
    pub(super) fn shown(&mut self) -> Vec<(u32, i64)> {
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
    pub(super) fn forget(&mut self) -> Result<Vec<u32>, Diagnostic> {
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

    pub(super) fn bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Batch::bytes).sum();
        let contents = self.changing.as_ref().map_or(0, |changing| changing.contents.memory());
        let counts = self.counts.as_ref().map_or(0, |counts| counts.of.capacity() * size_of::<i64>());
        let changing = contents + counts + self.ages.bytes() + self.versions.bytes();
        let partners = self.partners.capacity() * size_of::<i64>() + self.is_touched.capacity();
        self.store.bytes() + self.chains.bytes() + changing + partners + waiting
    }

    pub(super) fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.store.save(out)?;
        self.chains.save_from(0, out);
        if let Some(changing) = &self.changing {
            changing.contents.save_from(0, out);
        }
        self.counts.iter().for_each(|counts| out.i64s(&counts.of));
        self.ages.save(self.store.len(), out);
        out.i64s(&self.partners);
        // Of a beat that has not ended, where memory is short; checkpoints come between beats.
        out.length(self.waiting.len());
        self.waiting.iter().try_for_each(|batch| batch.save(out))
    }

    pub(super) fn restore(&mut self, groups: usize, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.store.restore(from)?;
        let rows = self.store.len();
        self.restore_rows(groups, from)?;
        if let Some(counts) = &mut self.counts {
            counts.of = from.i64s()?;
            check_count("counts", counts.of.len(), rows)?;
        }
        self.count_rows()?;
        self.ages.restore(rows, from, now_ms)?;
        self.partners = from.i64s()?;
        check_count("numbers of partners", self.partners.len(), if self.shows.is_some() { rows } else { 0 })?;
        self.is_touched = vec![false; self.partners.len()];
        for _ in 0..from.count(1)? {
            self.waiting.push(Batch::restore(&self.schema, from)?);
        }
        Ok(())
    }

    /// Adds rows of the same side in another partition, whose groups have new numbers; then there are `groups` groups.
    pub(super) fn absorb(
        &mut self,
        other: &JoinSide,
        rows: &[u32],
        numbers: &NewNumbers,
        groups: usize,
    ) -> Result<(), Diagnostic> {
        let first = self.store.absorb(&other.store, rows)? as usize;
        let group = |&row: &u32| numbers.of(other.chains.group(row) as usize).unwrap_or(NONE);
        self.chains.add(rows.iter().map(group), groups);
        if let (Some(changing), Some(others)) = (&mut self.changing, &other.changing) {
            changing.contents.absorb(&others.contents, rows);
        }
        if let (Some(counts), Some(others)) = (&mut self.counts, &other.counts) {
            counts.of.extend(rows.iter().map(|&row| others.of[row as usize]));
        }
        self.count_rows()?;
        if self.shows.is_some() {
            self.partners.extend(rows.iter().map(|&row| other.partners[row as usize]));
            self.is_touched.resize(self.store.len(), false);
        }
        self.ages.absorb(first, &other.ages, rows.iter().map(|&row| row as usize));
        Ok(())
    }

    /// What is known of rows that have been added to the store since they were complete.
    fn restore_rows(&mut self, groups: usize, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        let rows = self.store.len();
        self.chains.restore(rows, groups, from)?;
        if let Some(changing) = &mut self.changing {
            check_count("hashes", changing.contents.restore(from)?, rows)?;
        }
        Ok(())
    }

    /// Counts of rows have been read.
    fn count_rows(&mut self) -> Result<(), Damaged> {
        let Some(counts) = &mut self.counts else { return Ok(()) };
        let most = if self.changing.is_some() { i64::MAX } else { 1 };
        let are_possible = counts.of.iter().all(|count| (0..=most).contains(count));
        Damaged::unless(are_possible, "a row is there less than never, or too often")?;
        counts.alive = counts.of.iter().filter(|&&count| count > 0).count();
        Ok(())
    }

    /// Writes rows that have come or changed behind the end of a version.
    pub(super) fn save_since(&self, version: u32, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let first = self.versions.first_behind(version);
        self.store.save_from(first, out)?;
        self.chains.save_from(first, out);
        if let Some(changing) = &self.changing {
            changing.contents.save_from(first, out);
        }
        let mut rows = self.versions.changed_behind(version);
        out.u32s(&rows);
        rows.extend(first as u32..self.store.len() as u32);
        let of = |numbers: &[i64]| rows.iter().map(|&row| numbers[row as usize]).collect::<Vec<_>>();
        self.counts.iter().for_each(|counts| out.i64s(&of(&counts.of)));
        if self.shows.is_some() {
            out.i64s(&of(&self.partners));
        }
        self.ages.save_some(&rows, out);
        Ok(())
    }

    /// Takes over what [`JoinSide::save_since`] has written.
    pub(super) fn take_over(
        &mut self,
        groups: usize,
        from: &mut ByteReader<'_>,
        now_ms: i64,
    ) -> Result<(), Diagnostic> {
        let first = self.store.len();
        self.store.restore(from)?;
        self.restore_rows(groups, from)?;
        let (known, mut rows) = (self.store.len(), from.u32s()?);
        check_ascending(&rows, first)?;
        rows.extend(first as u32..known as u32);
        let replace = |numbers: &mut Vec<i64>, from: &mut ByteReader<'_>| {
            let new = from.i64s()?;
            check_count("numbers of rows", new.len(), rows.len())?;
            numbers.resize(known, 0);
            rows.iter().zip(new).for_each(|(&row, new)| numbers[row as usize] = new);
            Ok::<_, Damaged>(())
        };
        if let Some(counts) = &mut self.counts {
            replace(&mut counts.of, from)?;
        }
        if self.shows.is_some() {
            replace(&mut self.partners, from)?;
            self.is_touched.resize(known, false);
        }
        self.count_rows()?;
        rows.iter().for_each(|&row| self.versions.touch(row as usize));
        self.ages.restore_some(&rows, from, now_ms)
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
