//! Date and time functions.
//!
//! TIMESTAMP_LTZ arguments are turned to local time of the session's zone by a cast to TIMESTAMP, and results back.
//! Units of time arrive as string constants.

use super::call::{BoundCall, Call, arithmetic, at, convert, fits, int, integer_of, native, null, string, text_of};
use super::function::{Binding, Category, Function, functions};
use super::overload::Overload;
use super::overload::Parameter::{Long, Text};
use Binding::{Custom, Overloads};
use millstream_abi::RuntimeFn as F;
use millstream_plan::expr::{ArithmeticOp, Expr, ExprKind};
use millstream_types::text::calendar::DateTimeUnit;
use millstream_types::{DataType, Diagnostic, Value, code};

/// Date and time functions.
pub(super) const TEMPORAL: &[Function] = functions! {Temporal;
    "EXTRACT" ("EXTRACT(unit FROM time)") Custom(extract), "A part of a date, time or timestamp as a BIGINT.";
    "YEAR" ("YEAR(time)") Custom(|call| part(call, DateTimeUnit::Year)), "The year.";
    "QUARTER" ("QUARTER(time)") Custom(|call| part(call, DateTimeUnit::Quarter)), "The quarter, 1 to 4.";
    "MONTH" ("MONTH(time)") Custom(|call| part(call, DateTimeUnit::Month)), "The month, 1 to 12.";
    "WEEK" ("WEEK(time)") Custom(|call| part(call, DateTimeUnit::Week)), "The ISO week, 1 to 53.";
    "DAYOFYEAR" ("DAYOFYEAR(time)") Custom(|call| part(call, DateTimeUnit::DayOfYear)), "The day of the year, 1 to 366.";
    "DAYOFMONTH" ["DAY"] ("DAYOFMONTH(time)") Custom(|call| part(call, DateTimeUnit::Day)), "The day of the month, 1 to 31.";
    "DAYOFWEEK" ("DAYOFWEEK(time)") Custom(|call| part(call, DateTimeUnit::DayOfWeek)), "The day of the week, 1 for Sunday.";
    "HOUR" ("HOUR(time)") Custom(|call| part(call, DateTimeUnit::Hour)), "The hour, 0 to 23.";
    "MINUTE" ("MINUTE(time)") Custom(|call| part(call, DateTimeUnit::Minute)), "The minute, 0 to 59.";
    "SECOND" ("SECOND(time)") Custom(|call| part(call, DateTimeUnit::Second)), "The second, 0 to 59.";
    "DATE_FORMAT" ("DATE_FORMAT(timestamp | string, format)") Custom(date_format),
        "The time as text in a format of Java's DateTimeFormatter.";
    "TO_DATE" ("TO_DATE(string [, format])") Custom(|call| parse(call, F::ToDate, F::ToDateFormat, DataType::Date)),
        "The date that a string stands for; NULL if it stands for none.";
    "TO_TIMESTAMP" ("TO_TIMESTAMP(string [, format])")
        Custom(|call| parse(call, F::ToTimestamp, F::ToTimestampFormat, DataType::Timestamp(3))),
        "The TIMESTAMP(3) that a string stands for; NULL if it stands for none.";
    "TO_TIMESTAMP_LTZ" ("TO_TIMESTAMP_LTZ(number [, precision])", "TO_TIMESTAMP_LTZ(string [, format [, zone]])")
        Custom(to_timestamp_ltz),
        "The TIMESTAMP_LTZ(3) of seconds (precision 0) or milliseconds (3, the default) since the epoch, or of a string, by default in UTC.";
    "FROM_UNIXTIME" ("FROM_UNIXTIME(seconds [, format])") Overloads(&[
        Overload::new(&[Long], F::FromUnixtime, |_| DataType::STRING).or_null(),
        Overload::new(&[Long, Text], F::FromUnixtimeFormat, |_| DataType::STRING).or_null()]),
        "Seconds since the epoch as text in the session's time zone.";
    "UNIX_TIMESTAMP" ("UNIX_TIMESTAMP([string [, format]])") Overloads(&[
        Overload::new(&[], F::UnixTimestampNow, |_| DataType::BigInt),
        Overload::new(&[Text], F::UnixTimestamp, |_| DataType::BigInt),
        Overload::new(&[Text, Text], F::UnixTimestampFormat, |_| DataType::BigInt)]),
        "Seconds since the epoch, now or of a string in the session's time zone.";
    "CONVERT_TZ" ("CONVERT_TZ(string, from, to)") Overloads(&[
        Overload::new(&[Text, Text, Text], F::ConvertTz, |_| DataType::STRING).or_null()]),
        "The time in another time zone; both are text, `yyyy-MM-dd HH:mm:ss`.";
    "TIMESTAMPADD" ("TIMESTAMPADD(unit, count, time)") Custom(timestamp_add), "The time plus some units; negative ones go back.";
    "TIMESTAMPDIFF" ("TIMESTAMPDIFF(unit, from, to)") Custom(timestamp_diff), "The number of whole units from one time to another.";
    "CURRENT_TIMESTAMP" ["NOW", "CURRENT_ROW_TIMESTAMP"] ("CURRENT_TIMESTAMP")
        Overloads(&[Overload::new(&[], F::CurrentTimestamp, |_| DataType::TimestampLtz(3))]),
        "The time when the row is evaluated, a TIMESTAMP_LTZ(3).";
    "LOCALTIMESTAMP" ("LOCALTIMESTAMP") Overloads(&[Overload::new(&[], F::LocalTimestamp, |_| DataType::Timestamp(3))]),
        "The time when the row is evaluated in the session's time zone, a TIMESTAMP(3).";
    "CURRENT_DATE" ("CURRENT_DATE") Overloads(&[Overload::new(&[], F::CurrentDate, |_| DataType::Date)]),
        "Today in the session's time zone.";
    "LOCALTIME" ["CURRENT_TIME"] ("LOCALTIME") Overloads(&[Overload::new(&[], F::LocalTime, |_| DataType::Time(0))]),
        "The time of day in the session's time zone.";
};

