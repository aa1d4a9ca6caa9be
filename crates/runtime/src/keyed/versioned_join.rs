//! Versioned join: each row of the left with the version of its key that was there at its time (Flink's temporal join).
//!
//! A row of the right is a version of its key from its time on, until the next one; of several of the same time the last one
//! counts. A row of the left waits until the watermark of both inputs reaches its time: then all versions up to it are there,
//! and it meets the newest of them.
//!
//! Rows are consumed in merged order, left and right together. When the watermark before them advances everything is put out that it
//! reaches; then the versions of a key that it has reached are forgotten but for the newest. A row
//! of the left that is behind the watermark already is put out when that advances again, with what is left, or came meanwhile,
//! of the versions up to its time. When a key's versions are forgotten in fact does not matter: at the latest when the
//! next row of the key comes.

use super::batch::{Batch, times_of};
use super::encoding::{check_count, restore_columns, save_columns};
use super::groups::Groups;
use super::pairs::residual_of;
use super::state::{State, Work};
use super::store::{Doubling, NO_ROW, RowStore};
use crate::input::OperatorCode;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::KeyedOperator;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;

/// A row of the left that waits: its time, its place and its number.
type WaitingLeft = Reverse<(i64, Ordinal, u32)>;

/// See the file's description.
pub(crate) struct VersionedJoin {
    /// Whether rows of the left without a version are put out.
    is_outer: bool,
    schemas: [Schema; 2],
    /// Positions of the event times.
    times: [usize; 2],
    left: RowStore,
    /// Of each row of the left.
    left_groups: Vec<u32>,
    waiting: BinaryHeap<WaitingLeft>,
    right: RowStore,
    /// By group.
    keys: Vec<VersionKey>,
    groups: Groups,
    doubling: Doubling,
}

#[derive(Default)]
struct VersionKey {
    /// Time and row of each version, in order of time.
    versions: Vec<(i64, u32)>,
    /// The watermark that versions have been forgotten under.
    forgotten: Option<i64>,
}

/// Rows of the left with their versions, or [`NO_ROW`], on their way out.
#[derive(Default)]
struct Met {
    left: Vec<u32>,
    right: Vec<u32>,
    /// As for [`Work::emit_behind`].
    watermarks: Vec<i64>,
}

impl VersionKey {
    /// The watermark has advanced.
    fn forget(&mut self, watermark: i64) {
        if self.forgotten.is_none_or(|before| watermark > before) {
            self.forgotten = Some(watermark);
            let reached = self.versions.partition_point(|(time, _)| *time <= watermark);
            self.versions.drain(..reached.saturating_sub(1));
        }
    }

    fn insert(&mut self, time: i64, row: u32) {
        match self.versions.binary_search_by_key(&time, |(time, _)| *time) {
            Ok(same) => self.versions[same].1 = row,
            Err(place) => self.versions.insert(place, (time, row)),
        }
    }

    /// The row of the newest version up to a time.
    fn at(&self, time: i64) -> u32 {
        let after = self.versions.partition_point(|(version, _)| *version <= time);
        after.checked_sub(1).map_or(NO_ROW, |newest| self.versions[newest].1)
    }
}

impl VersionedJoin {
    /// Without rows.
    pub(crate) fn new(plan: &KeyedOperator, kind: JoinKind, code: &OperatorCode) -> Result<VersionedJoin, Diagnostic> {
        if !matches!(kind, JoinKind::Inner | JoinKind::Left) {
            return Err(Diagnostic::bug("a versioned join is INNER or LEFT"));
        }
        let [left, right] = &plan.inputs[..] else { return Err(Diagnostic::bug("a join has two inputs")) };
        Ok(VersionedJoin {
            is_outer: kind == JoinKind::Left,
            schemas: [left.schema.clone(), right.schema.clone()],
            times: [left.time.unwrap_or(0), right.time.unwrap_or(0)],
            left: RowStore::new(&left.schema),
            left_groups: Vec::new(),
            waiting: BinaryHeap::new(),
            right: RowStore::new(&right.schema),
            keys: Vec::new(),
            groups: Groups::new(plan, code)?,
            doubling: Doubling::default(),
        })
    }

