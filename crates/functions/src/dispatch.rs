//! From a [`RuntimeFn`] to the address of its body in the common signature.

use crate::context::{Failure, FunctionContext};
use crate::{casts, datetime, decimal};
use crate::{encoding, hash, json, like, math, random, regex, search, strings, url};
use millstream_abi::{CallStatus, RuntimeFn, RuntimeFnPtr, Slot, Str};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An argument as a body takes it.
trait Argument<'a>: Sized {
    /// Reads the value at the start of a slot.
    ///
    /// # Safety
    /// The slot holds a value of this type that lives for `'a`.
    unsafe fn read(slot: &'a Slot) -> Self;
}

macro_rules! plain_arguments {
    ($($ty:ty),*) => {$(
        impl<'a> Argument<'a> for $ty {
            unsafe fn read(slot: &'a Slot) -> $ty {
                <$ty>::from_le_bytes(slot.bytes())
            }
        }
    )*};
}
plain_arguments!(i8, i16, i32, i64, i128, f32, f64);

impl<'a> Argument<'a> for bool {
    unsafe fn read(slot: &'a Slot) -> bool {
        slot.0[0] != 0
    }
}

/// Strings are UTF-8 by construction: decoders check it, and every function keeps it.
impl<'a> Argument<'a> for &'a str {
    unsafe fn read(slot: &'a Slot) -> &'a str {
        // SAFETY: STRING values are checked to be UTF-8 where they enter the engine.
        unsafe { std::str::from_utf8_unchecked(Argument::read(slot)) }
    }
}

impl<'a> Argument<'a> for &'a [u8] {
    unsafe fn read(slot: &'a Slot) -> &'a [u8] {
        // SAFETY: a slot is laid out like a `Str` and at least as aligned; the caller promises that its bytes live.
        unsafe { (*(&raw const *slot).cast::<Str>()).as_bytes() }
    }
}

/// A result as a body gives it.
trait Return {
    /// Writes the value, if any, and says what there is.
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus;
}

macro_rules! plain_returns {
    ($($ty:ty),*) => {$(
        impl Return for $ty {
            fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
                *out = Slot::of(self.to_le_bytes());
                CallStatus::Value
            }
        }
    )*};
}
plain_returns!(i8, i16, i32, i64, i128, f32, f64);

impl Return for bool {
    fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        *out = Slot::of([self as u8]);
        CallStatus::Value
    }
}

/// A string that is in the arena already, or points into an argument.
impl Return for Str {
    fn write(self, _: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        *out = Slot(self.bits().to_le_bytes());
        CallStatus::Value
    }
}

impl Return for String {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        context.keep(self.as_bytes()).write(context, out)
    }
}

impl Return for Vec<u8> {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        context.keep(&self).write(context, out)
    }
}

impl<T: Return> Return for Option<T> {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        match self {
            Some(value) => value.write(context, out),
            None => CallStatus::Null,
        }
    }
}

impl<T: Return> Return for Result<T, Failure> {
    fn write(self, context: &mut FunctionContext, out: &mut Slot) -> CallStatus {
        match self {
            Ok(value) => value.write(context, out),
            Err(failure) => {
                context.fail(failure);
                CallStatus::Error
            }
        }
    }
}

/// Runs a body; a panic in it becomes a failure of the row, since nothing may unwind into generated code.
fn guarded(
    context: &mut FunctionContext,
    out: &mut Slot,
    body: impl FnOnce(&mut FunctionContext, &mut Slot) -> CallStatus,
) -> u32 {
    match catch_unwind(AssertUnwindSafe(|| body(context, out))) {
        Ok(status) => status as u32,
        Err(_) => {
            context.fail(Failure { code: millstream_types::code::BUG, message: "a built-in function panicked".into() });
            CallStatus::Error as u32
        }
    }
}

/// `wrap!(body, arity)`: an `extern "C"` function that reads the arguments, runs `body(context, …)`, writes the result.
macro_rules! wrap {
    ($body:path; $($index:literal),*) => {{
        unsafe extern "C" fn call(context: *mut c_void, args: *const Slot, out: *mut Slot) -> u32 {
            // SAFETY: generated code and interpreter pass the task's `FunctionContext`, as many argument slots as the
            // list in `abi` says, of the types it says, and a result slot.
            let (context, out) = unsafe { (&mut *context.cast::<FunctionContext>(), &mut *out) };
            let _ = args;
            guarded(context, out, |context, out| {
                // SAFETY: as above; the verifier has checked the types against the list.
                let result = $body(context, $(unsafe { Argument::read(&*args.add($index)) }),*);
                Return::write(result, context, out)
            })
        }
        call as RuntimeFnPtr
    }};
}

