//! Timestamps, dates and times plus intervals; starts of windows.

use super::super::{Computed, Lowering, Scalar, unsupported};
use crate::program::{Comparison, Op, Value};
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::Expr;
use millstream_plan::window::Slicing;
use millstream_types::DataType;

/// Milliseconds of a day.
const DAY_MS: i128 = 86_400_000;

impl Lowering<'_> {
    /// `time + interval`
    pub(super) fn add_interval(&mut self, expr: &Expr, time: &Expr, interval: &Expr) -> Computed {
        let (left, right) = (self.expression(time)?, self.expression(interval)?);
        let valid = self.both(left.valid, right.valid);
        let value = match (&time.data_type, &interval.data_type) {
            (DataType::Timestamp(_) | DataType::TimestampLtz(_), DataType::IntervalMilli) => {
                let units = self.builder.int((time.data_type.time_unit().per_second() / 1000).into(), Phys::I64);
                let shift = self.times(right.value, units);
                self.builder.op(Op::Add(left.value, shift), Phys::I64)
            }
            (DataType::Date, DataType::IntervalMilli) => {
                let day = self.builder.int(DAY_MS, Phys::I64);
                let days = self.builder.op(Op::Div(right.value, day), Phys::I64);
                let days = self.builder.convert(days, Phys::I32);
                self.builder.op(Op::Add(left.value, days), Phys::I32)
            }
            (DataType::Time(_), DataType::IntervalMilli) => self.add_to_time(left.value, right.value),
            (DataType::Timestamp(p) | DataType::TimestampLtz(p), DataType::IntervalMonth) => {
                let precision = self.number((*p).into());
                let site = self.site(expr);
                return self.call(RuntimeFn::AddMonthsTimestamp, &[left, precision, right], site, true);
            }
            (DataType::Date, DataType::IntervalMonth) => {
                let site = self.site(expr);
                return self.call(RuntimeFn::AddMonthsDate, &[left, right], site, true);
            }
            // Whole months leave the time of day as it is.
            (DataType::Time(_), DataType::IntervalMonth) => left.value,
            (a, b) => return Err(unsupported(format!("{a} + {b}"), expr.span)),
        };
        Ok(Scalar { value, valid })
    }

    fn times(&mut self, a: Value, b: Value) -> Value {
        if self.builder.known_int(b) == Some(1) { a } else { self.builder.op(Op::Mul(a, b), Phys::I64) }
    }

    /// A time of day plus milliseconds, around midnight.
    fn add_to_time(&mut self, time: Value, interval: Value) -> Value {
        let day = self.builder.int(DAY_MS, Phys::I64);
        let time = self.builder.convert(time, Phys::I64);
        let part = self.builder.op(Op::Rem(interval, day), Phys::I64);
        let sum = self.builder.op(Op::Add(time, part), Phys::I64);
        let time = self.rest(sum, DAY_MS as i64);
        self.builder.convert(time, Phys::I32)
    }

    /// The watermark before the row, NULL while there is none.
    pub(super) fn current_watermark(&mut self) -> Scalar {
        let value = self.builder.op(Op::Watermark, Phys::I64);
        let none = self.builder.int(i64::MIN as i128, Phys::I64);
        Scalar { value, valid: Some(self.builder.compare(Comparison::Ne, value, none)) }
    }

    /// Start of the tumbling window of a time in milliseconds.
    pub(super) fn window_start(&mut self, time: &Expr, slicing: Slicing) -> Computed {
        let Scalar { value, valid } = self.expression(time)?;
        let Slicing { size_ms, offset_ms } = slicing;
        let value = self.builder.op(Op::SliceStart { time: value, size_ms, offset_ms }, Phys::I64);
        Ok(Scalar { value, valid })
    }
}
