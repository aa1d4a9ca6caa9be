//! How the overlapping windows of an aggregation are made of slices: what is set, what `adaptive::decisions::combination`
//! decides, or chance.
//!
//! Every range of partitions makes the windows in order, at its own pace (`overlap`). It adds up what windows were made of and
//! reports it every [`PERIOD`] windows; when all ranges have reported the same windows, the sums are judged, once for all
//! of them. One range alone could not judge: with few keys most ranges have none. Nor would deciding for each gain anything: keys
//! are spread evenly over ranges, so what is best for one is best for all.
//!
//! A range looks at the choice before each window, and changes its combiner if it has to, which costs as much as merging the
//! slices of that window. Averages over many windows, the margin of the decision, and the length of a period keep that from
//! happening often.

use crate::adaptive::decisions::combination::Situation;
use crate::adaptive::{Decision, Policy};
use crate::config::Adaptivity;
use millstream_abi::{Accumulator, Combination, ShorterWindows};
use millstream_state::WindowContents;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Windows that are judged together.
const PERIOD: u64 = 16;
/// When choices are random, at most one window in this many is made in another way than the one before.
const CHANGES: u64 = 3;

/// How the windows of an aggregation with such components are made of slices at first: as was asked for, if that is exact, or
/// as was planned.
pub fn combination(adaptivity: &Adaptivity, components: Components<'_>, planned: Combination) -> Combination {
    match adaptivity.combination {
        Some(Combination::Subtract) if !is_invertible(components) => Combination::TwoStacks,
        Some(wanted) => wanted,
        None => planned,
    }
}

/// Components of an aggregation, of which some may count shorter windows.
type Components<'a> = (&'a [Accumulator], Option<&'a ShorterWindows>);

/// Whether all that count whole windows are invertible.
fn is_invertible((components, shorter): Components<'_>) -> bool {
    ShorterWindows::others(shorter, components.iter().copied()).all(Accumulator::is_invertible)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Combining {
    policy: Policy,
    is_invertible: bool,
    /// Ranges of partitions.
    ranges: usize,
    state: Mutex<CombiningState>,
}

#[derive(Debug)]
struct CombiningState {
    now: Combination,
    /// By period, reports of the ranges that have come to its end.
    reports: BTreeMap<u64, Report>,
}

/// What windows were made of, in some ranges of partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Report {
    ranges: usize,
    /// Of the range that has seen most: slices have rows in some ranges and none in others.
    slices: f64,
    entries: f64,
    keys: f64,
}

impl Report {
    /// Takes in a window of the range.
    fn add(&mut self, contents: WindowContents) {
        self.slices += contents.slices as f64;
        self.entries += contents.entries as f64;
        self.keys += contents.keys as f64;
    }

    /// Takes in another range.
    fn join(&mut self, other: Report) {
        self.ranges += 1;
        self.slices = self.slices.max(other.slices);
        self.entries += other.entries;
        self.keys += other.keys;
    }

    fn situation(&self, is_invertible: bool) -> Situation {
        Situation {
            slices: self.slices / PERIOD as f64,
            keys_of_slice: self.entries / self.slices.max(1.0),
            keys_of_window: self.keys / PERIOD as f64,
            is_invertible,
        }
    }
}

impl Combining {
    /// Of windows that were `planned` to be made in some way, by `ranges` ranges of partitions.
    pub(crate) fn new(
        adaptivity: &Adaptivity,
        components: Components<'_>,
        planned: Combination,
        ranges: usize,
    ) -> Combining {
        let policy = Policy::new(adaptivity.combination.is_none(), adaptivity);
        let now = combination(adaptivity, components, planned);
        let is_invertible = is_invertible(components);
        Combining { policy, is_invertible, ranges, state: Mutex::new(CombiningState { now, reports: BTreeMap::new() }) }
    }

    /// How a window is made in a range that has made the last one in the way `last`; `None`: the first one of all.
    pub(crate) fn next(&self, last: Option<Combination>) -> Combination {
        let possible = |&c: &Combination| self.is_invertible || c != Combination::Subtract;
        match (&self.policy, last) {
            (Policy::Random(dice), Some(last)) => {
                let all = [Combination::Recompute, Combination::Subtract, Combination::TwoStacks];
                let drawn = all.get(dice.below(all.len() as u64 * CHANGES) as usize);
                drawn.copied().filter(possible).unwrap_or(last)
            }
            (Policy::Fixed, Some(last)) => last,
            _ => self.state.lock().now,
        }
    }

