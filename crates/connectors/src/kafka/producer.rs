//! A producer whose deliveries are counted: it blocks while its queue is full, and knows when all is delivered.

use super::client::{Trouble, create, is_outage, reason};
use super::options::CONNECT_TIMEOUT;
use super::properties::default;
use super::record::Record;
use crate::locked;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientConfig, Message};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one look for a change takes.
const MOMENT: Duration = Duration::from_millis(20);
/// How long a topic is looked for that is not there: brokers may create it when they are asked for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Producer {
    pub(super) client: ThreadedProducer<Listener>,
}

#[derive(Default)]
struct ProducerState {
    /// Messages that were sent and are neither delivered nor lost.
    pending: u64,
    /// The first that was lost: why, its topic, and its size.
    lost: Option<(KafkaError, String, usize)>,
}

/// Is told of deliveries, by the client's thread.
#[derive(Default)]
pub(super) struct Listener {
    /// What is on its way.
    state: Mutex<ProducerState>,
    changed: Condvar,
    /// What is wrong with the client.
    pub(super) trouble: Trouble,
}

impl ClientContext for Listener {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        self.trouble.note_log(facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.note(&error, reason);
    }
}

impl ProducerContext for Listener {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut state = locked(&self.state);
        state.pending -= 1;
        if let Err((error, message)) = result {
            let size = message.payload().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len);
            state.lost.get_or_insert_with(|| (error.clone(), message.topic().to_string(), size));
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl Producer {
    /// A producer with these settings, and defaults for what they leave open. Nothing is sent yet.
    pub(super) fn open(config: &ClientConfig) -> Result<Producer, Diagnostic> {
        let mut config = config.clone();
        // As clients in Java do, so that equal keys come to the same partition whoever writes them.
        default(&mut config, "partitioner", "murmur2_random");
        default(&mut config, "queue.buffering.max.kbytes", "65536");
        default(&mut config, "reconnect.backoff.max.ms", "1000");
        if config.get("acks").or(config.get("request.required.acks")).is_none_or(|acks| matches!(acks, "all" | "-1")) {
            // What is sent again after a failure is neither twice there nor in another order.
            default(&mut config, "enable.idempotence", "true");
        }
        Ok(Producer { client: create(&config, Listener::default())? })
    }

    /// What is known of the client.
    pub(super) fn listener(&self) -> &Listener {
        self.client.client().context()
    }

    /// The number of partitions of a topic; waits for brokers as long as the table's options say.
    pub(super) fn partitions(&self, topic: &str, options: &Options) -> Result<i32, Diagnostic> {
        let timeout = CONNECT_TIMEOUT.duration(options)?;
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let attempt = Duration::from_secs(2).min(left).max(Duration::from_millis(100));
            let metadata = self.client.client().fetch_metadata(Some(topic), attempt);
            let error = match &metadata {
                Ok(metadata) => {
                    let found = metadata.topics().iter().find(|found| found.name() == topic);
                    match found.map(|found| (found.partitions().len(), found.error().map(RDKafkaErrorCode::from))) {
                        Some((count, None)) if count > 0 => return Ok(count as i32),
                        Some((_, Some(RDKafkaErrorCode::TopicAuthorizationFailed))) => {
                            let message = format!("the user may not write the topic '{topic}'");
                            return Err(Diagnostic::new(code::WRITE_FAILED, message).at(whole(topic)));
                        }
                        _ if start.elapsed() > PATIENCE.min(timeout) => return Err(super::topics::no_topic(topic)),
                        _ => None,
                    }
                }
                Err(error) => Some(error),
            };
            let refusal = self.listener().trouble.last().is_some_and(|(code, _)| super::client::is_hopeless(code));
            if let Some(error) = error.filter(|_| refusal || left.is_zero()) {
                let servers = options.get("properties.bootstrap.servers").unwrap_or_default();
                let what = format!("the partitions of the topic '{topic}'");
                return Err(super::client::unreachable(&what, servers, error, &self.listener().trouble));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Hands a message to the client; waits while its queue is full. Fails if an earlier message was lost. Without a `partition` the
    /// message goes to that of its key, or any.
    pub(super) fn send(&self, topic: &str, partition: Option<i32>, message: &Record<'_>) -> Result<(), Diagnostic> {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
        (record.partition, record.key, record.payload) = (partition, message.key, message.value);
        record.timestamp = message.timestamp;
        if !message.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(message.headers.len());
            record.headers = Some(
                message
                    .headers
                    .iter()
                    .fold(headers, |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() })),
            );
        }
        self.state(|state| state.pending += 1)?;
        loop {
            match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => record = again,
                Err((error, record)) => {
                    let size = record.payload.map_or(0, <[u8]>::len) + record.key.map_or(0, <[u8]>::len);
                    self.state(|state| state.pending -= 1)?;
                    return Err(self.lost(&error, topic, size));
                }
            }
            self.wait()?;
        }
    }

    /// Waits until all that was sent is delivered.
    pub(super) fn flush(&self) -> Result<(), Diagnostic> {
        while self.state(|state| state.pending)? > 0 {
            // Tells the client not to wait for more.
            _ = self.client.flush(Duration::ZERO);
            self.wait()?;
        }
        Ok(())
    }

    /// Fails if a message was lost.
    pub(super) fn check(&self) -> Result<(), Diagnostic> {
        self.state(|_| ())
    }

    /// Forgets what was not delivered.
    pub(super) fn purge(&self) {
        self.client.purge(PurgeConfig::default().queue().inflight());
    }

    fn state<T>(&self, look: impl FnOnce(&mut ProducerState) -> T) -> Result<T, Diagnostic> {
        let mut state = locked(&self.listener().state);
        match &state.lost {
            Some((error, topic, size)) => Err(self.lost(error, topic, *size)),
            None => Ok(look(&mut state)),
        }
    }

    /// Whether brokers do not listen to the client any more.
    pub(super) fn is_fenced(&self) -> bool {
        self.client.client().fatal_error().is_some_and(|(code, _)| is_fenced(code))
    }

    /// The error for a message that cannot be delivered.
    fn lost(&self, error: &KafkaError, topic: &str, size: usize) -> Diagnostic {
        if self.is_fenced() { fenced() } else { lost(error, topic, size, &self.listener().trouble) }
    }

    /// Waits a moment for deliveries.
    fn wait(&self) -> Result<(), Diagnostic> {
        let state = locked(&self.listener().state);
        if state.pending > 0 && state.lost.is_none() {
            drop(self.listener().changed.wait_timeout(state, MOMENT).unwrap_or_else(PoisonError::into_inner));
            return Ok(());
        }
        drop(state);
        self.check()
    }
}

