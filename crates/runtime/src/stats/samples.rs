//! Samples of rows that were left out: for who wants to know why there are any.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Samples that are kept; the oldest go first.
const KEPT: usize = 50;
/// At most one of a kind in so long: a source of nothing but bad rows costs no more for it.
const APART: Duration = Duration::from_millis(200);
/// Bytes of a text.
const MOST_BYTES: usize = 1000;

/// Why a row was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadRow {
    /// Its record is malformed.
    Malformed,
    /// An expression failed.
    Failed,
    /// It came behind the watermark.
    Late,
}

/// A row that was left out, or several alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSample {
    /// Why.
    pub kind: BadRow,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What is wrong with it.
    pub text: String,
}

/// The last samples.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<KeptSamples>);

#[derive(Debug, Default)]
struct KeptSamples {
    samples: VecDeque<RowSample>,
    /// By kind, when there was one last.
    last: [Option<Instant>; 3],
}

impl Samples {
    /// Keeps a sample, unless there was one just now.
    pub(crate) fn note(&self, kind: BadRow, text: impl FnOnce() -> String) {
        let kept = &mut *self.0.lock();
        let (now, last) = (Instant::now(), &mut kept.last[kind as usize]);
        if last.is_some_and(|last| now.saturating_duration_since(last) < APART) {
            return;
        }
        *last = Some(now);
        let mut text = text();
        if text.len() > MOST_BYTES {
            text.truncate(text.floor_char_boundary(MOST_BYTES));
            text.push('…');
        }
        if kept.samples.len() == KEPT {
            kept.samples.pop_front();
        }
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        kept.samples.push_back(RowSample { kind, at_ms, text });
    }

    /// The last ones in order.
    pub(crate) fn all(&self) -> Vec<RowSample> {
        self.0.lock().samples.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_kind_is_kept_in_a_while() {
        let samples = Samples::default();
        samples.note(BadRow::Late, || "a".into());
        samples.note(BadRow::Late, || unreachable!("it is not asked for"));
        samples.note(BadRow::Failed, || "ä".repeat(MOST_BYTES));
        let all = samples.all();
        assert_eq!(all.iter().map(|sample| sample.kind).collect::<Vec<_>>(), [BadRow::Late, BadRow::Failed]);
        assert!(all[1].text.len() <= MOST_BYTES + 3 && all[1].text.ends_with('…') && all[0].at_ms > 0);
    }
}
