//! Chunks of messages → columns: of values, of keys, and metadata; and what becomes of bad messages.

use super::dead_letters::DeadLetters;
use super::fields::{MessagePart, MessageParts};
use super::metadata::{self, Envelopes};
use super::reader::Wants;
use super::topics::Partition;
use crate::changes::without_nulls;
use crate::messages::{DecodedMessages, MessageDecoder, Messages, located, missing};
use crate::{Chunk, ColumnRequest, Decoded, Decoder, RequestOrigin, SourceRequest};
use arrow_array::{Array, ArrayRef, Int8Array, UInt32Array};
use millstream_types::{DataType, Diagnostic};
use std::sync::Arc;

/// Messages of a partition.
pub(super) struct KafkaChunk {
    pub partition: Arc<Partition>,
    /// If anybody wants them.
    pub keys: Option<Messages>,
    pub values: Messages,
    pub envelopes: Envelopes,
}

impl KafkaChunk {
    /// Cuts the first messages off; `None` when there are no more.
    pub(super) fn split_front(&mut self, messages: usize) -> Option<KafkaChunk> {
        let all = self.values.len();
        if all == 0 {
            return None;
        }
        let at = messages.clamp(1, all);
        let front = self.part(0..at);
        *self = self.part(at..all);
        Some(front)
    }

    fn part(&self, range: std::ops::Range<usize>) -> KafkaChunk {
        KafkaChunk {
            partition: self.partition.clone(),
            keys: self.keys.as_ref().map(|keys| keys.slice(range.clone())),
            values: self.values.slice(range.clone()),
            envelopes: self.envelopes.slice(range),
        }
    }

    /// Bytes of values and keys.
    pub(super) fn bytes(&self) -> u64 {
        (self.values.bytes_of_all() + self.keys.as_ref().map_or(0, Messages::bytes_of_all)) as u64
    }
}

/// Where a column comes from.
enum Origin {
    /// By position among the columns of the value.
    Value(usize),
    /// By position among the columns of the key.
    Key(usize),
    /// By its key.
    Metadata(String, DataType),
    /// Whether the row is there from now on (1) or gone (-1).
    Change,
}

/// What the last message of a key counts for: a message without a value takes the row of its key back.
struct Upserts {
    /// The columns of the value that are not NULL, by position and name.
    not_null: Vec<(usize, String)>,
}

/// What becomes of bad messages.
enum Policy {
    /// The first ends the query.
    Fail,
    Skip,
    DeadLetters(DeadLetters),
}

/// Decodes the chunks of a table.
pub(super) struct KafkaDecoder {
    origins: Vec<Origin>,
    value: Box<dyn MessageDecoder>,
    null_is_row: bool,
    upserts: Option<Upserts>,
    key: Option<Box<dyn MessageDecoder>>,
    policy: Policy,
}

