//! Taxi trips in New York (Zeuch et al., section 5.1).

use crate::by_hand::{
    BLOCK, Layout, RealSum, Records, Target, one_window, output, read_f64, read_i32, read_i64, select_by_two, systems,
    write_i64,
};
use crate::iterator::{Aggregate, Comparison, Expression, Filter, Scan, Windows, drain};
use crate::suite::{Across, Benchmark, Case, Checksum, Failure, Kind, Random, Runs, Suite, System, query, session};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::ops::Range;
use std::sync::Arc;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "nyt",
    title: "taxi trips (Zeuch, section 5.1)",
    data: "24 M trips in memory with the columns that the taxi commission published for 2009 to 2013, and the region of the
           pickup (1,000 at random): half of the vendors are VTS, one trip in five is longer than 5 miles; 200 rows a millisecond
           of event time (dropoff). As columns (the query touches 36 bytes of a row) and as packed records of 148 bytes",
    query: "trips and their mean distance for vendor VTS per region, of trips over 5 miles, in the last 2 s, every second",
    measured: "the whole statement, its rows added up. By hand: slices of a second in tables of each thread (columnar, row), in
               tables of atomics (/global), with rows exchanged by region first (/partition)",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 24_000_000;
const ROWS_PER_MS: u64 = 200;
const REGIONS: u64 = 1000;
const BATCH: usize = 64 << 10;
const SLIDE_MS: i64 = 1000;
const SLIDES: i64 = 2;
const LONG_MILES: f64 = 5.0;
/// Distances are multiples of this, so that their sums are exact in any order.
const MILE_PARTS: f64 = 64.0;
const LONGEST_MILES: u64 = 6;
/// View of the vendor, region, distance, time.
const BYTES_PER_ROW: u64 = 16 + 4 + 8 + 8;
/// Rows of the iterators are fewer by this.
const ITERATOR_SHARE: u64 = 16;

const COLUMNS: &str = "medallion STRING NOT NULL, hack_license STRING NOT NULL, vendor_id STRING NOT NULL,
    rate_code INT NOT NULL, store_and_fwd_flag STRING NOT NULL, pickup_datetime TIMESTAMP(3) NOT NULL,
    dropoff_datetime TIMESTAMP(3) NOT NULL, passenger_count INT NOT NULL, trip_time_in_secs INT NOT NULL,
    trip_distance DOUBLE NOT NULL, pickup_longitude DOUBLE NOT NULL, pickup_latitude DOUBLE NOT NULL,
    dropoff_longitude DOUBLE NOT NULL, dropoff_latitude DOUBLE NOT NULL, fare_amount DOUBLE NOT NULL,
    pickup_region INT NOT NULL, WATERMARK FOR dropoff_datetime AS dropoff_datetime - INTERVAL '0.001' SECOND";
/// Places of the columns that the query reads.
const VENDOR: usize = 2;
const TIME: usize = 6;
const DISTANCE: usize = 9;
const REGION: usize = 15;

