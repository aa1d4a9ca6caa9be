//! Linear Road: accidents and tolls (Zeuch et al., section 5.1; Arasu et al., VLDB 2004).

mod data;
mod loops;

use crate::by_hand::systems;
use crate::iterator::{Aggregate, Comparison, Expression, Filter, Scan, Windows, drain};
use crate::suite::{Across, Benchmark, Case, Checksum, Failure, Runs, Suite, System, query, session};
use arrow_array::RecordBatch;
use data::{Data, FIELDS, RECORD, SLOT_MS, SPEED, VID};
use loops::{Columns, PLACE, Places, Rows, accidents_in_columns, accidents_in_records};
use millstream::Session;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "lrb",
    title: "Linear Road: accidents and tolls (Zeuch, section 5.1)",
    data: "6 M position reports in memory: 250,000 cars on 4 ways of 100 segments in 2 directions report every 30 s for 12
           minutes; one in 211 stops for 3 minutes, one in 1,009 where the next one does. The benchmark's 15 fields, and nine
           that no query reads, as 24 columns and as packed records of 100 bytes",
    query: "accidents: places where at least two cars have reported the same position four times in a row (the query looks at
            cars of speed 0, the query touches 12 bytes of a row). Tolls of each segment and minute: with more than 50 cars in the minute
            and less than 40 miles an hour in the five minutes until its end, 2 × (cars - 50)²; tolls are not waived near
            accidents (the query touches 28 bytes of a row)",
    measured: "the whole statement, its rows added up. By hand: sums of speeds in tables of each thread (columnar, row), in tables of
               atomics (/global), exchanged by segment first (/partition), and the segment of every car and slot in one array of
               all threads; accidents from the few reports of cars that stand",
    runs: Runs::Always,
    run,
};

const ROWS: u64 = 6_000_000;
const MINUTE_MS: i64 = 60_000;
/// Minutes of which the mean speed decides.
const LAV_MINUTES: i64 = 5;
const SLOW_MPH: f64 = 40.0;
/// More cars than this pay.
const CARS: i64 = 50;
/// Reports after which a car is taken to have stopped.
const SLOTS_STOPPED: i64 = 4;
/// Speed and time; of the rows that pass the filter there are few.
const ACCIDENT_BYTES: u64 = 4 + 8;
/// Car, speed, way, direction, segment, time.
const TOLL_BYTES: u64 = 5 * 4 + 8;
/// Rows of the iterators are fewer by this.
const ITERATOR_SHARE: u64 = 6;

const ACCIDENTS: &str = "SELECT xway, lane, dir, seg, pos, window_start, COUNT(*)
    FROM (SELECT xway, lane, dir, seg, pos, window_start, window_end
          FROM TABLE(HOP(TABLE reports, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '120' SECOND))
          WHERE speed = 0 GROUP BY vid, xway, lane, dir, seg, pos, window_start, window_end HAVING COUNT(*) >= 4) AS stopped
    GROUP BY xway, lane, dir, seg, pos, window_start, window_end HAVING COUNT(*) >= 2";

