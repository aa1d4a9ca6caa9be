//! Exactly once in one process: each span of a checkpoint is a transaction that is open while its rows come.
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

use super::producer::{Producer, fenced};
use super::sink::Route;
use super::tokens::{LastTokens, Token, Tokens, Writer};
use super::transactional::{ATTEMPT, TransactionSettings, TransactionalProducer};
use crate::{Commit, Encoded, SinkJob, locked};
use millstream_types::Diagnostic;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The transactions of a sink.
pub(super) struct OpenTransactions {
    together: Arc<SharedTransactions>,
    route: Route,
    /// Which producer rows go to.
    current: usize,
    /// Whether rows of this span have been written.
    has_written: bool,
}

/// The producers of sinks of a job, and its tokens.
pub(super) struct SharedTransactions {
    turns: [Turn; 2],
    tokens: Tokens,
    /// Who has taken over the producers' ids.
    writer: Writer,
    settings: TransactionSettings,
    /// Sinks that have these producers. Relaxed: all have joined before the first row.
    sinks: AtomicUsize,
    /// The last tokens of the job, as far as this process knows.
    last: Mutex<LastTokens>,
}

/// A transactional producer.
struct Turn {
    producer: TransactionalProducer,
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

impl SharedTransactions {
    /// What the sinks of a job that have the same settings have together. The first one takes over the transactional ids of the job:
    /// whoever had them before is fenced, and what it had not committed is aborted. Then it reads which checkpoint was
    /// committed last. Sinks join in the order of their numbers, so the ids are those of the sink that has been there longest.
    pub(super) fn join(settings: &TransactionSettings, job: &SinkJob) -> Result<Arc<SharedTransactions>, Diagnostic> {
        job.shared.get_or_make(&settings.text(), || SharedTransactions::take_over(settings, job))
    }

    fn take_over(settings: &TransactionSettings, job: &SinkJob) -> Result<SharedTransactions, Diagnostic> {
        let tokens = Tokens::new(settings, &job.job);
        tokens.create_topic()?;
        let turns = settings.take_over_all(job, &["0", "1"].map(String::from))?.into_iter().map(Turn::new);
        let turns = turns.collect::<Vec<_>>().try_into();
        let turns = turns.map_err(|_| Diagnostic::bug("two ids were taken over, and there are not two producers"))?;
        let fence = |sink, node| settings.take_over_node(job, sink, node).map(|_| true);
        let last = Mutex::new(tokens.last(fence)?);
        let (writer, settings) = (Writer::Sinks(job.sink), settings.clone());
        Ok(SharedTransactions { turns, tokens, writer, settings, sinks: AtomicUsize::new(0), last })
    }

    /// The last tokens of the job.
    pub(super) fn last(&self) -> MutexGuard<'_, LastTokens> {
        locked(&self.last)
    }

    /// What the sinks have said last.
    pub(super) fn said(&self) -> Option<Token> {
        self.last().get(&self.writer).copied()
    }

    /// Has the sinks say something else from now on, outside of spans. Before the first row.
    pub(super) fn say(&self, token: Token) -> Result<(), Diagnostic> {
        if self.said() == Some(token) {
            return Ok(());
        }
        let producer = &self.turns[0].producer;
        producer.in_transaction(|producer| self.tokens.send(producer, self.writer, Some(token)))?;
        self.last().insert(self.writer, token);
        Ok(())
    }

    /// Takes back the tokens of the sinks and of all nodes: they are of a job of the same name that has been there before.
    pub(super) fn forget(&self) -> Result<(), Diagnostic> {
        let is_of_node = |writer: &Writer| matches!(writer, Writer::Node(..));
        let old: Vec<Writer> =
            self.last().keys().copied().filter(|writer| *writer == self.writer || is_of_node(writer)).collect();
        if old.is_empty() {
            return Ok(());
        }
        let send = |producer: &Producer| old.iter().try_for_each(|writer| self.tokens.send(producer, *writer, None));
        self.turns[0].producer.in_transaction(send)?;
        self.last().retain(|writer, _| !old.contains(writer));
        Ok(())
    }
}

