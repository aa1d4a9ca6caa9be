//! The broker of the tests, its topics, and what is in them.

use arrow_array::RecordBatch;
use arrow_cast::display::array_value_to_string;
use millstream::{Diagnostic, Session, SessionConfig};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A broker. Tests that stop it have it for themselves, the others share it.
pub struct Kafka {
    pub servers: String,
    directory: PathBuf,
    port: u16,
}

static BROKER: OnceLock<Option<RwLock<Kafka>>> = OnceLock::new();

fn broker() -> Option<&'static RwLock<Kafka>> {
    let start = || match std::env::var("MILLSTREAM_KAFKA").as_deref() {
        Ok("start") => Some(RwLock::new(Kafka::start())),
        _ => None,
    };
    BROKER.get_or_init(start).as_ref()
}

/// The broker, if there is to be one.
pub fn shared() -> Option<RwLockReadGuard<'static, Kafka>> {
    broker().map(|broker| broker.read().unwrap_or_else(|e| e.into_inner()))
}

/// The broker for one test alone.
pub fn alone() -> Option<RwLockWriteGuard<'static, Kafka>> {
    broker().map(|broker| broker.write().unwrap_or_else(|e| e.into_inner()))
}

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl Record {
    /// The value as text.
    pub fn text(&self) -> &str {
        self.value.as_deref().map_or("", |value| std::str::from_utf8(value).unwrap())
    }
}

impl Kafka {
    fn start() -> Kafka {
        // Below the ports that systems hand to outgoing connections: a connection of another test may take one of those while the
        // broker starts. The script uses the ports behind as well.
        let is_free = |port: u16| (0..=5).all(|behind| TcpListener::bind(("127.0.0.1", port + behind)).is_ok());
        let from = std::process::id() as u16 % 2000;
        let mut ports = (0..2000).map(|at| 10_000 + (from + at) % 2000 * 10);
        let port = ports.find(|&port| is_free(port)).unwrap();
        let directory = std::env::temp_dir().join(format!("millstream-kafka-{}", std::process::id()));
        let kafka = Kafka { servers: format!("127.0.0.1:{port}"), directory, port };
        kafka.restart();
        kafka
    }

    fn script(&self, arguments: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kafka.sh");
        let (command, rest) = arguments.split_first().unwrap();
        let mut script = Command::new(script);
        script.env("KAFKA_LISTENERS", "all").arg(command).arg(&self.directory).args(rest);
        let output = script.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the broker again.
    pub fn restart(&self) {
        self.script(&["start", &self.port.to_string(), &std::process::id().to_string()]);
    }

    /// Ends the broker as a crash would.
    pub fn kill(&self) {
        self.script(&["kill"]);
    }

    /// Where it speaks SASL_SSL.
    pub fn with_password(&self) -> String {
        format!("127.0.0.1:{}", self.port + 2)
    }

    /// Where it speaks SSL, and wants to see a certificate.
    pub fn with_certificate(&self) -> String {
        format!("127.0.0.1:{}", self.port + 3)
    }

    /// Where it sends clients to the second port, where something listens that stands in between.
    pub fn between(&self) -> (u16, u16) {
        (self.port + 4, self.port + 5)
    }

    /// A certificate or key.
    pub fn file(&self, name: &str) -> String {
        self.directory.join("tls").join(name).display().to_string()
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers).set("group.id", "tests").set("enable.auto.commit", "false");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// A new topic.
    pub fn topic(&self, partitions: i32) -> String {
        self.topic_with(partitions, &[])
    }

    /// A new topic with settings.
    pub fn topic_with(&self, partitions: i32, settings: &[(&str, &str)]) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("topic-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.create(&name, partitions, settings);
        name
    }

    /// Creates a topic.
    pub fn create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let topic = settings.iter().fold(topic, |topic, (key, value)| topic.set(key, value));
        let created = block_on(self.admin().create_topics([&topic], &options())).unwrap();
        created[0].as_ref().unwrap();
    }

    /// Deletes a topic.
    pub fn delete(&self, name: &str) {
        block_on(self.admin().delete_topics(&[name], &options())).unwrap()[0].as_ref().unwrap();
    }

    /// Deletes the messages before an offset of partition 0.
    pub fn truncate(&self, name: &str, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(name, 0, Offset::Offset(offset)).unwrap();
        block_on(self.admin().delete_records(&list, &options())).unwrap();
    }

    /// Gives a topic more partitions.
    pub fn grow(&self, name: &str, partitions: usize) {
        let partitions = NewPartitions::new(name, partitions);
        block_on(self.admin().create_partitions([&partitions], &options())).unwrap()[0].as_ref().unwrap();
    }

    /// Sends values to a partition.
    pub fn send(&self, topic: &str, partition: i32, values: &[&str]) {
        let records: Vec<Record> = values
            .iter()
            .map(|value| Record { partition, value: Some(value.as_bytes().to_vec()), ..Record::default() })
            .collect();
        self.send_records(topic, &records, None);
    }

