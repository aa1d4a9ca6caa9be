//! The scenarios that are measured by the rate of rows in each phase. Each function makes one, with fewer rows if the
//! factor is below 1.

use super::phased::{BLOCK, Phase};
use super::scenario::{Plan, Scenario};
use crate::suite::{Failure, Random};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Int8Array, Int64Array};
use std::sync::Arc;

/// Key, value and event time: what several scenarios have.
pub(super) const KEY_VALUE: &[&str] = &["k", "v", "event_time"];
pub(super) const KEY_VALUE_DEFINITION: &str = "k BIGINT NOT NULL, v BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
    WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND";
/// Values of `v`.
const VALUES: u64 = 1000;

/// A column of numbers.
pub(super) fn numbers(random: &mut Random, rows: usize, mut number: impl FnMut(&mut Random) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows).map(|_| number(random))))
}

/// Grizzly, figure 12: the Yahoo benchmark from its first row on; at half time there are ten times as many campaigns.
pub(super) fn stages(scale: f64) -> Result<Scenario, Failure> {
    let phase = |keys: u64| {
        Phase::new(format!("{keys} campaigns"), scale, |random, rows| {
            let types: ArrayRef = Arc::new(Int8Array::from_iter_values((0..rows).map(|_| random.below(3) as i8)));
            vec![types, numbers(random, rows, |random| random.below(keys))]
        })
    };
    Ok(Scenario {
        columns: &["event_type", "campaign", "event_time"],
        definition: "event_type TINYINT NOT NULL, campaign BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
                     WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        sql: "SELECT campaign, window_start, COUNT(*) AS views
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
              WHERE event_type = 0 GROUP BY campaign, window_start, window_end"
            .into(),
        phases: Arc::new(vec![phase(10_000), phase(100_000)]),
        phase_s: 6.0,
        generic: Plan::generic(),
        fixed: vec![
            Plan::fixed("dense", &[("pipeline.dense-tables", "auto")]),
            Plan::fixed("global", &[("pipeline.merge", "global")]),
        ],
        over_generic: Some(2.0),
        over_worst: None,
    })
}

/// Grizzly, figure 13: two conditions over texts, of which first the one and then the other lets few rows pass.
pub(super) fn order(scale: f64) -> Result<Scenario, Failure> {
    let phase = |first: i64, second: i64| {
        // Long rows do not stay in the cache either, and need more memory.
        Phase::new(format!("{first} % and {second} % pass"), scale.min(1.0) / 3.0, |random, rows| {
            let mut column = |percent: i64| -> ArrayRef {
                let mut texts = StringViewBuilder::with_capacity(rows);
                for _ in 0..rows {
                    let number = random.below(1 << 30);
                    let word = if number % 100 < percent { "storms" } else { "nothing" };
                    texts.append_value(format!(
                        "message {number:010} of the reporting office, which came in today, is about {word}"
                    ));
                }
                Arc::new(texts.finish())
            };
            let texts = [column(first), column(second)];
            texts.into_iter().chain([numbers(random, rows, |random| random.below(VALUES))]).collect()
        })
    };
    let sql = |conditions: &str| {
        format!(
            "SELECT k, window_start, COUNT(*)
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
             WHERE {conditions} GROUP BY k, window_start, window_end"
        )
    };
    let [first, second] = ["a LIKE '%storms%'", "b LIKE '%storms%'"];
    Ok(Scenario {
        columns: &["a", "b", "k", "event_time"],
        definition: "a STRING NOT NULL, b STRING NOT NULL, k BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
                     WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        sql: sql(&format!("{first} AND {second}")),
        phases: Arc::new(vec![phase(5, 95), phase(50, 50), phase(95, 5)]),
        phase_s: 4.0,
        generic: Plan::generic(),
        fixed: vec![Plan::fixed("swapped", &[]).with_sql(sql(&format!("{second} AND {first}")))],
        over_generic: None,
        over_worst: Some((1.5, &[0, 2])),
    })
}

/// Grizzly, figure 14: a million keys, of which one comes to have more and more of the rows.
pub(super) fn heavy(scale: f64) -> Result<Scenario, Failure> {
    const KEYS: u64 = 1_000_000;
    let phase = |percent: i64| {
        Phase::new(format!("{percent} % on one key"), scale, |random, rows| {
            let key = |random: &mut Random| if random.below(100) < percent { 0 } else { random.below(KEYS) };
            vec![numbers(random, rows, key), numbers(random, rows, |random| random.below(VALUES))]
        })
    };
    Ok(Scenario {
        columns: KEY_VALUE,
        definition: KEY_VALUE_DEFINITION,
        sql: "SELECT k, window_start, SUM(v), COUNT(*)
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.015' SECOND))
              GROUP BY k, window_start, window_end"
            .into(),
        phases: Arc::new([0, 30, 60].map(phase).into()),
        phase_s: 6.0,
        generic: Plan::generic(),
        fixed: vec![
            Plan::fixed("dense", &[("pipeline.dense-tables", "auto")]),
            Plan::fixed("global", &[("pipeline.merge", "global")]),
            Plan::fixed("dense global", &[("pipeline.merge", "global"), ("pipeline.dense-tables", "auto")]),
            Plan::fixed("partition", &[("pipeline.merge", "partition")]),
        ],
        over_generic: None,
        over_worst: None,
    })
}