const QUERY: &str = "SELECT pickup_region, window_start, COUNT(*), AVG(trip_distance)
    FROM TABLE(HOP(TABLE trips, DESCRIPTOR(dropoff_datetime), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
    WHERE vendor_id = 'VTS' AND trip_distance > 5 GROUP BY pickup_region, window_start, window_end";

/// A record: two texts of 32 bytes, the vendor in 4, and the numbers.
const RECORD: usize = 148;
const VENDOR_AT: usize = 64;
const TIME_AT: usize = 80;
const DISTANCE_AT: usize = 96;
const REGION_AT: usize = 144;

/// Runs all systems over each layout.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let (rows, counts) = (suite.rows(ROWS), suite.thread_counts());
    let batches = suite.generate("columns", || generate(rows, ROWS_PER_MS))?;
    let records = &suite.generate("records", || records(&batches));
    let mut case = Case::new("trips", rows).limited_by_memory(BYTES_PER_ROW, &counts);
    for threads in counts {
        case = case.with(engine(&batches, threads)?).with_all(by_hand("columnar", Columns(&batches), threads));
        let of_rows = by_hand("row", Rows { records, end_ms: Columns(&batches).end_ms() }, threads);
        case = case.with_all(of_rows.into_iter().map(|system| system.touching(rows * RECORD as u64)));
    }
    suite.measure(Across::Different, vec![case])?;
    let few = suite.rows(ROWS / ITERATOR_SHARE);
    let batches = &generate(few, ROWS_PER_MS / ITERATOR_SHARE)?;
    let iterator = System::new("iterator", 1, || Ok(iterate(batches)));
    let case = Case::new("iterator/trips", few).with(engine(batches, 1)?).with(iterator);
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

fn engine(batches: &[RecordBatch], threads: usize) -> Result<System<'static>, Failure> {
    let mut session = session(threads)?;
    session.register("trips", COLUMNS, batches.to_vec())?;
    Ok(System::measured("millstream", threads, move || query(&mut session, QUERY)))
}

/// The trips as columns. Columns that the query does not read are the same in every batch.
fn generate(rows: u64, rows_per_ms: u64) -> Result<Vec<RecordBatch>, Failure> {
    let field = |column: &str| {
        let mut words = column.split_whitespace();
        let (name, of_type) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let of_type = match of_type {
            "STRING" => DataType::STRING,
            "INT" => DataType::Int,
            "DOUBLE" => DataType::Double,
            _ => DataType::Timestamp(3),
        };
        Field::new(name, of_type, false)
    };
    let columns = COLUMNS.split(',').map(field).take(REGION + 1).collect::<Vec<_>>();
    let schema = Schema::new(columns).to_arrow();
    let mut random = Random::new(37);
    let text = |text: &str, rows: usize| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(vec![text; rows])) };
    let batch = |first: u64| {
        let range = first..(first + BATCH as u64).min(rows);
        let count = (range.end - range.start) as usize;
        let mut vendors = StringViewBuilder::with_capacity(count);
        range.clone().for_each(|_| vendors.append_value(["VTS", "CMT"][random.below(2) as usize]));
        let parts = LONGEST_MILES * MILE_PARTS as u64 + MILE_PARTS as u64 / 4;
        let distances = range.clone().map(|_| random.below(parts) as f64 / MILE_PARTS);
        let distances: ArrayRef = Arc::new(Float64Array::from_iter_values(distances));
        let regions = Int32Array::from_iter_values(range.clone().map(|_| random.below(REGIONS) as i32));
        let times: ArrayRef =
            Arc::new(TimestampMillisecondArray::from_iter_values(range.map(|row| (row / rows_per_ms) as i64)));
        let (integers, doubles): (ArrayRef, ArrayRef) =
            (Arc::new(Int32Array::from_value(1, count)), Arc::new(Float64Array::from_value(-73.97, count)));
        let mut columns: Vec<ArrayRef> = vec![text("2013002932", count), text("2013002928", count)];
        columns.extend([
            Arc::new(vendors.finish()) as ArrayRef,
            integers.clone(),
            text("N", count),
            times.clone(),
            times,
        ]);
        columns.extend([integers.clone(), integers, distances]);
        columns.extend(std::iter::repeat_n(doubles, REGION - DISTANCE - 1));
        columns.push(Arc::new(regions));
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    };
    (0..rows).step_by(BATCH).map(batch).collect()
}

/// The same trips as packed records.
fn records(batches: &[RecordBatch]) -> Records<RECORD> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    Records::new(rows, |row, record| {
        let (batch, at) = (&batches[row / BATCH], row % BATCH);
        let vendor = batch.column(VENDOR).as_string_view().value(at);
        record[VENDOR_AT..VENDOR_AT + vendor.len()].copy_from_slice(vendor.as_bytes());
        write_i64(record, TIME_AT, batch.column(TIME).as_primitive::<TimestampMillisecondType>().value(at));
        let distance = batch.column(DISTANCE).as_primitive::<Float64Type>().value(at);
        write_i64(record, DISTANCE_AT, distance.to_bits() as i64);
        let region = batch.column(REGION).as_primitive::<Int32Type>().value(at);
        record[REGION_AT..REGION_AT + 4].copy_from_slice(&region.to_le_bytes());
    })
}

/// The loop with each way to share the work.
fn by_hand<'a>(name: &str, layout: impl Layout<Cell = RealSum> + Copy + 'a, threads: usize) -> [System<'a>; 3] {
    systems(name, layout, threads, move |slices| {
        let kinds = [Kind::Integer, Kind::Integer, Kind::Integer, Kind::Double];
        output(slices, SLIDES, threads, kinds, |rows, window, region, cell| {
            let mean = cell.sum / cell.count as f64;
            rows.push([region as i64, window * SLIDE_MS, cell.count as i64, mean.to_bits() as i64]);
        })
    })
}

