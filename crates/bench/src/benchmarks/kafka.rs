//! `make bench-kafka`: from Kafka to Kafka, exactly once, beside reading alone and decoding alone.
//!
//! A broker is started for it (`scripts/kafka.sh`), on this machine: it takes its share of the processor from whoever reads.

use super::state::{BLOCK, Keys, Stream};
use crate::generator::free_ports;
use crate::suite::{Across, Benchmark, Case, Failure, Measured, Runs, Suite, System, session, timed};
use millstream::{Collected, Outcome, RunMonitor, Session};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::json;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "kafka",
    title: "from Kafka to Kafka, exactly once",
    data: "4 M JSON messages of some 60 bytes in four partitions: k (10,000 values at random), v, event_time (100 rows a millisecond)",
    query: "count by key and 10 s, written to Kafka as JSON in transactions with a checkpoint every second",
    measured: "the whole statement, from connecting to the commit of the last transaction; beside it decoding alone (all columns into a sink
               that drops them) and reading alone (librdkafka by one thread, nothing decoded)",
    runs: Runs::Named,
    run,
};

const ROWS: u64 = 4_000_000;
const KEYS: u64 = 10_000;
const ROWS_PER_MS: u64 = 100;
const PARTITIONS: i32 = 4;
const INPUT: &str = "input";
const OUTPUT: &str = "output";
/// How long the broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

