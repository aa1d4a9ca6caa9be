//! When a node tells the first one what it has done. The supervisor does it, beside the rows: no worker waits for it, and as long as a report
//! has not been taken there is no other one on its way, so a node that is behind is not told more and more.

use super::{NodeMessage, Nodes, wire};
use crate::stats::QueryStats;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// From one report to the next.
const EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Reporting {
    /// When the next one is due; at once if there was none.
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
    /// Tells the first node what this one has done, if it is time; the first one notes its own pace. When to look again.
    pub(crate) fn report_if_due(&self, stats: &QueryStats, now: Instant) -> Instant {
        let mut next = self.reporting.next.lock();
        match *next {
            Some(next) if next > now => return next,
            _ if self.is_first() => stats.note_pace(),
            _ => self.report(stats, false),
        }
        *next.insert(now + EVERY)
    }

    /// Tells the first node what this one has done; `is_last`: because it has been asked for it.
    pub(super) fn report(&self, stats: &QueryStats, is_last: bool) {
        let is_on_its_way = &self.reporting.is_on_its_way;
        if is_on_its_way.swap(true, Relaxed) && !is_last {
            return;
        }
        let report = NodeMessage::Report(Box::new(stats.report(is_last)));
        self.peers.send(0, wire::encode(report), Some(Box::new(OnItsWay(Arc::clone(is_on_its_way)))));
    }
}
