//! In which order a node takes what the others send: no thread, no clock, no message.
//!
//! The first node tells all others of a cut. One that it has told early may send from behind the cut before another is told, and the first node may be
//! done with the cut before on all its stations while another one is not: that one hears of the next cut too soon. So what is from behind a cut waits until the
//! node has made it, and behind it all that comes from the same node; a cut that cannot be made yet waits itself, and with it all that the first node has sent behind it.
//! Meanwhile the others are heard: their marks are what the cut before may wait for.

use crate::ids::Generation;
use std::collections::VecDeque;

/// What a message is to the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Rows or partials: they stay behind the marks of the same node.
    Frame,
    /// How far a node has come, with the generation.
    Mark(Generation),
    /// Anything else.
    Control,
}

/// What waits for its turn, of messages `M`.
pub struct InTurn<M> {
    /// With the node that has sent it, in the order in which they came.
    held: VecDeque<(usize, MessageKind, M)>,
    /// The cut that cannot be made yet.
    cut: Option<M>,
}

impl<M> Default for InTurn<M> {
    fn default() -> InTurn<M> {
        InTurn { held: VecDeque::new(), cut: None }
    }
}

impl<M> InTurn<M> {
    /// A message has come from a node; it is given back if it is to be acted on now. `last` is the generation of the last cut that this node has made.
    pub fn admit(&mut self, from: usize, kind: MessageKind, last: Generation, message: M) -> Option<M> {
        let is_behind_cut = from == 0 && self.cut.is_some();
        let is_held = || self.held.iter().any(|(node, ..)| *node == from);
        let is_early = match kind {
            MessageKind::Mark(generation) => generation > last || is_held(),
            MessageKind::Frame => is_held(),
            // Those of the first node are about cuts; what others say to it does not wait for any.
            MessageKind::Control => from == 0 && is_held(),
        };
        if is_behind_cut || is_early {
            self.held.push_back((from, kind, message));
            return None;
        }
        Some(message)
    }

    /// The cut that was given back cannot be made yet.
    pub fn postpone(&mut self, cut: M) {
        self.cut = Some(cut);
    }

    /// The cut that was postponed, to be tried again.
    pub fn postponed(&mut self) -> Option<M> {
        self.cut.take()
    }

    /// A cut has been made: what has waited, to be admitted again in this order.
    pub fn release(&mut self) -> VecDeque<(usize, MessageKind, M)> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_cut_waits_for_it_and_all_behind_that() {
        let (mut turn, last) = (InTurn::default(), Generation(1));
        assert_eq!(turn.admit(2, MessageKind::Frame, last, "rows"), Some("rows"));
        assert_eq!(turn.admit(2, MessageKind::Mark(Generation(1)), last, "mark"), Some("mark"));
        assert_eq!(turn.admit(2, MessageKind::Mark(Generation(2)), last, "early"), None);
        assert_eq!(turn.admit(2, MessageKind::Frame, last, "rows behind"), None);
        assert_eq!(turn.admit(1, MessageKind::Frame, last, "of another"), Some("of another"));
        assert_eq!(turn.admit(2, MessageKind::Control, last, "end"), Some("end"));
        assert_eq!(
            turn.release().into_iter().map(|(.., message)| message).collect::<Vec<_>>(),
            ["early", "rows behind"]
        );
        assert!(turn.release().is_empty());
    }

    #[test]
    fn a_cut_that_comes_too_soon_holds_what_the_first_node_sends_and_nothing_else() {
        let (mut turn, last) = (InTurn::default(), Generation(1));
        assert_eq!(turn.admit(0, MessageKind::Control, last, "cut"), Some("cut"));
        turn.postpone("cut");
        assert_eq!(turn.admit(0, MessageKind::Control, last, "beat"), None);
        assert_eq!(turn.admit(0, MessageKind::Frame, last, "rows"), None);
        assert_eq!(turn.admit(1, MessageKind::Mark(Generation(1)), last, "awaited"), Some("awaited"));
        assert_eq!((turn.postponed(), turn.postponed()), (Some("cut"), None));
        assert_eq!(turn.release().len(), 2);
    }
}
