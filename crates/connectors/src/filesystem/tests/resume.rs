//! Splits are read again from the position of every chunk: exactly the rows behind it come.

use super::{columns, path, sink_request, source_request};
use crate::{Chunk, Position, SourceRequest, open_sink, open_source};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, StringArray};
use millstream_types::code;
use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use tempfile::TempDir;

/// The rows of the chunks of the only split from a position on, with the place behind each chunk.
fn chunks(request: &SourceRequest, from: Option<Position>) -> Vec<(Vec<i64>, Position)> {
    let mut source = open_source(request).unwrap();
    assert!(source.is_replayable());
    let decoder = source.decoder();
    let mut split = source.splits().unwrap().remove(0);
    if from.is_some() {
        split.resume(from).unwrap();
    }
    let mut chunks = Vec::new();
    while let Some(chunk) = split.next().unwrap() {
        let Chunk { after, .. } = &chunk;
        let after = after.unwrap();
        let decoded = decoder.decode(chunk);
        assert!(decoded.error.is_none(), "{:?}", decoded.error);
        let ids = decoded.columns[0].as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(ids.len(), decoded.rows);
        chunks.push((ids, after));
    }
    chunks
}

fn rows(chunks: &[(Vec<i64>, Position)]) -> Vec<i64> {
    chunks.iter().flat_map(|(ids, _)| ids.iter().copied()).collect()
}

/// Every position of a file, also those of parts of chunks, with `count` rows 0, 1, 2….
fn check(file: &str, format: &str, extra: &[(&str, &str)], count: i64) {
    let whole = source_request(file, format, extra);
    // Some eight parts.
    let rate = (count * 20 / 8).to_string();
    let mut paced = extra.to_vec();
    paced.push(("scan.rate-limit.rows-per-second", &rate));
    let paced = source_request(file, format, &paced);
    let all: Vec<i64> = (0..count).collect();
    let (chunks_of_whole, parts) = (chunks(&whole, None), chunks(&paced, None));
    assert!(chunks_of_whole.len() > 1, "{file} has one chunk");
    assert!(parts.len() > chunks_of_whole.len() || parts.len() > 4, "{file}: {} parts", parts.len());
    for read in [&chunks_of_whole, &parts] {
        assert_eq!(rows(read), all, "{file}");
        let mut before = 0;
        for (ids, after) in read {
            before += ids.len();
            assert!(after.at < 1 << 62 && after.line < 1 << 62, "no checkpoint has {after:?}");
            let rest = chunks(&whole, Some(*after));
            assert_eq!(rows(&rest), all[before..], "{file} behind {after:?}");
            // Positions do not depend on where reading began.
            let last = rest.last().map(|(_, position)| *position);
            assert!(last.is_none_or(|last| last == read.last().unwrap().1), "{file} behind {after:?}: {last:?}");
        }
    }
    // A reader with a limited rate that was resumed itself.
    let (ids, after) = &parts[parts.len() / 2];
    assert_eq!(rows(&chunks(&paced, Some(*after))), all[(ids.last().unwrap() + 1) as usize..], "{file}, paced");
}

/// Writes a file of the rows from one number to another.
pub(super) fn parquet(file: &str, from: i64, to: i64) {
    let mut sink = open_sink(&sink_request(file, "parquet", &[("sink.overwrite", "true")])).unwrap();
    let piece = sink.encoder().encode(&columns(from, to - from), (to - from) as usize).unwrap();
    sink.write(piece).unwrap();
    sink.finish().unwrap();
}

fn text(line: impl Fn(i64) -> String, count: i64) -> String {
    (0..count).map(line).collect()
}

