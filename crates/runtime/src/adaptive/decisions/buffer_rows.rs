//! How many rows a buffer has.
//!
//! Small buffers share a chunk among all workers, so that its rows reach their windows soon; large ones cost less for
//! each row. So buffers are small while workers wait for rows, and grow when rows wait for workers.

use crate::config::RunConfig;

/// Least rows of an adapted buffer: fewer spend more time on being handed over than on being processed.
pub(crate) const LEAST: usize = 1 << 10;
/// Rows at the start.
pub(crate) const FIRST: usize = 16 << 10;

/// Twice the rows when two or more tasks wait for each worker; half of them when fewer than one worker in two has a
/// task waiting. In between they stay, so that the size does not oscillate.
pub(crate) fn adapted(rows: usize, waiting: usize, workers: usize) -> usize {
    if waiting >= 2 * workers {
        (rows * 2).min(RunConfig::MAX_BUFFER_ROWS)
    } else if 2 * waiting < workers {
        (rows / 2).max(LEAST)
    } else {
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn situations() {
        const MOST: usize = RunConfig::MAX_BUFFER_ROWS;
        for (rows, waiting, workers, expected) in [
            (FIRST, 8, 4, 2 * FIRST),
            (FIRST, 7, 4, FIRST),
            (FIRST, 2, 4, FIRST),
            (FIRST, 1, 4, FIRST / 2),
            (MOST, 100, 4, MOST),
            (LEAST, 0, 4, LEAST),
            (FIRST, 0, 1, FIRST / 2),
            (FIRST, 1, 1, FIRST),
        ] {
            assert_eq!(adapted(rows, waiting, workers), expected, "{rows} rows, {waiting} waiting, {workers} workers");
        }
    }

    #[test]
    fn the_choice_does_not_swing() {
        for workers in 1..64 {
            for waiting in 0..256 {
                let grows = adapted(FIRST, waiting, workers) > FIRST;
                let shrinks = adapted(2 * FIRST, waiting, workers) < 2 * FIRST;
                assert!(!(grows && shrinks), "{waiting} waiting, {workers} workers");
            }
        }
    }
}
