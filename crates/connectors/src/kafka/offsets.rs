//! Where reading starts and ends: `scan.startup.*` and `scan.bounded.*` as offsets of partitions.

use super::client::{Cluster, KafkaConsumer};
use super::topics::Partition;
use crate::option_table::option_fault;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{Offset, error::RDKafkaErrorCode};
use std::collections::BTreeMap;
use std::time::Duration;

/// A way to name an offset of each partition.
#[derive(Debug, Clone, PartialEq)]
enum Mark {
    Earliest,
    Latest,
    Group,
    /// Milliseconds since the epoch.
    Timestamp(i64),
    /// By number of the partition.
    Specific(BTreeMap<i32, i64>),
}

/// What is read of a table's partitions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TopicExtent {
    start: Mark,
    /// `None`: without end.
    end: Option<Mark>,
    pub(super) reset: Reset,
}

/// `properties.auto.offset.reset`: where to read when there is no offset, or none that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    Earliest,
    Latest,
    /// Nowhere: that is an error.
    Fail,
}

impl Reset {
    /// The value of librdkafka's property.
    pub(super) fn property(self) -> &'static str {
        match self {
            Reset::Earliest => "earliest",
            Reset::Latest => "latest",
            Reset::Fail => "error",
        }
    }
}

/// What is read of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionExtent {
    /// Offset of the first message.
    pub from: Offset,
    /// Offset of the first message that is not read any more.
    pub until: Option<i64>,
    /// Whether all messages before `until` are there already, so that the end of the partition is the end at the latest.
    pub is_there: bool,
}

impl PartitionExtent {
    /// A partition that was found later.
    pub(super) const WHOLE: PartitionExtent = PartitionExtent { from: Offset::Beginning, until: None, is_there: false };

    /// Whether it is known that there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        let from = if let Offset::Offset(from) = self.from { from } else { 0 };
        self.until.is_some_and(|until| until <= from)
    }
}

/// Whether the options say that reading ends.
pub(super) fn is_bounded(options: &Options) -> bool {
    options.get("scan.bounded.mode").is_some_and(|mode| mode != "unbounded")
}

impl TopicExtent {
    /// By the options of a table.
    pub(super) fn of(options: &Options) -> Result<TopicExtent, Diagnostic> {
        let start = mark(options, "scan.startup")?.unwrap_or(Mark::Group);
        let end = mark(options, "scan.bounded")?;
        let reset = match options.get("properties.auto.offset.reset").map(str::to_ascii_lowercase).as_deref() {
            None | Some("none" | "error") => Reset::Fail,
            Some("earliest" | "smallest" | "beginning") => Reset::Earliest,
            Some("latest" | "largest" | "end") => Reset::Latest,
            Some(_) => {
                return Err(options.invalid("properties.auto.offset.reset", "earliest, latest or none"));
            }
        };
        let extent = TopicExtent { start, end, reset };
        let by_group = extent.start == Mark::Group || extent.end == Some(Mark::Group);
        if by_group && options.get("properties.group.id").is_none() {
            let message = "offsets of a group are wanted, but no group is named";
            let advice = "set 'properties.group.id', or 'scan.startup.mode' = 'earliest-offset' or 'latest-offset'";
            return Err(option_fault(code::MISSING_OPTION, "properties.group.id", message, advice));
        }
        Ok(extent)
    }

    /// Whether reading ends.
    pub(super) fn is_bounded(&self) -> bool {
        self.end.is_some()
    }

