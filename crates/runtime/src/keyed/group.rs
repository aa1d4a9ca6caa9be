//! Groups of all rows so far: GROUP BY without a window over endless input.
//!
//! Within a beat rows update the aggregates of their groups, in any order. What was shown of a group is taken before its first update
//! in the beat. At the end of the beat groups of which other values are shown now are put out: as they were, and as they are.

use super::ages::Ages;
use super::batch::Batch;
use super::comparable::Comparable;
use super::encoding::{check_ascending, check_count, restore_columns, restore_flags, save_columns, save_flags};
use super::groups::{Groups, pays_to_forget};
use super::key_share::{KeyShare, of_same_operator};
use super::slots::SlotTable;
use super::state::{State, Work};
use super::versions::{Versioned, Versions};
use super::weights::{ADDED, TAKEN_BACK, of_column, weights};
use crate::columns::{bytes_of, joined, selected};
use crate::executable_plan::OperatorCode;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType as Arrow;
use millstream_plan::pipeline::{Group, GroupChanges, KeyedOperator};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{DataType, Diagnostic};

/// No slot: the group has no rows.
const NO_SLOT: i64 = -1;

/// See the module.
pub(crate) struct GroupAggregate {
    groups: Groups,
    table: SlotTable,
    all: Vec<OfGroup>,
    /// Groups that rows of this beat have come for.
    touched: Vec<u64>,
    /// Those of them that were shown, and what was shown of them, in pieces.
    shown: Vec<u64>,
    before: Vec<Vec<ArrayRef>>,
    changes: Option<GroupChanges>,
    /// Of the columns that are shown.
    types: Vec<Arrow>,
    /// Whether there are no keys: then there is one group, also without rows.
    is_global: bool,
    /// Groups without rows.
    empty: usize,
    /// Where groups are forgotten that no row has come for in a while.
    ages: Ages,
    versions: Versions,
}

/// What is known of a group.
#[derive(Clone, Copy)]
struct OfGroup {
    slot: i64,
    /// Whether it was there at the end of the last beat.
    is_shown: bool,
    is_touched: bool,
}

impl OfGroup {
    const NONE: OfGroup = OfGroup { slot: NO_SLOT, is_shown: false, is_touched: false };
}

impl GroupAggregate {
    /// Without rows.
    pub(super) fn new(plan: &KeyedOperator, group: &Group, code: &OperatorCode) -> Result<GroupAggregate, Diagnostic> {
        Ok(GroupAggregate {
            groups: Groups::new(plan, code)?,
            table: SlotTable::new(&group.aggregates, code)?,
            all: Vec::new(),
            touched: Vec::new(),
            shown: Vec::new(),
            before: Vec::new(),
            changes: group.changes,
            types: group.aggregates.outputs.iter().map(|output| output.data_type.to_arrow()).collect(),
            is_global: plan.keys.is_empty(),
            empty: 0,
            ages: Ages::new(group.ttl_ms),
            versions: Versions::default(),
        })
    }

    /// The group of each row.
    fn assign(&mut self, batch: &Batch, work: &mut Work<'_>) -> Result<Vec<u64>, Diagnostic> {
        let groups = self.groups.assign_or_one(&batch.columns, batch.rows(), work)?;
        let known = self.all.len();
        self.all.resize(self.groups.len_or_one(), OfGroup::NONE);
        self.empty += self.all.len() - known;
        Ok(groups)
    }

    /// Notes that groups are going to change: before that, what is shown of them is taken.
    fn touch(&mut self, groups: &[u64], now_ms: i64) {
        let mut shown = Vec::new();
        for &group in groups {
            let of = &mut self.all[group as usize];
            if std::mem::replace(&mut of.is_touched, true) {
                continue;
            }
            self.touched.push(group);
            self.ages.touch(group as usize, now_ms);
            self.versions.touch(group as usize);
            if of.slot == NO_SLOT {
                of.slot = self.table.slots.allocate();
                self.empty -= 1;
            }
            if of.is_shown {
                shown.push(group);
            }
        }
        if !shown.is_empty() {
            let slots: Vec<i64> = shown.iter().map(|&group| self.all[group as usize].slot).collect();
            self.before.push(self.table.columns(&slots));
            self.shown.append(&mut shown);
        }
    }

