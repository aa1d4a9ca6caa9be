//! Offsets in the consumer group: for others to see, nothing depends on them.

use super::client::{Cluster, reason};
use super::topics::Partition;
use crate::{Acknowledger, Position, locked};
use millstream_types::{Diagnostic, code};
use rdkafka::Offset;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionList;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Commits behind checkpoints; without checkpoints, every few seconds, behind what was handed over
/// (`properties.enable.auto.commit`).
pub(super) struct Commits {
    cluster: Arc<Cluster>,
    /// `None`: not without checkpoints.
    interval: Option<Duration>,
    state: Mutex<AcknowledgeState>,
}

struct AcknowledgeState {
    next: Instant,
    /// Offsets of the next messages, of partitions that have been read since the last commit.
    offsets: BTreeMap<Arc<Partition>, i64>,
    /// From the first checkpoint on commits follow checkpoints only.
    by_checkpoints: bool,
}

impl Commits {
    /// Nothing was read yet.
    pub(super) fn new(cluster: Arc<Cluster>, interval: Option<Duration>) -> Commits {
        let next = Instant::now() + interval.unwrap_or_default();
        let state = Mutex::new(AcknowledgeState { next, offsets: BTreeMap::new(), by_checkpoints: false });
        Commits { cluster, interval, state }
    }

    /// Messages before `next` were handed over.
    pub(super) fn handed_over(&self, partition: &Arc<Partition>, next: i64) {
        if self.interval.is_some() {
            let mut state = locked(&self.state);
            if !state.by_checkpoints {
                state.offsets.insert(partition.clone(), next);
            }
        }
    }

    /// Commits what was handed over, if it is time; does not wait for the brokers.
    pub(super) fn commit_if_due(&self) {
        let Some(interval) = self.interval else { return };
        let mut state = locked(&self.state);
        if state.next <= Instant::now() && !state.offsets.is_empty() {
            state.next = Instant::now() + interval;
            let offsets = std::mem::take(&mut state.offsets);
            drop(state);
            // A commit that fails is made up for by the next one.
            _ = self.commit(offsets, CommitMode::Async);
        }
    }

    fn commit<P: Borrow<Partition>>(
        &self,
        offsets: impl IntoIterator<Item = (P, i64)>,
        mode: CommitMode,
    ) -> KafkaResult<()> {
        let mut list = TopicPartitionList::new();
        for (partition, next) in offsets {
            let partition = partition.borrow();
            list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(next))?;
        }
        if list.count() == 0 { Ok(()) } else { self.cluster.consumer.commit(&list, mode) }
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        let offsets = std::mem::take(&mut locked(&self.state).offsets);
        // The query has ended; there is nobody left to tell.
        _ = self.commit(offsets, CommitMode::Sync);
    }
}

/// Commits behind checkpoints.
pub(super) struct GroupAcknowledger(pub Arc<super::source::SharedByReaders>);

impl Acknowledger for GroupAcknowledger {
    fn acknowledge(&mut self, positions: &[(String, Position)]) -> Result<(), Diagnostic> {
        let commits = &self.0.commits;
        let mut state = locked(&commits.state);
        state.by_checkpoints = true;
        state.offsets.clear();
        drop(state);
        let partition = |name: &str| {
            let (topic, number) = name.rsplit_once('-')?;
            Some(Partition { topic: topic.into(), number: number.parse().ok()? })
        };
        let offsets =
            positions.iter().filter_map(|(name, position)| Some((partition(name)?, position.at.cast_signed())));
        commits.commit(offsets, CommitMode::Sync).map_err(|e| {
            let message =
                format!("offsets cannot be committed in the group: {}", reason(&e, commits.cluster.consumer.context()));
            Diagnostic::new(code::WRITE_FAILED, message).advise(
                "the query continues: what it has read is in its checkpoints; look after the brokers and the group",
            )
        })
    }
}
