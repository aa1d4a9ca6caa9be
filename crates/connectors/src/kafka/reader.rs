//! Reads one partition, or waits for one to be found.
//!
//! The client reads ahead; [`PartitionReader::wait`] waits for its first message, and a chunk is what is there, up to a
//! size: so chunks grow with the rate by themselves. When brokers go away, the client waits, reconnects and resumes
//! where it was.

use super::client::{KafkaConsumer, Trouble, create, is_refusal, reason};
use super::decode::KafkaChunk;
use super::metadata::{Envelopes, Headers};
use super::offsets::{PartitionExtent, Reset};
use super::source::SharedByReaders;
use super::topics::Partition;
use crate::messages::MessagesBuilder;
use crate::text_chunk::whole;
use crate::{CHUNK_BYTES, Chunk, Position, SplitReader};
use millstream_types::{Diagnostic, code};
use rdkafka::Message;
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::topic_partition_list::TopicPartitionList;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// How long a look for messages takes.
const MOMENT: Duration = Duration::from_millis(100);
/// How long brokers that were away are asked whether they are back.
const PROBE: Duration = Duration::from_millis(500);
/// Messages of a chunk, however short they are.
const MOST_MESSAGES: usize = 1 << 16;

/// What is collected of messages beside their values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wants {
    pub keys: bool,
    pub headers: bool,
    pub leader_epochs: bool,
}

/// The split of a partition.
pub(super) struct PartitionReader {
    shared: Arc<SharedByReaders>,
    name: String,
    state: ReaderState,
    batch: MessageBatch,
}

enum ReaderState {
    /// There is no partition yet.
    Spare,
    /// Nothing has been asked for yet.
    Chosen(Arc<Partition>, Start),
    Reading(Reading),
    Ended,
}

struct Reading {
    consumer: KafkaConsumer,
    partition: Arc<Partition>,
    start: Start,
    /// The offset that reading began at; negative while that is not known.
    first: AtomicI64,
    /// The offset behind the last message that was taken; negative before the first.
    next: AtomicI64,
    /// Where the partition ended when it was last read to its end. Behind the last message may be the marker of a transaction, and
    /// messages of one that is open or was aborted.
    end: AtomicI64,
}

/// Where and how reading starts.
#[derive(Clone, Copy)]
struct Start {
    span: PartitionExtent,
    reset: Reset,
    /// Whether the start is the position of a checkpoint.
    is_resumed: bool,
}

/// Messages that were taken from the client and are in no chunk yet.
#[derive(Default)]
struct MessageBatch {
    /// Where reading resumes after the batch; `None` if that is where it began.
    next: Option<(Arc<Partition>, i64)>,
    values: MessagesBuilder,
    keys: MessagesBuilder,
    envelopes: Envelopes,
}

impl PartitionReader {
    /// Of a partition.
    pub(super) fn new(shared: Arc<SharedByReaders>, partition: Partition, span: PartitionExtent) -> PartitionReader {
        let (name, reset) = (partition.to_string(), shared.reset);
        let state = ReaderState::Chosen(Arc::new(partition), Start { span, reset, is_resumed: false });
        PartitionReader { shared, name, state, batch: MessageBatch::default() }
    }

    /// Of a partition that may be found later.
    pub(super) fn spare(shared: Arc<SharedByReaders>, name: String) -> PartitionReader {
        PartitionReader { shared, name, state: ReaderState::Spare, batch: MessageBatch::default() }
    }