    /// How many rows of each of some groups have not been taken back; `None` where a group stays once it is there.
    fn rows_of(&self, slots: &[i64]) -> Result<Option<Vec<i64>>, Diagnostic> {
        let Some(changes) = self.changes.filter(|_| !self.is_global) else { return Ok(None) };
        let rows = self.table.component(slots, changes.rows, DataType::BigInt);
        let rows = rows.as_primitive_opt::<Int64Type>();
        let rows = rows.ok_or_else(|| Diagnostic::bug("the rows of groups are no BIGINT"))?;
        Ok(Some(rows.values().to_vec()))
    }

    /// Puts groups out with a weight.
    fn put_out(
        &self,
        groups: &[u64],
        values: &[ArrayRef],
        places: Vec<u32>,
        weight: i8,
        work: &mut Work<'_>,
    ) -> Result<(), Diagnostic> {
        let rows = groups.len();
        if rows == 0 {
            return Ok(());
        }
        let mut columns = if self.is_global { Vec::new() } else { self.groups.columns(groups) };
        let places = UInt32Array::from(places);
        for column in values {
            columns.push(selected(column, &places)?);
        }
        columns.push(weights(weight, rows));
        work.emit(columns, rows);
        Ok(())
    }

    /// Has groups begin again whose time to live is over: nobody is told that they are gone.
    fn expire(&mut self, now_ms: i64) {
        for group in self.ages.expired(now_ms) {
            let of = &mut self.all[group as usize];
            if of.slot != NO_SLOT && !of.is_touched {
                self.table.slots.remove(of.slot);
                *of = OfGroup::NONE;
                self.empty += 1;
                self.versions.touch(group as usize);
            }
        }
    }

    /// Forgets groups that have had no rows for long, when there are many.
    fn forget(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if self.is_global || !pays_to_forget(self.empty, self.all.len()) {
            return Ok(());
        }
        let kept: Vec<u64> = (0..self.all.len() as u64).filter(|&g| self.all[g as usize].slot != NO_SLOT).collect();
        self.groups.keep(&kept, work)?;
        self.versions.forget();
        self.ages.keep(kept.iter().map(|&group| group as usize));
        self.all = kept.iter().map(|&group| self.all[group as usize]).collect();
        self.empty = 0;
        Ok(())
    }
}

impl State for GroupAggregate {
    fn advance(&mut self, inputs: Vec<Batch>, _: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.expire(work.now_ms);
        for batch in inputs.into_iter().filter(|batch| batch.rows() > 0) {
            let groups = self.assign(&batch, work)?;
            self.touch(&groups, work.now_ms);
            let slots = groups.iter().map(|&group| self.all[group as usize].slot).collect();
            let weights = match self.changes {
                Some(changes) => of_column(&batch.columns[changes.weight])?.to_vec(),
                None => Vec::new(),
            };
            self.table.update(&batch.columns, slots, (&batch.ordinals, &weights), work)?;
        }
        Ok(())
    }