const COLUMNS: &str = "k BIGINT, v BIGINT, event_time TIMESTAMP(3)";
const COUNT: &str = "INSERT INTO counts SELECT k, window_start, COUNT(*)
    FROM TABLE(TUMBLE(TABLE messages, DESCRIPTOR(event_time), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end";
const DECODE: &str = "INSERT INTO nothing SELECT k, v, event_time FROM messages";

/// Fills a topic and reads it in each way.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let broker = &Broker::start(suite.options.directory.join("kafka"))?;
    broker.create(INPUT)?;
    broker.create(OUTPUT)?;
    let stream = Stream::new(Keys::Random(KEYS), suite.rows(ROWS).div_ceil(BLOCK), ROWS_PER_MS);
    let threads = suite.threads();
    suite.generate("messages", || broker.fill(&stream, threads))?;
    let rows = stream.rows();
    let state = suite.options.directory.join("kafka-state");
    let mut runs = 0;
    let count = System::measured("millstream", threads, move || {
        // A new job each time.
        runs += 1;
        let directory = Path::join(&state, format!("{}-{runs}", std::process::id()));
        let measured = broker.execute(threads, rows, COUNT, Some((&directory, runs)));
        std::fs::remove_dir_all(&directory)?;
        measured
    });
    let decode = System::measured("millstream/decoding alone", threads, || broker.execute(threads, rows, DECODE, None));
    let read = System::measured("rdkafka", 1, || broker.read(rows));
    let case = Case::new("json/count", rows).with(count).with(decode).with(read);
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

/// A broker that is stopped in the end.
struct Broker {
    directory: PathBuf,
    servers: String,
}

impl Broker {
    fn start(directory: PathBuf) -> Result<Broker, Failure> {
        // The script uses the port behind as well.
        let [port] = free_ports()?;
        let _ = std::fs::remove_dir_all(&directory);
        let broker = Broker { directory, servers: format!("127.0.0.1:{port}") };
        broker.script("start", &[&port.to_string(), &std::process::id().to_string()])?;
        Ok(broker)
    }

    fn script(&self, command: &str, arguments: &[&str]) -> Result<(), Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kafka.sh");
        // A pipe would stay open as long as the broker runs.
        let ended = Command::new(script)
            .arg(command)
            .arg(&self.directory)
            .args(arguments)
            .stdout(std::process::Stdio::null())
            .status()?;
        if ended.success() { Ok(()) } else { Err(format!("`kafka.sh {command}` has failed").into()) }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers).set("group.id", "bench").set("enable.auto.commit", "false");
        config.set("enable.partition.eof", "true");
        config
    }

    fn create(&self, topic: &str) -> Result<(), Failure> {
        let admin: AdminClient<DefaultClientContext> = self.config().create()?;
        let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        for created in block_on(admin.create_topics([&topic], &options))? {
            created.map_err(|(topic, error)| format!("topic {topic}: {error}"))?;
        }
        Ok(())
    }

    /// `WITH (…)` of a table over a topic.
    fn options(&self, topic: &str, more: &str) -> String {
        format!(
            "WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{}',
                   'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'{more})",
            self.servers
        )
    }

    /// Writes the rows as messages.
    fn fill(&self, stream: &Stream, threads: usize) -> Result<(), Failure> {
        let mut session = session(threads)?;
        stream.register(&mut session)?;
        session.run(&format!(
            "CREATE TABLE messages ({COLUMNS}) {};
             INSERT INTO messages SELECT k, v, event_time FROM events",
            self.options(INPUT, "")
        ))?;
        Ok(())
    }

    fn session(&self, threads: usize, prefix: &str) -> Result<Session, Failure> {
        let mut session = session(threads)?;
        let exactly_once =
            format!(", 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}'");
        session.run(&format!(
            "CREATE TABLE messages ({COLUMNS}, WATERMARK FOR event_time AS event_time - INTERVAL '1' SECOND) {};
             CREATE TABLE counts (k BIGINT, w TIMESTAMP(3), n BIGINT) {};
             CREATE TABLE nothing ({COLUMNS}) WITH ('connector' = 'blackhole')",
            self.options(INPUT, ""),
            self.options(OUTPUT, &exactly_once)
        ))?;
        Ok(session)
    }

    /// Runs an insert over all messages; with checkpoints in a directory, and a number for its transactions.
    fn execute(
        &self,
        threads: usize,
        rows: u64,
        sql: &str,
        checkpoints: Option<(&Path, usize)>,
    ) -> Result<Measured, Failure> {
        let prefix = format!("bench-{}", checkpoints.map_or(0, |(_, run)| run));
        let mut session = self.session(threads, &prefix)?;
        if let Some((directory, _)) = checkpoints {
            session.set("execution.checkpointing.dir", &directory.to_string_lossy())?;
            session.set("execution.checkpointing.interval", "1 s")?;
        }
        let statements = session.parse(sql)?;
        let [statement] = statements.as_slice() else { return Err("one statement is wanted".into()) };
        let (seconds, ran) = timed(|| session.execute(statement, &mut Collected::new(), &RunMonitor::new()));
        let Outcome::Ran(stats) = ran? else { return Err("the statement did not run".into()) };
        if stats.rows_in != rows || stats.late_rows > 0 {
            return Err(format!("{} of {rows} rows were read, {} were late", stats.rows_in, stats.late_rows).into());
        }
        let more = json!({ "rows_out": stats.rows_out, "checkpoints": stats.checkpoints.last });
        Ok(Measured { seconds, more: more.as_object().cloned().unwrap_or_default(), ..Measured::default() })
    }

    /// Reads all messages and drops them.
    fn read(&self, rows: u64) -> Result<Measured, Failure> {
        let (seconds, read) = timed(|| -> Result<(u64, usize), Failure> {
            let consumer: BaseConsumer = self.config().create()?;
            let mut list = TopicPartitionList::new();
            for partition in 0..PARTITIONS {
                list.add_partition_offset(INPUT, partition, Offset::Beginning)?;
            }
            consumer.assign(&list)?;
            let (mut open, mut messages, mut bytes) = (PARTITIONS, 0, 0);
            while open > 0 {
                match consumer.poll(PATIENCE).ok_or("the broker does not answer")? {
                    Ok(message) => (messages, bytes) = (messages + 1, bytes + message.payload_len()),
                    Err(KafkaError::PartitionEOF(_)) => open -= 1,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok((messages, bytes))
        });
        let (messages, bytes) = read?;
        if messages != rows {
            return Err(format!("{messages} of {rows} messages were read").into());
        }
        let more = json!({ "bytes": bytes }).as_object().cloned().unwrap_or_default();
        Ok(Measured { seconds, more, ..Measured::default() })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The script ends it with this process in any case.
        let _ = self.script("stop", &[]);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Waits for an answer of the broker, which comes on a thread of the client.
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
