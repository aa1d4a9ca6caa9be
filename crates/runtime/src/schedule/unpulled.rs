//! Splits that no worker may read on; see [`Flow::try_acquire`](super::flow::Flow::try_acquire).

use super::flow::Refusal;
use super::scheduler::Scheduler;
use crate::source::open_split::Pulled;
use crate::station::Task;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// See the module.
pub(crate) struct Unpulled {
    scheduler: Weak<Scheduler>,
    /// Until some of what is in flight has been consumed.
    refused: Mutex<Vec<Pulled>>,
    /// Until a thread reads them.
    stranded: Mutex<Vec<Pulled>>,
}

impl Unpulled {
    /// None, of a query with these queues.
    pub(crate) fn new(scheduler: &Arc<Scheduler>) -> Unpulled {
        Unpulled { scheduler: Arc::downgrade(scheduler), refused: Mutex::default(), stranded: Mutex::default() }
    }

    /// Keeps one whose next chunk is not let in.
    pub(crate) fn keep(&self, refusal: Refusal, pulled: Pulled) {
        match refusal {
            Refusal::Full => self.refused.lock().push(pulled),
            Refusal::Memory => self.stranded.lock().push(pulled),
        }
    }

    /// Something has been consumed: workers try again.
    pub(crate) fn try_again(&self) {
        let refused = std::mem::take(&mut *self.refused.lock());
        if let Some(scheduler) = self.scheduler.upgrade().filter(|_| !refused.is_empty()) {
            scheduler.push(&mut refused.into_iter().map(Task::Read).collect());
        }
    }

    /// Those that threads have to read from now on.
    pub(crate) fn take_stranded(&self) -> Vec<Pulled> {
        std::mem::take(&mut *self.stranded.lock())
    }
}
