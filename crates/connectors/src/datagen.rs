//! The `datagen` connector: random or counting columns of any scalar type, with Flink's options.
//!
//! Values are counter-based (see `random`), so workers generate in parallel and a run can be repeated. Timestamps are
//! the time of generation minus a random part of `max-past`, as in Flink, and so differ from run to run.

use crate::declaration::Connector;
use crate::generated::{Rows, decoded, integers, source, split_front};
use crate::option_table::{choice, option_list};
use crate::random::Random;
use crate::{Chunk, ColumnRequest, Decoded, Decoder, RequestOrigin, Source, SourceRequest};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, StructArray};
use arrow_buffer::NullBuffer;
use millstream_types::{DataType, Diagnostic, Field, Options, Place, code};
use std::sync::Arc;

option_list! {
    OPTIONS;
    RATE = "rows-per-second": Integer, "10000", "Rows per second; 0 for as fast as possible";
    ROWS = "number-of-rows": Integer, "endless", "Rows in all; without it the stream ends only with a sequence";
    SEED = "seed": Integer, "0", "Another seed gives other data";
    "fields.*": Columns(FIELD_OPTIONS), "", "How the values of a column are made; a field of a ROW is `<column>.<field>`";
}

option_list! {
    FIELD_OPTIONS;
    "kind": Choice(&["random", "sequence"]), "random", "`random`, or a `sequence` of numbers from `start` to `end`, which ends the stream";
    "min": Number, "", "Least random number; by default that of the type";
    "max": Number, "", "Greatest random number; by default that of the type";
    "max-past": Duration, "0 s", "Random times are up to this long ago";
    "length": Integer, "", "Length of random STRING and BYTES; by default that of the type, or 100";
    "var-len": Bool, "false", "Whether lengths vary up to it";
    "null-rate": Number, "0", "Part of the values that are NULL, from 0 to 1";
    "start": Integer, "", "First value of a sequence";
    "end": Integer, "", "Last value of a sequence";
}

const DAY_MS: i64 = 86_400_000;

/// The entry of the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "datagen",
    summary: "Random or counting columns, with the options of Flink's connector of this name.",
    options: OPTIONS,
    source: Some(open_source),
    split_front: Some(split_front),
    is_bounded,
    own_rate: Some(own_rate),
    ..Connector::NEITHER
};

/// Opens the generator.
fn open_source(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let options = &request.options;
    check_fields(request)?;
    let mut end: Option<u64> = options.get(ROWS.key).map(|_| options.parse(ROWS.key, 0)).transpose()?;
    for (i, field) in request.schema.fields.iter().enumerate() {
        // A sequence ends the stream even when the query does not read its column.
        if let ValueKind::Sequence { rows, .. } = generated(options, field, &field.name, i as u64)?.kind {
            end = Some(end.map_or(rows, |e| e.min(rows)));
        }
    }
    let seed = SEED.parse(options)?;
    let columns = request.columns.iter().map(|c| column(request, c)).collect::<Result<Vec<_>, _>>()?;
    Ok(source("datagen", Generator { seed, columns }, end, request.buffer_rows))
}

/// A number of rows, or a sequence with an end (the default end is that of BIGINT).
fn is_bounded(options: &Options) -> bool {
    let is_sequence = |(key, value): (&str, &str)| {
        key.starts_with("fields.") && key.ends_with(".kind") && value.eq_ignore_ascii_case("sequence")
    };
    options.get(ROWS.key).is_some() || options.iter().any(is_sequence)
}

/// The rate at which rows must be handed out.
fn own_rate(options: &Options) -> Result<Option<u64>, Diagnostic> {
    let rate = RATE.parse(options)?;
    Ok((rate > 0).then_some(rate))
}

