//! When a node tells the first one what it has done. The supervisor does it, beside the rows: no worker waits for it, and as long as a report
//! has not been taken there is no other one on its way, so a node that is behind is not told more and more.

use super::{NodeMessage, Nodes, wire};
use crate::stats::NodeReport;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// From the start to the first report: a run that is over before needs none but the last.
const FIRST: Duration = Duration::from_millis(200);
/// From one report to the next.
const EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Reporting {
    /// When the next one is due; `None` at the start.
    next: Mutex<Option<Instant>>,
    is_on_its_way: Arc<AtomicBool>,
}

/// A report on its way: whoever takes it drops this.
struct OnItsWay(Arc<AtomicBool>);

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

impl Nodes {
    /// Whether it is time to tell what this node has done, and when it will be the next time.
    pub(crate) fn is_report_due(&self, now: Instant) -> (bool, Instant) {
        let mut next = self.reporting.next.lock();
        match *next {
            None => (false, *next.insert(now + FIRST)),
            Some(next) if next > now => (false, next),
            Some(_) => (true, *next.insert(now + EVERY)),
        }
    }

    /// Tells the first node what this one has done; `is_last`: because it has been asked for it.
    pub(crate) fn report(&self, is_last: bool, report: impl FnOnce() -> NodeReport) {
        let is_on_its_way = &self.reporting.is_on_its_way;
        if is_on_its_way.swap(true, Relaxed) && !is_last {
            return;
        }
        let report = NodeMessage::Report(Box::new(report()));
        self.peers.send(0, wire::encode(report), Some(Box::new(OnItsWay(Arc::clone(is_on_its_way)))));
    }
}
