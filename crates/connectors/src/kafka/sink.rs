//! The sink: rows are produced as messages, by one client.

use super::exactly_once::ExactlyOnceSink;
use super::fields::set_keys;
use super::options::{GUARANTEE, PARTITIONER};
use super::producer::Producer;
use super::properties::client_config;
use super::record::{Record, RecordEncoder, records};
use crate::changes::not_at_least_once;
use crate::option_table::option_fault;
use crate::{ChangedBy, Encoded, Encoder, RestoredSink, Sink, SinkJob, SinkRequest};
use millstream_types::{Diagnostic, Options, code};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the number of partitions is looked up.
const REFRESH: Duration = Duration::from_secs(60);

/// Opens the sink of a topic; waits for the brokers.
pub(super) fn open(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    open_topic(request, false)
}

/// Opens the sink of a topic in which the last message of a key counts, which is the table's primary key.
pub(super) fn open_upserts(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let mut request = request.clone();
    set_keys(&mut request.options, &request.table, &request.schema, &request.primary_key)?;
    open_topic(&request, true)
}

fn open_topic(request: &SinkRequest, is_upserted: bool) -> Result<Box<dyn Sink>, Diagnostic> {
    let options = &request.options;
    let topic = options.require("topic")?.trim().to_string();
    if topic.contains(';') {
        return Err(options.invalid("topic", "one topic, as a sink needs it"));
    }
    let config = client_config(options)?;
    let guarantee = GUARANTEE.choice(options, &["none", "at-least-once", "exactly-once"].map(|name| (name, name)))?;
    let mut route = Route::of(options, topic)?;
    let encoder: Arc<dyn Encoder> = Arc::new(RecordEncoder::open(request, is_upserted)?);
    let producer = Producer::open(&config)?;
    route.count = producer.partitions(&route.topic, options)?;
    let changes = request.changes.is_some();
    if let Some(changed) = &request.changes {
        route.check_keeps_order(request, changed)?;
    }
    if guarantee == "exactly-once" {
        return Ok(Box::new(ExactlyOnceSink::open(options, config, route, encoder)?));
    }
    Ok(Box::new(PlainSink { producer, route, encoder, is_lossy: guarantee == "none", changes }))
}

/// Where messages go.
#[derive(Clone)]
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

    /// The changes of a row must be read in their order, so they have to be in one partition.
    fn check_keeps_order(&self, request: &SinkRequest, changed: &ChangedBy) -> Result<(), Diagnostic> {
        let (options, fields) = (&request.options, &request.schema.fields);
        let of_key: Vec<&str> = options.get("key.fields").unwrap_or_default().split(';').map(str::trim).collect();
        let has_key = of_key.iter().any(|name| !name.is_empty());
        // An update of a column that does not tell rows apart would be in another partition than what it replaces.
        let tells = |name: &str, key: &[usize]| name.is_empty() || key.iter().any(|&at| fields[at].name == name);
        let moving = changed.key.as_deref().and_then(|key| of_key.iter().find(|name| !tells(name, key)).zip(Some(key)));
        match self.partitioner {
            Partitioner::RoundRobin(_) => Err(options
                .invalid(PARTITIONER.key, "'default' or 'fixed' for a result that changes")
                .advise("'default' sends all changes of a key to one partition, in their order")),
            Partitioner::Client if !has_key && self.count > 1 => {
                let message = format!(
                    "the result changes, and messages without keys can be in any of the {} partitions of topic '{}', in any order",
                    self.count, self.topic
                );
                Err(option_fault(
                    code::MISSING_OPTION,
                    "key.fields",
                    message,
                    "give the columns that tell rows apart: 'key.format' = 'json', 'key.fields' = 'k'",
                ))
            }
            Partitioner::Client if self.count > 1 => match moving {
                None => Ok(()),
                Some((column, key)) => {
                    let names: Vec<&str> = key.iter().map(|&at| fields[at].name.as_str()).collect();
                    let advice = match names[..] {
                        [] => "the result is one row: write to a topic of one partition".to_string(),
                        _ => format!("name columns that tell rows apart: 'key.fields' = '{}'", names.join(";")),
                    };
                    let message = format!(
                        "'key.fields' has `{column}`, which an update of a row may change: its changes would be in several of the {} partitions",
                        self.count
                    );
                    Err(option_fault(code::INVALID_OPTION, "key.fields", message, advice))
                }
            },
            _ => Ok(()),
        }
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
    pub(super) fn send_all(&mut self, piece: &Encoded, producer: &Producer) -> Result<(), Diagnostic> {
        records(piece)?.try_for_each(|record| self.send(&record, producer))
    }

    /// Sends a record.
    pub(super) fn send(&mut self, record: &Record<'_>, producer: &Producer) -> Result<(), Diagnostic> {
        if matches!(self.partitioner, Partitioner::RoundRobin(_)) && self.counted.elapsed() > REFRESH {
            self.count = producer.partitions(&self.topic, &self.options)?;
            self.counted = Instant::now();
        }
        let partition = self.partition();
        producer.send(&self.topic, partition, record)
    }
}

/// Messages that are seen as soon as they are delivered.
struct PlainSink {
    producer: Producer,
    route: Route,
    encoder: Arc<dyn Encoder>,
    /// Whether nobody waits for deliveries before the end.
    is_lossy: bool,
    /// Whether rows are taken back.
    changes: bool,
}

impl Sink for PlainSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.route.send_all(&piece, &self.producer)
    }

    fn begin(&mut self, _: &SinkJob, _: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        let advice = "set 'sink.delivery-guarantee' = 'exactly-once', or run without a state directory";
        if self.changes { Err(not_at_least_once(advice)) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        if self.is_lossy { self.producer.check() } else { self.producer.flush() }
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        self.producer.flush()
    }
}
