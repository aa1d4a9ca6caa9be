//! Event times and watermarks of the rows of a source (design section 4).

use crate::bounds::{bounds, widen};
use crate::buffer::{BufferPieces, Piece};
use crate::columns::all_selected;
use crate::executable_plan::{EventTimeColumns, PipelineCode, event_time_columns};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::{Buffer, NullBuffer};
use millstream_abi::{ZONE_ROWS, Zone};
use millstream_codegen::execute::{ColumnZones, Flow, RowError, emit};
use millstream_connectors::InMemory;
use millstream_functions::FunctionContext;
use millstream_plan::expr::ExprKind;
use millstream_plan::pipeline::{SourceColumn, SourceWatermark, WatermarkRule};
use millstream_types::{Diagnostic, RecordField, RecordPlace};
use std::borrow::Cow;
use std::slice::from_ref;
use std::sync::Arc;

/// Largest watermark that rows can bring. `i64::MAX` is the end of input, which no row may claim.
pub(crate) const LAST_WATERMARK: i64 = i64::MAX - 1;
/// The delay of rows that do not raise the watermark.
const HELD: i64 = i64::MAX;
/// Rows of which [`RowTimes::pieces`] looks at the bounds.
const BLOCK: usize = ZONE_ROWS;

/// How a source's event times and watermarks follow from its columns.
pub(crate) struct EventTime {
    /// Column with the time, among the source's columns and the computed one.
    time: usize,
    /// Where it is, if the column is packed records.
    in_record: Option<RecordPlace>,
    /// Milliseconds behind the event time, unless the program computes the watermark.
    delay_ms: i64,
    program: Option<(PipelineCode, EventTimeColumns)>,
}

impl EventTime {
    /// For a source of these columns.
    pub(crate) fn new(
        watermark: &SourceWatermark,
        columns: &[SourceColumn],
        code: Option<PipelineCode>,
    ) -> Result<EventTime, Diagnostic> {
        let time = match watermark.time.kind {
            ExprKind::Column(column) => column,
            _ => columns.len(),
        };
        let in_record = columns.get(time).and_then(|c| c.in_record);
        let delay_ms = match watermark.rule {
            WatermarkRule::Delay(ms) => ms,
            WatermarkRule::Expression(_) | WatermarkRule::ProcessingTime => 0,
        };
        let outputs = event_time_columns(watermark);
        match outputs.is_some() == code.is_some() {
            true => Ok(EventTime { time, in_record, delay_ms, program: code.zip(outputs) }),
            false => Err(Diagnostic::bug(
                "a source has an event-time program exactly when its time or watermark is computed",
            )),
        }
    }

    /// Computes the times of a chunk's rows, which may be those of a table in memory. Gives its columns, and the time when it is
    /// computed; the rows that are left; and the times and watermarks of all of them. Rows whose time cannot be computed are left out
    /// when `on_error` says so.
    pub(crate) fn attach(
        &self,
        mut columns: Vec<ArrayRef>,
        mut rows: usize,
        in_memory: Option<&InMemory>,
        functions: &mut FunctionContext,
        on_error: &mut dyn FnMut(RowError) -> Flow,
    ) -> Result<(Vec<ArrayRef>, usize, RowTimes), Diagnostic> {
        let mut watermark = None;
        if let Some((code, outputs)) = &self.program {
            let kernel = code.kernel();
            let emitted = emit(&code.lowered, &*kernel, &columns, rows, &[i64::MIN], functions, on_error)?;
            if emitted.rows != rows {
                let kept = UInt32Array::from(emitted.selection.into_vec());
                columns = all_selected(&columns, &kept)?;
                rows = emitted.rows;
            }
            watermark = outputs.watermark.map(|i| Millis::of(&emitted.columns[i], None)).transpose()?;
            columns.extend(outputs.time.map(|i| emitted.columns[i].clone()));
        }
        let time = columns.get(self.time).ok_or_else(|| Diagnostic::bug("the event-time column does not exist"))?;
        let time = Millis::of(time, self.in_record)?;
        let times = match watermark {
            Some(watermark) => RowTimes::new(time, watermark, 0),
            None => RowTimes::of_column(self.time, time, self.delay_ms, in_memory),
        };
        Ok((columns, rows, times))
    }
}

