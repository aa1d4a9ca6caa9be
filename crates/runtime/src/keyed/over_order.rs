//! Which rows an OVER with event time processes, and in what order: as Flink's timers fire.
//!
//! Rows are consumed in merged order. When the watermark before them advances everything is processed that it reaches: in order of
//! time, then in merged order. With a bounded frame a row is late when its time is not after the time that was *triggered* last
//! for its key, whatever the watermark is; one that is not late but behind the watermark is processed when that advances. (Of
//! frames without a bound the exchange has dropped what is behind the watermark.)
//!
//! A frame of `RANGE` with a bound ends for a key, with what was triggered, when nothing can be in it any more: at least the
//! frame's length after the key's last row. Flink moves that end half a length ahead, so as not to move it with every row,
//! and a timer of an end that has been moved still triggers. That decides about late rows, so it is the same here; it also
//! says when a key can be forgotten.

use super::batch::{Batch, times_of};
use super::encoding::{check_count, restore_optional};
use super::key_share::NewNumbers;
use super::state::Work;
use super::store::Doubling;
use super::timed_rows::TimedRows;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::KeyedInput;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::Diagnostic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// In place of the group of a row that has been processed, if its key has been forgotten.
const NONE: u32 = u32::MAX;

/// Rows that are processed now, in order.
#[derive(Default)]
pub(super) struct ReadyRows {
    pub(super) batch: Batch,
    /// Empty without event time.
    pub(super) times: Vec<i64>,
    pub(super) groups: Vec<u64>,
    /// Groups whose frame ends, and before which of the rows.
    pub(super) ended: Vec<(usize, u32)>,
}

/// Rows that the watermark has not reached.
pub(super) struct WaitingRanks {
    pub(super) rows: TimedRows,
    /// With a bounded frame.
    triggers: Option<Triggers>,
    doubling: Doubling,
}

/// What has been triggered for each key.
#[derive(Default)]
struct Triggers {
    /// Of RANGE: the length of the frame.
    range_ms: Option<i64>,
    /// By group.
    keys: Vec<Triggered>,
    /// Ends of frames, also those that have been moved, with their group.
    ends: BinaryHeap<Reverse<(i64, u32)>>,
}

#[derive(Clone, Copy, Default)]
struct Triggered {
    /// The time that was triggered last.
    last: Option<i64>,
    /// When the frame ends, if nothing comes.
    end: Option<i64>,
}

impl Triggers {
    /// Whether a row of a group comes in time; its frame lasts as long as it needs it then.
    fn admit(&mut self, group: u32, time: i64) -> bool {
        let key = &mut self.keys[group as usize];
        if key.last.is_some_and(|last| time <= last) {
            return false;
        }
        if let Some(ms) = self.range_ms
            && key.end.is_none_or(|end| end < time.saturating_add(ms).saturating_add(1))
        {
            let end = time.saturating_add(ms).saturating_add(ms / 2).saturating_add(1);
            key.end = Some(end);
            self.ends.push(Reverse((end, group)));
        }
        true
    }

    /// The first end of a frame that comes before a time; the group, if it has not been moved.
    fn end_before(&mut self, time: i64) -> Option<Option<u32>> {
        let &Reverse((end, group)) = self.ends.peek().filter(|Reverse((end, _))| *end < time)?;
        self.ends.pop();
        let key = &mut self.keys[group as usize];
        if key.end.is_some_and(|moved| moved > end) {
            key.last = Some(end);
            return Some(None);
        }
        *key = Triggered::default();
        Some(Some(group))
    }

    fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<Triggered>() + self.ends.capacity() * size_of::<Reverse<(i64, u32)>>()
    }

    fn save(&self, out: &mut ByteWriter) {
        out.length(self.keys.len());
        for key in &self.keys {
            out.i64s(key.last.as_slice());
            out.i64s(key.end.as_slice());
        }
        let (ends, groups): (Vec<i64>, Vec<u32>) = self.ends.iter().map(|Reverse(end)| *end).unzip();
        out.i64s(&ends);
        out.u32s(&groups);
    }

    /// Adds some groups of others, which have new numbers in this order.
    fn absorb(&mut self, other: &Triggers, taken: &[u64], numbers: &NewNumbers) {
        self.keys.extend(taken.iter().map(|&group| other.keys[group as usize]));
        let end = |&Reverse((end, group)): &Reverse<(i64, u32)>| Some(Reverse((end, numbers.of(group as usize)?)));
        self.ends.extend(other.ends.iter().filter_map(end));
    }

    /// Restores what [`Triggers::save`] has written of `groups` groups.
    fn restore(&mut self, groups: usize, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        let count = from.count(2)?;
        check_count("keys", count, groups)?;
        for _ in 0..count {
            self.keys.push(Triggered { last: restore_optional("times", from)?, end: restore_optional("times", from)? });
        }
        let (ends, of) = (from.i64s()?, from.u32s()?);
        check_count("groups of ends", of.len(), ends.len())?;
        if let Some(group) = of.iter().find(|&&group| group as usize >= groups) {
            return Err(Damaged(format!("there is no group {group}")));
        }
        self.ends = ends.into_iter().zip(of).map(Reverse).collect();
        Ok(())
    }
}

impl WaitingRanks {
    /// No rows; `None` without event time.
    pub(super) fn new(input: &KeyedInput, frame: Frame) -> Option<WaitingRanks> {
        let triggers = match frame {
            Frame::Rows(None) | Frame::Range(None) => None,
            Frame::Rows(Some(_)) => Some(Triggers::default()),
            Frame::Range(range_ms) => Some(Triggers { range_ms, ..Triggers::default() }),
        };
        let rows = || TimedRows::new(input);
        input.time.map(|_| WaitingRanks { rows: rows(), triggers, doubling: Doubling::default() })
    }

    /// Takes rows of these groups in, of which there are `count` in all, and gives what is processed before the last of them and at
    /// `watermark`. Late rows are counted.
    pub(super) fn exchange(
        &mut self,
        batch: Batch,
        (groups, count): (&[u64], usize),
        watermark: i64,
        work: &mut Work<'_>,
    ) -> Result<ReadyRows, Diagnostic> {
        let (rows, mut ready, mut numbers, mut late) = (batch.rows(), ReadyRows::default(), Vec::new(), 0);
        if let Some(triggers) = &mut self.triggers {
            triggers.keys.resize(count, Triggered::default());
        }
        if rows > 0 {
            let times = times_of(&batch.columns[self.rows.time])?;
            let first = self.rows.push(batch.columns, groups)?;
            // What has come before was processed up to the last job's watermark, which is not above that before the first row.
            let mut current = i64::MIN;
            for (i, ordinal) in batch.ordinals.into_iter().enumerate() {
                if ordinal.watermark > current {
                    current = ordinal.watermark;
                    self.trigger(current, &mut ready, &mut numbers);
                }
                match self.triggers.as_mut().is_none_or(|triggers| triggers.admit(groups[i] as u32, times[i])) {
                    true => self.rows.wait(times[i], ordinal, first + i as u32),
                    false => late += 1,
                }
            }
            work.stats.note_late(late, || "an OVER window".into());
        }
        self.trigger(watermark, &mut ready, &mut numbers);
        ready.groups = numbers.iter().map(|&row| self.rows.groups[row as usize].into()).collect();
        ready.batch.columns = self.rows.rows.gather(&numbers)?;
        // Rows that have been processed, and late ones.
        if self.rows.is_empty() || self.doubling.is_due(self.rows.rows.len(), work.is_tight) {
            self.rows.forget()?;
            self.doubling.done(self.rows.rows.len());
        }
        Ok(ready)
    }

