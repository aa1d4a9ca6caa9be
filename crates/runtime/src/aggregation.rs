//! A windowed aggregation at run time: which slices the watermarks of its inputs have completed.

use crate::epoch::End;
use crate::progress::{Forward, Progress};
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
        let (fired_before, state) = (AtomicI64::new(i64::MIN), Mutex::new(Progress::new(inputs)));
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
        let before = progress.watermark();
        let Forward { watermark, end } = progress.advance()?;
        let complete = self.completed(before, watermark);
        if let Some(Some(start)) = complete {
            self.fired_before.store(start, Ordering::Release);
        }
        Some(Advance { watermark, complete, end })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Release;
    use millstream_plan::window::Slicing;

    fn tumbling(inputs: usize) -> Aggregation {
        let layout = Arc::new(EntryLayout::new(&[], &[]));
        let types = OutputTypes { keys: vec![], outputs: vec![] };
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
