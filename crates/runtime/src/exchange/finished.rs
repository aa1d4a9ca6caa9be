//! The end of a query on several nodes: the first one waits for the others, and learns how far they have read.

use millstream_storage::SourceState;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::time::Duration;

/// How soon it is looked whether waiting has become pointless.
const LOOK: Duration = Duration::from_millis(20);

/// What other nodes have said at their end.
#[derive(Default)]
pub(crate) struct FinishedNodes {
    said: Mutex<BTreeMap<usize, Vec<SourceState>>>,
    changed: Condvar,
}

impl FinishedNodes {
    /// A node has said how far it has read.
    pub(crate) fn note(&self, node: usize, sources: Vec<SourceState>) {
        self.said.lock().insert(node, sources);
        self.changed.notify_all();
    }

    /// Waits until so many have said it; `false` if `is_pointless` says so first.
    pub(crate) fn wait_for(&self, others: usize, is_pointless: impl Fn() -> bool) -> bool {
        let mut said = self.said.lock();
        while said.len() < others {
            if is_pointless() {
                return false;
            }
            self.changed.wait_for(&mut said, LOOK);
        }
        true
    }

    /// What they have said.
    pub(crate) fn take(&self) -> Vec<Vec<SourceState>> {
        std::mem::take(&mut *self.said.lock()).into_values().collect()
    }
}
