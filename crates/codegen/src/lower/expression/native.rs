//! Functions of time that are a few operations: no call for each row that is read from a file of epoch milliseconds.

use super::super::{Lowering, Scalar};
use crate::program::{Comparison, Op, Value};
use millstream_abi::{Phys, RuntimeFn};
use millstream_functions::LTZ_MILLIS;
use millstream_types::DataType;

impl Lowering<'_> {
    /// A call as operations, if it is one of a function that can be.
    pub(super) fn native(&mut self, function: RuntimeFn, arguments: &[Scalar]) -> Option<Scalar> {
        let &[argument, Scalar { value: precision, valid: None }] = arguments else { return None };
        let precision = u8::try_from(self.builder.known_int(precision)?).ok()?;
        match function {
            RuntimeFn::ToTimestampLtzInt => self.moment_of_epoch(argument, precision),
            RuntimeFn::LtzToTimestamp => self.shifted(argument, precision, 1),
            RuntimeFn::TimestampToLtz => self.shifted(argument, precision, -1),
            _ => None,
        }
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
        let shift = offset * DataType::Timestamp(precision).time_unit().per_second();
        let mut int = |number: i64| -> Value { self.builder.int(number.into(), Phys::I64) };
        let (shift, limit) = (int(shift), int(if offset > 0 { i64::MAX } else { i64::MIN }));
        let sum = self.builder.op(Op::Add(time.value, shift), Phys::I64);
        let beyond = if offset > 0 { Comparison::Lt } else { Comparison::Gt };
        let has_wrapped = self.builder.compare(beyond, sum, time.value);
        Some(Scalar { value: self.builder.op(Op::Select(has_wrapped, limit, sum), Phys::I64), ..time })
    }
}
