//! The Yahoo streaming benchmark from memory (Zeuch et al., section 5.1; Grizzly, section 7).

mod data;
mod loops;
mod steady;

use crate::by_hand::{
    Cell, Count, CountSum, Layout, Moments, Records, SharedCell, Values, hashed, in_threads, local, output,
    output_slices, select, systems,
};
use crate::iterator::{Aggregate, Comparison, Expression, Filter, Scan, Windows, drain};
use crate::suite::{
    Across, Benchmark, Case, Checksum, Failure, Kind, OutputRows, Prepared, Runs, Suite, System, query, session,
};
use arrow_array::RecordBatch;
use data::{Data, RECORD, Shape};
use loops::{Columns, Input, Rows};
use millstream::Session;
use std::marker::PhantomData;
pub(crate) use steady::BENCHMARK as STEADY;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ysb",
    title: "the Yahoo streaming benchmark from memory (Zeuch, section 5.1; Grizzly, section 7)",
    data: "24 M rows in memory, half of them where a parameter varies: event_type (a third are views), campaign (10,000 values
           at random), v (1,000 values), event_time (200 rows a millisecond, so that windows open and close during the
           measurement), in batches of 64 k rows. As columns with event_type STRING (views of 16 bytes: the query touches 32
           bytes of a row) and TINYINT (17 bytes, as in the papers' prototypes), and as packed records of 78 bytes",
    query: "count (or another aggregate) of the views by campaign and 10 s; sliding windows with a slide of 1 s; windows of so
            many views of a campaign",
    measured: "the whole statement, its rows added up (the first run, which compiles, warms up; its compile time is printed);
               over columns, over records in place (/records) and gathered into columns first (/gathered). By hand: loops over the
               same columns and over packed records, with tables of each thread that are merged
               (columnar, row), with tables of atomics (/global), and with rows exchanged by key first (/partition); of many keys also with
               hash tables (/hash)",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 24_000_000;
const CAMPAIGNS: u64 = 10_000;
const ROWS_PER_MS: u64 = 200;
const WINDOW_MS: i64 = 10_000;
/// Bytes of a row that a count touches: a small number or a view, the key, the time.
const SMALL_BYTES: u64 = 1 + 8 + 8;
const TEXT_BYTES: u64 = 16 + 8 + 8;
const VALUE_BYTES: u64 = 8;
const KEYS: [u64; 6] = [1, 100, 10_000, 100_000, 1_000_000, 10_000_000];
/// From so many on there is a loop with hash tables, too: arrays of that many keys know more than an engine can.
const HASHED_KEYS: u64 = 1_000_000;
/// Sliding windows that a row lies in.
const CONCURRENT: [i64; 4] = [1, 10, 30, 100];
/// So few campaigns that each has views for several count windows.
const COUNTED_CAMPAIGNS: u64 = 100;
/// Views of a campaign in a count window.
const SIZES: [u64; 5] = [1, 100, 1000, 10_000, 1_000_000];

const COUNT: &str = "SELECT campaign, window_start, COUNT(*) AS views
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
    WHERE event_type = 'view' GROUP BY campaign, window_start, window_end";

/// Runs all figures.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let shape = Shape { rows: suite.rows(ROWS), keys: CAMPAIGNS, rows_per_ms: ROWS_PER_MS };
    let data = &suite.generate("columns", || Data::new(shape));
    layouts(suite, data)?;
    iterators(suite)?;
    aggregates(suite, data)?;
    keys(suite)?;
    let half = Shape { rows: suite.rows(ROWS / 2), rows_per_ms: ROWS_PER_MS / 2, ..shape };
    let data = &suite.generate("columns", || Data::new(half));
    sliding(suite, data)?;
    count_windows(suite, &Data::new(Shape { keys: COUNTED_CAMPAIGNS, ..half }))
}

