//! What a node does with what the others send: one thread takes it in the order in which it comes.

use super::{NodeMessage, StationMessage};
use crate::durable::cuts::follow_cut;
use crate::query::Query;
use millstream_types::Diagnostic;
use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Acts on messages until the query is over.
pub(crate) fn receive(query: &Query, inbound: &Receiver<(usize, NodeMessage)>) -> Result<(), Diagnostic> {
    let mut receiving = Receiving { query, held: VecDeque::new() };
    for (from, message) in inbound {
        if let NodeMessage::Close = message {
            break;
        }
        receiving.take(from, message)?;
    }
    Ok(())
}

struct Receiving<'a> {
    query: &'a Query,
    /// From behind a cut that this node has not been told of yet: another one was told before, and what it sends has overtaken that.
    held: VecDeque<(usize, NodeMessage)>,
}

impl Receiving<'_> {
    /// Whether a message waits until this node has made a cut: with it all that the same node sends after it.
    fn is_early(&self, from: usize, message: &NodeMessage) -> bool {
        let NodeMessage::ToStation(_, message) = message else { return false };
        let is_behind = match message {
            StationMessage::Mark(mark) => mark.release.generation > self.query.cuts().last().0,
            _ => false,
        };
        is_behind || self.held.iter().any(|(node, _)| *node == from)
    }

    fn take(&mut self, from: usize, message: NodeMessage) -> Result<(), Diagnostic> {
        if self.is_early(from, &message) {
            self.held.push_back((from, message));
            return Ok(());
        }
        let query = self.query;
        match message {
            NodeMessage::ToStation(station, message) => {
                // What follows may be looked up in tables that this node is still making. No other node has a part in those.
                query.wait_for_all_phases();
                let consequences = query.station(station).receive(from, message)?;
                query.act(consequences);
            }
            NodeMessage::Cut(generation, purpose) => {
                // The first node has passed the one before; here the last station may just be about to say so.
                while !query.is_over() && !follow_cut(query, generation, purpose)? {
                    std::thread::yield_now();
                }
                for (from, message) in std::mem::take(&mut self.held) {
                    self.take(from, message)?;
                }
            }
            NodeMessage::AskCut => {
                query.cuts().ask();
                query.due_at(Instant::now());
            }
            NodeMessage::BeatEnds(source, split, rows) => query.host().stats.beats.ends_behind(source, split, rows),
            NodeMessage::AtBeatEnd(taken, lowest) => {
                let mut ends = query.beat_ends.lock();
                if ends.taken == taken {
                    ends.of_others[from - 1] = Some(lowest);
                }
                drop(ends);
                query.look_at_beat();
            }
            NodeMessage::TakeBeat(lowest) => {
                query.beat_ends.lock().taken += 1;
                query.take_beat(lowest);
                // It may have no split that comes to the end of this one.
                query.look_at_beat();
            }
            NodeMessage::Ended(Some(diagnostic)) => return Err(diagnostic),
            NodeMessage::Ended(None) if from == 0 => query.end_with_another(),
            NodeMessage::Ended(None) | NodeMessage::Close => {}
        }
        Ok(())
    }
}
