//! The decoder against cases, against serde_json on random documents, and against mutated bytes.

use super::{JsonDecoder, JsonEncoder};
use crate::format::RecordDecoder;
use crate::text_chunk::{FileInfo, Framing, TextChunk};
use crate::{ColumnRequest, Decoded, Encoded, Encoder, RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_cast::display::array_value_to_string;
use millstream_types::{DataType, Diagnostic, Field, Options, Place, Schema, code};
use serde_json::Value;
use std::sync::Arc;

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn row(fields: Vec<Field>) -> DataType {
    DataType::Row(fields.into())
}

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

/// The column at a path, by names.
fn column(schema: &Schema, path: &[&str]) -> ColumnRequest {
    let mut fields = &schema.fields[..];
    let mut positions = Vec::new();
    let mut found = None;
    for name in path {
        let at = fields.iter().position(|f| f.name == *name).unwrap();
        positions.push(at);
        found = Some(fields[at].clone());
        fields = if let DataType::Row(nested) = &fields[at].data_type { nested } else { &[] };
    }
    let found = found.unwrap();
    let (data_type, nullable) = (found.data_type, found.nullable);
    ColumnRequest { name: path.join("."), origin: RequestOrigin::Path(positions), data_type, nullable }
}

fn decoder(schema: &Schema, columns: Vec<ColumnRequest>, extra: &[(&str, &str)]) -> JsonDecoder {
    let request = SourceRequest {
        table: "t".into(),
        options: options(extra),
        schema: schema.clone(),
        columns,
        ..SourceRequest::default()
    };
    JsonDecoder::new(&request, "json").unwrap()
}

fn chunk(data: &[u8]) -> TextChunk {
    let file = Arc::new(FileInfo { path: "in.json".into(), ..FileInfo::default() });
    TextChunk { data: Buffer::from(data), offset: 1000, line: 11, file, framing: Framing::default() }
}

/// Decodes all columns of a schema.
fn decode_all(schema: &Schema, data: &[u8], extra: &[(&str, &str)]) -> Decoded {
    let columns = schema.fields.iter().map(|f| column(schema, &[&f.name])).collect();
    decoder(schema, columns, extra).decode(&chunk(data))
}

fn texts(array: &ArrayRef) -> Vec<String> {
    let text = |row| if array.is_null(row) { "NULL".into() } else { array_value_to_string(array, row).unwrap() };
    (0..array.len()).map(text).collect()
}

/// One column `v` of a type: what each line gives, errors ignored.
fn values(data_type: DataType, lines: &[&str]) -> Vec<String> {
    let schema = Schema::new(vec![field("v", data_type)]);
    let data: String = lines.iter().map(|value| format!("{{\"v\":{value}}}\n")).collect();
    let decoded = decode_all(&schema, data.as_bytes(), &[("json.ignore-parse-errors", "true")]);
    assert_eq!((decoded.rows, decoded.skipped, decoded.error), (lines.len(), 0, None));
    texts(&decoded.columns[0])
}

/// The error of one column `v` of a type.
fn error(data_type: DataType, line: &str) -> Diagnostic {
    let schema = Schema::new(vec![field("v", data_type)]);
    decode_all(&schema, line.as_bytes(), &[]).error.expect(line)
}

#[test]
fn every_scalar_type_converts_as_in_flink() {
    assert_eq!(
        values(DataType::Boolean, &["true", "false", "\"TRUE\"", "1", "null"]),
        ["true", "false", "true", "NULL", "NULL"]
    );
    assert_eq!(values(DataType::TinyInt, &["-128", "128", "\" 7 \"", "1.5"]), ["-128", "NULL", "7", "NULL"]);
    assert_eq!(
        values(DataType::Int, &["2147483647", "2147483648", "\"12\"", "1.9", "1e3", "-0", "true"]),
        ["2147483647", "NULL", "12", "1", "1000", "0", "NULL"]
    );
    assert_eq!(
        values(
            DataType::BigInt,
            &["9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e30", "-1.5"]
        ),
        ["9223372036854775807", "-9223372036854775808", "NULL", "NULL", "-1"]
    );
    assert_eq!(
        values(DataType::Double, &["1", "1.5e3", "\"NaN\"", "\"x\"", "{}"]),
        ["1.0", "1500.0", "NaN", "NULL", "NULL"]
    );
    assert_eq!(values(DataType::Float, &["0.1"]), ["0.1"]);
    let decimal = DataType::decimal(38, 18);
    assert_eq!(
        values(decimal, &["12345678901234567890.123456789012345678", "\"1\"", "1e40"]),
        ["12345678901234567890.123456789012345678", "1.000000000000000000", "NULL"]
    );
    assert_eq!(
        values(DataType::STRING, &["\"\"", "12", "1.50", "true", "{ \"a\" : [1, \" x \"] }", "[]", "\"a\\u00e9\\n\""]),
        ["", "12", "1.50", "true", "{\"a\":[1,\" x \"]}", "[]", "aé\n"]
    );
    assert_eq!(values(DataType::BYTES, &["\"aGVsbG8=\"", "\"?\"", "1"]), ["68656c6c6f", "NULL", "NULL"]);
    assert_eq!(values(DataType::Date, &["\"2020-02-29\"", "\"2021-02-29\"", "18321"]), ["2020-02-29", "NULL", "NULL"]);
    assert_eq!(values(DataType::Time(3), &["\"12:13:14.5\"", "\"25:00:00\""]), ["12:13:14.500", "NULL"]);
    assert_eq!(
        values(DataType::Timestamp(3), &["\"2020-12-30 12:13:14.123\"", "\"2020-12-30T12:13:14\"", "1"]),
        ["2020-12-30T12:13:14.123", "2020-12-30T12:13:14", "NULL"]
    );
    let schema = Schema::new(vec![field("v", DataType::TimestampLtz(6))]);
    let data = b"{\"v\":\"1970-01-01 00:00:14.000001Z\"}\n{\"v\":\"1970-01-01 00:00:14\"}";
    let decoded = decode_all(&schema, data, &[]);
    assert_eq!(decoded.columns[0].as_primitive::<TimestampMicrosecondType>().values(), &[14_000_001]);
    assert_eq!(decoded.error.map(|e| e.code), Some(code::WRONG_TYPE));
}

#[test]
fn numbers_are_timestamps_on_request() {
    let schema = Schema::new(vec![field("v", DataType::Timestamp(3)), field("w", DataType::TimestampLtz(6))]);
    let data =
        b"{\"v\":1700006361.552,\"w\":\"1700006361.000001\"}\n{\"v\":\"2023-11-14T23:59:21\",\"w\":null}\n{\"v\":true}";
    let decoded = decode_all(&schema, data, &[("json.timestamp-format.standard", "epoch-seconds")]);
    assert_eq!(texts(&decoded.columns[0]), ["2023-11-14T23:59:21.552", "2023-11-14T23:59:21"]);
    assert_eq!(decoded.columns[1].as_primitive::<TimestampMicrosecondType>().value(0), 1_700_006_361_000_001);
    assert_eq!(decoded.error.map(|e| e.code), Some(code::WRONG_TYPE));
    for (style, number) in [
        ("epoch-millis", "1700006361552"),
        ("epoch-micros", "1700006361552000"),
        ("epoch-nanos", "1700006361552000000"),
    ] {
        let decoded =
            decode_all(&schema, format!("{{\"v\":{number}}}").as_bytes(), &[("json.timestamp-format.standard", style)]);
        assert_eq!(texts(&decoded.columns[0]), ["2023-11-14T23:59:21.552"], "{style}");
    }
}

#[test]
fn nested_types_are_read_whole() {
    let inner = row(vec![field("x", DataType::Int), field("y", DataType::STRING)]);
    let schema = Schema::new(vec![
        field("r", inner),
        field("a", DataType::Array(Arc::new(DataType::Int))),
        field("m", DataType::Map(Arc::new(DataType::STRING), Arc::new(DataType::Double))),
    ]);
    let data = br#"{"r":{"y":"long string outside of the view","x":1,"z":[{}]},"a":[1,null,"3"],"m":{"k":1.5,"l":null}}
{"r":{},"a":[],"m":{}}
{"r":null}
{"r":{"x":"bad"},"a":[1,{}],"m":[]}"#;
    let decoded = decode_all(&schema, data, &[("json.ignore-parse-errors", "true")]);
    assert_eq!((decoded.rows, decoded.skipped), (4, 0));
    let (r, a, m) = (texts(&decoded.columns[0]), texts(&decoded.columns[1]), texts(&decoded.columns[2]));
    assert_eq!(r, ["{x: 1, y: long string outside of the view}", "{x: , y: }", "NULL", "{x: , y: }"]);
    assert_eq!(a, ["[1, , 3]", "[]", "NULL", "[1, ]"]);
    assert_eq!(m, ["{k: 1.5, l: }", "{}", "NULL", "NULL"]);
}

#[test]
fn parts_of_rows_are_read_beside_whole_ones() {
    let bid = row(vec![field("price", DataType::BigInt), field("deep", row(vec![field("s", DataType::STRING)]))]);
    let schema = Schema::new(vec![field("kind", DataType::Int), field("bid", bid)]);
    let columns = vec![
        column(&schema, &["bid", "deep", "s"]),
        column(&schema, &["bid"]),
        column(&schema, &["bid", "price"]),
        column(&schema, &["kind"]),
    ];
    let data = br#"{"kind":2,"bid":{"price":7,"deep":{"s":"x"}}}
{"kind":0,"person":{"bid":{"price":1}}}
  {"bid":{"deep":null,"price":8},"kind":1} {"bid":null}

{"bid":{"price":1,"deep":{"s":"old"}},"bid":{"deep":{}},"kind":3}
{"kind":1,"kind":4}"#;
    let decoded = decoder(&schema, columns, &[]).decode(&chunk(data));
    assert_eq!((decoded.rows, decoded.error), (6, None));
    let columns: Vec<_> = decoded.columns.iter().map(texts).collect();
    assert_eq!(columns[0], ["x", "NULL", "NULL", "NULL", "NULL", "NULL"]);
    assert_eq!(
        columns[1],
        ["{price: 7, deep: {s: x}}", "NULL", "{price: 8, deep: }", "NULL", "{price: , deep: {s: }}", "NULL"]
    );
    assert_eq!(columns[2], ["7", "NULL", "8", "NULL", "NULL", "NULL"]);
    assert_eq!(columns[3], ["2", "0", "1", "NULL", "3", "4"]);
}

#[test]
fn no_columns_still_count_and_check() {
    let schema = Schema::new(vec![field("v", DataType::Int)]);
    let decoded = decoder(&schema, vec![], &[]).decode(&chunk(b"{}\n{\"v\":1}{\"w\":[1]}\n{\"v\":tru}\n{}"));
    assert_eq!(decoded.rows, 3);
    assert_eq!(decoded.error.unwrap().code, code::MALFORMED_RECORD);
}

#[test]
fn a_time_that_is_written_otherwise_says_what_to_declare() {
    let advice =
        |data_type: DataType, text: &str| error(data_type, &format!("{{\"v\":\"{text}\"}}")).advice.unwrap_or_default();
    assert!(
        advice(DataType::Timestamp(3), "2026-01-01T12:00:00.078Z")
            .contains("declare the column as `v TIMESTAMP_LTZ(3)`")
    );
    assert!(
        advice(DataType::TimestampLtz(3), "2026-01-01 12:00:00").contains("declare the column as `v TIMESTAMP(3)`")
    );
    assert!(
        advice(DataType::Timestamp(3), "1700006361552").contains("'json.timestamp-format.standard' = 'epoch-millis'")
    );
    let number = error(DataType::TimestampLtz(3), "{\"v\":1700006361}").advice.unwrap_or_default();
    assert!(number.contains("'json.timestamp-format.standard' = 'epoch-seconds'"), "{number}");
    for (data_type, text, expected) in [
        (DataType::Timestamp(3), "yesterday", "with the pattern that the texts have"),
        (DataType::Int, "2026-01-01 12:00:00", "TRY_CAST(v AS INT)"),
    ] {
        let advice = advice(data_type, text);
        assert!(advice.starts_with("declare the column as `v STRING`") && advice.contains(expected), "{advice}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let e = error(DataType::Int, "{\"v\":1}\n\n{\"v\":\"abc\"}\n");
    assert_eq!((e.code, e.message.as_str()), (code::WRONG_TYPE, "\"abc\" cannot be read as INT"));
    let place = |offset, line, column: Option<&str>| {
        Some(Place::Data {
            resource: "in.json".into(),
            offset: Some(offset),
            line: Some(line),
            column: column.map(str::to_string),
        })
    };
    assert_eq!(e.place, place(1009, 13, Some("v")));
    let e = error(DataType::Int, "{\"v\":1}\n{\"v\":1,\n{\"v\":2}");
    assert_eq!((e.code, e.place), (code::MALFORMED_RECORD, place(1008, 12, None)));
    assert!(e.message.contains("the record is incomplete at the end of the line"), "{}", e.message);
    for bad in
        ["[1]", "{\"v\":1}}", "{\"w\":1 \"v\":2}", "{\"v\":01}", "{\"v\":nul}", "{\"v\":\"\t\"}", "x", "{\"v\":1}\u{0}"]
    {
        assert_eq!(error(DataType::Int, bad).code, code::MALFORMED_RECORD, "{bad}");
    }
    let nested = row(vec![field("x", DataType::Int)]);
    let e = error(nested.clone(), "{\"v\":{\"x\":[]}}");
    assert_eq!((e.code, e.place), (code::WRONG_TYPE, place(1000, 11, Some("v.x"))));
    assert_eq!(error(nested, "{\"v\":7}").code, code::WRONG_TYPE);
}

#[test]
fn missing_and_null_values_are_errors_where_asked_for() {
    let schema = Schema::new(vec![field("v", DataType::Int)]);
    let strict = [("json.fail-on-missing-field", "true")];
    let decoded = decode_all(&schema, b"{\"v\":null}\n{\"w\":1}", &strict);
    assert_eq!(decoded.rows, 1);
    assert_eq!(decoded.error.unwrap().code, code::MISSING_FIELD);

    let schema = Schema::new(vec![Field::new("v", DataType::Int, false)]);
    for bad in ["{\"v\":null}", "{}"] {
        let data = format!("{{\"v\":1}}\n{bad}\n{{\"v\":2}}");
        let decoded = decode_all(&schema, data.as_bytes(), &[]);
        assert_eq!((decoded.rows, decoded.error.unwrap().code), (1, code::NULL_IN_NOT_NULL));
        let decoded = decode_all(&schema, data.as_bytes(), &[("json.ignore-parse-errors", "true")]);
        assert_eq!(
            (decoded.rows, decoded.skipped, texts(&decoded.columns[0])),
            (2, 1, vec!["1".to_string(), "2".into()])
        );
    }
}

#[test]
fn a_line_that_is_not_utf8_spoils_only_itself() {
    let schema = Schema::new(vec![field("v", DataType::STRING)]);
    let data = b"{\"v\":\"a string that is longer than a view\"}\n{\"v\":\"\xff\"}\n{\"v\":\"another that is longer than a view\"}\n";
    let decoded = decode_all(&schema, data, &[("json.ignore-parse-errors", "true")]);
    assert_eq!((decoded.rows, decoded.skipped), (2, 1));
    assert_eq!(
        texts(&decoded.columns[0]),
        ["a string that is longer than a view", "another that is longer than a view"]
    );
    let decoded = decode_all(&schema, data, &[]);
    assert_eq!(decoded.rows, 1);
    let error = decoded.error.unwrap();
    assert!(error.message.contains("not UTF-8"), "{error}");
}

/// Small and good enough for tests.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

fn random_string(random: &mut Random) -> String {
    let alphabet: Vec<char> = "ab\"\\/\n\t é€😀\u{1}{}[],:xyz".chars().collect();
    (0..random.below(30)).map(|_| alphabet[random.below(alphabet.len())]).collect()
}

fn random_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::from(random.below(1 << 31) as i64 - (1 << 30)),
        3 => Value::from((random.below(1 << 30) as f64 - 1e8) / 1024.0),
        4 => Value::String(random_string(random)),
        5 => (0..random.below(4)).map(|_| random_value(random, depth - 1)).collect(),
        _ => random_object(random, depth - 1),
    }
}

fn random_object(random: &mut Random, depth: usize) -> Value {
    let names = ["id", "name", "row", "price", "x", "k\"ey", "é"];
    let members =
        (0..random.below(7)).map(|_| (names[random.below(names.len())].to_string(), random_value(random, depth)));
    Value::Object(members.collect())
}

fn document_schema() -> Schema {
    let inner =
        row(vec![field("id", DataType::BigInt), field("name", DataType::STRING), field("k\"ey", DataType::STRING)]);
    Schema::new(vec![
        field("id", DataType::BigInt),
        field("name", DataType::STRING),
        field("row", inner),
        field("price", DataType::Double),
        field("é", DataType::STRING),
    ])
}

fn expected_string(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn expected_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().map(|f| f.trunc() as i64)),
        Value::String(text) => text.trim_matches(|c: char| c <= ' ').parse().ok(),
        _ => None,
    }
}

