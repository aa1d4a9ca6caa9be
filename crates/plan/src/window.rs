//! Windows and the slices they are made of (design section 5).

/// How time is cut into slices: `[offset + k·size, offset + (k+1)·size)` for every integer `k`. Milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slicing {
    /// Length of a slice, positive.
    pub size_ms: i64,
    /// Shift of the slices against the epoch, `0 ≤ offset < size`.
    pub offset_ms: i64,
}

impl Slicing {
    /// Start of the slice that holds `time_ms`. Correct for negative times; saturates at the ends of `i64`.
    pub fn start_of(self, time_ms: i64) -> i64 {
        let shifted = time_ms as i128 - self.offset_ms as i128;
        let start = time_ms as i128 - shifted.rem_euclid(self.size_ms as i128);
        start.clamp(i64::MIN as i128, i64::MAX as i128) as i64
    }
}

/// Which windows a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowAssigner {
    /// `TUMBLE`: one window a row, one slice a window.
    Tumble(Slicing),
    /// The whole bounded input as one window that fires at its end (`'execution.runtime-mode' = 'batch'`).
    Whole,
}

impl WindowAssigner {
    /// The slicing of the windows; `None` when all time is one slice.
    pub fn slicing(self) -> Option<Slicing> {
        match self {
            WindowAssigner::Tumble(slicing) => Some(slicing),
            WindowAssigner::Whole => None,
        }
    }
}
