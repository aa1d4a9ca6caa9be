//! Ads and purchases (the workload of the HPI thesis, section 3.1).

use crate::by_hand::{
    BLOCK, Cell, Invertible, Layout, Records, SharedCell, Target, one_window, output, read_f64, read_i32, read_i64,
    systems, write_i64,
};
use crate::iterator::{
    Aggregate, Arithmetic, Comparison, Expression, Filter, Project, Scan, WindowJoin, Windows, drain,
};
use crate::suite::{Across, Benchmark, Case, Checksum, Failure, Kind, Random, Runs, Suite, System, query, session};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ads",
    title: "ads and purchases (HPI thesis, section 3.1)",
    data: "2 × 6 M rows in memory: ads (ad_id, user_id, cost, ts) and purchases (purchase_id, user_id, ad_id, value, ts) with 10
           to 1 M ads at random, 200 rows a millisecond of event time each (a quarter and an eighth of that with 100 k and 1 M ads); as columns (the query touches 20 bytes of a row) and
           as packed records of 24 and 28 bytes",
    query: "the sum of the purchases of an ad minus its costs, of ads with both, without ad 0, in windows of 5 s every second:
            a filter, two aggregations and a join of their windows",
    measured: "the whole statement, its rows added up. By hand: one table for both streams, slices of a second, and a running sum
               over them; tables of each thread (columnar, row), tables of atomics (/global), rows exchanged first (/partition)",
    runs: Runs::Always,
    run,
};

/// Of each stream.
const ROWS: u64 = 6_000_000;
const ROWS_PER_MS: u64 = 200;
/// Numbers of ads, and by what there are fewer rows: every second writes a row for nearly every ad.
const KEYS: [(u64, u64); 4] = [(10, 1), (1000, 1), (100_000, 4), (1_000_000, 8)];
const BATCH: usize = 64 << 10;
const SLIDE_MS: i64 = 1000;
const SLIDES: i64 = 5;
/// Costs and values are multiples of this part, so that their sums are exact in any order.
const PARTS: f64 = 64.0;
/// Key, amount and time.
const BYTES_PER_ROW: u64 = 4 + 8 + 8;
/// Rows of the iterators are fewer by this.
const ITERATOR_SHARE: u64 = 8;
const ITERATOR_KEYS: u64 = 1000;

