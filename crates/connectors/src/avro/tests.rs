//! Avro by the examples of its specification, from other writers, and from nobody.

use super::{FORMAT, decode, schema};
use crate::format::MessageFormat;
use crate::messages::testing::{decoder, encoder, messages};
use crate::random::Random;
use crate::{ColumnRequest, RequestOrigin, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Int64Array, StringViewArray};
use millstream_types::{DataType, Field, Options, Schema, code};
use std::sync::Arc;

fn format() -> &'static MessageFormat {
    FORMAT.messages.as_ref().unwrap()
}

#[test]
fn the_specification_s_example() {
    let fields = [Field::new("a", DataType::BigInt, false), Field::new("b", DataType::STRING, false)];
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(vec![27])), Arc::new(StringViewArray::from(vec!["foo"]))];
    let encoded = encoder(format(), &fields, &[]).unwrap().encode(&columns, 1).unwrap();
    assert_eq!(encoded.bytes(0).unwrap(), [0x36, 0x06, 0x66, 0x6f, 0x6f]);
    let decoded = decoder(format(), &fields, &[]).unwrap().decode(&encoded).unwrap();
    assert_eq!((&decoded.columns[..], &decoded.rows[..]), (&columns[..], &[0][..]));
}

#[test]
fn null_is_a_branch_of_a_union() {
    let fields = [Field::new("b", DataType::STRING, true)];
    let column: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some("a")]));
    let encoded = encoder(format(), &fields, &[]).unwrap().encode(std::slice::from_ref(&column), 2).unwrap();
    assert_eq!((encoded.bytes(0).unwrap(), encoded.bytes(1).unwrap()), (&[0][..], &[2, 2, b'a'][..]));
    assert_eq!(decoder(format(), &fields, &[]).unwrap().decode(&encoded).unwrap().columns, [column]);
}

#[test]
fn decimals_are_as_short_as_can_be() {
    let data_type = DataType::Decimal { precision: 38, scale: 2 };
    let fields = [Field::new("d", data_type.clone(), false)];
    let values = vec![0, 1, -1, 127, 128, -128, -129, 10i128.pow(38) - 1, 1 - 10i128.pow(38)];
    let column: ArrayRef = Arc::new(Decimal128Array::from(values.clone()).with_data_type(data_type.to_arrow()));
    let encoded = encoder(format(), &fields, &[]).unwrap().encode(&[column], values.len()).unwrap();
    let bytes: Vec<&[u8]> = (0..7).map(|at| &encoded.bytes(at).unwrap()[1..]).collect();
    assert_eq!(bytes, [&[0][..], &[1], &[255], &[127], &[0, 128], &[128], &[255, 127]]);
    let decoded = decoder(format(), &fields, &[]).unwrap().decode(&encoded).unwrap();
    assert_eq!(decoded.columns[0].as_primitive::<Decimal128Type>().values(), &values[..]);
}

/// The columns `id BIGINT, at TIMESTAMP(6)` of messages by a schema.
fn read(json: &str, bytes: &[u8]) -> Result<Vec<ArrayRef>, String> {
    let fields = vec![Field::new("id", DataType::BigInt, true), Field::new("at", DataType::Timestamp(6), true)];
    let column = |at: usize| ColumnRequest {
        name: fields[at].name.clone(),
        origin: RequestOrigin::Path(vec![at]),
        data_type: fields[at].data_type.clone(),
        nullable: true,
    };
    let columns = vec![column(0), column(1)];
    let (schema, options) = (Schema::new(fields), Options::new());
    let request = SourceRequest { table: "t".into(), options, schema, columns, ..SourceRequest::default() };
    let wanted = decode::WantedFields::of(&request).unwrap();
    let reader = Arc::new(decode::AvroRecordReader::new(schema::AvroSchema::parse(json)?, &wanted)?);
    let decoded = wanted.decode(&messages(&[Some(bytes)]), |_| Ok((reader.clone(), 0))).unwrap();
    match decoded.failures.into_iter().next() {
        Some((_, failure)) => Err(failure.message),
        None => Ok(decoded.columns),
    }
}

