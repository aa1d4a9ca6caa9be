//! Streams whose data changes while a query runs: the plan that adapts beside plans that are fixed (Grizzly, figures 12
//! to 14, and more).
//!
//! A scenario is a stream of phases (`phased.rs`) and a query. The generic plan runs first and sets how many rows each
//! phase has; every other plan gets the same rows. While a plan runs, its progress is sampled (`timeline.rs`), and what
//! the adaptive run came to in each phase is compared with what the fixed plans came to (`judge.rs`).
//!
//! `MILLSTREAM_BENCH_SCENARIOS=order,stages` measures only these; `MILLSTREAM_BENCH_CLOCK=processor` measures in the
//! processor's time.

mod changes;
mod judge;
mod phased;
mod rate;
mod scenario;
mod scenarios;
mod timeline;
mod unchanged;

use crate::suite::{Benchmark, CURVE, EVENTS, Failure, Record, Runs, Suite};
use judge::{PlanRuns, Verdict};
use phased::{BLOCK, Lengths};
use scenario::{Plan, Scenario};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use timeline::Timeline;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "adaptive",
    title: "streams that change (Grizzly, figures 12 to 14)",
    data: "phases of a stream in memory, each some four million rows again and again with advancing event time; the generic
           plan takes some seconds for each",
    query: "aggregations in windows, one for each scenario; docs/benchmarks.md lists them",
    measured: "rows taken by the first pipeline, every 20 ms. millstream: as it comes, from the interpreter on; millstream/…:
               plans that are fixed, compiled before. steady: the mean over the last half of a phase's rows; reached:
               until 90 % of the best fixed plan's steady rate; slow: the longest time under half of the generic plan's",
    runs: Runs::WithAll,
    run,
};

/// Most runs of a plan, of which the best counts.
const MOST_ROUNDS: usize = 2;

/// What measures a scenario; it returns the targets that were missed.
#[derive(Clone, Copy)]
enum Measure {
    /// By the rate of rows in each phase.
    Phases(fn(f64) -> Result<Scenario, Failure>),
    /// In its own way.
    Own(fn(&mut Suite) -> Result<Vec<String>, Failure>),
}

/// All scenarios by name.
const SCENARIOS: [(&str, Measure); 10] = [
    ("stages", Measure::Phases(scenarios::stages)),
    ("order", Measure::Phases(scenarios::order)),
    ("heavy", Measure::Phases(scenarios::heavy)),
    ("range", Measure::Phases(scenarios::range)),
    ("selectivity", Measure::Phases(scenarios::selectivity)),
    ("nulls", Measure::Phases(scenarios::nulls)),
    ("disorder", Measure::Phases(scenarios::disorder)),
    ("rate", Measure::Own(rate::run)),
    ("unchanged", Measure::Own(unchanged::run)),
    ("changes", Measure::Own(changes::run)),
];

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let chosen = std::env::var("MILLSTREAM_BENCH_SCENARIOS").ok();
    let chosen: Option<Vec<&str>> = chosen.as_deref().map(|names| names.split(',').collect());
    if let Some(unknown) = chosen.iter().flatten().find(|name| SCENARIOS.iter().all(|(known, _)| known != *name)) {
        let known = SCENARIOS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no scenario `{unknown}`; there are {known}").into());
    }
    let mut missed = Vec::new();
    let scale = suite.options.rows_scale;
    for (name, how) in SCENARIOS {
        if chosen.as_ref().is_none_or(|chosen| chosen.contains(&name)) {
            missed.extend(match how {
                Measure::Phases(make) => measure(suite, name, &make(scale)?)?,
                Measure::Own(measure) => measure(suite)?,
            });
        }
    }
    suite.say(&format!("  {} targets missed", missed.len()));
    missed.iter().for_each(|missed| suite.say(&format!("    {missed}")));
    Ok(())
}

