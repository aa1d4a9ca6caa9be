//! Attempts of jobs: which of two counts. No I/O, no clock, no thread.
//!
//! Every start of a run is an attempt with a higher number than those before, of whichever process: the numbers of those that hold the state directory are in the upper
//! bits. Nodes leave an older attempt for a newer one, and refuse what comes of older ones, so what was paused, cut off or forgotten does no harm.

use millstream_types::{Diagnostic, code};
use std::cmp::Ordering;

/// Attempts of one process.
const ATTEMPT_BITS: u32 = 24;

/// The number of an attempt: that of the process that begins it among those that held the state directory, if there is one, and that of the attempt in the
/// process, from 1.
pub fn number(run: Option<u64>, count: u64) -> u64 {
    run.map_or(0, |run| run << ATTEMPT_BITS) + count
}

/// What an attempt is to a node that takes part in another, or in the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// It is the same.
    Same,
    /// It is over: nothing of it counts any more.
    Older,
    /// The node is yet to begin it.
    Newer,
    /// It is one of another job.
    OfAnotherJob,
}

/// What an attempt (job and number) is to a node that takes part in `ours`.
pub fn precedence((job, attempt): (&str, u64), ours: (&str, u64)) -> Precedence {
    if job != ours.0 {
        return Precedence::OfAnotherJob;
    }
    match attempt.cmp(&ours.1) {
        Ordering::Equal => Precedence::Same,
        Ordering::Less => Precedence::Older,
        Ordering::Greater => Precedence::Newer,
    }
}

/// The error of an attempt that is over.
pub fn stale(attempt: u64, newer: u64) -> Diagnostic {
    Diagnostic::new(code::STALE_ATTEMPT, format!("a newer attempt of the job runs: {newer}, and not {attempt}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_of_a_later_process_are_newer() {
        let attempts = [number(None, 1), number(None, 2), number(Some(1), 1), number(Some(1), 9), number(Some(2), 1)];
        assert!(attempts.is_sorted_by(|a, b| a < b));
        assert_eq!(precedence(("a", attempts[3]), ("a", attempts[4])), Precedence::Older);
        assert_eq!(precedence(("a", attempts[4]), ("a", attempts[3])), Precedence::Newer);
        assert_eq!(precedence(("a", 1), ("a", 1)), Precedence::Same);
        assert_eq!(precedence(("b", 9), ("a", 1)), Precedence::OfAnotherJob);
    }
}
