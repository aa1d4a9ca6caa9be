//! Hand-written loops. Tolls: sums of speeds by segment and minute in tables, and the segment of each car in each slot, from
//! which cars are counted. Accidents: the few reports of cars that stand, then the runs of each of these cars.

use super::data::{
    BATCH, DIRECTION, Data, LANE, POSITION, RECORD, SEGMENT, SEGMENT_KEYS, SLOT_MS, SLOTS, SPEED, VID, WAY, numbers,
    offset, segment_key, segment_of, times,
};
use super::{CARS, LAV_MINUTES, MINUTE_MS, SLOTS_STOPPED, SLOW_MPH, toll};
use crate::by_hand::{
    BLOCK, CountSum, Layout, Records, Slices, Target, in_threads, one_window, read_i32, read_i64, select,
};
use crate::suite::{Checksum, Kind, OutputRows};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

/// No segment.
const NONE: u16 = u16::MAX;

/// The segment of each car in each slot. Each place is written by the one report that it is for.
pub(super) struct Places {
    cars: usize,
    segments: Vec<AtomicU16>,
}

impl Places {
    pub(super) fn new(cars: usize) -> Places {
        Places { cars, segments: (0..cars * SLOTS as usize).map(|_| AtomicU16::new(NONE)).collect() }
    }

    #[inline(always)]
    fn set(&self, time: i64, car: i32, segment: usize) {
        self.segments[(time / SLOT_MS) as usize * self.cars + car as usize].store(segment as u16, Relaxed);
    }

    /// Cars in each segment in a minute, which is two slots, and forgets them.
    fn take_cars(&self, minute: i64) -> Vec<i64> {
        let mut cars = vec![0; SEGMENT_KEYS];
        let slots = (MINUTE_MS / SLOT_MS) as usize;
        let first = minute as usize * slots * self.cars;
        for car in first..(first + self.cars).min(self.segments.len()) {
            let taken =
                [0, self.cars].map(|slot| self.segments.get(car + slot).map_or(NONE, |s| s.swap(NONE, Relaxed)));
            if taken[0] != NONE {
                cars[taken[0] as usize] += 1;
            }
            if taken[1] != NONE && taken[1] != taken[0] {
                cars[taken[1] as usize] += 1;
            }
        }
        cars
    }

    /// Adds up the tolls: by segment and end of the minute.
    pub(super) fn tolls(&self, slices: &Slices<CountSum>) -> Checksum {
        let mut tolls = OutputRows::new([Kind::Integer; 5]);
        for minute in slices.keys() {
            let cars = self.take_cars(*minute);
            let last: Vec<&Vec<CountSum>> = slices.range(minute + 1 - LAV_MINUTES..=*minute).map(|(_, t)| t).collect();
            for (key, cars) in cars.into_iter().enumerate().filter(|(_, cars)| *cars > CARS) {
                let (count, sum) = last.iter().fold((0, 0), |(n, s), table| (n + table[key].count, s + table[key].sum));
                if sum as f64 / (count as f64) < SLOW_MPH {
                    let [way, direction, segment] = segment_of(key);
                    tolls.push([way, direction, segment, (minute + 1) * MINUTE_MS, toll(cars)]);
                }
            }
        }
        tolls.finish()
    }
}

/// Reports as columns.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a>(pub(super) &'a Data, pub(super) &'a Places);

impl Layout for Columns<'_> {
    type Cell = CountSum;

    fn chunks(&self) -> usize {
        self.0.batches.len()
    }

    fn keys(&self) -> usize {
        SEGMENT_KEYS
    }

    fn windows(&self) -> Range<i64> {
        0..SLOTS * SLOT_MS / MINUTE_MS
    }

    #[inline(always)]
    fn scan<T: Target<CountSum>>(&self, chunk: usize, target: &mut T) {
        let batch = &self.0.batches[chunk];
        let times = times(batch);
        let [cars, speeds, ways] = [VID, SPEED, WAY].map(|column| numbers(batch, column));
        let [directions, segments] = [DIRECTION, SEGMENT].map(|column| numbers(batch, column));
        for from in (0..times.len()).step_by(BLOCK) {
            let rows = from..(from + BLOCK).min(times.len());
            let window = one_window(&times[rows.clone()], MINUTE_MS);
            if let Some(window) = window {
                target.window(window);
            }
            for row in rows {
                if window.is_none() {
                    target.window(times[row].div_euclid(MINUTE_MS));
                }
                let segment = segment_key(ways[row], directions[row], segments[row]);
                self.1.set(times[row], cars[row], segment);
                target.add(segment, speeds[row].into());
            }
        }
    }
}

