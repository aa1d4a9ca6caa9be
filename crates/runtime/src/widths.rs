//! How wide the rows are that a program makes, and so how many are made at once.
//!
//! A row of some bytes may become one of a megabyte (`REPEAT`, `LISTAGG` of windows that is shown, JSON). A buffer of them would need
//! memory that nobody has counted before it is there. So the first rows of a program are few, and from then on those are made at once
//! that fit into [`STEP_BYTES`] by what rows have been wide lately. Programs that make no strings and call no vectorised functions run
//! over whole buffers, and so does every one whose rows are narrow. Rows that are suddenly wider than all before are made once in a
//! buffer of the usual size.

use millstream_codegen::execute::{FIRST_STEP, STEP_BYTES, makes_values};
use millstream_codegen::lower::Lowered;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The width before any row was made.
const UNKNOWN: usize = usize::MAX;

/// Width of the rows of one program. Workers share it; an observation that gets lost does no harm.
#[derive(Debug)]
pub(crate) struct Widths {
    /// Bytes of a row; 0 where nothing is made.
    bytes: AtomicUsize,
    makes_values: bool,
}

impl Widths {
    pub(crate) fn new(lowered: &Lowered) -> Widths {
        let makes_values = makes_values(lowered);
        Widths { bytes: AtomicUsize::new(if makes_values { UNKNOWN } else { 0 }), makes_values }
    }

    /// How many rows are made at once.
    pub(crate) fn most_rows(&self) -> usize {
        match self.bytes.load(Relaxed) {
            0 => usize::MAX,
            UNKNOWN => FIRST_STEP as usize,
            bytes => (STEP_BYTES as usize / bytes).max(1),
        }
    }

    /// `made` bytes have been made for `rows` rows. Wider rows count at once, narrower ones by and by.
    pub(crate) fn note(&self, rows: usize, made: usize) {
        if !self.makes_values || rows == 0 {
            return;
        }
        let (now, before) = (made.div_ceil(rows), self.bytes.load(Relaxed));
        let bytes = if before == UNKNOWN || now >= before { now } else { before - (before - now).div_ceil(4) };
        if bytes != before {
            self.bytes.store(bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = STEP_BYTES as usize;

    #[test]
    fn wide_rows_are_made_in_small_numbers() {
        let widths = Widths { bytes: AtomicUsize::new(UNKNOWN), makes_values: true };
        assert_eq!(widths.most_rows(), 16);
        widths.note(16, 16 * 100);
        assert_eq!(widths.most_rows(), STEP / 100);
        widths.note(1000, 1000 << 20);
        assert_eq!(widths.most_rows(), 4);
        widths.note(4, 4 << 30);
        assert_eq!(widths.most_rows(), 1, "a row is made in any case");
        (0..100).for_each(|_| widths.note(1, 10));
        assert_eq!(widths.most_rows(), STEP / 10);
        (0..100).for_each(|_| widths.note(1, 0));
        assert_eq!(widths.most_rows(), usize::MAX);
        widths.note(1, 5);
        assert_eq!(widths.most_rows(), STEP / 5);
    }
}
