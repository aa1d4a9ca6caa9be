//! Which table of a windowed aggregation a row goes to, and whether it is late: when the last of its windows is complete
//! under the watermark before it. A window `[s, e)` is complete when the watermark has reached `e - 1`.

use super::{Computed, Lowering};
use crate::program::{Comparison, Op, Value};
use millstream_abi::{ErrorKind, Phys, RuntimeFn};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::pipeline::Aggregation;
use millstream_plan::window::{Overlap, Slicing, Timeline, WindowAssigner};
use millstream_types::Diagnostic;

/// Ends of the windows of a row.
struct Ends {
    first: Value,
    last: Value,
}

impl Lowering<'_> {
    /// Number of the row's table; `None` when there is only one. Rows without time are errors, late rows are dropped and
    /// counted, rows that are in no window are dropped.
    pub(super) fn table(&mut self, aggregation: &Aggregation, time: Option<&Expr>) -> Computed<Option<Value>> {
        let timeline = aggregation.timeline;
        let table = match (aggregation.assigner, time) {
            (WindowAssigner::Whole, _) => return Ok(None),
            (WindowAssigner::Session { .. } | WindowAssigner::Count { .. }, _) => {
                return Err(Diagnostic::bug("sessions and count windows are not made of slices"));
            }
            (WindowAssigner::Unbounded { .. }, _) => {
                return Err(Diagnostic::bug("groups of all rows are not made of slices"));
            }
            (_, None) => return Err(Diagnostic::bug("rows of a windowed aggregation have no time")),
            (WindowAssigner::Tumble(slicing), Some(time)) => {
                let slice = self.slice(time, slicing)?;
                let last = self.plus(slice, slicing.size_ms - 1);
                self.drop_late(last, timeline);
                slice
            }
            (WindowAssigner::Overlap(overlap), Some(time)) => self.overlapping(time, overlap, timeline)?,
            (_, Some(time)) => {
                let last = self.event_time(time)?;
                self.drop_late(last, timeline);
                self.plus(last, 1)
            }
        };
        Ok(Some(table))
    }

    /// A time in milliseconds. Rows without one are errors.
    pub(super) fn event_time(&mut self, time: &Expr) -> Computed<Value> {
        let scalar = self.expression(time)?;
        let what = self.text(time);
        self.trap_null(scalar, ErrorKind::NullRowtime, what, time.span);
        Ok(scalar.value)
    }

    /// Makes rows without a time errors.
    pub(super) fn require_time(&mut self, time: &Expr) -> Computed<()> {
        let scalar = self.validity(time)?;
        let what = self.text(time);
        self.trap_null(scalar, ErrorKind::NullRowtime, what, time.span);
        Ok(())
    }

    /// Start of the slice of a time.
    fn slice(&mut self, time: &Expr, slicing: Slicing) -> Computed<Value> {
        let value = self.event_time(time)?;
        Ok(if self.starts_slice(time, slicing) { value } else { self.start_of(value, slicing) })
    }

    /// Whether a time is always the start of a slice.
    fn starts_slice(&self, time: &Expr, slicing: Slicing) -> bool {
        match self.resolve(time).0 {
            Expr { kind: ExprKind::WindowStart(_, inner), .. } => *inner == slicing,
            _ => false,
        }
    }

    fn start_of(&mut self, time: Value, Slicing { size_ms, offset_ms }: Slicing) -> Value {
        self.builder.op(Op::SliceStart { time, size_ms, offset_ms }, Phys::I64)
    }

    /// Keeps rows whose last window has `last` as its last millisecond unless the watermark has reached that.
    pub(super) fn drop_late(&mut self, last: Value, timeline: Timeline) {
        let watermark = self.watermark(timeline);
        let in_time = self.builder.compare(Comparison::Gt, last, watermark);
        self.builder.filter(in_time, true);
    }

    /// What the watermark before the row has reached of the times of windows.
    fn watermark(&mut self, timeline: Timeline) -> Value {
        let watermark = self.builder.op(Op::Watermark, Phys::I64);
        match timeline {
            Timeline::Own => watermark,
            Timeline::Local(_) => {
                let site = self.site_of("the watermark".into(), Span::default());
                self.builder.call(RuntimeFn::LocalWatermark, &[watermark], site).0
            }
        }
    }

    /// `Overlap::table_id` of the row's slice and of the number of its windows that are complete already.
    fn overlapping(&mut self, time: &Expr, overlap: Overlap, timeline: Timeline) -> Computed<Value> {
        let slicing = overlap.slicing();
        let slice = self.slice(time, slicing)?;
        // The slice's number comes from its start: then it is the same for all rows of a block within one slice, and computed
        // once for it.
        let from_zero = self.plus(slice, slicing.offset_ms.wrapping_neg());
        let number = self.divided(from_zero, slicing.size_ms);
        let ends = match overlap {
            Overlap::Hop { size_ms, slide_ms, offset_ms } => {
                self.ends_of_hops(slice, slicing, size_ms, Slicing { size_ms: slide_ms, offset_ms })
            }
            Overlap::Cumulate { size_ms, step_ms, offset_ms } => {
                let longest = self.grid_start(slice, slicing, Slicing { size_ms, offset_ms });
                Ends { first: self.plus(slice, step_ms), last: self.plus(longest, size_ms) }
            }
        };
        let last = self.plus(ends.last, -1);
        self.drop_late(last, timeline);
        let id = self.with_constant(Op::Mul, number, overlap.windows_per_slice() + 1);
        if overlap.windows_per_slice() == 1 {
            return Ok(id);
        }
        let complete = self.windows_complete(ends.first, overlap.step_ms(), timeline);
        Ok(self.builder.op(Op::Add(id, complete), Phys::I64))
    }

    /// Ends of the windows around a slice, of which one begins at every start of `slides`. Between two starts there are
    /// two kinds of slices: before and from the end of the window that ends there, if any.
    fn ends_of_hops(&mut self, slice: Value, slicing: Slicing, size_ms: i64, slides: Slicing) -> Ends {
        let start = self.grid_start(slice, slicing, slides);
        let last = self.plus(start, size_ms);
        if size_ms < slides.size_ms {
            let in_window = self.builder.compare(Comparison::Lt, slice, last);
            self.builder.filter(in_window, false);
            return Ends { first: last, last };
        }
        let to_first_end = size_ms % slides.size_ms;
        let mut first = self.plus(start, slides.size_ms + to_first_end);
        if to_first_end != 0 {
            let earlier = self.plus(start, to_first_end);
            let is_before = self.builder.compare(Comparison::Lt, slice, earlier);
            first = self.builder.select(is_before, earlier, first);
        }
        Ends { first, last }
    }

    /// How many of the row's windows, which end every `step_ms` from `first_end` on, are complete. The row is not late, so
    /// its last window is not among them. Almost no row comes when any of them is: hence a branch.
    fn windows_complete(&mut self, first_end: Value, step_ms: i64, timeline: Timeline) -> Value {
        let zero = self.builder.int(0, Phys::I64);
        let first = self.plus(first_end, -1);
        let watermark = self.watermark(timeline);
        let any = self.builder.compare(Comparison::Ge, watermark, first);
        self.builder.open();
        let since = self.builder.op(Op::Sub(watermark, first), Phys::I64);
        let more = self.divided(since, step_ms);
        let count = self.plus(more, 1);
        let then = self.builder.close();
        self.builder.open();
        let otherwise = self.builder.close();
        self.builder.branch(any, then, otherwise, &[(count, zero)])[0]
    }

    /// Start of the cell of a coarser or equal grid that a slice lies in.
    fn grid_start(&mut self, slice: Value, slicing: Slicing, grid: Slicing) -> Value {
        if grid == slicing { slice } else { self.start_of(slice, grid) }
    }

    fn plus(&mut self, value: Value, constant: i64) -> Value {
        if constant == 0 { value } else { self.with_constant(Op::Add, value, constant) }
    }

    fn divided(&mut self, value: Value, constant: i64) -> Value {
        if constant == 1 { value } else { self.with_constant(Op::Div, value, constant) }
    }

    /// An operation on a BIGINT and a constant.
    pub(super) fn with_constant(&mut self, op: fn(Value, Value) -> Op, value: Value, constant: i64) -> Value {
        let constant = self.builder.int(constant.into(), Phys::I64);
        self.builder.op(op(value, constant), Phys::I64)
    }
}