    /// Consumes rows of both sides in merged order.
    fn consume(&mut self, left: Batch, right: Batch, met: &mut Met, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let left_groups = self.groups.assign(0, &left.columns, left.rows(), work)?;
        let right_groups = self.groups.assign(1, &right.columns, right.rows(), work)?;
        self.keys.resize_with(self.groups.len(), VersionKey::default);
        let times = |batch: &Batch, time: usize| batch.columns.get(time).map(times_of).transpose();
        let (left_times, right_times) = (times(&left, self.times[0])?, times(&right, self.times[1])?);
        let (left_times, right_times) = (left_times.as_deref().unwrap_or(&[]), right_times.as_deref().unwrap_or(&[]));
        let (first_left, first_right) =
            (self.left.push(left.columns, left.ordinals.len())?, self.right.push(right.columns, right.ordinals.len())?);
        self.left_groups.extend(left_groups.iter().map(|&group| group as u32));
        let (mut lefts, mut rights) = (left.ordinals.iter().enumerate().peekable(), right.ordinals.iter().enumerate());
        let (mut late, mut current) = (0, i64::MIN);
        let mut next_right = rights.next();
        loop {
            let is_left = match (lefts.peek(), next_right) {
                (Some((_, left)), Some((_, right))) => *left < right,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let next = if is_left { lefts.peek().map(|(_, ordinal)| *ordinal) } else { next_right.map(|(_, o)| o) };
            if let Some(watermark) = next.map(|ordinal| ordinal.watermark).filter(|&watermark| watermark > current) {
                // What has come before was put out up to the last job's watermark, which is not above this one.
                current = watermark;
                self.put_out(current, met, work)?;
            }
            if let Some((row, &ordinal)) = lefts.next_if(|_| is_left) {
                self.keys[left_groups[row] as usize].forget(ordinal.watermark);
                late += u64::from(left_times[row] <= ordinal.watermark);
                self.waiting.push(Reverse((left_times[row], ordinal, first_left + row as u32)));
            } else if let Some((row, ordinal)) = std::mem::replace(&mut next_right, rights.next()) {
                // NULL equals nothing, so nothing is a version of it.
                if !self.groups.is_null(right_groups[row]) {
                    let key = &mut self.keys[right_groups[row] as usize];
                    key.forget(ordinal.watermark);
                    key.insert(right_times[row], first_right + row as u32);
                }
            }
        }
        work.stats.late_rows.fetch_add(late, Relaxed);
        Ok(())
    }

    /// Finds the versions of what waits and a watermark reaches.
    fn put_out(&mut self, watermark: i64, met: &mut Met, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        while let Some(&Reverse((time, ordinal, row))) = self.waiting.peek().filter(|Reverse((t, ..))| *t <= watermark)
        {
            self.waiting.pop();
            let version = self.keys[self.left_groups[row as usize] as usize].at(time);
            if version == NO_ROW && !self.is_outer {
                continue;
            }
            met.left.push(row);
            met.right.push(version);
            met.watermarks.push(ordinal.watermark.max(time.saturating_sub(1)));
            if met.left.len() == work.most_rows {
                self.flush(met, work)?;
            }
        }
        Ok(())
    }

    /// Outputs rows with their versions, if the residual is TRUE of them.
    fn flush(&self, met: &mut Met, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let Met { left, mut right, watermarks } = std::mem::take(met);
        let pairs: Vec<usize> = (0..left.len()).filter(|&i| right[i] != NO_ROW).collect();
        let of = |rows: &[u32]| pairs.iter().map(|&i| rows[i]).collect::<Vec<u32>>();
        if work.code.residual.is_some() && !pairs.is_empty() {
            let mut columns = self.left.gather(&of(&left))?;
            columns.extend(self.right.gather(&of(&right))?);
            let mut is_kept = vec![false; pairs.len()];
            residual_of(&columns, pairs.len(), work)?.iter().for_each(|&pair| is_kept[pair as usize] = true);
            pairs.iter().zip(is_kept).filter(|(_, kept)| !kept).for_each(|(&i, _)| right[i] = NO_ROW);
        }
        let kept: Vec<usize> = (0..left.len()).filter(|&i| self.is_outer || right[i] != NO_ROW).collect();
        let of = |rows: &[u32]| kept.iter().map(|&i| rows[i]).collect::<Vec<u32>>();
        let mut columns = self.left.gather(&of(&left))?;
        columns.extend(self.right.gather(&of(&right))?);
        work.emit_behind(columns, kept.iter().map(|&i| watermarks[i]).collect());
        Ok(())
    }

    /// Forgets rows that have been put out, superseded versions, and keys without either, when there are many.
    fn forget(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.left.len() + self.right.len(), work.is_tight) {
            return Ok(());
        }
        self.keys.iter_mut().for_each(|key| key.forget(watermark));
        let mut waiting = std::mem::take(&mut self.waiting).into_vec();
        waiting.sort_unstable_by_key(|Reverse((.., row))| *row);
        let rows: Vec<u32> = waiting.iter().map(|Reverse((.., row))| *row).collect();
        self.left.keep(&rows)?;
        self.left_groups = rows.iter().map(|&row| self.left_groups[row as usize]).collect();
        let renumbered = waiting.into_iter().zip(0..);
        self.waiting = renumbered.map(|(Reverse((time, ordinal, _)), row)| Reverse((time, ordinal, row))).collect();
        let mut versions: Vec<&mut u32> =
            self.keys.iter_mut().flat_map(|key| &mut key.versions).map(|(_, row)| row).collect();
        versions.sort_unstable();
        self.right.keep(&versions.iter().map(|row| **row).collect::<Vec<_>>())?;
        versions.into_iter().zip(0..).for_each(|(row, number)| *row = number);
        self.forget_keys(work)?;
        self.doubling.done(self.left.len() + self.right.len());
        Ok(())
    }

