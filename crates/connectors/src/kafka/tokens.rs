//! The token topic: which checkpoint of a job was committed last.
//!
//! A token is a message within the transaction of the checkpoint's span: its key names the job and the sink (and the node, where spans are
//! those of nodes), its value is the number of the checkpoint. So it is seen if, and only if, the rows of the span are. The topic is compacted.

use super::client::{Cluster, Trouble, create, is_outage};
use super::options::{CONNECT_TIMEOUT, TOKEN_TOPIC};
use super::producer::Producer;
use super::record::Record;
use super::topics::{Partition, Topics};
use super::transactional::TransactionSettings;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{ClientConfig, Message, Offset};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// How long reading the topic may take without any message.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the token of sinks says whose spans are written by nodes.
const SPANS: &str = "spans";

/// How long one look for an answer takes.
const MOMENT: Duration = Duration::from_millis(10);

/// The token topic, as a job uses it.
pub(super) struct Tokens {
    topic: String,
    /// What the keys of the job begin with: `prefix/job/`.
    job: String,
    config: ClientConfig,
    options: Options,
}

/// Who writes a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Writer {
    /// Sinks that share transactions, by the number of the first.
    Sinks(usize),
    /// A node that writes spans of a sink: number of the sink, number of the node.
    Node(usize, usize),
}

/// What a token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The checkpoint that was committed last.
    Checkpoint(u64),
    /// Of sinks: spans are written by nodes, each of which has a token of its own.
    Spans,
}

/// The last tokens of a job.
pub(super) type LastTokens = BTreeMap<Writer, Token>;

impl Tokens {
    /// The tokens of a job.
    pub(super) fn new(settings: &TransactionSettings, job: &str) -> Tokens {
        let topic = TOKEN_TOPIC.text(&settings.options).to_string();
        let job = format!("{}/{job}/", settings.prefix());
        Tokens { topic, job, config: settings.config.clone(), options: settings.options.clone() }
    }

    /// Sends a token; `None` takes tokens back.
    pub(super) fn send(&self, producer: &Producer, writer: Writer, token: Option<Token>) -> Result<(), Diagnostic> {
        let key = self.key(writer);
        let value = token.map(|token| match token {
            Token::Checkpoint(checkpoint) => checkpoint.to_string(),
            Token::Spans => SPANS.to_string(),
        });
        let (key, value) = (Some(key.as_bytes()), value.as_deref().map(str::as_bytes));
        producer.send(&self.topic, None, &Record { key, value, ..Record::default() })
    }

    fn key(&self, writer: Writer) -> String {
        match writer {
            Writer::Sinks(first) => format!("{}{first}", self.job),
            Writer::Node(sink, node) => format!("{}{sink}/{node}", self.job),
        }
    }

    /// Whose token a message is, if it is one of the job.
    fn writer(&self, key: Option<&[u8]>) -> Option<Writer> {
        let rest = std::str::from_utf8(key?).ok()?.strip_prefix(&self.job)?;
        match rest.split_once('/') {
            None => rest.parse().ok().map(Writer::Sinks),
            Some((sink, node)) => Some(Writer::Node(sink.parse().ok()?, node.parse().ok()?)),
        }
    }