/// Runs all plans in turn, compares their rows, and says what came out. Returns the targets that were missed.
fn measure(suite: &mut Suite, name: &str, scenario: &Scenario) -> Result<Vec<String>, Failure> {
    let adaptive = Plan::adaptive();
    let mut runs: Vec<PlanRuns<'_>> =
        [&scenario.generic, &adaptive].into_iter().chain(&scenario.fixed).map(PlanRuns::new).collect();
    let phase = Duration::from_secs_f64(scenario.phase_s * suite.options.rows_scale.min(1.0));
    let mut lengths = Lengths::Clock(phase, Arc::default());
    let mut wanted = None;
    for _ in 0..suite.options.repetitions.min(MOST_ROUNDS) {
        for PlanRuns { plan, timelines } in &mut runs {
            let run = Timeline::of(scenario, plan, suite.threads(), lengths)
                .map_err(|e| format!("{name}, {}: {e}", plan.name))?;
            lengths = Lengths::Blocks(run.blocks());
            if *wanted.get_or_insert(run.checksum) != run.checksum {
                return Err(format!("{name}: the result of {} is not that of the generic plan", plan.name).into());
            }
            timelines.push(run);
        }
    }
    let [generic, adaptive, fixed @ ..] = runs.as_slice() else { return Err("a plan is missing".into()) };
    suite.say(&format!("  {name}"));
    let mut missed = Vec::new();
    for (number, phase) in scenario.phases.iter().enumerate() {
        suite.say(&format!("    {}", phase.name));
        let verdicts = judge::verdicts(scenario, number, generic, adaptive, fixed);
        let Some(best) = Verdict::best(&verdicts) else { return Err("no round".into()) };
        suite.say(&format!("      {:<22} {:>8.1} M rows/s   {}", "millstream", best.steady / 1e6, best.text()));
        for (at, event) in adaptive.timelines.first().map(|run| run.events_of(number)).unwrap_or_default() {
            suite.say(&format!("        after {at:.2} s: {event}"));
        }
        for plan in [generic].into_iter().chain(fixed) {
            suite.say(&format!("      {:<22} {:>8.1} M rows/s", plan.plan.system(), plan.steady(number) / 1e6));
        }
        missed.extend(best.missed().into_iter().map(|what| format!("{name}, {}: {what}", phase.name)));
        for plan in &runs {
            let own = if std::ptr::eq(plan, adaptive) { verdicts.as_slice() } else { &[] };
            record(suite, name, &phase.name, number, plan, own)?;
        }
    }
    Ok(missed)
}

/// Keeps a record of each run of a plan for a phase; the first has the curve.
fn record(
    suite: &mut Suite,
    scenario: &str,
    phase: &str,
    number: usize,
    runs: &PlanRuns<'_>,
    verdicts: &[Verdict],
) -> Result<(), Failure> {
    for (round, run) in runs.timelines.iter().enumerate() {
        let (begin, end) = run.span_s(number);
        let (rows, seconds) = (run.blocks()[number] * BLOCK as u64, (end - begin).max(1e-9));
        let mut more = json!({ "phase": number, "steady_rows_per_s": judge::steady(run, number) });
        if let Value::Object(fields) = &mut more {
            fields.extend(verdicts.get(round).map(Verdict::fields).unwrap_or_default());
            if round == 0 {
                fields.insert(CURVE.into(), json!(judge::curve(run, number)));
                fields.insert(EVENTS.into(), json!(run.events_of(number)));
            }
        }
        suite.record(Record {
            benchmark: BENCHMARK.name.into(),
            case: format!("{scenario}/{phase}"),
            system: runs.plan.system(),
            threads: suite.threads(),
            rows,
            seconds,
            rows_per_s: rows as f64 / seconds,
            bytes_per_s: 0.0,
            checksum: Some(run.checksum.to_string()),
            more: more.as_object().cloned().unwrap_or_default(),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{tests::small, write_report};

    /// All plans of every scenario give the same rows, and what they took is drawn.
    #[test]
    fn plans_of_every_scenario_agree_and_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let mut suite = small(folder.path());
        suite.run(&BENCHMARK).unwrap();
        write_report(folder.path(), &[&BENCHMARK], suite.records(), "a machine").unwrap();
        for (name, how) in SCENARIOS {
            let records = || suite.records().iter().filter(|record| record.figure() == name);
            if let Measure::Own(_) = how {
                assert!(records().any(|r| r.system == "millstream"), "{name}");
                continue;
            }
            assert!(records().any(|r| r.system == "millstream" && r.more.contains_key("of_best")), "{name}");
            assert!(records().any(|r| r.system == "millstream/generic"), "{name}");
            let plot = std::fs::read_to_string(folder.path().join(format!("adaptive-{name}.svg"))).unwrap();
            assert!(plot.contains("seconds; each phase"), "{name}");
        }
    }
}
