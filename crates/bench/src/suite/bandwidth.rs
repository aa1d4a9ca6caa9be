//! The limit: how fast the machine reads memory, measured on the spot.
//!
//! Each thread adds up its part of a block that is several times larger than the caches. A query cannot be faster than
//! this sweep over as many bytes as it touches.

use super::{Failure, timed};
use std::hint::black_box;

/// Eight times the last-level cache of the machines that this runs on.
const BLOCK_BYTES: usize = 256 << 20;
const WORD_BYTES: usize = size_of::<u64>();
/// Sweeps of a measurement, of which the fastest counts: nothing but disturbance makes one slower.
const SWEEPS: usize = 3;

/// The block; allocated when it is first needed.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    words: usize,
    block: Vec<u64>,
}

impl Bandwidth {
    /// Nothing measured yet. The block shrinks with the rows, as those who measure few want to be done soon.
    pub(crate) fn new(rows_scale: f64) -> Bandwidth {
        Bandwidth {
            words: ((BLOCK_BYTES / WORD_BYTES) as f64 * rows_scale.min(1.0)).max(1.0) as usize,
            block: Vec::new(),
        }
    }

    /// Bytes per second that `threads` threads read together.
    pub(crate) fn measure(&mut self, threads: usize) -> Result<f64, Failure> {
        if self.block.is_empty() {
            self.block = (0..self.words as u64).collect();
        }
        let mut best = f64::INFINITY;
        for _ in 0..SWEEPS {
            let (seconds, sum) = timed(|| sweep(&self.block, threads));
            black_box(sum);
            best = best.min(seconds);
        }
        Ok((self.words * WORD_BYTES) as f64 / best)
    }
}

fn sweep(block: &[u64], threads: usize) -> u64 {
    let part = |words: &[u64]| words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
    std::thread::scope(|scope| {
        let parts = block.chunks(block.len().div_ceil(threads));
        let handles: Vec<_> = parts.map(|words| scope.spawn(move || part(words))).collect();
        handles.into_iter().map(|h| h.join().expect("a sweep does not panic")).fold(0, u64::wrapping_add)
    })
}