/// `fields.<column>.<setting>` must name a column and a setting.
fn check_fields(request: &SourceRequest) -> Result<(), Diagnostic> {
    let columns: Vec<&str> = request.schema.fields.iter().map(|field| field.name.as_str()).collect();
    for (key, _) in request.options.iter() {
        let Some(rest) = key.strip_prefix("fields.") else { continue };
        let (name, setting) = rest.rsplit_once('.').unwrap_or((rest, ""));
        let top = name.split('.').next().unwrap_or(name);
        if request.schema.index_of(top).is_none() {
            return Err(Diagnostic::new(code::UNKNOWN_OPTION, format!("option '{key}': there is no column '{top}'"))
                .at(Place::Option(key.into()))
                .advise(format!("name a column of the table: {}", columns.join(", "))));
        }
        if FIELD_OPTIONS.iter().all(|option| option.key != setting) {
            let settings: Vec<&str> = FIELD_OPTIONS.iter().map(|option| option.key).collect();
            return Err(Diagnostic::new(code::UNKNOWN_OPTION, format!("option '{key}': unknown setting '{setting}'"))
                .at(Place::Option(key.into()))
                .advise(format!("settings are {}", settings.join(", "))));
        }
    }
    Ok(())
}

struct Generator {
    seed: u64,
    columns: Vec<Generated>,
}

/// How one column is generated.
struct Generated {
    data_type: DataType,
    kind: ValueKind,
    /// Of a million values this many are NULL.
    nulls_per_million: u64,
    /// Number of the column's random stream.
    stream: u64,
}

enum ValueKind {
    /// `start + row`, for `rows` rows.
    Sequence {
        start: i64,
        rows: u64,
    },
    Integer {
        min: i64,
        max: i64,
    },
    Float {
        min: f64,
        max: f64,
    },
    Decimal {
        limit: i128,
    },
    Boolean,
    /// Hexadecimal text, as Flink's, or random bytes.
    Bytes {
        length: u64,
        varies: bool,
    },
    Time {
        max_past_ms: u64,
    },
    Row(Vec<(Field, Generated)>),
}

fn column(request: &SourceRequest, wanted: &ColumnRequest) -> Result<Generated, Diagnostic> {
    let RequestOrigin::Path(path) = &wanted.origin else {
        return Err(Diagnostic::new(code::INVALID_TABLE, "the datagen connector has no metadata columns"));
    };
    // Streams are numbered by path, so that a field has the same values alone and within its row.
    let mut field = &request.schema.fields[path[0]];
    let mut stream = path[0] as u64;
    let mut name = field.name.clone();
    for &step in &path[1..] {
        let DataType::Row(fields) = &field.data_type else {
            return Err(Diagnostic::bug(format!("{name} is not a ROW")));
        };
        field = &fields[step];
        stream = child_stream(stream, step);
        name = format!("{name}.{}", field.name);
    }
    generated(&request.options, field, &name, stream)
}

fn child_stream(parent: u64, step: usize) -> u64 {
    (parent + 1) * 1000 + step as u64
}

fn generated(options: &Options, field: &Field, name: &str, stream: u64) -> Result<Generated, Diagnostic> {
    let key = |setting: &str| format!("fields.{name}.{setting}");
    let null_rate: f64 = options.parse(&key("null-rate"), 0.0)?;
    if !(0.0..=1.0).contains(&null_rate) {
        return Err(options.invalid(&key("null-rate"), "between 0 and 1"));
    }
    let data_type = field.data_type.clone();
    let kind = match choice(options, &key("kind"), &[("random", false), ("sequence", true)])? {
        true => sequence(options, &key, &data_type)?,
        false => random_kind(options, &key, name, stream, &data_type)?,
    };
    Ok(Generated { data_type, kind, nulls_per_million: (null_rate * 1e6) as u64, stream })
}

fn sequence(options: &Options, key: &dyn Fn(&str) -> String, data_type: &DataType) -> Result<ValueKind, Diagnostic> {
    if !(data_type.is_integer() || data_type.is_string() || data_type.is_floating()) {
        return Err(options.invalid(&key("kind"), "possible for this type: sequences are numbers or strings"));
    }
    options.require(&key("start"))?;
    options.require(&key("end"))?;
    let start: i64 = options.parse(&key("start"), 0)?;
    let end: i64 = options.parse(&key("end"), 0)?;
    if end < start {
        return Err(options.invalid(&key("end"), "at least 'start'"));
    }
    Ok(ValueKind::Sequence { start, rows: (end as i128 - start as i128 + 1).min(u64::MAX as i128) as u64 })
}

