//! Windows and the slices they are made of (design section 5).

use crate::expr::{Expr, ExprKind};
use millstream_types::text::zone::Zone;
use millstream_types::{DataType, Value};

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
        saturate(self.start(time_ms as i128))
    }

    fn start(self, time: i128) -> i128 {
        time - (time - self.offset_ms as i128).rem_euclid(self.size_ms as i128)
    }
}

fn saturate(ms: i128) -> i64 {
    ms.clamp(i64::MIN as i128, i64::MAX as i128) as i64
}

/// Windows of one length or of growing length that overlap, and so share slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// `HOP`: `[offset + k·slide, offset + k·slide + size)`. The slide may be longer than the size: then some times lie
    /// in no window.
    Hop {
        /// Length of a window, positive.
        size_ms: i64,
        /// Between the starts of two windows, positive.
        slide_ms: i64,
        /// Shift of the starts, `0 ≤ offset < slide`.
        offset_ms: i64,
    },
    /// `CUMULATE`: `[offset + k·size, offset + k·size + j·step)` for `1 ≤ j ≤ size / step`.
    Cumulate {
        /// Length of the longest window, a multiple of the step.
        size_ms: i64,
        /// What each window is longer than the one before, positive.
        step_ms: i64,
        /// Shift of the starts, `0 ≤ offset < size`.
        offset_ms: i64,
    },
}

/// A table of an aggregation over [`Overlap`]ping windows: rows of one slice that count from one window on.
///
/// A row that comes when some windows of its slice are complete already counts only for the others. So that those
/// windows have the same rows in every run, such rows go to a separate table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceTable {
    /// Start of the slice.
    pub slice_start: i64,
    /// End of the first window that the rows count for. The table is complete when the watermark has reached it.
    pub from_end: i64,
}

impl Overlap {
    /// The slices: every window begins and ends where a slice does.
    pub fn slicing(self) -> Slicing {
        let (length, offset_ms) = match self {
            Overlap::Hop { size_ms, slide_ms, offset_ms } => (gcd(size_ms, slide_ms), offset_ms),
            Overlap::Cumulate { step_ms, offset_ms, .. } => (step_ms, offset_ms),
        };
        Slicing { size_ms: length, offset_ms: offset_ms.rem_euclid(length) }
    }

    /// From the end of one window to the end of the next.
    pub fn step_ms(self) -> i64 {
        match self {
            Overlap::Hop { slide_ms, .. } => slide_ms,
            Overlap::Cumulate { step_ms, .. } => step_ms,
        }
    }

    /// The ends of windows, as those of slices.
    pub fn window_ends(self) -> Slicing {
        let step = self.step_ms();
        let (Overlap::Hop { size_ms, offset_ms, .. } | Overlap::Cumulate { size_ms, offset_ms, .. }) = self;
        Slicing { size_ms: step, offset_ms: (offset_ms as i128 + size_ms as i128).rem_euclid(step as i128) as i64 }
    }

    /// Most windows that one time lies in.
    pub fn windows_per_slice(self) -> i64 {
        match self {
            Overlap::Hop { size_ms, slide_ms, .. } => (size_ms + slide_ms - 1) / slide_ms,
            Overlap::Cumulate { size_ms, step_ms, .. } => size_ms / step_ms,
        }
    }

    /// Start of the window that ends at `end`.
    pub fn start_of_window(self, end: i64) -> i64 {
        match self {
            Overlap::Hop { size_ms, .. } => end.saturating_sub(size_ms),
            Overlap::Cumulate { size_ms, offset_ms, .. } => {
                saturate(Slicing { size_ms, offset_ms }.start(end as i128 - 1))
            }
        }
    }

    /// Ends of the first and of the last window that hold the slice at `slice_start`; `None` when no window does.
    pub fn ends(self, slice_start: i64) -> Option<(i64, i64)> {
        let start = slice_start as i128;
        let (first, last) = match self {
            Overlap::Hop { size_ms, slide_ms, offset_ms } => {
                let (size, slide) = (size_ms as i128, slide_ms as i128);
                let last = Slicing { size_ms: slide_ms, offset_ms }.start(start) + size;
                // All windows up to `last` that end after the slice's start end at or after its end.
                (last - (last - start - 1).div_euclid(slide) * slide, last)
            }
            Overlap::Cumulate { size_ms, step_ms, offset_ms } => {
                (start + step_ms as i128, Slicing { size_ms, offset_ms }.start(start) + size_ms as i128)
            }
        };
        (last > start).then(|| (saturate(first), saturate(last)))
    }

