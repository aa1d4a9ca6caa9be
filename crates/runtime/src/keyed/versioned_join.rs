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

use super::batch::{Batch, merged, times_of};
use super::encoding::{check_count, restore_columns, restore_optional, save_columns};
use super::groups::Groups;
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::pairs::residual_of;
use super::state::{State, Work};
use super::store::{Doubling, NO_ROW, RowStore};
use super::timed_rows::TimedRows;
use crate::executable_plan::OperatorCode;
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::KeyedOperator;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};

/// See the module.
pub(crate) struct VersionedJoin {
    /// Whether rows of the left without a version are put out.
    is_outer: bool,
    left: TimedRows,
    right: RowStore,
    /// Of the right.
    schema: Schema,
    /// Position of the event time of the right.
    time: usize,
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
            left: TimedRows::new(left),
            right: RowStore::new(&right.schema),
            schema: right.schema.clone(),
            time: right.time.unwrap_or(0),
            keys: Vec::new(),
            groups: Groups::new(plan, code)?,
            doubling: Doubling::default(),
        })
    }

    /// Consumes rows of both sides in merged order.
    fn consume(&mut self, left: Batch, right: Batch, met: &mut Met, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let left_groups = self.groups.assign(0, &left.columns, left.rows(), work)?;
        let right_groups = self.groups.assign(1, &right.columns, right.rows(), work)?;
        self.keys.resize_with(self.groups.table.len(), VersionKey::default);
        let times = |batch: &Batch, time: usize| batch.columns.get(time).map(times_of).transpose();
        let (left_times, right_times) = (times(&left, self.left.time)?, times(&right, self.time)?);
        let (left_times, right_times) = (left_times.as_deref().unwrap_or(&[]), right_times.as_deref().unwrap_or(&[]));
        let first_left = self.left.push(left.columns, &left_groups)?;
        let first_right = self.right.push(right.columns, right.ordinals.len())?;
        let (mut late, mut current) = (0, i64::MIN);
        for (port, row, _) in merged([&left.ordinals, &right.ordinals]) {
            let ordinal = if port == 0 { left.ordinals[row] } else { right.ordinals[row] };
            if ordinal.watermark > current {
                // What has come before was put out up to the last job's watermark, which is not above this one.
                current = ordinal.watermark;
                self.put_out(current, met, work)?;
            }
            if port == 0 {
                self.keys[left_groups[row] as usize].forget(ordinal.watermark);
                late += u64::from(left_times[row] <= ordinal.watermark);
                self.left.wait(left_times[row], ordinal, first_left + row as u32);
            } else if !self.groups.table.is_null(right_groups[row]) {
                // NULL equals nothing, so nothing is a version of it.
                let key = &mut self.keys[right_groups[row] as usize];
                key.forget(ordinal.watermark);
                key.insert(right_times[row], first_right + row as u32);
            }
        }
        work.stats.note_late(late, || "a temporal join".into());
        Ok(())
    }

    /// Finds the versions of what waits and a watermark reaches.
    fn put_out(&mut self, watermark: i64, met: &mut Met, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        while let Some((time, ordinal, row)) = self.left.next(watermark) {
            let version = self.keys[self.left.group(row)].at(time);
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
            let mut columns = self.left.rows.gather(&of(&left))?;
            columns.extend(self.right.gather(&of(&right))?);
            let mut is_kept = vec![false; pairs.len()];
            residual_of(&columns, pairs.len(), work)?.iter().for_each(|&pair| is_kept[pair as usize] = true);
            pairs.iter().zip(is_kept).filter(|(_, kept)| !kept).for_each(|(&i, _)| right[i] = NO_ROW);
        }
        let kept: Vec<usize> = (0..left.len()).filter(|&i| self.is_outer || right[i] != NO_ROW).collect();
        let of = |rows: &[u32]| kept.iter().map(|&i| rows[i]).collect::<Vec<u32>>();
        let mut columns = self.left.rows.gather(&of(&left))?;
        columns.extend(self.right.gather(&of(&right))?);
        work.emit_behind(columns, kept.iter().map(|&i| watermarks[i]).collect());
        Ok(())
    }

    /// Forgets rows that have been put out, superseded versions, and keys without either, when there are many.
    fn forget(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.left.rows.len() + self.right.len(), work.is_tight) {
            return Ok(());
        }
        self.keys.iter_mut().for_each(|key| key.forget(watermark));
        self.left.forget()?;
        let mut versions: Vec<&mut u32> =
            self.keys.iter_mut().flat_map(|key| &mut key.versions).map(|(_, row)| row).collect();
        versions.sort_unstable();
        self.right.keep(&versions.iter().map(|row| **row).collect::<Vec<_>>())?;
        versions.into_iter().zip(0..).for_each(|(row, number)| *row = number);
        self.forget_keys(work)?;
        self.doubling.done(self.left.rows.len() + self.right.len());
        Ok(())
    }

    fn forget_keys(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let mut lives: Vec<bool> = self.keys.iter().map(|key| !key.versions.is_empty()).collect();
        self.left.groups.iter().for_each(|&group| lives[group as usize] = true);
        let living: Vec<u64> = (0..lives.len() as u64).filter(|&group| lives[group as usize]).collect();
        if living.len() == lives.len() {
            return Ok(());
        }
        let mut numbers = vec![0; lives.len()];
        living.iter().zip(0..).for_each(|(&group, number)| numbers[group as usize] = number);
        self.left.groups.iter_mut().for_each(|group| *group = numbers[*group as usize]);
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
        self.left.due()
    }

    fn bytes(&mut self) -> usize {
        self.groups.table.bytes()
            + self.left.bytes()
            + self.right.bytes()
            + self.right.len() * size_of::<(i64, u32)>()
            + self.keys.capacity() * size_of::<VersionKey>()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        self.left.save(out)?;
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
        let groups = self.groups.table.len();
        self.left.restore(groups, from)?;
        let types = self.schema.fields.iter().map(|field| field.data_type.to_arrow());
        let (columns, versions) = restore_columns(types, from)?;
        self.right.push(columns, versions)?;
        let mut next = 0u32;
        for _ in 0..groups {
            let (forgotten, times) = (restore_optional("watermarks", from)?, from.i64s()?);
            if !times.is_sorted_by(|a, b| a < b) {
                return Err(Damaged("versions are not in order".into()).into());
            }
            let versions = times.into_iter().zip(next..).collect::<Vec<_>>();
            next += versions.len() as u32;
            self.keys.push(VersionKey { versions, forgotten });
        }
        check_count("versions", next as usize, versions)?;
        self.doubling.done(self.left.rows.len() + self.right.len());
        Ok(())
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let (other, first) = (of_same_operator::<VersionedJoin>(other)?, self.groups.table.len());
        let taken = self.groups.absorb(&other.groups, share)?;
        let numbers = NewNumbers::of_groups(&taken, other.groups.table.len(), first);
        self.left.absorb(&other.left, &numbers)?;
        let first_key = self.keys.len();
        self.keys.extend(taken.iter().map(|&group| std::mem::take(&mut other.keys[group as usize])));
        let versions = || self.keys[first_key..].iter().flat_map(|key| &key.versions);
        let rows: Vec<u32> = versions().map(|&(_, row)| row).collect();
        let first_row = self.right.absorb(&other.right, &rows)?;
        let versions = self.keys[first_key..].iter_mut().flat_map(|key| &mut key.versions);
        versions.zip(first_row..).for_each(|((_, row), number)| *row = number);
        self.doubling.done(self.left.rows.len() + self.right.len());
        Ok(())
    }
}
