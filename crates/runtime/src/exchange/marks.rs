//! Marks: how far the inputs of a station on a node have come, said to the owners, and what a node makes of those of others. No thread, no clock, no message:
//! whoever calls has the time and the lanes.
//!
//! A node all of whose inputs are idle would hold the watermark back. Owners cannot leave it out: it may have rows in tables that it has not
//! sent. So it *follows*: its watermark is the lowest of the nodes that are not idle, or the highest if all are, as for the inputs of one
//! node. When one of its inputs speaks again its rows come after that, so nobody has to be asked what was decided meanwhile.

use crate::ids::Generation;
use crate::station::progress::{Forward, Progress};
use millstream_sync::epoch_ring::{End, Release};
use std::time::{Duration, Instant};

/// How far all inputs of a station on a node have come; what they have brought before has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// What the inputs have released together.
    pub release: Release,
    /// Whether the node follows others.
    pub is_idle: bool,
}

/// The inputs of a station on its own node, and what has been said of them.
pub struct LocalInputs {
    /// How far they have come.
    pub progress: Progress,
    said: Said,
    /// The mark that waits.
    pub linger: Linger,
}

/// How long a mark may wait that only raises the watermark.
const LINGER: Duration = Duration::from_millis(5);

/// Marks that wait. Every buffer raises the watermark, and a message to every node for each of them costs more than the rows of the buffer.
#[derive(Default)]
pub struct Linger {
    /// The last one that was sent, and when.
    sent: Option<(Mark, Instant)>,
    /// One that came later.
    held: Option<Mark>,
}

impl Linger {
    /// Takes the next mark; it is given back when it is to be sent now. At once goes one that `matters`: because of what it makes possible,
    /// of a cut, or the end, or because inputs are idle or speak again.
    pub fn pass(&mut self, mark: Mark, matters: bool, now: Instant) -> Option<Mark> {
        let may_wait = |(last, at): &(Mark, Instant)| {
            let raised = Mark { release: Release { watermark: mark.release.watermark, ..last.release }, ..*last };
            raised == mark && now < *at + LINGER
        };
        if !matters && self.sent.as_ref().is_some_and(may_wait) {
            self.held = Some(mark);
            return None;
        }
        (self.sent, self.held) = (Some((mark, now)), None);
        Some(mark)
    }

    /// The mark that waits, which does not any more.
    pub fn take(&mut self, now: Instant) -> Option<Mark> {
        let mark = self.held.take()?;
        self.sent = Some((mark, now));
        Some(mark)
    }

    /// When the mark that waits is to be sent, if one does.
    pub fn due(&self) -> Option<Instant> {
        self.held.and(self.sent.as_ref()).map(|(_, at)| *at + LINGER)
    }

    /// The mark that has waited long enough.
    pub fn take_due(&mut self, now: Instant) -> Option<Mark> {
        let is_due = self.sent.as_ref().is_none_or(|(_, at)| now >= *at + LINGER);
        if is_due { self.take(now) } else { None }
    }
}

/// The last mark of the node.
#[derive(Clone, Copy)]
pub struct Said(Mark);

impl Said {
    /// Nothing has been said.
    pub fn new() -> Said {
        let release = Release { watermark: i64::MIN, generation: 0, cut: i64::MIN, ended: false };
        Said(Mark { release, is_idle: false })
    }

    /// The next mark, if there is something to say: of a step that the inputs have made together, or because they are idle, or no more.
    pub fn next(&mut self, step: Option<Forward>, is_idle: bool) -> Option<Mark> {
        let Said(before) = *self;
        let mark = &mut self.0;
        if let Some(Forward { watermark, cut, end }) = step {
            if let Some(generation) = cut {
                (mark.release.generation, mark.release.cut) = (generation.0, watermark);
            }
            (mark.release.watermark, mark.release.ended) = (watermark, end.is_some());
        }
        mark.is_idle = is_idle;
        (step.is_some() || before != *mark).then_some(*mark)
    }

    /// The last mark.
    pub fn end(&mut self, end: End) -> Mark {
        let Said(mark) = self;
        mark.is_idle = false;
        mark.release.ended = true;
        if end == End::Complete {
            mark.release.watermark = i64::MAX;
        }
        *mark
    }
}

impl LocalInputs {
    /// Of so many channels.
    pub fn new(channels: usize) -> LocalInputs {
        LocalInputs { progress: Progress::new(channels), said: Said::new(), linger: Linger::default() }
    }