const QUERY: &str = "SELECT a.ad_id, a.window_start, p.total - a.total
    FROM (SELECT ad_id, window_start, window_end, SUM(cost) AS total
          FROM TABLE(HOP(TABLE ads, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
          GROUP BY ad_id, window_start, window_end) AS a
    JOIN (SELECT ad_id, window_start, window_end, SUM(`value`) AS total
          FROM TABLE(HOP(TABLE purchases, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
          WHERE ad_id <> 0 GROUP BY ad_id, window_start, window_end) AS p
    ON a.ad_id = p.ad_id AND a.window_start = p.window_start AND a.window_end = p.window_end";

/// Names of the tables, their columns, and the places of ad, amount and time among them.
const ADS: (&str, &[&str], [usize; 3]) =
    ("ads", &["ad_id INT", "user_id INT", "cost DOUBLE", "ts TIMESTAMP(3)"], [0, 2, 3]);
const PURCHASES: (&str, &[&str], [usize; 3]) =
    ("purchases", &["purchase_id INT", "user_id INT", "ad_id INT", "`value` DOUBLE", "ts TIMESTAMP(3)"], [2, 3, 4]);

/// Bytes of the records, and offsets of ad, amount and time in them: fields in the order of the columns.
const AD_RECORD: usize = 24;
const AD_AT: [usize; 3] = [0, 8, 16];
const PURCHASE_RECORD: usize = 28;
const PURCHASE_AT: [usize; 3] = [8, 12, 20];

/// Runs all systems for each number of keys.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let counts = suite.thread_counts();
    for (keys, share) in KEYS {
        let rows = suite.rows(ROWS / share);
        let data = &Data::new(rows, keys, ROWS_PER_MS / share)?;
        let records = (
            data.records::<AD_RECORD>(&data.ads, ADS.2, AD_AT),
            data.records(&data.purchases, PURCHASES.2, PURCHASE_AT),
        );
        let mut case = Case::new(format!("keys={keys}"), 2 * rows).limited_by_memory(BYTES_PER_ROW, &counts);
        for threads in counts.clone() {
            case = case.with(engine(data, threads)?).with_all(by_hand("columnar", Columns(data), threads));
            let of_rows = by_hand("row", Rows { data, ads: &records.0, purchases: &records.1 }, threads);
            let bytes = rows * (AD_RECORD + PURCHASE_RECORD) as u64;
            case = case.with_all(of_rows.into_iter().map(|system| system.touching(bytes)));
        }
        suite.measure(Across::Different, vec![case])?;
    }
    let few = suite.rows(ROWS / ITERATOR_SHARE);
    let data = &Data::new(few, ITERATOR_KEYS, ROWS_PER_MS / ITERATOR_SHARE)?;
    let iterator = System::new("iterator", 1, || Ok(iterate(data)));
    let case = Case::new(format!("iterator/keys={ITERATOR_KEYS}"), 2 * few).with(engine(data, 1)?).with(iterator);
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

fn engine(data: &Data, threads: usize) -> Result<System<'static>, Failure> {
    let mut session = session(threads)?;
    for ((name, columns, _), batches) in [(ADS, &data.ads), (PURCHASES, &data.purchases)] {
        let columns = columns.join(" NOT NULL, ");
        let watermark = "WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND";
        session.register(name, &format!("{columns} NOT NULL, {watermark}"), batches.clone())?;
    }
    Ok(System::measured("millstream", threads, move || query(&mut session, QUERY)))
}

/// Both streams.
struct Data {
    keys: u64,
    rows: u64,
    rows_per_ms: u64,
    ads: Vec<RecordBatch>,
    purchases: Vec<RecordBatch>,
}

impl Data {
    fn new(rows: u64, keys: u64, rows_per_ms: u64) -> Result<Data, Failure> {
        let mut random = Random::new(41);
        let mut stream = |columns: &[&str]| -> Result<Vec<RecordBatch>, Failure> {
            let (schema, has_purchases) = (schema(columns), columns.len() == PURCHASES.1.len());
            let mut batch = |first: u64| {
                let range = first..(first + BATCH as u64).min(rows);
                let mut integers = |end: u64| -> ArrayRef {
                    Arc::new(Int32Array::from_iter_values(range.clone().map(|_| random.below(end) as i32)))
                };
                let (ads, users) = (integers(keys), integers(1_000_000));
                let purchases = Arc::new(Int32Array::from_iter_values(range.clone().map(|row| row as i32)));
                let amounts = range.clone().map(|_| random.below(100 * PARTS as u64) as f64 / PARTS);
                let amounts: ArrayRef = Arc::new(Float64Array::from_iter_values(amounts));
                let times =
                    TimestampMillisecondArray::from_iter_values(range.clone().map(|row| (row / rows_per_ms) as i64));
                let keys = if has_purchases { vec![purchases as ArrayRef, users, ads] } else { vec![ads, users] };
                let columns = keys.into_iter().chain([amounts, Arc::new(times) as ArrayRef]).collect();
                Ok(RecordBatch::try_new(schema.clone(), columns)?)
            };
            (0..rows).step_by(BATCH).map(&mut batch).collect()
        };
        Ok(Data { keys, rows, rows_per_ms, ads: stream(ADS.1)?, purchases: stream(PURCHASES.1)? })
    }

    /// Packs the batches of a stream; `at` are the offsets of ad, amount and time.
    fn records<const SIZE: usize>(
        &self,
        batches: &[RecordBatch],
        columns: [usize; 3],
        at: [usize; 3],
    ) -> Records<SIZE> {
        Records::new(self.rows as usize, |row, record| {
            let (ads, amounts, times) = arrays(&batches[row / BATCH], columns);
            let row = row % BATCH;
            record[at[0]..at[0] + 4].copy_from_slice(&ads[row].to_le_bytes());
            write_i64(record, at[1], amounts[row].to_bits() as i64);
            write_i64(record, at[2], times[row]);
        })
    }

    fn windows(&self) -> Range<i64> {
        0..((self.rows / self.rows_per_ms) as i64).div_euclid(SLIDE_MS) + 1
    }
}

fn schema(columns: &[&str]) -> Arc<arrow_schema::Schema> {
    let field = |column: &&str| {
        let (name, of_type) = column.split_once(' ').unwrap_or_default();
        let of_type = match of_type {
            "INT" => DataType::Int,
            "DOUBLE" => DataType::Double,
            _ => DataType::Timestamp(3),
        };
        Field::new(name.trim_matches('`'), of_type, false)
    };
    Schema::new(columns.iter().map(field).collect()).to_arrow()
}

/// Ads, amounts and times of a batch.
#[inline(always)]
fn arrays(batch: &RecordBatch, [ad, amount, time]: [usize; 3]) -> (&[i32], &[f64], &[i64]) {
    (
        batch.column(ad).as_primitive::<Int32Type>().values(),
        batch.column(amount).as_primitive::<Float64Type>().values(),
        batch.column(time).as_primitive::<TimestampMillisecondType>().values(),
    )
}

/// Rows and sums of an ad in both streams.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Profit {
    ads: u32,
    purchases: u32,
    cost: f64,
    value: f64,
}

/// What a row brings.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Cost(f64),
    Value(f64),
}

impl Cell for Profit {
    type Input = Amount;

    #[inline(always)]
    fn add(&mut self, amount: Amount) {
        match amount {
            Amount::Cost(cost) => {
                self.ads += 1;
                self.cost += cost;
            }
            Amount::Value(value) => {
                self.purchases += 1;
                self.value += value;
            }
        }
    }

    fn merge(&mut self, other: &Profit) {
        self.ads += other.ads;
        self.purchases += other.purchases;
        self.cost += other.cost;
        self.value += other.value;
    }

    fn has_rows(&self) -> bool {
        self.ads + self.purchases > 0
    }
}

impl Invertible for Profit {
    fn remove(&mut self, other: &Profit) {
        self.ads -= other.ads;
        self.purchases -= other.purchases;
        self.cost -= other.cost;
        self.value -= other.value;
    }
}

/// Counts of both streams, cost, value.
type Shared = [AtomicU64; 4];

impl SharedCell for Profit {
    type Atomic = Shared;

    #[inline(always)]
    fn add_shared(cell: &Shared, amount: Amount) {
        let (at, amount) = match amount {
            Amount::Cost(cost) => (0, cost),
            Amount::Value(value) => (1, value),
        };
        cell[at].fetch_add(1, Relaxed);
        // Amounts are multiples of a part: whole numbers of it add up without a loop.
        cell[at + 2].fetch_add((amount * PARTS) as u64, Relaxed);
    }

    fn load(cell: &Shared) -> Profit {
        let of = |at: usize| cell[at].load(Relaxed);
        Profit { ads: of(0) as u32, purchases: of(1) as u32, cost: of(2) as f64 / PARTS, value: of(3) as f64 / PARTS }
    }
}

/// The loop with each way to share the work.
fn by_hand<'a>(name: &str, layout: impl Layout<Cell = Profit> + Copy + 'a, threads: usize) -> [System<'a>; 3] {
    systems(name, layout, threads, move |slices| {
        let kinds = [Kind::Integer, Kind::Integer, Kind::Double];
        output(slices, SLIDES, threads, kinds, |rows, window, ad, cell| {
            if cell.ads > 0 && cell.purchases > 0 {
                rows.push([ad as i64, window * SLIDE_MS, (cell.value - cell.cost).to_bits() as i64]);
            }
        })
    })
}