#[test]
fn agrees_with_serde_on_random_documents() {
    let schema = document_schema();
    let columns = [&["id"][..], &["name"], &["row", "id"], &["row", "k\"ey"], &["é"], &["row", "name"]];
    let requests = columns.iter().map(|path| column(&schema, path)).collect();
    let decoder = decoder(&schema, requests, &[("json.ignore-parse-errors", "true")]);
    let mut random = Random(7);
    for round in 0..300 {
        let documents: Vec<Value> = (0..random.below(40)).map(|_| random_object(&mut random, 3)).collect();
        let separator = if round % 2 == 0 { "\n" } else { " \r\n" };
        let text: String = documents.iter().map(|d| d.to_string() + separator).collect();
        let decoded = decoder.decode(&chunk(text.as_bytes()));
        assert_eq!((decoded.rows, decoded.skipped, decoded.error), (documents.len(), 0, None));
        for (path, array) in columns.iter().zip(&decoded.columns) {
            for (at, document) in documents.iter().enumerate() {
                let value = path.iter().try_fold(document, |value, name| value.get(name)).unwrap_or(&Value::Null);
                if array.data_type() == &DataType::BigInt.to_arrow() {
                    let array = array.as_primitive::<Int64Type>();
                    let got = array.is_valid(at).then(|| array.value(at));
                    assert_eq!(got, expected_integer(value), "{path:?} of {document}");
                } else {
                    let array = array.as_string_view();
                    let got = array.is_valid(at).then(|| array.value(at).to_string());
                    assert_eq!(got, expected_string(value), "{path:?} of {document}");
                }
            }
        }
    }
}

