//! The ends of beats of event time, as far as the query decides them: where all splits stand there.

use super::Query;
use crate::exchange::{AtBeatEnd, NodeMessage};
use crate::schedule::beats::BeatEnd;
use crate::source::split::Split;
use crate::stream::Stream;
use std::time::{Duration, Instant};

/// How long a query that is stopped with a checkpoint waits for the end of its beat of event time.
const BEAT_PATIENCE: Duration = Duration::from_secs(3);

impl Query {
    /// Whether the beat of event time is at its end is to be looked at.
    pub(crate) fn look_at_beat(&self) {
        if let Some(beats) = self.host.beats.as_ref().filter(|beats| beats.is_event_time()) {
            self.due_at(beats.end_at_once());
        }
    }

    /// Whether a checkpoint may be taken as far as beats are concerned: between two of event time, unless the query was asked to end a
    /// while ago, and the beat does not end.
    pub(crate) fn may_checkpoint(&self, is_last: bool, now: Instant) -> bool {
        let Some(beats) = self.host.beats.as_ref().filter(|beats| beats.is_event_time()) else {
            return true;
        };
        if is_last && now.duration_since(*self.life.last_asked.lock().get_or_insert(now)) > BEAT_PATIENCE {
            return true;
        }
        let can_others = || self.beat_ends.lock().of_others.iter().flatten().all(|at_end| at_end.can_resume);
        beats.has_begun() && self.lowest_at_beat_end().is_some() && self.can_resume_here() && can_others()
    }

    fn can_resume_here(&self) -> bool {
        self.splits().all(|(_, stream)| stream.can_resume())
    }

    /// All splits, with their streams.
    fn splits(&self) -> impl Iterator<Item = (&Split, &Stream)> {
        let splits = self.graph.sources.iter().flat_map(|source| &source.splits);
        splits.map(|split| (split, self.stream(split.stream)))
    }

    /// The lowest watermark of a split, if all that are not silent stand at the end of the beat of event time, and some have not ended; those
    /// of the other nodes, too.
    pub(crate) fn lowest_at_beat_end(&self) -> Option<i64> {
        let here = self.lowest_here()?;
        let others = self.beat_ends.lock();
        let others = others.of_others.iter().copied().collect::<Option<Vec<AtBeatEnd>>>()?;
        others.into_iter().map(|at_end| at_end.lowest).chain([here]).flatten().min()
    }

    /// Whether all splits of this node that are not silent stand at the end of the beat of event time: the lowest watermark of one that has
    /// not ended.
    fn lowest_here(&self) -> Option<Option<i64>> {
        let mut lowest = None;
        for (_, stream) in self.splits().filter(|(split, _)| !split.is_idle()) {
            match stream.beat_end() {
                BeatEnd::Awaited => return None,
                BeatEnd::Reached(watermark) => lowest = Some(lowest.map_or(watermark, |low: i64| low.min(watermark))),
                BeatEnd::None => {}
            }
        }
        Some(lowest)
    }

    /// Tells the first node if all splits stand at the end of the beat of event time.
    pub(crate) fn report_beat_end(&self) {
        if let (Some(nodes), Some(lowest)) = (&self.host.nodes, self.lowest_here()) {
            let taken = self.beat_ends.lock().taken;
            let at_end = AtBeatEnd { lowest, can_resume: self.can_resume_here() };
            nodes.send(0, NodeMessage::AtBeatEnd(taken, at_end));
        }
    }

    /// Has the splits go on up to the end of the beat of event time that a watermark falls into.
    pub(crate) fn take_beat(&self, lowest: i64) {
        let Some(beats) = &self.host.beats else { return };
        let end = beats.take(lowest);
        for (_, stream) in self.splits() {
            self.act(stream.take_beat(end));
        }
    }

    /// Has the splits go on up to the end of the beat of event time that their lowest watermark falls into, if all stand at that of the one
    /// before.
    pub(crate) fn take_next_beat(&self) {
        let Some(lowest) = self.lowest_at_beat_end() else { return };
        let mut ends = self.beat_ends.lock();
        ends.taken += 1;
        ends.of_others.fill(None);
        drop(ends);
        self.host.nodes.iter().for_each(|nodes| nodes.tell_others(|| NodeMessage::TakeBeat(lowest)));
        self.take_beat(lowest);
    }

    /// Has the supervisor end the beat under way when it is time, if nothing is left of the one before.
    pub(crate) fn next_beat(&self) {
        if let Some(beats) = &self.host.beats
            && !self.cuts.is_on_its_way()
        {
            beats.due().into_iter().for_each(|at| self.due_at(at));
        }
    }
}
