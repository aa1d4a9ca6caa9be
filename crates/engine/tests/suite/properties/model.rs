//! What windows and aggregates mean, written as plainly as possible.

use super::streams::Row;
use std::collections::BTreeMap;

/// Start and end of a window.
pub(super) type Window = (i64, i64);

/// Values that rows are grouped by, as text.
pub(super) type Key = Vec<String>;

/// The rows of a window, in order of arrival.
pub(super) struct Group<'a> {
    pub(super) key: Key,
    pub(super) window: Window,
    pub(super) rows: Vec<&'a Row>,
}

/// All windows `[offset + k·slide, … + size)` that hold the time.
pub(super) fn hop(size: i64, slide: i64, offset: i64, time: i64) -> Vec<Window> {
    let latest = time - (time - offset).rem_euclid(slide);
    (0..).map(|k| latest - k * slide).take_while(|start| start + size > time).map(|s| (s, s + size)).collect()
}

/// All windows that begin every `size` and end a multiple of `step` later.
pub(super) fn cumulate(size: i64, step: i64, offset: i64, time: i64) -> Vec<Window> {
    let start = time - (time - offset).rem_euclid(size);
    (1..=size / step).map(|j| (start, start + j * step)).filter(|(_, end)| time < *end).collect()
}

/// Rows by key and window, without those that came when the window was complete.
pub(super) fn grouped<'a>(
    rows: &'a [Row],
    key: impl Fn(&Row) -> Key,
    windows: impl Fn(i64) -> Vec<Window>,
) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<(Key, Window), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        for window in windows(row.time).into_iter().filter(|(_, end)| end - 1 > row.watermark) {
            groups.entry((key(row), window)).or_default().push(row);
        }
    }
    groups.into_iter().map(|((key, window), rows)| Group { key, window, rows }).collect()
}

/// Rows by key and session: the watermark before each row closes sessions, then the row's window merges with those that
/// it overlaps or touches, and is late if the outcome is complete already.
pub(super) fn sessions<'a>(rows: &'a [Row], key: impl Fn(&Row) -> Key, gap: i64) -> Vec<Group<'a>> {
    let (mut open, mut closed): (Vec<Group<'a>>, Vec<Group<'a>>) = (vec![], vec![]);
    for row in rows {
        let complete: Vec<Group<'a>> = open.extract_if(.., |g| g.window.1 - 1 <= row.watermark).collect();
        closed.extend(complete);
        let (key, start, end) = (key(row), row.time, row.time + gap);
        let touches = |g: &Group<'_>| g.key == key && g.window.0 <= end && start <= g.window.1;
        let met: Vec<&Group<'_>> = open.iter().filter(|g| touches(g)).collect();
        let start = met.iter().map(|g| g.window.0).fold(start, i64::min);
        let end = met.iter().map(|g| g.window.1).fold(end, i64::max);
        if end - 1 <= row.watermark {
            continue;
        }
        let met: Vec<Group<'a>> = {
            let touches = |g: &mut Group<'a>| g.key == key && g.window.0 <= row.time + gap && row.time <= g.window.1;
            open.extract_if(.., touches).collect()
        };
        let mut rows: Vec<&Row> = met.into_iter().flat_map(|g| g.rows).chain([row]).collect();
        rows.sort_by_key(|row| row.id);
        open.push(Group { key, window: (start, end), rows });
    }
    closed.extend(open);
    closed
}

/// `size` rows of a key in order of arrival, beginning every `slide` rows; full ones only.
pub(super) fn count_windows<'a>(
    rows: &'a [Row],
    key: impl Fn(&Row) -> Key,
    size: usize,
    slide: usize,
) -> Vec<Group<'a>> {
    let mut by_key: BTreeMap<Key, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| by_key.entry(key(row)).or_default().push(row));
    let mut groups = Vec::new();
    for (key, rows) in by_key {
        for window in (0..rows.len()).step_by(slide).filter_map(|from| rows.get(from..from + size)) {
            let times = || window.iter().map(|row| row.time);
            let span = (times().min().unwrap(), times().max().unwrap() + 1);
            groups.push(Group { key: key.clone(), window: span, rows: window.to_vec() });
        }
    }
    groups
}