/// Address of the body of a function.
pub fn address(function: RuntimeFn) -> RuntimeFnPtr {
    match function {
        RuntimeFn::StrCompare => wrap!(strings::compare; 0, 1),
        RuntimeFn::Upper => wrap!(strings::upper; 0),
        RuntimeFn::CharLength => wrap!(strings::char_length; 0),

        // Strings.
        RuntimeFn::Lower => wrap!(strings::lower; 0),
        RuntimeFn::OctetLength => wrap!(strings::octet_length; 0),
        RuntimeFn::TrimBoth => wrap!(strings::trim_both; 0, 1),
        RuntimeFn::TrimLeading => wrap!(strings::trim_leading; 0, 1),
        RuntimeFn::TrimTrailing => wrap!(strings::trim_trailing; 0, 1),
        RuntimeFn::Substring => wrap!(strings::substring; 0, 1, 2),
        RuntimeFn::Left => wrap!(strings::left; 0, 1),
        RuntimeFn::Right => wrap!(strings::right; 0, 1),
        RuntimeFn::Lpad => wrap!(strings::lpad; 0, 1, 2),
        RuntimeFn::Rpad => wrap!(strings::rpad; 0, 1, 2),
        RuntimeFn::Repeat => wrap!(strings::repeat; 0, 1),
        RuntimeFn::Replace => wrap!(strings::replace; 0, 1, 2),
        RuntimeFn::Reverse => wrap!(strings::reverse; 0),
        RuntimeFn::InitCap => wrap!(strings::initcap; 0),
        RuntimeFn::Concat2 => wrap!(strings::concat2; 0, 1),
        RuntimeFn::Concat3 => wrap!(strings::concat3; 0, 1, 2),
        RuntimeFn::Concat4 => wrap!(strings::concat4; 0, 1, 2, 3),
        RuntimeFn::DropPrefix => wrap!(strings::drop_prefix; 0, 1),
        RuntimeFn::Overlay => wrap!(strings::overlay; 0, 1, 2, 3),
        RuntimeFn::Translate => wrap!(strings::translate; 0, 1, 2),
        RuntimeFn::Ascii => wrap!(strings::ascii; 0),
        RuntimeFn::Chr => wrap!(strings::chr; 0),
        RuntimeFn::IsAlpha => wrap!(strings::is_alpha; 0),
        RuntimeFn::IsDigit => wrap!(strings::is_digit; 0),
        RuntimeFn::IsDecimal => wrap!(strings::is_decimal; 0),

        // Searching and splitting.
        RuntimeFn::Position => wrap!(search::position; 0, 1, 2),
        RuntimeFn::SplitIndex => wrap!(search::split_index; 0, 1, 2),
        RuntimeFn::SplitIndexCode => wrap!(search::split_index_code; 0, 1, 2),
        RuntimeFn::StartsWith => wrap!(search::starts_with; 0, 1),
        RuntimeFn::EndsWith => wrap!(search::ends_with; 0, 1),
        RuntimeFn::Like => wrap!(like::like; 0, 1),
        RuntimeFn::LikeEscape => wrap!(like::like_escape; 0, 1, 2),

        // Regular expressions.
        RuntimeFn::SimilarTo => wrap!(regex::similar_to; 0, 1),
        RuntimeFn::SimilarToEscape => wrap!(regex::similar_to_escape; 0, 1, 2),
        RuntimeFn::Regexp => wrap!(regex::matches; 0, 1),
        RuntimeFn::RegexpExtract => wrap!(regex::extract; 0, 1, 2),
        RuntimeFn::RegexpReplace => wrap!(regex::replace; 0, 1, 2),
        RuntimeFn::RegexpCount => wrap!(regex::count; 0, 1),
        RuntimeFn::RegexpInstr => wrap!(regex::instr; 0, 1),
        RuntimeFn::RegexpSubstr => wrap!(regex::substr; 0, 1),
        RuntimeFn::RegexpExtractAll => wrap!(regex::extract_all; 0, 1, 2),
        RuntimeFn::RegexpSplit => wrap!(regex::split; 0, 1),
        RuntimeFn::StrToMap => wrap!(regex::str_to_map; 0, 1, 2),

        // Encodings and digests.
        RuntimeFn::Encode => wrap!(encoding::encode; 0, 1),
        RuntimeFn::Decode => wrap!(encoding::decode; 0, 1),
        RuntimeFn::ToBase64 => wrap!(encoding::to_base64; 0),
        RuntimeFn::FromBase64 => wrap!(encoding::from_base64; 0),
        RuntimeFn::HexInteger => wrap!(encoding::hex_integer; 0),
        RuntimeFn::HexBytes => wrap!(encoding::hex_bytes; 0),
        RuntimeFn::Bin => wrap!(encoding::bin; 0),
        RuntimeFn::Unhex => wrap!(encoding::unhex; 0),
        RuntimeFn::UrlEncode => wrap!(url::url_encode; 0),
        RuntimeFn::UrlDecode => wrap!(url::url_decode; 0),
        RuntimeFn::UrlDecodeRecursive => wrap!(url::url_decode_recursive; 0, 1),
        RuntimeFn::ParseUrl => wrap!(url::parse_url; 0, 1),
        RuntimeFn::ParseUrlKey => wrap!(url::parse_url_key; 0, 1, 2),
        RuntimeFn::Md5 => wrap!(hash::md5; 0),
        RuntimeFn::Sha1 => wrap!(hash::sha1; 0),
        RuntimeFn::Sha224 => wrap!(hash::sha224; 0),
        RuntimeFn::Sha256 => wrap!(hash::sha256; 0),
        RuntimeFn::Sha384 => wrap!(hash::sha384; 0),
        RuntimeFn::Sha512 => wrap!(hash::sha512; 0),
        RuntimeFn::Sha2 => wrap!(hash::sha2; 0, 1),

        // Mathematics.
        RuntimeFn::AbsInteger => wrap!(math::abs_integer; 0),
        RuntimeFn::AbsDecimal => wrap!(math::abs_decimal; 0),
        RuntimeFn::AbsDouble => wrap!(math::abs_double; 0),
        RuntimeFn::SignDouble => wrap!(math::sign_double; 0),
        RuntimeFn::FloorDouble => wrap!(math::floor_double; 0),
        RuntimeFn::CeilDouble => wrap!(math::ceil_double; 0),
        RuntimeFn::FloorDecimal => wrap!(math::floor_decimal; 0, 1),
        RuntimeFn::CeilDecimal => wrap!(math::ceil_decimal; 0, 1),
        RuntimeFn::RoundInteger => wrap!(math::round_integer; 0, 1),
        RuntimeFn::RoundDecimal => wrap!(math::round_decimal; 0, 1, 2, 3),
        RuntimeFn::RoundDouble => wrap!(math::round_double; 0, 1),
        RuntimeFn::TruncateInteger => wrap!(math::truncate_integer; 0, 1),
        RuntimeFn::TruncateDecimal => wrap!(math::truncate_decimal; 0, 1, 2, 3),
        RuntimeFn::TruncateDouble => wrap!(math::truncate_double; 0, 1),
        RuntimeFn::Sqrt => wrap!(math::sqrt; 0),
        RuntimeFn::Exp => wrap!(math::exp; 0),
        RuntimeFn::Ln => wrap!(math::ln; 0),
        RuntimeFn::Log10 => wrap!(math::log10; 0),
        RuntimeFn::Sin => wrap!(math::sin; 0),
        RuntimeFn::Cos => wrap!(math::cos; 0),
        RuntimeFn::Tan => wrap!(math::tan; 0),
        RuntimeFn::Asin => wrap!(math::asin; 0),
        RuntimeFn::Acos => wrap!(math::acos; 0),
        RuntimeFn::Atan => wrap!(math::atan; 0),
        RuntimeFn::Sinh => wrap!(math::sinh; 0),
        RuntimeFn::Cosh => wrap!(math::cosh; 0),
        RuntimeFn::Tanh => wrap!(math::tanh; 0),
        RuntimeFn::Atan2 => wrap!(math::atan2; 0, 1),
        RuntimeFn::Power => wrap!(math::power; 0, 1),
        RuntimeFn::BitAnd => wrap!(math::bit_and; 0, 1),
        RuntimeFn::BitOr => wrap!(math::bit_or; 0, 1),
        RuntimeFn::BitXor => wrap!(math::bit_xor; 0, 1),
        RuntimeFn::BitNot => wrap!(math::bit_not; 0),

        // Random values.
        RuntimeFn::Rand => wrap!(random::rand;),
        RuntimeFn::RandSeed => wrap!(random::rand_seed; 0),
        RuntimeFn::RandInteger => wrap!(random::rand_integer; 0),
        RuntimeFn::RandIntegerSeed => wrap!(random::rand_integer_seed; 0, 1),
        RuntimeFn::Uuid => wrap!(random::uuid;),

        // Casts.
        RuntimeFn::CastStrToBool => wrap!(casts::str_to_bool; 0, 1),
        RuntimeFn::CastStrToI8 => wrap!(casts::str_to_i8; 0, 1),
        RuntimeFn::CastStrToI16 => wrap!(casts::str_to_i16; 0, 1),
        RuntimeFn::CastStrToI32 => wrap!(casts::str_to_i32; 0, 1),
        RuntimeFn::CastStrToI64 => wrap!(casts::str_to_i64; 0, 1),
        RuntimeFn::CastStrToF32 => wrap!(casts::str_to_f32; 0, 1),
        RuntimeFn::CastStrToF64 => wrap!(casts::str_to_f64; 0, 1),
        RuntimeFn::CastStrToDecimal => wrap!(casts::str_to_decimal; 0, 1, 2, 3),
        RuntimeFn::CastStrToDate => wrap!(casts::str_to_date; 0, 1),
        RuntimeFn::CastStrToTime => wrap!(casts::str_to_time; 0, 1, 2),
        RuntimeFn::CastStrToTimestamp => wrap!(casts::str_to_timestamp; 0, 1, 2),
        RuntimeFn::CastStrToTimestampLtz => wrap!(casts::str_to_timestamp_ltz; 0, 1, 2),
        RuntimeFn::FitString => wrap!(casts::fit_string; 0, 1, 2),
        RuntimeFn::FitBytes => wrap!(casts::fit_bytes; 0, 1, 2),
        RuntimeFn::CastBytesToStr => wrap!(casts::bytes_to_str; 0),
        RuntimeFn::CastIntToStr => wrap!(casts::int_to_str; 0),
        RuntimeFn::CastF32ToStr => wrap!(casts::f32_to_str; 0),
        RuntimeFn::CastF64ToStr => wrap!(casts::f64_to_str; 0),
        RuntimeFn::CastDecimalToStr => wrap!(casts::decimal_to_str; 0, 1),
        RuntimeFn::CastDateToStr => wrap!(casts::date_to_str; 0),
        RuntimeFn::CastTimeToStr => wrap!(casts::time_to_str; 0, 1),
        RuntimeFn::CastTimestampToStr => wrap!(casts::timestamp_to_str; 0, 1),
        RuntimeFn::CastTimestampLtzToStr => wrap!(casts::timestamp_ltz_to_str; 0, 1),
        RuntimeFn::CastMonthsToStr => wrap!(casts::months_to_str; 0),
        RuntimeFn::CastMillisToStr => wrap!(casts::millis_to_str; 0),
        RuntimeFn::CastF64ToDecimal => wrap!(casts::f64_to_decimal; 0, 1, 2, 3),
        RuntimeFn::CastDecimalToF64 => wrap!(casts::decimal_to_f64; 0, 1),
        RuntimeFn::DateToTimestamp => wrap!(casts::date_to_timestamp; 0, 1, 2),
        RuntimeFn::TimestampToDate => wrap!(casts::timestamp_to_date; 0, 1),
        RuntimeFn::TimestampToTime => wrap!(casts::timestamp_to_time; 0, 1),
        RuntimeFn::TimestampRescale => wrap!(casts::timestamp_rescale; 0, 1, 2, 3),
        RuntimeFn::TimestampToLtz => wrap!(casts::timestamp_to_ltz; 0, 1),
        RuntimeFn::LtzToTimestamp => wrap!(casts::ltz_to_timestamp; 0, 1),
        RuntimeFn::LocalWatermark => wrap!(casts::local_watermark; 0),

        // Decimal arithmetic.
        RuntimeFn::DecimalAdd => wrap!(decimal::add; 0, 1, 2, 3, 4, 5),
        RuntimeFn::DecimalSubtract => wrap!(decimal::subtract; 0, 1, 2, 3, 4, 5),
        RuntimeFn::DecimalMultiply => wrap!(decimal::multiply; 0, 1, 2, 3),
        RuntimeFn::DecimalDivide => wrap!(decimal::divide; 0, 1, 2, 3),
        RuntimeFn::DecimalModulo => wrap!(decimal::modulo; 0, 1, 2, 3, 4, 5),
        RuntimeFn::DecimalRescale => wrap!(decimal::rescale; 0, 1, 2, 3),
        RuntimeFn::DecimalSign => wrap!(decimal::sign; 0, 1),

        // JSON.
        RuntimeFn::JsonValue => wrap!(json::json_value; 0, 1, 2),
        RuntimeFn::JsonValueOutcome => wrap!(json::value_outcome; 0, 1, 2, 3),
        RuntimeFn::JsonExists => wrap!(json::exists; 0, 1, 2),
        RuntimeFn::JsonQuery => wrap!(json::query; 0, 1, 2, 3, 4),
        RuntimeFn::JsonText => wrap!(json::json; 0),
        RuntimeFn::IsJson => wrap!(json::is_json; 0, 1),
        RuntimeFn::JsonQuote => wrap!(json::quote; 0),
        RuntimeFn::JsonUnquote => wrap!(json::unquote; 0),

        // Dates and times.
        RuntimeFn::DateFormat => wrap!(datetime::date_format; 0, 1, 2),
        RuntimeFn::DateFormatStr => wrap!(datetime::date_format_str; 0, 1),
        RuntimeFn::ToDate => wrap!(datetime::to_date; 0),
        RuntimeFn::ToDateFormat => wrap!(datetime::to_date_format; 0, 1),
        RuntimeFn::ToTimestamp => wrap!(datetime::to_timestamp; 0),
        RuntimeFn::ToTimestampFormat => wrap!(datetime::to_timestamp_format; 0, 1),
        RuntimeFn::ToTimestampLtzInt => wrap!(datetime::to_timestamp_ltz_int; 0, 1),
        RuntimeFn::ToTimestampLtzDouble => wrap!(datetime::to_timestamp_ltz_double; 0, 1),
        RuntimeFn::ToTimestampLtzDecimal => wrap!(datetime::to_timestamp_ltz_decimal; 0, 1, 2),
        RuntimeFn::ToTimestampLtzStr => wrap!(datetime::to_timestamp_ltz_str; 0, 1, 2),
        RuntimeFn::FromUnixtime => wrap!(datetime::from_unixtime; 0),
        RuntimeFn::FromUnixtimeFormat => wrap!(datetime::from_unixtime_format; 0, 1),
        RuntimeFn::UnixTimestampNow => wrap!(datetime::unix_timestamp_now;),
        RuntimeFn::UnixTimestamp => wrap!(datetime::unix_timestamp; 0),
        RuntimeFn::UnixTimestampFormat => wrap!(datetime::unix_timestamp_format; 0, 1),
        RuntimeFn::ConvertTz => wrap!(datetime::convert_tz; 0, 1, 2),
        RuntimeFn::ExtractDate => wrap!(datetime::extract_date; 0, 1),
        RuntimeFn::ExtractTime => wrap!(datetime::extract_time; 0, 1),
        RuntimeFn::ExtractTimestamp => wrap!(datetime::extract_timestamp; 0, 1, 2),
        RuntimeFn::FloorDate => wrap!(datetime::floor_date; 0, 1),
        RuntimeFn::CeilDate => wrap!(datetime::ceil_date; 0, 1),
        RuntimeFn::FloorTime => wrap!(datetime::floor_time; 0, 1),
        RuntimeFn::CeilTime => wrap!(datetime::ceil_time; 0, 1),
        RuntimeFn::FloorTimestamp => wrap!(datetime::floor_timestamp; 0, 1, 2),
        RuntimeFn::CeilTimestamp => wrap!(datetime::ceil_timestamp; 0, 1, 2),
        RuntimeFn::AddMonthsDate => wrap!(datetime::add_months_date; 0, 1),
        RuntimeFn::AddMonthsTimestamp => wrap!(datetime::add_months_timestamp; 0, 1, 2),
        RuntimeFn::AddMillisTime => wrap!(datetime::add_millis_time; 0, 1),
        RuntimeFn::TimestampDiff => wrap!(datetime::timestamp_diff; 0, 1, 2, 3),
        RuntimeFn::CurrentTimestamp => wrap!(datetime::current_timestamp;),
        RuntimeFn::LocalTimestamp => wrap!(datetime::local_timestamp;),
        RuntimeFn::CurrentDate => wrap!(datetime::current_date;),
        RuntimeFn::LocalTime => wrap!(datetime::local_time;),
    }
}
