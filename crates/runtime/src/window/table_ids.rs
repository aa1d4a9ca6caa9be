//! The numbers of tables, and what watermarks say about them.

use millstream_plan::window::{Slicing, WindowAssigner};

/// The numbers of the tables of an assigner, and what the watermark says about them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableIds(pub(crate) WindowAssigner);

impl TableIds {
    /// The watermark that completes a table: no row comes to it any more.
    pub(crate) fn completed_at(self, id: i64) -> i64 {
        match self.0 {
            WindowAssigner::Tumble(slicing) => id.saturating_add(slicing.size_ms - 1),
            WindowAssigner::Overlap(overlap) => overlap.table(id).from_end.saturating_sub(1),
            WindowAssigner::Attached => id.saturating_sub(1),
            _ => i64::MAX,
        }
    }

    /// Whether tables can be complete under `after` that were not under `before`.
    pub(super) fn completes(self, before: i64, after: i64) -> bool {
        if after == i64::MAX {
            return before < i64::MAX;
        }
        let passes = |ends: Slicing| before == i64::MIN || ends.start_of(before + 1) < ends.start_of(after + 1);
        match self.0 {
            WindowAssigner::Tumble(slicing) => passes(slicing),
            WindowAssigner::Overlap(overlap) => passes(overlap.window_ends()),
            WindowAssigner::Attached => true,
            _ => false,
        }
    }

    /// The lowest watermark under which a row of the time goes to another table than under none, or to none at all. It
    /// grows with the time.
    pub(super) fn counts_from(self, time: i64) -> i64 {
        match self.0 {
            WindowAssigner::Tumble(slicing) => slicing.start_of(time).saturating_add(slicing.size_ms - 1),
            WindowAssigner::Overlap(overlap) => {
                let slicing = overlap.slicing();
                let slice = slicing.start_of(time);
                let end = overlap.ends(slice).map_or(slice.saturating_add(slicing.size_ms), |(first, _)| first);
                end.saturating_sub(1)
            }
            // The row's window ends after its time.
            WindowAssigner::Attached => time,
            _ => i64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_plan::window::Overlap;

    #[test]
    fn a_watermark_that_completes_a_table_is_noticed() {
        let overlaps = [
            Overlap::Hop { size_ms: 10, slide_ms: 3, offset_ms: 1 },
            Overlap::Hop { size_ms: 3, slide_ms: 10, offset_ms: 4 },
            Overlap::Cumulate { size_ms: 12, step_ms: 4, offset_ms: 2 },
        ];
        let tables = |overlap: Overlap| {
            let Slicing { size_ms, .. } = overlap.slicing();
            let slices = (-60..60).map(move |time| overlap.slicing().start_of(time));
            let slices = slices.filter(move |&s| overlap.ends(s).is_some() && size_ms > 0);
            slices.flat_map(move |s| (0..2).map(move |k| overlap.table_id(s, k))).collect::<Vec<_>>()
        };
        for overlap in overlaps {
            let ids = TableIds(WindowAssigner::Overlap(overlap));
            for watermark in -50..50 {
                for id in tables(overlap) {
                    let is_complete = ids.completed_at(id) <= watermark;
                    let was_complete = ids.completed_at(id) < watermark;
                    assert!(
                        was_complete || !is_complete || ids.completes(watermark - 1, watermark),
                        "{overlap:?} {id}"
                    );
                }
            }
        }
    }
}