fn random_kind(
    options: &Options,
    key: &dyn Fn(&str) -> String,
    name: &str,
    stream: u64,
    data_type: &DataType,
) -> Result<ValueKind, Diagnostic> {
    let integer = |low: i64, high: i64| -> Result<ValueKind, Diagnostic> {
        let min = options.parse(&key("min"), low)?;
        let max = options.parse(&key("max"), high)?;
        if min < low || max > high || min > max {
            return Err(options.invalid(&key(if min < low { "min" } else { "max" }), "a range of the column's type"));
        }
        Ok(ValueKind::Integer { min, max })
    };
    let bytes = |declared: u32| -> Result<ValueKind, Diagnostic> {
        let default = if declared >= i32::MAX as u32 { 100 } else { u64::from(declared) };
        let length = options.parse(&key("length"), default)?;
        if length > 1 << 20 {
            return Err(options.invalid(&key("length"), "at most 1048576"));
        }
        Ok(ValueKind::Bytes { length, varies: options.boolean(&key("var-len"), false)? })
    };
    Ok(match data_type {
        DataType::Boolean => ValueKind::Boolean,
        DataType::TinyInt => integer(i8::MIN.into(), i8::MAX.into())?,
        DataType::SmallInt => integer(i16::MIN.into(), i16::MAX.into())?,
        DataType::Int | DataType::IntervalMonth => integer(i32::MIN.into(), i32::MAX.into())?,
        DataType::BigInt | DataType::IntervalMilli => integer(i64::MIN, i64::MAX)?,
        DataType::Float | DataType::Double => {
            let limit = if *data_type == DataType::Float { f64::from(f32::MAX) } else { f64::MAX };
            let min: f64 = options.parse(&key("min"), -limit)?;
            let max: f64 = options.parse(&key("max"), limit)?;
            if min.partial_cmp(&max).is_none_or(|order| order.is_gt()) {
                return Err(options.invalid(&key("max"), "at least 'min'"));
            }
            ValueKind::Float { min, max }
        }
        DataType::Decimal { precision, .. } => ValueKind::Decimal { limit: 10i128.pow(u32::from(*precision)) - 1 },
        DataType::Char(n) | DataType::Varchar(n) | DataType::Binary(n) | DataType::Varbinary(n) => bytes(*n)?,
        DataType::Date | DataType::Time(_) | DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let past = options.duration(&key("max-past"), std::time::Duration::ZERO)?;
            ValueKind::Time { max_past_ms: past.as_millis() as u64 }
        }
        DataType::Row(fields) => {
            let child = |(i, f): (usize, &Field)| {
                let child = generated(options, f, &format!("{name}.{}", f.name), child_stream(stream, i))?;
                Ok((f.clone(), child))
            };
            ValueKind::Row(fields.iter().enumerate().map(child).collect::<Result<_, Diagnostic>>()?)
        }
        DataType::Array(_) | DataType::Map(..) | DataType::Null => {
            return Err(Diagnostic::new(code::UNSUPPORTED, format!("datagen cannot generate {data_type} ('{name}')"))
                .advise("use scalar columns and ROWs"));
        }
    })
}

impl Decoder for Generator {
    fn decode(&self, chunk: Chunk) -> Decoded {
        decoded(chunk, |rows| self.columns.iter().map(|c| c.column(self.seed, rows)).collect())
    }
}

impl Generated {
    /// What `value` makes of each row's number and random numbers; `None` where the value is NULL.
    fn values<T>(&self, seed: u64, rows: &Rows, value: impl Fn(u64, Random) -> T) -> impl Iterator<Item = Option<T>> {
        let (nulls, stream) = (self.nulls_per_million, self.stream);
        rows.numbers.clone().map(move |row| {
            let mut random = Random::new(seed, row, stream);
            let null = nulls > 0 && random.below(1_000_000) < nulls;
            (!null).then(|| value(row, random))
        })
    }

    fn integers(&self, seed: u64, rows: &Rows) -> impl Iterator<Item = Option<i64>> {
        self.values(seed, rows, |row, mut random| match self.kind {
            ValueKind::Sequence { start, .. } => start.wrapping_add(row as i64),
            ValueKind::Integer { min, max } => random.between(min, max),
            ValueKind::Time { max_past_ms } => rows.now_ms - random.below(max_past_ms + 1) as i64,
            _ => 0,
        })
    }

