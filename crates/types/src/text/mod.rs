//! The text form of every value, exactly as Flink reads and writes it.
//!
//! Casts, formats, the command line and error messages all go through here, so that they agree. Writers append to a
//! byte vector and never fail; readers take text and give `None` when it does not have the form, so that each caller
//! can word its own error. Nothing here allocates but the growth of the output.
//!
//! | file | what |
//! | --- | --- |
//! | [`calendar`] | days and civil dates, ISO weeks, months, units of time |
//! | [`zone`] | between UTC and a time zone |
//! | `number` | integers, floats, decimals, booleans |
//! | `temporal` | dates, times, timestamps, intervals |
//! | `binary` | bytes as hexadecimal digits |

mod binary;
pub mod calendar;
mod number;
mod temporal;
pub mod zone;

pub use binary::{write_bytes_literal, write_hex};
pub use number::{
    POWERS_OF_TEN, cast_integer, decimal_of_f64, f64_of_decimal, parse_boolean, parse_decimal, parse_f32, parse_f64,
    parse_integer, write_boolean, write_decimal, write_digits, write_f32, write_f64, write_integer,
};
pub use temporal::{
    EpochUnit, TimestampStyle, cast_date, cast_time, cast_timestamp, parse_date, parse_epoch, parse_time,
    parse_timestamp, parse_timestamp_ltz, rescale_timestamp, unit_of_precision, write_date, write_interval_millis,
    write_interval_months, write_time, write_time_cast, write_time_trimmed, write_timestamp, write_timestamp_ltz,
    write_timestamp_trimmed,
};
