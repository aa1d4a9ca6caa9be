//! Looks for new partitions while a query runs, for the splits that are in reserve.

use super::client::Cluster;
use super::topics::{Partition, Topics};
use crate::locked;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, code};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// How long brokers may take to say which partitions there are; afterwards they are asked again.
const ATTEMPT: Duration = Duration::from_millis(500);
/// Pause after brokers have not answered.
const PAUSE: Duration = Duration::from_secs(2);

/// What is looked for.
pub(super) struct Discovery {
    topics: Topics,
    /// `None`: nothing is looked for.
    interval: Option<Duration>,
    share: Share,
    state: Mutex<DiscoveryState>,
}

/// Which of the new partitions are read by this process: of several the one that a name says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) node: usize,
    pub(super) nodes: usize,
}

impl Share {
    /// All.
    pub(super) const ALL: Share = Share { node: 0, nodes: 1 };

    fn has(self, partition: &Partition) -> bool {
        xxh3_64(partition.to_string().as_bytes()) % self.nodes as u64 == self.node as u64
    }
}

struct DiscoveryState {
    next: Instant,
    known: BTreeSet<Partition>,
    found: VecDeque<Partition>,
    /// Splits in reserve that have no partition.
    spares: usize,
}

impl Discovery {
    /// Looks for partitions that are not `known`, for `spares` splits in reserve.
    pub(super) fn new(
        topics: Topics,
        interval: Option<Duration>,
        known: &[Partition],
        spares: usize,
        share: Share,
    ) -> Discovery {
        let next = Instant::now() + interval.unwrap_or_default();
        let known = known.iter().cloned().collect();
        let state = Mutex::new(DiscoveryState { next, known, found: VecDeque::new(), spares });
        Discovery { topics, interval, share, state }
    }

    /// A new partition, if there is one; looks for one when it is time, and waits a while if not.
    pub(super) fn claim(&self, cluster: &Cluster, patience: Duration) -> Result<Option<Partition>, Diagnostic> {
        let mut state = locked(&self.state);
        let now = Instant::now();
        if let Some(interval) = self.interval.filter(|_| state.found.is_empty() && state.next <= now) {
            // The client's events are handed out nowhere else while a query runs.
            _ = cluster.consumer.poll(Duration::ZERO);
            let found = self.topics.glance(&cluster.consumer, ATTEMPT);
            state.next = Instant::now() + if found.is_ok() { interval } else { interval.min(PAUSE) };
            for partition in found.into_iter().flatten() {
                if state.known.insert(partition.clone()) && self.share.has(&partition) {
                    state.found.push_back(partition);
                }
            }
            if state.found.len() > state.spares {
                return Err(too_many(&state));
            }
        }
        if let Some(partition) = state.found.pop_front() {
            state.spares -= 1;
            return Ok(Some(partition));
        }
        drop(state);
        std::thread::sleep(patience);
        Ok(None)
    }
}

fn too_many(state: &DiscoveryState) -> Diagnostic {
    let names: Vec<String> = state.found.iter().map(Partition::to_string).collect();
    let message =
        format!("there are more new partitions than splits in reserve ({}): {}", state.spares, names.join(", "));
    Diagnostic::new(code::READ_FAILED, message)
        .at(whole(&names[0]))
        .advise("run the query again; it begins with all partitions that are there")
}
