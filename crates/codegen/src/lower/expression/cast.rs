//! Casts, by the table at the top of the functions crate's `casts`.
//!
//! A cast that the table describes as two steps is lowered as two: [`Lowering::convert_type`] calls itself.

use super::super::{Computed, Lowering, Scalar, unsupported};
use super::decimal::{Operand, digits_of};
use crate::buffers::phys_of;
use crate::program::{Comparison, Op};
use crate::semantics::POWERS_OF_TEN;
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::Expr;
use millstream_types::DataType;

/// What is the same for every step of one cast.
#[derive(Clone, Copy)]
struct Cast<'e> {
    /// The whole cast.
    expr: &'e Expr,
    operand: &'e Expr,
    /// TRY_CAST: NULL instead of an error.
    lenient: bool,
    /// The cast's site.
    site: u32,
}

impl Cast<'_> {
    /// The error when there is no such cast.
    fn impossible<T>(&self) -> Computed<T> {
        let message = format!("a cast from {} to {}", self.operand.data_type, self.expr.data_type);
        Err(unsupported(message, self.expr.span))
    }
}

impl Lowering<'_> {
    /// `CAST(operand AS type)` or `TRY_CAST`.
    pub(super) fn cast(&mut self, expr: &Expr, operand: &Expr, lenient: bool) -> Computed {
        let scalar = self.expression(operand)?;
        let cast = Cast { expr, operand, lenient, site: self.site(expr) };
        self.convert_type(scalar, &operand.data_type, &expr.data_type, cast)
    }

    /// `scalar` of type `from` as a value of type `to`.
    fn convert_type(&mut self, scalar: Scalar, from: &DataType, to: &DataType, cast: Cast<'_>) -> Computed {
        if from == to {
            return Ok(scalar);
        }
        let phys = phys_of(to).map_or_else(|| cast.impossible(), Ok)?;
        if *from == DataType::Null {
            return Ok(self.null(phys));
        }
        if from.is_string()
            && let Some((function, numbers)) = parser(to)
        {
            let numbers: Vec<i32> = numbers.into_iter().map(i32::from).collect();
            return self.cast_call(function, scalar, &numbers, Some(cast.lenient), cast);
        }
        match to {
            DataType::Char(_) | DataType::Varchar(_) => self.cast_to_string(scalar, from, to, cast),
            DataType::Binary(_) | DataType::Varbinary(_) => match from {
                DataType::Binary(length) | DataType::Varbinary(length) => {
                    self.fit(RuntimeFn::FitBytes, scalar, *length, to, cast)
                }
                // The bytes of a string are as many as its UTF-8 has, which its length in characters does not bound.
                _ if from.is_string() => self.convert_type(scalar, &DataType::BYTES, to, cast),
                _ => cast.impossible(),
            },
            DataType::Boolean if from.is_numeric() => {
                let phys = self.builder.type_of(scalar.value);
                let zero = self.builder.default_of(phys);
                Ok(Scalar { value: self.builder.compare(Comparison::Ne, scalar.value, zero), ..scalar })
            }
            DataType::Decimal { .. } => self.cast_to_decimal(scalar, from, to, cast),
            DataType::Date | DataType::Time(_) | DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
                self.cast_to_time(scalar, from, to, cast)
            }
            _ if to.is_numeric() => self.cast_to_number(scalar, from, phys, cast),
            _ if to.is_interval() && from.is_integer() => Ok(self.converted(scalar, phys)),
            _ => cast.impossible(),
        }
    }

    /// A call within a cast: constants follow the value.
    fn cast_call(
        &mut self,
        function: RuntimeFn,
        scalar: Scalar,
        numbers: &[i32],
        lenient: Option<bool>,
        cast: Cast<'_>,
    ) -> Computed {
        let mut arguments = vec![scalar];
        arguments.extend(numbers.iter().map(|&n| self.number(n)));
        if let Some(lenient) = lenient {
            arguments.push(Scalar::always(self.builder.bool(lenient)));
        }
        self.call(function, &arguments, cast.site, true)
    }

    /// A string, or bytes, of a type of some length in one of its kind that has another.
    fn fit(&mut self, function: RuntimeFn, scalar: Scalar, length: u32, to: &DataType, cast: Cast<'_>) -> Computed {
        let (limit, pads) = match *to {
            DataType::Char(limit) | DataType::Binary(limit) => (limit, true),
            DataType::Varchar(limit) | DataType::Varbinary(limit) if limit < length => (limit, false),
            _ => return Ok(scalar),
        };
        self.cast_call(function, scalar, &[i32::try_from(limit).unwrap_or(i32::MAX)], Some(pads), cast)
    }

    fn cast_to_string(&mut self, scalar: Scalar, from: &DataType, to: &DataType, cast: Cast<'_>) -> Computed {
        use RuntimeFn as F;
        let plain = |function| (function, vec![]);
        let (function, numbers) = match from {
            DataType::Char(length) | DataType::Varchar(length) => {
                return self.fit(F::FitString, scalar, *length, to, cast);
            }
            DataType::Boolean => {
                let (yes, no) = (self.builder.str(b"TRUE"), self.builder.str(b"FALSE"));
                let value = self.builder.select(scalar.value, yes, no);
                return self.convert_type(Scalar { value, ..scalar }, &DataType::STRING, to, cast);
            }
            DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => plain(F::CastIntToStr),
            DataType::Float => plain(F::CastF32ToStr),
            DataType::Double => plain(F::CastF64ToStr),
            DataType::Decimal { scale, .. } => (F::CastDecimalToStr, vec![(*scale).into()]),
            DataType::Date => plain(F::CastDateToStr),
            DataType::Time(p) => (F::CastTimeToStr, vec![(*p).into()]),
            DataType::Timestamp(p) => (F::CastTimestampToStr, vec![(*p).into()]),
            DataType::TimestampLtz(p) => (F::CastTimestampLtzToStr, vec![(*p).into()]),
            DataType::IntervalMonth => plain(F::CastMonthsToStr),
            DataType::IntervalMilli => plain(F::CastMillisToStr),
            DataType::Binary(_) | DataType::Varbinary(_) => plain(F::CastBytesToStr),
            DataType::Null | DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => return cast.impossible(),
        };
        let scalar = if from.is_integer() { self.converted(scalar, Phys::I64) } else { scalar };
        let text = self.cast_call(function, scalar, &numbers, None, cast)?;
        self.convert_type(text, &DataType::STRING, to, cast)
    }

    /// To an integer or a float.
    fn cast_to_number(&mut self, scalar: Scalar, from: &DataType, phys: Phys, cast: Cast<'_>) -> Computed {
        let number = match from {
            // Java casts floats to INT first.
            DataType::Float | DataType::Double if phys.size() < 4 => self.converted(scalar, Phys::I32),
            DataType::Decimal { scale, .. } if phys.is_float() => {
                self.cast_call(RuntimeFn::CastDecimalToF64, scalar, &[(*scale).into()], None, cast)?
            }
            DataType::Decimal { scale: scale @ 1.., .. } => {
                let unit = self.builder.int(POWERS_OF_TEN[*scale as usize], Phys::I128);
                Scalar { value: self.builder.op(Op::Div(scalar.value, unit), Phys::I128), ..scalar }
            }
            DataType::Boolean => scalar,
            _ if from.is_numeric() || from.is_interval() && phys.is_integer() => scalar,
            _ => return cast.impossible(),
        };
        Ok(self.converted(number, phys))
    }

    fn cast_to_decimal(&mut self, scalar: Scalar, from: &DataType, to: &DataType, cast: Cast<'_>) -> Computed {
        let DataType::Decimal { precision, scale } = *to else { return cast.impossible() };
        let (p, s) = (precision.into(), scale.into());
        let (digits, from_scale) = match from {
            DataType::Float | DataType::Double => {
                let double = self.converted(scalar, Phys::F64);
                return self.cast_call(RuntimeFn::CastF64ToDecimal, double, &[p, s], Some(cast.lenient), cast);
            }
            DataType::Boolean => (1, 0),
            _ => digits_of(from).map_or_else(|| cast.impossible(), Ok)?,
        };
        let scalar = self.converted(scalar, Phys::I128);
        let number = Operand { scalar, precision: digits, scale: from_scale };
        if let Some(result) = self.rescale_inline(number, precision, scale) {
            return Ok(result);
        }
        self.cast_call(RuntimeFn::DecimalRescale, scalar, &[from_scale.into(), s, p], None, cast)
    }

    /// From another type than strings.
    fn cast_to_time(&mut self, scalar: Scalar, from: &DataType, to: &DataType, cast: Cast<'_>) -> Computed {
        use DataType::{Date, Time, Timestamp, TimestampLtz};
        use RuntimeFn as F;
        let lenient = Some(cast.lenient);
        let p = |precision: &u8| i32::from(*precision);
        match (from, to) {
            (Time(a), Time(b)) => Ok(self.cut_time(scalar, *a, *b)),
            (Date, Timestamp(q)) => self.cast_call(F::DateToTimestamp, scalar, &[p(q)], lenient, cast),
            (Time(_), Timestamp(_)) => {
                let units = to.time_unit().per_second() / 1000;
                let (wide, units) = (self.converted(scalar, Phys::I64), self.builder.int(units.into(), Phys::I64));
                Ok(Scalar { value: self.builder.op(Op::Mul(wide.value, units), Phys::I64), ..wide })
            }
            (Timestamp(q), Date) => self.cast_call(F::TimestampToDate, scalar, &[p(q)], None, cast),
            (Timestamp(q), Time(digits)) => {
                let time = self.cast_call(F::TimestampToTime, scalar, &[p(q)], None, cast)?;
                Ok(self.cut_time(time, *q, *digits))
            }
            (Timestamp(a), Timestamp(b)) | (TimestampLtz(a), TimestampLtz(b)) => {
                if b >= a && from.time_unit() == to.time_unit() {
                    return Ok(scalar);
                }
                self.cast_call(F::TimestampRescale, scalar, &[p(a), p(b)], lenient, cast)
            }
            (Timestamp(q), TimestampLtz(_)) => {
                let moved = self.cast_call(F::TimestampToLtz, scalar, &[p(q)], None, cast)?;
                self.convert_type(moved, &TimestampLtz(*q), to, cast)
            }
            (TimestampLtz(q), Timestamp(_) | Date | Time(_)) => {
                let moved = self.cast_call(F::LtzToTimestamp, scalar, &[p(q)], None, cast)?;
                self.convert_type(moved, &Timestamp(*q), to, cast)
            }
            (Date | Time(_), TimestampLtz(q)) => {
                let local = self.convert_type(scalar, from, &Timestamp(*q), cast)?;
                self.convert_type(local, &Timestamp(*q), to, cast)
            }
            _ => cast.impossible(),
        }
    }

    /// A time of day, in milliseconds, with `to` digits of its fraction left.
    fn cut_time(&mut self, scalar: Scalar, from: u8, to: u8) -> Scalar {
        if to >= from.min(3) {
            return scalar;
        }
        let unit = self.builder.int(10_i128.pow(3 - u32::from(to)), Phys::I32);
        let rest = self.builder.op(Op::Rem(scalar.value, unit), Phys::I32);
        Scalar { value: self.builder.op(Op::Sub(scalar.value, rest), Phys::I32), ..scalar }
    }
}

/// The function that makes a value of a type of a string, and the numbers that it is given besides.
fn parser(to: &DataType) -> Option<(RuntimeFn, Vec<u8>)> {
    use RuntimeFn as F;
    Some(match to {
        DataType::Boolean => (F::CastStrToBool, vec![]),
        DataType::TinyInt => (F::CastStrToI8, vec![]),
        DataType::SmallInt => (F::CastStrToI16, vec![]),
        DataType::Int => (F::CastStrToI32, vec![]),
        DataType::BigInt => (F::CastStrToI64, vec![]),
        DataType::Float => (F::CastStrToF32, vec![]),
        DataType::Double => (F::CastStrToF64, vec![]),
        DataType::Decimal { precision, scale } => (F::CastStrToDecimal, vec![*precision, *scale]),
        DataType::Date => (F::CastStrToDate, vec![]),
        DataType::Time(p) => (F::CastStrToTime, vec![*p]),
        DataType::Timestamp(p) => (F::CastStrToTimestamp, vec![*p]),
        DataType::TimestampLtz(p) => (F::CastStrToTimestampLtz, vec![*p]),
        _ => return None,
    })
}
