//! What depends on the order of rows: Top-N and OVER.

use super::model::{self, Aggregate, Group, text};
use super::streams::{Disorder, Random, Row, interval, stream};
use super::{Input, check};
use std::cmp::Ordering;

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
        // Late rows have no result and count in none; equal times keep the order of arrival.
        let mut timely: Vec<&Row> = rows.iter().filter(|row| row.time > row.watermark).collect();
        timely.sort_by_key(|row| row.time);
        let of = |row: &&Row| {
            let part: Vec<&Row> = timely.iter().copied().filter(|other| other.k == row.k).collect();
            let place = part.iter().position(|other| other.id == row.id).unwrap();
            let frame: Vec<&Row> = if by_rows {
                let from = if unbounded { 0 } else { place.saturating_sub(before as usize) };
                part[from..=place].to_vec()
            } else {
                let within = |other: &&Row| other.time <= row.time && (unbounded || other.time >= row.time - reach);
                part.into_iter().filter(within).collect()
            };
            [row.id.to_string()].into_iter().chain(list.iter().map(|(_, of)| of(&frame))).collect()
        };
        let calls: Vec<String> = list.iter().map(|(sql, _)| format!("{sql} OVER w")).collect();
        let sql = format!("SELECT id, {} FROM t WINDOW w AS (PARTITION BY k ORDER BY ts {frame})", calls.join(", "));
        let expected = timely.iter().map(of).collect();
        check(case, &[Input { name: "t", rows: &rows, delay_ms: disorder.delay_ms }], &sql, expected);
    }
}
