//! The decoder and encoder against cases, each other, and mutated bytes.

use super::{CsvDecoder, CsvEncoder, encode};
use crate::format::RecordDecoder;
use crate::text_chunk::{FileInfo, Framing, TextChunk};
use crate::{ColumnRequest, Decoded, Encoded, Encoder, RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_cast::display::array_value_to_string;
use millstream_types::{DataType, Diagnostic, Field, Options, Place, Schema, code};
use std::sync::Arc;

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::BigInt, true),
        Field::new("name", DataType::STRING, true),
        Field::new("at", DataType::Timestamp(3), true),
    ])
}

fn request(schema: &Schema, extra: &[(&str, &str)]) -> SourceRequest {
    let column = |(i, f): (usize, &Field)| ColumnRequest {
        name: f.name.clone(),
        origin: RequestOrigin::Path(vec![i]),
        data_type: f.data_type.clone(),
        nullable: f.nullable,
    };
    let columns = schema.fields.iter().enumerate().map(column).collect();
    SourceRequest {
        table: "t".into(),
        options: options(extra),
        schema: schema.clone(),
        columns,
        ..SourceRequest::default()
    }
}

fn chunk(data: &[u8]) -> TextChunk {
    let file = Arc::new(FileInfo { path: "in.csv".into(), ..FileInfo::default() });
    TextChunk { data: Buffer::from(data), offset: 0, line: 1, file, framing: Framing::default() }
}

fn decode(schema: &Schema, data: &[u8], extra: &[(&str, &str)]) -> Decoded {
    CsvDecoder::new(&request(schema, extra)).unwrap().decode(&chunk(data))
}

fn texts(array: &ArrayRef) -> Vec<String> {
    let text = |row| if array.is_null(row) { "NULL".into() } else { array_value_to_string(array, row).unwrap() };
    (0..array.len()).map(text).collect()
}