/// A session over these batches, and the query for them.
fn over(batches: &[RecordBatch], threads: usize, sql: &str) -> Result<(Session, String), Failure> {
    let is_small = batches.first().is_some_and(|batch| batch.column(0).data_type().is_integer());
    let (of_type, view) = if is_small { ("TINYINT", "0") } else { ("STRING", "'view'") };
    let mut session = session(threads)?;
    session.register(
        "events",
        &format!(
            "event_type {of_type} NOT NULL, campaign BIGINT NOT NULL, v BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
             WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND"
        ),
        batches.to_vec(),
    )?;
    session.run(&format!("CREATE VIEW views AS SELECT * FROM events WHERE event_type = {view}"))?;
    Ok((session, sql.replace("'view'", view)))
}

/// Millstream over these batches.
fn engine(batches: &[RecordBatch], threads: usize, sql: &str) -> Result<System<'static>, Failure> {
    let (mut session, sql) = over(batches, threads, sql)?;
    Ok(System::measured("millstream", threads, move || query(&mut session, &sql)))
}

/// The count over `rows * times` rows, having made `rows` and twice as many.
pub(super) fn views(rows: u64, times: u64, threads: usize) -> Result<Prepared, Failure> {
    let shape = Shape { rows, keys: CAMPAIGNS, rows_per_ms: ROWS_PER_MS };
    let few = Data::new(shape).small()?;
    let many = Data::new(Shape { rows: 2 * rows, rows_per_ms: 2 * ROWS_PER_MS, ..shape }).small()?;
    let (session, sql) = over(if times == 1 { &few } else { &many }, threads, COUNT)?;
    Ok((session, sql, rows * times))
}

/// Millstream over the packed records, which it reads in place or gathers into columns first.
fn engine_over_records(
    records: &Records<RECORD>,
    in_place: bool,
    threads: usize,
    sql: &str,
) -> Result<System<'static>, Failure> {
    let mut session = session(threads)?;
    session.register_rows(
        "events",
        "user_id BINARY(16) NOT NULL, page_id BINARY(16) NOT NULL, campaign BIGINT NOT NULL, v BIGINT NOT NULL,
         ad_type CHAR(9) NOT NULL, event_type CHAR(9) NOT NULL, event_time TIMESTAMP(3) NOT NULL, ip INT NOT NULL,
         WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        vec![records.buffer()],
    )?;
    session.set("pipeline.in-place", if in_place { "auto" } else { "never" })?;
    let (name, sql) = (if in_place { "millstream/records" } else { "millstream/gathered" }, sql.to_string());
    let system = System::measured(name, threads, move || query(&mut session, &sql));
    Ok(system.touching(records.rows() as u64 * RECORD as u64))
}

/// A loop by hand with each way to share the work. `row` writes the row of a group.
fn loops<'a, L: Layout<Cell: SharedCell> + Copy + 'a>(
    name: &str,
    layout: L,
    threads: usize,
    row: impl Fn(&mut OutputRows<3>, i64, usize, &L::Cell) + Sync + Copy + 'a,
) -> [System<'a>; 3] {
    systems(name, layout, threads, move |slices| output_slices(slices, threads, [Kind::Integer; 3], row))
}

fn columns<'a, C: Cell<Input: Input>>(
    data: &'a Data,
    texts: Option<&'a [RecordBatch]>,
    slice_ms: i64,
) -> Columns<'a, C> {
    Columns { data, texts, slice_ms, cell: PhantomData }
}

fn count_row(rows: &mut OutputRows<3>, window: i64, key: usize, cell: &Count) {
    rows.push([key as i64, window * WINDOW_MS, cell.0 as i64]);
}

fn sum_row(rows: &mut OutputRows<3>, window: i64, key: usize, cell: &CountSum) {
    rows.push([key as i64, window * WINDOW_MS, cell.sum]);
}

