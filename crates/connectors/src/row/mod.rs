//! The `row` format: packed records of fixed width ([`RecordLayout`]), as the engines of the papers keep their input.
//!
//! Nothing has to be found or parsed, so generated code can read the columns in the records themselves; the decoder then
//! only checks what is text, BOOLEAN, DECIMAL or TIME, and hands the block on. Other columns it gathers into arrays.

mod check;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

use crate::format::{Format, record_output, record_stream};
use crate::option_table::option_list;
use crate::text_chunk::Framing;
pub use decode::RowDecoder;
use millstream_types::{Options, RecordLayout, Schema};

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "row",
    summary: "Packed binary records of fixed width: the table's columns in order, without padding, little-endian. BOOLEAN (0 or 1) \
        and TINYINT have 1 byte, SMALLINT 2, INT, DATE (days since 1970-01-01), TIME (milliseconds) and FLOAT 4, BIGINT, DOUBLE, \
        TIMESTAMP and TIMESTAMP_LTZ (milliseconds since 1970-01-01 up to a precision of 3, microseconds up to 6, else nanoseconds) \
        8, DECIMAL 16 (the unscaled number), BINARY(n) n. CHAR(n), without spaces at its end, and VARCHAR(n) have n bytes of UTF-8 that end at the first \
        byte of 0, if there is one. Every column must be NOT NULL.",
    options: OPTIONS,
    extension: Some("bin"),
    stream: |request| {
        let record_bytes = Some(RecordLayout::of(&request.schema)?.length);
        let mut decoder = RowDecoder::new(request)?;
        decoder.ignore_errors = IGNORE_ERRORS.boolean(&request.options)?;
        record_stream(Framing { record_bytes, ..Framing::default() }, decoder)
    },
    stream_output: |request| record_output(encode::RowEncoder::new(request)?, Vec::new()),
    ..Format::NONE
};

option_list! {
    OPTIONS;
    IGNORE_ERRORS = "row.ignore-parse-errors": Bool, "false",
        "Skip malformed records (they are counted) instead of ending the query: text that is not UTF-8, a BOOLEAN that is neither 0 \
         nor 1, a DECIMAL or TIME out of range, an incomplete last record. Only columns that the query reads are looked at.";
}

/// The layout of the records of a table with these options and physical columns, if its columns can be read in place.
pub fn record_layout(options: &Options, schema: &Schema) -> Option<RecordLayout> {
    let is_packed = options.get("format") == Some(FORMAT.name);
    RecordLayout::of(schema).ok().filter(|_| is_packed)
}
