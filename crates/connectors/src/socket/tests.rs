//! Sources and sinks over local connections.

use crate::{ColumnRequest, Decoder, RequestOrigin, SinkRequest, Source, SourceRequest, SplitReader};
use crate::{open_sink, open_source};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream_types::{DataType, Diagnostic, Field, Options, Place, Schema, code};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

fn schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::BigInt, true), Field::new("name", DataType::STRING, true)])
}

/// Records of 13 bytes.
fn packed_schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::BigInt, false), Field::new("name", DataType::Char(5), false)])
}

fn options(port: u16, format: &str, extra: &[(&str, &str)]) -> Options {
    let port = port.to_string();
    let base = [("connector", "socket"), ("hostname", "127.0.0.1"), ("port", port.as_str()), ("format", format)];
    base.iter().chain(extra).map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn source(options: Options) -> Result<Box<dyn Source>, Diagnostic> {
    source_of(schema(), options)
}

fn source_of(schema: Schema, options: Options) -> Result<Box<dyn Source>, Diagnostic> {
    let column = |(i, f): (usize, &Field)| ColumnRequest {
        name: f.name.clone(),
        origin: RequestOrigin::Path(vec![i]),
        data_type: f.data_type.clone(),
        nullable: f.nullable,
    };
    let columns = schema.fields.iter().enumerate().map(column).collect();
    open_source(&SourceRequest { table: "t".into(), options, schema, columns, ..SourceRequest::default() })
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// The ids of all chunks until the end.
fn ids(split: &mut dyn SplitReader, decoder: &dyn Decoder) -> Result<Vec<i64>, Diagnostic> {
    let mut ids = Vec::new();
    while let Some(chunk) = split.next()? {
        let decoded = decoder.decode(chunk);
        ids.extend(decoded.columns[0].as_primitive::<Int64Type>().values());
        if let Some(error) = decoded.error {
            return Err(error);
        }
    }
    Ok(ids)
}

/// What a client reads from a server that runs `serve` with the connection.
fn from_server(
    format: &str,
    extra: &[(&str, &str)],
    serve: impl FnOnce(TcpStream) + Send + 'static,
) -> Result<Vec<i64>, Diagnostic> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || serve(listener.accept().unwrap().0));
    let schema = if format == "row" { packed_schema() } else { schema() };
    let mut source = source_of(schema, options(port, format, extra)).unwrap();
    let decoder = source.decoder();
    let mut splits = source.splits().unwrap();
    assert_eq!((splits.len(), splits[0].name()), (1, format!("127.0.0.1:{port}").as_str()));
    let ids = ids(&mut *splits[0], &*decoder);
    server.join().unwrap();
    ids
}

#[test]
fn a_client_reads_until_its_peer_closes() {
    let text: String = (0..100_000).map(|id| format!("{{\"id\":{id},\"name\":\"n{id}\"}}\n")).collect();
    // The last record may lack its line feed.
    let read = from_server("json", &[], move |mut s| s.write_all(text.trim_end().as_bytes()).unwrap()).unwrap();
    assert_eq!(read, (0..100_000).collect::<Vec<_>>());
    let csv =
        from_server("csv", &[("csv.header", "true")], |mut s| s.write_all(b"id,name\n7,x\n8,\"a\nb\"\n").unwrap());
    assert_eq!(csv.unwrap(), [7, 8]);
    assert!(from_server("csv", &[], drop).unwrap().is_empty());
}

#[test]
fn packed_records_come_in_any_pieces() {
    // Enough for several blocks; the first bytes are those of a gzip file, and some are line feeds.
    let ids: Vec<i64> = (0..200_000).map(|id| 0x8b1f + id).collect();
    let record = |id: &i64| [&id.to_le_bytes()[..], b"a\n\0\0\0"].concat();
    let bytes: Vec<u8> = ids.iter().flat_map(record).collect();
    let whole = bytes.clone();
    let read = from_server("row", &[], move |mut s| whole.chunks(10_007).for_each(|part| s.write_all(part).unwrap()));
    assert_eq!(read.unwrap(), ids);
    assert!(from_server("row", &[], drop).unwrap().is_empty());

    let truncated = bytes[..13 * 1000 + 12].to_vec();
    let part = truncated.clone();
    let error = from_server("row", &[], move |mut s| s.write_all(&part).unwrap()).unwrap_err();
    assert_eq!(error.code, code::MALFORMED_RECORD);
    assert_eq!(error.message, "record 1001 is malformed: it ends after 12 of 13 bytes");
    assert!(matches!(error.place, Some(Place::Data { offset: Some(13_000), line: None, .. })), "{error}");
    let ignoring = [("row.ignore-parse-errors", "true")];
    let read = from_server("row", &ignoring, move |mut s| s.write_all(&truncated).unwrap()).unwrap();
    assert_eq!(read, ids[..1000]);
}

#[test]
fn records_are_handed_over_when_they_are_there() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut source = source(options(listener.local_addr().unwrap().port(), "json", &[])).unwrap();
    let (decoder, mut splits) = (source.decoder(), source.splits().unwrap());
    let split = &mut *splits[0];
    assert!(!split.wait().unwrap(), "it has connected");
    let mut peer = listener.accept().unwrap().0;
    assert!(!split.wait().unwrap(), "nothing was written");
    peer.write_all(b"{\"id\":1}\n{\"id\":").unwrap();
    assert_eq!(decoder.decode(split.next().unwrap().unwrap()).rows, 1);
    assert!(!split.wait().unwrap(), "half a record is none");
    peer.write_all(b"2}\n").unwrap();
    let decoded = decoder.decode(split.next().unwrap().unwrap());
    assert_eq!(decoded.columns[0].as_primitive::<Int64Type>().values(), &[2]);
    drop(peer);
    assert!(split.next().unwrap().is_none());
    assert!(split.wait().unwrap() && split.next().unwrap().is_none(), "an end stays one");
}

