//! What is found in files as software writes them.

use crate::{file_options, infer_columns as infer};
use std::path::Path;

/// `name TYPE` of each column, the options that were found, and the event time.
fn found(name: &str, content: &[u8], given: &[(&str, &str)]) -> (String, String, Option<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    let mut options = file_options(path.to_str().unwrap()).unwrap();
    given.iter().for_each(|(key, value)| options.set(*key, *value));
    let inferred = infer("t", &options).unwrap();
    let columns: Vec<String> = inferred.columns.iter().map(|f| format!("{} {}", f.name, f.data_type)).collect();
    let options: Vec<String> = inferred.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let time = inferred.event_time.map(|time| format!("{} {}", time.column, time.delay.as_secs()));
    (columns.join(", "), options.join(", "), time)
}

fn columns(name: &str, content: &str) -> String {
    found(name, content.as_bytes(), &[]).0
}

#[test]
fn json_of_servers() {
    // nginx with escape=json: all values are texts but those that the format leaves bare.
    let nginx = r#"{"time":"2026-01-01T12:00:00+01:00","remote_addr":"10.0.0.1","request":"GET / HTTP/1.1","status":200,"request_time":0.012,"bytes":"512"}
{"time":"2026-01-01T12:00:07+01:00","remote_addr":"::1","request":"POST /x HTTP/1.1","status":500,"request_time":1,"bytes":"-"}"#;
    let (types, _, time) = found("access.log.json", nginx.as_bytes(), &[]);
    assert_eq!(
        types,
        "time TIMESTAMP_LTZ(3), remote_addr STRING, request STRING, status BIGINT, request_time DOUBLE, bytes STRING"
    );
    assert_eq!(time.as_deref(), Some("time 0"));
    // journald: numbers as texts, a field that is an array of bytes at times.
    let journal = "{\"__REALTIME_TIMESTAMP\":\"1767268800078123\",\"PRIORITY\":\"6\",\"MESSAGE\":\"up\",\"_PID\":\"1\"}\n{\"__REALTIME_TIMESTAMP\":\"1767268801078123\",\"PRIORITY\":\"3\",\"MESSAGE\":[104,105],\"_PID\":\"77\"}\n";
    assert_eq!(
        columns("journal.json", journal),
        "__REALTIME_TIMESTAMP STRING, PRIORITY STRING, MESSAGE STRING, _PID STRING"
    );
    // GitHub events: nested, nullable, arrays of objects.
    let events = r#"{"id":"123","type":"PushEvent","actor":{"id":1,"login":"a","url":null},"payload":{"push_id":9,"commits":[{"sha":"x","distinct":true}]},"public":true,"created_at":"2026-01-01T00:00:00Z"}
{"id":"124","type":"WatchEvent","actor":{"id":2,"login":"b"},"payload":{"action":"started"},"public":true,"created_at":"2026-01-01T00:00:01Z"}"#;
    assert_eq!(
        columns("events.ndjson", events),
        "id STRING, type STRING, actor ROW<`id` BIGINT, `login` STRING, `url` STRING>, payload ROW<`push_id` BIGINT, \
         `commits` ARRAY<ROW<`sha` STRING, `distinct` BOOLEAN>>, `action` STRING>, public BOOLEAN, created_at TIMESTAMP_LTZ(3)"
    );
    // Loggers of Python: a comma before the milliseconds, and microseconds of isoformat().
    assert_eq!(
        columns("py.jsonl", r#"{"asctime":"2026-01-01 12:00:00,078","at":"2026-01-01T12:00:00.078123"}"#),
        "asctime TIMESTAMP(3), at TIMESTAMP(6)"
    );
    // Empty things, and what differs from record to record.
    assert_eq!(
        columns(
            "odd.jsonl",
            "{\"a\":null,\"b\":[],\"c\":{},\"d\":[1,null],\"e\":1}\n{\"e\":\"x\",\"f\":18446744073709551615,\"g\":[[1],[2.5]]}"
        ),
        "a STRING, b ARRAY<STRING>, c MAP<STRING, STRING>, d ARRAY<BIGINT>, e STRING, f DECIMAL(38, 0), g ARRAY<ARRAY<DOUBLE>>"
    );
    let keys: Vec<String> = (0..300).map(|i| format!("\"user{i}\":{i}")).collect();
    assert_eq!(columns("map.jsonl", &format!("{{\"counts\":{{{}}}}}", keys.join(","))), "counts MAP<STRING, BIGINT>");
}

#[test]
fn times_as_numbers_on_request() {
    let text = "{\"at\":1767268800,\"n\":5}\n{\"at\":1767268801.5,\"n\":6}";
    let (types, ..) = found("e.jsonl", text.as_bytes(), &[("json.timestamp-format.standard", "epoch-seconds")]);
    assert_eq!(types, "at TIMESTAMP_LTZ(3), n BIGINT");
}

#[test]
fn csv_of_spreadsheets() {
    let (types, options, _) = found(
        "german.csv",
        b"\xef\xbb\xbfDatum;Betrag;Ort\r\n2026-01-01;1,50;\"Bad; Ems\"\r\n2026-01-02;2,00;Ulm\r\n",
        &[],
    );
    assert_eq!(types, "Datum DATE, Betrag STRING, Ort STRING");
    assert_eq!(options, "csv.field-delimiter=;, csv.header=true");
    let (types, options, _) = found("tabs.tsv", b"1\tx\n2\ty\n", &[]);
    assert_eq!((types.as_str(), options.as_str()), ("column0 BIGINT, column1 STRING", "csv.field-delimiter=\\t"));
    // All texts: the first line is a header.
    assert_eq!(columns("texts.csv", "name,city\nann,ulm\n"), "name STRING, city STRING");
    // Row numbers of pandas have no name; names that occur twice.
    assert_eq!(columns("pandas.csv", ",a,a\n0,1.5,2\n1,2.5,3\n"), "column0 BIGINT, a DOUBLE, a_1 BIGINT");
    // A quoted field with a line feed and a doubled quote; an empty column; a comment.
    let (types, options, _) = found("q.csv", b"# made by x\nid,text,none\n1,\"a\nb \"\"c\"\"\",\n2,d,\n", &[]);
    assert_eq!(
        (types.as_str(), options.as_str()),
        ("id BIGINT, text STRING, none STRING", "csv.header=true, csv.allow-comments=true")
    );
    let (types, _, time) =
        found("m.csv", b"ts,v\n2026-01-01 00:00:10,1\n2026-01-01 00:00:03,2\n2026-01-01 00:00:20,\n", &[]);
    assert_eq!((types.as_str(), time.as_deref()), ("ts TIMESTAMP(3), v BIGINT", Some("ts 7")));
}

#[test]
fn compressed_files_and_bare_names() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, b"{\"a\":1}\n").unwrap();
    assert_eq!(found("a.jsonl.gz", &gz.finish().unwrap(), &[]).0, "a BIGINT");
    assert_eq!(columns("app.log", "  {\"a\":true}\n"), "a BOOLEAN");
    let zst = zstd::encode_all(&b"a|b\n1|x\n"[..], 1).unwrap();
    let (types, options, _) = found("x.csv.zst", &zst, &[]);
    assert_eq!((types.as_str(), options.as_str()), ("a BIGINT, b STRING", "csv.field-delimiter=|, csv.header=true"));
}