#[test]
fn mutated_bytes_never_panic_and_spare_other_lines() {
    let schema = document_schema();
    let requests = || vec![column(&schema, &["id"]), column(&schema, &["row"]), column(&schema, &["row", "name"])];
    let skip = decoder(&schema, requests(), &[("json.ignore-parse-errors", "true")]);
    let strict = decoder(&schema, requests(), &[]);
    let mut random = Random(42);
    let first = "{\"id\":1001,\"row\":{\"name\":\"first row before\"}}\n";
    let last = "{\"id\":1002,\"row\":{\"name\":\"last row behind it\"}}\n";
    for _ in 0..4000 {
        let mut line = random_object(&mut random, 3).to_string().into_bytes();
        for _ in 0..1 + random.below(4) {
            let at = random.below(line.len());
            match random.below(4) {
                0 => line[at] = random.below(256) as u8,
                1 => line.insert(at, b"\"\\{}[],:0-\xe2\x00"[random.below(12)]),
                2 => line.truncate(at.max(1)),
                _ => {
                    line.remove(at);
                    line.push(b' ');
                }
            }
        }
        let data = [first.as_bytes(), &line, b"\n", last.as_bytes()].concat();
        let decoded = skip.decode(&chunk(&data));
        assert_eq!(decoded.error, None);
        let ids = decoded.columns[0].as_primitive::<Int64Type>();
        assert!(decoded.rows >= 2, "{}", String::from_utf8_lossy(&data));
        assert_eq!((ids.value(0), ids.value(decoded.rows - 1)), (1001, 1002), "{}", String::from_utf8_lossy(&data));
        let names = decoded.columns[2].as_string_view();
        assert_eq!((names.value(0), names.value(decoded.rows - 1)), ("first row before", "last row behind it"));
        for column in strict.decode(&chunk(&data)).columns {
            assert!(!column.is_empty());
        }
    }
}

