//! Streams as this and other programs write them, and what cannot be read.

use super::framer::ArrowFramer;
use crate::records::RecordCutter;
use crate::text_chunk::FileInfo;
use crate::{Chunk, ColumnRequest, Decoded, RequestOrigin, SinkRequest, SourceRequest, open_sink, open_source};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::*;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use millstream_types::{DataType, Diagnostic, Field, Options, Place, Schema, code};
use std::fs;
use std::sync::Arc;
use tempfile::TempDir;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::BigInt, true),
        Field::new("name", DataType::STRING, true),
        Field::new("kind", DataType::STRING, true),
        Field::new("absent", DataType::Int, true),
    ])
}

/// A batch whose columns have other types than the table's: INT32, Utf8, and a dictionary.
fn batch(ids: std::ops::Range<i32>) -> RecordBatch {
    let names = StringArray::from_iter_values(ids.clone().map(|id| format!("the name of row {id}")));
    let kinds: DictionaryArray<Int32Type> = ids.clone().map(|id| if id % 2 == 0 { "even" } else { "odd" }).collect();
    let other = BooleanArray::from_iter(ids.clone().map(|id| Some(id > 3)));
    RecordBatch::try_from_iter_with_nullable([
        ("other", Arc::new(other) as ArrayRef, true),
        ("kind", Arc::new(kinds), true),
        ("id", Arc::new(Int32Array::from_iter_values(ids)), true),
        ("name", Arc::new(names), true),
    ])
    .unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn options(path: &str) -> Options {
    let options = [("connector", "filesystem"), ("format", "arrow"), ("path", path)];
    options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn request(path: &str, nullable: bool) -> SourceRequest {
    let column = |(i, f): (usize, &Field)| ColumnRequest {
        name: f.name.clone(),
        origin: RequestOrigin::Path(vec![i]),
        data_type: f.data_type.clone(),
        nullable: nullable || i != 3,
    };
    let columns = schema().fields.iter().enumerate().map(column).collect();
    SourceRequest { table: "t".into(), options: options(path), schema: schema(), columns, ..SourceRequest::default() }
}

fn read_request(request: &SourceRequest) -> Result<Vec<Decoded>, Diagnostic> {
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

fn read(bytes: &[u8]) -> Result<Vec<Decoded>, Diagnostic> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.arrow");
    fs::write(&path, bytes).unwrap();
    read_request(&request(&path.to_string_lossy(), true))
}

fn ids(decoded: &[Decoded]) -> Vec<i64> {
    assert!(decoded.iter().all(|d| d.error.is_none()), "{decoded:?}");
    decoded.iter().flat_map(|d| d.columns[0].as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[test]
fn streams_and_files_are_read_by_name() {
    let batches = [batch(0..5), batch(5..6), batch(6..9)];
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    // A file has one dictionary of a column for all its batches.
    batches[..1].iter().for_each(|batch| writer.write(batch).unwrap());
    assert_eq!(ids(&read(&writer.into_inner().unwrap()).unwrap()), [0, 1, 2, 3, 4]);
    let mut twice = stream(&batches);
    twice.extend(stream(&batches));
    let decoded = read(&twice).unwrap();
    assert_eq!(ids(&decoded), (0..9).chain(0..9).collect::<Vec<_>>());
    let first = &decoded[0];
    assert_eq!(first.columns[1].as_string_view().value(8), "the name of row 8");
    let kinds: Vec<_> = first.columns[2].as_string_view().iter().flatten().take(4).collect();
    assert_eq!(kinds, ["even", "odd", "even", "odd"]);
    assert_eq!(first.columns[3].null_count(), first.rows);
}

#[test]
fn bytes_may_come_in_any_pieces() {
    let bytes = stream(&[batch(0..5), batch(5..90)]);
    let source = request("-", true);
    let decoder = super::decode::ArrowDecoder::new(&source).unwrap();
    for step in [1, 7, 64, 1000] {
        let mut cutter = RecordCutter::new(Box::new(ArrowFramer::new(Arc::new(FileInfo::default()))));
        let mut decoded = Vec::new();
        let mut take = |chunk: Option<Chunk>| {
            decoded.extend(chunk.map(|chunk| crate::format::StreamDecoder::decode(&decoder, chunk).0))
        };
        for piece in bytes.chunks(step) {
            cutter.room()[..piece.len()].copy_from_slice(piece);
            cutter.advance(piece.len());
            take(cutter.cut().unwrap());
        }
        take(cutter.finish().unwrap());
        assert_eq!(ids(&decoded), (0..90).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_written_is_read_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.arrows").to_string_lossy().into_owned();
    let mut sink = open_sink(&SinkRequest {
        table: "t".into(),
        options: options(&path),
        schema: schema(),
        metadata: vec![],
        primary_key: vec![],
        changes: None,
    })
    .unwrap();
    let encoder = sink.encoder();
    let names = StringViewArray::from_iter_values((0..1000).map(|i| format!("quite a long name of row {i}")));
    for from in [10, 20] {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(from..from + 2)),
            Arc::new(names.slice(from as usize, 2)),
            new_null_array(&DataType::STRING.to_arrow(), 2),
            Arc::new(Int32Array::from(vec![None, Some(7)])),
        ];
        sink.write(encoder.encode(&columns, 2).unwrap()).unwrap();
    }
    sink.finish().unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 4_000, "only what the views show is written");
    let decoded = read_request(&request(&path, true)).unwrap();
    assert_eq!(ids(&decoded), [10, 11, 20, 21]);
    assert_eq!(decoded[0].columns[1].as_string_view().value(3), "quite a long name of row 21");
    assert_eq!(
        decoded[0].columns[3].as_primitive::<Int32Type>().iter().collect::<Vec<_>>(),
        [None, Some(7), None, Some(7)]
    );
    let nulls = &read_request(&request(&path, false)).unwrap()[0];
    assert_eq!((nulls.rows, nulls.error.as_ref().unwrap().code), (0, code::NULL_IN_NOT_NULL));
}

#[test]
fn chunks_are_cut_for_a_limited_rate() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.arrows").to_string_lossy().into_owned();
    fs::write(&path, stream(&[batch(0..5), batch(5..6)])).unwrap();
    let request = request(&path, true);
    let mut source = open_source(&request).unwrap();
    let decoder = source.decoder();
    let mut whole = source.splits().unwrap()[0].next().unwrap().unwrap();
    let mut parts = Vec::new();
    while let Some((part, rows)) = crate::format::Format::split_front(&mut whole, 2) {
        let decoded = decoder.decode(part);
        assert_eq!(decoded.rows as u64, rows);
        parts.push(decoded);
    }
    assert_eq!(parts.iter().map(|p| p.rows).collect::<Vec<_>>(), [2, 2, 1, 1]);
    assert_eq!(ids(&parts), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn damage_is_an_error_with_its_place() {
    let good = stream(&[batch(0..5), batch(5..9)]);
    let error = read(&good[..good.len() - 100]).unwrap_err();
    assert_eq!(error.code, code::MALFORMED_FILE);
    assert!(error.to_string().contains("in the middle of a message"), "{error}");
    let text = read(b"{\"id\":1}\n").unwrap_err();
    assert!(matches!(&text.place, Some(Place::Data { offset: Some(0), .. })), "{text}");

    let mut other = good.clone();
    let names = RecordBatch::try_from_iter([("id", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)]).unwrap();
    other.extend(stream(std::slice::from_ref(&names)));
    let changed = read(&other).unwrap_err();
    assert!(changed.message.contains("the schema changes"), "{changed}");
    let wrong = read(&stream(&[names])).unwrap().remove(0).error.unwrap();
    assert_eq!(wrong.code, code::WRONG_TYPE, "{wrong}");

    let mut seed = 3u64;
    for _ in 0..2_000 {
        let mut bad = good.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bad.len();
            bad[at] = (seed >> 20) as u8;
        }
        // Damage may also go unnoticed; it must only be survived.
        if let Ok(decoded) = read(&bad) {
            decoded.iter().for_each(|d| assert!(d.columns.iter().all(|c| c.len() == d.rows)));
        }
    }
}

#[test]
fn impossible_lengths_are_errors_also_where_no_column_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.arrow");
    let rows = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let mut request = request(path.to_str().unwrap(), true);
        request.columns.clear();
        read_request(&request).map(|parts| parts.iter().map(|part| part.rows).sum::<usize>())
    };
    let good = stream(&[batch(0..9)]);
    assert_eq!(rows(&good).unwrap(), 9);
    let mut refused = 0;
    for at in 0..good.len() - 8 {
        if good[at..at + 8] != 9i64.to_le_bytes() {
            continue;
        }
        let mut bad = good.clone();
        bad[at..at + 8].copy_from_slice(&(1i64 << 47).to_le_bytes());
        match rows(&bad) {
            Ok(rows) => assert_eq!(rows, 9, "length at {at}"),
            Err(error) => {
                assert_eq!(error.code, code::MALFORMED_FILE, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "no length was found");
}
