//! The Yahoo streaming benchmark's query from memory: views per campaign and 10 seconds.

use crate::suite::{Across, Benchmark, Case, Checksum, Failure, Runs, Suite, System, query, session};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::sync::Arc;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "ysb",
    title: "the Yahoo streaming benchmark's query from memory (Zeuch et al., section 5.1)",
    data:
        "24 M rows in memory: event_type (a third are views), campaign (10,000 values at random), event_time (200 rows a
           millisecond, so that windows open and close during the measurement)",
    query: "views per campaign and 10 s",
    measured:
        "the whole query, compilation included, its rows added up; by hand a loop that counts in a dense array, and one
               that counts in a hash table",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 24_000_000;
const BATCH: u64 = 64 << 10;
const CAMPAIGNS: u64 = 10_000;
const WINDOW_MS: i64 = 10_000;
const ROWS_PER_MS: u64 = 200;
/// A string view, a key and a time.
const BYTES_PER_ROW: u64 = 32;

/// Generates the columns, runs the systems in turn, compares and reports.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let rows = suite.rows(ROWS);
    let batches = suite.generate("the rows", || generate(rows))?;
    let batches = &batches;
    let counts = suite.thread_counts();
    let mut case = Case::new(format!("keys={CAMPAIGNS}"), rows).limited_by_memory(BYTES_PER_ROW, &counts);
    for threads in counts {
        let mut session = session(threads)?;
        session.register(
            "events",
            "event_type STRING NOT NULL, campaign BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
             WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
            batches.clone(),
        )?;
        let sql = "SELECT campaign, window_start, COUNT(*) AS views
                   FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
                   WHERE event_type = 'view' GROUP BY campaign, window_start, window_end";
        case = case
            .with(System::measured("millstream", threads, move || query(&mut session, sql)))
            .with(System::new("columnar/array", threads, move || Ok(by_hand(batches, threads, dense))))
            .with(System::new("columnar/hash table", threads, move || Ok(by_hand(batches, threads, hashed))));
    }
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

fn generate(all_rows: u64) -> Result<Vec<RecordBatch>, Failure> {
    let schema = Schema::new(vec![
        Field::new("event_type", DataType::STRING, false),
        Field::new("campaign", DataType::BigInt, false),
        Field::new("event_time", DataType::Timestamp(3), false),
    ])
    .to_arrow();
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    };
    let mut batches = Vec::new();
    for first in (0..all_rows).step_by(BATCH as usize) {
        let rows = BATCH.min(all_rows - first);
        let mut types = StringViewBuilder::with_capacity(rows as usize);
        let mut campaigns = Vec::with_capacity(rows as usize);
        for _ in 0..rows {
            types.append_value(["view", "click", "purchase"][(random() % 3) as usize]);
            campaigns.push((random() % CAMPAIGNS) as i64);
        }
        let times = (first..first + rows).map(|row| (row / ROWS_PER_MS) as i64);
        batches.push(RecordBatch::try_new(
            schema.clone(),
            vec![
                Arc::new(types.finish()),
                Arc::new(Int64Array::from(campaigns)),
                Arc::new(TimestampMillisecondArray::from_iter_values(times)),
            ],
        )?);
    }
    Ok(batches)
}

/// Number of a window and the views of each campaign in it.
type Window = (i64, Vec<(i64, u64)>);

/// Counts of one window by campaign, and a way to add those of another thread.
trait Counts: Default + Send {
    fn add(&mut self, campaign: i64, views: u64);
    fn groups(&self) -> impl Iterator<Item = (i64, u64)>;
}

/// A slot for every campaign.
struct Dense(Vec<u64>);

impl Default for Dense {
    fn default() -> Dense {
        Dense(vec![0; CAMPAIGNS as usize])
    }
}

impl Counts for Dense {
    fn add(&mut self, campaign: i64, views: u64) {
        self.0[campaign as usize] += views;
    }

    fn groups(&self) -> impl Iterator<Item = (i64, u64)> {
        self.0.iter().enumerate().map(|(c, n)| (c as i64, *n)).filter(|(_, n)| *n > 0)
    }
}

/// Linear probing over (campaign + 1, count), at most half full.
struct Hashed(Vec<(i64, u64)>);

impl Default for Hashed {
    fn default() -> Hashed {
        Hashed(vec![(0, 0); (2 * CAMPAIGNS).next_power_of_two() as usize])
    }
}

impl Counts for Hashed {
    fn add(&mut self, campaign: i64, views: u64) {
        let mask = self.0.len() - 1;
        let mut slot = (campaign as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(20) as usize & mask;
        loop {
            let entry = &mut self.0[slot];
            if entry.0 == campaign + 1 || entry.0 == 0 {
                *entry = (campaign + 1, entry.1 + views);
                return;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn groups(&self) -> impl Iterator<Item = (i64, u64)> {
        self.0.iter().filter(|e| e.0 != 0).map(|e| (e.0 - 1, e.1))
    }
}

fn dense(batches: &[RecordBatch]) -> Vec<Window> {
    count::<Dense>(batches)
}

fn hashed(batches: &[RecordBatch]) -> Vec<Window> {
    count::<Hashed>(batches)
}

/// The loop: filter by one 16-byte compare, count in the table of the current window.
fn count<C: Counts>(batches: &[RecordBatch]) -> Vec<Window> {
    let view = {
        let mut bytes = [0u8; 16];
        bytes[0] = 4;
        bytes[4..8].copy_from_slice(b"view");
        u128::from_le_bytes(bytes)
    };
    let mut done = Vec::new();
    let (mut window, mut counts) = (i64::MIN, C::default());
    for batch in batches {
        let types = batch.column(0).as_string_view().views();
        let campaigns = batch.column(1).as_primitive::<Int64Type>().values();
        let times = batch.column(2).as_primitive::<TimestampMillisecondType>().values();
        for ((event_type, campaign), time) in types.iter().zip(campaigns).zip(times) {
            if *event_type != view {
                continue;
            }
            // Times do not go back in this data.
            if *time >= window.saturating_add(WINDOW_MS) || window == i64::MIN {
                if window != i64::MIN {
                    done.push((window / WINDOW_MS, std::mem::take(&mut counts).groups().collect()));
                }
                window = time / WINDOW_MS * WINDOW_MS;
            }
            counts.add(*campaign, 1);
        }
    }
    if window != i64::MIN {
        done.push((window / WINDOW_MS, counts.groups().collect()));
    }
    done
}

/// Runs a loop over an equal part of the batches in each thread and merges the windows.
fn by_hand(batches: &[RecordBatch], threads: usize, work: fn(&[RecordBatch]) -> Vec<Window>) -> Checksum {
    let share = batches.len().div_ceil(threads);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = batches.chunks(share).map(|part| scope.spawn(move || work(part))).collect();
        handles.into_iter().map(|h| h.join().expect("a loop does not panic")).collect()
    });
    let mut merged: std::collections::BTreeMap<i64, Dense> = Default::default();
    for (window, groups) in parts.into_iter().flatten() {
        let counts = merged.entry(window).or_default();
        groups.into_iter().for_each(|(campaign, views)| counts.add(campaign, views));
    }
    let mut result = Checksum::default();
    for (window, counts) in &merged {
        for (campaign, views) in counts.groups() {
            result.add(&[campaign, window * WINDOW_MS, views as i64]);
        }
    }
    result
}
