//! What a station has to do with itself on other nodes: marks, and who follows whom.
//!
//! A node all of whose inputs are idle would hold the watermark back. Owners cannot leave it out: it may have rows in tables that it has not
//! sent. So it *follows*: its watermark is the lowest of the nodes that are not idle, or the highest if all are, as for the inputs of one
//! node. When one of its inputs speaks again its rows come after that, so nobody has to be asked what was decided meanwhile.

use super::{Mark, NodeMessage, Nodes};
use crate::ids::{Generation, Port, StationId};
use crate::schedule::flow::Flow;
use crate::station::progress::{Forward, Progress};
use crate::stats::QueryStats;
use millstream_plan::physical::Exchange;
use millstream_sync::epoch_ring::{End, Release};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The links of a station. Each node is an input of the station on each node that owns a part of it.
pub(crate) struct Links {
    station: StationId,
    nodes: Arc<Nodes>,
    /// What is sent, beside marks.
    exchange: Exchange,
    flow: Arc<Flow>,
    stats: Arc<QueryStats>,
    /// The last mark of each node.
    heard: Mutex<Vec<Option<Mark>>>,
}

/// The inputs of a station on its own node, and what has been said of them.
pub(crate) struct LocalInputs {
    pub(crate) progress: Progress,
    said: Said,
    pub(crate) linger: Linger,
}

/// How long a mark may wait that only raises the watermark.
const LINGER: Duration = Duration::from_millis(5);

/// Marks that wait. Every buffer raises the watermark, and a message to every node for each of them costs more than the rows of the buffer.
#[derive(Default)]
pub(crate) struct Linger {
    /// The last one that was sent, and when.
    sent: Option<(Mark, Instant)>,
    /// One that came later.
    held: Option<Mark>,
}

impl Linger {
    /// Takes the next mark; it is given back when it is to be sent now. At once goes one that `matters`: because of what it makes possible,
    /// of a cut, or the end, or because inputs are idle or speak again.
    pub(crate) fn pass(&mut self, mark: Mark, matters: bool, now: Instant) -> Option<Mark> {
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

    /// When the mark that waits is to be sent, if one does.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.and(self.sent.as_ref()).map(|(_, at)| *at + LINGER)
    }

    /// The mark that has waited long enough.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Mark> {
        let mark = self.held.take_if(|_| self.sent.as_ref().is_none_or(|(_, at)| now >= *at + LINGER))?;
        self.sent = Some((mark, now));
        Some(mark)
    }
}

/// The last mark of the node.
#[derive(Clone, Copy)]
pub(crate) struct Said(Mark);

impl Said {
    /// Nothing has been said.
    pub(crate) fn new() -> Said {
        let release = Release { watermark: i64::MIN, generation: 0, cut: i64::MIN, ended: false };
        Said(Mark { release, is_idle: false })
    }

    /// The next mark, if there is something to say: of a step that the inputs have made together, or because they are idle, or no more.
    pub(crate) fn next(&mut self, step: Option<Forward>, is_idle: bool) -> Option<Mark> {
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
    pub(crate) fn end(&mut self, end: End) -> Mark {
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
    pub(crate) fn new(channels: usize) -> LocalInputs {
        LocalInputs { progress: Progress::new(channels), said: Said::new(), linger: Linger::default() }
    }

    /// The next step that they have made together, if they have, and the next mark.
    pub(crate) fn step(&mut self) -> Option<(Option<Forward>, Mark)> {
        let forward = self.progress.advance();
        Some((forward, self.said.next(forward, self.progress.is_idle())?))
    }
}

impl Links {
    /// Of a station.
    pub(crate) fn new(
        station: StationId,
        nodes: &Arc<Nodes>,
        exchange: Exchange,
        (flow, stats): (&Arc<Flow>, &Arc<QueryStats>),
    ) -> Links {
        let (flow, stats) = (Arc::clone(flow), Arc::clone(stats));
        let heard = Mutex::new(vec![None; nodes.count]);
        Links { station, nodes: Arc::clone(nodes), exchange, flow, stats, heard }
    }

    /// Whose they are.
    pub(crate) fn station(&self) -> StationId {
        self.station
    }

    /// The nodes of the query.
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The generation that a node has said it has come to.
    pub(crate) fn reached(&self, node: usize) -> Generation {
        Generation(self.heard.lock()[node].map_or(0, |mark| mark.release.generation))
    }

    /// Sends rows or partials to the station on another node. They are in flight until that has consumed them, so readers wait for it.
    pub(crate) fn send_frame(&self, to: usize, frame: Vec<u8>) -> Result<(), Diagnostic> {
        if self.exchange == Exchange::Stays {
            let message =
                format!("node {} has what belongs to node {to}, of an operator whose rows stay", self.nodes.me);
            return Err(Diagnostic::bug(message));
        }
        self.stats.sent[self.station.index()].count(frame.len());
        let permit = self.flow.hold(frame.len());
        self.nodes.send_frame(to, self.station, frame, permit);
        Ok(())
    }

    /// Tells the station on another node how far this one has come.
    pub(crate) fn send_mark(&self, to: usize, mark: Mark) {
        self.nodes.send(to, NodeMessage::Mark(self.station, mark));
    }

    /// Tells all owners how far this node has come.
    pub(crate) fn say(&self, mark: Mark, progress: &Mutex<Progress>) {
        self.nodes.tell_others(|| NodeMessage::Mark(self.station, mark));
        self.hear(self.nodes.me, mark, progress);
    }

    /// Has idle inputs of this node follow the other nodes.
    pub(crate) fn follow(&self, inputs: &mut Progress) {
        if !inputs.is_idle() {
            return;
        }
        let heard = self.heard.lock();
        let open = heard.iter().enumerate().filter(|&(node, _)| node != self.nodes.me);
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

    /// Passes the steps of the inputs on this node on, to the others and to `progress` of this one; `before` sends what goes before a mark.
    pub(crate) fn pass_on(
        &self,
        inputs: &mut LocalInputs,
        progress: &Mutex<Progress>,
        before: impl Fn(Mark) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        self.follow(&mut inputs.progress);
        let now = Instant::now();
        let send = |mark: Mark| {
            before(mark)?;
            self.say(mark, progress);
            Ok::<(), Diagnostic>(())
        };
        while let Some((_, mark)) = inputs.step() {
            inputs.linger.pass(mark, false, now).map_or(Ok(()), send)?;
        }
        inputs.linger.take_due(now).map_or(Ok(()), send)
    }

    /// A node has said how far it has come.
    pub(crate) fn hear(&self, from: usize, mark: Mark, progress: &Mutex<Progress>) {
        self.heard.lock()[from] = Some(mark);
        progress.lock().release(Port::new(from), mark.release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_state::MemoryBudget;
    use millstream_types::code;

    #[test]
    fn nothing_is_sent_of_rows_that_stay() {
        let nodes = Arc::new(Nodes::in_process(2).swap_remove(1));
        let flow = Flow::new(1, Vec::new(), 1, false, MemoryBudget::new(1 << 20));
        let links = |exchange| Links::new(StationId::new(0), &nodes, exchange, (&flow, &Arc::default()));
        let error = links(Exchange::Stays).send_frame(0, vec![1]).unwrap_err();
        assert_eq!(error.code, code::BUG, "{error}");
    }

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
