//! Which overlapping windows a watermark completes: only those that hold a slice with rows, in the order of their ends, however
//! far the watermark has jumped.

use super::tables::Taken;
use millstream_plan::window::{Overlap, SliceTable};
use std::collections::BTreeMap;

/// How far the windows have been fired.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// End of the last window, and of the last window that holds a slice taken so far.
    pub(crate) reached: Option<(i64, i64)>,
    /// Tables that were taken and whose first window has not been fired, by its end and by slice.
    pub(crate) waiting: BTreeMap<i64, BTreeMap<i64, Vec<Taken>>>,
    /// Jobs of the lanes so far.
    jobs: u64,
}

/// A window to be fired.
#[derive(Debug)]
pub(crate) struct DueWindow {
    /// Its end.
    pub(crate) end: i64,
    /// What counts from it on, by slice.
    pub(crate) enters: BTreeMap<i64, Vec<Taken>>,
    /// Whether no later window needs what has been taken so far.
    pub(crate) is_last: bool,
}

impl Sweep {
    /// The number of the next job of the lanes.
    pub(crate) fn next_job(&mut self) -> u64 {
        self.jobs += 1;
        self.jobs - 1
    }

    /// End of the next window that holds a slice taken so far: one that is in the last window and in a later one is in the
    /// next.
    pub(crate) fn next_end(&self, overlap: Overlap) -> Option<i64> {
        let (last, until) = self.reached?;
        last.checked_add(overlap.step_ms()).filter(|&end| end <= until)
    }

    /// The next windows with rows that a watermark completes, in order, given the tables that it has completed: `most` of
    /// them. Ask again until there are fewer.
    pub(crate) fn due(
        &mut self,
        overlap: Overlap,
        tables: impl IntoIterator<Item = (SliceTable, Vec<Taken>)>,
        watermark: i64,
        most: usize,
    ) -> Vec<DueWindow> {
        for (SliceTable { slice_start, from_end }, table) in tables {
            self.waiting.entry(from_end).or_default().insert(slice_start, table);
        }
        let mut due = Vec::new();
        while due.len() < most {
            let next = self.next_end(overlap);
            let first = self.waiting.keys().next().copied();
            let Some(end) = next.into_iter().chain(first).min().filter(|end| end.saturating_sub(1) <= watermark) else {
                debug_assert!(self.waiting.is_empty(), "a complete table has a complete window");
                break;
            };
            let enters = self.waiting.remove(&end).unwrap_or_default();
            let last_ends = enters.keys().map(|&slice| overlap.ends(slice).map_or(end, |(_, last)| last));
            let until = last_ends.chain(self.reached.map(|(_, until)| until)).max().unwrap_or(i64::MIN);
            self.reached = Some((end, until));
            due.push(DueWindow { end, enters, is_last: until <= end && self.waiting.is_empty() });
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(due: &[DueWindow]) -> Vec<(i64, Vec<i64>, bool)> {
        due.iter().map(|d| (d.end, d.enters.keys().copied().collect(), d.is_last)).collect()
    }

    fn table(slice_start: i64, from_end: i64) -> (SliceTable, Vec<Taken>) {
        (SliceTable { slice_start, from_end }, Vec::new())
    }

    #[test]
    fn windows_with_rows_are_fired_in_order_and_no_others() {
        let overlap = Overlap::Hop { size_ms: 6, slide_ms: 2, offset_ms: 0 };
        let mut sweep = Sweep::default();
        let due = sweep.due(overlap, [table(0, 2), table(2, 4)], 4, 10);
        assert_eq!(ends(&due), [(2, vec![0], false), (4, vec![2], false)]);
        // A straggler of the first slice counts for the window that ends at 6 only.
        let due = sweep.due(overlap, [table(0, 6)], 5, 10);
        assert_eq!(ends(&due), [(6, vec![0], false)]);
        let far = 1 << 50;
        let due = sweep.due(overlap, [table(far, far + 2)], far + 3, 10);
        assert_eq!(ends(&due), [(8, vec![], false), (far + 2, vec![far], false), (far + 4, vec![], false)]);
        let due = sweep.due(overlap, [], i64::MAX, 10);
        assert_eq!(ends(&due), [(far + 6, vec![], true)]);
    }

    #[test]
    fn a_bounded_number_of_windows_is_fired_at_a_time() {
        let overlap = Overlap::Hop { size_ms: 4, slide_ms: 1, offset_ms: 0 };
        let mut sweep = Sweep::default();
        let mut next = |tables: Vec<(SliceTable, Vec<Taken>)>| ends(&sweep.due(overlap, tables, 9, 3));
        assert_eq!(
            next(vec![table(0, 1), table(2, 3)]),
            [(1, vec![0], false), (2, vec![], false), (3, vec![2], false)]
        );
        assert_eq!(next(vec![]), [(4, vec![], false), (5, vec![], false), (6, vec![], true)]);
        assert_eq!(next(vec![table(1, 8)]), [(8, vec![1], true)], "a straggler");
        assert_eq!(next(vec![]), []);
    }

    #[test]
    fn slices_of_one_first_window_enter_it_together() {
        let overlap = Overlap::Cumulate { size_ms: 6, step_ms: 2, offset_ms: 1 };
        let mut sweep = Sweep::default();
        let due = sweep.due(overlap, [table(-5, -3), table(-3, -1)], i64::MAX, 10);
        assert_eq!(ends(&due), [(-3, vec![-5], false), (-1, vec![-3], false), (1, vec![], true)]);
        let overlap = Overlap::Hop { size_ms: 3, slide_ms: 2, offset_ms: 0 };
        let due = Sweep::default().due(overlap, [table(1, 3), table(0, 3)], i64::MAX, 10);
        assert_eq!(ends(&due), [(3, vec![0, 1], true)]);
    }
}
