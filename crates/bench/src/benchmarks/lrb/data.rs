//! Position reports by the rules of Linear Road: each car reports every 30 s; some stop, some of them where another has
//! stopped.

use crate::by_hand::{Records, write_i64};
use crate::suite::{Failure, Random};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Int32Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema};
use std::sync::Arc;

pub(super) const BATCH: usize = 64 << 10;
/// Time between the reports of a car.
pub(super) const SLOT_MS: i64 = 30_000;
/// Slots for which reports come: 12 minutes.
pub(super) const SLOTS: i64 = 24;
const WAYS: i64 = 4;
const SEGMENTS: i64 = 100;
const SEGMENT_FEET: i64 = 5280;
const WAY_FEET: i64 = SEGMENTS * SEGMENT_FEET;
/// Feet that a car drives in a slot at a mile an hour.
const FEET_PER_MPH: i64 = 44;
/// One car in `STOPS` stops for a while, one in `ACCIDENTS` stops where the next car does.
const STOPS: i64 = 211;
const ACCIDENTS: i64 = 1009;
const STOPPED_SLOTS: i64 = 6;
const TRAVEL_LANES: i64 = 3;

/// Fields of a report: time, those of the benchmark, and those that pad it to 24 columns.
pub(super) const FIELDS: [&str; 23] = [
    "report_type",
    "vid",
    "speed",
    "xway",
    "lane",
    "dir",
    "seg",
    "pos",
    "qid",
    "s_init",
    "s_end",
    "dow",
    "tod",
    "day",
    "r1",
    "r2",
    "r3",
    "r4",
    "r5",
    "r6",
    "r7",
    "r8",
    "r9",
];
/// Places among the columns, of which the time is the first.
pub(super) const VID: usize = 2;
pub(super) const SPEED: usize = 3;
pub(super) const WAY: usize = 4;
pub(super) const LANE: usize = 5;
pub(super) const DIRECTION: usize = 6;
pub(super) const SEGMENT: usize = 7;
pub(super) const POSITION: usize = 8;
/// A record: the time, and 23 numbers of 4 bytes.
pub(super) const RECORD: usize = 8 + 4 * FIELDS.len();

/// A number for each segment of each way and direction.
pub(super) const SEGMENT_KEYS: usize = (WAYS * 2 * SEGMENTS) as usize;

#[inline(always)]
pub(super) fn segment_key(way: i32, direction: i32, segment: i32) -> usize {
    ((way * 2 + direction) * SEGMENTS as i32 + segment) as usize
}

/// Way, direction and segment of a number.
pub(super) fn segment_of(key: usize) -> [i64; 3] {
    let (key, segments) = (key as i64, SEGMENTS);
    [key / segments / 2, key / segments % 2, key % segments]
}

/// The offset of a column in a record.
pub(super) const fn offset(column: usize) -> usize {
    8 + 4 * (column - 1)
}

/// The reports.
pub(super) struct Data {
    pub(super) cars: usize,
    pub(super) batches: Vec<RecordBatch>,
}

/// A car: where it is.
struct Car {
    way: i64,
    direction: i64,
    lane: i64,
    position: i64,
}

impl Data {
    /// About `rows` reports.
    pub(super) fn new(rows: u64) -> Result<Data, Failure> {
        let cars = (rows as i64 / SLOTS).max(1);
        let mut random = Random::new(43);
        let mut fleet: Vec<Car> = (0..cars)
            .map(|_| Car {
                way: random.below(WAYS as u64),
                direction: random.below(2),
                lane: 1 + random.below(TRAVEL_LANES as u64),
                position: random.below(WAY_FEET as u64),
            })
            .collect();
        let mut columns = Builder::default();
        for slot in 0..SLOTS {
            for car in 0..cars as usize {
                let speed = drive(&mut fleet, car, slot, &mut random);
                let time = slot * SLOT_MS + car as i64 * SLOT_MS / cars;
                columns.push(time, car as i64, speed, &fleet[car]);
            }
        }
        Ok(Data { cars: cars as usize, batches: columns.finish()? })
    }

