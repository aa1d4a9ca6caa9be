//! Where bad messages go: a topic, or a file of JSON lines.
//!
//! A worker that meets a bad message waits until it is safely there, so that none is lost when the query ends or fails; after
//! a recovery it may be there twice.

use super::client::place;
use super::decode::KafkaChunk;
use super::producer::{Outgoing, Producer};
use super::properties::client_config;
use crate::locked;
use crate::option_table::both_given;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use millstream_types::{Diagnostic, Options, Place, code};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Mutex;

/// A message that cannot be used.
pub(super) struct DeadLetter {
    topic: String,
    partition: i32,
    offset: i64,
    error: String,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl DeadLetter {
    /// A message of a chunk, and what is wrong with it.
    pub(super) fn new(chunk: &KafkaChunk, message: usize, failure: &Diagnostic) -> DeadLetter {
        let column = match &failure.place {
            Some(Place::Data { column: Some(column), .. }) => format!(" (column {column})"),
            _ => String::new(),
        };
        DeadLetter {
            topic: chunk.partition.topic.to_string(),
            partition: chunk.partition.number,
            offset: chunk.envelopes.offsets[message],
            error: format!("{}: {}{column}", failure.code, failure.message),
            key: chunk.keys.as_ref().and_then(|keys| keys.bytes(message)).map(<[u8]>::to_vec),
            value: chunk.values.bytes(message).map(<[u8]>::to_vec),
            headers: chunk.envelopes.headers.get(message).cloned().unwrap_or_default(),
        }
    }
}

/// Takes bad messages.
pub(super) enum DeadLetters {
    Topic { name: String, producer: Mutex<Producer> },
    File { path: String, file: Mutex<File> },
}

impl DeadLetters {
    /// As the options of a table say, if they do.
    pub(super) fn of(options: &Options) -> Result<Option<DeadLetters>, Diagnostic> {
        const TOPIC: &str = "scan.dead-letter.topic";
        const PATH: &str = "scan.dead-letter.path";
        match (options.get(TOPIC), options.get(PATH)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(both_given("there are two places for bad messages", TOPIC, PATH)),
            (Some(name), None) => {
                let producer = Mutex::new(Producer::open(&client_config(options)?)?);
                Ok(Some(DeadLetters::Topic { name: name.to_string(), producer }))
            }
            (None, Some(path)) => {
                let file = OpenOptions::new().create(true).append(true).open(path).map_err(|e| failed(path, &e))?;
                Ok(Some(DeadLetters::File { path: path.to_string(), file: Mutex::new(file) }))
            }
        }
    }

    /// Stores letters; when it returns they are there.
    pub(super) fn write(&self, letters: &[DeadLetter]) -> Result<(), Diagnostic> {
        if letters.is_empty() {
            return Ok(());
        }
        match self {
            DeadLetters::Topic { name, producer } => {
                let producer = locked(producer);
                for letter in letters {
                    producer.send(&letter.outgoing(name))?;
                }
                producer.flush()
            }
            DeadLetters::File { path, file } => {
                let text: String = letters.iter().map(DeadLetter::line).collect();
                let mut file = locked(file);
                file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(|e| failed(path, &e))
            }
        }
    }
}

fn failed(path: &str, error: &std::io::Error) -> Diagnostic {
    let message = format!("bad messages cannot be written to '{path}': {error}");
    Diagnostic::new(code::WRITE_FAILED, message).at(place(path)).advise("check 'scan.dead-letter.path'")
}

impl DeadLetter {
    fn line(&self) -> String {
        let base64 = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| BASE64.encode(bytes));
        let line = json!({
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "error": self.error,
            "key": base64(&self.key),
            "value": base64(&self.value),
        });
        format!("{line}\n")
    }

    /// The message as it was, with what is wrong in its headers.
    fn outgoing<'a>(&'a self, topic: &'a str) -> Outgoing<'a> {
        let mut headers = self.headers.clone();
        for (name, value) in [
            ("millstream.topic", self.topic.clone()),
            ("millstream.partition", self.partition.to_string()),
            ("millstream.offset", self.offset.to_string()),
            ("millstream.error", self.error.clone()),
        ] {
            headers.push((name.into(), Some(value.into_bytes())));
        }
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        Outgoing { topic, partition: None, key, value, timestamp: None, headers }
    }
}
