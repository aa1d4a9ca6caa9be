//! Exactly once: each span of a checkpoint is a transaction.
//!
//! Two transactional producers take turns. Rows go into the open transaction of one; at the cut it is handed to the
//! [`Commit`], and the other continues. A transaction cannot be resumed by another process: what was prepared and not
//! committed is aborted by the next process of the job, when it takes over the transactional ids. So each transaction
//! holds a token ([`super::tokens`]) that says which checkpoint it belongs to, and a job resumes from the checkpoint of
//! the last token that is seen. A checkpoint is one transaction, and the next is not committed before it: so at every
//! moment the last token is that of the last manifest or of the one before, and both manifests are there.
//!
//! All sinks of a job that write to the same brokers with the same settings share the producers, because two transactions
//! cannot be committed at once, and a crash between them could be neither undone nor made good. Each sink ends its part
//! of the span where the cut passes; the transaction is complete when all have, and whichever [`Commit`] comes first
//! commits it.

use super::client::{is_outage, reason};
use super::options::{CONNECT_TIMEOUT, GUARANTEE, ID_PREFIX};
use super::producer::{Producer, fenced, is_fenced};
use super::sink::Route;
use super::tokens::Tokens;
use crate::option_table::option_fault;
use crate::text_chunk::whole;
use crate::{Commit, Committed, Delivery, Encoded, Encoder, RestoredSink, Sink, SinkJob, locked};
use millstream_types::{Diagnostic, Options, code};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one call of the client may take; it is made again while there is hope.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Pause before a call is made again.
const PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: &str = "transaction.timeout.ms";

/// See the module.
pub(super) struct TransactionalSink {
    options: Options,
    config: ClientConfig,
    route: Route,
    encoder: Arc<dyn Encoder>,
    /// How long a transaction may be open.
    timeout: Duration,
    /// `None` until there are checkpoints.
    job: Option<Arc<Job>>,
    /// Which producer rows go to.
    current: usize,
    /// Whether rows of this span have been written.
    has_written: bool,
}

/// The producers of sinks of a job.
struct Job {
    turns: [Transactional; 2],
    tokens: Tokens,
    /// Sinks that have these producers. Relaxed: all have joined before the first row.
    sinks: AtomicUsize,
    /// The checkpoint that was committed last, when the producers were made.
    last: Mutex<Option<u64>>,
}

/// A transactional producer.
struct Transactional {
    producer: Producer,
    state: Mutex<TransactionState>,
    changed: Condvar,
}

#[derive(Debug)]
struct TransactionState {
    phase: Phase,
    /// Sinks that have ended their part of the span.
    ended: usize,
    /// The checkpoint whose token was written last.
    prepared: Option<u64>,
    /// The one that was committed last.
    committed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No transaction.
    Idle,
    /// Rows go in.
    Open,
    /// Complete, but not committed.
    Cut,
    /// The transaction cannot be committed.
    Failed,
}

impl TransactionalSink {
    /// A sink that waits for its job.
    pub(super) fn open(
        options: &Options,
        mut config: ClientConfig,
        route: Route,
        encoder: Arc<dyn Encoder>,
    ) -> Result<TransactionalSink, Diagnostic> {
        // The most that brokers allow unless they are told otherwise.
        super::properties::default(&mut config, TIMEOUT, "900000");
        let timeout = config.get(TIMEOUT).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let key = format!("properties.{TIMEOUT}");
        let timeout = timeout.ok_or_else(|| options.invalid(&key, "a number of milliseconds"))?;
        Ok(TransactionalSink {
            options: options.clone(),
            config,
            route,
            encoder,
            timeout,
            job: None,
            current: 0,
            has_written: false,
        })
    }

    /// Joins the other sinks of the job that have the same settings; the first one takes over the transactional ids of the job:
    /// whoever had them before is fenced, and what it had not committed is aborted. Then it reads which checkpoint was
    /// committed last. Sinks join in the order of their numbers, so the ids are those of the sink that has been there longest.
    fn join(&mut self, job: &SinkJob) -> Result<Arc<Job>, Diagnostic> {
        if let Some(joined) = &self.job {
            return Ok(joined.clone());
        }
        let joined = job.shared.get_or_make(&self.settings(), || self.take_over(job))?;
        joined.sinks.fetch_add(1, Relaxed);
        Ok(self.job.insert(joined).clone())
    }