impl KafkaDecoder {
    /// The decoder of a table, and what it needs of messages; `is_upserted` says that the last message of a key counts.
    pub(super) fn open(request: &SourceRequest, is_upserted: bool) -> Result<(KafkaDecoder, Wants), Diagnostic> {
        let parts = MessageParts::of(&request.options, &request.schema)?;
        let (mut of_value, mut of_key, mut origins) = (Vec::new(), Vec::new(), Vec::new());
        let gives_changes = is_upserted || parts.value.format.change_decoder.is_some();
        let mut not_null = Vec::new();
        for column in &request.columns {
            if gives_changes && request.says_changes(column) {
                origins.push(Origin::Change);
                continue;
            }
            if let Some(key) = metadata::requested(column)? {
                origins.push(Origin::Metadata(key.to_string(), column.data_type.clone()));
                continue;
            }
            let RequestOrigin::Path(path) = &column.origin else {
                return Err(Diagnostic::bug("messages have no packed records"));
            };
            let within = |part: &MessagePart, wanted: &mut Vec<ColumnRequest>| {
                let first = part.columns.iter().position(|at| Some(at) == path.first())?;
                let path = std::iter::once(first).chain(path[1..].iter().copied()).collect();
                wanted.push(ColumnRequest { origin: RequestOrigin::Path(path), ..column.clone() });
                Some(wanted.len() - 1)
            };
            let is_key = parts.key.as_ref().is_some_and(|key| path.first().is_some_and(|at| key.columns.contains(at)));
            let origin = match is_upserted && is_key {
                // Of a row that is gone only the key is there.
                true => None,
                false => within(&parts.value, &mut of_value).map(Origin::Value),
            };
            if let (true, Some(Origin::Value(at)), false) = (is_upserted, &origin, column.nullable) {
                of_value[*at].nullable = true;
                not_null.push((*at, column.name.clone()));
            }
            let origin = origin.or_else(|| within(parts.key.as_ref()?, &mut of_key).map(Origin::Key));
            origins.push(origin.ok_or_else(|| Diagnostic::bug(format!("column {} is not in messages", column.name)))?);
        }
        let is_changing = origins.iter().any(|origin| matches!(origin, Origin::Change));
        let decoder = |part: &MessagePart, columns: Vec<ColumnRequest>| {
            let (options, schema) = (part.options.clone(), part.schema.clone());
            let open =
                part.format.change_decoder.filter(|_| is_changing && !is_upserted).unwrap_or(part.format.decoder);
            let place = |key: &usize| part.columns.iter().position(|at| at == key);
            let primary_key = request.primary_key.iter().filter_map(place).collect();
            open(&SourceRequest { options, schema, columns, primary_key, ..request.clone() })
        };
        let dead_letters = DeadLetters::of(&request.options)?;
        let ignores = parts.value.ignores_errors || parts.key.as_ref().is_some_and(|key| key.ignores_errors);
        let key = parts.key.as_ref().filter(|_| !of_key.is_empty());
        let key = key.map(|key| decoder(key, of_key)).transpose()?;
        let has = |wanted: &str| origins.iter().any(|o| matches!(o, Origin::Metadata(key, _) if key == wanted));
        let wants = Wants {
            keys: key.is_some() || dead_letters.is_some(),
            headers: has("headers") || dead_letters.is_some(),
            leader_epochs: has("leader-epoch"),
        };
        let policy = match dead_letters {
            Some(letters) => Policy::DeadLetters(letters),
            None if ignores => Policy::Skip,
            None => Policy::Fail,
        };
        let (value, null_is_row) = (decoder(&parts.value, of_value)?, is_upserted || parts.value.format.null_is_row);
        let upserts = is_upserted.then_some(Upserts { not_null });
        Ok((KafkaDecoder { origins, value, null_is_row, upserts, key, policy }, wants))
    }

    fn columns(&self, chunk: &KafkaChunk) -> Result<Decoded, Diagnostic> {
        let mut value = self.value.decode(&chunk.values)?;
        if let Some(upserts) = &self.upserts {
            upserts.mark(&chunk.values, &mut value)?;
        }
        let keys = self.key.as_ref().zip(chunk.keys.as_ref());
        let mut key = keys.map(|(key, keys)| key.decode(keys)).transpose()?;
        let is_whole = |part: &DecodedMessages| part.failures.is_empty();
        let has_gaps = !self.null_is_row && chunk.values.0.null_count() > 0;
        let (mut skipped, mut skipped_for, mut error) = (0, None, None);
        if has_gaps || !is_whole(&value) || key.as_ref().is_some_and(|key| !is_whole(key)) {
            let bad = self.bad(chunk, &mut value, key.as_mut())?;
            let is_kept = |_: usize, message: u32| !bad.messages[message as usize];
            value.retain(is_kept)?;
            key.as_mut().map(|key| key.retain(is_kept)).transpose()?;
            (skipped, skipped_for, error) = (bad.skipped, bad.skipped_for, bad.error);
        }
        let (rows, comes) = (value.rows, value.comes);
        let key = key.as_ref();
        // A message of changes may be two rows, with the one key.
        let places = key.filter(|key| key.rows.len() != rows.len()).map(|key| places_of(&key.rows, &rows));
        let column = |origin: &Origin| match origin {
            Origin::Value(at) => Ok(value.columns[*at].clone()),
            Origin::Key(at) => {
                let column = &key.ok_or_else(|| Diagnostic::bug("a chunk has no keys"))?.columns[*at];
                match &places {
                    Some(places) => arrow_select::take::take(column, places, None)
                        .map_err(|e| Diagnostic::bug(format!("a row has no key: {e}"))),
                    None => Ok(column.clone()),
                }
            }
            Origin::Change => {
                Ok(Arc::new(Int8Array::from_iter_values(comes.iter().map(|&comes| if comes { 1 } else { -1 })))
                    as ArrayRef)
            }
            Origin::Metadata(key, data_type) => {
                metadata::column(key, &chunk.partition, &chunk.envelopes, &rows, data_type)
            }
        };
        let columns = self.origins.iter().map(column).collect::<Result<_, _>>()?;
        Ok(Decoded { columns, rows: rows.len(), skipped, skipped_for, error, ..Decoded::default() })
    }

