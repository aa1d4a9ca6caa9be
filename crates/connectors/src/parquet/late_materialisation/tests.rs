//! What is decoded for survivors is what is decoded of all rows, and what is malformed is found either way.

use super::*;
use crate::{ColumnRequest, RequestOrigin, SourceRequest, open_source};
use ::parquet::arrow::ArrowWriter;
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::NullBuffer;
use millstream_types::{Code, DataType, Field, Schema, code};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const ROWS: i64 = 4_000;

/// Row groups of 1,500 rows of a column of every kind; `number` counts from 0, all others have a value for it.
fn write(path: &Path) {
    let rows = 0..ROWS;
    let mut tags = ListBuilder::new(Int32Builder::new());
    let mut notes = ListBuilder::new(StringBuilder::new());
    for row in rows.clone() {
        (0..row % 4).for_each(|i| tags.values().append_value((row + i) as i32));
        tags.append(row % 7 != 0);
        notes.values().append_value(format!("note {}", row % 5));
        notes.append(true);
    }
    let price: ArrayRef = Arc::new(Int32Array::from_iter(rows.clone().map(|i| (i % 3 != 0).then_some(i as i32))));
    let channel: ArrayRef = Arc::new(StringArray::from_iter_values(rows.clone().map(|i| format!("channel {}", i % 9))));
    let fields = vec![
        arrow_schema::Field::new("price", price.data_type().clone(), true),
        arrow_schema::Field::new("channel", channel.data_type().clone(), true),
    ];
    let present = NullBuffer::from_iter(rows.clone().map(|i| i % 10 != 0));
    let bid = StructArray::new(fields.into(), vec![price, channel], Some(present));
    let times = TimestampMicrosecondArray::from_iter_values(rows.clone().map(|i| i * 1_500));
    let amounts = Decimal128Array::from_iter_values(rows.clone().map(i128::from));
    let columns: [(&str, ArrayRef, bool); 9] = [
        ("number", Arc::new(Int64Array::from_iter_values(rows.clone())), true),
        (
            "word",
            Arc::new(StringArray::from_iter(rows.clone().map(|i| (i % 3 != 0).then(|| format!("a word {}", i % 11))))),
            true,
        ),
        ("text", Arc::new(StringArray::from_iter_values(rows.clone().map(|i| format!("a text of its own {i}")))), true),
        ("at", Arc::new(times.with_timezone("UTC")), true),
        ("amount", Arc::new(amounts.with_precision_and_scale(10, 2).unwrap()), true),
        ("must", Arc::new(Int32Array::from_iter_values(rows.map(|i| i as i32 * 3))), false),
        ("bid", Arc::new(bid), true),
        ("tags", Arc::new(tags.finish()), true),
        ("notes", Arc::new(notes.finish()), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = properties().set_max_row_group_row_count(Some(1_500)).set_data_page_row_count_limit(400);
    let properties = properties.set_column_dictionary_enabled("text".into(), false).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_write_batch_size(100)
}

fn schema() -> Schema {
    let bid = vec![
        Field::new("channel", DataType::STRING, true),
        Field::new("price", DataType::BigInt, true),
        Field::new("absent", DataType::Int, true),
    ];
    Schema::new(vec![
        Field::new("number", DataType::BigInt, true),
        Field::new("word", DataType::STRING, true),
        Field::new("text", DataType::STRING, true),
        Field::new("at", DataType::Timestamp(3), true),
        Field::new("amount", DataType::Decimal { precision: 12, scale: 2 }, true),
        Field::new("must", DataType::BigInt, false),
        Field::new("bid", DataType::Row(bid.into()), true),
        Field::new("tags", DataType::Array(Arc::new(DataType::BigInt)), true),
        Field::new("notes", DataType::Array(Arc::new(DataType::STRING)), true),
        Field::new("absent", DataType::STRING, true),
    ])
}

fn column(path: &[usize], data_type: DataType, nullable: bool) -> ColumnRequest {
    ColumnRequest { name: format!("c{path:?}"), origin: RequestOrigin::Path(path.to_vec()), data_type, nullable }
}

/// Every column as it is, `bid.price`, `bid.channel`, and the file's name before the last one.
fn all_columns() -> Vec<ColumnRequest> {
    let fields = schema().fields;
    let mut columns: Vec<_> =
        (0..fields.len()).map(|i| column(&[i], fields[i].data_type.clone(), fields[i].nullable)).collect();
    columns.push(column(&[6, 1], DataType::BigInt, true));
    let origin = RequestOrigin::Metadata("file.name".into());
    columns.push(ColumnRequest { name: "name".into(), origin, data_type: DataType::STRING, nullable: false });
    columns.push(column(&[6, 0], DataType::STRING, true));
    columns
}

/// Lets rows through by the value of its first column.
struct Keep<'a> {
    columns: Vec<usize>,
    keep: &'a dyn Fn(i64) -> bool,
    asked: usize,
}

impl HeadFilter for Keep<'_> {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn survivors(&mut self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer, Diagnostic> {
        self.asked += 1;
        assert_eq!(columns.len(), self.columns.len());
        assert!(columns.iter().all(|column| column.len() == rows));
        let numbers = columns[0].as_primitive::<types::Int64Type>();
        Ok(BooleanBuffer::collect_bool(rows, |row| (self.keep)(numbers.value(row))))
    }
}