    /// Sinks share a transaction if these are the same.
    fn settings(&self) -> String {
        let mut settings: Vec<String> = self.config.config_map().iter().map(|(k, v)| format!("{k}={v}")).collect();
        settings.sort();
        format!("kafka {} {}", self.options.get("sink.token-topic").unwrap_or_default(), settings.join(" "))
    }

    fn take_over(&self, job: &SinkJob) -> Result<Job, Diagnostic> {
        let prefix = ID_PREFIX.text(&self.options);
        let name = format!("{prefix}-{}-{}", job.job, job.sink);
        let tokens = Tokens::new(&self.options, &self.config, format!("{prefix}/{}/{}", job.job, job.sink));
        tokens.create_topic()?;
        let patience = CONNECT_TIMEOUT.duration(&self.options)?.max(Duration::from_secs(30));
        let turn = |number: usize| {
            let mut config = self.config.clone();
            config.set("transactional.id", format!("{name}-{number}"));
            Transactional::open(&config, patience)
        };
        let turns = [turn(0)?, turn(1)?];
        let last = Mutex::new(tokens.last()?);
        Ok(Job { turns, tokens, sinks: AtomicUsize::new(0), last })
    }

    fn job(&self) -> Result<Arc<Job>, Diagnostic> {
        self.job.clone().ok_or_else(|| {
            let message =
                "rows are to be written exactly once, but there are no checkpoints, with which they are committed";
            let advice = "set 'execution.checkpointing.interval' and give a state directory, or set 'sink.delivery-guarantee' = \
                'at-least-once'";
            option_fault(code::INVALID_OPTION, GUARANTEE.key, message, advice)
        })
    }
}

impl Sink for TransactionalSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let job = self.job()?;
        let current = &job.turns[self.current];
        if !self.has_written || current.phase() != Phase::Open {
            // Rows of one key stay in order; and readers that wait for the end of this transaction see all of the last.
            job.turns[1 - self.current].producer.flush()?;
            current.begin(self.timeout)?;
            self.has_written = true;
        }
        self.route.send(piece, &current.producer)
    }

    /// Nothing can be seen before the commit.
    fn flush(&mut self) -> Result<(), Diagnostic> {
        match &self.job {
            Some(job) => job.turns[self.current].producer.check(),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        self.job()?;
        match self.has_written {
            true => Err(Diagnostic::bug("rows were written behind the last checkpoint")),
            false => Ok(()),
        }
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }

    fn committed(&mut self, job: &SinkJob) -> Result<Committed, Diagnostic> {
        let last = *locked(&self.join(job)?.last);
        Ok(last.map_or(Committed::Nothing, Committed::Checkpoint))
    }

    fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        let joined = self.join(job)?;
        let mut last = locked(&joined.last);
        let wanted = restored.map(|restored| restored.checkpoint);
        // A new sink of a resumed job shares the token of the others, or has none.
        let is_new = wanted.is_none() && job.resumes.is_some();
        if *last == wanted || (is_new && *last == job.resumes) {
            return Ok(());
        }
        if wanted.is_none() && !is_new {
            // A job of this name has been there before; its tokens must not count for this one.
            let first = &joined.turns[0];
            first.begin(self.timeout)?;
            joined.tokens.send(&first.producer, None)?;
            first.commit(self.timeout)?;
            *last = None;
            return Ok(());
        }
        let last = last.map_or("none".to_string(), |last| last.to_string());
        let message = format!(
            "the sink has committed checkpoint {last} last, so the job cannot resume from checkpoint {}",
            wanted.or(job.resumes).unwrap_or_default()
        );
        Err(Diagnostic::new(code::NOT_RECOVERABLE, message).at(whole(&self.route.topic)).advise(
            "recover from the checkpoint that was committed, or start the job from the beginning with another state directory",
        ))
    }

    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        let job = self.job()?;
        let turn = self.current;
        // A span without rows has a transaction, too: its token says how far the job is.
        job.turns[turn].begin(self.timeout)?;
        job.turns[turn].end_part(job.sinks.load(Relaxed));
        (self.current, self.has_written) = (1 - turn, false);
        Ok(Some(Box::new(Transaction { job, turn, checkpoint, timeout: self.timeout })))
    }
}