/// The unit that a constant names.
fn unit_of(call: &Call, argument: usize) -> Result<DateTimeUnit, Diagnostic> {
    let Some(name) = call.arguments.get(argument).and_then(text_of) else { return Err(call.mismatch()) };
    DateTimeUnit::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = DateTimeUnit::ALL.iter().map(|(_, name)| *name).collect();
        at(Diagnostic::new(code::TYPE_MISMATCH, format!("{name} is not a unit of time")), call.span)
            .advise(format!("use one of {}", names.join(", ")))
    })
}

/// A date, time or timestamp in local time.
fn local(x: Expr) -> Expr {
    match x.data_type {
        DataType::Null => null(DataType::Timestamp(3)),
        DataType::TimestampLtz(precision) => x.cast_to(DataType::Timestamp(precision)),
        _ => x,
    }
}

/// A precision as a constant.
fn precision(precision: u8) -> Expr {
    int(precision.into())
}

fn is_temporal(data_type: &DataType) -> bool {
    data_type.is_timestamp() || matches!(data_type, DataType::Date | DataType::Time(_))
}

/// `EXTRACT(unit FROM x)`, with the unit first.
fn extract(mut call: Call) -> BoundCall {
    if call.arguments.len() != 2 {
        return Err(call.mismatch());
    }
    let unit = unit_of(&call, 0)?;
    call.arguments.remove(0);
    part(call, unit)
}

/// A part of the only argument.
fn part(call: Call, unit: DateTimeUnit) -> BoundCall {
    if !call.arguments.iter().all(|a| fits(a, is_temporal)) {
        return Err(call.mismatch());
    }
    let [x] = call.take()?;
    let x = local(x);
    let unit = int(unit.code());
    Ok(match x.data_type {
        DataType::Date => native(F::ExtractDate, vec![x, unit], DataType::BigInt, false),
        DataType::Timestamp(p) => native(F::ExtractTimestamp, vec![x, precision(p), unit], DataType::BigInt, false),
        _ => native(F::ExtractTime, vec![x, unit], DataType::BigInt, false),
    })
}