impl OpenTransactions {
    /// Those of a sink of the job, which has begun.
    pub(super) fn new(together: Arc<SharedTransactions>, route: Route) -> OpenTransactions {
        together.sinks.fetch_add(1, Relaxed);
        OpenTransactions { together, route, current: 0, has_written: false }
    }

    pub(super) fn write(&mut self, piece: &Encoded) -> Result<(), Diagnostic> {
        let turns = &self.together.turns;
        let current = &turns[self.current];
        if !self.has_written || current.phase() != Phase::Open {
            // Rows of one key stay in order; and readers that wait for the end of this transaction see all of the last.
            turns[1 - self.current].producer.producer.flush()?;
            current.begin(&self.together.settings)?;
            self.has_written = true;
        }
        self.route.send_all(piece, &current.producer.producer)
    }

    /// Fails if a row was lost. Nothing can be seen before the commit.
    pub(super) fn check(&self) -> Result<(), Diagnostic> {
        self.together.turns[self.current].producer.producer.check()
    }

    pub(super) fn finish(self) -> Result<(), Diagnostic> {
        match self.has_written {
            true => Err(Diagnostic::bug("rows were written behind the last checkpoint")),
            false => Ok(()),
        }
    }

    pub(super) fn cut(&mut self, checkpoint: u64) -> Result<Box<dyn Commit>, Diagnostic> {
        let (together, turn) = (Arc::clone(&self.together), self.current);
        // A span without rows has a transaction, too: its token says how far the job is.
        together.turns[turn].begin(&together.settings)?;
        together.turns[turn].end_part(together.sinks.load(Relaxed));
        (self.current, self.has_written) = (1 - turn, false);
        Ok(Box::new(Transaction { together, turn, checkpoint }))
    }
}

impl Drop for SharedTransactions {
    /// What was not cut will not be committed.
    fn drop(&mut self) {
        self.turns.iter().filter(|turn| turn.phase() == Phase::Open).for_each(|turn| turn.producer.abort());
    }
}

/// A sink's part of the transaction of a span.
struct Transaction {
    together: Arc<SharedTransactions>,
    /// Which producer has it.
    turn: usize,
    checkpoint: u64,
}

impl Commit for Transaction {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        let SharedTransactions { turns, tokens, writer, .. } = &*self.together;
        let turn = &turns[self.turn];
        let producer = &turn.producer.producer;
        producer.flush()?;
        let before = locked(&turn.state).prepared.replace(self.checkpoint);
        if before != Some(self.checkpoint) {
            tokens.send(producer, *writer, Some(Token::Checkpoint(self.checkpoint)))?;
            producer.flush()?;
        }
        Ok(json!({ "checkpoint": self.checkpoint }))
    }

    fn dies_with_process(&self) -> bool {
        true
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        let turn = &self.together.turns[self.turn];
        if locked(&turn.state).committed == Some(self.checkpoint) {
            return Ok(());
        }
        turn.commit()?;
        locked(&turn.state).committed = Some(self.checkpoint);
        Ok(())
    }
}

impl Turn {
    fn new(producer: TransactionalProducer) -> Turn {
        let state = TransactionState { phase: Phase::Idle, ended: 0, prepared: None, committed: None };
        Turn { producer, state: Mutex::new(state), changed: Condvar::new() }
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
    fn begin(&self, settings: &TransactionSettings) -> Result<(), Diagnostic> {
        let mut state = locked(&self.state);
        let start = Instant::now();
        loop {
            match state.phase {
                Phase::Open => return Ok(()),
                Phase::Idle => break,
                Phase::Failed => return Err(fenced()),
                Phase::Cut if start.elapsed() > settings.timeout => return Err(fenced()),
                Phase::Cut => {
                    state = self.changed.wait_timeout(state, ATTEMPT).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        self.producer.begin()?;
        state.phase = Phase::Open;
        Ok(())
    }

    fn commit(&self) -> Result<(), Diagnostic> {
        let committed = self.producer.commit();
        locked(&self.state).phase = if committed.is_ok() { Phase::Idle } else { Phase::Failed };
        self.changed.notify_all();
        committed
    }
}