/// Milliseconds of rows: a column of them, or a field of packed records.
#[derive(Debug, Clone)]
struct Millis {
    /// The values, or the records.
    bytes: Buffer,
    place: RecordPlace,
    nulls: Option<NullBuffer>,
}

/// Where the values of a column are: each is a record of itself.
const PLAIN: RecordPlace = RecordPlace { length: 8, field: RecordField { offset: 0, width: 8 } };

impl Millis {
    /// Of a column, or of packed records that have them at a place.
    fn of(column: &ArrayRef, in_record: Option<RecordPlace>) -> Result<Millis, Diagnostic> {
        let no_times = || Diagnostic::bug(format!("event time of type {} is not in milliseconds", column.data_type()));
        if let Some(place) = in_record {
            let records = column.as_fixed_size_binary_opt().ok_or_else(no_times)?;
            let bytes = records.values().slice_with_length(0, records.len() * place.length);
            return Ok(Millis { bytes, place, nulls: None });
        }
        let values = if let Some(times) = column.as_primitive_opt::<TimestampMillisecondType>() {
            times.values()
        } else {
            column.as_primitive_opt::<Int64Type>().ok_or_else(no_times)?.values()
        };
        Ok(Millis { bytes: values.inner().clone(), place: PLAIN, nulls: column.nulls().cloned() })
    }

    fn rows(&self) -> usize {
        self.bytes.len() / self.place.length
    }

    /// The value of each row, whatever it is where there is none.
    #[inline]
    fn values(&self) -> impl Iterator<Item = i64> {
        let RecordPlace { length, field } = self.place;
        self.bytes.chunks_exact(length).map(move |record| value(record, field))
    }

    fn slice(&self, offset: usize, rows: usize) -> Millis {
        let length = self.place.length;
        let nulls = self.nulls.as_ref().map(|n| n.slice(offset, rows));
        Millis { bytes: self.bytes.slice_with_length(offset * length, rows * length), place: self.place, nulls }
    }

    /// The values, if they are a column of their own without NULL.
    fn plain(&self) -> Option<&[i64]> {
        // Records of one column may begin at any address.
        let is_plain = self.nulls.as_ref().is_none_or(|nulls| nulls.null_count() == 0)
            && self.place == PLAIN
            && self.bytes.as_ptr().cast::<i64>().is_aligned();
        is_plain.then(|| self.bytes.typed_data())
    }

    /// Smallest and largest value that is not NULL.
    fn bounds(&self) -> Option<(i64, i64)> {
        if let Some(values) = self.plain() {
            return bounds(values);
        }
        if let Some(nulls) = &self.nulls {
            let mut valid = self.values().enumerate().filter(|&(row, _)| nulls.is_valid(row)).map(|(_, value)| value);
            let first = valid.next()?;
            return Some(valid.fold((first, first), widen));
        }
        bounds_in_records(&self.bytes, self.place)
    }
}

#[inline(always)]
fn value(record: &[u8], field: RecordField) -> i64 {
    let bytes = &record[field.offset..field.offset + size_of::<i64>()];
    i64::from_le_bytes(bytes.try_into().expect("a slice of eight bytes has eight bytes"))
}

/// Smallest and largest value in records. Bound by memory, so a few comparisons at a time will do.
fn bounds_in_records(records: &[u8], place: RecordPlace) -> Option<(i64, i64)> {
    const LANES: usize = 4;
    let RecordPlace { length, field } = place;
    let first = value(records.chunks_exact(length).next()?, field);
    let mut lanes = [(first, first); LANES];
    let mut blocks = records.chunks_exact(LANES * length);
    for block in &mut blocks {
        for (lane, record) in lanes.iter_mut().zip(block.chunks_exact(length)) {
            *lane = widen(*lane, value(record, field));
        }
    }
    let rest = blocks.remainder().chunks_exact(length).map(|record| value(record, field));
    let rest = rest.fold((first, first), widen);
    Some(lanes.into_iter().fold(rest, |(least, most), lane| (least.min(lane.0), most.max(lane.1))))
}