/// Count and sum over each layout, with one and with all threads.
fn layouts(suite: &mut Suite, data: &Data) -> Result<(), Failure> {
    let (rows, counts) = (data.shape.rows, suite.thread_counts());
    let sum = COUNT.replace("COUNT(*)", "SUM(v)");
    let (texts, small) = suite.generate("batches", || (data.texts(), data.small()));
    let (texts, small) = (texts?, small?);
    let records = &suite.generate("records", || data.records());
    let packed = rows * RECORD as u64;
    let mut text = Case::new("layout/event_type STRING, count", rows).limited_by_memory(TEXT_BYTES, &counts);
    let mut counted = Case::new("layout/event_type TINYINT, count", rows).limited_by_memory(SMALL_BYTES, &counts);
    let mut summed =
        Case::new("layout/event_type TINYINT, sum", rows).limited_by_memory(SMALL_BYTES + VALUE_BYTES, &counts);
    for threads in counts {
        let of_rows = Rows::<Count> { data, records, slice_ms: WINDOW_MS, cell: PhantomData };
        text = text.with(engine(&texts, threads, COUNT)?).with_all(loops(
            "columnar",
            columns::<Count>(data, Some(&texts), WINDOW_MS),
            threads,
            count_row,
        ));
        counted = counted
            .with(engine(&small, threads, COUNT)?)
            .with(engine_over_records(records, true, threads, COUNT)?)
            .with_all(loops("columnar", columns::<Count>(data, None, WINDOW_MS), threads, count_row))
            .with_all(loops("row", of_rows, threads, count_row).into_iter().map(|s| s.touching(packed)));
        let of_rows = Rows::<CountSum> { data, records, slice_ms: WINDOW_MS, cell: PhantomData };
        summed = summed
            .with(engine(&small, threads, &sum)?)
            .with(engine_over_records(records, true, threads, &sum)?)
            .with(engine_over_records(records, false, threads, &sum)?)
            .with_all(loops("columnar", columns::<CountSum>(data, None, WINDOW_MS), threads, sum_row))
            .with_all(loops("row", of_rows, threads, sum_row).into_iter().map(|s| s.touching(packed)));
    }
    for case in [text, counted, summed] {
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}

/// Systems whose resources are counted.
pub(super) const SYSTEMS: [&str; 7] =
    ["millstream", "columnar", "columnar/global", "columnar/partition", "row", "row/global", "row/partition"];

/// Rows whose views are to be counted once, with one thread.
pub(super) struct Counted {
    data: Data,
    records: Records<RECORD>,
}

impl Counted {
    /// `rows` rows over `span_ms` of event time.
    pub(super) fn new(rows: u64, span_ms: u64) -> Counted {
        let data = Data::new(Shape { rows, keys: COUNTED_CAMPAIGNS, rows_per_ms: (rows / span_ms).max(1) });
        let records = data.records();
        Counted { data, records }
    }

    /// Runs one of [`SYSTEMS`].
    pub(super) fn run(&self, name: &str) -> Result<Checksum, Failure> {
        let (data, records) = (&self.data, &self.records);
        let of_rows = Rows::<Count> { data, records, slice_ms: WINDOW_MS, cell: PhantomData };
        Case::new(name, data.shape.rows)
            .with(engine(&data.small()?, 1, COUNT)?)
            .with_all(loops("columnar", columns::<Count>(data, None, WINDOW_MS), 1, count_row))
            .with_all(loops("row", of_rows, 1, count_row))
            .run_once(name)
    }
}

/// Beside operators that hand over one row at a time, over fewer rows: it takes them a second for a few million.
fn iterators(suite: &mut Suite) -> Result<(), Failure> {
    let rows = suite.rows(ROWS / 16);
    let data = Data::new(Shape { rows, keys: CAMPAIGNS, rows_per_ms: ROWS_PER_MS / 16 });
    let texts = &data.texts()?;
    let work = || {
        let condition = Expression::compare(Comparison::Equal, Expression::Column(0), Expression::Text("view".into()));
        let views = Filter { input: Box::new(Scan::new(texts, &[0, 1, 3])), condition };
        let windows = (WINDOW_MS, WINDOW_MS);
        Ok(drain(Box::new(Windows::new(Box::new(views), vec![1], 2, windows, 1, vec![Aggregate::Count]))))
    };
    let case = Case::new("iterator/event_type STRING, count", rows)
        .with(engine(texts, 1, COUNT)?)
        .with(System::new("iterator", 1, work));
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

/// One aggregate after the other (Grizzly, figure 8).
fn aggregates(suite: &mut Suite, data: &Data) -> Result<(), Failure> {
    let (rows, threads) = (data.shape.rows, suite.threads());
    let small = data.small()?;
    let case = |aggregate: &str| -> Result<Case<'_>, Failure> {
        let sql = COUNT.replace("COUNT(*)", aggregate);
        Ok(Case::new(format!("aggregates/{aggregate}"), rows)
            .limited_by_memory(SMALL_BYTES + VALUE_BYTES, &[threads])
            .with(engine(&small, threads, &sql)?))
    };
    let sums = columns::<CountSum>(data, None, WINDOW_MS);
    let moments = columns::<Moments>(data, None, WINDOW_MS);
    let values = columns::<Values>(data, None, WINDOW_MS);
    let (integer, double) = (Kind::Integer, Kind::Double);
    let cases = vec![
        case("COUNT(v)")?.with(by_hand(&sums, threads, integer, |cell| cell.count as i64)),
        case("SUM(v)")?.with(by_hand(&sums, threads, integer, |cell| cell.sum)),
        case("AVG(v)")?.with(by_hand(&sums, threads, integer, |cell| cell.sum / cell.count as i64)),
        case("STDDEV_POP(v)")?.with(by_hand(&moments, threads, double, |cell| cell.deviation().to_bits() as i64)),
        case("MEDIAN(v)")?.with(by_hand(&values, threads, double, |cell| median(&cell.0).to_bits() as i64)),
        case("MODE(v)")?.with(by_hand(&values, threads, integer, |cell| mode(&cell.0))),
    ];
    suite.measure(Across::Different, cases)?;
    Ok(())
}

/// The loop with tables of each thread, and an aggregate of each cell.
fn by_hand<'a, L: Layout>(
    layout: &'a L,
    threads: usize,
    kind: Kind,
    aggregate: impl Fn(&L::Cell) -> i64 + Sync + 'a,
) -> System<'a> {
    System::new("columnar", threads, move || {
        let kinds = [Kind::Integer, Kind::Integer, kind];
        Ok(output_slices(&local(layout, threads), threads, kinds, |rows, window, key, cell| {
            rows.push([key as i64, window * WINDOW_MS, aggregate(cell)]);
        }))
    })
}

