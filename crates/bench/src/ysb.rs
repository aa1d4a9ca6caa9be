//! The Yahoo streaming benchmark's query from memory: views per campaign and 10 seconds (Zeuch et al., section 5.1).
//!
//! Columns: `event_type` (three values, a third are views), `campaign` (10,000 values), `event_time` (1 ms for every
//! 10,000 rows, so that windows open and close during the measurement). Measured: the whole query over the columns,
//! and two hand-written loops over the same columns, one counting in a dense array, the other in a hash table.

use crate::measure::{REPETITIONS, median, report, timed};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema, Session, SessionConfig};
use std::error::Error;
use std::sync::Arc;

const ROWS: u64 = 24_000_000;
const BATCH: u64 = 64 << 10;
const CAMPAIGNS: u64 = 10_000;
const WINDOW_MS: i64 = 10_000;
const ROWS_PER_MS: u64 = 200;

/// Sum over all groups of `views × (campaign + 1) × (window + 1)`, so that a wrong group shows.
type Checksum = (u64, u64);

/// Generates the columns, runs the systems in turn, compares and reports.
pub(crate) fn run(threads: usize) -> Result<(), Box<dyn Error>> {
    let batches = generate()?;
    println!("\nysb: views per campaign and 10 s, {ROWS} rows in memory, {CAMPAIGNS} campaigns, {threads} threads");
    let mut seconds: [Vec<f64>; 3] = Default::default();
    let mut session = Session::new(SessionConfig::default());
    session.set("parallelism.default", &threads.to_string())?;
    session.set("pipeline.tier", "compiled")?;
    session.register(
        "events",
        "event_type STRING NOT NULL, campaign BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
         WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        batches.clone(),
    )?;
    for repetition in 0..=REPETITIONS {
        let runs = [
            timed(|| engine(&mut session)),
            timed(|| Ok(by_hand(&batches, threads, dense))),
            timed(|| Ok(by_hand(&batches, threads, hashed))),
        ];
        let mut results = Vec::new();
        for (seconds, (taken, result)) in seconds.iter_mut().zip(runs) {
            results.push(result?);
            if repetition > 0 {
                seconds.push(taken);
            }
        }
        if results.iter().any(|r| *r != results[0]) {
            return Err(format!("results differ: {results:?}").into());
        }
    }
    let baseline = median(&seconds[0]);
    report("millstream", &seconds[0], ROWS, baseline);
    report("hand-written loop, dense array", &seconds[1], ROWS, baseline);
    report("hand-written loop, hash table", &seconds[2], ROWS, baseline);
    Ok(())
}

fn generate() -> Result<Vec<RecordBatch>, Box<dyn Error>> {
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
    for first in (0..ROWS).step_by(BATCH as usize) {
        let rows = BATCH.min(ROWS - first);
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

fn engine(session: &mut Session) -> Result<Checksum, Box<dyn Error>> {
    let rows = session.query(
        "SELECT campaign, window_start, COUNT(*) AS views
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
         WHERE event_type = 'view'
         GROUP BY campaign, window_start, window_end",
    )?;
    let campaigns = rows.column(0).as_primitive::<Int64Type>();
    let starts = rows.column(1).as_primitive::<TimestampMillisecondType>();
    let views = rows.column(2).as_primitive::<Int64Type>();
    let mut sum = 0u64;
    for row in 0..rows.num_rows() {
        sum = sum.wrapping_add(weight(campaigns.value(row), starts.value(row) / WINDOW_MS, views.value(row) as u64));
    }
    Ok((rows.num_rows() as u64, sum))
}

fn weight(campaign: i64, window: i64, views: u64) -> u64 {
    views * (campaign as u64 + 1) * (window as u64 + 1)
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
    let (mut rows, mut sum) = (0, 0u64);
    for (window, counts) in &merged {
        for (campaign, views) in counts.groups() {
            rows += 1;
            sum = sum.wrapping_add(weight(campaign, *window, views));
        }
    }
    (rows, sum)
}
