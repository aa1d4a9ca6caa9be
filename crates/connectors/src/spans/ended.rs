//! Spans of a sink that have ended, on their way to be committed.

use crate::locked;
use millstream_types::Diagnostic;
use std::sync::Mutex;

/// Spans that have ended, and what is durable of them. A checkpoint that never became whole leaves its spans here, and the next one
/// takes them along.
pub(crate) struct EndedSpans<E, D>(Mutex<Ledger<E, D>>);

/// Each with the checkpoint that has ended it.
struct Ledger<E, D> {
    ended: Vec<(u64, E)>,
    durable: Vec<(u64, D)>,
    /// A span could not be forced to disk: no later one is whole.
    failure: Option<Diagnostic>,
}

impl<E, D> Default for EndedSpans<E, D> {
    fn default() -> EndedSpans<E, D> {
        EndedSpans(Mutex::new(Ledger { ended: Vec::new(), durable: Vec::new(), failure: None }))
    }
}

impl<E, D: Clone> EndedSpans<E, D> {
    /// A span has ended.
    pub(crate) fn end(&self, checkpoint: u64, span: E) {
        locked(&self.0).ended.push((checkpoint, span));
    }

    /// Has `keep` make the spans of a checkpoint durable. Returns what is to be committed with it.
    pub(crate) fn prepare(
        &self,
        checkpoint: u64,
        keep: impl FnOnce(Vec<(u64, E)>) -> Result<Vec<(u64, D)>, Diagnostic>,
    ) -> Result<Vec<D>, Diagnostic> {
        let mut ledger = locked(&self.0);
        let later = ledger.ended.partition_point(|(of, _)| *of <= checkpoint);
        let ended = ledger.ended.drain(..later).collect();
        // The sink keeps adding spans while the disk is busy.
        drop(ledger);
        let kept = keep(ended);
        let mut ledger = locked(&self.0);
        match kept {
            Ok(kept) => ledger.durable.extend(kept),
            Err(failure) => ledger.failure = Some(failure),
        }
        match &ledger.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(ledger.due(checkpoint)),
        }
    }

    /// Has `commit` commit what is durable of the spans of a checkpoint.
    pub(crate) fn commit<T>(
        &self,
        checkpoint: u64,
        commit: impl FnOnce(&[D]) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        let due = locked(&self.0).due(checkpoint);
        let committed = commit(&due)?;
        locked(&self.0).durable.retain(|(of, _)| *of > checkpoint);
        Ok(committed)
    }
}

impl<E, D: Clone> Ledger<E, D> {
    fn due(&self, checkpoint: u64) -> Vec<D> {
        self.durable.iter().filter(|(of, _)| *of <= checkpoint).map(|(_, durable)| durable.clone()).collect()
    }
}
