//! The decoder and encoder against cases and each other.

use super::{FORMAT, RowDecoder, record_layout};
use crate::text_chunk::{FileInfo, Framing, TextChunk};
use crate::{Chunk, ColumnRequest, Decoded, RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray, Int32Array, StringViewArray};
use arrow_buffer::Buffer;
use arrow_cast::display::array_value_to_string;
use millstream_types::{DataType, Diagnostic, Field, Options, Place, RecordLayout, Schema, code};
use std::sync::Arc;

fn schema(types: &[DataType]) -> Schema {
    let field = |(i, t): (usize, &DataType)| Field::new(format!("c{i}"), t.clone(), false);
    Schema::new(types.iter().enumerate().map(field).collect())
}

fn request(schema: &Schema, options: &[(&str, &str)], origin: fn(usize) -> RequestOrigin) -> SourceRequest {
    let column = |(i, f): (usize, &Field)| ColumnRequest {
        name: f.name.clone(),
        origin: origin(i),
        data_type: f.data_type.clone(),
        nullable: false,
    };
    let columns = schema.fields.iter().enumerate().map(column).collect();
    let options: Options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    SourceRequest { table: "t".into(), options, schema: schema.clone(), columns, ..SourceRequest::default() }
}

fn chunk(data: &[u8]) -> TextChunk {
    let file = Arc::new(FileInfo { path: "in.bin".into(), ..FileInfo::default() });
    TextChunk { data: Buffer::from(data), offset: 6000, line: 1, file, framing: Framing::default() }
}

fn gathered(i: usize) -> RequestOrigin {
    RequestOrigin::Path(vec![i])
}

fn decode(types: &[DataType], data: &[u8], options: &[(&str, &str)]) -> Decoded {
    let request = request(&schema(types), options, gathered);
    let mut chunk = chunk(data);
    chunk.framing.record_bytes = Some(RecordLayout::of(&request.schema).unwrap().length);
    let decoder = (FORMAT.stream)(&request).unwrap().unwrap().decoder;
    decoder.decode(Chunk { payload: Box::new(chunk), bytes: 0, after: None }).0
}

fn rows(decoded: &Decoded) -> Vec<String> {
    let text = |c: &ArrayRef, row| array_value_to_string(c, row).unwrap();
    (0..decoded.rows).map(|row| decoded.columns.iter().map(|c| text(c, row)).collect::<Vec<_>>().join("|")).collect()
}

fn encode(types: &[DataType], columns: &[ArrayRef]) -> Result<Vec<u8>, Diagnostic> {
    let request = SinkRequest {
        table: "t".into(),
        options: Options::new(),
        schema: schema(types),
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    };
    (FORMAT.stream_output)(&request)?.unwrap().encoder.encode(columns, columns[0].len())?.into_bytes()
}

/// A type of every kind, and two records of them.
fn everything() -> (Vec<DataType>, Vec<u8>) {
    let types = vec![
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::decimal(20, 2),
        DataType::Char(5),
        DataType::Varchar(14),
        DataType::Binary(3),
        DataType::Date,
        DataType::Time(0),
        DataType::Timestamp(3),
        DataType::TimestampLtz(6),
    ];
    let mut data = Vec::new();
    for sign in [1i8, -1] {
        data.push((sign > 0) as u8);
        data.extend(sign.to_le_bytes());
        data.extend((300 * i16::from(sign)).to_le_bytes());
        data.extend((70_000 * i32::from(sign)).to_le_bytes());
        data.extend((5_000_000_000 * i64::from(sign)).to_le_bytes());
        data.extend((0.5 * f32::from(sign)).to_le_bytes());
        data.extend((0.25 * f64::from(sign)).to_le_bytes());
        data.extend((123_456_789_012_345 * i128::from(sign)).to_le_bytes());
        data.extend(if sign > 0 { *b"view\0" } else { *b"click" });
        data.extend(if sign > 0 {
            "größer als 12".as_bytes()[..14].to_vec()
        } else {
            b"a\0rest ignored"[..14].to_vec()
        });
        data.extend([0, 255, 10]);
        data.extend((365 * i32::from(sign)).to_le_bytes());
        data.extend(3_661_000i32.to_le_bytes());
        data.extend((86_400_000 * i64::from(sign)).to_le_bytes());
        data.extend((1_000_001 * i64::from(sign)).to_le_bytes());
    }
    (types, data)
}

#[test]
fn every_type_is_read_and_written_again() {
    let (types, data) = everything();
    let decoded = decode(&types, &data, &[]);
    assert_eq!(decoded.error, None);
    assert_eq!(
        rows(&decoded),
        [
            "true|1|300|70000|5000000000|0.5|0.25|1234567890123.45|view|größer als 1|00ff0a|1971-01-01|01:01:01|\
             1970-01-02T00:00:00|1970-01-01T00:00:01.000001Z",
            "false|-1|-300|-70000|-5000000000|-0.5|-0.25|-1234567890123.45|click|a|00ff0a|1969-01-01|01:01:01|\
             1969-12-31T00:00:00|1969-12-31T23:59:58.999999Z",
        ]
    );
    let again = decode(&types, &encode(&types, &decoded.columns).unwrap(), &[]);
    assert_eq!(rows(&again), rows(&decoded));
}

