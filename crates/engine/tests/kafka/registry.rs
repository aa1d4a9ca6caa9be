//! `avro-confluent`, with a schema registry of a few lines.

use crate::broker::{rows, run, shared};
use millstream::code;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) type Schemas = Arc<Mutex<Vec<(String, String)>>>;

/// A registry; its address, and the subjects and schemas that it has, by number from 1.
pub(crate) fn registry() -> (String, Schemas) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let schemas = Schemas::default();
    let known = schemas.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &known);
        }
    });
    (address, schemas)
}

fn answer(mut stream: std::net::TcpStream, schemas: &Schemas) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path: Vec<&str> = request.split(' ').nth(1).unwrap_or_default().split('/').collect();
    let mut schemas = schemas.lock().unwrap();
    let (status, answer) = match path[..] {
        ["", "schemas", "ids", id] => match id.parse::<usize>().ok().and_then(|id| schemas.get(id - 1)) {
            Some((_, schema)) => (200, json!({ "schema": schema })),
            None => (404, json!({ "error_code": 40403, "message": "Schema not found" })),
        },
        ["", "subjects", subject, "versions"] => {
            let body: Value = serde_json::from_slice(&body).unwrap();
            schemas.push((subject.to_string(), body["schema"].as_str().unwrap().to_string()));
            (200, json!({ "id": schemas.len() }))
        }
        _ => (500, json!({ "message": "what?" })),
    };
    let text = answer.to_string();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    stream.write_all((head + &text).as_bytes()).unwrap();
}

#[test]
fn schemas_are_registered_and_fetched() {
    let Some(kafka) = shared() else { return };
    let (address, schemas) = registry();
    let topic = kafka.topic(1);
    let options = format!("'format' = 'avro-confluent', 'avro-confluent.url' = '{address}'");
    let table = kafka.table("t", "id BIGINT NOT NULL, name STRING, ts TIMESTAMP(3)", &topic, &options);
    run(&(table.clone() + "INSERT INTO t SELECT 1, 'a', TIMESTAMP '2020-01-01 00:00:00.5'")).unwrap();
    assert_eq!(schemas.lock().unwrap()[0].0, format!("{topic}-value"));
    assert_eq!(kafka.read(&topic)[0].value.as_deref().unwrap()[..5], [0, 0, 0, 0, 1]);

    // Another writer has other fields, in another order, and numbers that are smaller.
    let other = json!({"type": "record", "name": "other", "fields": [
        {"name": "unknown", "type": {"type": "array", "items": "string"}},
        {"name": "name", "type": {"type": "enum", "name": "E", "symbols": ["x", "y"]}},
        {"name": "id", "type": "int"},
    ]});
    schemas.lock().unwrap().push((String::new(), other.to_string()));
    let bytes = [0, 0, 0, 0, 2, 2, 2, b'u', 0, 2, 14];
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    kafka.send(&topic, 0, &[&text]);
    let select = "SELECT id, name, ts FROM t";
    assert_eq!(rows(&(table.clone() + select)).unwrap(), ["1,a,2020-01-01T00:00:00.500", "7,y,"]);
    let narrow = kafka.table("t", "name STRING", &topic, &options);
    assert_eq!(rows(&(narrow + "SELECT name FROM t")).unwrap(), ["a", "y"]);

    let unknown = String::from_utf8(vec![0, 0, 0, 0, 99, 2]).unwrap();
    kafka.send(&topic, 0, &[&unknown, "x"]);
    let error = rows(&(table + select)).unwrap_err();
    assert!(error.code == code::MALFORMED_RECORD && error.message.contains("has no schema 99"), "{error}");
    let lenient = format!("{options}, 'avro-confluent.ignore-parse-errors' = 'true'");
    let table = kafka.table("t", "id BIGINT NOT NULL", &topic, &lenient);
    assert_eq!(rows(&(table + "SELECT id FROM t")).unwrap(), ["1", "7"]);
}

#[test]
fn a_registry_that_does_not_answer_is_named() {
    let Some(kafka) = shared() else { return };
    let topic = kafka.topic(1);
    kafka.send(&topic, 0, &["\0\0\0\0\u{1}\u{2}"]);
    let options = "'format' = 'avro-confluent', 'avro-confluent.url' = 'http://127.0.0.1:1'";
    let table = kafka.table("t", "id BIGINT", &topic, options);
    for script in ["SELECT id FROM t", "INSERT INTO t VALUES (1)"] {
        let error = rows(&(table.clone() + script)).unwrap_err();
        assert_eq!(error.code, code::CONNECTION_FAILED, "{error}");
    }
}
