//! The token topic: which checkpoint of a job was committed last.
//!
//! A token is a message within the transaction of the checkpoint's span: its key names the job and the sink, its value is
//! the number of the checkpoint. So it is seen if, and only if, the rows of the span are. The topic is compacted.

use super::client::{Cluster, Trouble, create, is_outage};
use super::options::{CONNECT_TIMEOUT, TOKEN_TOPIC};
use super::producer::Producer;
use super::record::Record;
use super::topics::{Partition, Topics};
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{ClientConfig, Message, Offset};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// How long reading the topic may take without any message.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one look for an answer takes.
const MOMENT: Duration = Duration::from_millis(10);

/// The token topic of a sink, and the key of its tokens.
#[derive(Clone)]
pub(super) struct Tokens {
    topic: String,
    key: String,
    config: ClientConfig,
    options: Options,
}

impl Tokens {
    /// The tokens of the sink that `key` names.
    pub(super) fn new(options: &Options, config: &ClientConfig, key: String) -> Tokens {
        let topic = TOKEN_TOPIC.text(options).to_string();
        let mut config = config.clone();
        config.remove("transactional.id");
        Tokens { topic, key, config, options: options.clone() }
    }

    /// Sends a token; `None` takes tokens back.
    pub(super) fn send(&self, producer: &Producer, checkpoint: Option<u64>) -> Result<(), Diagnostic> {
        let value = checkpoint.map(|checkpoint| checkpoint.to_string());
        let (key, value) = (Some(self.key.as_bytes()), value.as_deref().map(str::as_bytes));
        producer.send(&self.topic, None, &Record { key, value, ..Record::default() })
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

    /// Waits until all that is in the topic now is committed or aborted: behind a transaction of another job that is open,
    /// a reader of committed messages does not see the tokens of this one.
    fn settle(&self, cluster: &Cluster, partitions: &[Partition]) -> Result<(), Diagnostic> {
        let mut config = self.config.clone();
        config.set("isolation.level", "read_uncommitted");
        let all = Cluster::open(&self.options, &config)?;
        let patience = CONNECT_TIMEOUT.duration(&self.options)?;
        let end = |cluster: &Cluster, partition: &Partition| {
            let what = format!("the end of {partition}");
            cluster.ask(&what, |consumer, timeout| {
                consumer.fetch_watermarks(&partition.topic, partition.number, timeout).map(|(_, end)| end)
            })
        };
        for partition in partitions {
            let (written, start) = (end(&all, partition)?, Instant::now());
            while end(cluster, partition)? < written {
                if start.elapsed() > patience {
                    let message = format!(
                        "another job has a transaction open in the topic '{}', behind which the tokens of this job are not seen",
                        self.topic
                    );
                    return Err(Diagnostic::new(code::CONNECTION_FAILED, message).at(whole(&self.topic)).advise(
                        "start that job again, which ends its transaction, or wait for its 'properties.transaction.timeout.ms'; \
                         jobs with a 'sink.token-topic' of their own do not wait for others",
                    ));
                }
                thread::sleep(MOMENT);
            }
        }
        Ok(())
    }

    /// The checkpoint of the last token.
    pub(super) fn last(&self) -> Result<Option<u64>, Diagnostic> {
        let mut config = self.config.clone();
        for (name, value) in [
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
        ] {
            config.set(name, value);
        }
        super::properties::default(&mut config, "group.id", "millstream");
        let cluster = Cluster::open(&self.options, &config)?;
        let topics = Topics::Listed(vec![self.topic.clone()]);
        let partitions = topics.partitions(&cluster)?;
        self.settle(&cluster, &partitions)?;
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            let added = list.add_partition_offset(&partition.topic, partition.number, Offset::Beginning);
            added.map_err(|e| Diagnostic::bug(format!("{partition} cannot be read: {e}")))?;
        }
        let failed = |what: &str| {
            Diagnostic::new(code::READ_FAILED, format!("the topic '{}' cannot be read: {what}", self.topic))
                .at(whole(&self.topic))
        };
        cluster.consumer.assign(&list).map_err(|e| failed(&e.to_string()))?;
        let (mut last, mut open, mut heard) = (None, partitions.len(), Instant::now());
        while open > 0 {
            match cluster.consumer.poll(Duration::from_millis(100)) {
                None if heard.elapsed() > PATIENCE => {
                    return Err(Diagnostic { code: code::CONNECTION_FAILED, ..failed("the brokers do not answer") });
                }
                None => continue,
                Some(Ok(message)) if message.key() == Some(self.key.as_bytes()) => {
                    last = message.payload().map(<[u8]>::to_vec);
                }
                Some(Ok(_)) => {}
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(error)) if error.rdkafka_error_code().is_some_and(super::client::is_refusal) => {
                    return Err(failed(&error.to_string()));
                }
                Some(Err(_)) => continue,
            }
            heard = Instant::now();
        }
        let Some(token) = last else { return Ok(None) };
        String::from_utf8_lossy(&token).parse().map(Some).map_err(|_| failed("a token is damaged"))
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
