//! Reading files as other programs write them, and what cannot be read.

use crate::{ColumnRequest, Decoded, RequestOrigin, SourceRequest, open_source};
use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_cast::display::array_value_to_string;
use millstream_types::{DataType, Diagnostic, Field, Schema, code};
use std::fs::{self, File};
use std::sync::Arc;
use tempfile::TempDir;

/// A file with the columns `id` (INT32), `name` (Utf8), `at` (microseconds in UTC), `bid` (a struct with NULLs), in row groups of
/// 1,500 rows.
fn write(path: &std::path::Path, rows: i32) {
    let price: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
    let channel: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("channel-{i}"))));
    let fields = vec![
        arrow_schema::Field::new("price", arrow_schema::DataType::Int32, true),
        arrow_schema::Field::new("channel", arrow_schema::DataType::Utf8, true),
    ];
    let present = NullBuffer::from_iter((0..rows).map(|i| i % 10 != 0));
    let bid = StructArray::new(fields.into(), vec![price, channel], Some(present));
    let times = TimestampMicrosecondArray::from_iter_values((0..rows).map(|i| i64::from(i) * 1_500));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int32Array::from_iter_values(0..rows)) as ArrayRef, true),
        ("name", Arc::new(StringArray::from_iter((0..rows).map(|i| (i % 3 != 0).then_some("a name")))), true),
        ("at", Arc::new(times.with_timezone("UTC")), true),
        ("bid", Arc::new(bid), true),
    ])
    .unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1_500)).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn schema() -> Schema {
    let bid = vec![
        Field::new("channel", DataType::STRING, true),
        Field::new("price", DataType::BigInt, true),
        Field::new("absent", DataType::Int, true),
    ];
    Schema::new(vec![
        Field::new("at", DataType::Timestamp(3), true),
        Field::new("id", DataType::BigInt, true),
        Field::new("bid", DataType::Row(bid.into()), true),
        Field::new("name", DataType::STRING, true),
        Field::new("absent", DataType::STRING, true),
    ])
}

fn column(path: &[usize], data_type: DataType, nullable: bool) -> ColumnRequest {
    ColumnRequest { name: format!("c{path:?}"), origin: RequestOrigin::Path(path.to_vec()), data_type, nullable }
}

fn read(path: &std::path::Path, columns: Vec<ColumnRequest>) -> Result<Vec<Decoded>, Diagnostic> {
    let path = path.to_string_lossy();
    let options = [("connector", "filesystem"), ("format", "parquet"), ("path", &path)];
    let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let request = SourceRequest {
        table: "t".into(),
        options,
        schema: schema(),
        columns,
        buffer_rows: 1,
        ..SourceRequest::default()
    };
    let mut source = open_source(&request)?;
    let decoder = source.decoder();
    let mut all = Vec::new();
    for mut split in source.splits()? {
        while let Some(chunk) = split.next()? {
            all.push(decoder.decode(chunk));
        }
    }
    Ok(all)
}

fn text(decoded: &Decoded, column: usize, row: usize) -> String {
    let array = &decoded.columns[column];
    if array.is_null(row) { "NULL".into() } else { array_value_to_string(array, row).unwrap() }
}

#[test]
fn columns_are_found_by_name_and_fitted() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file, 4_000);
    let fields = schema().fields;
    let mut columns: Vec<_> = (0..5).map(|i| column(&[i], fields[i].data_type.clone(), true)).collect();
    columns.push(column(&[2, 1], DataType::BigInt, true));
    columns.push(column(&[2, 2], DataType::Int, true));
    let decoded = read(&file, columns).unwrap();
    // Row groups of 1,500 rows in chunks of at most 1,024.
    assert_eq!(decoded.iter().map(|d| d.rows).collect::<Vec<_>>(), [1024, 476, 1024, 476, 1000]);
    let last = &decoded[4];
    assert_eq!(last.error, None);
    let row = |row| (0..7).map(|column| text(last, column, row)).collect::<Vec<_>>();
    assert_eq!(
        row(1),
        [
            "1970-01-01T00:00:04.501",
            "3001",
            "{channel: channel-3001, price: 3001, absent: }",
            "a name",
            "NULL",
            "3001",
            "NULL"
        ]
    );
    assert_eq!(row(0), ["1970-01-01T00:00:04.500", "3000", "NULL", "NULL", "NULL", "NULL", "NULL"]);
    let counted = read(&file, vec![]).unwrap();
    assert_eq!(counted.iter().map(|d| d.rows).sum::<usize>(), 4_000);
    let absent = read(&file, vec![column(&[4], DataType::STRING, true)]).unwrap();
    assert_eq!((absent[0].rows, absent[0].columns[0].null_count()), (1024, 1024));
}

#[test]
fn nulls_in_not_null_columns_end_the_rows() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file, 20);
    let decoded =
        read(&file, vec![column(&[1], DataType::BigInt, false), column(&[2, 1], DataType::BigInt, false)]).unwrap();
    assert_eq!((decoded[0].rows, decoded[0].columns[0].len()), (0, 0));
    assert_eq!(decoded[0].error.as_ref().unwrap().code, code::NULL_IN_NOT_NULL);
}

#[test]
fn wrong_types_and_damaged_files_are_errors() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file, 20);
    let wrong = read(&file, vec![column(&[3], DataType::BigInt, true)]).unwrap().remove(0).error.unwrap();
    assert_eq!(wrong.code, code::WRONG_TYPE);
    assert!(wrong.message.contains("cannot be read as BIGINT"), "{wrong}");

    let good = fs::read(&file).unwrap();
    let wanted = || vec![column(&[1], DataType::BigInt, true), column(&[3], DataType::STRING, true)];
    for bad in [b"{\"id\":1}\n".to_vec(), Vec::new(), good[..good.len() / 2].to_vec()] {
        fs::write(&file, bad).unwrap();
        let error = read(&file, wanted()).unwrap_err();
        assert_eq!(error.code, code::MALFORMED_FILE, "{error}");
        assert!(error.to_string().contains("a.parquet"), "{error}");
    }
    let mut seed = 3u64;
    for _ in 0..300 {
        let mut bad = good.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bad.len();
            bad[at] = (seed >> 20) as u8;
        }
        fs::write(&file, bad).unwrap();
        // Damage may also go unnoticed, since pages have no checksums; it must only be survived.
        if let Err(error) = read(&file, wanted()) {
            assert_eq!(error.code, code::MALFORMED_FILE, "{error}");
        }
    }
}

#[test]
fn row_groups_have_no_more_rows_than_values() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file, 20);
    let good = fs::read(&file).unwrap();
    let mut refused = 0;
    // A number n is written as 2n, in a byte if it is small.
    for at in (0..good.len()).filter(|&at| good[at] == 40) {
        let mut bad = good.clone();
        bad[at] = 126;
        fs::write(&file, bad).unwrap();
        match read(&file, vec![]) {
            Ok(decoded) => assert_eq!(decoded.iter().map(|d| d.rows).sum::<usize>(), 20, "byte {at}"),
            Err(error) => {
                assert_eq!(error.code, code::MALFORMED_FILE, "{error}");
                refused += usize::from(error.message.contains("cannot have 63 rows"));
            }
        }
    }
    assert_eq!(refused, 1);
}
