//! Which topics and partitions a table reads.

use super::client::{Cluster, KafkaConsumer};
use crate::option_table::both_given;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use regex::Regex;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a topic is looked for that is not there: brokers do not learn of a new one at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Partition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Its number in the topic.
    pub number: i32,
}

/// `topic-number`, as Kafka itself writes it; the name of a split.
impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.number)
    }
}

/// What a table reads.
#[derive(Debug)]
pub(super) enum Topics {
    /// Those of the list.
    Listed(Vec<String>),
    /// Those whose whole names match.
    Matching(Regex),
}

impl Topics {
    /// By the options `topic` and `topic-pattern`.
    pub(super) fn of(options: &Options) -> Result<Topics, Diagnostic> {
        match (options.get("topic"), options.get("topic-pattern")) {
            (Some(_), Some(_)) => {
                Err(both_given("there are both a topic and a topic-pattern", "topic", "topic-pattern"))
            }
            (None, Some(pattern)) => {
                let whole = Regex::new(&format!("^(?:{pattern})$"));
                let whole = whole.map_err(|_| options.invalid("topic-pattern", "a regular expression"))?;
                Ok(Topics::Matching(whole))
            }
            _ => {
                let list = options.require("topic")?.split(';').map(|name| name.trim().to_string());
                let list: Vec<String> = list.filter(|name| !name.is_empty()).collect();
                if list.is_empty() {
                    return Err(options.invalid("topic", "a topic or a list of them"));
                }
                Ok(Topics::Listed(list))
            }
        }
    }

    /// The partitions, in order of topics and numbers.
    pub(super) fn partitions(&self, cluster: &Cluster) -> Result<Vec<Partition>, Diagnostic> {
        let start = Instant::now();
        let mut partitions = match self {
            Topics::Matching(_) => {
                cluster.ask("the list of topics", |consumer, timeout| self.glance(consumer, timeout))?
            }
            Topics::Listed(names) => {
                let mut partitions = Vec::new();
                for name in names {
                    partitions.extend(of_topic(cluster, name, start)?);
                }
                partitions
            }
        };
        partitions.sort();
        partitions.dedup();
        Ok(partitions)
    }

    /// The partitions that the brokers know now, if they answer in time.
    pub(super) fn glance(&self, consumer: &KafkaConsumer, timeout: Duration) -> Result<Vec<Partition>, KafkaError> {
        match self {
            Topics::Matching(pattern) => {
                let metadata = consumer.fetch_metadata(None, timeout)?;
                // Internal topics of the brokers are not data.
                let is_wanted = |name: &str| !name.starts_with("__") && pattern.is_match(name);
                Ok(metadata.topics().iter().filter(|topic| is_wanted(topic.name())).flat_map(partitions_of).collect())
            }
            Topics::Listed(names) => {
                let mut partitions = Vec::new();
                for name in names {
                    let metadata = consumer.fetch_metadata(Some(name), timeout)?;
                    partitions.extend(metadata.topics().iter().filter(|t| t.error().is_none()).flat_map(partitions_of));
                }
                Ok(partitions)
            }
        }
    }
}

fn partitions_of(topic: &rdkafka::metadata::MetadataTopic) -> Vec<Partition> {
    let name: Arc<str> = topic.name().into();
    topic.partitions().iter().map(|p| Partition { topic: name.clone(), number: p.id() }).collect()
}

fn of_topic(cluster: &Cluster, name: &str, start: Instant) -> Result<Vec<Partition>, Diagnostic> {
    loop {
        let what = format!("the partitions of the topic '{name}'");
        let metadata = cluster.ask(&what, |consumer, timeout| consumer.fetch_metadata(Some(name), timeout))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == name);
        let error = topic.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from);
        match (topic, error) {
            (Some(topic), None) if !topic.partitions().is_empty() => return Ok(partitions_of(topic)),
            (_, Some(RDKafkaErrorCode::TopicAuthorizationFailed)) => {
                let message = format!("the user may not read the topic '{name}'");
                return Err(Diagnostic::new(code::READ_FAILED, message).at(whole(name)));
            }
            (_, Some(RDKafkaErrorCode::InvalidTopic)) => return Err(no_topic(name)),
            _ if start.elapsed() > PATIENCE => return Err(no_topic(name)),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// The error for a topic that does not exist.
pub(super) fn no_topic(name: &str) -> Diagnostic {
    Diagnostic::new(code::READ_FAILED, format!("there is no topic '{name}'"))
        .at(whole(name))
        .advise("check the option 'topic', or create it: kafka-topics.sh --create --topic …")
}
