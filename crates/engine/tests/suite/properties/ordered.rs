//! What depends on the order of rows: Top-N and OVER.

use super::model::{self, Aggregate, Group, text};
use super::streams::{Disorder, Random, Row, interval, stream};
use super::{Input, check};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// An order in SQL and in the model; rows that are equal in it keep the order of arrival. NULL is the smallest value.
type Order = (&'static str, fn(&Row, &Row) -> Ordering);

const ORDERS: [Order; 5] = [
    ("v DESC", |a, b| b.v.cmp(&a.v)),
    ("v", |a, b| a.v.cmp(&b.v)),
    ("s, v DESC", |a, b| a.s.cmp(&b.s).then(b.v.cmp(&a.v))),
    ("d DESC NULLS FIRST, id DESC", |a, b| {
        let key = |row: &Row| (row.d.is_none(), row.d.map_or(0, |d| (d * 4.0) as i64), row.id);
        key(b).cmp(&key(a))
    }),
    ("ts", |a, b| a.time.cmp(&b.time)),
];

#[test]
fn top_n_keeps_the_first_rows_of_each_window() {
    for case in 0..12 {
        let random = &mut Random::new(case + 20_000);
        let disorder = Disorder::any(random);
        let length = random.within(1..140);
        let rows = stream(random, length, 0, disorder);
        let (size, slide) = random.pick(&[(3000, 3000), (4000, 2000), (30_000, 30_000)]);
        let (order, compare) = random.pick(&ORDERS);
        let by_key = random.once_in(2);
        let (first, last) = random.pick(&[(1, 1), (1, 3), (2, 4)]);
        let key = |row: &Row| if by_key { vec![text(row.k)] } else { vec![] };
        let groups = model::grouped(&rows, key, |time| model::hop(size, slide, 0, time));
        let top = |group: &Group<'_>| {
            let mut rows = group.rows.clone();
            rows.sort_by(|a, b| compare(a, b));
            let line =
                |(i, row): (usize, &&Row)| vec![group.window.1.to_string(), row.id.to_string(), (i + 1).to_string()];
            rows.iter().enumerate().filter(|(i, _)| (first..=last).contains(&(i + 1))).map(line).collect::<Vec<_>>()
        };
        let sql = format!(
            "SELECT window_end, id, rn FROM (
                 SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end{} ORDER BY {order}) AS rn
                 FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), {}, {}))
             ) WHERE rn BETWEEN {first} AND {last}",
            if by_key { ", k" } else { "" },
            interval(slide),
            interval(size)
        );
        let expected = groups.iter().flat_map(top).collect();
        check(case, &[Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms }], &sql, expected);
    }
}

#[test]
fn over_aggregates_take_in_the_rows_before() {
    let aggregates: [&[Aggregate]; 3] = [&model::ACCUMULATED, &model::KEPT, &model::ORDERED];
    for case in 0..12 {
        let random = &mut Random::new(case + 21_000);
        let disorder = Disorder::any(random);
        let length = random.within(1..90);
        let rows = stream(random, length, 0, disorder);
        // FILTER does not go with OVER.
        let any = |i: usize| aggregates[(case as usize + i) % 3].iter().filter(|(sql, _)| !sql.contains("FILTER"));
        let list: Vec<Aggregate> = (0..3).map(|i| random.pick(&any(i).copied().collect::<Vec<_>>())).collect();
        let before = random.within(0..6);
        let reach = random.pick(&[0, 200, 1500, 100_000]);
        let by_rows = case % 2 == 0;
        let unbounded = case % 4 >= 2;
        let frame = match (by_rows, unbounded) {
            (true, true) => "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW".to_string(),
            (true, false) => format!("ROWS BETWEEN {before} PRECEDING AND CURRENT ROW"),
            (false, true) => "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW".to_string(),
            (false, false) => format!("RANGE BETWEEN {} PRECEDING AND CURRENT ROW", interval(reach)),
        };
        let framed = match unbounded {
            true => unbounded_frames(&rows, by_rows),
            false => bounded_frames(&rows, if by_rows { Bound::Rows(before as usize) } else { Bound::Range(reach) }),
        };
        let of = |(row, frame): &Framed<'_>| {
            [row.id.to_string()].into_iter().chain(list.iter().map(|(_, of)| of(frame))).collect()
        };
        let calls: Vec<String> = list.iter().map(|(sql, _)| format!("{sql} OVER w")).collect();
        let sql = format!("SELECT id, {} FROM t WINDOW w AS (PARTITION BY k ORDER BY ts {frame})", calls.join(", "));
        let expected = framed.iter().map(of).collect();
        check(case, &[Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms }], &sql, expected);
    }
}

