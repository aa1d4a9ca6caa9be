//! Random streams out of order, as tables in memory and as rows for the models.

use arrow_array::builder::StringViewBuilder;
use arrow_array::{Float64Array, Int32Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use millstream::{DataType, Field, Schema, Session};
use std::ops::Range;
use std::sync::Arc;

/// Numbers that look random and are the same in every run (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number of the range.
    pub(super) fn within(&mut self, range: Range<i64>) -> i64 {
        range.start + (self.next() % (range.end - range.start) as u64) as i64
    }

    /// Whether it is so, once in `n` times.
    pub(super) fn once_in(&mut self, n: i64) -> bool {
        self.within(0..n) == 0
    }

    /// One of them.
    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..choices.len() as i64) as usize].clone()
    }
}

/// A row, with what its split had said of time before it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) k: Option<i32>,
    pub(super) s: Option<&'static str>,
    pub(super) v: Option<i64>,
    /// A multiple of a quarter, so that sums are exact in any order.
    pub(super) d: Option<f64>,
    /// Event time in milliseconds since the epoch.
    pub(super) time: i64,
    /// Watermark before the row; `i64::MIN` before the first.
    pub(super) watermark: i64,
}

/// The columns of the tables, and how far the watermark stays behind.
pub(super) fn columns(delay_ms: i64) -> String {
    format!(
        "id BIGINT NOT NULL, k INT, s STRING, v BIGINT, d DOUBLE, ts TIMESTAMP(3) NOT NULL,
         WATERMARK FOR ts AS ts - {}",
        interval(delay_ms)
    )
}

/// An interval as SQL writes it.
pub(super) fn interval(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let ms = ms.abs();
    format!("INTERVAL '{sign}{}.{:03}' SECOND", ms / 1000, ms % 1000)
}

/// How disorderly a stream is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disorder {
    /// Rows come up to this many milliseconds before or after their time.
    pub(super) jitter_ms: i64,
    /// What the watermark stays behind the largest time.
    pub(super) delay_ms: i64,
    /// One row in this many comes very late; 0: none does.
    pub(super) stragglers: i64,
}

impl Disorder {
    /// Any, late rows among them.
    pub(super) fn any(random: &mut Random) -> Disorder {
        Disorder {
            jitter_ms: random.pick(&[1, 400, 3000]),
            delay_ms: random.pick(&[0, 1, 300, 2000]),
            stragglers: random.pick(&[0, 7, 20]),
        }
    }

    /// Without late rows.
    pub(super) fn timely(random: &mut Random) -> Disorder {
        let jitter_ms = random.pick(&[1, 400, 2000]);
        Disorder { jitter_ms, delay_ms: 2 * jitter_ms + 1, stragglers: 0 }
    }
}

/// `rows` rows about 300 ms apart, the first half of them before 1970. Ids count from `first_id`.
pub(super) fn stream(random: &mut Random, rows: i64, first_id: i64, disorder: Disorder) -> Vec<Row> {
    const STRINGS: [&str; 5] =
        ["", "x", "yy", "a string of more than twelve bytes", "ä string of more than twelve bytes"];
    let keys = random.pick(&[1, 3, 12]);
    let mut watermark = i64::MIN;
    let row = |i: i64| {
        let mut time = (i - rows / 2) * 300 + random.within(-disorder.jitter_ms..disorder.jitter_ms + 1);
        if disorder.stragglers > 0 && random.once_in(disorder.stragglers) {
            time -= random.within(1000..9000);
        }
        // Times that many rows share, and such as lie on the edges of windows.
        if random.once_in(3) {
            time -= time.rem_euclid(100);
        }
        let row = Row {
            id: first_id + i,
            k: (!random.once_in(8)).then(|| random.within(0..keys) as i32),
            s: (!random.once_in(6)).then(|| random.pick(&STRINGS)),
            v: (!random.once_in(5)).then(|| random.within(-3..9)),
            d: (!random.once_in(5)).then(|| random.within(-9..10) as f64 / 4.0),
            time,
            watermark,
        };
        watermark = watermark.max(time - disorder.delay_ms);
        row
    };
    (0..rows).map(row).collect()
}

/// Makes the rows a table, in batches of random lengths.
pub(super) fn register(session: &mut Session, name: &str, rows: &[Row], delay_ms: i64, random: &mut Random) {
    let schema = Schema::new(vec![
        Field::new("id", DataType::BigInt, false),
        Field::new("k", DataType::Int, true),
        Field::new("s", DataType::STRING, true),
        Field::new("v", DataType::BigInt, true),
        Field::new("d", DataType::Double, true),
        Field::new("ts", DataType::Timestamp(3), false),
    ])
    .to_arrow();
    let mut batches = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let (part, others) = rest.split_at(random.within(1..61).min(rest.len() as i64) as usize);
        rest = others;
        let mut strings = StringViewBuilder::new();
        part.iter().for_each(|row| strings.append_option(row.s));
        let batch = RecordBatch::try_new(
            schema.clone(),
            vec![
                Arc::new(part.iter().map(|row| Some(row.id)).collect::<Int64Array>()),
                Arc::new(part.iter().map(|row| row.k).collect::<Int32Array>()),
                Arc::new(strings.finish()),
                Arc::new(part.iter().map(|row| row.v).collect::<Int64Array>()),
                Arc::new(part.iter().map(|row| row.d).collect::<Float64Array>()),
                Arc::new(TimestampMillisecondArray::from_iter_values(part.iter().map(|row| row.time))),
            ],
        );
        batches.push(batch.unwrap());
    }
    session.register(name, &columns(delay_ms), batches).unwrap();
}
