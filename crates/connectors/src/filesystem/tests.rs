//! Sources and sinks over real files in temporary directories.

mod arriving;
mod resume;
mod spans;

use super::discover::discover;
use crate::{Chunk, ColumnRequest, Decoded, Encoded, Framing, RequestOrigin, SinkRequest, SourceRequest, TextChunk};
use crate::{open_sink, open_source};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream_types::{DataType, Diagnostic, Field, Options, Place, Schema, code};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::BigInt, true), Field::new("name", DataType::STRING, true)])
}

fn options(path: &str, format: &str, extra: &[(&str, &str)]) -> Options {
    let base = [("connector", "filesystem"), ("path", path), ("format", format)];
    base.iter().chain(extra).map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn source_request(path: &str, format: &str, extra: &[(&str, &str)]) -> SourceRequest {
    let column = |(i, f): (usize, &Field)| ColumnRequest {
        name: f.name.clone(),
        origin: RequestOrigin::Path(vec![i]),
        data_type: f.data_type.clone(),
        nullable: true,
    };
    let columns = schema().fields.iter().enumerate().map(column).collect();
    SourceRequest {
        table: "t".into(),
        options: options(path, format, extra),
        schema: schema(),
        columns,
        ..SourceRequest::default()
    }
}

/// All chunks of all splits, decoded.
fn read_all(request: &SourceRequest) -> Result<Vec<Decoded>, Diagnostic> {
    let mut source = open_source(request)?;
    let decoder = source.decoder();
    let mut all = Vec::new();
    for mut split in source.splits()? {
        while let Some(chunk) = split.next()? {
            all.push(decoder.decode(chunk));
        }
    }
    Ok(all)
}

fn ids(request: &SourceRequest) -> Vec<i64> {
    let decoded = read_all(request).unwrap();
    assert!(decoded.iter().all(|d| d.error.is_none()), "{decoded:?}");
    decoded.iter().flat_map(|d| d.columns[0].as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn lines(from: i64, count: i64) -> String {
    (from..from + count)
        .map(|id| format!("{{\"id\":{id},\"name\":\"{}\"}}\n", "x".repeat((id % 90) as usize)))
        .collect()
}

fn path(directory: &TempDir, name: &str) -> String {
    directory.path().join(name).to_string_lossy().into_owned()
}

#[test]
fn a_record_that_memory_does_not_suffice_for_is_refused_before_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = path(&directory, "long.jsonl");
    let long = format!("{{\"id\":3,\"name\":\"{}\"}}\n", "y".repeat(3 << 20));
    fs::write(&path, lines(0, 2) + &long + &lines(9, 1)).unwrap();
    for (most, expected) in
        [(8 << 20, None), (2 << 20, Some("a record is longer than 2.0 MiB, a quarter of the memory budget"))]
    {
        let mut split = open_source(&source_request(&path, "json", &[])).unwrap().splits().unwrap().pop().unwrap();
        split.limit_records(most);
        let error = loop {
            match split.next() {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        assert_eq!(error.as_ref().map(|e| (e.code, e.message.as_str())), expected.map(|m| (code::OUT_OF_MEMORY, m)));
        let line = error.and_then(|e| e.place).map(|place| place.to_string());
        assert!(line.is_none_or(|place| place.contains("line 3")));
    }
}

#[test]
fn chunks_have_the_size_that_is_asked_for() {
    let directory = TempDir::new().unwrap();
    let path = path(&directory, "a.json");
    let long = format!("{{\"id\":3,\"name\":\"{}\"}}\n", "y".repeat(300_000));
    let text = lines(0, 1000) + &long + &lines(1000, 20_000);
    fs::write(&path, &text).unwrap();
    let mut split = open_source(&source_request(&path, "json", &[])).unwrap().splits().unwrap().pop().unwrap();
    let (mut sizes, mut number) = (Vec::new(), 0);
    loop {
        split.aim(if number < 60 { 8 << 10 } else { usize::MAX });
        let Some(chunk) = split.next().unwrap() else { break };
        sizes.push(chunk.bytes as usize);
        number += 1;
    }
    assert_eq!(sizes.iter().sum::<usize>(), text.len());
    let (small, large) = sizes.split_at(60);
    assert!(small.iter().filter(|&&size| size > 16 << 10).count() <= 1, "only the long record: {small:?}");
    assert!(large.iter().any(|&size| size > 500_000), "{large:?}");
}

#[test]
fn large_files_come_in_chunks_of_whole_lines() {
    let directory = TempDir::new().unwrap();
    let plain = path(&directory, "a.json");
    let text = lines(0, 60_000);
    fs::write(&plain, &text).unwrap();
    let gzip = path(&directory, "b.json.gz");
    let mut encoder = flate2::write::GzEncoder::new(File::create(&gzip).unwrap(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
    let zstd = path(&directory, "c.json.zst");
    fs::write(&zstd, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let expected: Vec<i64> = (0..60_000).collect();
    for file in [&plain, &gzip, &zstd, &format!("file://{plain}")] {
        let request = source_request(file, "json", &[]);
        assert!(read_all(&request).unwrap().len() > 2, "{file}");
        assert_eq!(ids(&request), expected, "{file}");
    }
    let request = source_request(&directory.path().to_string_lossy(), "json", &[]);
    assert_eq!(ids(&request).len(), 180_000);
}

#[test]
fn places_count_over_chunks() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.json");
    let good = lines(0, 40_000);
    fs::write(&file, format!("\u{feff}{good}{{\"id\":tru}}\n{}", lines(0, 10))).unwrap();
    let decoded = read_all(&source_request(&file, "json", &[])).unwrap();
    let error = decoded.iter().find_map(|d| d.error.clone()).unwrap();
    let (offset, column) = (Some(3 + good.len() as u64), Some("id".into()));
    let place = Place::Data { resource: file.clone(), offset, line: Some(40_001), column };
    assert_eq!((error.code, error.place), (code::MALFORMED_RECORD, Some(place)));
    let skipping = source_request(&file, "json", &[("json.ignore-parse-errors", "true")]);
    assert_eq!(ids(&skipping).len(), 40_010);
}

#[test]
fn odd_files_are_fine() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.json");
    for (text, rows) in
        [("", 0), ("\n\n", 0), ("\u{feff}", 0), ("{\"id\":1}", 1), ("\u{feff}{\"id\":1}\r\n{\"id\":2}\r\n", 2)]
    {
        fs::write(&file, text).unwrap();
        assert_eq!(ids(&source_request(&file, "json", &[])).len(), rows, "{text:?}");
    }
    let long = format!("{{\"id\":1,\"name\":\"{}\"}}\n{{\"id\":2}}", "y".repeat(3 << 20));
    fs::write(&file, long).unwrap();
    assert_eq!(ids(&source_request(&file, "json", &[])), [1, 2]);
    let empty = TempDir::new().unwrap();
    let mut source = open_source(&source_request(&empty.path().to_string_lossy(), "json", &[])).unwrap();
    assert!(source.splits().unwrap().is_empty());
}

#[test]
fn quoted_line_feeds_are_not_cut_and_headers_are_skipped() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.csv");
    let mut text = String::from("\u{feff}id,\"na\nme\"\n");
    for id in 0..40_000 {
        text.push_str(&format!("{id},\"line\n\"\"{}\"\"\n\"\n", "x".repeat(id % 70)));
    }
    fs::write(&file, text).unwrap();
    let request = source_request(&file, "csv", &[("csv.header", "true")]);
    assert!(read_all(&request).unwrap().len() > 1);
    assert_eq!(ids(&request), (0..40_000).collect::<Vec<_>>());
}

#[test]
fn paths_mean_files_directories_and_globs() {
    let directory = TempDir::new().unwrap();
    for name in ["b.json", "a.json", ".hidden", "_SUCCESS", "sub/c.json", "sub/.x/d.json", "other.csv"] {
        let file = directory.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "{\"id\":1}").unwrap();
    }
    let found = |pattern: &str| -> Vec<String> {
        let files = discover(&path(&directory, pattern)).unwrap();
        files.iter().map(|f| f.info.path[directory.path().to_string_lossy().len() + 1..].to_string()).collect()
    };
    assert_eq!(found("a.json"), ["a.json"]);
    assert_eq!(found(""), ["a.json", "b.json", "other.csv", "sub/c.json"]);
    assert_eq!(found("*.json"), ["a.json", "b.json"]);
    assert_eq!(found("**/*.json"), ["a.json", "b.json", "sub/c.json"]);
    assert_eq!(found("s*"), ["sub/c.json"]);
    for missing in ["none.json", "*.parquet", "none/"] {
        let error = discover(&path(&directory, missing)).unwrap_err();
        assert_eq!((error.code, error.place), (code::FILE_NOT_FOUND, Some(Place::Option("path".into()))), "{missing}");
    }
    assert_eq!(discover("s3://bucket/x").unwrap_err().code, code::UNSUPPORTED);
}

#[test]
fn truncated_and_damaged_archives_are_named() {
    let directory = TempDir::new().unwrap();
    let text = lines(0, 60_000);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let gzip = encoder.finish().unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, data) in [
        ("a.gz", &gzip[..gzip.len() / 2]),
        ("a.zst", &zstd[..zstd.len() / 2]),
        ("b.gz", b"{}"),
        ("b.zst", b"{\"id\":1}\n"),
    ] {
        let file = path(&directory, name);
        fs::write(&file, data).unwrap();
        let error = read_all(&source_request(&file, "json", &[])).unwrap_err();
        assert_eq!(error.code, code::MALFORMED_FILE, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn what_is_not_text_is_recognised() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.json");
    for (data, kind) in [(b"\x1f\x8b\x08".as_slice(), "gzip"), (b"PAR1\x00", "Parquet"), (b"\xff\xfe{\0", "UTF-16")] {
        fs::write(&file, data).unwrap();
        let error = read_all(&source_request(&file, "json", &[])).unwrap_err();
        assert_eq!(error.code, code::MALFORMED_FILE);
        assert!(error.message.contains(kind), "{error}");
    }
}

#[test]
fn metadata_columns_tell_the_file() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.json");
    fs::write(&file, "{\"id\":7}\n{\"id\":8}\n").unwrap();
    let mut request = source_request(&file, "json", &[]);
    let metadata = |key: &str, data_type| ColumnRequest {
        name: key.into(),
        origin: RequestOrigin::Metadata(key.into()),
        data_type,
        nullable: false,
    };
    request.columns.insert(0, metadata("file.name", DataType::STRING));
    request.columns.push(metadata("file.size", DataType::Int));
    request.columns.push(metadata("file.modification-time", DataType::TimestampLtz(3)));
    let decoded = read_all(&request).unwrap().remove(0);
    assert_eq!(decoded.columns.len(), 5);
    assert_eq!(decoded.columns[0].as_string_view().value(1), "a.json");
    assert_eq!(decoded.columns[1].as_primitive::<Int64Type>().values(), &[7, 8]);
    assert_eq!(decoded.columns[3].as_primitive::<arrow_array::types::Int32Type>().value(0), 18);
    assert!(decoded.columns[4].as_primitive::<TimestampMillisecondType>().value(0) > 1_600_000_000_000);
    request.columns[0] = metadata("file.owner", DataType::STRING);
    assert_eq!(open_source(&request).err().unwrap().code, code::INVALID_TABLE);
}

#[test]
fn a_limited_rate_hands_out_small_parts() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.csv");
    let text: String = (0..100).map(|id| format!("{id},\"two\nlines\"\n")).collect();
    fs::write(&file, text).unwrap();
    let request = source_request(&file, "csv", &[("scan.rate-limit.rows-per-second", "2000")]);
    // A hundred rows, in parts of a twentieth of a second each.
    assert_eq!(read_all(&request).unwrap().len(), 1);
    let request = source_request(&file, "csv", &[("scan.rate-limit.rows-per-second", "800")]);
    let parts = read_all(&request).unwrap();
    assert_eq!(parts.iter().map(|d| d.rows).collect::<Vec<_>>(), [40, 40, 20]);
    assert_eq!(ids(&request), (0..100).collect::<Vec<_>>());
}

#[test]
fn parts_of_chunks_know_their_place() {
    let data = b"{\"id\":1}\n{\"id\":2}\n{\"id\":3}".as_slice();
    let chunk =
        TextChunk { data: data.into(), offset: 100, line: 5, file: Arc::default(), framing: Framing::default() };
    let mut rest = Chunk { payload: Box::new(chunk), bytes: 26, after: None };
    let (front, rows) = crate::format::Format::split_front(&mut rest, 2).unwrap();
    assert_eq!((rows, front.bytes, rest.bytes), (2, 18, 8));
    let (last, rows) = crate::format::Format::split_front(&mut rest, 2).unwrap();
    let last = last.payload.downcast::<TextChunk>().unwrap();
    assert_eq!((rows, last.offset, last.line, last.data.as_slice()), (1, 118, 7, b"{\"id\":3}".as_slice()));
    assert!(crate::format::Format::split_front(&mut rest, 2).is_none());
}

fn sink_request(path: &str, format: &str, extra: &[(&str, &str)]) -> SinkRequest {
    SinkRequest {
        table: "out".into(),
        options: options(path, format, extra),
        schema: schema(),
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    }
}

fn columns(from: i64, count: i64) -> Vec<ArrayRef> {
    let names =
        StringViewArray::from_iter_values((from..from + count).map(|id| format!("name number {id} of the rows")));
    vec![Arc::new(Int64Array::from_iter_values(from..from + count)), Arc::new(names)]
}

fn write_all(request: &SinkRequest, pieces: i64) -> Result<(), Diagnostic> {
    let mut sink = open_sink(request)?;
    let encoder = sink.encoder();
    for piece in 0..pieces {
        sink.write(encoder.encode(&columns(piece * 100, 100), 100)?)?;
    }
    sink.finish()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_single_file_appears_whole_or_not_at_all() {
    let directory = TempDir::new().unwrap();
    for (name, format) in
        [("a.json", "json"), ("b.csv", "csv"), ("c.json.gz", "json"), ("d.csv.zst", "csv"), ("e.parquet", "parquet")]
    {
        let file = path(&directory, name);
        fs::write(&file, "old").unwrap();
        write_all(&sink_request(&file, format, &[]), 3).unwrap();
        assert_eq!(ids(&source_request(&file, format, &[])), (0..300).collect::<Vec<_>>(), "{name}");
        // An aborted query leaves the old file and nothing else.
        let before = fs::read(&file).unwrap();
        let mut sink = open_sink(&sink_request(&file, format, &[])).unwrap();
        let piece = sink.encoder().encode(&columns(0, 10), 10).unwrap();
        sink.write(piece).unwrap();
        sink.flush().unwrap();
        drop(sink);
        assert_eq!(fs::read(&file).unwrap(), before, "{name}");
    }
    assert_eq!(names(directory.path()), ["a.json", "b.csv", "c.json.gz", "d.csv.zst", "e.parquet"]);
}

#[test]
fn parents_are_made_and_no_rows_make_an_empty_file() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "new/deeper/out.csv");
    write_all(&sink_request(&file, "csv", &[("csv.header", "true")]), 0).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "id,name\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
        fs::write(directory.path().join("plain"), "").unwrap();
        assert_eq!(mode, fs::metadata(directory.path().join("plain")).unwrap().permissions().mode());
    }
}