fn rows(decoded: &Decoded) -> Vec<String> {
    let columns: Vec<_> = decoded.columns.iter().map(texts).collect();
    (0..decoded.rows).map(|row| columns.iter().map(|c| c[row].as_str()).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn quotes_line_feeds_and_blank_lines() {
    let data = b"1,plain,2020-01-01 00:00:00\r\n\r\n2,\"a, \"\"b\"\"\nc\",\n\n,,\n 3 ,it's 5\" long,\"\"\r\n";
    let decoded = decode(&schema(), data, &[("csv.ignore-parse-errors", "true")]);
    assert_eq!((decoded.skipped, &decoded.error), (0, &None));
    assert_eq!(
        rows(&decoded),
        ["1|plain|2020-01-01T00:00:00", "2|a, \"b\"\nc|NULL", "NULL||NULL", "3|it's 5\" long|NULL"]
    );
}

#[test]
fn every_dialect_option_counts() {
    let extra = [
        ("csv.field-delimiter", "\\t"),
        ("csv.quote-character", "'"),
        ("csv.null-literal", "n/a"),
        ("csv.allow-comments", "true"),
    ];
    let decoded = decode(&schema(), b"#x\t\n1\t'n/a'\tn/a\n2\tn/a\t\n", &extra);
    assert_eq!(rows(&decoded), ["1|n/a|NULL", "2|NULL|NULL"]);
    let escape = [("csv.escape-character", "\\")];
    let decoded = decode(&schema(), b"1,a\\,b\\\\,\n2,\"say \\\"hi\\\"\",\n", &escape);
    assert_eq!(rows(&decoded), ["1|a,b\\|NULL", "2|say \"hi\"|NULL"]);
    let decoded = decode(&schema(), b"1,\"a\",\n", &[("csv.disable-quote-character", "true")]);
    assert_eq!(rows(&decoded), ["1|\"a\"|NULL"]);
    for (key, bad) in [
        ("csv.field-delimiter", "ab"),
        ("csv.field-delimiter", "é"),
        ("csv.quote-character", ","),
        ("csv.escape-character", "\\u000a"),
    ] {
        assert_eq!(
            CsvDecoder::new(&request(&schema(), &[(key, bad)])).err().unwrap().code,
            code::INVALID_OPTION,
            "{bad}"
        );
    }
}

#[test]
fn nested_types_use_the_element_delimiter() {
    let inner =
        DataType::Row(vec![Field::new("x", DataType::Int, true), Field::new("y", DataType::STRING, true)].into());
    let schema = Schema::new(vec![
        Field::new("a", DataType::Array(Arc::new(DataType::Int)), true),
        Field::new("r", inner, true),
    ]);
    let decoded = decode(&schema, b"1;;3,7;z\n,\n", &[]);
    assert_eq!(rows(&decoded), ["[1, , 3]|{x: 7, y: z}", "NULL|NULL"]);
    let mut part = request(&schema, &[]);
    part.columns = vec![ColumnRequest {
        name: "r.y".into(),
        origin: RequestOrigin::Path(vec![1, 1]),
        data_type: DataType::STRING,
        nullable: true,
    }];
    assert_eq!(rows(&CsvDecoder::new(&part).unwrap().decode(&chunk(b"1,7;z\n"))), ["z"]);
}

fn error(data: &str) -> Diagnostic {
    decode(&schema(), data.as_bytes(), &[]).error.expect(data)
}

#[test]
fn errors_say_where_and_what() {
    let place = |offset, line, column: Option<&str>| {
        let column = column.map(str::to_string);
        Some(Place::Data { resource: "in.csv".into(), offset: Some(offset), line: Some(line), column })
    };
    let e = error("1,a,\n2,b\n3,c,\n");
    assert_eq!((e.code, e.place), (code::MALFORMED_RECORD, place(5, 2, None)));
    assert!(e.message.contains("the record has 2 fields, but the table has 3 (in '2,b')"), "{}", e.message);
    assert!(error("1,a,,\n").message.contains("more than the 3 fields"));
    assert!(error("1,\"a,\n").message.contains("not closed"));
    assert!(error("1,\"a\"b,\n").message.contains("follows the closing quote"));
    let e = error("1,a,\nx,b,\n");
    assert_eq!(
        (e.code, e.place, e.message.as_str()),
        (code::WRONG_TYPE, place(5, 2, Some("id")), "'x' cannot be read as BIGINT")
    );
    assert_eq!(decode(&schema(), b"1,a,\nx,b,\n", &[]).rows, 1);
}

#[test]
fn times_are_read_in_each_form() {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Timestamp(3), true),
        Field::new("b", DataType::TimestampLtz(3), true),
    ]);
    let data = b"2026-01-01 12:00:00,2026-01-01T12:00:00Z\n2026-01-01T12:00:00,2026-01-01 14:00:00+02:00\n";
    let decoded = decode(&schema, data, &[]);
    assert_eq!(decoded.error, None);
    for column in &decoded.columns {
        assert_eq!(column.as_primitive::<TimestampMillisecondType>().values(), &[1_767_268_800_000; 2]);
    }
    let decoded = decode(&schema, b"1767268800,1767268800.0\n", &[("csv.timestamp-format.standard", "epoch-seconds")]);
    for column in &decoded.columns {
        assert_eq!(column.as_primitive::<TimestampMillisecondType>().values(), &[1_767_268_800_000]);
    }
}

#[test]
fn a_time_that_cannot_be_read_says_what_to_write() {
    for (text, data_type, expected) in [
        ("2026-01-01T12:00:00.078Z", DataType::Timestamp(3), "`ts TIMESTAMP_LTZ(3)`"),
        ("2026-01-01T12:00:00", DataType::TimestampLtz(3), "`ts TIMESTAMP(3)`"),
        ("1767268800", DataType::TimestampLtz(3), "'csv.timestamp-format.standard' = 'epoch-seconds'"),
        ("01.02.2026 12:00:00", DataType::Timestamp(3), "`ts_time AS TO_TIMESTAMP(ts, 'dd.MM.yyyy HH:mm:ss')`"),
    ] {
        let schema = Schema::new(vec![Field::new("ts", data_type, true)]);
        let error = decode(&schema, format!("{text}\n").as_bytes(), &[]).error.unwrap();
        assert!(error.advice.as_ref().is_some_and(|advice| advice.contains(expected)), "{text}: {error}");
    }
    let schema = Schema::new(vec![Field::new("ts", DataType::Timestamp(3), true)]);
    let advice = decode(&schema, b"yesterday\n", &[]).error.unwrap().advice.unwrap();
    assert!(
        advice.starts_with("declare the column as `ts STRING`")
            && advice.ends_with("with the pattern that the texts have")
    );
}

