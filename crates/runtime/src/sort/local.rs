//! A sort of the first rows on a node that is not the first: it keeps as many as are wanted of all, and sends these when it has seen its
//! last one. So of any number of rows each node sends no more than are put out, and those that are skipped.

use super::Batch;
use crate::exchange::{Links, Said, gathered};
use crate::ids::Generation;
use crate::station::progress::Forward;
use millstream_plan::pipeline::Sort;
use millstream_sync::epoch_ring::End;
use millstream_types::Diagnostic;
use parking_lot::Mutex;

/// What a sort is of.
pub(crate) enum SortRole {
    /// All rows: of this node, and of so many others.
    Whole(usize),
    /// Those of this node; the first ones go to the first node.
    Local(Links),
}

/// See the module.
pub(super) struct FirstNode {
    links: Links,
    said: Mutex<Said>,
}

impl FirstNode {
    pub(super) fn new(links: Links) -> FirstNode {
        FirstNode { links, said: Mutex::new(Said::new()) }
    }

    /// What a node keeps of the rows of a sort: none of those that are skipped.
    pub(super) fn part_of(plan: &Sort) -> Sort {
        Sort { offset: 0, count: plan.kept(), ..plan.clone() }
    }

    /// Tells how far the inputs have come, under the lock of their progress. That all rows have come is said behind them ([`FirstNode::end`]).
    pub(super) fn pass_on(&self, forward: Option<Forward>, is_idle: bool) {
        if forward.is_some_and(|forward| forward.end == Some(End::Complete)) {
            return;
        }
        let mark = self.said.lock().next(forward, is_idle);
        // Its watermark does not matter.
        if let Some(mark) = mark.filter(|_| forward.is_some_and(|forward| forward.cuts_or_ends())) {
            self.links.send_mark(0, mark);
        }
    }

    /// Sends rows.
    pub(super) fn send(&self, batch: &Batch) -> Result<(), Diagnostic> {
        self.links.send_frame(0, gathered(batch, Generation::default())?)
    }

    /// Tells that nothing more comes.
    pub(super) fn end(&self, end: End) {
        self.links.send_mark(0, self.said.lock().end(end));
    }
}
