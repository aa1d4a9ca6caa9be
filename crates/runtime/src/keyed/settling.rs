//! When a keyed operator acts on its watermark: jobs for its partitions, and the watermark behind them.

use super::inbox::PartitionJob;
use super::{KeyedStation, Partition};
use crate::ids::Generation;
use crate::schedule::timers::after;
use crate::station::Consequences;
use crate::station::progress::Forward;
use crate::stream::sequencer::Unit;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl KeyedStation {
    /// Acts on what the inputs have released together: makes jobs, and passes the watermark on.
    pub(super) fn settle_into(&self, consequences: &mut Consequences) {
        while self.step(consequences) {}
    }

    /// Acts on the next step of the inputs, if there is one.
    fn step(&self, consequences: &mut Consequences) -> bool {
        let mut progress = self.progress.lock();
        if !self.joins_arrivals() {
            let is_only_watermark = progress.is_next_only_watermark();
            if let Err(at) = self.rounds.begin(Instant::now(), is_only_watermark) {
                consequences.due_at(at);
                return false;
            }
        }
        let forward = progress.advance();
        let reached = progress.reached_cut();
        let Some(forward) = forward else { return false };
        let Forward { watermark, cut, end } = forward;
        if let (Some(generation), None) = (reached, cut) {
            // All inputs have ended: nothing is kept, and no partition has anything to say.
            self.hand_over(generation, None);
            consequences.cuts += 1;
        }
        if self.joins_arrivals() {
            let passed = self.step_of_arrivals(forward, consequences);
            drop(progress);
            if let Some((partitions, generation)) = passed {
                let cut = self.cut_partitions(partitions, generation, consequences);
                consequences.note(cut);
            }
            return true;
        }
        let behind = |ms: i64| if watermark == i64::MAX { watermark } else { watermark.saturating_sub(ms) };
        let watermark = behind(self.lag_ms);
        let needs_job = |p: &Partition| p.inbox.lock().needs_job(watermark);
        let partitions: Vec<usize> = (0..self.partitions.len()).filter(|&p| needs_job(&self.partitions[p])).collect();
        let (marks, completed) = (self.complete(self.plan.timeline.reached(watermark)), Instant::now());
        self.stats.begun.fetch_add(partitions.len() as u64, Relaxed);
        for (first, &partition) in (progress.units..).zip(&partitions) {
            let (marks, step) = (Arc::clone(&marks), partitions.len() as u64);
            let job = PartitionJob::Advance { watermark, marks, first, step, completed };
            self.add_job(&mut self.inbox(partition), partition, job, consequences);
        }
        progress.units += (marks.len() * partitions.len()) as u64;
        if let Some(generation) = cut {
            self.hand_over(generation, Some(progress.watermark()));
            consequences.cuts += 1;
            self.add_to_all(PartitionJob::Cut(generation), consequences);
        }
        let last_unit = progress.units;
        progress.units += 1;
        drop(progress);
        let unit = Unit { watermark: Some(behind(self.held_back_ms)), cut, end, ..Unit::default() };
        consequences.deliver(self.output.id, last_unit, unit);
        true
    }

    /// The same where rows are consumed as they come, under the lock of the progress. The output has no order in time, so no watermark
    /// follows from its inputs before the end. Gives the partitions that a cut has passed at once.
    fn step_of_arrivals(&self, forward: Forward, consequences: &mut Consequences) -> Option<(usize, Generation)> {
        match forward {
            Forward { cut: Some(generation), .. } => {
                // The next cut must not come before this one has passed all partitions, so it is not counted here.
                self.hand_over(generation, Some(i64::MIN));
                Some((self.begin_cut(generation, consequences), generation))
            }
            Forward { end: Some(end), .. } => {
                self.open.lock().1 = end;
                let mut uncut = self.uncut.lock();
                uncut.then_last = uncut.left > 0;
                if uncut.then_last {
                    return None;
                }
                drop(uncut);
                self.end_partitions(consequences);
                None
            }
            _ => None,
        }
    }

    /// Has every partition consume what is left of its rows.
    pub(super) fn end_partitions(&self, consequences: &mut Consequences) {
        for partition in 0..self.partitions.len() {
            let mut inbox = self.inbox(partition);
            let let_in = self.let_in(&mut inbox);
            consequences.note(let_in);
            if self.behaviour.ends_beats && std::mem::take(&mut inbox.is_beat_open) {
                self.add_job(&mut inbox, partition, PartitionJob::Beat, consequences);
            }
            self.add_job(&mut inbox, partition, PartitionJob::Last, consequences);
        }
    }

    /// Has a cut pass the partitions that it concerns; how many others there are, and one more, which is the caller's: so the cut has
    /// not passed before all have been asked.
    fn begin_cut(&self, generation: Generation, consequences: &mut Consequences) -> usize {
        // Nothing is saved at the end of a beat that is no checkpoint, and most partitions of a short one have no rows.
        let saves = !self.behaviour.ends_beats || self.host.checkpoint_before(generation).is_some();
        let ends_beat = self.behaviour.ends_beats && self.host.ends_beat(generation);
        self.uncut.lock().left = self.partitions.len() + 1;
        let mut passed = 1;
        for partition in 0..self.partitions.len() {
            let mut inbox = self.inbox(partition);
            let is_beat_open = ends_beat && std::mem::take(&mut inbox.is_beat_open);
            if is_beat_open {
                self.add_job(&mut inbox, partition, PartitionJob::Beat, consequences);
            } else if self.host.ends_beat(generation) && self.joins_arrivals() && inbox.all.rows > 0 {
                // What comes of rows that wait until it pays to read the state is of this beat.
                self.add_job(&mut inbox, partition, PartitionJob::Arrived, consequences);
            }
            if is_beat_open || saves || inbox.is_busy {
                self.add_job(&mut inbox, partition, PartitionJob::Cut(generation), consequences);
            } else {
                passed += 1;
            }
        }
        passed
    }

    /// Has a regular join forget rows whose time to live is over, and says when the next ones are due. A job that is running may
    /// have looked at the clock before, so it gets another behind it; one that has not begun will look.
    pub(super) fn forget_expired(&self, now: Instant, consequences: &mut Consequences) {
        let now_ms = self.now_ms();
        for (partition, p) in self.partitions.iter().enumerate() {
            let mut inbox = p.inbox.lock();
            let wait_ms = u64::try_from(inbox.state_due.saturating_sub(now_ms)).unwrap_or(0);
            if inbox.state_due == i64::MAX || !inbox.jobs.is_empty() {
                continue;
            } else if wait_ms > 0 {
                consequences.due_at(after(now, wait_ms));
            } else {
                self.add_job(&mut inbox, partition, PartitionJob::Arrived, consequences);
            }
        }
    }

    /// Begins a round if rows have waited long enough for one, or says when to look again.
    pub(super) fn begin_round(&self, now: Instant, consequences: &mut Consequences) {
        if !self.rounds.is_deferred() {
            return;
        }
        if !self.joins_arrivals() {
            // Says itself when to ask again.
            return self.settle_into(consequences);
        }
        let at = self.rounds.defer(now);
        if at > now {
            return consequences.due_at(at);
        }
        self.rounds.begin_anyway();
        for partition in 0..self.partitions.len() {
            let mut inbox = self.inbox(partition);
            if inbox.all.rows > 0 && inbox.jobs.is_empty() {
                self.add_job(&mut inbox, partition, PartitionJob::Arrived, consequences);
            }
        }
    }
}