    fn end_beat(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if self.is_global && work.is_home && self.all.is_empty() {
            self.all.push(OfGroup::NONE);
            self.empty += 1;
            self.touch(&[0], work.now_ms);
        }
        if self.touched.is_empty() {
            return Ok(());
        }
        let slots: Vec<i64> = self.touched.iter().map(|&group| self.all[group as usize].slot).collect();
        let after = self.table.columns(&slots);
        let before: Vec<ArrayRef> = (0..if self.shown.is_empty() { 0 } else { after.len() })
            .map(|column| joined(&self.before.iter().map(|piece| &piece[column]).collect::<Vec<_>>()))
            .collect::<Result<_, _>>()?;
        let rows_left = self.rows_of(&slots)?;
        let is_there = |place: usize| rows_left.as_ref().is_none_or(|rows| rows[place] > 0);
        let (mut gone, mut come) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        let rows = match before.is_empty() {
            true => None,
            false => Some(Comparable::of([&before, &after])?),
        };
        let mut next_shown = 0;
        for (place, &group) in self.touched.iter().enumerate() {
            let (was_shown, is_there) = (self.all[group as usize].is_shown, is_there(place));
            let place_before = next_shown;
            next_shown += usize::from(was_shown);
            let is_same =
                rows.as_ref().is_none_or(|[before, after]| !was_shown || before.row(place_before) == after.row(place));
            if was_shown && is_there && is_same {
                continue;
            }
            if was_shown {
                gone.0.push(group);
                gone.1.push(place_before as u32);
            }
            if is_there {
                come.0.push(group);
                come.1.push(place as u32);
            }
        }
        self.put_out(&gone.0, &before, gone.1, TAKEN_BACK, work)?;
        self.put_out(&come.0, &after, come.1, ADDED, work)?;
        for (place, group) in std::mem::take(&mut self.touched).into_iter().enumerate() {
            let of = &mut self.all[group as usize];
            (of.is_touched, of.is_shown) = (false, is_there(place));
            // One from which more was taken back than came waits for the rest.
            if rows_left.as_ref().is_some_and(|rows| rows[place] == 0) {
                self.table.slots.remove(of.slot);
                of.slot = NO_SLOT;
                self.empty += 1;
            }
        }
        self.shown.clear();
        self.before.clear();
        self.forget(work)
    }

    fn due(&self) -> i64 {
        self.ages.due()
    }

    fn bytes(&mut self) -> usize {
        let before: usize = self.before.iter().map(|columns| bytes_of(columns)).sum();
        let numbers = (self.touched.capacity() + self.shown.capacity()) * size_of::<u64>();
        self.groups.table.bytes()
            + self.table.bytes()
            + self.all.capacity() * size_of::<OfGroup>()
            + before
            + numbers
            + self.ages.bytes()
            + self.versions.bytes()
    }

    fn versioned(&mut self) -> Option<&mut dyn Versioned> {
        Some(self)
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        self.table.slots.save(out);
        out.i64s(&self.all.iter().map(|of| of.slot).collect::<Vec<_>>());
        save_flags(&self.all.iter().map(|of| of.is_shown).collect::<Vec<_>>(), out);
        // Of a beat that has not ended, where memory is short; checkpoints come between beats.
        out.i64s(&self.touched.iter().map(|&group| group as i64).collect::<Vec<_>>());
        out.length(self.before.len());
        for columns in &self.before {
            save_columns(columns, columns.first().map_or(0, |column| column.len()), out);
        }
        self.ages.save(self.all.len(), out);
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        self.table.restore(from)?;
        let (slots, shown) = (from.i64s()?, restore_flags(from)?);
        let groups = if self.is_global { slots.len().min(1) } else { self.groups.table.len() };
        check_count("slots of groups", slots.len(), groups)?;
        check_count("marks of groups", shown.len(), groups)?;
        self.table.check_owned(slots.iter().copied().filter(|&slot| slot != NO_SLOT))?;
        let is_right = slots.iter().zip(&shown).all(|(&slot, &is_shown)| slot != NO_SLOT || !is_shown);
        Damaged::unless(is_right, "a group is shown that has no rows")?;
        self.empty = slots.iter().filter(|&&slot| slot == NO_SLOT).count();
        let of = |(slot, is_shown)| OfGroup { slot, is_shown, is_touched: false };
        self.all = slots.into_iter().zip(shown).map(of).collect();
        for group in from.i64s()? {
            let of = usize::try_from(group).ok().and_then(|group| self.all.get_mut(group));
            let of = of.filter(|of| of.slot != NO_SLOT && !of.is_touched);
            let of = of.ok_or_else(|| Damaged(format!("group {group} cannot have changed")))?;
            of.is_touched = true;
            self.touched.push(group as u64);
            if of.is_shown {
                self.shown.push(group as u64);
            }
        }
        let mut rows = 0;
        for _ in 0..from.count(1)? {
            let (columns, count) = restore_columns(self.types.iter().cloned(), from)?;
            rows += count;
            self.before.push(columns);
        }
        // Without outputs a group that is shown has nothing to compare.
        check_count("groups as they were", rows, if self.types.is_empty() { rows } else { self.shown.len() })?;
        self.ages.restore(self.all.len(), from, now_ms)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let other = of_same_operator::<GroupAggregate>(other)?;
        let taken = self.groups.absorb_or_one(&other.groups, other.all.len(), share)?;
        let all = || taken.iter().map(|&group| other.all[group as usize]);
        let slots: Vec<i64> = all().map(|of| of.slot).filter(|&slot| slot != NO_SLOT).collect();
        let slots = self.table.absorb(&other.table, &slots)?;
        self.ages.absorb(self.all.len(), &other.ages, taken.iter().map(|&group| group as usize));
        let moved = |of: OfGroup| OfGroup { slot: slots.get(&of.slot).copied().unwrap_or(NO_SLOT), ..of };
        self.all.extend(all().map(moved));
        self.empty += all().filter(|of| of.slot == NO_SLOT).count();
        Ok(())
    }
}