impl Drop for Job {
    /// What was not cut will not be committed; readers need not wait for the transaction's timeout to know.
    fn drop(&mut self) {
        for turn in self.turns.iter().filter(|turn| turn.phase() == Phase::Open) {
            turn.producer.purge();
            _ = turn.producer.client.abort_transaction(ATTEMPT);
        }
    }
}

/// A sink's part of the transaction of a span.
struct Transaction {
    job: Arc<Job>,
    /// Which producer has it.
    turn: usize,
    checkpoint: u64,
    timeout: Duration,
}

impl Commit for Transaction {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        let turn = &self.job.turns[self.turn];
        turn.producer.flush()?;
        let before = locked(&turn.state).prepared.replace(self.checkpoint);
        if before != Some(self.checkpoint) {
            self.job.tokens.send(&turn.producer, Some(self.checkpoint))?;
            turn.producer.flush()?;
        }
        Ok(json!({ "checkpoint": self.checkpoint }))
    }

    fn dies_with_process(&self) -> bool {
        true
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        let turn = &self.job.turns[self.turn];
        if locked(&turn.state).committed == Some(self.checkpoint) {
            return Ok(());
        }
        turn.commit(self.timeout)?;
        locked(&turn.state).committed = Some(self.checkpoint);
        Ok(())
    }
}

impl Transactional {
    /// Makes the producer and takes over its id.
    fn open(config: &ClientConfig, patience: Duration) -> Result<Transactional, Diagnostic> {
        let producer = Producer::open(config)?;
        retried(&producer, patience, "transactions cannot be begun", || producer.client.init_transactions(ATTEMPT))?;
        let state = TransactionState { phase: Phase::Idle, ended: 0, prepared: None, committed: None };
        Ok(Transactional { producer, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn phase(&self) -> Phase {
        locked(&self.state).phase
    }

    /// One of `sinks` sinks writes no more rows to the open transaction; the last one completes it.
    fn end_part(&self, sinks: usize) {
        let mut state = locked(&self.state);
        state.ended += 1;
        if state.ended == sinks {
            (state.phase, state.ended) = (Phase::Cut, 0);
        }
    }

    /// Begins a transaction unless one is open; waits until the one before is committed.
    fn begin(&self, timeout: Duration) -> Result<(), Diagnostic> {
        let mut state = locked(&self.state);
        let start = Instant::now();
        loop {
            match state.phase {
                Phase::Open => return Ok(()),
                Phase::Idle => break,
                Phase::Failed => return Err(fenced()),
                Phase::Cut if start.elapsed() > timeout => return Err(fenced()),
                Phase::Cut => {
                    state = self.changed.wait_timeout(state, ATTEMPT).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        let begun = self.producer.client.begin_transaction();
        begun.map_err(|error| failed(&error, &self.producer, "a transaction cannot be begun"))?;
        state.phase = Phase::Open;
        Ok(())
    }

    /// Commits the transaction, which is tried as long as it may be open.
    fn commit(&self, timeout: Duration) -> Result<(), Diagnostic> {
        let flushed = self.producer.flush();
        let committed = flushed.and_then(|()| {
            retried(&self.producer, timeout, "a transaction cannot be committed", || {
                self.producer.client.commit_transaction(ATTEMPT)
            })
        });
        locked(&self.state).phase = if committed.is_ok() { Phase::Idle } else { Phase::Failed };
        self.changed.notify_all();
        committed
    }
}

/// Calls the client until it succeeds, there is no hope, or the time is over.
fn retried(
    producer: &Producer,
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
            return Err(failed(&error, producer, what));
        }
        std::thread::sleep(PAUSE);
    }
}

fn failed(error: &KafkaError, producer: &Producer, what: &str) -> Diagnostic {
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
