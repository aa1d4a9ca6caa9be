//! Phases: sources that are read one after the other, because what is made of the first is looked up by the rows of the
//! next ([`SourcePlan::phase`](millstream_plan::pipeline::SourcePlan)).
//!
//! A phase is over when each pipeline has processed the last row of each of its splits, and all lookup tables that are
//! made of its sources, directly or through other operators, are there. Then the next one opens. Readers of a phase that
//! is not open wait: they hold nothing, so that the earlier phases have all permits.

use millstream_plan::pipeline::{PipelineEnd, PipelineInput, QueryPlan};
use parking_lot::{Condvar, Mutex};
use std::ops::Range;

/// The phases of a query.
pub(crate) struct Phases {
    state: Mutex<PhaseState>,
    opened: Condvar,
}

struct PhaseState {
    /// Phases below this are open.
    open: usize,
    /// What each phase still has to finish.
    left: Vec<usize>,
}

impl Phases {
    /// Phases with `left` things to finish each, none of them open.
    pub(crate) fn new(left: Vec<usize>) -> Phases {
        Phases { state: Mutex::new(PhaseState { open: 0, left }), opened: Condvar::new() }
    }

    /// Opens the first phase, and those after it that wait for nothing; returns them.
    pub(crate) fn begin(&self) -> Range<usize> {
        let mut state = self.state.lock();
        let opened = state.advance();
        self.opened.notify_all();
        opened
    }

    /// One thing of a phase is finished; returns the phases that this has opened.
    pub(crate) fn finish(&self, phase: usize) -> Range<usize> {
        let mut state = self.state.lock();
        state.left[phase] -= 1;
        if state.open == 0 {
            return 0..0;
        }
        let opened = state.advance();
        if !opened.is_empty() {
            self.opened.notify_all();
        }
        opened
    }

    /// Whether all phases are open: what is looked up is there.
    pub(crate) fn are_open(&self) -> bool {
        let state = self.state.lock();
        state.open == state.left.len()
    }

    /// Waits until the phase is open, or `given_up`.
    pub(crate) fn wait(&self, phase: usize, given_up: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while state.open <= phase && !given_up() {
            self.opened.wait(&mut state);
        }
    }

    /// Waits until all phases are open, or `given_up`.
    pub(crate) fn wait_for_all(&self, given_up: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while state.open < state.left.len() && !given_up() {
            self.opened.wait(&mut state);
        }
    }

    /// Makes those who wait look again whether they have given up.
    pub(crate) fn wake(&self) {
        // The lock orders this after a waiter's look, so that the wake-up cannot fall in between.
        let _state = self.state.lock();
        self.opened.notify_all();
    }
}

impl PhaseState {
    fn advance(&mut self) -> Range<usize> {
        let first = self.open;
        while self.open < self.left.len() && self.left[..self.open].iter().all(|&left| left == 0) {
            self.open += 1;
        }
        first..self.open
    }
}

/// For each lookup table the phase of the last source that it is made of.
pub(crate) fn phases_of_lookups(plan: &QueryPlan) -> Vec<usize> {
    let lookups = 0..plan.lookups.len();
    lookups.map(|l| phase_of(plan, &|end| matches!(end, PipelineEnd::Build { lookup } if *lookup == l))).collect()
}

/// The last phase of the sources of all pipelines whose end is one of `ends`.
fn phase_of(plan: &QueryPlan, ends: &dyn Fn(&PipelineEnd) -> bool) -> usize {
    let pipelines = plan.pipelines.iter().filter(|p| ends(&p.end));
    let phase = pipelines.map(|pipeline| match pipeline.input {
        PipelineInput::Source(source) => plan.sources[source].phase,
        PipelineInput::Aggregation(a) => {
            phase_of(plan, &|end| matches!(end, PipelineEnd::Aggregate { aggregation, .. } if *aggregation == a))
        }
        PipelineInput::Sort(s) => phase_of(plan, &|end| matches!(end, PipelineEnd::Sort { sort } if *sort == s)),
        PipelineInput::Operator(o) => {
            phase_of(plan, &|end| matches!(end, PipelineEnd::Exchange { operator, .. } if *operator == o))
        }
    });
    phase.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_opens_when_all_before_it_are_over() {
        let phases = Phases::new(vec![2, 0, 1]);
        assert_eq!(phases.finish(0), 0..0, "nothing is open yet");
        assert_eq!(phases.begin(), 0..1);
        assert_eq!(phases.finish(0), 1..3);
        phases.wait(2, || false);
        assert_eq!(phases.finish(2), 3..3);
        phases.wait(7, || true);
    }
}