/// The middle value, or the mean of the two middle ones.
fn median(values: &[i64]) -> f64 {
    let mut values = values.to_vec();
    let is_even = values.len().is_multiple_of(2);
    let middle = values.len() / 2;
    let (lower, upper, _) = values.select_nth_unstable(middle);
    match lower.iter().max() {
        Some(below) if is_even => (*below + *upper) as f64 / 2.0,
        _ => *upper as f64,
    }
}

/// The most frequent value, the smallest of those.
fn mode(values: &[i64]) -> i64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    let runs = values.chunk_by(|a, b| a == b);
    // The first of the longest: later ones of the same length do not replace it.
    runs.fold((0, 0), |best, run| if run.len() > best.1 { (run[0], run.len()) } else { best }).0
}

/// From one campaign to ten million (Grizzly, figure 11).
fn keys(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    for keys in KEYS {
        let shape = Shape { rows: suite.rows(ROWS / 2), keys, rows_per_ms: ROWS_PER_MS };
        let data = &Data::new(shape);
        let (small, records) = (data.small()?, &data.records());
        let of_columns = columns::<Count>(data, None, WINDOW_MS);
        let of_rows = Rows::<Count> { data, records, slice_ms: WINDOW_MS, cell: PhantomData };
        let case = Case::new(format!("keys/keys={keys}"), shape.rows)
            .limited_by_memory(SMALL_BYTES, &[threads])
            .with(engine(&small, threads, COUNT)?)
            .with_all(loops("columnar", of_columns, threads, count_row))
            .with_all(
                loops("row", of_rows, threads, count_row).into_iter().map(|s| s.touching(shape.rows * RECORD as u64)),
            );
        let by_hash = System::new("columnar/hash", threads, move || {
            Ok(hashed(&of_columns, threads, [Kind::Integer; 3], count_row))
        });
        let case = if keys < HASHED_KEYS { case } else { case.with(by_hash) };
        suite.measure(Across::Different, vec![case])?;
    }
    Ok(())
}