#[test]
fn other_writers_are_understood() {
    let nested = r#"{"type": "record", "name": "list", "namespace": "n", "fields": [
        {"name": "next", "type": ["null", "list"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "map", "type": {"type": "map", "values": {"type": "fixed", "name": "two", "size": 2}}},
        {"name": "again", "type": "n.two"},
        {"name": "id", "type": ["null", "int", "string"]}]}"#;
    // A list of two, of which the inner one is skipped; a block of a map with its size.
    let inner = [0, 2, 0, 9, 9, 0];
    let bytes = [&[2][..], &inner, &[6], &[1, 10, 2, b'k', 7, 7, 0], &[8, 8], &[2, 14]].concat();
    let columns = read(nested, &bytes).unwrap();
    assert_eq!(columns[0].as_primitive::<Int64Type>().value(0), 7);
    let at = columns[1].as_primitive::<arrow_array::types::TimestampMicrosecondType>();
    assert_eq!(at.value(0), 3000);
    // A branch that does not fit is an error of the messages that have it.
    let text = [&bytes[..bytes.len() - 2], &[4, 2, b'x']].concat();
    assert!(read(nested, &text).unwrap_err().contains("does not fit the column"));
    assert!(read(nested, &bytes[..bytes.len() - 1]).unwrap_err().contains("ends too early"));
    let columns = read(r#"{"type": "record", "name": "r", "fields": []}"#, &[]).unwrap();
    assert!(columns[0].is_null(0) && columns[1].is_null(0));
}

#[test]
fn schemas_that_do_not_fit_say_why() {
    for (schema, expected) in [
        ("{", "it is not JSON"),
        (r#""long""#, "not that of a record"),
        (
            r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}"#,
            "its field 'id' is String",
        ),
        (r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "strange"}]}"#, "no type 'strange'"),
        (r#"{"type": "record", "name": "r"}"#, "no 'fields'"),
    ] {
        let error = read(schema, &[]).unwrap_err();
        assert!(error.contains(expected), "{schema}: {error}");
    }
    let fields = [Field::new("i", DataType::IntervalMonth, true)];
    assert_eq!(encoder(format(), &fields, &[]).err().unwrap().code, code::UNSUPPORTED);
}

#[test]
fn no_bytes_do_harm() {
    let fields = [
        Field::new("a", DataType::Array(Arc::new(DataType::STRING)), true),
        Field::new("m", DataType::Map(Arc::new(DataType::STRING), Arc::new(DataType::BigInt)), true),
        Field::new("d", DataType::Decimal { precision: 10, scale: 2 }, true),
        Field::new("t", DataType::Timestamp(6), false),
    ];
    let decoder = decoder(format(), &fields, &[]).unwrap();
    let mut random = Random::new(7, 0, 0);
    for _ in 0..20_000 {
        let length = random.below(24) as usize;
        let bytes: Vec<u8> =
            (0..length).map(|_| if random.below(2) == 0 { 2 } else { random.below(256) as u8 }).collect();
        let decoded = decoder.decode(&messages(&[Some(&bytes), Some(&[0, 0, 0, 2])])).unwrap();
        assert_eq!(decoded.rows.last(), Some(&1), "{bytes:?}");
        assert_eq!(decoded.rows.len() + decoded.failures.len(), 2);
        assert_eq!(decoded.columns[3].len(), decoded.rows.len());
    }
}

/// Schemas come from a registry, which may be anybody's.
#[test]
fn no_schema_does_harm() {
    let whole = r#"{"type": "record", "name": "list", "namespace": "n", "fields": [{"name": "next", "type": ["null", "list"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "map", "type": {"type": "map", "values": {"type": "fixed", "name": "two", "size": 2}}},
        {"name": "all", "type": {"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["A", "B"]}}},
        {"name": "again", "type": "n.two"}, {"name": "id", "type": ["null", "int", "string"]}]}"#;
    let words = [
        "\"list\"",
        "\"n.two\"",
        "\"null\"",
        "\"int\"",
        "\"record\"",
        "\"array\"",
        "{}",
        "[]",
        "-1",
        "1e300",
        "99999999999",
    ];
    let mut random = Random::new(7, 1, 0);
    let mut readable = 0;
    for _ in 0..20_000 {
        let mut schema = whole.to_string();
        for _ in 0..=random.below(2) {
            // What stands between two quotes, or a number, becomes something else.
            let marks: Vec<usize> = schema.match_indices(['"', '2', '[', '{']).map(|(at, _)| at).collect();
            let at = marks[random.below(marks.len() as u64) as usize];
            let end = schema[at + 1..].find(['"', '}', ']', ',']).map_or(schema.len(), |length| at + 2 + length);
            schema.replace_range(at..end, words[random.below(words.len() as u64) as usize]);
        }
        // A record of the whole schema, or anything.
        let bytes = match random.below(2) {
            0 => vec![0, 2, 0, 0, 9, 9, 0],
            _ => (0..random.below(40)).map(|_| [0, 1, 2, 4, 200, 255][random.below(6) as usize]).collect(),
        };
        readable += usize::from(read(&schema, &bytes).is_ok());
    }
    assert!(readable > 0);
}
