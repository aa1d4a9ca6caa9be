//! What a node does with what the others send: one thread takes it in the order in which it comes.

use super::in_turn::{InTurn, MessageKind};
use super::{Arriving, NodeMessage, StationMessage, wire};
use crate::durable::blobs::damaged;
use crate::durable::checkpointing::Handed;
use crate::durable::cuts::follow_cut;
use crate::ids::Generation;
use crate::query::Query;
use crate::schedule::cut_timing::Purpose;
use crate::schedule::flow::Permit;
use millstream_storage::Damaged;
use millstream_types::Diagnostic;
use std::sync::Arc;
use std::time::Instant;

/// Acts on what comes from other nodes, if there are any, until the query is over.
pub(crate) fn receive_from_nodes(query: &Query) -> Result<(), Diagnostic> {
    let Some(inbound) = query.host().nodes.as_ref().and_then(|nodes| nodes.listen()) else { return Ok(()) };
    let mut receiving = Receiving { query, turn: InTurn::default() };
    for arriving in inbound {
        match arriving {
            Arriving::Message(from, message, credit) => {
                // It is in flight here, too, and the sender may send more when it is not any more.
                let permit = query.host().flow.hold(message.len()).with_credit(credit);
                receiving.take(from, wire::decode(message)?, permit)?;
            }
            Arriving::CutPassed => {
                if let Some((cut, permit)) = receiving.turn.postponed() {
                    receiving.act(0, cut, permit)?;
                }
            }
            Arriving::Lost(node, why) => match &query.host().nodes {
                Some(nodes) => nodes.lose(node, why)?,
                None => return Err(why),
            },
            Arriving::Close => break,
        }
    }
    Ok(())
}

struct Receiving<'a> {
    query: &'a Query,
    turn: InTurn<(NodeMessage, Permit)>,
}

impl Receiving<'_> {
    fn take(&mut self, from: usize, message: NodeMessage, permit: Permit) -> Result<(), Diagnostic> {
        let kind = match &message {
            NodeMessage::Frame(..) => MessageKind::Frame,
            NodeMessage::Mark(_, mark) => MessageKind::Mark(Generation(mark.release.generation)),
            _ => MessageKind::Control,
        };
        match self.turn.admit(from, kind, self.query.cuts().last(), (message, permit)) {
            Some((message, permit)) => self.act(from, message, permit),
            None => Ok(()),
        }
    }

    /// Makes a cut that the first node has made, and takes what has waited for it; later, if the one before has not passed all stations here.
    fn cut(&mut self, generation: Generation, purpose: Purpose, permit: Permit) -> Result<(), Diagnostic> {
        self.query.wait_for_all_phases();
        if !follow_cut(self.query, generation, purpose)? {
            self.turn.postpone((NodeMessage::Cut(generation, purpose), permit));
            return Ok(());
        }
        for (from, _, (message, permit)) in self.turn.release() {
            self.take(from, message, permit)?;
        }
        Ok(())
    }

    fn act(&mut self, from: usize, message: NodeMessage, permit: Permit) -> Result<(), Diagnostic> {
        let query = self.query;
        let to_station = |station, message| {
            // What follows may be looked up in tables that this node is still making. No other node has a part in those.
            query.wait_for_all_phases();
            let station =
                query.find_station(station).ok_or_else(|| damaged(Damaged("no station has this number".into())))?;
            query.act(station.receive(from, message)?);
            Ok::<(), Diagnostic>(())
        };
        match message {
            NodeMessage::Frame(station, frame) => {
                to_station(station, StationMessage::Frame(frame, Arc::new(permit)))?;
            }
            NodeMessage::Mark(station, mark) => to_station(station, StationMessage::Mark(mark))?,
            NodeMessage::Cut(generation, purpose) => self.cut(generation, purpose, permit)?,
            // Of a source that every node reads whole, and of none that is not there.
            NodeMessage::Splits(..) => {}
            NodeMessage::AskCut => {
                query.cuts().ask();
                query.due_at(Instant::now());
            }
            NodeMessage::BeatEnds(source, split, rows) => query.host().stats.beats.ends_behind(source, split, rows),
            NodeMessage::AtBeatEnd(taken, at_end) => {
                let mut ends = query.beat_ends.lock();
                if ends.taken == taken {
                    ends.of_others[from - 1] = Some(at_end);
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
            NodeMessage::Stored(checkpoint, stored) => {
                query.host().nodes.iter().for_each(|nodes| nodes.has_stored(from, checkpoint));
                query.hand_over(checkpoint, Handed::OfNode(from, stored));
            }
            NodeMessage::Completed(checkpoint) => {
                // Before the next one begins.
                query.host().checkpointing.iter().for_each(|checkpointing| checkpointing.complete(checkpoint));
                query.hand_over(checkpoint, Handed::Completed);
            }
            NodeMessage::Finish => query.end_with_another(),
            NodeMessage::AskReport => {
                let report = || query.host().stats.report(true);
                query.host().nodes.iter().for_each(|nodes| nodes.report(true, report));
            }
            NodeMessage::Report(report) => {
                query.host().stats.note_report(from, *report).map_err(damaged)?;
                query.cancel().wake();
            }
            NodeMessage::AllWritten => {
                if let Some(nodes) = &query.host().nodes {
                    let mut ending = nodes.ending.lock();
                    let (is_told, have_all) = (ending.has_all_written(from), ending.have_all_written());
                    drop(ending);
                    if is_told {
                        nodes.send(from, NodeMessage::Finish);
                    }
                    if have_all {
                        query.others_have_written();
                    }
                    query.cancel().wake();
                }
            }
            NodeMessage::Finished(said) => {
                if let Some(nodes) = &query.host().nodes {
                    nodes.ending.lock().has_finished(from, said);
                    query.cancel().wake();
                }
            }
            NodeMessage::Ended(Some(diagnostic)) => return Err(diagnostic),
            NodeMessage::Ended(None) if from == 0 => query.end_with_another(),
            NodeMessage::Ended(None) => {}
        }
        Ok(())
    }
}
