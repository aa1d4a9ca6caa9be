//! The source: a table's partitions as splits.

use super::acknowledge::{Commits, GroupAcknowledger};
use super::client::Cluster;
use super::decode::{KafkaChunk, KafkaDecoder};
use super::discovery::{Discovery, Share};
use super::fields::set_keys;
use super::offsets::{Reset, TopicExtent};
use super::options::DISCOVERY;
use super::properties::{client_config, default};
use super::reader::{PartitionReader, Wants};
use super::topics::Topics;
use crate::{Acknowledger, Chunk, Decoder, Position, Source, SourceRequest, SplitReader};
use millstream_types::{Diagnostic, Options};
use rdkafka::ClientConfig;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Splits in reserve for partitions that are found later, at the least.
const SPARES: usize = 8;
/// Memory of the messages that all clients of a table read ahead, in KiB, and the least that one has.
const READ_AHEAD_KB: usize = 64 << 10;
const LEAST_READ_AHEAD_KB: usize = 2 << 10;

/// Opens the source. The brokers are asked for nothing before its splits are wanted.
pub(super) fn open(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    open_topics(request, false)
}

/// Opens topics in which the last message of a key counts, which is the table's primary key. They are read from their start.
pub(super) fn open_upserts(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let mut request = request.clone();
    set_keys(&mut request.options, &request.table, &request.schema, &request.primary_key)?;
    request.options.set("scan.startup.mode", "earliest-offset");
    open_topics(&request, true)
}

fn open_topics(request: &SourceRequest, is_upserted: bool) -> Result<Box<dyn Source>, Diagnostic> {
    let options = &request.options;
    let config = consumer_config(options)?;
    let extent = TopicExtent::of(options)?;
    let (decoder, wants) = KafkaDecoder::open(request, is_upserted)?;
    let decoder = Arc::new(decoder);
    Topics::of(options)?;
    let table = request.table.clone();
    Ok(Box::new(KafkaSource {
        table,
        options: options.clone(),
        config,
        extent,
        wants,
        decoder,
        share: Share::ALL,
        agreed: None,
        shared: None,
    }))
}

fn consumer_config(options: &Options) -> Result<ClientConfig, Diagnostic> {
    let mut config = client_config(options)?;
    // A client that reads has to name a group; nothing is committed in one that the user has not named.
    default(&mut config, "group.id", "millstream");
    default(&mut config, "isolation.level", "read_committed");
    // Waits that a reader would notice: after its queue was full, after a broker was away, for news of a deleted topic.
    default(&mut config, "fetch.queue.backoff.ms", "10");
    default(&mut config, "reconnect.backoff.max.ms", "1000");
    default(&mut config, "topic.metadata.propagation.max.ms", "5000");
    // As in Java: what comes from the network is checked.
    default(&mut config, "check.crcs", "true");
    config.set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    Ok(config)
}

struct KafkaSource {
    table: String,
    options: Options,
    config: ClientConfig,
    extent: TopicExtent,
    wants: Wants,
    decoder: Arc<KafkaDecoder>,
    share: Share,
    /// On another node than the first: the names of all splits.
    agreed: Option<BTreeSet<String>>,
    /// Once there are splits.
    shared: Option<Arc<SharedByReaders>>,
}

/// What the readers of a table share.
pub(super) struct SharedByReaders {
    pub(super) config: ClientConfig,
    pub(super) wants: Wants,
    pub(super) reset: Reset,
    pub(super) commits: Commits,
    pub(super) cluster: Arc<Cluster>,
    pub(super) discovery: Discovery,
}

impl Source for KafkaSource {
    fn share(&mut self, node: usize, nodes: usize) {
        self.share = Share { node, nodes };
    }

    fn agreed(&mut self, splits: &[String]) {
        self.agreed = Some(splits.iter().cloned().collect());
    }

    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let options = &self.options;
        let cluster = Arc::new(Cluster::open(options, &self.config)?);
        let topics = Topics::of(options)?;
        let mut partitions = topics.partitions(&cluster)?;
        if let Some(agreed) = &self.agreed {
            // Those that have come since are found like any that are new.
            partitions.retain(|partition| agreed.contains(&partition.to_string()));
        }
        let spans = self.extent.spans(&cluster, &partitions)?;

        let interval = DISCOVERY.duration(options)?;
        let interval = (!interval.is_zero() && !self.extent.is_bounded()).then_some(interval);
        let spares = if interval.is_some() { partitions.len().max(SPARES) } else { 0 };
        let discovery = Discovery::new(topics, interval, &partitions, spares, self.share);
        let mut config = self.config.clone();
        let read_ahead = (READ_AHEAD_KB / partitions.len().max(1)).max(LEAST_READ_AHEAD_KB);
        default(&mut config, "queued.max.messages.kbytes", &read_ahead.to_string());
        let commits = Commits::new(cluster.clone(), commit_interval(options)?);
        let (wants, reset) = (self.wants, self.extent.reset);
        let shared = Arc::new(SharedByReaders { config, wants, reset, commits, cluster, discovery });
        self.shared = Some(shared.clone());

        let mut splits: Vec<Box<dyn SplitReader>> = Vec::new();
        for (partition, span) in partitions.into_iter().zip(spans) {
            splits.push(Box::new(PartitionReader::new(shared.clone(), partition, span)));
        }
        // Each of several processes has as many.
        for number in 0..spares * self.share.nodes {
            let name = format!("{} in reserve #{number}", self.table);
            splits.push(Box::new(PartitionReader::spare(shared.clone(), name)));
        }
        Ok(splits)
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        self.extent.is_bounded()
    }

    fn is_replayable(&self) -> bool {
        true
    }

    fn acknowledger(&self) -> Option<Box<dyn Acknowledger>> {
        self.options.get("properties.group.id")?;
        Some(Box::new(GroupAcknowledger(self.shared.clone()?)))
    }
}

/// How often offsets are committed without checkpoints, if they are.
fn commit_interval(options: &Options) -> Result<Option<Duration>, Diagnostic> {
    let interval = options.duration("properties.auto.commit.interval.ms", Duration::from_secs(5))?;
    let is_wanted = options.boolean("properties.enable.auto.commit", false)?;
    Ok((is_wanted && options.get("properties.group.id").is_some()).then_some(interval))
}

/// Cuts about the first `rows` messages off a chunk, for sources with a limited rate.
pub(super) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<(Chunk, u64)> {
    let rest = chunk.payload.downcast_mut::<KafkaChunk>()?;
    let front = rest.split_front(usize::try_from(rows).unwrap_or(usize::MAX))?;
    let count = front.values.len() as u64;
    let after = front.envelopes.offsets.last().map(|last| Position { at: (last + 1).cast_unsigned(), line: 0 });
    let bytes = chunk.bytes.min(front.bytes());
    chunk.bytes -= bytes;
    Some((Chunk { payload: Box::new(front), bytes, after }, count))
}