    /// A range has made a window, of this number and contents; `report` is what it has seen and not told. Says what was seen
    /// if that changes how windows are made.
    pub(crate) fn note(&self, window: u64, contents: WindowContents, report: &mut Report) -> Option<Decision> {
        if !self.policy.is_chosen() {
            return None;
        }
        report.add(contents);
        if !(window + 1).is_multiple_of(PERIOD) {
            return None;
        }
        let mut state = self.state.lock();
        let together = state.reports.entry(window / PERIOD).or_default();
        together.join(std::mem::take(report));
        if together.ranges < self.ranges {
            return None;
        }
        let together = state.reports.remove(&(window / PERIOD))?;
        let seen = together.situation(self.is_invertible);
        let chosen = seen.choose(state.now);
        (std::mem::replace(&mut state.now, chosen) != chosen).then(|| decision(&seen, chosen))
    }
}

fn decision(seen: &Situation, chosen: Combination) -> Decision {
    let Situation { slices, keys_of_slice, keys_of_window, .. } = seen;
    let decided = match chosen {
        Combination::Recompute => "slices are merged again for each window",
        Combination::Subtract => "slices are added when they enter a window, and subtracted when they leave",
        Combination::TwoStacks => "slices are kept in two stacks",
    };
    let observed = format!("{slices:.1} slices of {keys_of_slice:.0} keys make a window of {keys_of_window:.0} keys");
    Decision::new(observed, decided)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Combination::{Recompute, Subtract, TwoStacks};

    fn combining(adaptivity: Adaptivity, component: Accumulator, planned: Combination) -> Combining {
        Combining::new(&adaptivity, (&[component], None), planned, 2)
    }

    /// A period of windows in both ranges, of which one has all keys.
    fn period(of: &Combining, number: u64, contents: WindowContents) -> Vec<Decision> {
        let mut switches = Vec::new();
        for contents in [WindowContents::default(), contents] {
            let mut report = Report::default();
            let windows = number * PERIOD..(number + 1) * PERIOD;
            switches.extend(windows.filter_map(|window| of.note(window, contents, &mut report)));
            assert_eq!(report, Report::default());
        }
        assert!(of.state.lock().reports.is_empty());
        switches
    }

    #[test]
    fn windows_are_judged_together_by_what_they_were_made_of() {
        let of = combining(Adaptivity::default(), Accumulator::Count, Subtract);
        let few = WindowContents { slices: 2, entries: 2000, keys: 1000 };
        let switches = period(&of, 0, few);
        assert_eq!(switches.len(), 1);
        assert!(switches[0].observed.contains("2.0 slices of 1000 keys make a window of 1000 keys"), "{switches:?}");
        assert_eq!((of.next(Some(Subtract)), of.next(None)), (Recompute, Recompute));
        assert!(period(&of, 1, few).is_empty());
        let many = WindowContents { slices: 100, entries: 100_000, keys: 1000 };
        assert!(period(&of, 2, many)[0].decided.contains("subtracted"));
        let of = combining(Adaptivity::default(), Accumulator::MaxI64, Recompute);
        assert!(period(&of, 0, many)[0].decided.contains("stacks"));
        assert!(period(&of, 1, WindowContents::default()).is_empty(), "nothing to judge");
    }

    #[test]
    fn what_is_set_is_done_where_it_is_exact() {
        let set = |combination| Adaptivity { combination: Some(combination), ..Adaptivity::default() };
        for (wanted, component, expected) in [
            (Subtract, Accumulator::SumI64, Subtract),
            (Subtract, Accumulator::SumF64, Subtract),
            (Subtract, Accumulator::MaxF64, TwoStacks),
            (TwoStacks, Accumulator::Count, TwoStacks),
            (Recompute, Accumulator::Count, Recompute),
        ] {
            let of = combining(set(wanted), component, Recompute);
            assert_eq!(of.next(None), expected);
            assert!(period(&of, 0, WindowContents { slices: 100, entries: 1000, keys: 500 }).is_empty());
            assert_eq!(of.next(Some(expected)), expected);
        }
        let never = Adaptivity { is_enabled: false, ..Adaptivity::default() };
        let of = combining(never, Accumulator::Count, TwoStacks);
        assert!(period(&of, 0, WindowContents { slices: 2, entries: 2, keys: 1 }).is_empty());
        assert_eq!(of.next(None), TwoStacks);
    }

    #[test]
    fn chance_subtracts_only_what_can_be_subtracted() {
        let chaos = || Adaptivity { chaos_seed: Some(3), ..Adaptivity::default() };
        for (component, expected) in [(Accumulator::Count, 3), (Accumulator::MaxI64, 2)] {
            let of = combining(chaos(), component, Recompute);
            let mut last = Recompute;
            let mut seen: Vec<Combination> = Vec::new();
            for _ in 0..200 {
                last = of.next(Some(last));
                if !seen.contains(&last) {
                    seen.push(last);
                }
            }
            assert_eq!(seen.len(), expected, "{seen:?}");
        }
    }
}
