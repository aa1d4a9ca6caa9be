//! The sink: rows are produced as messages, by one client.

use super::options::{GUARANTEE, PARTITIONER};
use super::producer::Producer;
use super::properties::client_config;
use super::record::{RecordEncoder, records};
use super::transactions::TransactionalSink;
use crate::{Encoded, Encoder, Sink, SinkRequest};
use millstream_types::{Diagnostic, Options};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the number of partitions is looked up.
const REFRESH: Duration = Duration::from_secs(60);

/// Opens the sink; waits for the brokers.
pub(super) fn open(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let options = &request.options;
    let topic = options.require("topic")?.trim().to_string();
    if topic.contains(';') {
        return Err(options.invalid("topic", "one topic, as a sink needs it"));
    }
    let config = client_config(options)?;
    let guarantee = GUARANTEE.choice(options, &["none", "at-least-once", "exactly-once"].map(|name| (name, name)))?;
    let mut route = Route::of(options, topic)?;
    let encoder: Arc<dyn Encoder> = Arc::new(RecordEncoder::open(request)?);
    let producer = Producer::open(&config)?;
    route.count = producer.partitions(&route.topic, options)?;
    if guarantee == "exactly-once" {
        return Ok(Box::new(TransactionalSink::open(options, config, route, encoder)?));
    }
    Ok(Box::new(PlainSink { producer, route, encoder, is_lossy: guarantee == "none" }))
}

/// Where messages go.
pub(super) struct Route {
    pub topic: String,
    partitioner: Partitioner,
    /// Partitions of the topic.
    count: i32,
    counted: Instant,
    options: Options,
}

#[derive(Clone)]
enum Partitioner {
    /// By the key, or any: the client decides.
    Client,
    /// The first partition.
    Fixed,
    /// Number of the next partition.
    RoundRobin(i32),
}

impl Route {
    fn of(options: &Options, topic: String) -> Result<Route, Diagnostic> {
        let all = [
            ("default", Partitioner::Client),
            ("fixed", Partitioner::Fixed),
            ("round-robin", Partitioner::RoundRobin(0)),
        ];
        let partitioner = PARTITIONER.choice(options, &all)?;
        Ok(Route { topic, partitioner, count: 1, counted: Instant::now(), options: options.clone() })
    }

    fn partition(&mut self) -> Option<i32> {
        match &mut self.partitioner {
            Partitioner::Client => None,
            Partitioner::Fixed => Some(0),
            Partitioner::RoundRobin(next) => {
                let partition = *next % self.count;
                *next = (partition + 1) % self.count;
                Some(partition)
            }
        }
    }

    /// Sends the records of a piece.
    pub(super) fn send(&mut self, piece: Encoded, producer: &Producer) -> Result<(), Diagnostic> {
        if matches!(self.partitioner, Partitioner::RoundRobin(_)) && self.counted.elapsed() > REFRESH {
            self.count = producer.partitions(&self.topic, &self.options)?;
            self.counted = Instant::now();
        }
        for record in records(&piece)? {
            let partition = self.partition();
            producer.send(&self.topic, partition, &record)?;
        }
        Ok(())
    }
}

/// Messages that are seen as soon as they are delivered.
struct PlainSink {
    producer: Producer,
    route: Route,
    encoder: Arc<dyn Encoder>,
    /// Whether nobody waits for deliveries before the end.
    is_lossy: bool,
}

impl Sink for PlainSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.route.send(piece, &self.producer)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        if self.is_lossy { self.producer.check() } else { self.producer.flush() }
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        self.producer.flush()
    }
}