/// Event times and watermarks of the rows of one buffer.
#[derive(Debug, Clone)]
pub(crate) struct RowTimes {
    time: Millis,
    /// A row's watermark is this minus `delay_ms`.
    watermark: Millis,
    delay_ms: i64,
    min_time: i64,
    pub(crate) max_watermark: i64,
    /// Of the times, if they are a column without NULL, which the watermarks follow.
    zones: Option<TimeZones>,
}

/// Bounds of a column of times in each [`ZONE_ROWS`] rows.
#[derive(Debug, Clone)]
pub(crate) struct TimeZones {
    column: usize,
    zones: Arc<[Zone]>,
    /// The zone of the first row.
    first: usize,
    /// Rows of the column.
    rows: usize,
}

impl TimeZones {
    /// For programs.
    pub(crate) fn of_column(&self) -> ColumnZones<'_> {
        ColumnZones { column: self.column, zones: &self.zones[self.first..] }
    }
}

impl RowTimes {
    /// The same times, which do not raise the watermark.
    pub(crate) fn held(self) -> RowTimes {
        RowTimes { delay_ms: HELD, max_watermark: i64::MIN, ..self }
    }

    /// Times that are a column of the buffer, and that watermarks follow by a delay. Its values are read once, by zones; of a table in
    /// memory once for all queries.
    fn of_column(column: usize, time: Millis, delay_ms: i64, in_memory: Option<&InMemory>) -> RowTimes {
        let Some(values) = time.plain() else { return RowTimes::new(time.clone(), time, delay_ms) };
        let zone = |values: &[i64]| bounds(values).map(|(least, most)| Zone { least, most });
        let zones = || -> Arc<[Zone]> { values.chunks(ZONE_ROWS).filter_map(zone).collect() };
        let zones = in_memory.map_or_else(zones, |memory| memory.keep(&time.bytes, zones));
        let rows = values.len();
        RowTimes::of_zones(time, delay_ms, TimeZones { column, zones, first: 0, rows })
    }

    fn of_zones(time: Millis, delay_ms: i64, zones: TimeZones) -> RowTimes {
        let (rows, mut all) = (time.rows(), None::<(i64, i64)>);
        let count = rows.div_ceil(ZONE_ROWS);
        for (number, zone) in zones.of_column().zones[..count].iter().enumerate() {
            // Of a zone that ends behind the last row only that part counts.
            let of_zone = number * ZONE_ROWS..rows.min((number + 1) * ZONE_ROWS);
            let ends_column = zones.first * ZONE_ROWS + rows == zones.rows;
            let is_whole = of_zone.len() == ZONE_ROWS || ends_column;
            let (least, most) = match time.plain().filter(|_| !is_whole).and_then(|values| bounds(&values[of_zone])) {
                Some(bounds) => bounds,
                None => (zone.least, zone.most),
            };
            all = Some(all.map_or((least, most), |(low, high)| (low.min(least), high.max(most))));
        }
        let (min_time, most) = all.unwrap_or((i64::MAX, i64::MIN));
        let max_watermark = if all.is_some() { delayed(most, delay_ms) } else { i64::MIN };
        RowTimes { watermark: time.clone(), time, delay_ms, min_time, max_watermark, zones: Some(zones) }
    }

    /// Of rows with these times.
    #[cfg(test)]
    pub(crate) fn in_order(times: &[i64], delay_ms: i64) -> RowTimes {
        let column: ArrayRef = Arc::new(arrow_array::TimestampMillisecondArray::from(times.to_vec()));
        let time = Millis::of(&column, None).expect("a column of times has times");
        RowTimes::new(time.clone(), time, delay_ms)
    }