#[test]
fn encodes_what_it_decodes() {
    let inner = row(vec![field("x", DataType::Double), field("y", DataType::STRING)]);
    let schema = Schema::new(vec![
        field("i", DataType::BigInt),
        field("s\"", DataType::STRING),
        field("d", DataType::decimal(10, 2)),
        field("t", DataType::Timestamp(3)),
        field("z", DataType::TimestampLtz(3)),
        field("day", DataType::Date),
        field("b", DataType::BYTES),
        field("r", inner),
        field("a", DataType::Array(Arc::new(DataType::Boolean))),
        field("m", DataType::Map(Arc::new(DataType::STRING), Arc::new(DataType::Int))),
        field("f", DataType::Float),
    ]);
    let data = concat!(
        r#"{"i":-5,"s\"":"a\"b\\c\n\u0001é","d":12.30,"t":"2020-12-30 12:13:14.5","z":"1969-12-31 23:59:59Z","#,
        r#""day":"2020-02-29","b":"aGVsbG8=","r":{"x":1.0E10,"y":null},"a":[true,null],"m":{"k":1},"f":"NaN"}"#,
        "\n",
        r#"{"i":null,"s\"":"","d":null,"t":null,"z":null,"day":null,"b":null,"r":null,"a":null,"m":null,"f":0.1}"#,
        "\n"
    );
    let decoded = decode_all(&schema, data.as_bytes(), &[]);
    assert_eq!(decoded.error, None);
    let encode = |extra: &[(&str, &str)]| {
        let request = SinkRequest {
            table: "t".into(),
            options: options(extra),
            schema: schema.clone(),
            metadata: vec![],
            primary_key: vec![],
            changes: None,
        };
        let Encoded::Bytes { data, rows: 2 } =
            JsonEncoder::new(&request, "json").unwrap().encode(&decoded.columns, decoded.rows).unwrap()
        else {
            panic!("two rows of bytes")
        };
        String::from_utf8(data).unwrap()
    };
    assert_eq!(encode(&[]), data);
    let short = encode(&[("json.encode.ignore-null-fields", "true"), ("json.timestamp-format.standard", "ISO-8601")]);
    assert!(short.contains(r#""t":"2020-12-30T12:13:14.5","z":"1969-12-31T23:59:59Z""#), "{short}");
    assert!(short.ends_with("\n{\"s\\\"\":\"\",\"f\":0.1}\n"), "{short}");
}
