//! Container files as this program writes them, whole and damaged, and such as nobody should write.

use super::codec::{Codec, bounded};
use super::framer::AvroFramer;
use super::{output, stream};
use crate::avro::encode::{bytes, long};
use crate::format::Format;
use crate::random::Random;
use crate::records::{Framer, RecordCutter};
use crate::text_chunk::FileInfo;
use crate::{ColumnRequest, Decoded, Position, RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream_types::{DataType, Diagnostic, Field, Options, Schema, code};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const CODECS: [&str; 4] = ["null", "deflate", "snappy", "zstandard"];
const MARKER: &[u8; 16] = b"0123456789abcdef";

fn schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::BigInt, true), Field::new("name", DataType::STRING, true)])
}

fn options(extra: &[(&str, &str)]) -> Options {
    extra.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn request(schema: Schema) -> SourceRequest {
    let column = |(at, field): (usize, &Field)| ColumnRequest {
        name: field.name.clone(),
        origin: RequestOrigin::Path(vec![at]),
        data_type: field.data_type.clone(),
        nullable: field.nullable,
    };
    let columns = schema.fields.iter().enumerate().map(column).collect();
    SourceRequest { table: "t".into(), options: options(&[]), schema, columns, ..SourceRequest::default() }
}

/// A file of a sink with the rows 0, 1, 2….
fn written(codec: &str, pieces: i64, rows: i64) -> Vec<u8> {
    let options = options(&[("avro.codec", codec)]);
    let (metadata, primary_key) = (Vec::new(), Vec::new());
    let request = SinkRequest { table: "t".into(), options, schema: schema(), metadata, primary_key, changes: None };
    let output = output(&request).unwrap();
    let mut file = output.header;
    for piece in 0..pieces {
        let ids = piece * rows..(piece + 1) * rows;
        let names = StringViewArray::from_iter_values(ids.clone().map(|id| format!("the name of row {id}")));
        let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from_iter_values(ids)), Arc::new(names)];
        file.extend(output.encoder.encode(&columns, rows as usize).unwrap().into_bytes().unwrap());
    }
    file
}

/// A file with this schema and blocks of a number of records, not compressed.
fn file(schema: &str, codec: &str, blocks: &[(i64, &[u8])]) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    long(3, &mut out);
    for (key, value) in [("avro.codec", codec), ("other", "x"), ("avro.schema", schema)] {
        bytes(key.as_bytes(), &mut out);
        bytes(value.as_bytes(), &mut out);
    }
    long(0, &mut out);
    out.extend(MARKER);
    for (count, block) in blocks {
        long(*count, &mut out);
        bytes(block, &mut out);
        out.extend(MARKER);
    }
    out
}

const ID: &str = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}"#;

/// What is decoded of a file that comes in pieces of some bytes, up to the first error.
fn read_as(request: &SourceRequest, file: &[u8], piece: usize) -> (Vec<Decoded>, Option<Diagnostic>) {
    let info = Arc::new(FileInfo { path: "a.avro".into(), ..FileInfo::default() });
    read_with(Box::new(AvroFramer::new(info)), request, file, piece)
}

fn read_with(
    framer: Box<AvroFramer>,
    request: &SourceRequest,
    file: &[u8],
    piece: usize,
) -> (Vec<Decoded>, Option<Diagnostic>) {
    let records = stream(request).unwrap();
    let mut cutter = RecordCutter::new(framer);
    let (mut all, mut rest) = (Vec::new(), file);
    loop {
        let count = cutter.room().len().min(piece).min(rest.len());
        cutter.room()[..count].copy_from_slice(&rest[..count]);
        cutter.advance(count);
        rest = &rest[count..];
        let is_last = count == 0;
        match if is_last { cutter.finish() } else { cutter.cut() } {
            Err(error) => return (all, Some(error)),
            Ok(None) if is_last => return (all, None),
            Ok(None) => {}
            Ok(Some(chunk)) => {
                let mut decoded = records.decoder.decode(chunk).0;
                assert!(decoded.columns.iter().all(|column| column.len() == decoded.rows));
                let error = decoded.error.take();
                all.push(decoded);
                if error.is_some() {
                    return (all, error);
                }
            }
        }
    }
}