#[test]
fn rows_that_over_puts_out_behind_the_watermark_are_late_for_windows() {
    for case in 0..6 {
        let random = &mut Random::new(case + 22_000);
        let disorder = Disorder { jitter_ms: 3000, delay_ms: random.pick(&[0, 300]), stragglers: 9 };
        let rows = stream(random, 120, 0, disorder);
        let (bound, frame) = random.pick(&[
            (Bound::Rows(2), "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
            (Bound::Range(2500), "RANGE BETWEEN INTERVAL '2.5' SECOND PRECEDING AND CURRENT ROW"),
        ]);
        let sizes: BTreeMap<i64, usize> =
            bounded_frames(&rows, bound).iter().map(|(row, frame)| (row.id, frame.len())).collect();
        let output: Vec<Row> = rows.iter().filter(|row| sizes.contains_key(&row.id)).cloned().collect();
        let windows = |time| model::hop(2000, 1000, 0, time);
        let sum = |group: &Group<'_>| group.rows.iter().map(|row| sizes[&row.id]).sum::<usize>();
        let groups = model::grouped(&output, |_| vec![], windows);
        let row = |group: &Group<'_>| vec![group.window.1.to_string(), sum(group).to_string()];
        let sql = format!(
            "SELECT window_end, SUM(n) FROM TABLE(HOP(
                 (SELECT ts, COUNT(*) OVER (PARTITION BY k ORDER BY ts {frame}) AS n FROM t),
                 DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
             GROUP BY window_start, window_end"
        );
        let expected = groups.iter().map(row).collect();
        check(case, &[Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms }], &sql, expected);
    }
}

/// A row that has a result, and those of its frame.
type Framed<'a> = (&'a Row, Vec<&'a Row>);

/// Rows behind the watermark have no result and count in none; equal times keep the order of arrival.
fn unbounded_frames(rows: &[Row], by_rows: bool) -> Vec<Framed<'_>> {
    let mut timely: Vec<&Row> = rows.iter().filter(|row| row.time > row.watermark).collect();
    timely.sort_by_key(|row| row.time);
    let frame = |row: &Row| {
        let mut part: Vec<&Row> = timely.iter().copied().filter(|other| other.k == row.k).collect();
        match by_rows {
            true => part.truncate(part.iter().position(|other| other.id == row.id).unwrap() + 1),
            false => part.retain(|other| other.time <= row.time),
        }
        part
    };
    timely.iter().map(|row| (*row, frame(row))).collect()
}

#[derive(Clone, Copy)]
enum Bound {
    Rows(usize),
    Range(i64),
}

/// A key of OVER with a bound, as Flink keeps it.
#[derive(Default)]
struct Key<'a> {
    timers: BTreeSet<i64>,
    waiting: BTreeMap<i64, Vec<&'a Row>>,
    frame: Vec<&'a Row>,
    triggered: Option<i64>,
    cleanup: Option<i64>,
    watermark: Option<i64>,
}

impl<'a> Key<'a> {
    /// Fires what is registered up to a watermark, if it has advanced.
    fn fire(&mut self, watermark: i64, bound: Bound, output: &mut Vec<Framed<'a>>) {
        if self.watermark.replace(watermark) == Some(watermark) {
            return;
        }
        while let Some(time) = self.timers.first().copied().filter(|time| *time <= watermark) {
            self.timers.remove(&time);
            if self.cleanup.is_some_and(|cleanup| cleanup <= time) {
                let timers = std::mem::take(&mut self.timers);
                *self = Key { timers, watermark: self.watermark, ..Key::default() };
                continue;
            }
            self.triggered = Some(time);
            let rows = self.waiting.remove(&time).unwrap_or_default();
            match bound {
                Bound::Rows(before) => {
                    for row in rows {
                        self.frame.push(row);
                        self.frame.drain(..self.frame.len().saturating_sub(before + 1));
                        output.push((row, self.frame.clone()));
                    }
                }
                Bound::Range(ms) => {
                    self.frame.retain(|row| row.time >= time - ms);
                    self.frame.extend(&rows);
                    output.extend(rows.into_iter().map(|row| (row, self.frame.clone())));
                }
            }
        }
    }
}

/// A row has no result if its time is not after what was triggered last for its key when it comes. Timers fire when the
/// watermark advances; what RANGE knows of a key ends by a timer, too.
fn bounded_frames(rows: &[Row], bound: Bound) -> Vec<Framed<'_>> {
    let (mut keys, mut output) = (BTreeMap::<Option<i32>, Key<'_>>::new(), Vec::new());
    for row in rows {
        let key = keys.entry(row.k).or_default();
        key.fire(row.watermark, bound, &mut output);
        if key.triggered.is_some_and(|last| row.time <= last) {
            continue;
        }
        key.timers.insert(row.time);
        key.waiting.entry(row.time).or_default().push(row);
        if let Bound::Range(ms) = bound
            && key.cleanup.is_none_or(|cleanup| cleanup < row.time + ms + 1)
        {
            key.cleanup = Some(row.time + ms + ms / 2 + 1);
            key.timers.extend(key.cleanup);
        }
    }
    keys.values_mut().for_each(|key| key.fire(i64::MAX, bound, &mut output));
    output
}