    /// The next step that they have made together, if they have, and the next mark.
    pub fn step(&mut self) -> Option<(Option<Forward>, Mark)> {
        let forward = self.progress.advance();
        Some((forward, self.said.next(forward, self.progress.is_idle())?))
    }

    /// Sends the marks of all steps that they have made together, and the one that has waited long enough.
    ///
    /// # Errors
    /// That of `send`, behind which nothing is sent.
    pub fn pass_on<E>(&mut self, now: Instant, mut send: impl FnMut(Mark) -> Result<(), E>) -> Result<(), E> {
        while let Some((_, mark)) = self.step() {
            self.linger.pass(mark, false, now).map_or(Ok(()), &mut send)?;
        }
        self.linger.take_due(now).map_or(Ok(()), send)
    }
}

/// The last mark of each node, as one of them has heard it.
pub struct Heard {
    me: usize,
    marks: Vec<Option<Mark>>,
}

impl Heard {
    /// Nothing, on the node `me` of so many.
    pub fn new(me: usize, nodes: usize) -> Heard {
        Heard { me, marks: vec![None; nodes] }
    }

    /// A node has said how far it has come.
    pub fn hear(&mut self, from: usize, mark: Mark) {
        self.marks[from] = Some(mark);
    }

    /// The generation that a node has said it has come to.
    pub fn reached(&self, node: usize) -> Generation {
        Generation(self.marks[node].map_or(0, |mark| mark.release.generation))
    }

    /// Has idle inputs of this node follow the other nodes.
    pub fn follow(&self, inputs: &mut Progress) {
        if !inputs.is_idle() {
            return;
        }
        let open = self.marks.iter().enumerate().filter(|&(node, _)| node != self.me);
        // A node that has not said anything is one that speaks.
        let unheard = Mark { release: Said::new().0.release, is_idle: false };
        let open = open.map(|(_, mark)| mark.unwrap_or(unheard)).filter(|mark| !mark.release.ended);
        let open: Vec<Mark> = open.collect();
        let watermarks =
            |is_idle: bool| open.iter().filter(move |mark| mark.is_idle == is_idle).map(|m| m.release.watermark);
        if let Some(watermark) = watermarks(false).min().or_else(|| watermarks(true).max()) {
            inputs.follow(watermark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_only_raise_the_watermark_wait_for_a_while() {
        let mark = |watermark, generation, is_idle| {
            let release = Release { watermark, generation, cut: i64::MIN, ended: false };
            Mark { release, is_idle }
        };
        let (start, mut linger) = (Instant::now(), Linger::default());
        assert_eq!(linger.pass(mark(1, 0, false), false, start), Some(mark(1, 0, false)));
        assert_eq!((linger.pass(mark(2, 0, false), false, start), linger.due()), (None, Some(start + LINGER)));
        assert_eq!(linger.pass(mark(3, 0, false), false, start), None);
        assert_eq!(linger.take_due(start), None);
        let later = start + LINGER;
        assert_eq!((linger.take_due(later), linger.due()), (Some(mark(3, 0, false)), None));
        assert_eq!(linger.take_due(later + LINGER), None);
        // What matters goes at once, and nothing behind it comes before it.
        assert_eq!(linger.pass(mark(4, 0, false), false, later), None);
        assert_eq!(linger.pass(mark(5, 0, false), true, later), Some(mark(5, 0, false)));
        assert_eq!(linger.pass(mark(5, 1, false), false, later), Some(mark(5, 1, false)));
        assert_eq!(linger.pass(mark(5, 1, true), false, later), Some(mark(5, 1, true)));
        assert_eq!((linger.due(), linger.take_due(later + LINGER)), (None, None));
        assert_eq!(linger.pass(mark(6, 1, true), false, later + LINGER), Some(mark(6, 1, true)));
    }

    #[test]
    fn the_last_mark_is_the_end() {
        let mut said = Said::new();
        let forward = Forward { watermark: 5, cut: None, end: None };
        assert_eq!(said.next(Some(forward), true).map(|mark| mark.is_idle), Some(true));
        let stopped = said.end(End::Stopped);
        assert!(stopped.release.ended && !stopped.is_idle && stopped.release.watermark == 5);
        assert_eq!(said.end(End::Complete).release.watermark, i64::MAX);
    }
}
