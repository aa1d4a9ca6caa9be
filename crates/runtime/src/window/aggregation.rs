//! A windowed aggregation at run time: which of its tables the watermarks of its inputs have completed.

use super::lanes::KeyLanes;
use super::overlap::OverlappingWindows;
use super::strategy::Strategy;
use super::table_ids::TableIds;
use super::tables::OpenTables;
use crate::buffer::{Buffer, BufferPieces};
use crate::config::MergeStrategy;
use crate::station::progress::{Forward, Progress};
use millstream_abi::EntryLayout;
use millstream_plan::pipeline::ShorterWindows;
use millstream_plan::window::{Timeline, WindowAssigner};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// See the module.
pub(crate) struct Aggregation {
    pub(crate) assigner: WindowAssigner,
    /// What the times of its windows are: the numbers of its tables, and whatever is about windows. Its progress is of
    /// raw watermarks.
    pub(crate) timeline: Timeline,
    pub(crate) layout: Arc<EntryLayout>,
    /// The tables of slices that are not complete.
    pub(crate) tables: Arc<OpenTables>,
    /// Which tables its rows go to.
    pub(crate) strategy: Strategy,
    /// For overlapping windows, what their slices have become.
    pub(crate) overlap: Option<OverlappingWindows>,
    /// Where its rows are exchanged by key before they meet a table.
    pub(crate) lanes: Option<KeyLanes>,
    /// Whether what a row does depends on the exact watermark before it, because rows of several streams are put in order.
    is_ordered: bool,
    /// Whether a component keeps the places of rows.
    pub(crate) keeps_places: bool,
    /// What the watermark whose tables have been fired has reached. Written under the state's lock, read by every task when it starts.
    /// Release/acquire is more than needed, for the value only serves an assertion.
    fired: AtomicI64,
    pub(crate) progress: Mutex<Progress>,
}

/// What an advance of the inputs brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advance {
    /// How far the inputs have come.
    pub(crate) forward: Forward,
    /// Whether the watermark may complete tables.
    pub(crate) completes: bool,
    /// Whether a part of the windows that it completes has been fired.
    pub(crate) is_rest: bool,
}

impl Aggregation {
    /// With `inputs` channels that end in it.
    pub(crate) fn new(
        (assigner, timeline): (WindowAssigner, Timeline),
        inputs: usize,
        overlap: Option<OverlappingWindows>,
        tables: OpenTables,
        strategy: Strategy,
    ) -> Aggregation {
        let layout = Arc::clone(&tables.layout);
        let keeps_places = layout.accumulators.iter().any(|(accumulator, _)| accumulator.keeps_places());
        let (fired, progress) = (AtomicI64::new(i64::MIN), Mutex::new(Progress::new(inputs)));
        let is_ordered = keeps_places && inputs > 1;
        let lanes = (strategy.merge == MergeStrategy::Partition).then(|| KeyLanes::new(tables.owners.workers));
        Aggregation {
            assigner,
            timeline,
            layout,
            tables: Arc::new(tables),
            strategy,
            overlap,
            lanes,
            is_ordered,
            keeps_places,
            fired,
            progress,
        }
    }

    /// The same, of which other nodes read other rows: they are put in order together.
    pub(crate) fn of_several_nodes(self) -> Aggregation {
        Aggregation { is_ordered: self.keeps_places, ..self }
    }

    /// See the field.
    pub(crate) fn fired(&self) -> i64 {
        self.fired.load(Ordering::Acquire)
    }

    /// Start and end of the window that is table `id`, where windows are one slice; `None` when all time is one.
    pub(crate) fn window_of(&self, id: i64) -> Option<(i64, i64)> {
        match self.assigner {
            WindowAssigner::Tumble(slicing) => Some((id, id.saturating_add(slicing.size_ms))),
            WindowAssigner::Attached => Some((id, id)),
            _ => None,
        }
    }

    /// Components that count shorter windows.
    pub(crate) fn shorter(&self) -> Option<&ShorterWindows> {
        self.overlap.as_ref()?.shorter.as_ref()
    }

    /// The numbers of its tables.
    pub(crate) fn ids(&self) -> TableIds {
        TableIds(self.assigner)
    }