#[test]
fn a_directory_gets_parts_of_limited_size() {
    let directory = TempDir::new().unwrap();
    let target = path(&directory, "out");
    for format in ["json", "parquet"] {
        let request = sink_request(&target, format, &[("sink.rolling-policy.file-size", "4kb")]);
        fs::remove_dir_all(&target).ok();
        write_all(&request, 5).unwrap();
        let first = names(Path::new(&target)).len();
        assert!(first > 1, "{format}: {first} parts");
        // A second run adds files and keeps those that are there.
        write_all(&request, 5).unwrap();
        assert_eq!(names(Path::new(&target)).len(), 2 * first);
        assert!(names(Path::new(&target)).iter().all(|n| n.starts_with("part-") && n.ends_with(format)));
        let mut read = ids(&source_request(&target, format, &[]));
        read.sort_unstable();
        assert_eq!(read, (0..500).flat_map(|id| [id, id]).collect::<Vec<_>>());
    }
    let mut sink = open_sink(&sink_request(&target, "json", &[])).unwrap();
    let before = names(Path::new(&target)).len();
    sink.write(Encoded::Bytes { data: b"{}\n".to_vec(), rows: 1 }).unwrap();
    drop(sink);
    assert_eq!(names(Path::new(&target)).len(), before);
}

#[test]
fn unwritable_targets_say_why() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let error = write_all(&sink_request(&path(&directory, "file/below.json"), "json", &[]), 1).unwrap_err();
    assert_eq!(error.code, code::WRITE_FAILED, "{error}");
    assert!(error.to_string().contains("file/below.json"), "{error}");
    if Path::new("/dev/full").exists() {
        let error = write_all(&sink_request("/dev/full", "csv", &[]), 100).unwrap_err();
        assert_eq!(error.code, code::WRITE_FAILED);
        assert!(error.advice.unwrap().contains("free some space"));
        write_all(&sink_request("/dev/null", "json", &[]), 1).unwrap();
    }
}