#[derive(Clone, Copy)]
struct Columns<'a>(&'a Data);

impl Columns<'_> {
    #[inline(always)]
    fn blocks<T: Target<Profit>>(
        batch: &RecordBatch,
        columns: [usize; 3],
        is_wanted: impl Fn(i32) -> bool,
        amount: impl Fn(f64) -> Amount,
        target: &mut T,
    ) {
        let (ads, amounts, times) = arrays(batch, columns);
        for from in (0..times.len()).step_by(BLOCK) {
            let rows = from..(from + BLOCK).min(times.len());
            let (ads, amounts, times) = (&ads[rows.clone()], &amounts[rows.clone()], &times[rows]);
            let window = one_window(times, SLIDE_MS);
            if let Some(window) = window {
                target.window(window);
            }
            // Nearly all rows are wanted, so a branch is guessed right.
            for ((ad, value), time) in ads.iter().zip(amounts).zip(times).filter(|((ad, _), _)| is_wanted(**ad)) {
                if window.is_none() {
                    target.window(time.div_euclid(SLIDE_MS));
                }
                target.add(*ad as usize, amount(*value));
            }
        }
    }
}

impl Layout for Columns<'_> {
    type Cell = Profit;

    fn chunks(&self) -> usize {
        self.0.ads.len() + self.0.purchases.len()
    }

    fn keys(&self) -> usize {
        self.0.keys as usize
    }

    fn windows(&self) -> Range<i64> {
        self.0.windows()
    }

    /// Chunks of both streams in turn.
    #[inline(always)]
    fn scan<T: Target<Profit>>(&self, chunk: usize, target: &mut T) {
        if chunk.is_multiple_of(2) {
            Self::blocks(&self.0.ads[chunk / 2], ADS.2, |_| true, Amount::Cost, target);
        } else {
            Self::blocks(&self.0.purchases[chunk / 2], PURCHASES.2, |ad| ad != 0, Amount::Value, target);
        }
    }
}