#[derive(Clone, Copy)]
struct Columns<'a>(&'a [RecordBatch]);

impl Columns<'_> {
    fn end_ms(&self) -> i64 {
        let last = self.0.last().map(|batch| batch.column(TIME).as_primitive::<TimestampMillisecondType>().values());
        last.and_then(|times| times.last()).map_or(0, |time| time + 1)
    }
}

impl Layout for Columns<'_> {
    type Cell = RealSum;

    fn chunks(&self) -> usize {
        self.0.len()
    }

    fn keys(&self) -> usize {
        REGIONS as usize
    }

    fn windows(&self) -> Range<i64> {
        0..self.end_ms().div_euclid(SLIDE_MS) + 1
    }

    #[inline(always)]
    fn scan<T: Target<RealSum>>(&self, chunk: usize, target: &mut T) {
        const VTS: u128 = u128::from_le_bytes([3, 0, 0, 0, b'V', b'T', b'S', 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let batch = &self.0[chunk];
        let vendors = batch.column(VENDOR).as_string_view().views();
        let times = batch.column(TIME).as_primitive::<TimestampMillisecondType>().values();
        let distances = batch.column(DISTANCE).as_primitive::<Float64Type>().values();
        let regions = batch.column(REGION).as_primitive::<Int32Type>().values();
        let is_wanted = |vendor: u128, distance: f64| (vendor == VTS) & (distance > LONG_MILES);
        for from in (0..times.len()).step_by(BLOCK) {
            let rows = from..(from + BLOCK).min(times.len());
            let (vendors, times) = (&vendors[rows.clone()], &times[rows.clone()]);
            let (distances, regions) = (&distances[rows.clone()], &regions[rows]);
            if let Some(window) = one_window(times, SLIDE_MS) {
                target.window(window);
                select_by_two(vendors, distances, is_wanted, |row| target.add(regions[row] as usize, distances[row]));
                continue;
            }
            for row in (0..times.len()).filter(|row| is_wanted(vendors[*row], distances[*row])) {
                target.window(times[row].div_euclid(SLIDE_MS));
                target.add(regions[row] as usize, distances[row]);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Rows<'a> {
    records: &'a Records<RECORD>,
    end_ms: i64,
}

impl Layout for Rows<'_> {
    type Cell = RealSum;

    fn chunks(&self) -> usize {
        self.records.rows().div_ceil(BATCH)
    }

    fn keys(&self) -> usize {
        REGIONS as usize
    }

    fn windows(&self) -> Range<i64> {
        0..self.end_ms.div_euclid(SLIDE_MS) + 1
    }

    #[inline(always)]
    fn scan<T: Target<RealSum>>(&self, chunk: usize, target: &mut T) {
        let mut end = i64::MIN;
        for record in self.records.chunk(chunk, BATCH) {
            let distance = read_f64(record, DISTANCE_AT);
            if record[VENDOR_AT..VENDOR_AT + 4] != *b"VTS\0" || distance <= LONG_MILES {
                continue;
            }
            let time = read_i64(record, TIME_AT);
            if time >= end {
                let window = time.div_euclid(SLIDE_MS);
                end = (window + 1) * SLIDE_MS;
                target.window(window);
            }
            target.add(read_i32(record, REGION_AT) as usize, distance);
        }
    }
}

/// Operators that hand over one row at a time.
fn iterate(batches: &[RecordBatch]) -> Checksum {
    let vendor = Expression::compare(Comparison::Equal, Expression::Column(0), Expression::Text("VTS".into()));
    let distance = Expression::compare(Comparison::Greater, Expression::Column(2), Expression::Double(LONG_MILES));
    let condition = Expression::And(Box::new(vendor), Box::new(distance));
    let trips = Filter { input: Box::new(Scan::new(batches, &[VENDOR, TIME, DISTANCE, REGION])), condition };
    let windows = (SLIDES * SLIDE_MS, SLIDE_MS);
    let aggregates = vec![Aggregate::Count, Aggregate::Mean(2)];
    drain(Box::new(Windows::new(Box::new(trips), vec![3], 1, windows, 1, aggregates)))
}