    /// The same as packed records.
    pub(super) fn records(&self) -> Records<RECORD> {
        let rows = self.batches.iter().map(RecordBatch::num_rows).sum();
        Records::new(rows, |row, record| {
            let (batch, row) = (&self.batches[row / BATCH], row % BATCH);
            write_i64(record, 0, times(batch)[row]);
            for column in 1..=FIELDS.len() {
                let at = offset(column);
                record[at..at + 4].copy_from_slice(&numbers(batch, column)[row].to_le_bytes());
            }
        })
    }
}

/// Moves a car to where it is in this slot, and returns its speed.
fn drive(fleet: &mut [Car], number: usize, slot: i64, random: &mut Random) -> i64 {
    let number = number as i64;
    let crashed = number - number % ACCIDENTS;
    let in_accident = number - crashed < 2;
    let begin = |car: i64| 1 + car / STOPS % (SLOTS - STOPPED_SLOTS - 1);
    let stops = |car: i64| (begin(car)..begin(car) + STOPPED_SLOTS).contains(&slot);
    if in_accident && stops(crashed) && slot == begin(crashed) && number != crashed {
        // The second car hits the first.
        let Car { way, direction, lane, position } = fleet[crashed as usize];
        fleet[number as usize] = Car { way, direction, lane, position };
    }
    if (in_accident && stops(crashed)) || (number % STOPS == 0 && stops(number)) {
        return 0;
    }
    let car = &mut fleet[number as usize];
    // Some segments are slow.
    let speed = 15 + car.position / SEGMENT_FEET * 7 % 50 + random.below(10);
    car.position = (car.position + speed * FEET_PER_MPH) % WAY_FEET;
    speed
}

/// Times of a batch.
#[inline(always)]
pub(super) fn times(batch: &RecordBatch) -> &[i64] {
    batch.column(0).as_primitive::<TimestampMillisecondType>().values()
}

/// Numbers of a column of a batch.
#[inline(always)]
pub(super) fn numbers(batch: &RecordBatch, column: usize) -> &[i32] {
    batch.column(column).as_primitive::<Int32Type>().values()
}

/// Columns as they grow.
#[derive(Default)]
struct Builder {
    times: Vec<i64>,
    /// Those from car to position.
    numbers: [Vec<i32>; POSITION - VID + 1],
}

impl Builder {
    fn push(&mut self, time: i64, car: i64, speed: i64, at: &Car) {
        self.times.push(time);
        let segment = at.position / SEGMENT_FEET;
        let values = [car, speed, at.way, at.lane, at.direction, segment, at.position];
        self.numbers.iter_mut().zip(values).for_each(|(column, value)| column.push(value as i32));
    }

    fn finish(self) -> Result<Vec<RecordBatch>, Failure> {
        let mut fields = vec![Field::new("ts", DataType::Timestamp(3), false)];
        fields.extend(FIELDS.map(|name| Field::new(name, DataType::Int, false)));
        let schema = Schema::new(fields).to_arrow();
        let times = TimestampMillisecondArray::from(self.times);
        let numbers: Vec<Int32Array> = self.numbers.into_iter().map(Int32Array::from).collect();
        // No query reads the others.
        let unread = Int32Array::from_value(-1, BATCH);
        let batch = |from: usize| {
            let rows = BATCH.min(times.len() - from);
            let column = |column: usize| -> ArrayRef {
                match column {
                    0 => Arc::new(times.slice(from, rows)),
                    VID..=POSITION => Arc::new(numbers[column - VID].slice(from, rows)),
                    _ => Arc::new(unread.slice(0, rows)),
                }
            };
            Ok(RecordBatch::try_new(schema.clone(), (0..=FIELDS.len()).map(column).collect())?)
        };
        (0..times.len()).step_by(BATCH).map(batch).collect()
    }
}
