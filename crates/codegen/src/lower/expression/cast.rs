//! Casts, by the table at the top of the functions crate's `casts`.
//!
//! A cast that the table describes as two steps is lowered as two: [`Lowering::convert_type`] calls itself.

use super::super::{Lowering, Scalar, unsupported};
use crate::buffers::phys_of;
use crate::program::{Comparison, Op};
use crate::semantics::POWERS_OF_TEN;
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::Expr;
use millstream_types::{DataType, Diagnostic};

/// What is the same for every step of one cast.
#[derive(Clone, Copy)]
struct Context {
    /// TRY_CAST: NULL instead of an error.
    lenient: bool,
    /// The cast's site.
    site: u32,
}

impl Lowering<'_> {
    /// `CAST(operand AS type)` or `TRY_CAST`.
    pub(super) fn cast(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        lenient: bool,
        depth: usize,
    ) -> Result<Scalar, Diagnostic> {
        let scalar = self.expression(operand, depth)?;
        let context = Context { lenient, site: self.site(expr, depth) };
        match self.convert_type(scalar, &operand.data_type, &expr.data_type, context)? {
            Some(result) => Ok(result),
            None => {
                let message = format!("a cast from {} to {}", operand.data_type, expr.data_type);
                Err(unsupported(message, expr.span))
            }
        }
    }

    /// `scalar` of type `from` as a value of type `to`; `None` when there is no such cast.
    fn convert_type(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        if from == to {
            return Ok(Some(scalar));
        }
        if *from == DataType::Null {
            let Some(phys) = phys_of(to) else { return Ok(None) };
            let (value, never) = (self.builder.default_of(phys), self.builder.bool(false));
            return Ok(Some(Scalar { value, valid: Some(never) }));
        }
        match to {
            DataType::Char(_) | DataType::Varchar(_) => self.cast_to_string(scalar, from, to, context),
            DataType::Binary(_) | DataType::Varbinary(_) => self.cast_to_bytes(scalar, from, to, context),
            DataType::Boolean => self.cast_to_boolean(scalar, from, context),
            DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => {
                self.cast_to_integer(scalar, from, to, context)
            }
            DataType::Float | DataType::Double => self.cast_to_float(scalar, from, to, context),
            DataType::Decimal { precision, scale } => self.cast_to_decimal(scalar, from, *precision, *scale, context),
            DataType::Date | DataType::Time(_) | DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
                self.cast_to_time(scalar, from, to, context)
            }
            DataType::IntervalMonth | DataType::IntervalMilli if from.is_integer() => {
                let phys = if *to == DataType::IntervalMonth { Phys::I32 } else { Phys::I64 };
                Ok(Some(self.converted(scalar, phys)))
            }
            _ => Ok(None),
        }
    }

    /// A call within a cast: constants follow the value.
    fn cast_call(
        &mut self,
        function: RuntimeFn,
        scalar: Scalar,
        numbers: &[i32],
        lenient: Option<bool>,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        let mut arguments = vec![scalar];
        arguments.extend(numbers.iter().map(|&n| self.number(n)));
        if let Some(lenient) = lenient {
            arguments.push(Scalar::always(self.builder.bool(lenient)));
        }
        self.call(function, &arguments, context.site, true).map(Some)
    }

    fn cast_to_string(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        use RuntimeFn as F;
        let plain = |function| (function, vec![]);
        let (function, numbers) = match from {
            DataType::Char(length) | DataType::Varchar(length) => {
                return match to {
                    DataType::Varchar(limit) if limit >= length => Ok(Some(scalar)),
                    DataType::Varchar(limit) => {
                        self.cast_call(F::FitString, scalar, &[clamped(*limit)], Some(false), context)
                    }
                    DataType::Char(limit) => {
                        self.cast_call(F::FitString, scalar, &[clamped(*limit)], Some(true), context)
                    }
                    _ => Ok(None),
                };
            }
            DataType::Boolean => {
                let (yes, no) = (self.builder.str(b"TRUE"), self.builder.str(b"FALSE"));
                let value = self.builder.select(scalar.value, yes, no);
                return self.convert_type(Scalar { value, ..scalar }, &DataType::STRING, to, context);
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
            DataType::Null | DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => return Ok(None),
        };
        let scalar = if from.is_integer() { self.converted(scalar, Phys::I64) } else { scalar };
        match self.cast_call(function, scalar, &numbers, None, context)? {
            Some(text) => self.convert_type(text, &DataType::STRING, to, context),
            None => Ok(None),
        }
    }

    fn cast_to_bytes(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        let length = match from {
            DataType::Binary(length) | DataType::Varbinary(length) => *length,
            DataType::Char(_) | DataType::Varchar(_) => {
                // The bytes of a string are as many as its UTF-8 has, which its length in characters does not bound.
                return self.convert_type(scalar, &DataType::BYTES, to, context);
            }
            _ => return Ok(None),
        };
        match to {
            DataType::Varbinary(limit) if *limit >= length => Ok(Some(scalar)),
            DataType::Varbinary(limit) => {
                self.cast_call(RuntimeFn::FitBytes, scalar, &[clamped(*limit)], Some(false), context)
            }
            DataType::Binary(limit) => {
                self.cast_call(RuntimeFn::FitBytes, scalar, &[clamped(*limit)], Some(true), context)
            }
            _ => Ok(None),
        }
    }

    fn cast_to_boolean(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        if from.is_string() {
            return self.cast_call(RuntimeFn::CastStrToBool, scalar, &[], Some(context.lenient), context);
        }
        if !from.is_numeric() {
            return Ok(None);
        }
        let phys = self.builder.type_of(scalar.value);
        let zero = self.builder.default_of(phys);
        let value = self.builder.compare(Comparison::Ne, scalar.value, zero);
        Ok(Some(Scalar { value, ..scalar }))
    }

    fn cast_to_integer(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        let (phys, parse) = match to {
            DataType::TinyInt => (Phys::I8, RuntimeFn::CastStrToI8),
            DataType::SmallInt => (Phys::I16, RuntimeFn::CastStrToI16),
            DataType::Int => (Phys::I32, RuntimeFn::CastStrToI32),
            _ => (Phys::I64, RuntimeFn::CastStrToI64),
        };
        match from {
            DataType::Char(_) | DataType::Varchar(_) => {
                self.cast_call(parse, scalar, &[], Some(context.lenient), context)
            }
            // Java casts floats to INT first.
            DataType::Float | DataType::Double if phys.size() < 4 => {
                let int = self.converted(scalar, Phys::I32);
                Ok(Some(self.converted(int, phys)))
            }
            DataType::Decimal { scale, .. } => {
                let value = match scale {
                    0 => scalar.value,
                    scale => {
                        let unit = self.builder.int(POWERS_OF_TEN[*scale as usize], Phys::I128);
                        self.builder.op(Op::Div(scalar.value, unit), Phys::I128)
                    }
                };
                Ok(Some(self.converted(Scalar { value, ..scalar }, phys)))
            }
            _ if from.is_numeric() || from.is_interval() || *from == DataType::Boolean => {
                Ok(Some(self.converted(scalar, phys)))
            }
            _ => Ok(None),
        }
    }

    fn cast_to_float(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        let (phys, parse) = match to {
            DataType::Float => (Phys::F32, RuntimeFn::CastStrToF32),
            _ => (Phys::F64, RuntimeFn::CastStrToF64),
        };
        match from {
            DataType::Char(_) | DataType::Varchar(_) => {
                self.cast_call(parse, scalar, &[], Some(context.lenient), context)
            }
            DataType::Decimal { scale, .. } => {
                let double = self.cast_call(RuntimeFn::CastDecimalToF64, scalar, &[(*scale).into()], None, context)?;
                Ok(double.map(|double| self.converted(double, phys)))
            }
            _ if from.is_numeric() || *from == DataType::Boolean => Ok(Some(self.converted(scalar, phys))),
            _ => Ok(None),
        }
    }

    fn cast_to_decimal(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        precision: u8,
        scale: u8,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        let (p, s) = (precision.into(), scale.into());
        let (scalar, digits, from_scale) = match from {
            DataType::Char(_) | DataType::Varchar(_) => {
                let function = RuntimeFn::CastStrToDecimal;
                return self.cast_call(function, scalar, &[p, s], Some(context.lenient), context);
            }
            DataType::Float | DataType::Double => {
                let double = self.converted(scalar, Phys::F64);
                let function = RuntimeFn::CastF64ToDecimal;
                return self.cast_call(function, double, &[p, s], Some(context.lenient), context);
            }
            DataType::Boolean => (self.converted(scalar, Phys::I128), 1, 0),
            DataType::TinyInt => (self.converted(scalar, Phys::I128), 3, 0),
            DataType::SmallInt => (self.converted(scalar, Phys::I128), 5, 0),
            DataType::Int => (self.converted(scalar, Phys::I128), 10, 0),
            DataType::BigInt => (self.converted(scalar, Phys::I128), 19, 0),
            DataType::Decimal { precision, scale } => (scalar, *precision, *scale),
            _ => return Ok(None),
        };
        if let Some(result) = self.rescale_inline(scalar, digits, from_scale, precision, scale) {
            return Ok(Some(result));
        }
        self.cast_call(RuntimeFn::DecimalRescale, scalar, &[from_scale.into(), s, p], None, context)
    }

    fn cast_to_time(
        &mut self,
        scalar: Scalar,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        use DataType::{Date, Time, Timestamp, TimestampLtz};
        use RuntimeFn as F;
        let lenient = Some(context.lenient);
        if from.is_string() {
            let (function, numbers) = match to {
                Date => (F::CastStrToDate, vec![]),
                Time(p) => (F::CastStrToTime, vec![*p]),
                Timestamp(p) => (F::CastStrToTimestamp, vec![*p]),
                TimestampLtz(p) => (F::CastStrToTimestampLtz, vec![*p]),
                _ => return Ok(None),
            };
            let numbers: Vec<i32> = numbers.into_iter().map(i32::from).collect();
            return self.cast_call(function, scalar, &numbers, lenient, context);
        }
        let p = |precision: &u8| i32::from(*precision);
        match (from, to) {
            (Time(a), Time(b)) => Ok(Some(self.cut_time(scalar, *a, *b))),
            (Date, Timestamp(q)) => self.cast_call(F::DateToTimestamp, scalar, &[p(q)], lenient, context),
            (Time(_), Timestamp(_)) => {
                let units = to.time_unit().per_second() / 1000;
                let (wide, units) = (self.converted(scalar, Phys::I64), self.builder.int(units.into(), Phys::I64));
                let value = self.builder.op(Op::Mul(wide.value, units), Phys::I64);
                Ok(Some(Scalar { value, ..wide }))
            }
            (Timestamp(q), Date) => self.cast_call(F::TimestampToDate, scalar, &[p(q)], None, context),
            (Timestamp(q), Time(digits)) => {
                let time = self.cast_call(F::TimestampToTime, scalar, &[p(q)], None, context)?;
                Ok(time.map(|time| self.cut_time(time, *q, *digits)))
            }
            (Timestamp(a), Timestamp(b)) | (TimestampLtz(a), TimestampLtz(b)) => {
                if b >= a && from.time_unit() == to.time_unit() {
                    return Ok(Some(scalar));
                }
                self.cast_call(F::TimestampRescale, scalar, &[p(a), p(b)], lenient, context)
            }
            (Timestamp(q), TimestampLtz(_)) => {
                let moved = self.cast_call(F::TimestampToLtz, scalar, &[p(q)], None, context)?;
                self.second_step(moved, &TimestampLtz(*q), to, context)
            }
            (TimestampLtz(q), Timestamp(_) | Date | Time(_)) => {
                let moved = self.cast_call(F::LtzToTimestamp, scalar, &[p(q)], None, context)?;
                self.second_step(moved, &Timestamp(*q), to, context)
            }
            (Date | Time(_), TimestampLtz(q)) => {
                let local = self.convert_type(scalar, from, &Timestamp(*q), context)?;
                self.second_step(local, &Timestamp(*q), to, context)
            }
            _ => Ok(None),
        }
    }

    /// A time of day, in milliseconds, with so many digits of its fraction left.
    fn cut_time(&mut self, scalar: Scalar, from: u8, to: u8) -> Scalar {
        if to >= from.min(3) {
            return scalar;
        }
        let unit = self.builder.int(10_i128.pow(3 - u32::from(to)), Phys::I32);
        let rest = self.builder.op(Op::Rem(scalar.value, unit), Phys::I32);
        Scalar { value: self.builder.op(Op::Sub(scalar.value, rest), Phys::I32), ..scalar }
    }

    /// The rest of a cast whose first step gave a value of type `from`.
    fn second_step(
        &mut self,
        first: Option<Scalar>,
        from: &DataType,
        to: &DataType,
        context: Context,
    ) -> Result<Option<Scalar>, Diagnostic> {
        match first {
            Some(scalar) => self.convert_type(scalar, from, to, context),
            None => Ok(None),
        }
    }
}

/// A length as an I32 argument.
fn clamped(length: u32) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
