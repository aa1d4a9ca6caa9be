//! Exactly once on several nodes: each writes its spans when their checkpoint is complete ([`crate::spans`]).
//!
//! A span is one transaction, with a token that says which checkpoint it belongs to. Its producer's transactional id is that of the
//! sink and the node, whichever process it is in; so who finishes a span of another process first takes over the id, which ends what that
//! one may have under way, and then reads the node's last token: the rows are there or they are not.

use super::kept_records::KeptRecords;
use super::producer::Producer;
use super::sink::Route;
use super::tokens::{LastTokens, Token, Tokens, Writer};
use super::transactional::{TransactionSettings, TransactionalProducer, id_of_node, panicked};
use super::transactions::SharedTransactions;
use crate::spans::{DurableSpan, OfNodes, SpanFiles, SpanTarget};
use crate::{SinkJob, locked};
use millstream_types::{Diagnostic, code};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// See the module.
pub(super) struct NodeSpans {
    settings: TransactionSettings,
    job: SinkJob,
    tokens: Tokens,
    route: Mutex<Route>,
    own: Mutex<OwnProducer>,
    /// On the first node.
    together: Option<Arc<SharedTransactions>>,
}

/// The producer of this node.
enum OwnProducer {
    Closed,
    Opening(JoinHandle<Result<TransactionalProducer, Diagnostic>>),
    Open(TransactionalProducer),
}

impl OwnProducer {
    fn get(&mut self) -> Result<&TransactionalProducer, Diagnostic> {
        if let OwnProducer::Opening(_) = self
            && let OwnProducer::Opening(thread) = std::mem::replace(self, OwnProducer::Closed)
        {
            *self = OwnProducer::Open(thread.join().unwrap_or_else(|_| Err(panicked()))?);
        }
        match self {
            OwnProducer::Open(producer) => Ok(producer),
            _ => Err(Diagnostic::bug("a span is to be written behind a failure")),
        }
    }
}

impl NodeSpans {
    /// Those of a node; `together` on the first one, which can write what others have prepared.
    pub(super) fn new(
        settings: &TransactionSettings,
        job: &SinkJob,
        route: Route,
        together: Option<Arc<SharedTransactions>>,
    ) -> NodeSpans {
        NodeSpans {
            settings: settings.clone(),
            job: job.clone(),
            tokens: Tokens::new(settings, &job.job),
            route: Mutex::new(route),
            own: Mutex::new(OwnProducer::Closed),
            together,
        }
    }

    /// Writes spans of a node, in one transaction.
    fn write_of(
        &self,
        producer: &TransactionalProducer,
        node: usize,
        spans: &[&DurableSpan],
        files: &SpanFiles,
    ) -> Result<(), Diagnostic> {
        let route = &mut *locked(&self.route);
        let last = last_of(spans);
        producer.in_transaction(|producer| {
            self.tokens.send(producer, Writer::Node(self.job.sink, node), Some(Token::Checkpoint(last)))?;
            // Who is not heard any more learns it here: its files may be gone, as somebody else has written their rows.
            producer.flush()?;
            spans.iter().try_for_each(|span| send(producer, route, span, files))
        })
    }
}

/// Up to which checkpoint the rows of nodes are there.
pub(super) fn written_by_nodes(last: &LastTokens, sink: usize) -> BTreeMap<usize, u64> {
    let of_node = |(writer, token): (&Writer, &Token)| match (writer, token) {
        (Writer::Node(of, node), Token::Checkpoint(checkpoint)) if *of == sink => Some((*node, *checkpoint)),
        _ => None,
    };
    last.iter().filter_map(of_node).collect()
}

fn last_of(spans: &[&DurableSpan]) -> u64 {
    spans.iter().map(|span| span.checkpoint).max().unwrap_or(0)
}

fn send(producer: &Producer, route: &mut Route, span: &DurableSpan, files: &SpanFiles) -> Result<(), Diagnostic> {
    let mut records = KeptRecords::new(files.open(span)?);
    let mut sent = 0;
    while let Some(record) = records.next()? {
        route.send(&record, producer)?;
        sent += 1;
    }
    match sent == span.rows {
        true => Ok(()),
        false => {
            Err(Diagnostic::bug(format!("{sent} messages of the {} of checkpoint {}", span.rows, span.checkpoint)))
        }
    }
}

impl SpanTarget for NodeSpans {
    /// The id is taken over beside what the run does in its first half second.
    fn open(&self) -> Result<(), Diagnostic> {
        let (settings, job, node) = (self.settings.clone(), self.job.clone(), self.job.writer.node);
        let take_over = move || settings.take_over_node(&job, job.sink, node);
        let thread = std::thread::Builder::new().name("kafka".into()).spawn(take_over);
        let failed = |e| Diagnostic::new(code::WORKER_FAILED, format!("a thread cannot be started: {e}"));
        *locked(&self.own) = OwnProducer::Opening(thread.map_err(failed)?);
        Ok(())
    }

    /// From now on the nodes say how far they are. That is said when nothing of the time before can be resumed from any more.
    fn prepare(&self) -> Result<(), Diagnostic> {
        locked(&self.own).get()?;
        self.together.as_ref().map_or(Ok(()), |together| together.say(Token::Spans))
    }

    fn write(&self, spans: &[&DurableSpan], files: &SpanFiles) -> Result<(), Diagnostic> {
        self.write_of(locked(&self.own).get()?, self.job.writer.node, spans, files)
    }

    fn finish(
        &self,
        spans: &OfNodes<'_>,
        files: &SpanFiles,
        is_lost: &dyn Fn(usize) -> bool,
    ) -> Result<(), Diagnostic> {
        let mut written = match &self.together {
            Some(together) => written_by_nodes(&together.last(), self.job.sink),
            None => BTreeMap::new(),
        };
        let is_missing = |written: &BTreeMap<usize, u64>, node: usize, spans: &[&DurableSpan]| {
            last_of(spans) > written.get(&node).copied().unwrap_or(0)
        };
        let missing: Vec<usize> =
            spans.iter().filter(|(node, spans)| is_missing(&written, **node, spans)).map(|(node, _)| *node).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = missing.iter().map(|node| id_of_node(*node)).collect();
        let producers = self.settings.take_over_all(&self.job, &ids)?;
        // Whoever is at work ends its transaction itself.
        let fence = |sink, node| match is_lost(node) {
            true => self.settings.take_over_node(&self.job, sink, node).map(|_| true),
            false => Ok(false),
        };
        let last = self.tokens.last(fence)?;
        written = written_by_nodes(&last, self.job.sink);
        for (node, producer) in missing.into_iter().zip(producers) {
            let behind = written.get(&node).copied().unwrap_or(0);
            let of_node = spans.get(&node).into_iter().flatten().copied();
            let of_node: Vec<&DurableSpan> = of_node.filter(|span| span.checkpoint > behind).collect();
            if !of_node.is_empty() {
                self.write_of(&producer, node, &of_node, files)?;
            }
        }
        Ok(())
    }
}