    /// Processes what a watermark reaches; the numbers of the rows go to `numbers`.
    fn trigger(&mut self, watermark: i64, ready: &mut ReadyRows, numbers: &mut Vec<u32>) {
        loop {
            // A row and an end of the same time: the end is one that has been moved, because of the row.
            let until = self.rows.due().min(watermark.saturating_add(1));
            if let Some(end) = self.triggers.as_mut().and_then(|triggers| triggers.end_before(until)) {
                ready.ended.extend(end.map(|group| (numbers.len(), group)));
                continue;
            }
            let Some((time, ordinal, row)) = self.rows.next(watermark) else { return };
            if let Some(triggers) = &mut self.triggers {
                triggers.keys[self.rows.group(row)].last = Some(time);
            }
            numbers.push(row);
            ready.times.push(time);
            ready.batch.ordinals.push(ordinal);
        }
    }

    /// The groups that something is known of, in ascending order; with RANGE and a bound.
    pub(super) fn living(&self) -> Option<Vec<u64>> {
        let triggers = self.triggers.as_ref().filter(|triggers| triggers.range_ms.is_some())?;
        let mut lives: Vec<bool> = triggers.keys.iter().map(|key| key.end.is_some()).collect();
        self.rows.waiting_groups().for_each(|group| lives[group] = true);
        triggers.ends.iter().for_each(|Reverse((_, group))| lives[*group as usize] = true);
        Some((0..lives.len() as u64).filter(|&group| lives[group as usize]).collect())
    }

    /// The *i*-th of these groups, which are all that live, is group *i* from now on.
    pub(super) fn renumber(&mut self, living: &[u64]) {
        let Some(triggers) = &mut self.triggers else { return };
        let mut numbers = vec![NONE; triggers.keys.len()];
        living.iter().enumerate().for_each(|(i, &group)| numbers[group as usize] = i as u32);
        triggers.keys = living.iter().map(|&group| triggers.keys[group as usize]).collect();
        let ends = std::mem::take(&mut triggers.ends).into_vec();
        triggers.ends = ends.into_iter().map(|Reverse((end, g))| Reverse((end, numbers[g as usize]))).collect();
        let number = |group: &mut u32| *group = numbers.get(*group as usize).copied().unwrap_or(NONE);
        self.rows.groups.iter_mut().for_each(number);
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes() + self.triggers.as_ref().map_or(0, Triggers::bytes)
    }

    /// Writes the rows that wait, in the order of their numbers, and what has been triggered.
    pub(super) fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.rows.save(out)?;
        self.triggers.iter().for_each(|triggers| triggers.save(out));
        Ok(())
    }

    /// Adds what waits of some groups of others, which have new numbers in this order.
    pub(super) fn absorb(
        &mut self,
        other: &WaitingRanks,
        taken: &[u64],
        numbers: &NewNumbers,
    ) -> Result<(), Diagnostic> {
        self.rows.absorb(&other.rows, numbers)?;
        if let (Some(triggers), Some(others)) = (&mut self.triggers, &other.triggers) {
            triggers.absorb(others, taken, numbers);
        }
        self.doubling.done(self.rows.rows.len());
        Ok(())
    }

    /// Restores what [`WaitingRanks::save`] has written, of `groups` groups; there is nothing so far.
    pub(super) fn restore(&mut self, groups: usize, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        self.rows.restore(groups, from)?;
        if let Some(triggers) = &mut self.triggers {
            triggers.restore(groups, from)?;
        }
        self.doubling.done(self.rows.rows.len());
        Ok(())
    }
}

impl ReadyRows {
    /// The watermarks that the rows are put out behind, as for [`Work::emit_behind`].
    pub(super) fn watermarks(&self) -> Vec<i64> {
        let behind = |(i, ordinal): (usize, &Ordinal)| {
            self.times.get(i).map_or(ordinal.watermark, |time| ordinal.watermark.max(time.saturating_sub(1)))
        };
        self.batch.ordinals.iter().enumerate().map(behind).collect()
    }
}