    /// Takes what the client has; waits a while for the first message.
    fn receive(&mut self, patience: Duration) -> Result<(), Diagnostic> {
        match &mut self.state {
            ReaderState::Ended => {}
            ReaderState::Spare => {
                if let Some(partition) = self.shared.discovery.claim(&self.shared.cluster, patience)? {
                    self.name = partition.to_string();
                    let start = Start { span: PartitionExtent::WHOLE, reset: self.shared.reset, is_resumed: false };
                    self.state = ReaderState::Chosen(Arc::new(partition), start);
                }
            }
            ReaderState::Chosen(_, start) if start.span.is_empty() => self.state = ReaderState::Ended,
            ReaderState::Chosen(partition, start) => {
                if let (Offset::Offset(from), false) = (start.span.from, start.is_resumed) {
                    // A checkpoint that comes before the first message has to know where that will be.
                    self.batch.reaches(partition.clone(), from);
                }
                self.state = ReaderState::Reading(Reading::begin(&self.shared, partition.clone(), *start)?);
            }
            ReaderState::Reading(reading) => {
                if reading.receive(&mut self.batch, self.shared.wants, patience)? {
                    self.state = ReaderState::Ended;
                }
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.batch.next.is_some() || matches!(self.state, ReaderState::Ended)
    }

    /// The chunk of what was received.
    fn chunk(&mut self) -> Option<Chunk> {
        let batch = std::mem::take(&mut self.batch);
        let (partition, next) = batch.next.clone()?;
        self.shared.commits.handed_over(&partition, next);
        let bytes = batch.size() as u64;
        let keys = self.shared.wants.keys.then(|| batch.keys.finish());
        let chunk = KafkaChunk { partition, keys, values: batch.values.finish(), envelopes: batch.envelopes };
        let after = Some(Position { at: next.cast_unsigned(), line: 0 });
        Some(Chunk { payload: Box::new(chunk), bytes, after })
    }
}

impl SplitReader for PartitionReader {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_spare(&self) -> bool {
        matches!(self.state, ReaderState::Spare)
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        if let ReaderState::Chosen(_, start) = &mut self.state {
            start.span.from = match from {
                Some(position) => Offset::Offset(position.at.cast_signed()),
                None => Offset::Beginning,
            };
            if from.is_some() {
                // What was there when the checkpoint was taken must be there now; nothing is skipped silently.
                (start.reset, start.is_resumed) = (Reset::Fail, true);
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<bool, Diagnostic> {
        if !self.is_ready() {
            self.receive(MOMENT)?;
            self.shared.commits.commit_if_due();
        }
        Ok(self.is_ready())
    }

    fn lag(&self, after: Option<Position>) -> Option<u64> {
        let ReaderState::Reading(reading) = &self.state else { return None };
        reading.lag(after)
    }

    fn trouble(&self) -> Option<String> {
        let ReaderState::Reading(reading) = &self.state else { return None };
        let why = reading.consumer.context().outage()?;
        Some(format!("the brokers '{}' do not answer: {why}", self.shared.cluster.servers))
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        while !self.is_ready() {
            self.receive(MOMENT)?;
        }
        if !self.batch.is_full() {
            self.receive(Duration::ZERO)?;
        }
        Ok(self.chunk())
    }
}

/// Messages from `from` to the end that the broker has told; `None` if it does not know better: one that was started again
/// begins with an end before messages that were read from it.
pub(super) fn lag_behind(from: i64, end: i64) -> Option<u64> {
    u64::try_from(end - from).ok().filter(|_| from >= 0)
}

impl Reading {
    /// Has the messages of a partition fetched.
    fn begin(shared: &SharedByReaders, partition: Arc<Partition>, start: Start) -> Result<Reading, Diagnostic> {
        let Start { span, reset, .. } = start;
        let mut config = shared.config.clone();
        config.set("auto.offset.reset", reset.property());
        config.set("enable.partition.eof", "true");
        let consumer: KafkaConsumer = create(&config, Trouble::default())?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&partition.topic, partition.number, span.from)
            .and_then(|()| consumer.assign(&list))
            .map_err(|e| Diagnostic::bug(format!("{partition} cannot be assigned: {e}")))?;
        let next = match span.from {
            Offset::Offset(from) => from,
            _ => -1,
        };
        let first = AtomicI64::new(next);
        Ok(Reading { consumer, partition, start, first, next: next.into(), end: AtomicI64::new(-1) })
    }

    /// Messages behind a position, as of the last answer of the broker.
    fn lag(&self, after: Option<Position>) -> Option<u64> {
        let next = self.next.load(Relaxed);
        // What was taken is not handed over yet.
        let from = after.map_or_else(|| self.first.load(Relaxed), |position| position.at.cast_signed());
        // All messages were handed over.
        let from = if from == next { from.max(self.end.load(Relaxed)) } else { from };
        lag_behind(from, self.known_end()?)
    }

    /// The end of the partition, as of the last answer of the broker.
    fn known_end(&self) -> Option<i64> {
        let topic = CString::new(&*self.partition.topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: the client lives as long as `self`, and the call reads the name and writes the two numbers before it returns.
        let answer = unsafe {
            rdkafka::bindings::rd_kafka_get_watermark_offsets(
                self.consumer.client().native_ptr(),
                topic.as_ptr(),
                self.partition.number,
                &raw mut low,
                &raw mut high,
            )
        };
        let is_known = answer == rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0;
        is_known.then_some(high)
    }

    /// Takes what is there, up to a full batch; whether that is the end.
    fn receive(&self, batch: &mut MessageBatch, wants: Wants, patience: Duration) -> Result<bool, Diagnostic> {
        let mut patience = patience;
        while !batch.is_full() {
            match self.consumer.poll(patience) {
                None => {
                    if !patience.is_zero() {
                        self.look_for_brokers();
                    }
                    return Ok(false);
                }
                Some(Ok(message)) => {
                    if !patience.is_zero() {
                        self.consumer.context().answered();
                    }
                    _ = self.first.compare_exchange(-1, message.offset(), Relaxed, Relaxed);
                    self.next.store(message.offset() + 1, Relaxed);
                    let until = self.start.span.until.unwrap_or(i64::MAX);
                    if message.offset() < until {
                        batch.push(&message, wants);
                        batch.reaches(self.partition.clone(), message.offset() + 1);
                    }
                    if message.offset() + 1 >= until {
                        return Ok(true);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    self.consumer.context().answered();
                    self.end.store(self.known_end().unwrap_or(-1), Relaxed);
                    if self.start.span.is_there {
                        return Ok(true);
                    }
                }
                Some(Err(error)) => self.survive(&error)?,
            }
            patience = Duration::ZERO;
        }
        Ok(false)
    }

    /// After an outage brokers may be back without a message to tell of it.
    fn look_for_brokers(&self) {
        let trouble = self.consumer.context();
        if trouble.outage().is_some() && self.consumer.fetch_metadata(Some(&self.partition.topic), PROBE).is_ok() {
            trouble.answered();
        }
    }

    /// Continues after an error that the client recovers from by itself.
    fn survive(&self, error: &KafkaError) -> Result<(), Diagnostic> {
        use RDKafkaErrorCode as E;
        let name = self.partition.to_string();
        let code = error.rdkafka_error_code().unwrap_or(E::Unknown);
        let diagnostic = match code {
            E::AutoOffsetReset | E::OffsetOutOfRange => {
                let message =
                    format!("the messages of {name} from {:?} on are not there any more", self.start.span.from);
                let changed = if self.start.is_resumed { code::INPUT_CHANGED } else { code::READ_FAILED };
                Diagnostic::new(changed, message).advise(if self.start.is_resumed {
                    "data that the checkpoint has not seen are lost: keep them longer (retention.ms), or start again with \
                     another state directory"
                } else {
                    "set 'properties.auto.offset.reset' to 'earliest' or 'latest', or keep messages longer (retention.ms)"
                })
            }
            E::UnknownTopicOrPartition | E::UnknownTopic | E::UnknownPartition | E::UnknownTopicId => {
                Diagnostic::new(code::READ_FAILED, format!("{name} does not exist any more")).advise(
                    "the topic was deleted; create it again and start from the beginning, or remove it from the table",
                )
            }
            // Offsets of the group are looked up and committed elsewhere, and only if they are wanted.
            E::GroupAuthorizationFailed => return Ok(()),
            code if is_refusal(code) || matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
                let message = format!("{name} cannot be read: {}", reason(error, self.consumer.context()));
                Diagnostic::new(code::READ_FAILED, message)
                    .advise("check the properties of the table and the user's rights")
            }
            _ => return Ok(()),
        };
        Err(diagnostic.at(whole(&name)))
    }
}

impl MessageBatch {
    fn len(&self) -> usize {
        self.values.len()
    }

    fn size(&self) -> usize {
        self.values.size() + self.keys.size() + 32 * self.len()
    }

    /// Notes where reading resumes.
    fn reaches(&mut self, partition: Arc<Partition>, next: i64) {
        self.next = Some((partition, next));
    }

    fn is_full(&self) -> bool {
        self.size() >= CHUNK_BYTES || self.len() >= MOST_MESSAGES
    }

    fn push(&mut self, message: &BorrowedMessage<'_>, wants: Wants) {
        self.values.push(message.payload());
        if wants.keys {
            self.keys.push(message.key());
        }
        if wants.headers {
            self.envelopes.headers.push(headers(message));
        }
        if wants.leader_epochs {
            self.envelopes.leader_epochs.push(leader_epoch(message));
        }
        self.envelopes.offsets.push(message.offset());
        self.envelopes.timestamps.push(message.timestamp());
    }
}

/// The headers of a message; of several with one name the last counts, as in Flink.
fn headers(message: &BorrowedMessage<'_>) -> Headers {
    let mut all = Headers::new();
    for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
        let value = header.value.map(<[u8]>::to_vec);
        match all.iter_mut().find(|(name, _)| name == header.key) {
            Some((_, present)) => *present = value,
            None => all.push((header.key.to_string(), value)),
        }
    }
    all
}

/// The epoch of the leader that has written the message; negative if it is not known.
fn leader_epoch(message: &BorrowedMessage<'_>) -> i32 {
    // SAFETY: the pointer is that of the message, which librdkafka has made and which lives as long as the borrow.
    unsafe { rdkafka::bindings::rd_kafka_message_leader_epoch(message.ptr()) }
}
