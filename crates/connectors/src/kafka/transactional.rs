//! A producer with a transactional id: whoever had the id before is not heard any more.

use super::client::{is_outage, reason};
use super::options::{CONNECT_TIMEOUT, ID_PREFIX};
use super::producer::{Producer, fenced, is_fenced};
use crate::SinkJob;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use std::time::{Duration, Instant};

/// How long one call of the client may take; it is made again while there is hope.
pub(super) const ATTEMPT: Duration = Duration::from_secs(10);
/// Pause before a call is made again.
const PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: &str = "transaction.timeout.ms";

/// Ids that are taken over at once, each by a client with threads of its own.
const AT_ONCE: usize = 16;

/// What the id of a node ends in.
pub(super) fn id_of_node(node: usize) -> String {
    format!("node-{node}")
}

/// The error where a thread that takes over an id has panicked.
pub(super) fn panicked() -> Diagnostic {
    Diagnostic::bug("taking over a transactional id has panicked")
}

/// What producers of a sink are made with.
#[derive(Clone)]
pub(super) struct TransactionSettings {
    pub(super) options: Options,
    pub(super) config: ClientConfig,
    /// How long a transaction may be open.
    pub(super) timeout: Duration,
}

impl TransactionSettings {
    pub(super) fn new(options: &Options, mut config: ClientConfig) -> Result<TransactionSettings, Diagnostic> {
        // The most that brokers allow unless they are told otherwise.
        super::properties::default(&mut config, TIMEOUT, "900000");
        let timeout = config.get(TIMEOUT).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let key = format!("properties.{TIMEOUT}");
        let timeout = timeout.ok_or_else(|| options.invalid(&key, "a number of milliseconds"))?;
        Ok(TransactionSettings { options: options.clone(), config, timeout })
    }

    /// What the ids of a sink begin with.
    pub(super) fn prefix(&self) -> &str {
        ID_PREFIX.text(&self.options)
    }

    /// All of them: sinks share what has the same.
    pub(super) fn text(&self) -> String {
        let mut settings: Vec<String> = self.config.config_map().iter().map(|(k, v)| format!("{k}={v}")).collect();
        settings.sort();
        format!("kafka {} {}", self.options.get("sink.token-topic").unwrap_or_default(), settings.join(" "))
    }

    /// Takes over the id of a node for a sink.
    pub(super) fn take_over_node(
        &self,
        job: &SinkJob,
        sink: usize,
        node: usize,
    ) -> Result<TransactionalProducer, Diagnostic> {
        self.take_over(job, sink, &id_of_node(node))
    }

    /// Takes over ids of a sink, several at once: each takes half a second at times.
    pub(super) fn take_over_all(
        &self,
        job: &SinkJob,
        names: &[String],
    ) -> Result<Vec<TransactionalProducer>, Diagnostic> {
        let mut producers = Vec::with_capacity(names.len());
        for some in names.chunks(AT_ONCE) {
            let taken: Vec<_> = std::thread::scope(|scope| {
                let taking: Vec<_> =
                    some.iter().map(|name| scope.spawn(move || self.take_over(job, job.sink, name))).collect();
                taking.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
            });
            for producer in taken {
                producers.push(producer.unwrap_or_else(|_| Err(panicked()))?);
            }
        }
        Ok(producers)
    }

    /// Takes over an id of a sink: what its producer had not committed is aborted.
    pub(super) fn take_over(
        &self,
        job: &SinkJob,
        sink: usize,
        name: &str,
    ) -> Result<TransactionalProducer, Diagnostic> {
        let mut config = self.config.clone();
        config.set("transactional.id", format!("{}-{}-{sink}-{name}", self.prefix(), job.job));
        let patience = CONNECT_TIMEOUT.duration(&self.options)?.max(Duration::from_secs(30));
        let producer = TransactionalProducer { producer: Producer::open(&config)?, timeout: self.timeout };
        producer.retried(patience, "transactions cannot be begun", || {
            producer.producer.client.init_transactions(ATTEMPT)
        })?;
        Ok(producer)
    }
}

/// See the module.
pub(super) struct TransactionalProducer {
    pub(super) producer: Producer,
    timeout: Duration,
}

impl TransactionalProducer {
    pub(super) fn begin(&self) -> Result<(), Diagnostic> {
        let begun = self.producer.client.begin_transaction();
        begun.map_err(|error| self.failed(&error, "a transaction cannot be begun"))
    }

    /// Commits the transaction, which is tried as long as it may be open.
    pub(super) fn commit(&self) -> Result<(), Diagnostic> {
        self.producer.flush()?;
        self.retried(self.timeout, "a transaction cannot be committed", || {
            self.producer.client.commit_transaction(ATTEMPT)
        })
    }

    /// Readers need not wait for the transaction's timeout to know that it will not be committed.
    pub(super) fn abort(&self) {
        self.producer.purge();
        _ = self.producer.client.abort_transaction(ATTEMPT);
    }

    /// Writes what `write` sends, all or nothing.
    pub(super) fn in_transaction(
        &self,
        write: impl FnOnce(&Producer) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        self.begin()?;
        let written = write(&self.producer).and_then(|()| self.commit());
        if written.is_err() {
            self.abort();
        }
        written
    }

    /// Calls the client until it succeeds, there is no hope, or the time is over.
    fn retried(
        &self,
        patience: Duration,
        what: &str,
        call: impl Fn() -> Result<(), KafkaError>,
    ) -> Result<(), Diagnostic> {
        let start = Instant::now();
        loop {
            let Err(error) = call() else { return Ok(()) };
            let has_hope = match &error {
                KafkaError::Transaction(error) => error.is_retriable(),
                KafkaError::Flush(_) => true,
                _ => false,
            };
            if !has_hope || start.elapsed() > patience {
                return Err(self.failed(&error, what));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn failed(&self, error: &KafkaError, what: &str) -> Diagnostic {
        let producer = &self.producer;
        let code = match error {
            KafkaError::Transaction(error) => error.code(),
            error => error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown),
        };
        if is_fenced(code) || producer.is_fenced() {
            return fenced();
        }
        // The error says that messages were lost, the message which.
        if let Err(lost) = producer.check() {
            return lost;
        }
        let text = match error {
            KafkaError::Transaction(error) => error.to_string(),
            error => reason(error, &producer.listener().trouble),
        };
        let kind = if is_outage(code) { code::CONNECTION_LOST } else { code::WRITE_FAILED };
        Diagnostic::new(kind, format!("{what}: {text}")).advise(match code {
            RDKafkaErrorCode::InvalidTransactionTimeout => {
                "lower 'properties.transaction.timeout.ms', or raise 'transaction.max.timeout.ms' of the brokers"
            }
            RDKafkaErrorCode::TransactionalIdAuthorizationFailed => "have the user granted the transactional ids",
            _ => "see the brokers' logs; the job can be recovered from its checkpoints",
        })
    }
}