    fn column(&self, seed: u64, rows: &Rows) -> ArrayRef {
        match &self.data_type {
            DataType::Boolean => {
                let bits = self.values(seed, rows, |_, mut random| random.below(2) == 1);
                Arc::new(bits.collect::<BooleanArray>())
            }
            DataType::Float => Arc::new(self.floats(seed, rows).map(|v| v.map(|x| x as f32)).collect::<Float32Array>()),
            DataType::Double => Arc::new(self.floats(seed, rows).collect::<Float64Array>()),
            DataType::Decimal { precision, scale } => self.decimals(seed, rows, *precision, *scale),
            DataType::Char(_) | DataType::Varchar(_) => self.texts(seed, rows),
            DataType::Binary(_) | DataType::Varbinary(_) => self.bytes(seed, rows),
            DataType::Row(_) | DataType::Array(_) | DataType::Map(..) | DataType::Null => self.row(seed, rows),
            data_type => {
                let stored = |n: i64| match data_type {
                    DataType::Date => n.div_euclid(DAY_MS),
                    DataType::Time(_) => n.rem_euclid(DAY_MS),
                    _ if data_type.is_timestamp() => n.saturating_mul(data_type.time_unit().per_second() / 1_000),
                    _ => n,
                };
                integers(data_type, self.integers(seed, rows).map(|value| value.map(stored)))
            }
        }
    }

    fn floats(&self, seed: u64, rows: &Rows) -> impl Iterator<Item = Option<f64>> {
        self.values(seed, rows, |row, mut random| match self.kind {
            // Halves, because max - min overflows for the default range.
            ValueKind::Float { min, max } => {
                let unit = random.unit();
                min * (1.0 - unit) + max * unit
            }
            ValueKind::Sequence { start, .. } => start.wrapping_add(row as i64) as f64,
            _ => 0.0,
        })
    }

    fn decimals(&self, seed: u64, rows: &Rows, precision: u8, scale: u8) -> ArrayRef {
        let limit = if let ValueKind::Decimal { limit } = self.kind { limit } else { 0 };
        let values = self.values(seed, rows, |_, mut random| {
            let wide = (u128::from(random.next()) << 64 | u128::from(random.next())) as i128;
            wide % (limit + 1)
        });
        let typed = values.collect::<Decimal128Array>().with_precision_and_scale(precision, scale as i8);
        Arc::new(typed.expect("a SQL decimal type is a valid Arrow decimal type"))
    }

    fn texts(&self, seed: u64, rows: &Rows) -> ArrayRef {
        let mut builder = StringViewBuilder::new();
        let mut text = Vec::new();
        for stream in self.values(seed, rows, |row, random| (row, random)) {
            let Some((row, mut random)) = stream else {
                builder.append_null();
                continue;
            };
            text.clear();
            if let ValueKind::Sequence { start, .. } = self.kind {
                text.extend_from_slice(start.wrapping_add(row as i64).to_string().as_bytes());
            } else {
                let length = self.length(&mut random);
                let digits = b"0123456789abcdef";
                text.extend((0..length).map(|_| digits[random.below(16) as usize]));
            }
            builder.append_value(std::str::from_utf8(&text).expect("generated text is ASCII"));
        }
        Arc::new(builder.finish())
    }

    fn bytes(&self, seed: u64, rows: &Rows) -> ArrayRef {
        let values = self.values(seed, rows, |_, mut random| {
            let length = self.length(&mut random);
            (0..length).map(|_| random.next() as u8).collect::<Vec<u8>>()
        });
        Arc::new(values.collect::<BinaryViewArray>())
    }

    fn length(&self, random: &mut Random) -> u64 {
        match self.kind {
            ValueKind::Bytes { length, varies: true } => 1 + random.below(length),
            ValueKind::Bytes { length, varies: false } => length,
            _ => 0,
        }
    }

