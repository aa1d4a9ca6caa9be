//! A windowed aggregation at run time: the watermarks of its inputs, and which slices they have completed.

use crate::epoch::{End, Release};
use crate::stream::StreamId;
use millstream_abi::EntryLayout;
use millstream_plan::window::WindowAssigner;
use millstream_state::OutputTypes;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// See the file's description.
pub(crate) struct Aggregation {
    pub(crate) assigner: WindowAssigner,
    pub(crate) layout: Arc<EntryLayout>,
    pub(crate) types: OutputTypes,
    /// The stream of its output.
    pub(crate) output: StreamId,
    /// Slices that start before this have been fired. Written under the state's lock, read by every task when it starts.
    /// Release/acquire is more than needed, for the value only serves an assertion.
    fired_before: AtomicI64,
    state: Mutex<Progress>,
}

/// How far an aggregation has got; changed under its lock.
pub(crate) struct Progress {
    inputs: Vec<Input>,
    watermark: i64,
    ended: bool,
    /// Units of the output stream numbered so far.
    pub(crate) units: u64,
}

/// One channel that ends in the aggregation.
#[derive(Debug, Clone, Copy)]
struct Input {
    watermark: i64,
    ended: bool,
    /// Left out of the minimum until it speaks again.
    idle: bool,
}

/// What an advance of the watermark completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advance {
    /// The new watermark.
    pub(crate) watermark: i64,
    /// `Some`: slices that start before the value inside are complete; all slices when that is `None`.
    pub(crate) complete: Option<Option<i64>>,
    /// Whether nothing more comes.
    pub(crate) end: Option<End>,
}

impl Aggregation {
    /// With `inputs` channels that end in it.
    pub(crate) fn new(
        assigner: WindowAssigner,
        layout: Arc<EntryLayout>,
        types: OutputTypes,
        output: StreamId,
        inputs: usize,
    ) -> Aggregation {
        let input = Input { watermark: i64::MIN, ended: false, idle: false };
        let state = Progress { inputs: vec![input; inputs], watermark: i64::MIN, ended: false, units: 0 };
        let (fired_before, state) = (AtomicI64::new(i64::MIN), Mutex::new(state));
        Aggregation { assigner, layout, types, output, fired_before, state }
    }

    /// See the field.
    pub(crate) fn fired_before(&self) -> i64 {
        self.fired_before.load(Ordering::Acquire)
    }

    /// Locks the progress.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.state.lock()
    }

    /// Whether there is a row even of no input, as that of `SELECT COUNT(*)` without GROUP BY.
    pub(crate) fn has_group_of_nothing(&self) -> bool {
        self.assigner == WindowAssigner::Whole && self.layout.keys.is_empty()
    }

    /// Looks whether the inputs have advanced together, and records it.
    pub(crate) fn advance(&self, progress: &mut Progress) -> Option<Advance> {
        let before = progress.watermark;
        let watermark = progress.minimum().max(before);
        let ended = progress.inputs.iter().all(|i| i.ended);
        let ends = ended && !progress.ended;
        if watermark == before && !ends {
            return None;
        }
        progress.watermark = watermark;
        progress.ended = ended;
        let complete = self.completed(before, watermark);
        if let Some(Some(start)) = complete {
            self.fired_before.store(start, Ordering::Release);
        }
        let end = if watermark == i64::MAX { End::Complete } else { End::Stopped };
        Some(Advance { watermark, complete, end: ends.then_some(end) })
    }

    /// Which slices the advance completes. A slice is complete when its end minus 1 ms is at or before the watermark,
    /// which are the slices before the one that holds the next millisecond.
    fn completed(&self, before: i64, watermark: i64) -> Option<Option<i64>> {
        if watermark == i64::MAX {
            return (before < i64::MAX).then_some(None);
        }
        let slicing = self.assigner.slicing()?;
        let start = slicing.start_of(watermark + 1);
        let advanced = before == i64::MIN || slicing.start_of(before + 1) < start;
        advanced.then_some(Some(start))
    }
}

impl Progress {
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

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_plan::window::Slicing;

    fn tumbling(inputs: usize) -> Aggregation {
        let layout = Arc::new(EntryLayout::new(&[], &[]));
        let types = OutputTypes { keys: vec![], components: vec![] };
        let slicing = Slicing { size_ms: 10, offset_ms: 0 };
        Aggregation::new(WindowAssigner::Tumble(slicing), layout, types, 0, inputs)
    }

    fn release(aggregation: &Aggregation, port: usize, watermark: i64, ended: bool) -> Option<Advance> {
        let mut progress = aggregation.progress();
        progress.release(port, Release { watermark, ended });
        aggregation.advance(&mut progress)
    }

    #[test]
    fn a_window_is_complete_one_millisecond_before_its_end() {
        let aggregation = tumbling(1);
        let complete = |w| release(&aggregation, 0, w, false).and_then(|a| a.complete);
        assert_eq!(complete(8), Some(Some(0)));
        assert_eq!(complete(9), Some(Some(10)));
        assert_eq!(complete(18), None);
        assert_eq!(complete(19), Some(Some(20)));
        assert_eq!(aggregation.fired_before(), 20);
        assert_eq!(release(&aggregation, 0, i64::MAX, true).and_then(|a| a.complete), Some(None));
    }

    #[test]
    fn the_slowest_input_that_is_not_idle_decides() {
        let aggregation = tumbling(2);
        assert_eq!(release(&aggregation, 0, 50, false), None);
        aggregation.progress().set_idle(1, true);
        let advance = aggregation.advance(&mut aggregation.progress()).unwrap();
        assert_eq!((advance.watermark, advance.end), (50, None));
        aggregation.progress().set_idle(1, false);
        assert_eq!(release(&aggregation, 0, 90, false), None);
        assert_eq!(release(&aggregation, 1, 60, true).unwrap().watermark, 60);
        let end = release(&aggregation, 0, 90, true).unwrap();
        assert_eq!(end.end, Some(End::Stopped));
    }
}
