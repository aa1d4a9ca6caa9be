//! Whether a query ends, and why: what its threads have in common for that.

use crate::host::Host;
use millstream_plan::pipeline::QueryPlan;
use millstream_types::Diagnostic;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

/// Whether and why a query ends.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) sinks_open: AtomicUsize,
    /// On the first of several nodes: the others have rows to write, which counts as a sink that is open.
    pub(crate) waits_for_others: AtomicBool,
    /// No more input is wanted. Set before readers are woken; a reader that misses it reads one chunk more.
    pub(crate) stopping: AtomicBool,
    /// A split has been ended before its end.
    pub(crate) cut_short: AtomicBool,
    /// All sinks are done, or there is a failure.
    pub(crate) over: AtomicBool,
    pub(crate) failure: Mutex<Option<Diagnostic>>,
    /// When the last checkpoint was asked for.
    pub(crate) last_asked: Mutex<Option<Instant>>,
    pub(crate) readers: Mutex<usize>,
    pub(crate) reader_left: Condvar,
}

impl Life {
    /// Of a query that begins.
    pub(crate) fn of(plan: &QueryPlan, host: &Host) -> Life {
        let nodes = host.nodes.as_ref().filter(|nodes| nodes.count > 1);
        // Of several nodes the first says when the others end: until then it may make cuts. It does while others have rows to write.
        let is_follower = host.nodes.as_ref().is_some_and(|nodes| !nodes.is_first());
        let waits_for_others = nodes.is_some_and(|nodes| nodes.is_first())
            && takes_checkpoints(plan, host)
            && plan.sinks.iter().any(|sink| sink.is_on_every_node);
        let open = plan.sinks.len() + usize::from(is_follower || waits_for_others);
        Life {
            sinks_open: AtomicUsize::new(open),
            waits_for_others: AtomicBool::new(waits_for_others),
            over: AtomicBool::new(open == 0),
            ..Life::default()
        }
    }
}

/// Whether checkpoints are taken while the query runs. One with a LIMIT has none but the last: it may end at any moment,
/// whatever is on its way. Nor has one with a sort, which keeps nothing, unless the sort is part of a lookup table: then it has ended
/// when the first checkpoint is taken, and is made again after a recovery.
pub(crate) fn takes_checkpoints(plan: &QueryPlan, host: &Host) -> bool {
    let takes_all = plan.sinks.iter().all(|sink| sink.limit.is_none() && sink.skip == 0);
    host.checkpointing.is_some() && takes_all && !plan.sorts_output()
}
