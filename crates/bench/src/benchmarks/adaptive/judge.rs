//! What is computed of timelines: steady rates, how long a change takes to be answered, and how long a run was slow.

use super::scenario::{Plan, Scenario};
use super::timeline::Timeline;
use serde_json::{Map, Value, json};

/// How long a run must be as fast as the best one to have reached it.
const BIN_S: f64 = 0.2;
/// Of a plot.
const PLOT_BIN_S: f64 = 0.05;
/// What a run is to come to of the best fixed plan.
pub(super) const OF_BEST: f64 = 0.9;
/// How soon after a change, in seconds.
pub(super) const REACH_S: f64 = 2.0;
/// A run is slow below this share of the generic plan's rate,
pub(super) const SLOW: f64 = 0.5;
/// which it may be for this many seconds, or as long as the generic plan is: that stops for the ends of windows, too.
pub(super) const SLOW_S: f64 = 0.2;

/// Rows per second of the last half of the phase's rows, when the plan is used to them. A mean, as it takes in the ends of
/// windows.
pub(super) fn steady(run: &Timeline, phase: usize) -> f64 {
    let begin = if phase == 0 { 0.0 } else { run.ends[phase - 1] };
    let half = (run.ends[phase] - begin) / 2.0;
    half / (run.at_s(run.ends[phase]) - run.at_s(begin + half)).max(1e-9)
}

/// Seconds from the beginning of a phase until the run is as fast as `rate` for the first time; none when it never is.
pub(super) fn reached_s(run: &Timeline, phase: usize, rate: f64) -> Option<f64> {
    let (begin, end) = run.span_s(phase);
    let starts = [begin].into_iter().chain(run.samples.iter().map(|s| s.at_s).filter(|at| *at > begin));
    let bin = BIN_S.min((end - begin) / 4.0);
    let mut whole = starts.take_while(|at| at + bin <= end);
    whole.find(|at| run.rows_at(at + bin) - run.rows_at(*at) >= rate * bin).map(|at| at - begin)
}

/// The longest time within a phase, in seconds, for which every sample was slower than `rate`.
pub(super) fn under_s(run: &Timeline, phase: usize, rate: f64) -> f64 {
    let (begin, end) = run.span_s(phase);
    let (mut longest, mut slow_s) = (0.0_f64, 0.0);
    for pair in run.samples.windows(2) {
        let (from, to) = (pair[0].at_s.max(begin), pair[1].at_s.min(end));
        if to <= from {
            continue;
        }
        let is_slow = (run.rows_at(to) - run.rows_at(from)) / (to - from) < rate;
        slow_s = if is_slow { slow_s + to - from } else { 0.0 };
        longest = longest.max(slow_s);
    }
    longest
}

/// Seconds since the beginning of the phase, and millions of rows per second then.
pub(super) fn curve(run: &Timeline, phase: usize) -> Vec<[f64; 2]> {
    let (begin, end) = run.span_s(phase);
    let bins = ((end - begin) / PLOT_BIN_S).ceil() as usize;
    let point = |bin: usize| {
        let from = begin + bin as f64 * PLOT_BIN_S;
        let to = (from + PLOT_BIN_S).min(end);
        let rate = (run.rows_at(to) - run.rows_at(from)) / (to - from).max(f64::MIN_POSITIVE);
        [((from + to) / 2.0 - begin).max(0.0), rate / 1e6].map(|number| (number * 1e3).round() / 1e3)
    };
    (0..bins).map(point).collect()
}

/// The runs of a plan, one in each round.
pub(super) struct PlanRuns<'a> {
    pub(super) plan: &'a Plan,
    pub(super) timelines: Vec<Timeline>,
}

impl<'a> PlanRuns<'a> {
    /// None yet.
    pub(super) fn new(plan: &'a Plan) -> PlanRuns<'a> {
        PlanRuns { plan, timelines: Vec::new() }
    }

    /// The best of the rounds: other processes only make a plan slower.
    pub(super) fn steady(&self, phase: usize) -> f64 {
        self.timelines.iter().map(|run| steady(run, phase)).fold(0.0, f64::max)
    }
}

/// What an adaptive run came to in a phase.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) steady: f64,
    /// The best fixed plan.
    best: String,
    of_best: f64,
    /// None when it never was.
    reached_s: Option<f64>,
    /// How long the run was slow, and the generic plan.
    slow_s: f64,
    generic_slow_s: f64,
    /// A ratio, and what it is to be at least.
    over_generic: (f64, Option<f64>),
    over_worst: (f64, Option<f64>),
}