    /// A row's fields keep their own values; the row is NULL as its null-rate says.
    fn row(&self, seed: u64, rows: &Rows) -> ArrayRef {
        let ValueKind::Row(fields) = &self.kind else {
            let count = (rows.numbers.end - rows.numbers.start) as usize;
            return arrow_array::new_null_array(&self.data_type.to_arrow(), count);
        };
        let arrays: Vec<ArrayRef> = fields.iter().map(|(_, g)| g.column(seed, rows)).collect();
        let valid: NullBuffer =
            self.values(seed, rows, |_, _| ()).map(|value| value.is_some()).collect::<Vec<_>>().into();
        let arrow = fields.iter().map(|(f, _)| f.to_arrow()).collect();
        let valid = (valid.null_count() > 0).then_some(valid);
        Arc::new(StructArray::new(arrow, arrays, valid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use millstream_types::Schema;

    fn decode(fields: Vec<Field>, options: &[(&str, &str)]) -> Result<Vec<Decoded>, Diagnostic> {
        let columns = fields.iter().enumerate().map(|(i, f)| ColumnRequest {
            name: f.name.clone(),
            origin: RequestOrigin::Path(vec![i]),
            data_type: f.data_type.clone(),
            nullable: f.nullable,
        });
        let request = SourceRequest {
            table: "t".into(),
            options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            columns: columns.collect(),
            schema: Schema::new(fields),
            buffer_rows: 64,
            ..SourceRequest::default()
        };
        let mut source = open_source(&request)?;
        let decoder = source.decoder();
        let mut split = source.splits()?.pop().unwrap();
        Ok(std::iter::from_fn(|| split.next().unwrap()).map(|c| decoder.decode(c)).collect())
    }

    #[test]
    fn a_sequence_counts_and_ends_the_stream() {
        let options = [("fields.n.kind", "sequence"), ("fields.n.start", "5"), ("fields.n.end", "104")];
        let decoded = decode(vec![Field::new("n", DataType::BigInt, true)], &options).unwrap();
        let all: Vec<i64> =
            decoded.iter().flat_map(|d| d.columns[0].as_primitive::<Int64Type>().values().to_vec()).collect();
        assert_eq!(all, (5..=104).collect::<Vec<_>>());
    }

    #[test]
    fn every_type_is_generated_with_its_arrow_type() {
        let types = [
            DataType::Boolean,
            DataType::TinyInt,
            DataType::SmallInt,
            DataType::Int,
            DataType::BigInt,
            DataType::Float,
            DataType::Double,
            DataType::decimal(38, 10),
            DataType::Char(3),
            DataType::STRING,
            DataType::BYTES,
            DataType::Date,
            DataType::Time(0),
            DataType::Timestamp(3),
            DataType::Timestamp(6),
            DataType::TimestampLtz(9),
            DataType::IntervalMilli,
            DataType::IntervalMonth,
            DataType::Row(vec![Field::new("a", DataType::Int, true)].into()),
        ];
        let fields = types.iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true)).collect();
        let decoded = decode(fields, &[("number-of-rows", "100")]).unwrap();
        assert_eq!(decoded.iter().map(|d| d.rows).sum::<usize>(), 100);
        for (column, t) in decoded[0].columns.iter().zip(&types) {
            assert_eq!(*column.data_type(), t.to_arrow());
            assert_eq!(column.len(), 64);
        }
    }

    #[test]
    fn ranges_and_null_rates_hold() {
        let options =
            [("number-of-rows", "1000"), ("fields.n.min", "3"), ("fields.n.max", "7"), ("fields.n.null-rate", "0.5")];
        let decoded = decode(vec![Field::new("n", DataType::Int, true)], &options).unwrap();
        let nulls: usize = decoded.iter().map(|d| d.columns[0].null_count()).sum();
        assert!((400..600).contains(&nulls), "{nulls}");
        let in_range =
            |d: &Decoded| d.columns[0].as_primitive::<Int32Type>().iter().flatten().all(|n| (3..=7).contains(&n));
        assert!(decoded.iter().all(in_range));
    }

    #[test]
    fn unusable_options_are_named() {
        let field = || vec![Field::new("n", DataType::TinyInt, true)];
        let error = |options: &[(&str, &str)]| decode(field(), options).unwrap_err().code;
        assert_eq!(error(&[("fields.m.min", "1")]), code::UNKNOWN_OPTION);
        assert_eq!(error(&[("fields.n.mim", "1")]), code::UNKNOWN_OPTION);
        assert_eq!(error(&[("fields.n.min", "-1000")]), code::INVALID_OPTION);
        assert_eq!(error(&[("fields.n.kind", "sequence")]), code::MISSING_OPTION);
        assert_eq!(error(&[("number-of-rows", "many")]), code::INVALID_OPTION);
    }
}