    /// Number of the table, as programs compute it: `slice · (windows_per_slice + 1) + k`, where `slice` is the number
    /// of the slice ((start - offset) / length) and the rows count from the `k`-th window (from 0) of the slice on.
    /// Ascending by slice. Wraps beyond 64 bits: past the times of calendars or, with the most windows that the binder
    /// admits (a million over slices of 1 ms), 292 years from the epoch.
    pub fn table_id(self, slice_start: i64, windows_complete: i64) -> i64 {
        let Slicing { size_ms, offset_ms } = self.slicing();
        let number = slice_start.wrapping_sub(offset_ms).div_euclid(size_ms);
        number.wrapping_mul(self.windows_per_slice() + 1).wrapping_add(windows_complete)
    }

    /// The inverse of [`Overlap::table_id`].
    pub fn table(self, id: i64) -> SliceTable {
        let Slicing { size_ms, offset_ms } = self.slicing();
        let variants = self.windows_per_slice() + 1;
        let slice_start = id.div_euclid(variants).wrapping_mul(size_ms).wrapping_add(offset_ms);
        let first = self.ends(slice_start).map_or(slice_start, |(first, _)| first);
        SliceTable {
            slice_start,
            from_end: first.saturating_add(id.rem_euclid(variants).saturating_mul(self.step_ms())),
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What the times of windows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeline {
    /// The times of the rows, and of the watermarks.
    #[default]
    Own,
    /// Local times of a zone, of rows whose times are instants: windows over TIMESTAMP_LTZ. When clocks are put back, the
    /// times that they show twice are the same; when they are put forward, there are times without rows.
    Local(Zone),
}

impl Timeline {
    /// The time that a watermark has reached: windows that end at or before the millisecond after it are complete. It
    /// grows with the watermark: when clocks are about to be put back, what they will show is not reached before they show
    /// it for the second time.
    pub fn reached(self, watermark: i64) -> i64 {
        match self {
            Timeline::Own => watermark,
            Timeline::Local(zone) => zone.reached_local(watermark),
        }
    }

    /// What EXPLAIN says behind windows.
    pub(crate) fn text(self) -> String {
        match self {
            Timeline::Own => String::new(),
            Timeline::Local(zone) => format!(" of local time in {zone}"),
        }
    }

    /// The lowest watermark that has [reached](Timeline::reached) a time.
    pub fn watermark_at(self, time: i64) -> i64 {
        match self {
            Timeline::Own => time,
            Timeline::Local(zone) => zone.reaches_local_at(time),
        }
    }
}

/// The time of all rows of a bounded input that are looked at together: no row has one like it, so nothing of them comes
/// before the end of the input. Times that are up to 35,000 years later are possible.
pub const END_OF_INPUT_MS: i64 = i64::MAX - (1 << 50);

/// [`END_OF_INPUT_MS`] as the time of a window.
pub fn end_of_input() -> Expr {
    Expr::literal(Value::Int(END_OF_INPUT_MS), DataType::Timestamp(3))
}

/// Whether a time is that of [`end_of_input`].
pub fn is_end_of_input(time: &Expr) -> bool {
    time.kind == ExprKind::Literal(Value::Int(END_OF_INPUT_MS))
}

/// Which windows a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowAssigner {
    /// `TUMBLE`: one window a row, one slice a window.
    Tumble(Slicing),
    /// `HOP` and `CUMULATE`: several windows a row.
    Overlap(Overlap),
    /// `SESSION`: windows of a key that end where nothing comes for longer than the gap. A row alone makes the window
    /// `[t, t + gap)`; windows that overlap or touch are one, as in Flink.
    Session {
        /// Milliseconds, positive.
        gap_ms: i64,
    },
    /// `COUNT_TUMBLE` (slide = size) and `COUNT_HOP`: `size` rows of a key in the order of arrival, beginning every
    /// `slide` rows. Only full windows give results.
    Count {
        /// Rows of a window, positive.
        size: u64,
        /// Rows between the starts of two windows, positive.
        slide: u64,
    },
    /// Every row says to which window it belongs, by columns that an operator below has made (windows over windows).
    Attached,
    /// All rows so far, of input that has no end or is not waited for: results change with every beat.
    Unbounded {
        /// A hint for how many milliseconds of processing time a group is kept that no row comes for; 0: for good. `None`: as it is set for
        /// all.
        ttl_ms: Option<u64>,
    },
    /// The whole bounded input as one window that fires at its end (`'execution.runtime-mode' = 'batch'`).
    Whole,
}

impl WindowAssigner {
    /// The slices that rows go to by their time; `None` for windows that are not made by cutting time.
    pub fn slicing(self) -> Option<Slicing> {
        match self {
            WindowAssigner::Tumble(slicing) => Some(slicing),
            WindowAssigner::Overlap(overlap) => Some(overlap.slicing()),
            WindowAssigner::Session { .. }
            | WindowAssigner::Count { .. }
            | WindowAssigner::Attached
            | WindowAssigner::Unbounded { .. }
            | WindowAssigner::Whole => None,
        }
    }

    /// What EXPLAIN calls it, over a time.
    pub(crate) fn text(self, time: &str) -> String {
        let offset = |ms: i64| if ms == 0 { String::new() } else { format!(", offset {ms} ms") };
        match self {
            WindowAssigner::Tumble(Slicing { size_ms, offset_ms }) => {
                format!("TUMBLE({time}, {size_ms} ms{})", offset(offset_ms))
            }
            WindowAssigner::Overlap(Overlap::Hop { size_ms, slide_ms, offset_ms }) => {
                format!("HOP({time}, {size_ms} ms every {slide_ms} ms{})", offset(offset_ms))
            }
            WindowAssigner::Overlap(Overlap::Cumulate { size_ms, step_ms, offset_ms }) => {
                format!("CUMULATE({time}, {size_ms} ms in steps of {step_ms} ms{})", offset(offset_ms))
            }
            WindowAssigner::Session { gap_ms } => format!("SESSION({time}, gap {gap_ms} ms)"),
            WindowAssigner::Count { size, slide } if size == slide => format!("COUNT_TUMBLE({size} rows)"),
            WindowAssigner::Count { size, slide } => format!("COUNT_HOP({size} rows every {slide} rows)"),
            WindowAssigner::Attached => format!("of each row (until {time})"),
            WindowAssigner::Unbounded { .. } => "all rows so far".into(),
            WindowAssigner::Whole => "whole input".into(),
        }
    }

    /// Whether results have a window: all but the whole input do.
    pub fn has_window(self) -> bool {
        !matches!(self, WindowAssigner::Unbounded { .. } | WindowAssigner::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(overlap: Overlap, time: i64) -> Vec<(i64, i64)> {
        let range = -200..200;
        match overlap {
            Overlap::Hop { size_ms, slide_ms, offset_ms } => range
                .map(|k| (offset_ms + k * slide_ms, offset_ms + k * slide_ms + size_ms))
                .filter(|&(start, end)| start <= time && time < end)
                .collect(),
            Overlap::Cumulate { size_ms, step_ms, offset_ms } => range
                .flat_map(|k| (1..=size_ms / step_ms).map(move |j| (k, j)))
                .map(|(k, j)| (offset_ms + k * size_ms, offset_ms + k * size_ms + j * step_ms))
                .filter(|&(start, end)| start <= time && time < end)
                .collect(),
        }
    }

    #[test]
    fn slices_have_the_ends_of_the_windows_around_them() {
        let hop = |size_ms, slide_ms, offset_ms| Overlap::Hop { size_ms, slide_ms, offset_ms };
        let cumulate = |size_ms, step_ms, offset_ms| Overlap::Cumulate { size_ms, step_ms, offset_ms };
        let cases = [hop(10, 2, 0), hop(10, 3, 1), hop(3, 10, 4), hop(7, 7, 3), hop(1, 1, 0), cumulate(12, 3, 5)];
        for overlap in cases {
            for time in -60..60 {
                let slice = overlap.slicing().start_of(time);
                let expected = windows(overlap, time);
                let ends = expected.first().zip(expected.last()).map(|(first, last)| (first.1, last.1));
                assert_eq!(overlap.ends(slice), ends, "{overlap:?} at {time}");
                for (k, &(start, end)) in expected.iter().enumerate() {
                    assert_eq!(overlap.start_of_window(end), start, "{overlap:?} at {time}");
                    let id = overlap.table_id(slice, k as i64);
                    assert_eq!(overlap.table(id), SliceTable { slice_start: slice, from_end: end }, "{overlap:?}");
                }
                assert!(expected.len() as i64 <= overlap.windows_per_slice(), "{overlap:?} at {time}");
            }
        }
    }
}