#[test]
fn what_says_nothing_is_an_error() {
    let error = |name: &str, content: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        let options = file_options(path.to_str().unwrap())?;
        infer("t", &options)
    };
    for (name, content, why) in [
        ("a.jsonl", "", "no record yet"),
        ("a.jsonl", "[1,2]", "JSON array"),
        ("a.jsonl", "{\"a\":1}\n{\"a\":", "no JSON object"),
        ("a.jsonl", "1\n", "no record"),
        ("a.csv", "\n\n", "no record yet"),
        ("a.parquet", "PAR1 but no more", "Parquet"),
        ("a.txt", "hello", "which format"),
    ] {
        let error = error(name, content).expect_err(name);
        assert!(error.to_string().contains(why), "{name} {content:?}: {error}");
    }
}

/// The types that hold all values of one of DuckDB's.
fn holds(duckdb: &str, ours: &str) -> bool {
    if let Some(element) = duckdb.strip_suffix("[]") {
        return ours
            .strip_prefix("ARRAY<")
            .and_then(|ours| ours.strip_suffix('>'))
            .is_some_and(|ours| holds(element, ours));
    }
    match duckdb {
        "UTINYINT" => ours == "SMALLINT",
        "HUGEINT" => ours == "DECIMAL(38, 0)",
        "VARCHAR" => matches!(ours, "STRING" | "TIMESTAMP(3)" | "TIMESTAMP(6)"),
        "UUID" | "JSON" | "\"NULL\"" => ours == "STRING",
        "BLOB" => ours == "BYTES",
        "INTEGER" => ours == "INT",
        "TIME" => ours.starts_with("TIME("),
        "TIMESTAMP" => ours.starts_with("TIMESTAMP("),
        "TIMESTAMP WITH TIME ZONE" => ours.starts_with("TIMESTAMP_LTZ("),
        nested if nested.starts_with("STRUCT(") => ours.starts_with("ROW<"),
        nested if nested.starts_with("MAP(") => ours.starts_with("MAP<"),
        same => same.replace(' ', "") == ours.replace(' ', ""),
    }
}

/// `tests/inference` has files in the shapes of real software, and the types that DuckDB 2.0.1 finds in them.
#[test]
fn types_are_those_of_duckdb_or_better() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/inference"));
    let recorded = std::fs::read_to_string(folder.join("types.json")).unwrap();
    let recorded: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&recorded).unwrap();
    assert!(recorded.len() >= 30);
    for (file, columns) in recorded {
        let inferred = infer("t", &file_options(folder.join(&file).to_str().unwrap()).unwrap()).unwrap();
        let columns = columns.as_array().unwrap();
        assert_eq!(inferred.columns.len(), columns.len(), "{file}");
        for (field, column) in inferred.columns.iter().zip(columns) {
            let (name, duckdb) = (column["column"].as_str().unwrap(), column["duckdb"].as_str().unwrap());
            assert_eq!(
                (&*field.name, &*field.data_type.to_string()),
                (name, column["millstream"].as_str().unwrap()),
                "{file}"
            );
            assert!(
                holds(duckdb, &field.data_type.to_string()),
                "{file}: {name} is {} here, {duckdb} there",
                field.data_type
            );
        }
    }
}
