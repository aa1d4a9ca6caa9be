//! Where bad messages go: a topic, or a file of JSON lines.
//!
//! A worker that meets a bad message waits until it is safely there, so that none is lost when the query ends or fails; after
//! a recovery it may be there twice.

use super::decode::KafkaChunk;
use super::producer::Producer;
use super::properties::client_config;
use super::record::Record;
use crate::locked;
use crate::option_table::both_given;
use crate::text_chunk::whole;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use millstream_types::{Diagnostic, Options, Place, code};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Mutex;

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

    /// Stores messages of a chunk, each with what is wrong with it; when it returns they are there.
    pub(super) fn write(&self, chunk: &KafkaChunk, bad: &[(usize, Diagnostic)]) -> Result<(), Diagnostic> {
        if bad.is_empty() {
            return Ok(());
        }
        match self {
            DeadLetters::Topic { name, producer } => {
                let producer = locked(producer);
                for (message, failure) in bad {
                    producer.send(name, None, &letter(chunk, *message, failure))?;
                }
                producer.flush()
            }
            DeadLetters::File { path, file } => {
                let text: String = bad.iter().map(|(message, failure)| line(chunk, *message, failure)).collect();
                let mut file = locked(file);
                file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(|e| failed(path, &e))
            }
        }
    }
}

fn failed(path: &str, error: &std::io::Error) -> Diagnostic {
    let message = format!("bad messages cannot be written to '{path}': {error}");
    Diagnostic::new(code::WRITE_FAILED, message).at(whole(path)).advise("check 'scan.dead-letter.path'")
}

fn key(chunk: &KafkaChunk, message: usize) -> Option<&[u8]> {
    chunk.keys.as_ref().and_then(|keys| keys.bytes(message))
}

fn what_is_wrong(failure: &Diagnostic) -> String {
    let column = match &failure.place {
        Some(Place::Data { column: Some(column), .. }) => format!(" (column {column})"),
        _ => String::new(),
    };
    format!("{}: {}{column}", failure.code, failure.message)
}

fn line(chunk: &KafkaChunk, message: usize, failure: &Diagnostic) -> String {
    let line = json!({
        "topic": &*chunk.partition.topic,
        "partition": chunk.partition.number,
        "offset": chunk.envelopes.offsets[message],
        "error": what_is_wrong(failure),
        "key": key(chunk, message).map(|bytes| BASE64.encode(bytes)),
        "value": chunk.values.bytes(message).map(|bytes| BASE64.encode(bytes)),
    });
    format!("{line}\n")
}

/// The message as it was, with what is wrong in its headers.
fn letter<'a>(chunk: &'a KafkaChunk, message: usize, failure: &Diagnostic) -> Record<'a> {
    let mut headers = chunk.envelopes.headers.get(message).cloned().unwrap_or_default();
    for (name, value) in [
        ("millstream.topic", chunk.partition.topic.to_string()),
        ("millstream.partition", chunk.partition.number.to_string()),
        ("millstream.offset", chunk.envelopes.offsets[message].to_string()),
        ("millstream.error", what_is_wrong(failure)),
    ] {
        headers.push((name.into(), Some(value.into_bytes())));
    }
    Record { key: key(chunk, message), value: chunk.values.bytes(message), timestamp: None, headers }
}
