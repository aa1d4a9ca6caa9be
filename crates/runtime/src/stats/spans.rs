//! What took place when, for traces: compilations, checkpoints, triggers, commits. Kept only while somebody exports them.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// Spans that wait to be exported; the oldest go first.
const KEPT: usize = 2000;
/// Of triggers one in so long is kept: a job may have a million a second.
const APART: Duration = Duration::from_millis(100);

/// What took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A program was compiled, or its code was loaded.
    Compile,
    /// A checkpoint was taken.
    Checkpoint,
    /// From the watermark that completed a window, or called for a turn of a keyed operator, until its rows were out.
    Trigger,
    /// A sink prepared or committed the rows of a checkpoint.
    Commit,
}

impl SpanKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SpanKind::Compile => "compile",
            SpanKind::Checkpoint => "checkpoint",
            SpanKind::Trigger => "trigger",
            SpanKind::Commit => "commit",
        }
    }
}

/// Something that took its time.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanRecord {
    /// What took place.
    pub kind: SpanKind,
    /// The part of the plan: a program, a station, a sink; of checkpoints their number.
    pub subject: String,
    /// When it was over.
    pub ended: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// What it consists of, one after the other.
    pub parts: Vec<(&'static str, Duration)>,
}

/// The spans of a run.
#[derive(Debug, Default)]
pub(crate) struct SpanLog {
    is_read: AtomicBool,
    spans: Mutex<(VecDeque<SpanRecord>, Option<Instant>)>,
}

impl SpanLog {
    /// Something is over, if anybody wants to know.
    pub(crate) fn note(
        &self,
        kind: SpanKind,
        duration: Duration,
        subject: impl FnOnce() -> String,
        parts: &[(&'static str, Duration)],
    ) {
        if !self.is_read.load(Relaxed) {
            return;
        }
        let (spans, last_trigger) = &mut *self.spans.lock();
        if kind == SpanKind::Trigger {
            let now = Instant::now();
            if last_trigger.is_some_and(|last| now.saturating_duration_since(last) < APART) {
                return;
            }
            *last_trigger = Some(now);
        }
        if spans.len() == KEPT {
            spans.pop_front();
        }
        let (subject, ended) = (subject(), SystemTime::now());
        spans.push_back(SpanRecord { kind, subject, ended, duration, parts: parts.to_vec() });
    }

    /// Those since the last time; the first time begins it.
    pub(crate) fn take(&self) -> Vec<SpanRecord> {
        self.is_read.store(true, Relaxed);
        self.spans.lock().0.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_kept_for_who_reads_them() {
        let log = SpanLog::default();
        let note = |kind| log.note(kind, Duration::from_millis(3), || "pipeline 0".into(), &[]);
        note(SpanKind::Compile);
        assert_eq!(log.take(), [], "nobody has read before");
        [SpanKind::Compile, SpanKind::Trigger, SpanKind::Trigger, SpanKind::Commit].into_iter().for_each(note);
        let kinds: Vec<&str> = log.take().iter().map(|span| span.kind.name()).collect();
        assert_eq!(kinds, ["compile", "trigger", "commit"]);
        assert_eq!(log.take(), []);
        (0..KEPT + 5).for_each(|_| note(SpanKind::Commit));
        assert_eq!(log.take().len(), KEPT);
    }
}