#[test]
fn a_server_waits_for_all_its_producers() {
    let port = free_port();
    let mut source = source(options(port, "csv", &[("mode", "server"), ("scan.connections", "3")])).unwrap();
    let decoder = source.decoder();
    let mut splits = source.splits().unwrap();
    assert_eq!(splits.iter().map(|s| s.name().to_string()).collect::<Vec<_>>()[2], format!("127.0.0.1:{port} #3"));
    assert!(!splits[0].wait().unwrap());
    for id in 0..3 {
        TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(format!("{id},x\n").as_bytes()).unwrap();
    }
    let mut all: Vec<i64> = splits.iter_mut().flat_map(|s| ids(&mut **s, &*decoder).unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2]);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody waits in vain");
}

#[test]
fn what_goes_wrong_is_told_with_its_place() {
    let refused = free_port();
    let mut nobody = source(options(refused, "json", &[("connect.timeout", "10 ms")])).unwrap();
    let error = nobody.splits().unwrap()[0].next().err().unwrap();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    assert!(error.to_string().contains(&format!("127.0.0.1:{refused}")), "{error}");

    let mut unknown = options(1, "json", &[("connect.timeout", "10 ms")]);
    unknown.set("hostname", "nowhere.invalid");
    let error = source(unknown).unwrap().splits().unwrap()[0].next().err().unwrap();
    assert_eq!((error.code, error.place), (code::CONNECTION_FAILED, Some(Place::Option("hostname".into()))));

    let server = [("mode", "server"), ("connect.timeout", "0 s")];
    let mut lonely = source(options(free_port(), "json", &server)).unwrap();
    assert_eq!(lonely.splits().unwrap()[0].next().err().unwrap().code, code::CONNECTION_FAILED);
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let error = source(options(taken.local_addr().unwrap().port(), "json", &server)).err().unwrap();
    assert_eq!(error.code, code::LISTEN_FAILED);

    let half = from_server("json", &[], |mut s| s.write_all(b"{\"id\":1}\n{\"id\":2,\"na").unwrap()).unwrap_err();
    assert_eq!(half.code, code::MALFORMED_RECORD);
    assert!(matches!(half.place, Some(Place::Data { line: Some(2), .. })), "{half}");
    let gzip = from_server("json", &[], |mut s| s.write_all(b"\x1f\x8b\x08\n").unwrap()).unwrap_err();
    assert_eq!(gzip.code, code::MALFORMED_FILE);
}

#[test]
fn options_are_checked() {
    let invalid = [
        ("port", "0"),
        ("port", "70000"),
        ("mode", "both"),
        ("scan.connections", "0"),
        ("connect.timeout", "soon"),
        ("format", "parquet"),
    ];
    for (key, value) in invalid {
        let mut options = options(1, "json", &[]);
        options.set(key, value);
        let error = source(options).err().unwrap_or_else(|| panic!("{key} = {value}"));
        assert_eq!((error.code, error.place), (code::INVALID_OPTION, Some(Place::Option(key.into()))), "{value}");
    }
    let mut none = options(1, "json", &[]);
    none.remove("port");
    assert_eq!(source(none).err().unwrap().code, code::MISSING_OPTION);
}

#[test]
fn a_sink_writes_to_its_peer() {
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringViewArray::from(vec!["a", "b"]))];
    let write = |options: Options| -> Result<(), Diagnostic> {
        let mut sink = open_sink(&SinkRequest {
            table: "t".into(),
            options,
            schema: schema(),
            metadata: vec![],
            primary_key: vec![],
            changes: None,
        })?;
        let piece = sink.encoder().encode(&columns, 2)?;
        sink.write(piece)?;
        sink.flush()?;
        sink.finish()
    };
    let received = |mut stream: TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let reader = thread::spawn(move || received(listener.accept().unwrap().0));
    write(options(port, "csv", &[("csv.header", "true")])).unwrap();
    assert_eq!(reader.join().unwrap(), "id,name\n1,a\n2,b\n");

    let port = free_port();
    let reader = thread::spawn(move || {
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return received(stream);
            }
            thread::yield_now();
        }
    });
    write(options(port, "json", &[("mode", "server")])).unwrap();
    assert_eq!(reader.join().unwrap(), "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n");

    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let gone = options(listener.local_addr().unwrap().port(), "csv", &[]);
    let mut sink = open_sink(&SinkRequest {
        table: "t".into(),
        options: gone,
        schema: schema(),
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    })
    .unwrap();
    drop(listener.accept().unwrap());
    let encoder = sink.encoder();
    let error = (0..1_000).find_map(|_| sink.write(encoder.encode(&columns, 2).unwrap()).err()).unwrap();
    assert_eq!(error.code, code::CONNECTION_LOST, "{error}");

    let refused = write(options(free_port(), "json", &[("connect.timeout", "0 s")])).unwrap_err();
    assert_eq!(refused.code, code::CONNECTION_FAILED);
    let slow = [("mode", "server"), ("connect.timeout", "0 s")];
    assert_eq!(write(options(free_port(), "json", &slow)).unwrap_err().code, code::CONNECTION_FAILED);
    assert_eq!(write(options(1, "parquet", &[])).unwrap_err().code, code::INVALID_OPTION);
}
