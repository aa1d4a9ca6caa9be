//! The splits of a source on several nodes: their numbers are those that the first node gives them, since files and partitions may come while
//! one node after the other looks.

use super::{Arriving, NodeMessage, Nodes, wire};
use crate::cancel::{CancelState, CancelToken, aborted};
use millstream_connectors::{Source, SplitReader};
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// How soon a node that waits looks whether it shall end.
const LOOK: Duration = Duration::from_millis(50);

/// A node that has more than this many times the rows that it would have gives splits away, in hundredths: below that they stay where they are.
const SKEWED: u64 = 125;

/// Which node reads which split of a source. They go round by their numbers, unless the last checkpoint has seen that some nodes had much more to read than
/// others: then those that had rows are dealt out anew, the largest first. The first node decides, for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment(BTreeMap<u32, usize>);

impl Assignment {
    /// For a source of this number on so many nodes; `seen` are the splits that have not ended, with their rows so far.
    pub(crate) fn of(source: usize, nodes: usize, seen: impl Iterator<Item = (u32, u64)>) -> Assignment {
        let mut splits: Vec<(u32, u64)> = seen.filter(|(_, rows)| *rows > 0).collect();
        splits.sort_unstable_by_key(|&(number, rows)| (std::cmp::Reverse(rows), number));
        let (mut now, mut then, mut moved) = (vec![0_u64; nodes], vec![0_u64; nodes], BTreeMap::new());
        for (number, rows) in splits {
            let home = in_turn(source, number, nodes);
            // Where it is, if that is as good as any.
            let best = (0..nodes).min_by_key(|&node| (then[node], node != home, node)).unwrap_or(home);
            now[home] = now[home].saturating_add(rows);
            then[best] = then[best].saturating_add(rows);
            moved.insert(number, best);
        }
        let most = |loads: Vec<u64>| loads.into_iter().max().unwrap_or(0);
        let (now, then) = (u128::from(most(now)), u128::from(most(then)));
        Assignment(if now * 100 > then * u128::from(SKEWED) { moved } else { BTreeMap::new() })
    }

    /// The node that reads a split.
    pub(crate) fn node_of(&self, source: usize, split: u32, nodes: usize) -> usize {
        self.0.get(&split).copied().unwrap_or_else(|| in_turn(source, split, nodes))
    }
}

fn in_turn(source: usize, split: u32, nodes: usize) -> usize {
    (source + split as usize) % nodes
}

/// A split by its name, with its reader, if this node sees it.
pub(crate) type NamedSplit = (String, Option<Box<dyn SplitReader>>);

/// Splits that one node reads all of.
pub(crate) fn named(readers: Vec<Box<dyn SplitReader>>) -> Vec<NamedSplit> {
    readers.into_iter().map(|reader| (reader.name().to_string(), Some(reader))).collect()
}

/// The reader of a split that this node has to read.
pub(crate) fn seen((name, reader): NamedSplit) -> Result<Box<dyn SplitReader>, Diagnostic> {
    reader.ok_or_else(|| {
        let message = format!("this node does not see '{name}', which it has to read");
        Diagnostic::new(code::NODES_DIFFER, message)
            .advise("have all nodes see the same files and topics, under the same names")
    })
}

impl Nodes {
    /// The splits of a source (with its number) as the first node has them, in its order, and who reads them. `resumed`: those of the checkpoint
    /// that the query resumes from. One that takes the place of another node may find some of them that the first one has not known at its start.
    ///
    /// # Errors
    /// When the splits cannot be found, or the first node has failed.
    pub(crate) fn agree_on_splits(
        &self,
        (number, source): (usize, &mut dyn Source),
        resumed: &[&str],
        assigned: impl FnOnce() -> Assignment,
        cancel: &CancelToken,
    ) -> Result<(Vec<NamedSplit>, Assignment), Diagnostic> {
        if self.is_first() {
            let (splits, assignment) = (named(source.splits()?), assigned());
            self.tell_splits(number, splits.iter().map(|(name, _)| name.clone()).collect(), assignment.clone());
            return Ok((splits, assignment));
        }
        let (mut names, assignment) = self.await_splits(number, cancel)?;
        let told: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let later: Vec<String> = resumed.iter().filter(|name| !told.contains(*name)).map(|&name| name.into()).collect();
        names.extend(later);
        source.agreed(&names);
        let mut found: BTreeMap<String, NamedSplit> =
            named(source.splits()?).into_iter().map(|split| (split.0.clone(), split)).collect();
        Ok((names.into_iter().map(|name| found.remove(&name).unwrap_or((name, None))).collect(), assignment))
    }

    /// Waits for what the first node says of a source; what comes before that is kept.
    fn await_splits(&self, source: usize, cancel: &CancelToken) -> Result<(Vec<String>, Assignment), Diagnostic> {
        let inbound = self.inbound.lock();
        let inbound = inbound.as_ref().ok_or_else(|| Diagnostic::bug("a node listens before it is built"))?;
        loop {
            let arriving = match inbound.recv_timeout(LOOK) {
                Ok(arriving) => arriving,
                Err(RecvTimeoutError::Timeout) if cancel.state() != CancelState::Abort => continue,
                Err(_) => return Err(aborted()),
            };
            match arriving {
                Arriving::Message(0, message, credit) => match wire::decode(message)? {
                    NodeMessage::Splits(of, names, assignment) if of == source => return Ok((names, assignment)),
                    NodeMessage::Ended(why) => return Err(why.unwrap_or_else(aborted)),
                    other => self.early.lock().push_back(Arriving::Message(0, wire::encode(other), credit)),
                },
                Arriving::Lost(_, why) => return Err(why),
                other => self.early.lock().push_back(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(rows: &[u64], nodes: usize) -> Vec<usize> {
        let assignment = Assignment::of(0, nodes, (0..).zip(rows.iter().copied()));
        (0..rows.len() as u32).map(|split| assignment.node_of(0, split, nodes)).collect()
    }

    #[test]
    fn splits_go_round() {
        assert_eq!(assigned(&[0; 5], 3), [0, 1, 2, 0, 1]);
        let assignment = Assignment::default();
        assert_eq!([0, 1, 2].map(|split| assignment.node_of(1, split, 2)), [1, 0, 1]);
    }

    #[test]
    fn splits_stay_while_nodes_have_about_as_much_to_read() {
        assert_eq!(assigned(&[100, 110, 90, 105, 95, 100], 3), [0, 1, 2, 0, 1, 2]);
        // One that nobody can part from its node.
        assert_eq!(assigned(&[1000, 1, 1, 0], 2), [0, 1, 0, 1]);
    }

    #[test]
    fn splits_of_a_node_that_has_too_much_move() {
        // Those of 100 would be on one node.
        assert_eq!(assigned(&[100, 1, 100, 1, 100, 1, 100, 1], 2), [0, 1, 1, 0, 0, 1, 1, 0]);
        let heavy = assigned(&[400, 50, 50, 400, 50, 50], 3);
        assert_ne!(heavy[0], heavy[3]);
        // What has had no rows stays, and what is new goes round.
        let assignment = Assignment::of(0, 2, [(0, 100), (2, 100), (1, 0)].into_iter());
        assert_eq!([0, 1, 2, 3].map(|split| assignment.node_of(0, split, 2)), [0, 1, 1, 1]);
        // Sums that do not fit.
        assert_eq!(Assignment::of(0, 2, [(2, u64::MAX), (0, u64::MAX)].into_iter()), Assignment::default());
    }
}
