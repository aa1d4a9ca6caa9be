//! Which parts of a plan resume from which parts of what was kept. INSERTs may have been added to a set or reordered.
//!
//! Parts are paired by their shapes, wherever they stand. Two that keep the same state under one shape have the same contents: both
//! follow from the same rows before the same cut. So it does not matter which is paired with which, unless one of them is new; then
//! nobody can tell which, and the plan does not fit. Sinks of one table are paired in order: all that was written before the
//! checkpoint is committed, and what comes after it continues from there, whichever sink writes it.

use super::check::Mismatch;
use super::{PlanShape, SinkShape, StateShape};

/// Where the parts of a plan were in what was kept, by position; `None`: they are new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Sources.
    pub sources: Vec<Option<usize>>,
    /// Windowed aggregations.
    pub aggregations: Vec<Option<usize>>,
    /// Keyed operators.
    pub operators: Vec<Option<usize>>,
    /// Sinks.
    pub sinks: Vec<Option<usize>>,
}

impl Fit {
    /// Whether nothing is new.
    pub fn is_complete(&self) -> bool {
        let all = [&self.sources, &self.aggregations, &self.operators, &self.sinks];
        all.into_iter().flatten().all(Option::is_some)
    }
}

impl PlanShape {
    /// Pairs the parts of this plan with those of `kept`, the shape of an earlier one.
    ///
    /// # Errors
    /// When something that was kept has no counterpart, or it cannot be told which is its counterpart: the first cause is told.
    pub fn fit(&self, kept: &PlanShape) -> Result<Fit, Mismatch> {
        let fit = Fit {
            sources: pairs(&self.sources, &kept.sources),
            aggregations: pairs(&self.aggregations, &kept.aggregations),
            operators: pairs(&self.operators, &kept.operators),
            sinks: pairs(&self.sinks, &kept.sinks),
        };
        let now = self.parts(&fit, |places, new| places[new].is_none());
        let mut then = kept.parts(&fit, |places, unmet| !places.contains(&Some(unmet)));
        if kept.is_stateless() {
            // What was read is read the same way in every zone.
            then.time_zone.clone_from(&self.time_zone);
        }
        let is_all_met = then.sources.is_empty() && then.is_stateless() && then.sinks.is_empty();
        let unmet = || (!is_all_met).then(|| "the query keeps something else than its checkpoint".into());
        if let Some(cause) = now.nearest(&then).change(&then).or_else(unmet) {
            return Err(Mismatch(cause));
        }
        fn twin<'a, T: PartialEq>(now: &'a [T], places: &[Option<usize>], kept: &[T]) -> Option<&'a T> {
            let new = now.iter().zip(places).filter(|(_, place)| place.is_none());
            new.map(|(shape, _)| shape).find(|shape| kept.contains(shape))
        }
        let twin_state = twin(&self.aggregations, &fit.aggregations, &kept.aggregations)
            .or_else(|| twin(&self.operators, &fit.operators, &kept.operators));
        // Constant rows, and a table that is read by two clocks, can be in a plan several times.
        let twin_source = || twin(&self.sources, &fit.sources, &kept.sources);
        let twin = twin_state
            .map(StateShape::name)
            .or_else(|| twin_source().map(|source| format!("source {}", source.from.text)));
        match twin {
            Some(name) => Err(Mismatch(format!(
                "the query has the {name} more often than the checkpoint, so it is unclear which of them resumes; run the \
                 new INSERT as a separate job"
            ))),
            None => Ok(fit),
        }
    }

    /// Whether all INSERTs are those of `kept`, and nothing of them has changed.
    pub fn is_same_query(&self, kept: &PlanShape) -> bool {
        let rows = |shape: &PlanShape| {
            let mut rows: Vec<String> = shape.sinks.iter().map(|sink| sink.rows.clone()).collect();
            rows.sort_unstable();
            rows
        };
        self.fit(kept).is_ok_and(|fit| fit.is_complete()) && rows(self) == rows(kept)
    }

    fn is_stateless(&self) -> bool {
        self.aggregations.is_empty() && self.operators.is_empty()
    }

    /// The parts for which `is_left` is true, given their counterparts and their position.
    fn parts(&self, fit: &Fit, is_left: impl Fn(&[Option<usize>], usize) -> bool) -> PlanShape {
        fn left<T: Clone>(all: &[T], is_left: impl Fn(usize) -> bool) -> Vec<T> {
            (0..all.len()).filter(|&place| is_left(place)).map(|place| all[place].clone()).collect()
        }
        PlanShape {
            version: self.version,
            time_zone: self.time_zone.clone(),
            sources: left(&self.sources, |place| is_left(&fit.sources, place)),
            aggregations: left(&self.aggregations, |place| is_left(&fit.aggregations, place)),
            operators: left(&self.operators, |place| is_left(&fit.operators, place)),
            sinks: left(&self.sinks, |place| is_left(&fit.sinks, place)),
        }
    }

    /// The same with what is most like the parts of `then` in their places, and no more: what has changed is told of it.
    fn nearest(mut self, then: &PlanShape) -> PlanShape {
        // What is read comes along with the sources of the checkpoint.
        self.sources.truncate(then.sources.len());
        let unlike = |now: &StateShape, then: &StateShape| now.differences(then).len();
        self.aggregations = nearest(self.aggregations, &then.aggregations, unlike);
        self.operators = nearest(self.operators, &then.operators, unlike);
        let other_table = |now: &SinkShape, then: &SinkShape| usize::from(now.table != then.table);
        self.sinks = nearest(self.sinks, &then.sinks, other_table);
        self
    }
}

/// For each of `now` the first equal one of `kept` that no other has.
fn pairs<T: PartialEq>(now: &[T], kept: &[T]) -> Vec<Option<usize>> {
    let mut is_free = vec![true; kept.len()];
    let pair = |part: &T| {
        let place = (0..kept.len()).find(|&place| is_free[place] && kept[place] == *part)?;
        is_free[place] = false;
        Some(place)
    };
    now.iter().map(pair).collect()
}

/// For each of `then` the one of `now` that is least unlike it.
fn nearest<T>(mut now: Vec<T>, then: &[T], unlike: impl Fn(&T, &T) -> usize) -> Vec<T> {
    let mut found = Vec::with_capacity(then.len());
    for then in then {
        if let Some(place) = (0..now.len()).min_by_key(|&place| unlike(&now[place], then)) {
            found.push(now.remove(place));
        }
    }
    found
}