/// A verdict over each adaptive run.
pub(super) fn verdicts(
    scenario: &Scenario,
    phase: usize,
    generic: &PlanRuns<'_>,
    adaptive: &PlanRuns<'_>,
    fixed: &[PlanRuns<'_>],
) -> Vec<Verdict> {
    let generic_rate = generic.steady(phase);
    let others = fixed.iter().map(|plan| (plan.steady(phase), plan.plan.system()));
    let mut rates: Vec<(f64, String)> = others.chain([(generic_rate, generic.plan.system())]).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (worst, (best, name)) = (rates[0].0, rates[rates.len() - 1].clone());
    let over_worst = scenario.over_worst.filter(|(_, phases)| phases.contains(&phase)).map(|(factor, _)| factor);
    let slow_s = |run: &Timeline| under_s(run, phase, generic_rate * SLOW);
    let generic_slow_s = generic.timelines.iter().map(slow_s).fold(0.0, f64::max);
    let verdict = |run: &Timeline| {
        let steady = steady(run, phase);
        Verdict {
            steady,
            best: name.clone(),
            of_best: steady / best,
            reached_s: reached_s(run, phase, best * OF_BEST),
            slow_s: slow_s(run),
            generic_slow_s,
            over_generic: (steady / generic_rate, scenario.over_generic),
            over_worst: (steady / worst, over_worst),
        }
    };
    adaptive.timelines.iter().map(verdict).collect()
}

impl Verdict {
    /// The one with the best steady rate.
    pub(super) fn best(verdicts: &[Verdict]) -> Option<&Verdict> {
        verdicts.iter().max_by(|a, b| a.steady.total_cmp(&b.steady))
    }

    /// What is printed beside the rate.
    pub(super) fn text(&self) -> String {
        let reached = self.reached_s.map_or("never".into(), |s| format!("in {s:.2} s"));
        format!(
            "×{:.2} of {}, reached {reached}, slow {:.2} s (generic: {:.2} s), ×{:.2} of generic, ×{:.2} of the worst",
            self.of_best, self.best, self.slow_s, self.generic_slow_s, self.over_generic.0, self.over_worst.0
        )
    }

    /// Fields of the record.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let fields = json!({
            "best": self.best,
            "of_best": self.of_best,
            "reached_s": self.reached_s,
            "slow_s": self.slow_s,
            "generic_slow_s": self.generic_slow_s,
            "over_generic": self.over_generic.0,
            "over_worst": self.over_worst.0,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    /// The targets that it missed.
    pub(super) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if self.of_best < OF_BEST {
            missed.push(format!("×{:.2} of the best fixed plan, {}", self.of_best, self.best));
        }
        if self.reached_s.is_none_or(|s| s > REACH_S) {
            missed.push(self.reached_s.map_or("never reached it".into(), |s| format!("reached it after {s:.2} s")));
        }
        if self.slow_s > self.generic_slow_s.max(SLOW_S) {
            missed.push(format!("{:.2} s under half of the generic plan", self.slow_s));
        }
        for ((ratio, wanted), than) in [(self.over_generic, "generic"), (self.over_worst, "worst")] {
            if wanted.is_some_and(|wanted| ratio < wanted) {
                missed.push(format!("only ×{ratio:.2} of the {than} plan"));
            }
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Sample;
    use super::*;
    use crate::suite::Checksum;

    /// Samples of 20 ms at these rates, in rows per second; two phases of as many samples each.
    fn run(rates: &[f64]) -> Timeline {
        let mut rows = 0.0;
        let samples = rates.iter().enumerate().map(|(at, rate)| {
            rows += rate * 0.02;
            Sample { at_s: (at + 1) as f64 * 0.02, rows, ..Sample::default() }
        });
        let samples: Vec<Sample> = samples.collect();
        let ends = vec![samples[rates.len() / 2 - 1].rows, rows];
        Timeline { samples, ends, checksum: Checksum::default(), events: Vec::new() }
    }

    #[test]
    fn a_change_is_found_and_a_stop_measured() {
        // Two seconds fast; then 0.5 s slow, 1 s half, 0.5 s fast.
        let rates = [[1000.0; 100].as_slice(), &[100.0; 25], &[500.0; 50], &[1000.0; 25]].concat();
        let run = run(&rates);
        assert!((run.span_s(1).0 - 2.0).abs() < 1e-9 && (run.span_s(1).1 - 4.0).abs() < 1e-9);
        // Half of the second phase's 1,050 rows: 25 in the 0.05 s before, 500 in the last 0.5 s.
        assert!((steady(&run, 0) - 1000.0).abs() < 1e-6 && (steady(&run, 1) - 525.0 / 0.55).abs() < 1e-6);
        assert_eq!(reached_s(&run, 0, 900.0), Some(0.0));
        let reached = reached_s(&run, 1, 400.0).unwrap();
        assert!((0.3..0.5).contains(&reached), "{reached}");
        assert_eq!(reached_s(&run, 1, 1100.0), None);
        assert!((under_s(&run, 1, 300.0) - 0.5).abs() < 1e-6 && under_s(&run, 0, 300.0) == 0.0);
        assert!((under_s(&run, 1, 600.0) - 1.5).abs() < 1e-6);
        assert_eq!(curve(&run, 1).len(), 40);
    }
}
