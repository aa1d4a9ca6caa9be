//! What adapting costs where there is nothing to gain: a stream that stays as it is, and a query whose generic plan is the
//! best one.
//!
//! Both runs of a pair have compiled code from the first row on, and one of them observes. Pairs follow each other, the one
//! or the other first, so that a change of the machine's speed meets both; the median of their ratios counts.

use super::judge;
use super::phased::{Lengths, Phase};
use super::scenario::{Plan, Scenario};
use super::scenarios::{KEY_VALUE, KEY_VALUE_DEFINITION, numbers};
use super::timeline::Timeline;
use crate::suite::{Failure, Record, Suite, median};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// What observing may cost.
const OVERHEAD: f64 = 0.02;
/// How long a run takes.
const RUN_S: f64 = 1.5;
const PAIRS: usize = 11;

const QUERIES: [(&str, &str); 2] = [
    (
        "sum",
        "SELECT window_start, SUM(v) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
         GROUP BY window_start, window_end",
    ),
    (
        "sum by scattered key",
        "SELECT k, window_start, SUM(v) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
         GROUP BY k, window_start, window_end",
    ),
];

/// Measures the pairs of each query; returns the targets that were missed.
pub(super) fn run(suite: &mut Suite) -> Result<Vec<String>, Failure> {
    let scale = suite.options.rows_scale.min(1.0);
    let phase = Phase::new("unchanged", scale, |random, rows| {
        let scattered = |key: i64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
        vec![
            numbers(random, rows, |random| scattered(random.below(10_000))),
            numbers(random, rows, |random| random.below(1000)),
        ]
    });
    let phases = Arc::new(vec![phase]);
    let observing = Plan::observing();
    let pairs = ((PAIRS as f64 * scale) as usize).max(1);
    let mut missed = Vec::new();
    for (name, sql) in QUERIES {
        let scenario = Scenario {
            columns: KEY_VALUE,
            definition: KEY_VALUE_DEFINITION,
            sql: sql.into(),
            phases: Arc::clone(&phases),
            phase_s: RUN_S,
            generic: Plan::fixed("never", &[("pipeline.dense-tables", "auto"), ("pipeline.merge", "auto")]),
            fixed: vec![],
            over_generic: None,
            over_worst: None,
        };
        let clock = Lengths::Clock(Duration::from_secs_f64(RUN_S * scale), Arc::default());
        let first = Timeline::of(&scenario, &scenario.generic, suite.threads(), clock)?;
        let mut ratios = Vec::new();
        let mut rates = [Vec::new(), Vec::new()];
        for pair in 0..pairs {
            let mut of_pair = [0.0; 2];
            for turn in 0..2 {
                let which = (pair + turn) % 2;
                let plan = [&scenario.generic, &observing][which];
                let run = Timeline::of(&scenario, plan, suite.threads(), Lengths::Blocks(first.blocks()))?;
                if run.checksum != first.checksum {
                    return Err(format!("{name}: rows differ").into());
                }
                of_pair[which] = judge::steady(&run, 0);
                rates[which].push(of_pair[which]);
            }
            ratios.push(of_pair[0] / of_pair[1] - 1.0);
        }
        let overhead = median(&ratios);
        suite.say(&format!(
            "  {name}, unchanged: {:.1} M rows/s, adaptive {:.1} M rows/s; overhead {:.2} % (median of {pairs} pairs)",
            median(&rates[0]) / 1e6,
            median(&rates[1]) / 1e6,
            overhead * 100.0
        ));
        if overhead > OVERHEAD {
            missed.push(format!("{name}, unchanged: overhead {:.2} %", overhead * 100.0));
        }
        let rows = first.rows();
        for (system, rates) in ["millstream/never", "millstream"].into_iter().zip(&rates) {
            let rate = median(rates);
            suite.record(Record {
                benchmark: super::BENCHMARK.name.into(),
                case: format!("unchanged/{name}"),
                system: system.into(),
                threads: suite.threads(),
                rows,
                seconds: rows as f64 / rate,
                rows_per_s: rate,
                bytes_per_s: 0.0,
                checksum: Some(first.checksum.to_string()),
                more: json!({ "overhead": overhead }).as_object().cloned().unwrap_or_default(),
            })?;
        }
    }
    Ok(missed)
}