/// `FLOOR(x TO unit)` and `CEIL(x TO unit)`, by the functions for dates, times and timestamps.
pub(super) fn to_unit(call: Call, [for_date, for_time, for_timestamp]: [F; 3]) -> BoundCall {
    if !call.arguments.first().is_some_and(|x| fits(x, is_temporal)) {
        return Err(call.mismatch());
    }
    let unit = int(unit_of(&call, 1)?.code());
    let [x, _] = call.take()?;
    let result = x.data_type.clone();
    let x = local(x);
    let data_type = x.data_type.clone();
    Ok(match data_type {
        DataType::Date => native(for_date, vec![x, unit], data_type, false),
        DataType::Timestamp(p) => {
            let rounded = native(for_timestamp, vec![x, precision(p), unit], data_type, false);
            if matches!(result, DataType::TimestampLtz(_)) { rounded.cast_to(result) } else { rounded }
        }
        _ => native(for_time, vec![x, unit], data_type, false),
    })
}

fn date_format(call: Call) -> BoundCall {
    let [x, format] = &call.arguments[..] else { return Err(call.mismatch()) };
    let accepted = |t: &DataType| t.is_string() || t.is_timestamp() || *t == DataType::Date;
    if !fits(x, accepted) || !fits(format, DataType::is_string) {
        return Err(call.mismatch());
    }
    let [x, format] = call.take()?;
    let format = convert(format, &DataType::STRING);
    if x.data_type.is_string() {
        return Ok(native(F::DateFormatStr, vec![x, format], DataType::STRING, true));
    }
    let x = match local(x) {
        date if date.data_type == DataType::Date => date.cast_to(DataType::Timestamp(3)),
        timestamp => timestamp,
    };
    let DataType::Timestamp(p) = x.data_type else { unreachable!("dates and local times were just turned to one") };
    Ok(native(F::DateFormat, vec![x, precision(p), format], DataType::STRING, false))
}

/// A function of a text and perhaps a format that gives NULL for other texts.
fn parse(call: Call, plain: F, with_format: F, data_type: DataType) -> BoundCall {
    if !call.arguments.iter().all(|a| fits(a, DataType::is_string)) {
        return Err(call.mismatch());
    }
    let function = match call.arguments.len() {
        1 => plain,
        2 => with_format,
        _ => return Err(call.mismatch()),
    };
    let arguments = call.arguments.into_iter().map(|a| convert(a, &DataType::STRING)).collect();
    Ok(native(function, arguments, data_type, true))
}

fn to_timestamp_ltz(call: Call) -> BoundCall {
    let result = DataType::TimestampLtz(3);
    if call.arguments.first().is_some_and(|x| x.data_type.is_string()) {
        const DEFAULTS: [&str; 2] = ["yyyy-MM-dd HH:mm:ss.SSS", "UTC"];
        if call.arguments.len() > 3 || !call.arguments.iter().all(|a| fits(a, DataType::is_string)) {
            return Err(call.mismatch());
        }
        let missing = DEFAULTS.into_iter().skip(call.arguments.len() - 1).map(string);
        let arguments = call.arguments.into_iter().map(|a| convert(a, &DataType::STRING)).chain(missing).collect();
        return Ok(native(F::ToTimestampLtzStr, arguments, result, true));
    }
    let unit = match &call.arguments[..] {
        [_] => int(3),
        [_, unit] if fits(unit, DataType::is_integer) => convert(unit.clone(), &DataType::Int),
        _ => return Err(call.mismatch()),
    };
    if integer_of(&unit).is_some_and(|unit| unit != 0 && unit != 3) {
        let message = "the precision of TO_TIMESTAMP_LTZ is 0 (seconds) or 3 (milliseconds)";
        return Err(at(Diagnostic::new(code::TYPE_MISMATCH, message), unit.span));
    }
    let x = call.arguments[0].clone();
    Ok(match x.data_type {
        DataType::Decimal { scale, .. } => {
            native(F::ToTimestampLtzDecimal, vec![x, int(scale.into()), unit], result, true)
        }
        _ if x.data_type.is_floating() => {
            native(F::ToTimestampLtzDouble, vec![convert(x, &DataType::Double), unit], result, true)
        }
        _ if fits(&x, DataType::is_integer) => {
            native(F::ToTimestampLtzInt, vec![convert(x, &DataType::BigInt), unit], result, true)
        }
        _ => return Err(call.mismatch()),
    })
}