/// The keys are some ten thousand numbers in a row, and these jump.
pub(super) fn range(scale: f64) -> Result<Scenario, Failure> {
    const KEYS: u64 = 10_000;
    let phase = |first: i64| {
        Phase::new(format!("keys from {first} on"), scale, |random, rows| {
            vec![
                numbers(random, rows, |random| first + random.below(KEYS)),
                numbers(random, rows, |random| random.below(VALUES)),
            ]
        })
    };
    Ok(Scenario {
        columns: KEY_VALUE,
        definition: KEY_VALUE_DEFINITION,
        sql: "SELECT k, window_start, SUM(v), COUNT(*)
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
              GROUP BY k, window_start, window_end"
            .into(),
        phases: Arc::new([0, 50_000_000, 1 << 40].map(phase).into()),
        phase_s: 4.0,
        generic: Plan::generic(),
        fixed: vec![Plan::fixed("dense", &[("pipeline.dense-tables", "auto")])],
        over_generic: None,
        over_worst: None,
    })
}

/// None, half, all, half and none of the rows pass a filter.
pub(super) fn selectivity(scale: f64) -> Result<Scenario, Failure> {
    let phase = |percent: u64| {
        Phase::new(format!("{percent} % pass"), scale, |random, rows| {
            let value = |random: &mut Random| random.below(VALUES) + (VALUES * percent / 100) as i64;
            vec![numbers(random, rows, |random| random.below(100)), numbers(random, rows, value)]
        })
    };
    Ok(Scenario {
        columns: KEY_VALUE,
        definition: KEY_VALUE_DEFINITION,
        sql: format!(
            "SELECT k, window_start, SUM(v), COUNT(*)
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
             WHERE v >= {VALUES} GROUP BY k, window_start, window_end"
        ),
        phases: Arc::new([0, 50, 100, 50, 0].map(phase).into()),
        phase_s: 5.0,
        generic: Plan::generic(),
        fixed: ["branch", "mask", "selection"]
            .map(|shape| {
                let settings = [("pipeline.filter-shape", shape), ("pipeline.dense-tables", "auto")];
                Plan::fixed(shape, &settings)
            })
            .to_vec(),
        over_generic: None,
        over_worst: None,
    })
}

/// Columns that may be NULL, but are not before the second phase.
pub(super) fn nulls(scale: f64) -> Result<Scenario, Failure> {
    let phase = |percent: i64| {
        Phase::new(format!("{percent} % NULL"), scale, |random, rows| {
            let mut column = |end: u64| -> ArrayRef {
                let value = |random: &mut Random| (random.below(100) >= percent).then(|| random.below(end));
                Arc::new((0..rows).map(|_| value(random)).collect::<Int64Array>())
            };
            vec![column(VALUES), column(VALUES), column(VALUES)]
        })
    };
    Ok(Scenario {
        columns: &["a", "b", "c", "event_time"],
        definition: "a BIGINT, b BIGINT, c BIGINT, event_time TIMESTAMP(3) NOT NULL,
                     WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        sql: "SELECT window_start, SUM(a), SUM(a + b), SUM(a * c), MAX(b - c), COUNT(c)
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
              GROUP BY window_start, window_end"
            .into(),
        phases: Arc::new([0, 10, 0].map(phase).into()),
        phase_s: 4.0,
        generic: Plan::generic(),
        fixed: vec![],
        over_generic: None,
        over_worst: None,
    })
}

/// Rows that are late by up to two windows, but not for the watermark.
pub(super) fn disorder(scale: f64) -> Result<Scenario, Failure> {
    const KEYS: u64 = 10_000;
    const LATE_MS: u64 = 60;
    let phase = |percent: i64| {
        let mut phase = Phase::new(format!("{percent} % late"), scale, |random, rows| {
            vec![
                numbers(random, rows, |random| random.below(KEYS)),
                numbers(random, rows, |random| random.below(VALUES)),
            ]
        });
        let mut random = Random::new(89);
        let delay = |_| if random.below(100) < percent { random.below(LATE_MS) } else { 0 };
        phase.delays = Some((0..BLOCK).map(delay).collect());
        phase
    };
    Ok(Scenario {
        columns: KEY_VALUE,
        definition: "k BIGINT NOT NULL, v BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
                     WATERMARK FOR event_time AS event_time - INTERVAL '0.061' SECOND",
        sql: "SELECT k, window_start, SUM(v), COUNT(*)
              FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
              GROUP BY k, window_start, window_end"
            .into(),
        phases: Arc::new([0, 50, 0].map(phase).into()),
        phase_s: 4.0,
        generic: Plan::generic(),
        fixed: vec![
            Plan::fixed("dense", &[("pipeline.dense-tables", "auto")]),
            Plan::fixed("global", &[("pipeline.merge", "global")]),
        ],
        over_generic: None,
        over_worst: None,
    })
}