    fn forget_keys(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let mut lives: Vec<bool> = self.keys.iter().map(|key| !key.versions.is_empty()).collect();
        self.left_groups.iter().for_each(|&group| lives[group as usize] = true);
        let living: Vec<u64> = (0..lives.len() as u64).filter(|&group| lives[group as usize]).collect();
        if living.len() == lives.len() {
            return Ok(());
        }
        let mut numbers = vec![0; lives.len()];
        living.iter().zip(0..).for_each(|(&group, number)| numbers[group as usize] = number);
        self.left_groups.iter_mut().for_each(|group| *group = numbers[*group as usize]);
        self.keys = living.iter().map(|&group| std::mem::take(&mut self.keys[group as usize])).collect();
        self.groups.keep(&living, work)
    }
}

impl State for VersionedJoin {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let [left, right] = <[Batch; 2]>::try_from(inputs).map_err(|_| Diagnostic::bug("a join has two inputs"))?;
        let mut met = Met::default();
        self.consume(left, right, &mut met, work)?;
        self.put_out(watermark, &mut met, work)?;
        self.flush(&mut met, work)?;
        if watermark == i64::MAX { Ok(()) } else { self.forget(watermark, work) }
    }

    fn due(&self) -> i64 {
        self.waiting.peek().map_or(i64::MAX, |Reverse((time, ..))| *time)
    }

    fn bytes(&mut self) -> usize {
        self.groups.bytes()
            + self.left.bytes()
            + self.left_groups.capacity() * size_of::<u32>()
            + self.waiting.capacity() * size_of::<WaitingLeft>()
            + self.right.bytes()
            + self.right.len() * size_of::<(i64, u32)>()
            + self.keys.capacity() * size_of::<VersionKey>()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.save(out);
        let mut waiting: Vec<(u32, Ordinal)> = self.waiting.iter().map(|&Reverse((_, o, row))| (row, o)).collect();
        waiting.sort_unstable_by_key(|&(row, _)| row);
        let (rows, ordinals): (Vec<u32>, Vec<Ordinal>) = waiting.into_iter().unzip();
        Batch { columns: self.left.gather(&rows)?, ordinals }.save(out);
        out.u32s(&rows.iter().map(|&row| self.left_groups[row as usize]).collect::<Vec<_>>());
        let versions: Vec<u32> = self.keys.iter().flat_map(|key| &key.versions).map(|&(_, row)| row).collect();
        save_columns(&self.right.gather(&versions)?, versions.len(), out);
        for key in &self.keys {
            out.i64s(key.forgotten.as_slice());
            out.i64s(&key.versions.iter().map(|&(time, _)| time).collect::<Vec<_>>());
        }
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let groups = self.groups.len();
        let left = Batch::restore(&self.schemas[0], from)?;
        self.left_groups = from.u32s()?;
        check_count("groups of rows", self.left_groups.len(), left.rows())?;
        if self.left_groups.iter().any(|&group| group as usize >= groups) {
            return Err(Damaged("a row is in no group".into()).into());
        }
        let rows = left.rows();
        if rows > 0 {
            let times = times_of(&left.columns[self.times[0]])?;
            self.left.push(left.columns, rows)?;
            let places = times.iter().zip(left.ordinals).zip(0..);
            self.waiting = places.map(|((&time, ordinal), row)| Reverse((time, ordinal, row))).collect();
        }
        let types = self.schemas[1].fields.iter().map(|field| field.data_type.to_arrow());
        let (columns, versions) = restore_columns(types, from)?;
        self.right.push(columns, versions)?;
        let mut next = 0u32;
        for _ in 0..groups {
            let (forgotten, times) = (from.i64s()?, from.i64s()?);
            check_count("watermarks", forgotten.len(), forgotten.len().min(1))?;
            if !times.is_sorted_by(|a, b| a < b) {
                return Err(Damaged("versions are not in order".into()).into());
            }
            let versions = times.into_iter().zip(next..).collect::<Vec<_>>();
            next += versions.len() as u32;
            self.keys.push(VersionKey { versions, forgotten: forgotten.first().copied() });
        }
        check_count("versions", next as usize, versions)?;
        self.doubling.done(self.left.len() + self.right.len());
        Ok(())
    }
}
