//! Functions of time that are a few operations: no call for each row that is read from a file of epoch milliseconds, or for its hour.

use super::super::{Lowering, Scalar};
use crate::program::{Comparison, Op, Value};
use millstream_abi::{Phys, RuntimeFn};
use millstream_functions::{LTZ_MILLIS, fixed_step};
use millstream_types::DataType;
use millstream_types::text::calendar::DateTimeUnit;

impl Lowering<'_> {
    /// A call as operations, if it is one of a function that can be.
    pub(super) fn native(&mut self, function: RuntimeFn, arguments: &[Scalar]) -> Option<Scalar> {
        let constant = |argument: &Scalar| self.builder.known_int(argument.value).filter(|_| argument.valid.is_none());
        let (time, precision) = (*arguments.first()?, u8::try_from(constant(arguments.get(1)?)?).ok()?);
        let unit =
            arguments.get(2).and_then(constant).and_then(|code| DateTimeUnit::from_code(i32::try_from(code).ok()?));
        match function {
            RuntimeFn::ToTimestampLtzInt => self.moment_of_epoch(time, precision),
            RuntimeFn::LtzToTimestamp => self.shifted(time, precision, 1),
            RuntimeFn::TimestampToLtz => self.shifted(time, precision, -1),
            RuntimeFn::ExtractTimestamp => self.part_of(time, per_second(precision), unit?),
            RuntimeFn::FloorTimestamp => self.floor(time, per_second(precision), unit?),
            _ => None,
        }
    }

    /// `EXTRACT(unit FROM timestamp)` of what needs no calendar.
    fn part_of(&mut self, time: Scalar, per_second: i64, unit: DateTimeUnit) -> Option<Scalar> {
        let (of, one) = match unit {
            DateTimeUnit::Hour => (86_400, 3_600),
            DateTimeUnit::Minute => (3_600, 60),
            DateTimeUnit::Second => (60, 1),
            _ => return None,
        };
        let within = self.rest(time.value, of * per_second);
        Some(Scalar { value: self.with_constant(Op::Div, within, one * per_second), ..time })
    }

    /// `FLOOR(timestamp TO unit)` of units that are all of one length: NULL below the first timestamp.
    fn floor(&mut self, time: Scalar, per_second: i64, unit: DateTimeUnit) -> Option<Scalar> {
        let past = self.rest(time.value, fixed_step(unit, per_second)?);
        let floor = self.builder.op(Op::Sub(time.value, past), Phys::I64);
        let is_there = self.builder.compare(Comparison::Le, floor, time.value);
        Some(Scalar { value: floor, valid: self.both(time.valid, Some(is_there)) })
    }

    /// What a time is behind the last multiple of a number above 0, which is before it or there.
    pub(super) fn rest(&mut self, time: Value, of: i64) -> Value {
        let rest = self.with_constant(Op::Rem, time, of);
        let zero = self.builder.int(0, Phys::I64);
        let is_negative = self.builder.compare(Comparison::Lt, rest, zero);
        let raised = self.with_constant(Op::Add, rest, of);
        self.builder.select(is_negative, raised, rest)
    }

    /// `TO_TIMESTAMP_LTZ(integer, 0 or 3)`: NULL out of the years 0 to 9999.
    fn moment_of_epoch(&mut self, epoch: Scalar, precision: u8) -> Option<Scalar> {
        let per_unit = match precision {
            0 => 1_000,
            3 => 1,
            _ => return None,
        };
        let (first, last) = (LTZ_MILLIS.start().div_euclid(per_unit), LTZ_MILLIS.end().div_euclid(per_unit));
        let [first, last] = [first, last].map(|limit| self.builder.int(limit.into(), Phys::I64));
        let is_behind = self.builder.compare(Comparison::Ge, epoch.value, first);
        let is_before = self.builder.compare(Comparison::Le, epoch.value, last);
        let is_within = self.builder.and(is_behind, is_before);
        let value = match per_unit {
            1 => epoch.value,
            _ => {
                let per_unit = self.builder.int(per_unit.into(), Phys::I64);
                self.builder.op(Op::Mul(epoch.value, per_unit), Phys::I64)
            }
        };
        Some(Scalar { value, valid: self.both(epoch.valid, Some(is_within)) })
    }

    /// Local time of a moment (1) or the moment of local time (-1) in a zone whose offset never changes. Saturates.
    fn shifted(&mut self, time: Scalar, precision: u8, direction: i64) -> Option<Scalar> {
        let offset = self.zone?.fixed_offset_seconds()? * direction;
        if offset == 0 {
            return Some(time);
        }
        let shift = offset * per_second(precision);
        let mut int = |number: i64| -> Value { self.builder.int(number.into(), Phys::I64) };
        let (shift, limit) = (int(shift), int(if offset > 0 { i64::MAX } else { i64::MIN }));
        let sum = self.builder.op(Op::Add(time.value, shift), Phys::I64);
        let beyond = if offset > 0 { Comparison::Lt } else { Comparison::Gt };
        let has_wrapped = self.builder.compare(beyond, sum, time.value);
        Some(Scalar { value: self.builder.op(Op::Select(has_wrapped, limit, sum), Phys::I64), ..time })
    }
}

/// What a timestamp of a precision counts in a second.
fn per_second(precision: u8) -> i64 {
    DataType::Timestamp(precision).time_unit().per_second()
}