#[derive(Clone, Copy)]
struct Rows<'a> {
    data: &'a Data,
    ads: &'a Records<AD_RECORD>,
    purchases: &'a Records<PURCHASE_RECORD>,
}

impl Layout for Rows<'_> {
    type Cell = Profit;

    fn chunks(&self) -> usize {
        self.data.ads.len() + self.data.purchases.len()
    }

    fn keys(&self) -> usize {
        self.data.keys as usize
    }

    fn windows(&self) -> Range<i64> {
        self.data.windows()
    }

    #[inline(always)]
    fn scan<T: Target<Profit>>(&self, chunk: usize, target: &mut T) {
        let mut end = i64::MIN;
        // Times of a stream do not go back in this data.
        let mut open = |target: &mut T, time: i64| {
            if time >= end {
                let window = time.div_euclid(SLIDE_MS);
                end = (window + 1) * SLIDE_MS;
                target.window(window);
            }
        };
        if chunk.is_multiple_of(2) {
            for ad in self.ads.chunk(chunk / 2, BATCH) {
                open(target, read_i64(ad, AD_AT[2]));
                target.add(read_i32(ad, AD_AT[0]) as usize, Amount::Cost(read_f64(ad, AD_AT[1])));
            }
        } else {
            for purchase in self.purchases.chunk(chunk / 2, BATCH) {
                let ad = read_i32(purchase, PURCHASE_AT[0]);
                if ad != 0 {
                    open(target, read_i64(purchase, PURCHASE_AT[2]));
                    target.add(ad as usize, Amount::Value(read_f64(purchase, PURCHASE_AT[1])));
                }
            }
        }
    }
}

/// Operators that hand over one row at a time.
fn iterate(data: &Data) -> Checksum {
    let windows = (SLIDES * SLIDE_MS, SLIDE_MS);
    let ads = Windows::new(Box::new(Scan::new(&data.ads, &ADS.2)), vec![0], 2, windows, 1, vec![Aggregate::Sum(1)]);
    let condition = Expression::compare(Comparison::NotEqual, Expression::Column(0), Expression::Integer(0));
    let wanted = Filter { input: Box::new(Scan::new(&data.purchases, &PURCHASES.2)), condition };
    let purchases = Windows::new(Box::new(wanted), vec![0], 2, windows, 1, vec![Aggregate::Sum(1)]);
    // Key and start of both; starts are equal where they lie in the same millisecond.
    let joined = WindowJoin::new(Box::new(ads), Box::new(purchases), (0, 0), (1, 1), 1);
    let profit = Expression::compute(Arithmetic::Subtract, Expression::Column(5), Expression::Column(2));
    let columns = vec![Expression::Column(0), Expression::Column(1), profit];
    drain(Box::new(Project { input: Box::new(joined), columns }))
}
