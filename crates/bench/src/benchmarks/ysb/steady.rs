//! The count and the sum over a stream of seconds instead of a table: what is made once per query, or kept from one to the next, does
//! not count.

use super::data::{BATCH, Data, Shape};
use super::loops::{Columns, Input};
use super::{CAMPAIGNS, WINDOW_MS, count_row, loops, sum_row};
use crate::by_hand::{Cell, Count, CountSum, Layout, Target};
use crate::suite::{Across, Benchmark, Case, Failure, Runs, Suite, System, query, session};
use arrow_array::{ArrayRef, Int8Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, LocalTable, Schema};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "steady",
    title: "the Yahoo streaming benchmark over a stream of seconds",
    data: "2.4 G rows: event_type TINYINT, campaign and v of 24 M rows in memory over and over, which no cache has room for, with times that
           are made as the rows are read, 256 rows a millisecond, so that no row is seen twice",
    query: "views and the sum of v by campaign (10,000) and 10 s",
    measured: "the whole statement, its rows added up, and processor time by row, that of whoever makes the times included: a
               thread that reads, and the loop itself",
    runs: Runs::WithAll,
    run,
};

const POOL_ROWS: u64 = 24_000_000;
const ROUNDS: usize = 100;
/// A power of two, so that each batch has the same times but for their first one.
const ROWS_PER_MS: u64 = 256;
const BATCH_MS: i64 = (BATCH as u64 / ROWS_PER_MS) as i64;

/// Runs both queries.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let shape = Shape { rows: suite.rows(POOL_ROWS), keys: CAMPAIGNS, rows_per_ms: ROWS_PER_MS };
    let data = &suite.generate("columns", || Data::new(shape));
    let stream = Endless::new(data)?;
    let rows = stream.batches().map(|number| stream.pool[number % stream.pool.len()].num_rows() as u64).sum();
    let mut count = Case::new("count", rows);
    let mut sum = Case::new("sum", rows);
    for threads in suite.thread_counts() {
        count = count.with(engine(&stream, threads, "COUNT(*)")?).with_all(columnar(loops(
            "columnar",
            Loop::<Count>::new(data),
            threads,
            count_row,
        )));
        sum = sum.with(engine(&stream, threads, "SUM(v)")?).with_all(columnar(loops(
            "columnar",
            Loop::<CountSum>::new(data),
            threads,
            sum_row,
        )));
    }
    for case in [count, sum] {
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}

/// The loop with tables of each thread.
fn columnar(systems: [System<'_>; 3]) -> impl Iterator<Item = System<'_>> {
    systems.into_iter().take(1)
}

fn engine(stream: &Endless, threads: usize, aggregate: &str) -> Result<System<'static>, Failure> {
    let (stream, mut session) = (stream.clone(), session(threads)?);
    let sql = format!(
        "SELECT campaign, window_start, {aggregate} FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
         WHERE event_type = 0 GROUP BY campaign, window_start, window_end"
    );
    Ok(System::measured("millstream", threads, move || {
        let columns = "event_type TINYINT NOT NULL, campaign BIGINT NOT NULL, v BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
                       WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND";
        let reader = stream.clone();
        let batches = reader.batches().map(move |number| Ok(reader.batch(number)));
        let table = LocalTable::Reader { columns: columns.into(), reader: Box::new(batches) };
        session.register_local("events", table)?;
        query(&mut session, &sql)
    }))
}

/// The times of a batch that begins at 0.
fn times() -> Vec<i64> {
    (0..BATCH as u64).map(|row| (row / ROWS_PER_MS) as i64).collect()
}

/// Rows without times, over and over, and how they get them.
#[derive(Clone)]
struct Endless {
    pool: Arc<[RecordBatch]>,
    schema: arrow_schema::SchemaRef,
    times: Arc<[i64]>,
}

impl Endless {
    fn new(data: &Data) -> Result<Endless, Failure> {
        let field = |(name, of_type)| Field::new(name, of_type, false);
        let fields = [("event_type", DataType::TinyInt), ("campaign", DataType::BigInt), ("v", DataType::BigInt)];
        let timed = fields.iter().cloned().chain([("event_time", DataType::Timestamp(3))]);
        let schema = Schema::new(timed.map(field).collect()).to_arrow();
        let untimed = Schema::new(fields.into_iter().map(field).collect()).to_arrow();
        let batch = |number: usize| {
            let types: ArrayRef = Arc::new(Int8Array::from(data.types(number).to_vec()));
            let (campaigns, values) = (data.campaigns[number].clone(), data.values[number].clone());
            RecordBatch::try_new(untimed.clone(), vec![types, Arc::new(campaigns), Arc::new(values)])
        };
        let pool = (0..data.campaigns.len()).map(batch).collect::<Result<_, _>>()?;
        Ok(Endless { pool, schema, times: times().into() })
    }

    fn batches(&self) -> Range<usize> {
        0..ROUNDS * self.pool.len()
    }

    fn batch(&self, number: usize) -> RecordBatch {
        let rows = &self.pool[number % self.pool.len()];
        let first = number as i64 * BATCH_MS;
        let times = self.times[..rows.num_rows()].iter().map(|time| first + time);
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(times));
        let columns = rows.columns().iter().cloned().chain([times]).collect();
        RecordBatch::try_new(self.schema.clone(), columns).expect("the columns are those of the schema")
    }
}

thread_local! {
    /// The times of the chunk at hand.
    static TIMES: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
}

/// The loop over columns, which makes the times of a chunk before it scans it.
#[derive(Clone, Copy)]
struct Loop<'a, C> {
    columns: Columns<'a, C>,
}

impl<'a, C> Loop<'a, C> {
    fn new(data: &'a Data) -> Loop<'a, C> {
        Loop { columns: Columns { data, texts: None, slice_ms: WINDOW_MS, cell: PhantomData } }
    }

    fn pool(&self) -> usize {
        self.columns.data.campaigns.len()
    }
}

impl<C: Cell<Input: Input>> Layout for Loop<'_, C> {
    type Cell = C;

    fn chunks(&self) -> usize {
        ROUNDS * self.pool()
    }

    fn keys(&self) -> usize {
        self.columns.keys()
    }

    fn windows(&self) -> Range<i64> {
        0..(self.chunks() as i64 * BATCH_MS).div_euclid(WINDOW_MS) + 1
    }

    #[inline(always)]
    fn scan<T: Target<C>>(&self, chunk: usize, target: &mut T) {
        let batch = chunk % self.pool();
        let types = self.columns.data.types(batch);
        TIMES.with_borrow_mut(|times| {
            let first = chunk as i64 * BATCH_MS;
            times.clear();
            times.extend((0..types.len()).map(|row| first + (row as u64 / ROWS_PER_MS) as i64));
            self.columns.blocks(batch, (types, times), |number| number == 0, target);
        });
    }
}