/// Reports as packed records.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a>(pub(super) &'a Records<RECORD>, pub(super) &'a Places);

impl Layout for Rows<'_> {
    type Cell = CountSum;

    fn chunks(&self) -> usize {
        self.0.rows().div_ceil(BATCH)
    }

    fn keys(&self) -> usize {
        SEGMENT_KEYS
    }

    fn windows(&self) -> Range<i64> {
        0..SLOTS * SLOT_MS / MINUTE_MS
    }

    #[inline(always)]
    fn scan<T: Target<CountSum>>(&self, chunk: usize, target: &mut T) {
        let mut end = i64::MIN;
        for record in self.0.chunk(chunk, BATCH) {
            let field = |column: usize| read_i32(record, offset(column));
            let time = read_i64(record, 0);
            if time >= end {
                let window = time.div_euclid(MINUTE_MS);
                end = (window + 1) * MINUTE_MS;
                target.window(window);
            }
            let segment = segment_key(field(WAY), field(DIRECTION), field(SEGMENT));
            self.1.set(time, field(VID), segment);
            target.add(segment, field(SPEED).into());
        }
    }
}

/// A report of a car that stands: its slot, its number, and where it is.
type Stop = (i64, i32, [i32; 5]);

/// What tells a place from others: way, lane, direction, segment, position.
pub(super) const PLACE: [usize; 5] = [WAY, LANE, DIRECTION, SEGMENT, POSITION];

/// Accidents found in columns.
pub(super) fn accidents_in_columns(data: &Data, threads: usize) -> Checksum {
    accidents(data.batches.len(), threads, |chunk, stops| {
        let batch = &data.batches[chunk];
        let (times, cars) = (times(batch), numbers(batch, VID));
        let place = PLACE.map(|column| numbers(batch, column));
        select(
            numbers(batch, SPEED),
            |speed| speed == 0,
            |row| {
                stops.push((times[row] / SLOT_MS, cars[row], place.map(|column| column[row])));
            },
        );
    })
}

/// Accidents found in records.
pub(super) fn accidents_in_records(records: &Records<RECORD>, threads: usize) -> Checksum {
    accidents(records.rows().div_ceil(BATCH), threads, |chunk, stops| {
        for record in records.chunk(chunk, BATCH) {
            let field = |column: usize| read_i32(record, offset(column));
            if field(SPEED) == 0 {
                stops.push((read_i64(record, 0) / SLOT_MS, field(VID), PLACE.map(field)));
            }
        }
    })
}

/// Places where at least two cars have stood for four slots, by the first of them.
fn accidents(chunks: usize, threads: usize, scan: impl Fn(usize, &mut Vec<Stop>) + Sync) -> Checksum {
    let next = AtomicUsize::new(0);
    let parts = in_threads(threads, |_| {
        let mut stops = Vec::new();
        loop {
            let chunk = next.fetch_add(1, Relaxed);
            if chunk >= chunks {
                return stops;
            }
            scan(chunk, &mut stops);
        }
    });
    let mut stops: Vec<Stop> = parts.into_iter().flatten().collect();
    stops.sort_unstable();
    // The last slot of a car, its place, and for how many slots it has been there.
    let mut runs: HashMap<i32, (i64, [i32; 5], i64)> = HashMap::new();
    let mut standing: BTreeMap<(i64, [i32; 5]), i64> = BTreeMap::new();
    for (slot, car, place) in stops {
        let run = runs.entry(car).or_insert((slot, place, 0));
        let length = if *run == (slot - 1, place, run.2) { run.2 + 1 } else { 1 };
        *run = (slot, place, length);
        if length >= SLOTS_STOPPED {
            *standing.entry((slot + 1 - SLOTS_STOPPED, place)).or_default() += 1;
        }
    }
    let mut found = OutputRows::new([Kind::Integer; 7]);
    for ((slot, place), cars) in standing.into_iter().filter(|(_, cars)| *cars >= 2) {
        let [way, lane, direction, segment, position] = place.map(i64::from);
        found.push([way, lane, direction, segment, position, slot * SLOT_MS, cars]);
    }
    found.finish()
}