/// The error for a message that cannot be delivered.
fn lost(error: &KafkaError, topic: &str, size: usize, trouble: &Trouble) -> Diagnostic {
    use RDKafkaErrorCode as E;
    let code = error.rdkafka_error_code().unwrap_or(E::Unknown);
    let (message, advice) = match code {
        E::MessageSizeTooLarge | E::InvalidMessageSize | E::MessageBatchTooLarge => (
            format!("a message of {size} bytes for the topic '{topic}' is larger than is allowed"),
            "raise 'properties.max.request.size', and 'max.message.bytes' of the topic",
        ),
        E::UnknownTopicOrPartition | E::UnknownTopic | E::UnknownPartition => (
            format!("the topic '{topic}', or its partition, does not exist any more"),
            "create the topic again, or correct the option 'topic'",
        ),
        E::MessageTimedOut => (
            format!("the brokers have not taken a message for the topic '{topic}' in time: {}", reason(error, trouble)),
            "see why the brokers are away; 'properties.delivery.timeout.ms' says how long is tried",
        ),
        code if is_fenced(code) => return fenced(),
        _ => (
            format!("a message for the topic '{topic}' was not delivered: {}", reason(error, trouble)),
            "see the brokers' logs, and the user's rights",
        ),
    };
    let kind = if is_outage(code) { code::CONNECTION_LOST } else { code::WRITE_FAILED };
    Diagnostic::new(kind, message).at(whole(topic)).advise(advice)
}

/// Whether brokers listen to a younger producer of the same transactional id, or hold the transaction for dead.
pub(super) fn is_fenced(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(code, E::Fenced | E::ProducerFenced | E::InvalidProducerEpoch | E::TransactionCoordinatorFenced)
}

/// The error for a producer that brokers do not listen to any more.
pub(super) fn fenced() -> Diagnostic {
    let message = "the transaction is not this process's any more: another process has taken over its transactional id, or it \
        was open for longer than 'properties.transaction.timeout.ms'";
    Diagnostic::new(code::WRITE_FAILED, message).advise(
        "run a job once only; otherwise let checkpoints come more often than the timeout, or raise it, and recover the job",
    )
}