/// The chunks of a file, decoded whole and for survivors; and how often the filter was asked.
fn both(
    file: &Path,
    schema: Schema,
    columns: &[ColumnRequest],
    filter: &[usize],
    keep: &dyn Fn(i64) -> bool,
) -> (Vec<(Decoded, Decoded)>, usize) {
    let path = file.to_string_lossy();
    let options = [("connector", "filesystem"), ("format", "parquet"), ("path", &path)];
    let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let columns = columns.to_vec();
    let request =
        SourceRequest { table: "t".into(), options, schema, columns, buffer_rows: 1, ..SourceRequest::default() };
    let mut filter = Keep { columns: filter.to_vec(), keep, asked: 0 };
    let chunks = || {
        let mut source = open_source(&request).unwrap();
        let (mut split, mut chunks) = (source.splits().unwrap().remove(0), Vec::new());
        while let Some(chunk) = split.next().unwrap() {
            chunks.push(chunk);
        }
        (source.decoder(), chunks)
    };
    let ((decoder, whole), (_, late)) = (chunks(), chunks());
    assert!(decoder.can_skip());
    let decode = |(whole, late)| (decoder.decode(whole), decoder.decode_survivors(late, &mut filter));
    let both = whole.into_iter().zip(late).map(decode).collect();
    (both, filter.asked)
}

/// Compares chunks; `filter` are the columns that are whole.
fn compare(chunks: &[(Decoded, Decoded)], columns: &[ColumnRequest], filter: &[usize], keep: &dyn Fn(i64) -> bool) {
    for (whole, late) in chunks {
        assert_eq!((whole.rows, &whole.error, whole.skipped), (late.rows, &late.error, late.skipped));
        let numbers = whole.columns[filter[0]].as_primitive::<types::Int64Type>();
        let left = (0..whole.rows).filter(|row| keep(numbers.value(*row)));
        let left = UInt32Array::from_iter_values(left.map(|row| row as u32));
        assert_eq!(late.columns.len(), columns.len());
        for (position, column) in columns.iter().enumerate() {
            let (whole, late) = (&whole.columns[position], &late.columns[position]);
            assert_eq!((whole.len(), whole.data_type()), (late.len(), late.data_type()), "{}", column.name);
            assert!(column.nullable || late.null_count() == 0, "{}", column.name);
            late.to_data().validate_full().unwrap();
            if filter.contains(&position) {
                assert_eq!(whole, late, "{}", column.name);
            }
            let [whole, late] = [whole, late].map(|column| arrow_select::take::take(column, &left, None).unwrap());
            assert_eq!(&whole, &late, "{}", column.name);
        }
    }
}

#[test]
fn survivors_have_the_values_that_they_have_otherwise() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file);
    let columns = all_columns();
    type Keep<'a> = &'a dyn Fn(i64) -> bool;
    let keeps: [Keep<'_>; 8] = [
        &|_| false,
        &|_| true,
        &|i| i % 10 == 3,
        &|i| i / 100 % 3 == 1,
        &|i| i == 3_999,
        &|i| i == 0 || i == 1_499,
        &|i| i * i % 7 < 2,
        &|i| (500..1_300).contains(&i),
    ];
    for keep in keeps {
        for filter in [vec![0], vec![0, 1, 6], vec![0, 9, 11], vec![0, 2, 10, 12]] {
            let (chunks, asked) = both(&file, schema(), &columns, &filter, keep);
            assert_eq!((chunks.len(), asked), (5, 5));
            compare(&chunks, &columns, &filter, keep);
        }
    }
}