    /// Sends values to a partition in a transaction.
    pub fn send_in_transaction(&self, topic: &str, partition: i32, values: &[&str]) {
        let producer: BaseProducer = self.config().set("transactional.id", topic).create().unwrap();
        producer.init_transactions(Duration::from_secs(30)).unwrap();
        producer.begin_transaction().unwrap();
        for value in values {
            let record: BaseRecord<'_, [u8], [u8]> =
                BaseRecord::to(topic).partition(partition).payload(value.as_bytes());
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.commit_transaction(Duration::from_secs(30)).unwrap();
    }

    /// Sends messages, at a time.
    pub fn send_records(&self, topic: &str, records: &[Record], timestamp: Option<i64>) {
        let producer: BaseProducer = self.config().create().unwrap();
        for record in records {
            let mut outgoing: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(record.partition);
            (outgoing.key, outgoing.payload) = (record.key.as_deref(), record.value.as_deref());
            outgoing.timestamp = timestamp;
            if !record.headers.is_empty() {
                let insert =
                    |all: OwnedHeaders, (key, value): &(String, String)| all.insert(Header { key, value: Some(value) });
                outgoing.headers = Some(record.headers.iter().fold(OwnedHeaders::new(), insert));
            }
            producer.send(outgoing).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(Duration::from_secs(30)).unwrap();
    }

    /// What a reader of committed messages sees of a topic now, in order of partitions and offsets.
    pub fn read(&self, topic: &str) -> Vec<Record> {
        let mut config = self.config();
        config.set("enable.partition.eof", "true").set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).unwrap();
        let mut open = metadata.topics()[0].partitions().len();
        let mut list = TopicPartitionList::new();
        for partition in metadata.topics()[0].partitions() {
            list.add_partition_offset(topic, partition.id(), Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        let mut records = Vec::new();
        while open > 0 {
            match consumer.poll(Duration::from_secs(10)).expect("an answer in ten seconds") {
                Ok(message) => records.push(Record {
                    partition: message.partition(),
                    offset: message.offset(),
                    key: message.key().map(<[u8]>::to_vec),
                    value: message.payload().map(<[u8]>::to_vec),
                    headers: message.headers().into_iter().flat_map(|all| all.iter()).map(header).collect(),
                }),
                Err(KafkaError::PartitionEOF(_)) => open -= 1,
                Err(error) => panic!("{error}"),
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    /// The values of a topic as text.
    pub fn texts(&self, topic: &str) -> Vec<String> {
        self.read(topic).iter().map(|record| record.text().to_string()).collect()
    }

    /// Waits until the values that are seen are right. A commit is one for the brokers before its marks are in all partitions; how
    /// many rows that hides depends on how long they were busy, since checkpoints wait for each other while rows come.
    pub fn shows(&self, topic: &str, is_right: impl Fn(&[String]) -> bool) {
        let start = Instant::now();
        loop {
            let texts = self.texts(topic);
            if is_right(&texts) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{} messages: {:?}", texts.len(), texts.last());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a group has committed of partition 0.
    pub fn committed(&self, group: &str, topic: &str) -> Option<i64> {
        let consumer: BaseConsumer = self.config().set("group.id", group).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, 0);
        let list = consumer.committed_offsets(list, Duration::from_secs(10)).unwrap();
        list.elements()[0].offset().to_raw().filter(|offset| *offset >= 0)
    }

    /// CREATE TABLE over a topic that is read from its start to its end, with further options.
    pub fn table(&self, name: &str, columns: &str, topic: &str, options: &str) -> String {
        let mut text = format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', \
             'properties.bootstrap.servers' = '{}'",
            self.servers
        );
        let defaults =
            [("scan.startup.mode", "earliest-offset"), ("scan.bounded.mode", "latest-offset"), ("format", "json")];
        for (key, value) in defaults {
            let is_given =
                options.contains(&format!("'{key}'")) || (key == "format" && options.contains("'value.format'"));
            if !is_given {
                text.push_str(&format!(", '{key}' = '{value}'"));
            }
        }
        format!("{text}{}{options});\n", if options.is_empty() { "" } else { ", " })
    }
}

fn header(header: Header<'_, &[u8]>) -> (String, String) {
    (header.key.to_string(), String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned())
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The rows of a script's last query as text, sorted.
pub fn rows(script: &str) -> Result<Vec<String>, Diagnostic> {
    let mut session = Session::new(SessionConfig::default());
    session.set("pipeline.tier", "interpreted")?;
    session.query(script).map(|batch| texts(&batch))
}

/// The rows of a batch as text, sorted.
pub fn texts(batch: &RecordBatch) -> Vec<String> {
    let row = |row: usize| {
        let cells: Vec<String> = batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap()).collect();
        cells.join(",")
    };
    let mut rows: Vec<String> = (0..batch.num_rows()).map(row).collect();
    rows.sort();
    rows
}

/// Runs a script.
pub fn run(script: &str) -> Result<(), Diagnostic> {
    let mut session = Session::new(SessionConfig::default());
    session.set("pipeline.tier", "interpreted")?;
    session.run(script)
}