const TOLLS: &str = "SELECT c.xway, c.dir, c.seg, c.window_end, 2 * (c.cars - 50) * (c.cars - 50)
    FROM (SELECT xway, dir, seg, window_end, window_time AS at, COUNT(DISTINCT vid) AS cars
          FROM TABLE(TUMBLE(TABLE reports, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
          GROUP BY xway, dir, seg, window_start, window_end, window_time) AS c
    JOIN (SELECT xway, dir, seg, window_time AS at, AVG(CAST(speed AS DOUBLE)) AS lav
          FROM TABLE(HOP(TABLE reports, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))
          GROUP BY xway, dir, seg, window_start, window_end, window_time) AS l
    ON c.xway = l.xway AND c.dir = l.dir AND c.seg = l.seg AND c.at = l.at
    WHERE c.cars > 50 AND l.lav < 40";

fn toll(cars: i64) -> i64 {
    2 * (cars - CARS) * (cars - CARS)
}

/// Runs all systems for each query.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let counts = suite.thread_counts();
    let data = &suite.generate("columns", || Data::new(suite.rows(ROWS)))?;
    let records = &suite.generate("records", || data.records());
    let places = &Places::new(data.cars);
    let rows = data.batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let packed = rows * RECORD as u64;
    let mut accidents = Case::new("accidents", rows).limited_by_memory(ACCIDENT_BYTES, &counts);
    let mut tolls = Case::new("tolls", rows).limited_by_memory(TOLL_BYTES, &counts);
    for threads in counts {
        let of_columns = System::new("columnar", threads, move || Ok(accidents_in_columns(data, threads)));
        let of_rows = System::new("row", threads, move || Ok(accidents_in_records(records, threads)));
        accidents = accidents.with(engine(&data.batches, threads, ACCIDENTS)?).with(of_columns);
        accidents = accidents.with(of_rows.touching(packed));
        let finish = |slices: &_| places.tolls(slices);
        tolls = tolls
            .with(engine(&data.batches, threads, TOLLS)?)
            .with_all(systems("columnar", Columns(data, places), threads, finish))
            .with_all(systems("row", Rows(records, places), threads, finish).map(|system| system.touching(packed)));
    }
    suite.measure(Across::Different, vec![accidents])?;
    suite.measure(Across::Different, vec![tolls])?;
    let data = &Data::new(suite.rows(ROWS / ITERATOR_SHARE))?;
    let rows = data.batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let iterator = System::new("iterator", 1, || Ok(iterate(&data.batches)));
    let case = Case::new("iterator/accidents", rows).with(engine(&data.batches, 1, ACCIDENTS)?).with(iterator);
    suite.measure(Across::Different, vec![case])?;
    Ok(())
}

fn engine(batches: &[RecordBatch], threads: usize, sql: &'static str) -> Result<System<'static>, Failure> {
    let mut session = reports(batches, threads)?;
    Ok(System::measured("millstream", threads, move || query(&mut session, sql)))
}

/// A session with the table.
fn reports(batches: &[RecordBatch], threads: usize) -> Result<Session, Failure> {
    let mut session = session(threads)?;
    let fields = FIELDS.map(|name| format!("{name} INT NOT NULL")).join(", ");
    let columns = format!("ts TIMESTAMP(3) NOT NULL, {fields}, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND");
    session.register("reports", &columns, batches.to_vec())?;
    Ok(session)
}

/// Accidents by operators that hand over one row at a time.
fn iterate(batches: &[RecordBatch]) -> Checksum {
    let [way, lane, direction, segment, position] = PLACE;
    let scan = Scan::new(batches, &[0, SPEED, VID, way, lane, direction, segment, position]);
    let stands = Expression::compare(Comparison::Equal, Expression::Column(1), Expression::Integer(0));
    let standing = Filter { input: Box::new(scan), condition: stands };
    let windows = (SLOTS_STOPPED * SLOT_MS, SLOT_MS);
    let by_car = Windows::new(Box::new(standing), (2..8).collect(), 0, windows, 1, vec![Aggregate::Count]);
    // Car, place, start, reports.
    let at_least = |column, number| {
        Expression::compare(Comparison::Greater, Expression::Column(column), Expression::Integer(number - 1))
    };
    let stopped = Filter { input: Box::new(by_car), condition: at_least(7, SLOTS_STOPPED) };
    let by_place = Windows::new(Box::new(stopped), (1..6).collect(), 6, (SLOT_MS, SLOT_MS), 1, vec![Aggregate::Count]);
    drain(Box::new(Filter { input: Box::new(by_place), condition: at_least(6, 2) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use data::{DIRECTION, SEGMENT, WAY, numbers, times};
    use std::collections::{BTreeMap, BTreeSet};

    /// Slot, car, speed and place.
    type Report = (i64, i32, i64, [i64; 5]);

    /// Cars and speeds in a segment.
    type Minute = (BTreeSet<i32>, Vec<i64>);

    fn reports(data: &Data) -> Vec<Report> {
        let of = |batch: &RecordBatch| {
            let row = |row: usize| {
                let place = PLACE.map(|column| i64::from(numbers(batch, column)[row]));
                (times(batch)[row] / SLOT_MS, numbers(batch, VID)[row], i64::from(numbers(batch, SPEED)[row]), place)
            };
            (0..batch.num_rows()).map(row).collect::<Vec<_>>()
        };
        data.batches.iter().flat_map(of).collect()
    }

    /// The rules, as they are written: whatever the speed, four reports from one place.
    fn accidents(data: &Data) -> Checksum {
        let mut paths: BTreeMap<i32, BTreeMap<i64, [i64; 5]>> = BTreeMap::new();
        for (slot, car, _, place) in reports(data) {
            paths.entry(car).or_default().insert(slot, place);
        }
        let mut stopped: BTreeMap<(i64, [i64; 5]), i64> = BTreeMap::new();
        for path in paths.values() {
            for (slot, place) in path {
                if (*slot..slot + SLOTS_STOPPED).all(|slot| path.get(&slot) == Some(place)) {
                    *stopped.entry((*slot, *place)).or_default() += 1;
                }
            }
        }
        let mut found = Checksum::default();
        for ((slot, [way, lane, direction, segment, position]), cars) in stopped.into_iter().filter(|(_, n)| *n > 1) {
            found.add(&[way, lane, direction, segment, position, slot * SLOT_MS, cars]);
        }
        found
    }

    fn tolls(data: &Data) -> Checksum {
        let mut minutes: BTreeMap<(i64, [i64; 3]), Minute> = BTreeMap::new();
        for (slot, car, speed, [way, _, direction, segment, _]) in reports(data) {
            let minute = minutes.entry((slot * SLOT_MS / MINUTE_MS, [way, direction, segment])).or_default();
            minute.0.insert(car);
            minute.1.push(speed);
        }
        let mut found = Checksum::default();
        for ((minute, key), (cars, _)) in &minutes {
            let last = (minute + 1 - LAV_MINUTES..=*minute).filter_map(|minute| minutes.get(&(minute, *key)));
            let speeds: Vec<i64> = last.flat_map(|(_, speeds)| speeds).copied().collect();
            let mean = speeds.iter().sum::<i64>() as f64 / speeds.len() as f64;
            let cars = cars.len() as i64;
            if cars > CARS && mean < SLOW_MPH {
                found.add(&[key[0], key[1], key[2], (minute + 1) * MINUTE_MS, toll(cars)]);
            }
        }
        found
    }

    #[test]
    fn accidents_and_tolls_are_those_of_a_simple_model() {
        // As many cars as it takes for segments to be crowded.
        let data = Data::new(1_200_000).unwrap();
        assert!(data.batches[0].num_columns() == 24 && numbers(&data.batches[0], WAY).iter().all(|way| *way < 4));
        assert!([DIRECTION, SEGMENT].iter().all(|c| numbers(&data.batches[0], *c).iter().any(|v| *v > 0)));
        let (accidents, tolls) = (accidents(&data), tolls(&data));
        assert!(accidents.rows > 20 && tolls.rows > 100, "{accidents:?} {tolls:?}");
        assert_eq!(accidents_in_columns(&data, 2), accidents);
        assert_eq!(accidents_in_records(&data.records(), 2), accidents);
        assert_eq!(iterate(&data.batches), accidents);
        let mut session = super::reports(&data.batches, 2).unwrap();
        assert_eq!(query(&mut session, ACCIDENTS).unwrap().checksum, Some(accidents));
        assert_eq!(query(&mut session, TOLLS).unwrap().checksum, Some(tolls));
    }
}