/// Any value as results show it; NULL as `NULL`.
pub(super) fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "NULL".to_string(), |value| value.to_string())
}

/// A DOUBLE with the digits that any way to compute it gives; what should be zero may be almost zero.
pub(super) fn number(value: Option<f64>) -> String {
    text(value.map(|value| format!("{:.6e}", if value.abs() < 1e-9 { 0.0 } else { value })))
}

/// An ARRAY of BIGINT.
fn list(values: impl Iterator<Item = Option<i64>>) -> String {
    format!("[{}]", values.map(text).collect::<Vec<_>>().join(", "))
}

/// An aggregate in SQL and what it gives for the rows of a group.
pub(super) type Aggregate = (&'static str, fn(&[&Row]) -> String);

/// Aggregates that keep accumulators of a fixed size; each can be merged, some can be subtracted.
pub(super) const ACCUMULATED: [Aggregate; 22] = [
    ("COUNT(*)", |rows| rows.len().to_string()),
    ("COUNT(v)", |rows| values(rows).len().to_string()),
    ("SUM(v)", |rows| text((!values(rows).is_empty()).then(|| values(rows).iter().sum::<i64>()))),
    ("AVG(v)", |rows| text(values(rows).iter().sum::<i64>().checked_div(values(rows).len() as i64))),
    ("MIN(v)", |rows| text(values(rows).into_iter().min())),
    ("MAX(v)", |rows| text(values(rows).into_iter().max())),
    ("SUM(d)", |rows| number(some(&doubles(rows)).map(|d| d.iter().sum()))),
    ("AVG(d)", |rows| number(some(&doubles(rows)).map(mean))),
    ("MIN(d)", |rows| number(doubles(rows).into_iter().reduce(f64::min))),
    ("MAX(d)", |rows| number(doubles(rows).into_iter().reduce(f64::max))),
    ("MIN(s)", |rows| text(rows.iter().filter_map(|row| row.s).min())),
    ("MAX(s)", |rows| text(rows.iter().filter_map(|row| row.s).max())),
    ("STDDEV_POP(v)", |rows| number(some(&floats(rows)).map(|v| (spread(v, v) / v.len() as f64).sqrt()))),
    ("STDDEV_SAMP(d)", |rows| number(two(&doubles(rows)).map(|d| (spread(d, d) / (d.len() - 1) as f64).sqrt()))),
    ("VAR_POP(d)", |rows| number(some(&doubles(rows)).map(|d| spread(d, d) / d.len() as f64))),
    ("VAR_SAMP(v)", |rows| number(two(&floats(rows)).map(|v| spread(v, v) / (v.len() - 1) as f64))),
    ("COVAR_POP(v, d)", |rows| {
        let (v, d) = pairs(rows);
        number(some(&v).map(|v| spread(v, &d) / v.len() as f64))
    }),
    ("CORR(v, d)", |rows| {
        let (v, d) = pairs(rows);
        let spreads = spread(&v, &v) * spread(&d, &d);
        number((!v.is_empty() && spreads > 0.0).then(|| spread(&v, &d) / spreads.sqrt()))
    }),
    ("BOOL_AND(v > 0)", |rows| text(some(&values(rows)).map(|v| truth(v.iter().all(|v| *v > 0))))),
    ("BOOL_OR(v > 7)", |rows| text(some(&values(rows)).map(|v| truth(v.iter().any(|v| *v > 7))))),
    ("COUNT(*) FILTER (WHERE v > d)", |rows| {
        let greater = |row: &&&Row| row.v.zip(row.d).is_some_and(|(v, d)| v as f64 > d);
        rows.iter().filter(greater).count().to_string()
    }),
    ("SUM(v) FILTER (WHERE s = 'x')", |rows| {
        let kept: Vec<i64> = rows.iter().filter(|row| row.s == Some("x")).filter_map(|row| row.v).collect();
        text(some(&kept).map(|v| v.iter().sum::<i64>()))
    }),
];

/// Aggregates that keep values or sketches of them and do not depend on the order of rows.
pub(super) const KEPT: [Aggregate; 9] = [
    ("MEDIAN(v)", |rows| percentile(rows, 0.5)),
    ("PERCENTILE(v, 0.25)", |rows| percentile(rows, 0.25)),
    ("MODE(v)", |rows| text(mode(values(rows)))),
    ("MODE(s)", |rows| text(mode(rows.iter().filter_map(|row| row.s).collect()))),
    ("COUNT(DISTINCT v)", |rows| distinct(rows).len().to_string()),
    ("SUM(DISTINCT v)", |rows| text(some(&distinct(rows)).map(|v| v.iter().sum::<i64>()))),
    ("AVG(DISTINCT v)", |rows| text(distinct(rows).iter().sum::<i64>().checked_div(distinct(rows).len() as i64))),
    ("COUNT(DISTINCT s) FILTER (WHERE v > 2)", |rows| {
        let mut kept: Vec<_> = rows.iter().filter(|row| row.v > Some(2)).filter_map(|row| row.s).collect();
        kept.sort();
        kept.dedup();
        kept.len().to_string()
    }),
    ("APPROX_COUNT_DISTINCT(v)", |rows| distinct(rows).len().to_string()),
];

/// Aggregates that depend on the order of rows.
pub(super) const ORDERED: [Aggregate; 5] = [
    ("FIRST_VALUE(v)", |rows| text(rows.iter().find_map(|row| row.v))),
    ("LAST_VALUE(s)", |rows| text(rows.iter().rev().find_map(|row| row.s))),
    ("LISTAGG(s, '/')", |rows| {
        let strings: Vec<&str> = rows.iter().filter_map(|row| row.s).collect();
        text(some(&strings).map(|s| s.join("/")))
    }),
    ("ARRAY_AGG(v)", |rows| list(rows.iter().map(|row| row.v))),
    ("LAST_VALUE(id) FILTER (WHERE v < 5)", |rows| {
        text(rows.iter().rev().find(|row| row.v.is_some_and(|v| v < 5)).map(|row| row.id))
    }),
];

fn truth(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

fn values(rows: &[&Row]) -> Vec<i64> {
    rows.iter().filter_map(|row| row.v).collect()
}

fn floats(rows: &[&Row]) -> Vec<f64> {
    values(rows).into_iter().map(|v| v as f64).collect()
}

fn doubles(rows: &[&Row]) -> Vec<f64> {
    rows.iter().filter_map(|row| row.d).collect()
}

fn pairs(rows: &[&Row]) -> (Vec<f64>, Vec<f64>) {
    rows.iter().filter_map(|row| Some((row.v? as f64, row.d?))).unzip()
}

fn distinct(rows: &[&Row]) -> Vec<i64> {
    let mut values = values(rows);
    values.sort();
    values.dedup();
    values
}

fn some<T>(values: &[T]) -> Option<&[T]> {
    (!values.is_empty()).then_some(values)
}

fn two<T>(values: &[T]) -> Option<&[T]> {
    (values.len() > 1).then_some(values)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sum of the products of deviations from the means.
fn spread(y: &[f64], x: &[f64]) -> f64 {
    let (mean_y, mean_x) = (mean(y), mean(x));
    y.iter().zip(x).map(|(y, x)| (y - mean_y) * (x - mean_x)).sum()
}

/// Interpolated between the two values around the place.
fn percentile(rows: &[&Row], fraction: f64) -> String {
    let mut values = floats(rows);
    values.sort_by(f64::total_cmp);
    let place = fraction * values.len().saturating_sub(1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    number(some(&values).map(|v| v[below] + (v[above] - v[below]) * (place - below as f64)))
}

/// The most frequent value, of several the smallest.
fn mode<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort();
    let runs: Vec<&[T]> = values.chunk_by(|a, b| a == b).collect();
    let longest = runs.iter().map(|run| run.len()).max()?;
    runs.iter().find(|run| run.len() == longest).map(|run| run[0])
}