/// Milliseconds or months of a unit, as the interval type that counts them.
fn interval_of(unit: DateTimeUnit) -> Option<(i64, DataType)> {
    let months = unit.months().filter(|_| unit != DateTimeUnit::Millennium);
    let by_months = months.map(|months| (months, DataType::IntervalMonth));
    unit.millis().map(|millis| (millis, DataType::IntervalMilli)).or(by_months)
}

/// `TIMESTAMPADD(unit, n, x)`; a DATE plus units of less than a day is a TIMESTAMP.
fn timestamp_add(call: Call) -> BoundCall {
    let [_, n, x] = &call.arguments[..] else { return Err(call.mismatch()) };
    if !fits(n, DataType::is_integer) || !is_temporal(&x.data_type) {
        return Err(call.mismatch());
    }
    let unit = unit_of(&call, 0)?;
    let Some((length, interval)) = interval_of(unit) else {
        let message = "TIMESTAMPADD counts units from MILLISECOND to CENTURY";
        return Err(at(Diagnostic::new(code::UNSUPPORTED, message), call.span));
    };
    let [_, n, x] = call.take()?;
    let counted = if interval == DataType::IntervalMonth { DataType::Int } else { DataType::BigInt };
    let amount = match integer_of(&n) {
        Some(n) => Expr::literal(Value::Int(n.wrapping_mul(length)), interval),
        None => {
            let length = Expr::literal(Value::Int(length), counted.clone());
            arithmetic(ArithmeticOp::Multiply, convert(n, &counted), length, counted).cast_to(interval)
        }
    };
    let within_day = unit.millis().is_some_and(|millis| millis < 86_400_000);
    let x = if x.data_type == DataType::Date && within_day { x.cast_to(DataType::Timestamp(3)) } else { x };
    let (data_type, nullable) = (x.data_type.clone(), x.nullable || amount.nullable);
    Ok(Expr::new(ExprKind::AddInterval(Box::new(x), Box::new(amount)), data_type, nullable))
}

/// `TIMESTAMPDIFF(unit, from, to)`, in local time and the finer precision of the two.
fn timestamp_diff(call: Call) -> BoundCall {
    let [_, from, to] = &call.arguments[..] else { return Err(call.mismatch()) };
    let accepted = |t: &DataType| t.is_timestamp() || *t == DataType::Date;
    if !fits(from, accepted) || !fits(to, accepted) {
        return Err(call.mismatch());
    }
    let unit = unit_of(&call, 0)?;
    let of = |t: &DataType| match t {
        DataType::Timestamp(p) | DataType::TimestampLtz(p) => *p,
        _ => 0,
    };
    let p = of(&from.data_type).max(of(&to.data_type));
    let [_, from, to] = call.take()?;
    let arguments = [from, to].map(|x| match x.data_type {
        DataType::Null => null(DataType::Timestamp(p)),
        DataType::TimestampLtz(own) => x.cast_to(DataType::Timestamp(own)).cast_to(DataType::Timestamp(p)),
        _ => x.cast_to(DataType::Timestamp(p)),
    });
    let arguments = arguments.into_iter().chain([precision(p), int(unit.code())]).collect();
    Ok(native(F::TimestampDiff, arguments, DataType::Int, false))
}
