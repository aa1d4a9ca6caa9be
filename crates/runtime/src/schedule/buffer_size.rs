//! How many rows a buffer has at the moment: what is set, or what `adaptive::decisions::buffer_rows` decides. Rows of the
//! output are the same whatever the size.

use crate::adaptive::decisions::buffer_rows::{FIRST, adapted};
use crate::config::RunConfig;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// See the module.
#[derive(Debug)]
pub(crate) struct BufferSize {
    is_fixed: bool,
    rows: AtomicUsize,
    most: usize,
}

impl BufferSize {
    /// The size that the configuration fixes, or one that adapts.
    pub(crate) fn new(config: &RunConfig) -> BufferSize {
        let most = config.most_adapted_rows();
        let (is_fixed, rows) = match config.buffer_rows {
            0 => (false, FIRST.min(most)),
            rows => (true, rows.min(RunConfig::MAX_BUFFER_ROWS)),
        };
        BufferSize { is_fixed, rows: AtomicUsize::new(rows), most }
    }

    /// Most rows of a buffer that is made now.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Relaxed)
    }

    /// Adapts to the tasks that wait for a worker; called for each chunk. Observations that overtake each other do no
    /// harm: each moves by one step from what it has read.
    pub(crate) fn observe(&self, waiting: usize, workers: usize) {
        if !self.is_fixed {
            let rows = self.rows();
            let adapted = adapted(rows, waiting, workers).min(self.most);
            if adapted != rows {
                self.rows.store(adapted, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::decisions::buffer_rows::LEAST;
    use millstream_types::MemorySize;

    #[test]
    fn buffers_grow_with_the_queue_and_shrink_without() {
        let size = BufferSize::new(&RunConfig { buffer_rows: 0, ..RunConfig::default() });
        (0..10).for_each(|_| size.observe(8, 4));
        assert_eq!(size.rows(), RunConfig::MAX_BUFFER_ROWS);
        for waiting in [2, 7] {
            size.observe(waiting, 4);
            assert_eq!(size.rows(), RunConfig::MAX_BUFFER_ROWS, "neither short nor long");
        }
        size.observe(1, 4);
        assert_eq!(size.rows(), RunConfig::MAX_BUFFER_ROWS / 2);
        (0..10).for_each(|_| size.observe(0, 4));
        assert_eq!(size.rows(), LEAST);
        size.observe(100, 1);
        assert_eq!(size.rows(), 2 * LEAST);
    }

    #[test]
    fn buffers_stay_small_with_little_memory() {
        let config =
            |mib: u64| RunConfig { buffer_rows: 0, memory: MemorySize::Bytes(mib << 20), ..RunConfig::default() };
        for (mib, rows) in [(1, LEAST), (32, 2048), (256, 16 << 10), (1 << 20, RunConfig::MAX_BUFFER_ROWS)] {
            let size = BufferSize::new(&config(mib));
            assert!(size.rows() <= rows);
            (0..10).for_each(|_| size.observe(100, 1));
            assert_eq!(size.rows(), rows);
        }
    }

    #[test]
    fn a_size_that_is_set_stays() {
        for (set, rows) in [(1, 1), (137, 137), (usize::MAX, RunConfig::MAX_BUFFER_ROWS)] {
            let size = BufferSize::new(&RunConfig { buffer_rows: set, ..RunConfig::default() });
            [0, 1000].into_iter().for_each(|waiting| size.observe(waiting, 2));
            assert_eq!(size.rows(), rows);
        }
    }
}