    /// The span of each partition.
    pub(super) fn spans(
        &self,
        cluster: &Cluster,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionExtent>, Diagnostic> {
        let starts = self.offsets(cluster, partitions, &self.start, self.reset)?;
        let Some(end) = &self.end else {
            let span = |from| PartitionExtent { from, ..PartitionExtent::WHOLE };
            return Ok(starts.into_iter().map(span).collect());
        };
        let ends = self.offsets(cluster, partitions, end, Reset::Fail)?;
        let mut spans = Vec::with_capacity(partitions.len());
        for ((partition, from), end) in partitions.iter().zip(starts).zip(ends) {
            let (_, high) = watermarks(cluster, partition)?;
            let until = match end {
                Offset::Offset(until) => until,
                _ => high,
            };
            spans.push(PartitionExtent { from, until: Some(until), is_there: until <= high });
        }
        Ok(spans)
    }

    fn offsets(
        &self,
        cluster: &Cluster,
        partitions: &[Partition],
        mark: &Mark,
        reset: Reset,
    ) -> Result<Vec<Offset>, Diagnostic> {
        let latest = |partition: &Partition| watermarks(cluster, partition).map(|(_, high)| Offset::Offset(high));
        match mark {
            Mark::Earliest => Ok(vec![Offset::Beginning; partitions.len()]),
            // Fixed now, so that what is written from now on is read however long it takes to get there.
            Mark::Latest => partitions.iter().map(latest).collect(),
            Mark::Specific(offsets) => {
                let offset = |p: &Partition| offsets.get(&p.number).map_or(Offset::Beginning, |at| Offset::Offset(*at));
                let topics = partitions.iter().any(|p| p.topic != partitions[0].topic);
                if topics {
                    let message = "offsets of partitions are given, but there are several topics";
                    let advice = "read one topic, or start by 'timestamp'";
                    return Err(option_fault(code::INVALID_OPTION, "topic", message, advice));
                }
                Ok(partitions.iter().map(offset).collect())
            }
            Mark::Timestamp(milliseconds) => {
                let at = Offset::Offset(*milliseconds);
                let answers = asked(cluster, partitions, at, KafkaConsumer::offsets_for_times)?;
                let behind = |(partition, at): (&Partition, Offset)| match at {
                    Offset::Offset(_) => Ok(at),
                    _ => latest(partition),
                };
                partitions.iter().zip(answers).map(behind).collect()
            }
            Mark::Group => {
                let answers = asked(cluster, partitions, Offset::Invalid, KafkaConsumer::committed_offsets)?;
                let or_reset = |(partition, at): (&Partition, Offset)| match (at, reset) {
                    (Offset::Offset(_), _) => Ok(at),
                    (_, Reset::Earliest) => Ok(Offset::Beginning),
                    (_, Reset::Latest) => latest(partition),
                    (_, Reset::Fail) => Err(no_committed(partition)),
                };
                partitions.iter().zip(answers).map(or_reset).collect()
            }
        }
    }
}

fn no_committed(partition: &Partition) -> Diagnostic {
    let message = format!("the group has committed no offset of {partition}");
    Diagnostic::new(code::READ_FAILED, message)
        .at(whole(partition.to_string()))
        .advise("set 'properties.auto.offset.reset' to 'earliest' or 'latest', or another 'scan.startup.mode'")
}

/// Offset of the first message that is there, and that behind the last.
pub(super) fn watermarks(cluster: &Cluster, partition: &Partition) -> Result<(i64, i64), Diagnostic> {
    cluster.ask(&format!("the offsets of {partition}"), |consumer, timeout| {
        consumer.fetch_watermarks(&partition.topic, partition.number, timeout)
    })
}

/// The answers to a question about partitions, in their order.
fn asked(
    cluster: &Cluster,
    partitions: &[Partition],
    offset: Offset,
    question: impl Fn(&KafkaConsumer, TopicPartitionList, Duration) -> KafkaResult<TopicPartitionList>,
) -> Result<Vec<Offset>, Diagnostic> {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(&partition.topic, partition.number, offset)
            .map_err(|e| Diagnostic::bug(format!("an offset cannot be asked for: {e}")))?;
    }
    let answer = cluster.ask("the offsets of the partitions", |consumer, timeout| {
        let answer = question(consumer, list.clone(), timeout)?;
        let unknown = partitions.iter().find(|p| answer.find_partition(&p.topic, p.number).is_none());
        let failed = answer.elements().iter().find_map(|element| element.error().err());
        match (failed, unknown) {
            (Some(error), _) => Err(error),
            (None, Some(_)) => Err(KafkaError::OffsetFetch(RDKafkaErrorCode::UnknownPartition)),
            (None, None) => Ok(answer),
        }
    })?;
    let offset = |p: &Partition| answer.find_partition(&p.topic, p.number).map_or(Offset::Invalid, |e| e.offset());
    Ok(partitions.iter().map(offset).collect())
}

/// The mark that the options with this prefix name.
fn mark(options: &Options, prefix: &str) -> Result<Option<Mark>, Diagnostic> {
    let mode_key = format!("{prefix}.mode");
    let is_start = prefix == "scan.startup";
    Ok(Some(match options.get(&mode_key) {
        None => return Ok(None),
        Some("unbounded") if !is_start => return Ok(None),
        Some("earliest-offset") if is_start => Mark::Earliest,
        Some("latest-offset") => Mark::Latest,
        Some("group-offsets") => Mark::Group,
        Some("timestamp") => {
            let key = format!("{prefix}.timestamp-millis");
            let text = options.require(&key)?;
            Mark::Timestamp(text.trim().parse().map_err(|_| options.invalid(&key, "milliseconds since 1970"))?)
        }
        Some("specific-offsets") => {
            let key = format!("{prefix}.specific-offsets");
            let offsets = specific(options.require(&key)?);
            Mark::Specific(
                offsets.ok_or_else(|| options.invalid(&key, "like 'partition:0,offset:42;partition:1,offset:300'"))?,
            )
        }
        Some(_) => {
            let first = if is_start { "earliest-offset" } else { "unbounded" };
            let expected = format!("{first}, latest-offset, group-offsets, timestamp or specific-offsets");
            return Err(options.invalid(&mode_key, &expected));
        }
    }))
}

/// `partition:0,offset:42;partition:1,offset:300`
fn specific(text: &str) -> Option<BTreeMap<i32, i64>> {
    let entry = |entry: &str| {
        let (partition, offset) = entry.split_once(',')?;
        let partition = partition.trim().strip_prefix("partition:")?.trim().parse::<i32>().ok()?;
        let offset = offset.trim().strip_prefix("offset:")?.trim().parse::<i64>().ok()?;
        (partition >= 0 && offset >= 0).then_some((partition, offset))
    };
    text.split(';').filter(|part| !part.trim().is_empty()).map(entry).collect()
}