#[test]
fn a_bad_record_spares_the_others() {
    let data = b"1,a,\n2,\"open\n3,\xff,\n4,d,,,\n5,e\n6,f,yesterday\n7,g,\n";
    let decoded = decode(&schema(), data, &[("csv.ignore-parse-errors", "true")]);
    assert_eq!(decoded.error, None);
    // Too few fields leave the last ones NULL, a wrong type makes NULL, as in Flink.
    assert_eq!(rows(&decoded), ["1|a|NULL", "5|e|NULL", "6|f|NULL", "7|g|NULL"]);
    assert_eq!(decoded.skipped, 3);
}

#[test]
fn not_null_columns_refuse_empty_fields() {
    let schema = Schema::new(vec![Field::new("a", DataType::Int, false), Field::new("b", DataType::Int, true)]);
    assert_eq!(decode(&schema, b",1\n", &[]).error.unwrap().code, code::NULL_IN_NOT_NULL);
    let decoded = decode(&schema, b"1,1\n,2\n", &[("csv.ignore-parse-errors", "true")]);
    assert_eq!((decoded.rows, decoded.skipped), (1, 1));
}

#[test]
fn encodes_what_it_decodes() {
    let schema = Schema::new(vec![
        Field::new("i", DataType::Int, true),
        Field::new("s", DataType::STRING, true),
        Field::new("t", DataType::TimestampLtz(3), true),
        Field::new("a", DataType::Array(Arc::new(DataType::Double)), true),
        Field::new("d", DataType::decimal(5, 2), true),
    ]);
    let data = "1,\"a, \"\"b\"\"\nc\",2020-12-30 12:13:14.5Z,1.0;2.5,1.50\n,\"\",,,\n";
    let decoded = decode(&schema, data.as_bytes(), &[]);
    assert_eq!((decoded.rows, &decoded.error), (2, &None));
    let encode = |extra: &[(&str, &str)]| {
        let request = SinkRequest {
            table: "t".into(),
            options: options(extra),
            schema: schema.clone(),
            metadata: vec![],
            primary_key: vec![],
            changes: None,
        };
        let header = encode::header(&request).unwrap();
        let encoder = CsvEncoder::new(&request).unwrap();
        let Encoded::Bytes { data, .. } = encoder.encode(&decoded.columns, decoded.rows).unwrap() else {
            panic!("csv is bytes")
        };
        String::from_utf8(header).unwrap() + std::str::from_utf8(&data).unwrap()
    };
    assert_eq!(encode(&[]), data);
    let other = encode(&[("csv.header", "true"), ("csv.null-literal", "n/a"), ("csv.field-delimiter", ";")]);
    assert!(other.starts_with("i;s;t;a;d\n1;\"a, \"\"b\"\"\nc\";"), "{other}");
    assert!(other.ends_with("n/a;\"\";n/a;n/a;n/a\n"), "{other}");
}

#[test]
fn mutated_bytes_never_panic() {
    let mut seed = 1u64;
    let mut below = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) as usize) % bound
    };
    let skip =
        CsvDecoder::new(&request(&schema(), &[("csv.ignore-parse-errors", "true"), ("csv.escape-character", "\\")]))
            .unwrap();
    let strict = CsvDecoder::new(&request(&schema(), &[])).unwrap();
    for _ in 0..3000 {
        let mut line = b"12,\"some \"\"quoted\"\" text\",2020-01-01 00:00:00.5".to_vec();
        for _ in 0..1 + below(4) {
            let at = below(line.len());
            match below(3) {
                0 => line[at] = below(256) as u8,
                1 => line.insert(at, b"\",\\\n\r#\xe2\x00"[below(8)]),
                _ => line.truncate(at.max(1)),
            }
        }
        let data = [b"1,first,\n".as_slice(), &line, b"\n2,last,\n"].concat();
        let decoded = skip.decode(&chunk(&data));
        assert_eq!(decoded.error, None);
        assert_eq!(rows(&decoded)[0], "1|first|NULL");
        strict.decode(&chunk(&data));
    }
}
