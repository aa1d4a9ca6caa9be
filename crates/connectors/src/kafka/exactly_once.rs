//! Rows that are seen exactly once: transactions, each with the token of a checkpoint ([`tokens`](super::tokens)).
//!
//! One process writes rows as they come, into a transaction that is committed with the checkpoint ([`transactions`](super::transactions)).
//! Such a transaction dies with its process, so it is no way for several nodes, of which any may die: there rows wait in the job's state
//! until the checkpoint is complete ([`node_spans`](super::node_spans)), and are written twice. The token of the sinks says which way was the
//! last; a job changes it when it resumes on one process or on several.

use super::node_spans::{NodeSpans, written_by_nodes};
use super::options::GUARANTEE;
use super::sink::Route;
use super::tokens::Token;
use super::transactional::TransactionSettings;
use super::transactions::{OpenTransactions, SharedTransactions};
use crate::option_table::option_fault;
use crate::spans::{SpanFiles, Spans};
use crate::text_chunk::whole;
use crate::{Commit, Committed, Delivery, Encoded, Encoder, LostSink, RestoredSink, Sink, SinkJob};
use millstream_types::{Diagnostic, Options, code};
use rdkafka::ClientConfig;
use serde_json::Value;
use std::sync::Arc;

/// See the module.
pub(super) struct ExactlyOnceSink {
    settings: TransactionSettings,
    encoder: Arc<dyn Encoder>,
    topic: String,
    /// On the first node, from when the job has been known.
    together: Option<Arc<SharedTransactions>>,
    way: Way,
}

/// How rows are written.
enum Way {
    /// Not yet: there are no checkpoints.
    None(Route),
    /// Into open transactions.
    Open(OpenTransactions),
    /// When their checkpoint is complete.
    Deferred(Box<Spans<NodeSpans>>),
    /// It could not begin.
    Failed,
}

impl ExactlyOnceSink {
    /// A sink that waits for its job.
    pub(super) fn open(
        options: &Options,
        config: ClientConfig,
        route: Route,
        encoder: Arc<dyn Encoder>,
    ) -> Result<ExactlyOnceSink, Diagnostic> {
        let (settings, topic) = (TransactionSettings::new(options, config)?, route.topic.clone());
        Ok(ExactlyOnceSink { settings, encoder, topic, together: None, way: Way::None(route) })
    }

    fn join(&mut self, job: &SinkJob) -> Result<Arc<SharedTransactions>, Diagnostic> {
        if let Some(joined) = &self.together {
            return Ok(Arc::clone(joined));
        }
        let joined = SharedTransactions::join(&self.settings, job)?;
        Ok(Arc::clone(self.together.insert(joined)))
    }

    /// Checks that what was written fits the checkpoint that the job resumes from.
    fn check(
        &self,
        together: &SharedTransactions,
        job: &SinkJob,
        restored: Option<&RestoredSink>,
    ) -> Result<(), Diagnostic> {
        let said = together.said();
        let wanted = restored.map(|restored| restored.checkpoint);
        // A new sink of a resumed job shares the token of the others, or has none.
        let is_new = wanted.is_none() && job.resumes.is_some();
        if wanted.is_none() && !is_new {
            // A job of this name has been there before; its tokens must not count for this one.
            return together.forget();
        }
        let (fits, last) = match said {
            None => (wanted.is_none(), None),
            Some(Token::Checkpoint(last)) => (Some(last) == wanted || is_new && Some(last) == job.resumes, Some(last)),
            Some(Token::Spans) => {
                let last = written_by_nodes(&together.last(), job.sink).into_values().max();
                (last <= wanted, last)
            }
        };
        if fits {
            return Ok(());
        }
        let last = last.map_or("none".to_string(), |last| last.to_string());
        let message = format!(
            "the sink has committed checkpoint {last} last, so the job cannot resume from checkpoint {}",
            wanted.or(job.resumes).unwrap_or_default()
        );
        Err(Diagnostic::new(code::NOT_RECOVERABLE, message).at(whole(&self.topic)).advise(
            "recover from the checkpoint that was committed, or start the job from the beginning with another state directory",
        ))
    }