    /// Bounds of the times from a row on, if they are known.
    pub(crate) fn zones(&self, first: usize) -> Option<TimeZones> {
        let zones = self.zones.as_ref().filter(|_| first.is_multiple_of(ZONE_ROWS))?;
        Some(TimeZones { first: zones.first + first / ZONE_ROWS, ..TimeZones::clone(zones) })
    }

    fn new(time: Millis, watermark: Millis, delay_ms: i64) -> RowTimes {
        let bounds = time.bounds();
        let is_same = time.bytes.ptr_eq(&watermark.bytes);
        let max_watermark = if is_same { bounds } else { watermark.bounds() };
        let min_time = bounds.map_or(i64::MAX, |(least, _)| least);
        // The subtraction is monotone, so the largest value has the largest watermark.
        let max_watermark = max_watermark.map_or(i64::MIN, |(_, most)| delayed(most, delay_ms));
        RowTimes { time, watermark, delay_ms, min_time, max_watermark, zones: None }
    }

    /// Those of some of the rows.
    pub(crate) fn slice(&self, offset: usize, length: usize) -> RowTimes {
        if offset == 0 && length == self.time.rows() {
            return self.clone();
        }
        if let Some(zones) = self.zones(offset) {
            return RowTimes::of_zones(self.time.slice(offset, length), self.delay_ms, zones);
        }
        RowTimes::new(self.time.slice(offset, length), self.watermark.slice(offset, length), self.delay_ms)
    }

    /// The rows in pieces: where the advance of the watermark among them can decide about the windows of one of them, with
    /// the watermark before each row, elsewhere with that before the first.
    ///
    /// `counts_from` gives the lowest watermark that changes to which windows a row of a time belongs; it grows with the
    /// time. So if even the smallest time is not touched by the largest watermark that any row can see, the advance
    /// changes nothing. Where that does not hold of all rows, it mostly does of each block: rows out of order are early or
    /// late by more than a block.
    pub(crate) fn pieces<'b>(&self, before: &'b i64, counts_from: impl Fn(i64) -> i64) -> BufferPieces<'b> {
        let rows = self.time.rows();
        if self.max_watermark <= *before || counts_from(self.min_time) > self.max_watermark {
            return BufferPieces::One(Piece { first: 0, rows, watermarks: Cow::Borrowed(from_ref(before)) });
        }
        let single = |first, rows, watermark| Piece { first, rows, watermarks: Cow::Owned(vec![watermark]) };
        let (mut pieces, mut highest): (Vec<Piece<'b>>, i64) = (Vec::new(), *before);
        for first in (0..rows).step_by(BLOCK) {
            let block = self.slice(first, BLOCK.min(rows - first));
            let (count, watermark) = (block.time.rows(), highest);
            highest = highest.max(block.max_watermark);
            let decides = highest > watermark && counts_from(block.min_time) <= highest;
            // Whether the watermark before the piece so far decides about the block as that before the block does.
            let joins = |last: &Piece| {
                let one = last.watermarks.len() == 1;
                one && !decides && (last.watermarks[0] == watermark || counts_from(block.min_time) > highest)
            };
            match pieces.last_mut() {
                Some(last) if joins(last) => last.rows += count,
                _ if decides => pieces.push(Piece {
                    first,
                    rows: count,
                    watermarks: Cow::Owned(block.watermarks_before(watermark)),
                }),
                _ => pieces.push(single(first, count, watermark)),
            }
        }
        BufferPieces::Several(pieces)
    }

    /// How many rows come before the first that the watermark before it has reached `until` of, given that before the first.
    pub(crate) fn rows_before(&self, before: i64, until: i64) -> usize {
        let rows = self.time.rows();
        if before >= until {
            return 0;
        } else if self.max_watermark < until {
            return rows;
        }
        let is_valid = |row: usize| self.watermark.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let mut watermarks = self.watermark.values().enumerate();
        let reaching = watermarks.position(|(row, value)| is_valid(row) && delayed(value, self.delay_ms) >= until);
        reaching.map_or(rows, |row| row + 1)
    }

    /// The watermark before each row, given the one before the first: the running maximum.
    pub(crate) fn watermarks_before(&self, before: i64) -> Vec<i64> {
        let mut running = before;
        let is_valid = |i: usize| self.watermark.nulls.as_ref().is_none_or(|n| n.is_valid(i));
        let step = |(i, value): (usize, i64)| {
            let before_row = running;
            if is_valid(i) {
                running = running.max(delayed(value, self.delay_ms));
            }
            before_row
        };
        self.watermark.values().enumerate().map(step).collect()
    }
}