    /// Creates the topic unless it is there.
    pub(super) fn create_topic(&self) -> Result<(), Diagnostic> {
        let failed = |code: RDKafkaErrorCode, what: String| {
            let kind = if is_outage(code) { code::CONNECTION_LOST } else { code::WRITE_FAILED };
            Diagnostic::new(kind, format!("the topic '{}' cannot be created: {what}", self.topic))
                .at(whole(&self.topic))
                .advise("create it: kafka-topics.sh --create --topic … --partitions 1 --config cleanup.policy=compact")
        };
        let cluster = Cluster::open(&self.options, &self.config)?;
        let metadata = cluster.ask("the list of topics", |consumer, timeout| consumer.fetch_metadata(None, timeout))?;
        if metadata.topics().iter().any(|topic| topic.name() == self.topic) {
            return Ok(());
        }
        let admin: AdminClient<Trouble> = create(&self.config, Trouble::default())?;
        let topic = NewTopic::new(&self.topic, 1, TopicReplication::Fixed(-1)).set("cleanup.policy", "compact");
        let options = AdminOptions::new()
            .operation_timeout(Some(Duration::from_secs(10)))
            .request_timeout(Some(Duration::from_secs(20)));
        let created = block_on(admin.create_topics([&topic], &options))
            .map_err(|e| failed(e.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown), e.to_string()))?;
        match created.into_iter().next() {
            Some(Err((_, error))) if error != RDKafkaErrorCode::TopicAlreadyExists => {
                Err(failed(error, error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The last tokens of the job, of which none is under way any more: `fence` ends the transaction of a node if its process is gone; whether it has.
    /// Those of others are waited for.
    pub(super) fn last(
        &self,
        mut fence: impl FnMut(usize, usize) -> Result<bool, Diagnostic>,
    ) -> Result<LastTokens, Diagnostic> {
        let [committed, all] = ["read_committed", "read_uncommitted"].map(|isolation| self.reader(isolation));
        let (committed, all) = (committed?, all?);
        let partitions = Topics::Listed(vec![self.topic.clone()]).partitions(&committed)?;
        let mut fenced = BTreeSet::new();
        for partition in &partitions {
            let (written, start) = (self.end(&all, partition)?, Instant::now());
            loop {
                let settled = self.end(&committed, partition)?;
                if settled >= written {
                    break;
                }
                let mut nodes = BTreeSet::new();
                self.scan(&all, &[(partition, Offset::Offset(settled))], |key, _| {
                    if let Some(Writer::Node(sink, node)) = self.writer(key) {
                        nodes.insert((sink, node));
                    }
                    Ok(())
                })?;
                nodes.retain(|node| !fenced.contains(node));
                for (sink, node) in nodes {
                    if fence(sink, node)? {
                        fenced.insert((sink, node));
                    }
                }
                if start.elapsed() > CONNECT_TIMEOUT.duration(&self.options)? {
                    return Err(self.not_settled());
                }
                thread::sleep(MOMENT);
            }
        }
        let mut last = LastTokens::new();
        let beginnings: Vec<(&Partition, Offset)> = partitions.iter().map(|one| (one, Offset::Beginning)).collect();
        self.scan(&committed, &beginnings, |key, value| {
            let Some(writer) = self.writer(key) else { return Ok(()) };
            match value {
                None => last.remove(&writer),
                Some(value) => last.insert(writer, self.token(value)?),
            };
            Ok(())
        })?;
        Ok(last)
    }

    fn token(&self, value: &[u8]) -> Result<Token, Diagnostic> {
        match &*String::from_utf8_lossy(value) {
            SPANS => Ok(Token::Spans),
            number => number.parse().map(Token::Checkpoint).map_err(|_| self.unreadable("a token is damaged")),
        }
    }

    fn reader(&self, isolation: &str) -> Result<Cluster, Diagnostic> {
        let mut config = self.config.clone();
        for (name, value) in [
            ("isolation.level", isolation),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            // The end of the topic is said at once.
            ("fetch.wait.max.ms", "10"),
        ] {
            config.set(name, value);
        }
        super::properties::default(&mut config, "group.id", "millstream");
        Cluster::open(&self.options, &config)
    }

    /// Where a partition ends, for this reader: one of committed messages sees none behind a transaction that is open.
    fn end(&self, cluster: &Cluster, partition: &Partition) -> Result<i64, Diagnostic> {
        let what = format!("the end of {partition}");
        cluster.ask(&what, |consumer, timeout| {
            consumer.fetch_watermarks(&partition.topic, partition.number, timeout).map(|(_, end)| end)
        })
    }

    /// Tells `each` of the messages of partitions, their keys and values, from offsets to the ends.
    fn scan(
        &self,
        cluster: &Cluster,
        partitions: &[(&Partition, Offset)],
        mut each: impl FnMut(Option<&[u8]>, Option<&[u8]>) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in partitions {
            let added = list.add_partition_offset(&partition.topic, partition.number, *offset);
            added.map_err(|e| Diagnostic::bug(format!("{partition} cannot be read: {e}")))?;
        }
        cluster.consumer.assign(&list).map_err(|e| self.unreadable(&e.to_string()))?;
        let (mut open, mut heard) = (partitions.len(), Instant::now());
        while open > 0 {
            match cluster.consumer.poll(Duration::from_millis(100)) {
                None if heard.elapsed() > PATIENCE => {
                    let error = self.unreadable("the brokers do not answer");
                    return Err(Diagnostic { code: code::CONNECTION_FAILED, ..error });
                }
                None => continue,
                Some(Ok(message)) => each(message.key(), message.payload())?,
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(super::client::is_refusal) => {
                    return Err(self.unreadable(&error.to_string()));
                }
                Some(Err(_)) => continue,
            }
            heard = Instant::now();
        }
        cluster.consumer.unassign().map_err(|e| self.unreadable(&e.to_string()))
    }

    fn not_settled(&self) -> Diagnostic {
        let message = format!(
            "another job has a transaction open in the topic '{}', behind which the tokens of this job are not seen",
            self.topic
        );
        Diagnostic::new(code::CONNECTION_FAILED, message).at(whole(&self.topic)).advise(
            "start that job again, which ends its transaction, or wait for its 'properties.transaction.timeout.ms'; \
             jobs with a 'sink.token-topic' of their own do not wait for others",
        )
    }

    fn unreadable(&self, what: &str) -> Diagnostic {
        Diagnostic::new(code::READ_FAILED, format!("the topic '{}' cannot be read: {what}", self.topic))
            .at(whole(&self.topic))
    }
}

/// Waits for an answer of the client, which comes from a thread of its own.
fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::sleep(MOMENT),
        }
    }
}
