//! The `nexmark` connector: an endless or bounded stream of auction events, made by the workers themselves.
//!
//! The table has an integer column `event_type` (0 person, 1 auction, 2 bid) and the rows `person`, `auction` and
//! `bid`, of which all but one are NULL in each row. Only columns that the query reads are generated. The stream is
//! one split: the same options give the same rows in the same order.

mod model;

use crate::{Chunk, ColumnRequest, Decoded, Decoder, RequestOrigin, Source, SourceRequest, SplitReader};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{
    Array, ArrayRef, Int16Array, Int32Array, Int64Array, Int8Array, StructArray, TimestampMillisecondArray,
};
use arrow_buffer::NullBuffer;
use millstream_types::{DataType, Diagnostic, Field, Options, Schema, code};
use model::{EventField, Kind, Model};
use std::sync::Arc;

/// 2015-07-15 00:00:00 UTC, as in Beam's Nexmark.
const BASE_TIME_MS: i64 = 1_436_918_400_000;

/// The options: key, default, meaning.
pub(crate) const OPTIONS: &[(&str, &str, &str)] = &[
    ("events.num", "0", "Number of events; 0 for an endless stream"),
    ("first-event.rate", "10000", "Events per second of event time"),
    ("next-event.rate", "first-event.rate", "Must equal first-event.rate: the rate is constant"),
    ("rate.limited", "false", "Whether events are also produced at that rate, in real time"),
    ("person.proportion", "1", "Persons in each round of events"),
    ("auction.proportion", "3", "Auctions in each round of events"),
    ("bid.proportion", "46", "Bids in each round of events"),
    ("bid.hot-ratio.auctions", "2", "One of this many bids goes to any auction, the others to a hot one"),
    ("bid.hot-ratio.bidders", "4", "One of this many bids comes from any person, the others from a hot one"),
    ("auction.hot-ratio.sellers", "4", "One of this many auctions is of any person, the others of a hot one"),
    ("person.avg-size", "200", "Average size of a person in bytes"),
    ("auction.avg-size", "500", "Average size of an auction in bytes"),
    ("bid.avg-size", "100", "Average size of a bid in bytes"),
    ("base-time", "2015-07-15 00:00:00", "Event time of the first event: epoch milliseconds, or now"),
    ("seed", "0", "Another seed gives other data"),
];

/// Opens the generator.
pub(crate) fn open_source(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let options = &request.options;
    let model = model_of(options)?;
    let events: u64 = options.parse("events.num", 0)?;
    let columns = request.columns.iter().map(|c| column(c, &request.schema, &request.table)).collect::<Result<_, _>>()?;
    let rows = if request.buffer_rows == 0 { crate::CHUNK_ROWS } else { request.buffer_rows.min(crate::CHUNK_ROWS) };
    Ok(Box::new(NexmarkSource { generator: Arc::new(Generator { model, columns }), events, rows: rows as u64 }))
}

/// The rate at which rows must be handed out, if the table asks for real time.
pub(crate) fn rate_limit(options: &Options) -> Result<Option<u64>, Diagnostic> {
    Ok(if options.boolean("rate.limited", false)? { Some(options.parse("first-event.rate", 10_000)?) } else { None })
}

fn model_of(options: &Options) -> Result<Model, Diagnostic> {
    let rate: u64 = options.parse("first-event.rate", 10_000)?;
    if rate == 0 {
        return Err(options.invalid("first-event.rate", "a positive number"));
    }
    if options.parse("next-event.rate", rate)? != rate {
        return Err(options.invalid("next-event.rate", "the same as 'first-event.rate': the rate is constant"));
    }
    let ratio = |key, default| match options.parse(key, default)? {
        0u64 => Err(options.invalid(key, "a positive number")),
        ratio => Ok(ratio),
    };
    let share = |key, default| match options.parse(key, default)? {
        n @ 0..=1_000_000u64 => Ok(n),
        _ => Err(options.invalid(key, "between 0 and 1000000")),
    };
    let base_time_ms = match options.get("base-time") {
        None => BASE_TIME_MS,
        Some("now") => now_ms(),
        Some(_) => options.parse("base-time", BASE_TIME_MS)?,
    };
    let model = Model {
        seed: options.parse("seed", 0)?,
        base_time_ms,
        rate,
        persons: ratio("person.proportion", 1)?.min(1_000_000),
        auctions: share("auction.proportion", 3)?,
        bids: share("bid.proportion", 46)?,
        hot_auction_ratio: ratio("bid.hot-ratio.auctions", 2)?,
        hot_bidder_ratio: ratio("bid.hot-ratio.bidders", 4)?,
        hot_seller_ratio: ratio("auction.hot-ratio.sellers", 4)?,
        person_bytes: share("person.avg-size", 200)? as usize,
        auction_bytes: share("auction.avg-size", 500)? as usize,
        bid_bytes: share("bid.avg-size", 100)? as usize,
    };
    Ok(model)
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(BASE_TIME_MS, |d| d.as_millis() as i64)
}