impl Versioned for GroupAggregate {
    fn versions(&mut self) -> Vec<(&mut Versions, usize)> {
        vec![(&mut self.versions, self.all.len())]
    }

    fn is_between_beats(&self) -> bool {
        self.touched.is_empty()
    }

    fn save_since(&self, version: u32, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let first = self.versions.first_behind(version);
        self.groups.table.save_from(if self.is_global { 0 } else { first }, out);
        let groups = self.versions.written_behind(version, self.all.len());
        let of = |&group: &u32| self.all[group as usize];
        out.u32s(&groups);
        save_flags(&groups.iter().map(|group| of(group).is_shown).collect::<Vec<_>>(), out);
        save_flags(&groups.iter().map(|group| of(group).slot != NO_SLOT).collect::<Vec<_>>(), out);
        let slots = groups.iter().map(|group| of(group).slot).filter(|&slot| slot != NO_SLOT);
        self.table.slots.save_some(&slots.collect::<Vec<_>>(), out);
        self.ages.save_some(&groups, out);
        Ok(())
    }

    fn apply(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        let groups = from.u32s()?;
        let known = if self.is_global { self.all.len().max(groups.len().min(1)) } else { self.groups.table.len() };
        self.empty += known - self.all.len();
        self.all.resize(known, OfGroup::NONE);
        check_ascending(&groups, known)?;
        let (shown, has_slot) = (restore_flags(from)?, restore_flags(from)?);
        check_count("marks of groups", shown.len(), groups.len())?;
        check_count("marks of groups", has_slot.len(), groups.len())?;
        let is_right = shown.iter().zip(&has_slot).all(|(is_shown, has_slot)| *has_slot || !is_shown);
        Damaged::unless(is_right, "a group is shown that has no rows")?;
        for &group in &groups {
            let of = std::mem::replace(&mut self.all[group as usize], OfGroup::NONE);
            if of.slot != NO_SLOT {
                self.table.slots.remove(of.slot);
                self.empty += 1;
            }
            self.versions.touch(group as usize);
        }
        let slots = self.table.put(from)?;
        check_count("slots of groups", slots.len(), has_slot.iter().filter(|has_slot| **has_slot).count())?;
        let with_slot = groups.iter().zip(shown).zip(has_slot).filter(|(_, has_slot)| *has_slot);
        for ((&group, is_shown), slot) in with_slot.map(|(group, _)| group).zip(slots) {
            self.all[group as usize] = OfGroup { slot, is_shown, is_touched: false };
            self.empty -= 1;
        }
        self.ages.restore_some(&groups, from, now_ms)
    }
}