#[test]
fn lines_plain_and_compressed() {
    let directory = TempDir::new().unwrap();
    let line = |id: i64| format!("{{\"id\":{id},\"name\":\"{}\"}}\n", "é".repeat((id % 70) as usize));
    let text = format!("\u{feff}{}", text(line, 40_000).trim_end());
    let file = path(&directory, "a.json");
    fs::write(&file, &text).unwrap();
    check(&file, "json", &[], 40_000);
    let gzip = path(&directory, "a.json.gz");
    let mut members = Vec::new();
    for part in [&text.as_bytes()[..700_001], &text.as_bytes()[700_001..]] {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        members.extend(encoder.finish().unwrap());
    }
    fs::write(&gzip, members).unwrap();
    check(&gzip, "json", &[], 40_000);
    let zstd = path(&directory, "a.json.zst");
    fs::write(&zstd, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    check(&zstd, "json", &[], 40_000);
}

#[test]
fn json_in_an_array_or_over_several_lines() {
    let directory = TempDir::new().unwrap();
    let object =
        |id: i64| format!("{{\n  \"id\": {id},\n  \"name\": \"}}],{{\\\"{}\"\n}}", "é".repeat((id % 70) as usize));
    let array = format!("[{}]\n", (0..30_000).map(object).collect::<Vec<_>>().join(",\n"));
    let compact = array.replace('\n', "");
    for (name, text) in [("array.json", &array), ("compact.json", &compact)] {
        let file = path(&directory, name);
        fs::write(&file, text).unwrap();
        check(&file, "json", &[], 30_000);
    }
    // Objects one after the other, some of them on one line.
    let mixed = |id: i64| if id % 3 == 2 { object(id).replace('\n', "") + "\n" } else { object(id) + "\n" };
    let file = path(&directory, "pretty.json.zst");
    fs::write(&file, zstd::encode_all(format!("\u{feff}{}", text(mixed, 30_000)).as_bytes(), 1).unwrap()).unwrap();
    check(&file, "json", &[], 30_000);
}

#[test]
fn csv_with_a_header_comments_and_quoted_line_feeds() {
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.csv");
    let line = |id: i64| {
        let comment = if id % 9 == 0 { "# \"no row\n" } else { "" };
        format!("{comment}{id},\"line\n\"\"{}\"\"\n\"\n", "x".repeat((id % 70) as usize))
    };
    fs::write(&file, format!("id,\"na\nme\"\n{}", text(line, 40_000))).unwrap();
    check(&file, "csv", &[("csv.header", "true"), ("csv.allow-comments", "true")], 40_000);
    // What a message says of a place does not depend on where reading began either.
    let broken = format!("id,name\n{}x,\"oh\"\n", text(|id| format!("{id},\"{}\n\"\n", "y".repeat(60)), 40_000));
    fs::write(&file, broken).unwrap();
    let request = source_request(&file, "csv", &[("csv.header", "true")]);
    let places = [false, true].map(|resumed| {
        let mut source = open_source(&request).unwrap();
        let mut split = source.splits().unwrap().remove(0);
        if resumed {
            let first = open_source(&request).unwrap().splits().unwrap().remove(0).next().unwrap().unwrap();
            split.resume(first.after).unwrap();
        }
        let chunks = std::iter::from_fn(|| split.next().unwrap());
        let errors: Vec<_> = chunks.filter_map(|chunk| source.decoder().decode(chunk).error).collect();
        errors[0].place.clone().unwrap()
    });
    assert_eq!(places[0], places[1]);
    assert!(places[0].to_string().contains("line 80002"), "{}", places[0]);
}

#[test]
fn files_of_the_sink_in_every_format() {
    let directory = TempDir::new().unwrap();
    let rows = 60_000;
    for (name, format, extra) in [
        ("a.parquet", "parquet", ("parquet.block.size", "64kb")),
        ("a.arrows", "arrow", ("sink.rolling-policy.file-size", "1gb")),
        ("a.arrows.zst", "arrow", ("sink.rolling-policy.file-size", "1gb")),
        ("a.avro", "avro", ("avro.codec", "null")),
        ("a.avro.gz", "avro", ("avro.codec", "null")),
    ] {
        let file = path(&directory, name);
        let mut sink = open_sink(&sink_request(&file, format, &[extra])).unwrap();
        let encoder = sink.encoder();
        for piece in 0..rows / 1000 {
            sink.write(encoder.encode(&columns(piece * 1000, 1000), 1000).unwrap()).unwrap();
        }
        sink.finish().unwrap();
        check(&file, format, &[], rows);
    }
    let file = path(&directory, "a.arrow");
    let batch = |from: i64| {
        let mut columns = columns(from, 1000);
        columns[1] = Arc::new(StringArray::from_iter_values((0..1000).map(|id| format!("{id:>90}"))));
        RecordBatch::try_from_iter(["id", "name"].into_iter().zip(columns)).unwrap()
    };
    let mut writer = arrow_ipc::writer::FileWriter::try_new(File::create(&file).unwrap(), &batch(0).schema()).unwrap();
    for piece in 0..rows / 1000 {
        writer.write(&batch(piece * 1000)).unwrap();
    }
    writer.finish().unwrap();
    check(&file, "arrow", &[], rows);
}

#[test]
fn packed_records() {
    use crate::ColumnRequest;
    use millstream_types::{DataType, Field, Schema};
    let directory = TempDir::new().unwrap();
    let file = path(&directory, "a.bin");
    let mut data = Vec::new();
    for id in 0..200_000i64 {
        data.extend(id.to_le_bytes());
        data.extend(b"some name\0\0\0");
    }
    fs::write(&file, data).unwrap();
    let mut request = source_request(&file, "row", &[]);
    request.schema =
        Schema::new(vec![Field::new("id", DataType::BigInt, false), Field::new("name", DataType::Varchar(12), false)]);
    let required = |column: ColumnRequest| ColumnRequest { nullable: false, ..column };
    request.columns = request.columns.into_iter().map(required).collect();
    request.columns[1].data_type = DataType::Varchar(12);
    let all = chunks(&request, None);
    assert!(all.len() > 2);
    let mut before = 0;
    for (ids, after) in &all {
        before += ids.len() as i64;
        assert_eq!(rows(&chunks(&request, Some(*after))), (before..200_000).collect::<Vec<_>>());
    }
}

#[test]
fn files_that_have_become_shorter_are_refused() {
    let directory = TempDir::new().unwrap();
    for (name, format) in [
        ("a.json", "json"),
        ("a.json.gz", "json"),
        ("a.json.zst", "json"),
        ("a.parquet", "parquet"),
        ("a.arrows", "arrow"),
        ("a.avro", "avro"),
    ] {
        let file = path(&directory, name);
        let mut sink = open_sink(&sink_request(&file, format, &[])).unwrap();
        let piece = sink.encoder().encode(&columns(0, 10), 10).unwrap();
        sink.write(piece).unwrap();
        sink.finish().unwrap();
        let request = source_request(&file, format, &[]);
        let mut split = open_source(&request).unwrap().splits().unwrap().remove(0);
        split.resume(Some(Position { at: 1_000_000, line: 7 })).unwrap();
        let error = split.next().err().unwrap();
        assert_eq!(error.code, code::INPUT_CHANGED, "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}