#[test]
fn rows_that_are_left_out_have_the_values_of_others() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file);
    let columns =
        [column(&[0], DataType::BigInt, true), column(&[5], DataType::BigInt, false), all_columns()[2].clone()];
    let (chunks, _) = both(&file, schema(), &columns, &[0], &|i| i == 2 || i == 100);
    let late = &chunks[0].1.columns;
    let must = late[1].as_primitive::<types::Int64Type>();
    assert_eq!([0, 2, 3, 99, 100, 1023].map(|row| must.value(row)), [6, 6, 6, 6, 300, 300]);
    assert_eq!(&late[2], &chunks[0].0.columns[2], "text that is not in a dictionary is decoded whole");
}

#[test]
fn without_anything_to_leave_out_nobody_asks() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.parquet");
    write(&file);
    let columns =
        [column(&[0], DataType::BigInt, true), column(&[9], DataType::STRING, true), all_columns()[2].clone()];
    let (chunks, asked) = both(&file, schema(), &columns, &[0], &|i| i < 5);
    assert_eq!(asked, 0, "one is the filter's, one is not there, one has to be checked");
    compare(&chunks, &columns, &[0], &|_| true);
}

/// A file of `key`, `value` and `text`, whatever these are.
fn odd(directory: &TempDir, values: &[Option<i64>], texts: &[&[u8]], dictionary: bool) -> PathBuf {
    let message = "message m { required int64 key; optional int64 value; required binary text (UTF8); }";
    let message = Arc::new(parse_message_type(message).unwrap());
    let file = directory.path().join("odd.parquet");
    let properties = Arc::new(properties().set_dictionary_enabled(dictionary).build());
    let mut writer = SerializedFileWriter::new(File::create(&file).unwrap(), message, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let keys: Vec<i64> = (0..values.len() as i64).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<i64> = values.iter().copied().flatten().collect();
    let texts: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.to_vec())).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&keys, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn what_is_malformed_is_found_wherever_it_is() {
    let directory = TempDir::new().unwrap();
    let schema = |value: DataType, nullable| {
        let fields = vec![
            Field::new("key", DataType::BigInt, true),
            Field::new("value", value, nullable),
            Field::new("text", DataType::STRING, true),
        ];
        Schema::new(fields)
    };
    let columns = |schema: &Schema| {
        let column = |i: usize| column(&[i], schema.fields[i].data_type.clone(), schema.fields[i].nullable);
        (0..3).map(column).collect::<Vec<_>>()
    };
    let good: Vec<Option<i64>> = (0..20).map(Some).collect();
    let changed = |value| good.iter().enumerate().map(|(i, v)| if i == 7 { value } else { *v }).collect::<Vec<_>>();
    let texts = vec![b"text".as_slice(); 20];
    let latin: Vec<&[u8]> = (0..20).map(|i| if i == 7 { b"caf\xe9".as_slice() } else { b"text" }).collect();
    type Case<'a> = (Vec<Option<i64>>, &'a [&'a [u8]], Schema, Code, usize);
    let cases: [Case<'_>; 3] = [
        (changed(Some(1 << 40)), &texts, schema(DataType::Int, true), code::WRONG_TYPE, 0),
        (changed(None), &texts, schema(DataType::BigInt, false), code::NULL_IN_NOT_NULL, 7),
        (good.clone(), &latin, schema(DataType::BigInt, true), code::MALFORMED_FILE, 0),
    ];
    let keeps: [&dyn Fn(i64) -> bool; 4] = [&|_| false, &|_| true, &|i| i == 3, &|i| i > 10];
    for (values, texts, schema, expected, rows) in cases {
        for (keep, dictionary) in keeps.into_iter().flat_map(|keep| [(keep, false), (keep, true)]) {
            let file = odd(&directory, &values, texts, dictionary);
            let columns = columns(&schema);
            let (chunks, _) = both(&file, schema.clone(), &columns, &[0], keep);
            let (whole, late) = &chunks[0];
            assert_eq!((&whole.error, whole.rows), (&late.error, late.rows));
            assert_eq!(whole.error.as_ref().map(|error| error.code), Some(expected));
            assert_eq!(late.rows, rows);
        }
    }
}
