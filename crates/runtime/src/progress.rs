//! How far an operator with several inputs has got: their watermarks, which of them are silent, and which have ended.
//!
//! Windowed aggregations and keyed operators act on what all their inputs have released together. Whoever notes a release
//! looks, under the same lock, whether it moves the operator forward ([`Progress::advance`]) and numbers the units of the
//! output stream that follow from it; so these are in one order, whichever thread is first.

use crate::epoch::{End, Release};

/// The inputs of an operator; changed under its lock.
pub(crate) struct Progress {
    inputs: Vec<Input>,
    watermark: i64,
    ended: bool,
    /// Units of the output stream numbered so far.
    pub(crate) units: u64,
}

/// One channel that ends in the operator.
#[derive(Debug, Clone, Copy)]
struct Input {
    watermark: i64,
    ended: bool,
    /// Left out of the minimum until it speaks again.
    idle: bool,
}

/// What the inputs have released together since the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forward {
    /// The new watermark.
    pub(crate) watermark: i64,
    /// Whether nothing more comes.
    pub(crate) end: Option<End>,
}

impl Progress {
    /// Of `inputs` channels, at their start.
    pub(crate) fn new(inputs: usize) -> Progress {
        let input = Input { watermark: i64::MIN, ended: false, idle: false };
        Progress { inputs: vec![input; inputs], watermark: i64::MIN, ended: false, units: 0 }
    }

    /// Looks whether the inputs have advanced together, and records it.
    pub(crate) fn advance(&mut self) -> Option<Forward> {
        let watermark = self.minimum().max(self.watermark);
        let ended = self.inputs.iter().all(|i| i.ended);
        let ends = ended && !self.ended;
        if watermark == self.watermark && !ends {
            return None;
        }
        self.watermark = watermark;
        self.ended = ended;
        let end = if watermark == i64::MAX { End::Complete } else { End::Stopped };
        Some(Forward { watermark, end: ends.then_some(end) })
    }

    /// Notes what an input has released.
    pub(crate) fn release(&mut self, port: usize, release: Release) {
        let input = &mut self.inputs[port];
        input.watermark = input.watermark.max(release.watermark);
        input.ended |= release.ended;
    }

    /// Leaves an input out of the minimum, or takes it back in.
    pub(crate) fn set_idle(&mut self, port: usize, idle: bool) {
        self.inputs[port].idle = idle;
    }

    /// The watermark that has been acted on.
    pub(crate) fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Minimum over the inputs that are not idle; when all that have not ended are, the maximum over those, because then
    /// nobody holds it back (as Flink decides). Splits are opened in order, so that the ones at the end are those that
    /// hold the minimum at its lowest: looking at them first makes this O(1) until all splits are open.
    fn minimum(&self) -> i64 {
        let (mut minimum, mut idle) = (i64::MAX, None);
        let mut someone_speaks = false;
        for input in self.inputs.iter().rev() {
            if input.idle && !input.ended {
                idle = idle.max(Some(input.watermark));
            } else if input.watermark == i64::MIN {
                return i64::MIN;
            } else {
                minimum = minimum.min(input.watermark);
                someone_speaks |= !input.ended;
            }
        }
        match idle {
            Some(highest) if !someone_speaks => minimum.min(highest),
            _ => minimum,
        }
    }
}