    /// The rows of a buffer with the watermarks before them that decide about windows; exact ones if the pipeline reads
    /// them.
    pub(crate) fn pieces<'b>(&self, buffer: &'b Buffer, is_exact: bool) -> BufferPieces<'b> {
        match self.is_ordered || is_exact {
            true => BufferPieces::One(buffer.whole()),
            // No later row has a smaller time than the row's has reached.
            false => {
                buffer.pieces(|time| self.timeline.watermark_at(self.ids().counts_from(self.timeline.reached(time))))
            }
        }
    }

    /// Takes over how far the inputs had come, before the first row.
    pub(crate) fn restore(&self, watermark: i64) {
        self.progress.lock().restore(watermark);
        self.fired.store(self.timeline.reached(watermark), Ordering::Release);
    }

    /// Whether there is a row even of no input, as that of `SELECT COUNT(*)` without GROUP BY.
    pub(crate) fn has_group_of_nothing(&self) -> bool {
        self.assigner == WindowAssigner::Whole && self.layout.keys.is_empty()
    }

    /// Looks whether the inputs have advanced together, and records it; or gives what is left to do of the last advance.
    pub(crate) fn advance(&self, progress: &mut Progress) -> Option<Advance> {
        if let Some(forward) = self.overlap.as_ref().map_or(Ok(None), OverlappingWindows::take_held).ok()? {
            return Some(Advance { forward, completes: true, is_rest: true });
        }
        let before = progress.watermark();
        let forward = progress.advance()?;
        let reached = self.timeline.reached(forward.watermark);
        let completes = self.ids().completes(self.timeline.reached(before), reached);
        self.fired.store(reached, Ordering::Release);
        Some(Advance { forward, completes, is_rest: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunConfig;
    use crate::ids::Port;
    use crate::window::tables::Owners;
    use millstream_plan::window::Slicing;
    use millstream_state::{MemoryBudget, OutputTypes};
    use millstream_sync::epoch_ring::{End, Release};

    fn tumbling(inputs: usize) -> Aggregation {
        let layout = Arc::new(EntryLayout::new(&[], &[]));
        let slicing = Slicing { size_ms: 10, offset_ms: 0 };
        let tables = OpenTables::new(
            (Arc::clone(&layout), OutputTypes { keys: vec![], outputs: vec![] }),
            Owners { own: 1, nodes: 0, workers: 1 },
            (true, false),
            &MemoryBudget::new(1 << 20),
            Arc::default(),
        );
        let strategy = Strategy::new(&RunConfig::default(), &layout, None, Default::default());
        let windows = (WindowAssigner::Tumble(slicing), Timeline::Own);
        Aggregation::new(windows, inputs, None, tables, strategy)
    }

    fn release(aggregation: &Aggregation, port: usize, watermark: i64, ended: bool) -> Option<Advance> {
        let mut progress = aggregation.progress.lock();
        progress.release(Port::new(port), Release { watermark, generation: 0, cut: i64::MIN, ended });
        aggregation.advance(&mut progress)
    }

    #[test]
    fn a_window_is_complete_one_millisecond_before_its_end() {
        let aggregation = tumbling(1);
        let completes = |w| release(&aggregation, 0, w, false).map(|a| a.completes);
        assert_eq!(completes(8), Some(true), "what was before the first watermark");
        assert_eq!(completes(9), Some(true));
        assert_eq!(completes(18), Some(false));
        assert_eq!(completes(19), Some(true));
        assert_eq!(aggregation.fired(), 19);
        let ids = aggregation.ids();
        assert_eq!(ids.completed_at(10), 19);
        assert_eq!(release(&aggregation, 0, i64::MAX, true).map(|a| a.completes), Some(true));
    }

    #[test]
    fn the_slowest_input_that_is_not_idle_decides() {
        let aggregation = tumbling(2);
        assert_eq!(release(&aggregation, 0, 50, false), None);
        aggregation.progress.lock().set_idle(Port::new(1), true);
        let advance = aggregation.advance(&mut aggregation.progress.lock()).unwrap();
        assert_eq!((advance.forward.watermark, advance.forward.end), (50, None));
        aggregation.progress.lock().set_idle(Port::new(1), false);
        assert_eq!(release(&aggregation, 0, 90, false), None);
        assert_eq!(release(&aggregation, 1, 60, true).unwrap().forward.watermark, 60);
        let end = release(&aggregation, 0, 90, true).unwrap();
        assert_eq!(end.forward.end, Some(End::Stopped));
    }
}