struct NexmarkSource {
    generator: Arc<Generator>,
    /// 0: endless.
    events: u64,
    rows: u64,
}

impl Source for NexmarkSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let end = if self.events == 0 { u64::MAX } else { self.events };
        Ok(vec![Box::new(Numbers { next: 0, end, rows: self.rows })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.generator.clone()
    }

    fn is_bounded(&self) -> bool {
        self.events != 0
    }
}

/// Hands out ranges of event numbers.
struct Numbers {
    next: u64,
    end: u64,
    rows: u64,
}

impl SplitReader for Numbers {
    fn name(&self) -> &str {
        "nexmark"
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        if self.next == self.end {
            return Ok(None);
        }
        let range = self.next..self.end.min(self.next.saturating_add(self.rows));
        self.next = range.end;
        Ok(Some(Chunk { payload: Box::new(range), bytes: 0 }))
    }
}

/// Makes the columns of a range of events.
struct Generator {
    model: Model,
    columns: Vec<Column>,
}

/// A column to generate.
enum Column {
    EventType(DataType),
    /// One field of the events of a kind.
    Leaf(Kind, EventField, DataType),
    /// All fields of the events of a kind.
    Row(Kind, Vec<(Field, EventField)>),
}

fn column(request: &ColumnRequest, schema: &Schema, table: &str) -> Result<Column, Diagnostic> {
    let unknown = |name: &str| {
        Diagnostic::new(code::INVALID_TABLE, format!("the nexmark generator has no column '{name}' (table {table})"))
            .advise("columns are event_type INT and the ROWs person, auction and bid; see docs/connectors.md")
    };
    let RequestOrigin::Path(path) = &request.origin else { return Err(unknown(&request.name)) };
    let top = &schema.fields[path[0]];
    if top.name == "event_type" && top.data_type.is_integer() {
        return Ok(Column::EventType(top.data_type.clone()));
    }
    let kind = match top.name.as_str() {
        "person" => Kind::Person,
        "auction" => Kind::Auction,
        "bid" => Kind::Bid,
        _ => return Err(unknown(&request.name)),
    };
    let DataType::Row(fields) = &top.data_type else { return Err(unknown(&request.name)) };
    let leaf = |field: &Field| {
        let known = EventField::of(kind, &field.name).ok_or_else(|| unknown(&format!("{}.{}", top.name, field.name)))?;
        let fits = if known.is_text() {
            field.data_type.is_string()
        } else {
            let is_milli = |t: &DataType| matches!(t, DataType::Timestamp(0..=3) | DataType::TimestampLtz(0..=3));
            field.data_type.is_integer() || known.is_time() && is_milli(&field.data_type)
        };
        if fits {
            return Ok(known);
        }
        let expected = if known.is_text() {
            "STRING"
        } else if known.is_time() {
            "BIGINT or TIMESTAMP(3)"
        } else {
            "BIGINT"
        };
        Err(Diagnostic::new(
            code::INVALID_TABLE,
            format!("column '{}.{}' of the nexmark generator cannot be {}", top.name, field.name, field.data_type),
        )
        .advise(format!("declare it as {expected}")))
    };
    match path.len() {
        1 => {
            let all = fields.iter().map(|f| Ok((f.clone(), leaf(f)?))).collect::<Result<Vec<_>, Diagnostic>>()?;
            Ok(Column::Row(kind, all))
        }
        _ => Ok(Column::Leaf(kind, leaf(&fields[path[1]])?, fields[path[1]].data_type.clone())),
    }
}

impl Decoder for Generator {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Ok(range) = chunk.payload.downcast::<std::ops::Range<u64>>() else {
            let error = Diagnostic::bug("a chunk of another source reached the nexmark generator");
            return Decoded { error: Some(error), ..Decoded::default() };
        };
        let events = *range;
        let columns = self.columns.iter().map(|c| self.generate(c, events.clone())).collect();
        Decoded { columns, rows: (events.end - events.start) as usize, skipped: 0, error: None }
    }
}