fn ids(decoded: &[Decoded]) -> Vec<i64> {
    let ids = decoded.iter().filter(|part| part.rows > 0);
    ids.flat_map(|part| part.columns[0].as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn error(file: &[u8]) -> Diagnostic {
    read_as(&request(schema()), file, 1 << 20).1.expect("the file is damaged")
}

#[test]
fn blocks_may_come_in_any_pieces() {
    for codec in CODECS {
        let file = written(codec, 3, 40);
        for piece in [1, 7, 100, 1 << 20] {
            let (decoded, error) = read_as(&request(schema()), &file, piece);
            assert!(error.is_none(), "{codec}: {error:?}");
            assert_eq!(ids(&decoded), (0..120).collect::<Vec<_>>(), "{codec}, pieces of {piece}");
            assert_eq!(
                decoded.last().unwrap().columns[1].as_string_view().iter().last().flatten(),
                Some("the name of row 119")
            );
        }
    }
    // A piece of a sink is cut into blocks.
    let large = written("null", 1, 40_000);
    let marker = &large[large.len() - 16..];
    assert!(large.windows(16).filter(|bytes| *bytes == marker).count() > 4);
}

#[test]
fn blocks_are_resumed_at_every_record() {
    for codec in CODECS {
        let file = written(codec, 3, 40);
        let framer = |from: u64| {
            let mut framer = AvroFramer::new(Arc::default());
            assert_eq!(framer.resume(Position { at: from, line: 0 }), 0);
            Box::new(framer)
        };
        let mut whole = RecordCutter::new(framer(0));
        whole.room()[..file.len()].copy_from_slice(&file);
        whole.advance(file.len());
        let mut chunk = whole.cut().unwrap().unwrap();
        let (decoder, mut before) = (stream(&request(schema())).unwrap().decoder, 0);
        while let Some((part, rows)) = Format::split_front(&mut chunk, 7) {
            let after = part.after.unwrap().at;
            assert_eq!(ids(&[decoder.decode(part).0]), (before..before + rows as i64).collect::<Vec<_>>(), "{codec}");
            before += rows as i64;
            assert_eq!(after, before as u64);
            let (rest, error) = read_with(framer(after), &request(schema()), &file, 1 << 20);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(ids(&rest), (before..120).collect::<Vec<_>>(), "{codec} behind {after}");
        }
        assert_eq!(before, 120);
        let (_, error) = read_with(framer(121), &request(schema()), &file, 1 << 20);
        assert_eq!(error.unwrap().code, code::INPUT_CHANGED);
    }
}

#[test]
fn what_is_damaged_says_where() {
    let plain = written("null", 2, 10);
    let marker = &plain[plain.len() - 16..];
    let second = (0..plain.len() - 16).rev().find(|at| plain[*at..].starts_with(marker)).unwrap() + 16;
    let damaged = |at: usize| {
        let mut file = plain.clone();
        file[at] ^= 0x55;
        file
    };
    let deflated = |block: &[u8]| file(ID, "deflate", &[(1, block)]);
    let snappy = |damage: usize| {
        let mut block = Vec::new();
        Codec::Snappy.compress(&[2; 100], &mut block).unwrap();
        let at = block.len() - damage;
        block[at] ^= 1;
        file(ID, "snappy", &[(100, &block)])
    };
    for (file, code, message, byte) in [
        (b"PAR1 and more".to_vec(), code::MALFORMED_FILE, "no Avro container file", 0),
        (plain[..30].to_vec(), code::MALFORMED_FILE, "in the middle of a header", 0),
        (plain[..plain.len() - 1].to_vec(), code::MALFORMED_FILE, "in the middle of a block", second),
        (damaged(plain.len() - 1), code::MALFORMED_FILE, "does not end with the file's marker", plain.len() - 16),
        (file(ID, "bzip2", &[]), code::MALFORMED_FILE, "compressed by 'bzip2'", 0),
        (file("{", "null", &[]), code::MALFORMED_FILE, "its schema: it is not JSON", 0),
        (file("\"long\"", "null", &[(1, &[2])]), code::WRONG_TYPE, "not that of a record", 0),
        (file(&ID.replace("long", "boolean"), "null", &[(1, &[1])]), code::WRONG_TYPE, "cannot be read as BIGINT", 0),
        (
            file(ID, "null", &[(-1, &[2])]),
            code::MALFORMED_FILE,
            "size of a block is impossible",
            file(ID, "null", &[]).len(),
        ),
        (
            file(ID, "null", &[(2_000_000, &[2])]),
            code::MALFORMED_RECORD,
            "more records than bytes",
            file(ID, "null", &[]).len() + 5,
        ),
        (
            file(ID, "null", &[(1, &[2, 4])]),
            code::MALFORMED_RECORD,
            "something follows",
            file(ID, "null", &[]).len() + 3,
        ),
        (
            file(ID, "null", &[(2, &[2, 0x80])]),
            code::MALFORMED_RECORD,
            "ends too early (record 2 of 2",
            file(ID, "null", &[]).len() + 4,
        ),
        (
            deflated(&[7, 7, 7]),
            code::MALFORMED_FILE,
            "its deflate data are damaged",
            file(ID, "deflate", &[]).len() + 2,
        ),
        (snappy(1), code::MALFORMED_FILE, "the checksum is another", file(ID, "snappy", &[]).len() + 3),
        (
            file(ID, "zstandard", &[(1, b"no")]),
            code::MALFORMED_FILE,
            "its zstandard data are damaged",
            file(ID, "zstandard", &[]).len() + 2,
        ),
        (
            file(ID, "snappy", &[(1, &[0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0])]),
            code::MALFORMED_FILE,
            "length is impossible",
            file(ID, "snappy", &[]).len() + 2,
        ),
    ] {
        let error = error(&file);
        assert_eq!(error.code, code, "{message}: {error}");
        assert!(error.message.contains(message), "{message}: {error}");
        assert!(
            error.place.as_ref().unwrap().to_string().ends_with(&format!("a.avro, byte {byte}")),
            "{message}: {error}"
        );
    }
}

#[test]
fn rows_before_a_fault_are_kept() {
    // Blocks 1, 2 and 3; the last is damaged.
    let file = file(ID, "null", &[(2, &[2, 4]), (1, &[6]), (2, &[8, 0x80])]);
    let (decoded, error) = read_as(&request(schema()), &file, 1 << 20);
    assert_eq!(ids(&decoded), [1, 2, 3, 4]);
    assert_eq!(error.unwrap().code, code::MALFORMED_RECORD);
    let nullable = ID.replace("\"long\"", r#"["null", "long"]"#);
    let file = self::file(&nullable, "null", &[(1, &[2, 2]), (2, &[2, 4, 0])]);
    let required = Schema::new(vec![Field::new("id", DataType::BigInt, false)]);
    let (decoded, error) = read_as(&request(required), &file, 1 << 20);
    assert_eq!(ids(&decoded), [1, 2]);
    let error = error.unwrap();
    assert_eq!(error.code, code::NULL_IN_NOT_NULL);
    assert!(error.message.contains("record 2 of the block"), "{error}");
}

#[test]
fn few_bytes_do_not_become_very_many() {
    let zeros = std::io::repeat(0).take(10_000);
    assert!(bounded(zeros, 9_999, &mut Vec::new()).is_err());
    let mut all = Vec::new();
    bounded(std::io::repeat(0).take(10_000), 10_000, &mut all).unwrap();
    assert_eq!(all.len(), 10_000);
    // Records and elements without any byte.
    let nothing = r#"{"type": "record", "name": "r", "fields": []}"#;
    assert!(error(&file(nothing, "null", &[(u32::MAX.into(), &[])])).message.contains("more records than bytes"));
    let nulls =
        r#"{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}"#;
    let array = Schema::new(vec![Field::new("a", DataType::Array(Arc::new(DataType::Int)), true)]);
    // Blocks of as many elements as there are bytes left, again and again.
    let mut block = Vec::new();
    (0..1000).for_each(|_| long(1000, &mut block));
    block.push(0);
    let (decoded, error) = read_as(&request(array), &file(nulls, "null", &[(1, &block)]), 1 << 20);
    assert_eq!(decoded[0].rows, 0);
    assert!(error.unwrap().message.contains("more elements than bytes"));
    // Each record has the one before twice.
    let mut twice = nothing.replace("\"r\"", "\"r0\"");
    for i in 1..30 {
        let before = i - 1;
        twice = format!(
            r#"{{"type": "record", "name": "r{i}", "fields": [{{"name": "a", "type": {twice}}}, {{"name": "b", "type": "r{before}"}}]}}"#
        );
    }
    assert!(self::error(&file(&twice, "null", &[])).message.contains("more than 100000 types"));
}

#[test]
fn no_damage_does_harm() {
    let files: Vec<Vec<u8>> = CODECS.iter().map(|codec| written(codec, 3, 20)).collect();
    let mut random = Random::new(7, 0, 0);
    let mut refused = 0;
    for case in 0..4_000 {
        let mut file = files[random.below(4) as usize].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(file.len() as u64) as usize;
            match random.below(4) {
                0 => file.truncate(at.max(1)),
                1 => file[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
                2 => file.splice(at..at, [0xff; 9]).for_each(drop),
                _ => file[at] ^= 1 << random.below(8),
            }
        }
        let read = catch_unwind(AssertUnwindSafe(|| read_as(&request(schema()), &file, 1 << 20)));
        let Ok((_, error)) = read else { panic!("a panic in case {case}: {file:?}") };
        assert!(error.as_ref().is_none_or(|error| error.code != code::BUG), "case {case}: {error:?}");
        refused += usize::from(error.is_some());
    }
    assert!(refused > 1_000);
}
