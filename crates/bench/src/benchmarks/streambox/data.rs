//! Rows of the shapes that StreamBox measures, generated. Every table spans the same event time however many rows it has.

use crate::benchmarks::replay::{Replay, schema};
use crate::suite::Random;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use std::sync::Arc;

/// What windowed grep looks for; in one line of a hundred.
pub(crate) const NEEDLE: &str = "splendid performance";
const VOCABULARY: u64 = 10_000;

/// Lines of text: those of `bytes` that begin a record, as words of a vocabulary in which few are frequent.
pub(crate) fn lines(rows: u64, bytes: usize, span_ms: u64) -> Replay {
    let mut random = Random::new(11);
    let mut lines = StringViewBuilder::with_capacity(rows as usize);
    let mut line = String::new();
    for _ in 0..rows {
        line.clear();
        let needle = if random.below(100) == 0 { random.below(bytes as u64 / 2) as usize } else { usize::MAX };
        let mut is_in = needle == usize::MAX;
        while line.len() + NEEDLE.len() < bytes {
            if !is_in && line.len() >= needle {
                line.push_str(NEEDLE);
                is_in = true;
            } else {
                push_word(&mut line, &mut random);
            }
            line.push(' ');
        }
        line.pop();
        lines.append_value(&line);
    }
    table("lines", &[("line", "STRING"), ("ts", "TIMESTAMP(3)")], vec![Arc::new(lines.finish())], rows, span_ms)
}

/// A word: the product of two random numbers makes low ones frequent, as words of a language are.
fn push_word(line: &mut String, random: &mut Random) {
    let mut number = random.below(VOCABULARY) * random.below(VOCABULARY) / VOCABULARY as i64;
    for _ in 0..3 + number % 5 {
        line.push(char::from(b'a' + (number % 26) as u8));
        number = number / 3 + 7;
    }
}

/// One of two streams of unique keys; `other` is half of the keys of the first one and half of its own.
pub(crate) fn keys(name: &'static str, rows: u64, span_ms: u64, is_other: bool) -> Replay {
    let (mut shared, mut own) = (Random::new(12), Random::new(13));
    let key = |row: u64| {
        let keys = [shared.next() as i64, own.next() as i64];
        keys[usize::from(is_other && row % 2 == 1)]
    };
    let keys: Vec<i64> = (0..rows).map(key).collect();
    let values: Vec<i64> = (0..rows as i64).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(keys)), Arc::new(Int64Array::from(values))];
    table(name, &[("k", "BIGINT"), ("v", "BIGINT"), ("ts", "TIMESTAMP(3)")], columns, rows, span_ms)
}

/// Visits of URLs by their numbers, of which low ones are frequent.
pub(crate) fn urls(rows: u64, span_ms: u64) -> Replay {
    let mut random = Random::new(14);
    let urls: Vec<i64> = (0..rows).map(|_| random.below(1 << 12) * random.below(1 << 12)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(urls))];
    table("visits", &[("url", "BIGINT"), ("ts", "TIMESTAMP(3)")], columns, rows, span_ms)
}

/// Latencies in microseconds between 300 hosts and 300 others.
pub(crate) fn latencies(rows: u64, span_ms: u64) -> Replay {
    let mut random = Random::new(15);
    let (mut from, mut to, mut micros) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        from.push(0x0A00_0000 + random.below(300));
        to.push(0x0A01_0000 + random.below(300));
        micros.push(100 + random.below(1000) * random.below(1000) / 100);
    }
    let columns = [from, to, micros].map(|c| Arc::new(Int64Array::from(c)) as ArrayRef).to_vec();
    let names = &[("source", "BIGINT"), ("target", "BIGINT"), ("micros", "BIGINT"), ("ts", "TIMESTAMP(3)")];
    table("pings", names, columns, rows, span_ms)
}

/// Tweets of up to 120 characters with a sentiment from -1,000 to 1,000 that drifts from second to second.
pub(crate) fn tweets(rows: u64, span_ms: u64) -> Replay {
    let mut random = Random::new(16);
    let mut texts = StringViewBuilder::with_capacity(rows as usize);
    let mut scores = Vec::new();
    let mut text = String::new();
    for row in 0..rows {
        text.clear();
        for _ in 0..4 + random.below(16) {
            push_word(&mut text, &mut random);
            text.push(' ');
        }
        texts.append_value(text.trim_end());
        let second = (row * span_ms / rows / 1000) as i64;
        scores.push(random.below(1001) - 500 + second * second * 37 % 500);
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(texts.finish()), Arc::new(Int64Array::from(scores))];
    let names = &[("line", "STRING"), ("score", "BIGINT"), ("ts", "TIMESTAMP(3)")];
    table("tweets", names, columns, rows, span_ms)
}

/// The columns with a time that advances evenly by `span_ms` over all rows.
fn table(
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    mut arrays: Vec<ArrayRef>,
    rows: u64,
    span_ms: u64,
) -> Replay {
    let times = (0..rows).map(|row| (row * span_ms / rows) as i64);
    arrays.push(Arc::new(TimestampMillisecondArray::from_iter_values(times)));
    Replay {
        name,
        columns,
        delay: "'0.001' SECOND",
        time: "ts",
        shifts: vec![("ts", span_ms as i64)],
        rows: RecordBatch::try_new(schema(columns), arrays).expect("the columns are those of the schema"),
    }
}