    /// The messages of which nothing becomes a row, by the policy. (Absent values of a topic in which the last message of a key counts are rows.)
    fn bad(
        &self,
        chunk: &KafkaChunk,
        value: &mut DecodedMessages,
        key: Option<&mut DecodedMessages>,
    ) -> Result<Bad, Diagnostic> {
        let mut bad = Bad { messages: vec![false; chunk.values.len()], skipped: 0, skipped_for: None, error: None };
        if !self.null_is_row {
            for (message, is_bad) in bad.messages.iter_mut().enumerate() {
                *is_bad = chunk.values.range(message).is_none();
                bad.skipped += u64::from(*is_bad);
            }
        }
        let mut failures = std::mem::take(&mut value.failures);
        failures.extend(key.into_iter().flat_map(|key| std::mem::take(&mut key.failures)));
        failures.sort_by_key(|(message, _)| *message);
        let mut letters = Vec::new();
        for (message, failure) in failures {
            if std::mem::replace(&mut bad.messages[message], true) {
                continue;
            }
            let place = || format!("{}@{}", chunk.partition, chunk.envelopes.offsets[message]);
            if !matches!(self.policy, Policy::Fail) {
                bad.skipped_for.get_or_insert_with(|| located(failure.clone(), place()));
            }
            match &self.policy {
                Policy::Fail => {
                    bad.error = Some(located(failure, place()));
                    bad.messages[message..].fill(true);
                    break;
                }
                Policy::Skip => bad.skipped += 1,
                Policy::DeadLetters(_) => {
                    bad.skipped += 1;
                    letters.push((message, failure));
                }
            }
        }
        if let Policy::DeadLetters(target) = &self.policy {
            target.write(chunk, &letters)?;
        }
        Ok(bad)
    }
}

impl Upserts {
    /// Says of each row whether it is there: a message without a value has none.
    fn mark(&self, values: &Messages, decoded: &mut DecodedMessages) -> Result<(), Diagnostic> {
        let messages = decoded.rows.clone();
        let is_there = |row: usize| values.range(messages[row] as usize).is_some();
        decoded.check(|columns, row| {
            let is_missing = |(at, _): &&(usize, String)| columns[*at].is_null(row);
            self.not_null.iter().find(is_missing).filter(|_| is_there(row)).map(|(_, name)| missing(name))
        })?;
        decoded.comes = decoded.rows.iter().map(|&message| values.range(message as usize).is_some()).collect();
        for (at, _) in &self.not_null {
            decoded.columns[*at] = without_nulls(&decoded.columns[*at]);
        }
        Ok(())
    }
}

/// Where the messages of `rows` are among others, all of them ascending.
fn places_of(messages: &[u32], rows: &[u32]) -> UInt32Array {
    let mut place = 0;
    let place_of = |row: &u32| {
        while messages.get(place).is_some_and(|message| message < row) {
            place += 1;
        }
        place as u32
    };
    UInt32Array::from_iter_values(rows.iter().map(place_of))
}

/// Messages that do not become rows.
struct Bad {
    messages: Vec<bool>,
    /// How many of them do not end the query.
    skipped: u64,
    /// What is wrong with the first of those that had a value.
    skipped_for: Option<Diagnostic>,
    /// What ends the query.
    error: Option<Diagnostic>,
}

impl Decoder for KafkaDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        chunk.content().and_then(|chunk| self.columns(&chunk)).unwrap_or_else(Decoded::failed)
    }
}
