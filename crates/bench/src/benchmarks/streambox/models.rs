//! What the queries mean, in a few lines over the batches: maps of the standard library, one thread. They check the
//! results, and are the baseline `row`.

use super::data::NEEDLE;
use crate::suite::{Checksum, hash_text};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use std::collections::{BTreeMap, HashMap, HashSet};

pub(crate) const SECOND_MS: i64 = 1000;
const LONG_WINDOW_MS: i64 = 30 * SECOND_MS;
pub(crate) const REACH_MS: i64 = 500;
/// Frequent words of a window that the tweets are matched with, and the change of sentiment that matters.
pub(crate) const TOP: usize = 3;
pub(crate) const CHANGE: i64 = 100;

/// Values of a column of integers.
fn numbers(batch: &RecordBatch, column: usize) -> &[i64] {
    batch.column(column).as_primitive::<Int64Type>().values()
}

/// Values of the last column, the time.
fn times(batch: &RecordBatch) -> &[i64] {
    batch.column(batch.num_columns() - 1).as_primitive::<TimestampMillisecondType>().values()
}

/// Texts of the first column, with their time.
fn texts(batches: &[RecordBatch]) -> impl Iterator<Item = (&str, i64)> {
    batches.iter().flat_map(|batch| {
        let texts = batch.column(0).as_string_view();
        times(batch).iter().enumerate().map(move |(row, time)| (texts.value(row), *time))
    })
}

/// Starts of the sliding windows of which the second from `second` is part.
fn sliding(second: i64) -> impl Iterator<Item = i64> {
    (second + SECOND_MS - LONG_WINDOW_MS..=second).step_by(SECOND_MS as usize)
}

fn second(time: i64) -> i64 {
    time.div_euclid(SECOND_MS) * SECOND_MS
}

/// Lines with the text, by sliding window.
pub(crate) fn grep(batches: &[RecordBatch]) -> Checksum {
    let mut seconds: BTreeMap<i64, i64> = BTreeMap::new();
    for (_, time) in texts(batches).filter(|(text, _)| text.contains(NEEDLE)) {
        *seconds.entry(second(time)).or_default() += 1;
    }
    let mut windows: BTreeMap<i64, i64> = BTreeMap::new();
    for (second, count) in seconds {
        sliding(second).for_each(|start| *windows.entry(start).or_default() += count);
    }
    let mut result = Checksum::default();
    windows.iter().for_each(|(start, count)| result.add(&[*start, *count]));
    result
}

/// Words by second, with their number.
fn words(batches: &[RecordBatch]) -> BTreeMap<i64, HashMap<&str, i64>> {
    let mut seconds: BTreeMap<i64, HashMap<&str, i64>> = BTreeMap::new();
    for (text, time) in texts(batches) {
        let counts = seconds.entry(second(time)).or_default();
        text.split(' ').for_each(|word| *counts.entry(word).or_default() += 1);
    }
    seconds
}

/// Words by sliding window.
pub(crate) fn word_count(batches: &[RecordBatch]) -> Checksum {
    let mut windows: BTreeMap<i64, HashMap<&str, i64>> = BTreeMap::new();
    for (second, counts) in words(batches) {
        for start in sliding(second) {
            let window = windows.entry(start).or_default();
            counts.iter().for_each(|(word, count)| *window.entry(word).or_default() += count);
        }
    }
    let mut result = Checksum::default();
    for (start, counts) in &windows {
        counts.iter().for_each(|(word, count)| result.add(&[hash_text(word.as_bytes()), *start, *count]));
    }
    result
}

/// Pairs of rows with equal keys and times at most half a second apart.
pub(crate) fn join(left: &[RecordBatch], right: &[RecordBatch]) -> Checksum {
    let rows = |batch| numbers(batch, 0).iter().zip(numbers(batch, 1)).zip(times(batch));
    let mut table: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    for ((key, value), time) in left.iter().flat_map(rows) {
        table.entry(*key).or_default().push((*value, *time));
    }
    let mut result = Checksum::default();
    for ((key, value), time) in right.iter().flat_map(rows) {
        let pairs = table.get(key).into_iter().flatten().filter(|(_, other)| (other - time).abs() <= REACH_MS);
        pairs.for_each(|(left, _)| result.add(&[*left, *value]));
    }
    result
}

/// Different URLs by second.
pub(crate) fn distinct(batches: &[RecordBatch]) -> Checksum {
    let mut seconds: BTreeMap<i64, HashSet<i64>> = BTreeMap::new();
    for (url, time) in batches.iter().flat_map(|batch| numbers(batch, 0).iter().zip(times(batch))) {
        seconds.entry(second(*time)).or_default().insert(*url);
    }
    let mut result = Checksum::default();
    seconds.iter().for_each(|(start, urls)| result.add(&[*start, urls.len() as i64]));
    result
}

/// Mean latency by pair of hosts and second.
pub(crate) fn latency(batches: &[RecordBatch]) -> Checksum {
    let mut groups: HashMap<(i64, i64, i64), (i64, i64)> = HashMap::new();
    for batch in batches {
        let hosts = numbers(batch, 0).iter().zip(numbers(batch, 1));
        for (((source, target), micros), time) in hosts.zip(numbers(batch, 2)).zip(times(batch)) {
            let (sum, count) = groups.entry((*source, *target, second(*time))).or_default();
            *sum += micros;
            *count += 1;
        }
    }
    let mut result = Checksum::default();
    for ((source, target, start), (sum, count)) in &groups {
        result.add(&[*source, *target, *start, sum / count]);
    }
    result
}

/// The most frequent words of every second whose mean sentiment differs enough from that of the second before.
pub(crate) fn tweets(batches: &[RecordBatch]) -> Checksum {
    let mut moods: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (score, time) in batches.iter().flat_map(|batch| numbers(batch, 1).iter().zip(times(batch))) {
        let (sum, count) = moods.entry(second(*time)).or_default();
        *sum += score;
        *count += 1;
    }
    let mean = |start: i64| moods.get(&start).map(|(sum, count)| sum / count);
    let mut result = Checksum::default();
    for (start, counts) in words(batches) {
        let change = mean(start).zip(mean(start - SECOND_MS)).map(|(now, before)| now - before);
        let Some(change) = change.filter(|change| change.abs() >= CHANGE) else { continue };
        let mut ranked: Vec<(&str, i64)> = counts.into_iter().collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        for (word, count) in ranked.into_iter().take(TOP) {
            result.add(&[start, change, hash_text(word.as_bytes()), count]);
        }
    }
    result
}