    /// Begins the transactions of a single process; what several have prepared before is written first.
    fn begin_open(
        &self,
        route: Route,
        together: Arc<SharedTransactions>,
        job: &SinkJob,
        spans: Option<&RestoredSink>,
    ) -> Result<Way, Diagnostic> {
        if let Some(spans) = spans {
            let target = NodeSpans::new(&self.settings, job, route.clone(), Some(Arc::clone(&together)));
            SpanFiles::new(job)?.finish(&target, Some(spans))?;
        }
        if let Some(checkpoint) = job.resumes.filter(|_| together.said() == Some(Token::Spans)) {
            together.say(Token::Checkpoint(checkpoint))?;
        }
        Ok(Way::Open(OpenTransactions::new(together, route)))
    }
}

impl Sink for ExactlyOnceSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        match &mut self.way {
            Way::Open(transactions) => transactions.write(&piece),
            Way::Deferred(spans) => {
                let (data, records) = super::kept_records::keep_all(&piece)?;
                spans.write(&data, records)
            }
            Way::None(_) | Way::Failed => Err(without_checkpoints()),
        }
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        match &self.way {
            Way::Open(transactions) => transactions.check(),
            _ => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        match self.way {
            Way::Open(transactions) => transactions.finish(),
            Way::Deferred(spans) => spans.finish(),
            Way::None(_) | Way::Failed => Err(without_checkpoints()),
        }
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }

    fn committed(&mut self, job: &SinkJob) -> Result<Committed, Diagnostic> {
        Ok(match self.join(job)?.said() {
            None => Committed::Nothing,
            Some(Token::Checkpoint(last)) => Committed::Checkpoint(last),
            Some(Token::Spans) => Committed::Resumable,
        })
    }

    fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        let Way::None(route) = std::mem::replace(&mut self.way, Way::Failed) else {
            return Err(Diagnostic::bug("a sink has begun before"));
        };
        if !job.writer.is_first() {
            let target = NodeSpans::new(&self.settings, job, route, None);
            self.way = Way::Deferred(Box::new(Spans::begin(target, job, None)?));
            return Ok(());
        }
        let together = self.join(job)?;
        self.check(&together, job, restored)?;
        let is_of_transaction = |token: &Value| token.get("checkpoint").is_some();
        let spans = restored.filter(|restored| !restored.tokens.iter().all(is_of_transaction));
        self.way = match job.is_distributed {
            false => self.begin_open(route, together, job, spans)?,
            true => {
                let target = NodeSpans::new(&self.settings, job, route, Some(together));
                Way::Deferred(Box::new(Spans::begin(target, job, spans)?))
            }
        };
        Ok(())
    }

    fn commit_of_others(&mut self, tokens: &[Value]) -> Result<(), Diagnostic> {
        match &self.way {
            Way::Deferred(spans) => spans.commit_of_others(tokens),
            _ => Err(Diagnostic::bug("rows of other nodes have been prepared, and those of this one have not")),
        }
    }

    fn succeed(&mut self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        match &self.way {
            Way::Deferred(spans) => spans.succeed(lost),
            _ => Err(Diagnostic::bug("rows of other nodes have been prepared, and those of this one have not")),
        }
    }

    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        match &mut self.way {
            Way::Open(transactions) => transactions.cut(checkpoint).map(Some),
            Way::Deferred(spans) => Ok(Some(spans.cut(checkpoint))),
            Way::None(_) | Way::Failed => Err(without_checkpoints()),
        }
    }
}

fn without_checkpoints() -> Diagnostic {
    let message = "rows are to be written exactly once, but there are no checkpoints, with which they are committed";
    let advice = "set 'execution.checkpointing.interval' and give a state directory, or set 'sink.delivery-guarantee' = \
        'at-least-once'";
    option_fault(code::INVALID_OPTION, GUARANTEE.key, message, advice)
}