fn delayed(value: i64, delay_ms: i64) -> i64 {
    if delay_ms == HELD { i64::MIN } else { value.saturating_sub(delay_ms).min(LAST_WATERMARK) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{FixedSizeBinaryArray, TimestampMillisecondArray};
    use std::sync::Arc;

    fn times(values: Vec<Option<i64>>, delay_ms: i64) -> RowTimes {
        let column: ArrayRef = Arc::new(TimestampMillisecondArray::from(values));
        let time = Millis::of(&column, None).unwrap();
        RowTimes::new(time.clone(), time, delay_ms)
    }

    #[test]
    fn watermarks_are_the_running_maximum_before_each_row() {
        let times = times(vec![Some(10), None, Some(30), Some(20), Some(40)], 5);
        assert_eq!(times.watermarks_before(i64::MIN), [i64::MIN, 5, 5, 25, 25]);
        assert_eq!(times.watermarks_before(7), [7, 7, 7, 25, 25]);
        assert_eq!((times.min_time, times.max_watermark), (10, 35));
        let rows = [i64::MIN, 5, 6, 25, 26, 35, 36].map(|until| times.rows_before(i64::MIN, until));
        assert_eq!(rows, [0, 1, 3, 3, 5, 5, 5], "up to the row that brings it");
        assert_eq!(times.rows_before(6, 6), 0);
        let part = times.slice(1, 2);
        assert_eq!((part.min_time, part.max_watermark), (30, 25));
    }

    #[test]
    fn rows_that_are_held_do_not_raise_the_watermark() {
        let times = RowTimes::in_order(&[10, i64::MAX, 30], 5).held();
        for times in [times.slice(1, 2), times] {
            assert_eq!((times.max_watermark, times.rows_before(7, 8)), (i64::MIN, times.time.rows()));
            assert!(times.watermarks_before(7).iter().all(|watermark| *watermark == 7));
            assert_eq!(
                times.pieces(&7, |time| time).into_iter().map(|piece| piece.watermarks.len()).collect::<Vec<_>>(),
                [1]
            );
        }
    }

    #[test]
    fn zones_are_those_of_the_rows_that_are_left() {
        let values: Vec<i64> = (0..3000).map(|i| (i * 7919) % 100_003).collect();
        let column: ArrayRef = Arc::new(TimestampMillisecondArray::from(values.clone()));
        let times = RowTimes::of_column(4, Millis::of(&column, None).unwrap(), 5, None);
        for (first, rows) in
            [(0, 3000), (0, 1024), (0, 1), (0, 2999), (1024, 1976), (1024, 1500), (2048, 952), (7, 900)]
        {
            let part = times.slice(first, rows);
            let (least, most) = bounds(&values[first..first + rows]).unwrap();
            assert_eq!((part.min_time, part.max_watermark), (least, most - 5), "{rows} rows from {first}");
            let zones = part.zones(0);
            assert_eq!(zones.is_some(), first % ZONE_ROWS == 0);
            for (zone, values) in
                zones.iter().flat_map(|z| z.of_column().zones.iter().zip(values[first..].chunks(1024)))
            {
                assert_eq!(bounds(values), Some((zone.least, zone.most)));
            }
            assert!(part.zones(3).is_none());
        }
    }

    #[test]
    fn rows_have_their_own_watermarks_only_where_the_advance_overtakes_them() {
        // Windows of 100 ms; rows in order, or some of them before their turn, by less than the watermark is behind.
        let counts_from = |time: i64| time.div_euclid(100) * 100 + 99;
        let pieces = |times: Vec<i64>, delay_ms, before| {
            let exact = self::times(times.iter().copied().map(Some).collect(), delay_ms).watermarks_before(before);
            let pieces = self::times(times.iter().copied().map(Some).collect(), delay_ms)
                .pieces(&before, counts_from)
                .into_iter()
                .collect::<Vec<_>>();
            let mut next = 0;
            for piece in &pieces {
                assert_eq!(piece.first, next);
                next += piece.rows;
                for row in 0..piece.rows {
                    let watermark = piece.watermarks[if piece.watermarks.len() == 1 { 0 } else { row }];
                    let (time, exact) = (times[piece.first + row], exact[piece.first + row]);
                    assert_eq!(counts_from(time) <= watermark, counts_from(time) <= exact, "row {row} of {piece:?}");
                }
            }
            assert_eq!(next, times.len());
            pieces.iter().map(|piece| (piece.rows, piece.watermarks.len())).collect::<Vec<_>>()
        };
        let rows = 4 * BLOCK as i64;
        let in_order = |step: i64| (0..rows).map(move |row| row / step).collect::<Vec<_>>();
        let early =
            |by: i64| in_order(10).into_iter().enumerate().map(move |(i, t)| t + if i % 7 == 0 { by } else { 0 });
        let whole = [(4 * BLOCK, 1)];
        assert_eq!(pieces(in_order(1000), 1, i64::MIN), whole, "all in the first window");
        let exact = [(BLOCK, BLOCK), (BLOCK, BLOCK), (BLOCK, BLOCK), (BLOCK, BLOCK)];
        assert_eq!(pieces(in_order(10), 1, i64::MIN), exact, "a window ends within each block");
        let some = [(2 * BLOCK, 1), (BLOCK, BLOCK), (BLOCK, 1)];
        assert_eq!(pieces(in_order(25), 1, i64::MIN), some, "a window ends within the third block");
        assert_eq!(pieces(in_order(10), 1, 500), whole, "the watermark does not advance");
        assert_eq!(pieces(in_order(10), 110, i64::MIN).iter().map(|p| p.1).max(), Some(1), "no row is overtaken");
        assert_eq!(pieces(early(100).collect(), 210, i64::MIN).iter().map(|p| p.1).max(), Some(1));
        assert!(pieces(early(100).collect(), 100, i64::MIN).iter().any(|p| p.1 > 1));
    }

    #[test]
    fn times_in_records_are_those_of_a_column() {
        let values: Vec<i64> = (0..3000).map(|i| i * 7 % 1000 + i).collect();
        let column = times(values.iter().copied().map(Some).collect(), 5);
        // A field behind another one, and records of one column that begin at an odd address.
        for (length, offset, start) in [(13, 3, 0), (8, 0, 1)] {
            let mut bytes = vec![0xEE; start + values.len() * length];
            for (record, value) in bytes[start..].chunks_exact_mut(length).zip(&values) {
                record[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
            }
            let place = RecordPlace { length, field: RecordField { offset, width: 8 } };
            let records = FixedSizeBinaryArray::new(length as i32, Buffer::from_vec(bytes).slice(start), None);
            let time = Millis::of(&(Arc::new(records) as ArrayRef), Some(place)).unwrap();
            let packed = RowTimes::new(time.clone(), time, 5);
            for (first, rows) in [(0, 3000), (1, 2), (1500, 1025)] {
                let (packed, column) = (packed.slice(first, rows), column.slice(first, rows));
                assert_eq!((packed.min_time, packed.max_watermark), (column.min_time, column.max_watermark));
                assert_eq!(packed.watermarks_before(100), column.watermarks_before(100));
            }
        }
    }

    #[test]
    fn extreme_times_neither_overflow_nor_end_the_input() {
        let extreme = times(vec![Some(i64::MAX), Some(i64::MIN)], -1);
        assert_eq!(extreme.max_watermark, LAST_WATERMARK);
        let extreme = times(vec![Some(i64::MIN)], 1);
        assert_eq!(extreme.watermarks_before(i64::MIN), [i64::MIN]);
        assert_eq!(times(vec![None], 0).min_time, i64::MAX);
    }
}