impl Generator {
    fn generate(&self, column: &Column, events: std::ops::Range<u64>) -> ArrayRef {
        match column {
            Column::EventType(data_type) => {
                integers(data_type, events.map(|e| Some(self.model.kind(e) as i64)))
            }
            Column::Leaf(kind, field, data_type) => self.leaf(*kind, *field, data_type, events),
            Column::Row(kind, fields) => {
                let arrays = fields.iter().map(|(f, known)| self.leaf(*kind, *known, &f.data_type, events.clone()));
                let valid: NullBuffer = events.clone().map(|e| self.model.kind(e) == *kind).collect::<Vec<_>>().into();
                let arrow = fields.iter().map(|(f, _)| f.to_arrow()).collect();
                Arc::new(StructArray::new(arrow, arrays.collect(), Some(valid)))
            }
        }
    }

    fn leaf(&self, kind: Kind, field: EventField, data_type: &DataType, events: std::ops::Range<u64>) -> ArrayRef {
        let model = &self.model;
        if field.is_text() {
            let mut builder = StringViewBuilder::with_capacity((events.end - events.start) as usize);
            let mut text = Vec::new();
            for event in events {
                if model.kind(event) != kind {
                    builder.append_null();
                    continue;
                }
                text.clear();
                model.text(kind, event, field, &mut text);
                builder.append_value(std::str::from_utf8(&text).expect("generated text is ASCII"));
            }
            return Arc::new(builder.finish());
        }
        let values = events.map(|e| (model.kind(e) == kind).then(|| model.number(kind, e, field)));
        integers(data_type, values)
    }
}

/// A column of an integer or millisecond timestamp type.
fn integers(data_type: &DataType, values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    match data_type {
        DataType::TinyInt => Arc::new(values.map(|v| v.map(|n| n as i8)).collect::<Int8Array>()),
        DataType::SmallInt => Arc::new(values.map(|v| v.map(|n| n as i16)).collect::<Int16Array>()),
        DataType::Int => Arc::new(values.map(|v| v.map(|n| n as i32)).collect::<Int32Array>()),
        DataType::Timestamp(_) => Arc::new(values.collect::<TimestampMillisecondArray>()),
        DataType::TimestampLtz(_) => Arc::new(values.collect::<TimestampMillisecondArray>().with_timezone("UTC")),
        _ => Arc::new(values.collect::<Int64Array>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    fn request(columns: &[&[usize]]) -> SourceRequest {
        let bid = DataType::Row(
            vec![
                Field::new("auction", DataType::BigInt, true),
                Field::new("channel", DataType::STRING, true),
                Field::new("dateTime", DataType::Timestamp(3), true),
            ]
            .into(),
        );
        let schema =
            Schema::new(vec![Field::new("event_type", DataType::Int, true), Field::new("bid", bid.clone(), true)]);
        let request = |path: &&[usize]| ColumnRequest {
            name: "c".into(),
            origin: RequestOrigin::Path(path.to_vec()),
            data_type: DataType::BigInt,
            nullable: true,
        };
        let options = [("events.num", "1000")].map(|(k, v)| (k.to_string(), v.to_string())).into_iter().collect();
        let columns = columns.iter().map(request).collect();
        SourceRequest { table: "t".into(), options, schema, columns, buffer_rows: 300 }
    }

    fn decode_all(request: &SourceRequest) -> Vec<Decoded> {
        let mut source = open_source(request).unwrap();
        let decoder = source.decoder();
        let mut split = source.splits().unwrap().pop().unwrap();
        std::iter::from_fn(|| split.next().unwrap()).map(|c| decoder.decode(c)).collect()
    }

    #[test]
    fn rows_of_other_kinds_are_null() {
        let decoded = decode_all(&request(&[&[0], &[1, 0], &[1]]));
        assert_eq!(decoded.iter().map(|d| d.rows).collect::<Vec<_>>(), [300, 300, 300, 100]);
        let first = &decoded[0];
        assert_eq!(first.columns[1].null_count(), 6 * 4);
        assert_eq!(first.columns[2].null_count(), 6 * 4);
        let leaf = first.columns[1].as_primitive::<Int64Type>();
        assert_eq!(first.columns[2].as_struct().column(0).as_primitive::<Int64Type>(), leaf);
    }

    #[test]
    fn a_column_of_another_type_is_refused() {
        let mut wrong = request(&[&[1, 0]]);
        wrong.options.set("person.proportion", "0");
        assert_eq!(open_source(&wrong).err().unwrap().code, code::INVALID_OPTION);
        let mut wrong = request(&[&[0]]);
        wrong.schema.fields[0].name = "kind".into();
        assert_eq!(open_source(&wrong).err().unwrap().code, code::INVALID_TABLE);
    }
}