/// More and more windows that overlap (Grizzly, figure 9). By hand: slices, and a running sum over them.
fn sliding(suite: &mut Suite, data: &Data) -> Result<(), Failure> {
    const SLIDE_MS: i64 = 1000;
    let threads = suite.threads();
    let small = data.small()?;
    let slices = &columns::<CountSum>(data, None, SLIDE_MS);
    let mut cases = Vec::new();
    for windows in CONCURRENT {
        let sql = format!(
            "SELECT campaign, window_start, SUM(v)
             FROM TABLE(HOP(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' SECOND, INTERVAL '{windows}' SECOND))
             WHERE event_type = 'view' GROUP BY campaign, window_start, window_end"
        );
        let by_hand = System::new("columnar", threads, move || {
            Ok(output(&local(slices, threads), windows, threads, [Kind::Integer; 3], |rows, window, key, cell| {
                rows.push([key as i64, window * SLIDE_MS, cell.sum]);
            }))
        });
        let case = Case::new(format!("sliding/windows={windows}"), data.shape.rows);
        cases.push(case.with(engine(&small, threads, &sql)?).with(by_hand));
    }
    suite.measure(Across::Different, cases)?;
    Ok(())
}

/// Windows of a number of views of a campaign (Grizzly, figure 10). By hand, each thread takes its own campaigns.
fn count_windows(suite: &mut Suite, data: &Data) -> Result<(), Failure> {
    let threads = suite.threads();
    let small = data.small()?;
    let mut cases = Vec::new();
    for size in SIZES {
        let sql = format!(
            "SELECT campaign, COUNT(*), SUM(v) FROM TABLE(COUNT_TUMBLE(
                 TABLE views PARTITION BY campaign, DESCRIPTOR(event_time), {size}))
             GROUP BY campaign, window_start, window_end"
        );
        let by_hand = System::new("columnar/partition", threads, move || Ok(counted(data, size, threads)));
        let case = Case::new(format!("count windows/size={size}"), data.shape.rows);
        cases.push(case.with(engine(&small, threads, &sql)?).with(by_hand));
    }
    suite.measure(Across::Different, cases)?;
    Ok(())
}

/// Complete windows of `size` views.
fn counted(data: &Data, size: u64, threads: usize) -> Checksum {
    let part = |thread: usize| {
        let mut open = vec![CountSum::default(); data.shape.keys as usize];
        let mut rows = OutputRows::new([Kind::Integer; 3]);
        for batch in 0..data.times.len() {
            let (campaigns, values) = (data.campaigns[batch].values(), data.values[batch].values());
            select(
                data.types(batch),
                |number| number == 0,
                |row| {
                    let campaign = campaigns[row] as usize;
                    if campaign % threads != thread {
                        return;
                    }
                    let cell = &mut open[campaign];
                    cell.add(values[row]);
                    if cell.count == size {
                        rows.push([campaign as i64, size as i64, cell.sum]);
                        *cell = CountSum::default();
                    }
                },
            );
        }
        rows.finish()
    };
    in_threads(threads, part).into_iter().fold(Checksum::default(), Checksum::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_modes_are_those_of_the_engine() {
        assert_eq!([median(&[3]), median(&[4, 1]), median(&[9, 1, 2]), median(&[4, 3, 2, 1])], [3.0, 2.5, 2.0, 2.5]);
        assert_eq!([mode(&[3]), mode(&[5, 4, 4, 5]), mode(&[1, 2, 2])], [3, 4, 2]);
    }
}