#[test]
fn columns_in_place_are_the_records() {
    let (types, data) = everything();
    let request = request(&schema(&types), &[], RequestOrigin::Record);
    let decoder = RowDecoder::new(&request).unwrap();
    let chunk = chunk(&data);
    let decoded = decoder.decode(&chunk);
    assert!(decoded.error.is_none() && decoded.columns.len() == types.len());
    for column in &decoded.columns {
        assert!(Arc::ptr_eq(column, &decoded.columns[0]));
        assert_eq!(column.as_fixed_size_binary().value_data().as_ptr(), chunk.data.as_ptr());
    }
    assert_eq!(decoder.record_bytes() * 2, data.len());
}

#[test]
fn only_fixed_width_tables_of_the_format_are_read_in_place() {
    let (types, _) = everything();
    let options = |format: &str| [("format".to_string(), format.to_string())].into_iter().collect::<Options>();
    assert!(record_layout(&options("row"), &schema(&types)).is_some());
    assert_eq!(record_layout(&options("csv"), &schema(&types)), None);
    assert_eq!(record_layout(&options("row"), &schema(&[DataType::STRING])), None);
}

/// The message, place and advice of the error of two good records, a bad one and another good one.
fn error(types: &[DataType], good: &[u8], bad: &[u8]) -> Diagnostic {
    let data = [good, good, bad, good].concat();
    let decoded = decode(types, &data, &[]);
    assert_eq!(decoded.rows, 2, "{decoded:?}");
    let ignoring = decode(types, &data, &[("row.ignore-parse-errors", "true")]);
    let expected = (ignoring.rows, ignoring.skipped, ignoring.error.is_none());
    assert_eq!(expected, (3, 1, true));
    decoded.error.unwrap()
}

#[test]
fn bad_values_are_errors_of_their_record() {
    let bad = error(&[DataType::TinyInt, DataType::Boolean], &[9, 1], &[9, 2]);
    assert_eq!(bad.code, code::MALFORMED_RECORD);
    assert_eq!(bad.message, "record 3003 is malformed: the byte 2 is no BOOLEAN, which is 0 or 1");
    let place = Place::Data { resource: "in.bin".into(), offset: Some(6004), line: None, column: Some("c1".into()) };
    assert_eq!(bad.place, Some(place));
    let text = error(&[DataType::Char(4)], b"ab\0\xff", b"a\xff\0\0");
    assert!(text.message.contains("UTF-8") && text.advice.unwrap().contains("row.ignore-parse-errors"));
    let decimal = error(&[DataType::decimal(3, 0)], &(-999i128).to_le_bytes(), &1000i128.to_le_bytes());
    assert!(decimal.message.contains("1000 has more than 3 digits"), "{decimal:?}");
    let time = error(&[DataType::Time(3)], &0i32.to_le_bytes(), &86_400_000i32.to_le_bytes());
    assert!(time.message.contains("no time of day"), "{time:?}");
}

#[test]
fn an_incomplete_last_record_is_an_error() {
    let data = [1i32.to_le_bytes(), 2i32.to_le_bytes()].concat();
    let decoded = decode(&[DataType::Int], &data[..7], &[]);
    assert_eq!(decoded.columns[0].as_primitive::<Int32Type>().values(), &[1]);
    assert!(decoded.error.unwrap().message.contains("it ends after 3 of 4 bytes"));
    let ignoring = decode(&[DataType::Int], &data[..7], &[("row.ignore-parse-errors", "true")]);
    assert_eq!((ignoring.rows, ignoring.skipped, ignoring.error), (1, 1, None));
    assert_eq!(decode(&[DataType::Int], &[], &[]).rows, 0);
}

#[test]
fn what_a_field_cannot_hold_is_not_written() {
    let text = |value: &str| encode(&[DataType::Char(4)], &[Arc::new(StringViewArray::from(vec![value]))]);
    assert_eq!(text("für").unwrap(), "für".as_bytes());
    assert_eq!(text("ab").unwrap(), b"ab\0\0");
    assert!(text("fünf").unwrap_err().message.contains("5 bytes of UTF-8"));
    assert!(text("a\0b").unwrap_err().message.contains("the character 0"));
    let bytes = |value: &[u8]| encode(&[DataType::Binary(2)], &[Arc::new(BinaryViewArray::from(vec![value]))]);
    assert_eq!(bytes(&[1, 0]).unwrap(), [1, 0]);
    let short = bytes(&[1]).unwrap_err();
    assert!(short.code == code::WRONG_TYPE && short.message.contains("for column c0 has 1 bytes"), "{short:?}");
    assert_eq!(encode(&[DataType::Int], &[Arc::new(Int32Array::from(vec![258]))]).unwrap(), [2, 1, 0, 0]);
}

#[test]
fn parts_of_chunks_are_whole_records() {
    let request = request(&schema(&[DataType::Int]), &[], gathered);
    let mut rest = chunk(&[0; 14]);
    rest.framing.record_bytes = Some(RecordLayout::of(&request.schema).unwrap().length);
    assert_eq!(rest.records(), 4);
    let front = rest.split_front(2);
    assert_eq!((front.data.len(), front.records(), rest.data.len(), rest.offset), (8, 2, 6, 6008));
    assert_eq!(rest.split_front(9).data.len(), 6);
}
