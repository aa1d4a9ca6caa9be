//! In which order filters are applied, and how (Grizzly section 6.2.1).
//!
//! # Model
//!
//! The filters run in *groups*. The conditions of a group are and-ed, evaluated for all rows that reach it, which is
//! [`FilterShape::Mask`] for all of them but the last. The last one applies them all: as a *branch*, after which only the
//! survivors continue in the same loop; or as a *selection*, which lists the survivors' numbers for a separate loop.
//!
//! With *r* the share of rows that reach a group and *q* that of those that leave it, per row of the buffer, in nanoseconds:
//!
//! | part | cost |
//! | --- | --- |
//! | conditions | *r* · Σ cost, times [`VECTOR`] while no branch has come before in the loop and the group ends with a selection |
//! | branch | *r* · *p* (1 − *p*) · 2 [`MISPREDICTION`], where *p* = *q* / *r*: a branch is predicted to go the way that it mostly goes |
//! | selection | *r* · [`PACK`], and *q* · [`SELECTED`] for the loop after it |
//!
//! So costly conditions go behind cheap and selective ones. A filter that drops half of the rows makes a selection; one
//! that drops nearly all or nearly none a branch. Cheap conditions that cannot be predicted one by one are and-ed.
//!
//! The best groups follow by dynamic programming over sets of filters: the cost of what comes after a set depends only on
//! the set and on the kind of loop, not on the order within it. *q* of each set comes from the joint counts, so dependent
//! conditions are treated as what they are. For more than eight filters the order is by rank, cost / (1 − selectivity), which is
//! optimal for independent ones, and only the groups are chosen.

use super::costs::{MISPREDICTION, PACK, ROW, SELECTED, VECTOR};
use crate::adaptive::signals::FilterProfile;
use millstream_codegen::program::FilterShape;
use millstream_codegen::specialise::FilterChoice;
use std::iter::successors;

/// What a filter costs, and what it may not go before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FilterCost {
    /// Nanoseconds of the condition for a row, evaluated one row at a time.
    pub(crate) nanos: f64,
    /// Whether the condition can be evaluated in vectors.
    pub(crate) vectorises: bool,
    /// Filters that it has to come after, as a mask: it could fail for the rows that they drop.
    pub(crate) after: u64,
}

/// Filters in the order in which they are to be applied, and what that costs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FilterPlan {
    /// None is left to what is known before rows were seen.
    pub(crate) filters: Vec<FilterChoice>,
    /// Nanoseconds per row of the buffer, without what comes after the filters.
    pub(crate) nanos: f64,
}

/// The kind of loop that a group runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// Over neighbouring rows, without branches so far.
    Dense,
    /// Behind a branch.
    Branched,
    /// Over a selection.
    Selected,
}

const LOOPS: [Loop; 3] = [Loop::Dense, Loop::Branched, Loop::Selected];

/// Most filters that are put in order: sets of them are words.
const MAX_FILTERS: usize = 64;

/// The best plan for filters with these costs, one for each filter of the profile. `None` for no filters, for very many, or
/// when nothing is known of them.
pub(crate) fn plan(profile: &FilterProfile, costs: &[FilterCost]) -> Option<FilterPlan> {
    if !(1..=MAX_FILTERS).contains(&profile.len()) || profile.len() != costs.len() || profile.rows == 0 {
        return None;
    }
    Some(match profile.all_passing() {
        Some(passing) => best(&passing, costs),
        None => ranked(profile, costs),
    })
}

/// What the filters cost as currently applied, in nanoseconds per row of the buffer; of filters that [`plan`] takes.
pub(crate) fn cost_of(profile: &FilterProfile, costs: &[FilterCost], filters: &[FilterChoice]) -> f64 {
    let (mut total, mut done, mut within, mut group) = (ROW, 0u64, Loop::Dense, Vec::new());
    for (place, &FilterChoice { filter, shape }) in filters.iter().enumerate() {
        group.push(filter);
        let ends = match shape {
            FilterShape::Mask if place + 1 < filters.len() => continue,
            FilterShape::Selection => FilterShape::Selection,
            FilterShape::Mask | FilterShape::Branch | FilterShape::Auto => FilterShape::Branch,
        };
        let set = group.drain(..).fold(0, |set, filter| set | 1u64 << filter);
        let group = Group { set, reach: profile.passing(done), leave: profile.passing(done | set) };
        let (nanos, next) = group.cost(costs, within, ends);
        (total, done, within) = (total + nanos, done | set, next);
    }
    total
}

/// Filters that are and-ed.
#[derive(Debug, Clone, Copy)]
struct Group {
    set: u64,
    /// Share of rows that reach it.
    reach: f64,
    /// Share of rows that leave it.
    leave: f64,
}

impl Group {
    /// Nanoseconds per row of the buffer, and the loop that the next group is in.
    fn cost(&self, costs: &[FilterCost], within: Loop, ends: FilterShape) -> (f64, Loop) {
        let vectors = within == Loop::Dense && ends == FilterShape::Selection;
        let condition = |cost: &FilterCost| cost.nanos * if vectors && cost.vectorises { VECTOR } else { 1.0 };
        let conditions: f64 = members(self.set).map(|filter| condition(&costs[filter])).sum();
        let (end, next) = match ends {
            FilterShape::Selection => (self.reach * PACK + self.leave * SELECTED, Loop::Selected),
            FilterShape::Branch | FilterShape::Mask | FilterShape::Auto => {
                let taken = if self.reach > 0.0 { self.leave / self.reach } else { 0.0 };
                let next = if within == Loop::Selected { Loop::Selected } else { Loop::Branched };
                (self.reach * taken * (1.0 - taken) * 2.0 * MISPREDICTION, next)
            }
        };
        (self.reach * conditions + end, next)
    }

    /// Whether all that its filters have to come after is done.
    fn is_allowed(&self, costs: &[FilterCost], done: u64) -> bool {
        members(self.set).all(|filter| costs[filter].after & !done == 0)
    }
}

fn members(set: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |&filter| set >> filter & 1 == 1)
}

/// A group that some filters are followed by at best, and what that costs with all that comes after it.
#[derive(Debug, Clone, Copy)]
struct FilterStep {
    nanos: f64,
    group: u64,
    ends: FilterShape,
    next: Loop,
    to: usize,
}

/// The cheapest groups from the first state, in which no filter has been applied, to the last one, in which all have. `groups`
/// are those that may follow on a state, with the state behind each, which has a higher number. Filters of one group are in
/// this order.
fn cheapest<G: Iterator<Item = (Group, usize)>>(
    costs: &[FilterCost],
    order: &[usize],
    last: usize,
    groups: impl Fn(usize) -> G,
) -> FilterPlan {
    let mut steps: Vec<[Option<FilterStep>; 3]> = vec![[None; 3]; last];
    let rest = |steps: &[[Option<FilterStep>; 3]], state: usize, within: Loop| match steps.get(state) {
        None => Some(0.0),
        Some(of) => of[within as usize].map(|step| step.nanos),
    };
    for state in (0..last).rev() {
        for within in LOOPS {
            for (group, to) in groups(state) {
                for ends in [FilterShape::Branch, FilterShape::Selection] {
                    let (nanos, next) = group.cost(costs, within, ends);
                    let Some(rest) = rest(&steps, to, next) else { continue };
                    let step = FilterStep { nanos: nanos + rest, group: group.set, ends, next, to };
                    let kept = &mut steps[state][within as usize];
                    if kept.is_none_or(|kept| step.nanos < kept.nanos) {
                        *kept = Some(step);
                    }
                }
            }
        }
    }
    let (mut filters, mut state, mut within) = (Vec::new(), 0, Loop::Dense);
    let nanos = ROW + rest(&steps, state, within).unwrap_or(0.0);
    while let Some(step) = steps.get(state).and_then(|of| of[within as usize]) {
        let group = order.iter().filter(|&&filter| step.group >> filter & 1 == 1);
        filters.extend(group.map(|&filter| FilterChoice { filter, shape: FilterShape::Mask }));
        filters.last_mut().into_iter().for_each(|last| last.shape = step.ends);
        (state, within) = (step.to, step.next);
    }
    FilterPlan { filters, nanos }
}

/// The cheapest plan, given the share of rows that pass all filters of each set. A state is the set that has been applied.
fn best(passing: &[f64], costs: &[FilterCost]) -> FilterPlan {
    let all = passing.len() - 1;
    let order: Vec<usize> = (0..costs.len()).collect();
    cheapest(costs, &order, all, |done| {
        let open = all & !done;
        let sets = successors(Some(open), move |&set| Some((set - 1) & open).filter(|&next| next > 0));
        let groups = sets.map(move |set| {
            let to = done | set;
            (Group { set: set as u64, reach: passing[done], leave: passing[to] }, to)
        });
        groups.filter(move |(group, _)| group.is_allowed(costs, done as u64))
    })
}

/// The best groups of filters in the order of their ranks. A state is how many of them have been applied.
fn ranked(profile: &FilterProfile, costs: &[FilterCost]) -> FilterPlan {
    let order = by_rank(profile, costs);
    let mut prefixes = vec![0u64];
    order.iter().for_each(|&filter| prefixes.push(prefixes[prefixes.len() - 1] | 1 << filter));
    let (prefixes, count) = (&prefixes, order.len());
    let passing: Vec<f64> = prefixes.iter().map(|&set| profile.passing(set)).collect();
    let passing = &passing;
    cheapest(costs, &order, count, |from| {
        let groups = (from + 1..=count).map(move |to| {
            (Group { set: prefixes[to] & !prefixes[from], reach: passing[from], leave: passing[to] }, to)
        });
        groups.filter(move |(group, to)| *to == from + 1 || group.is_allowed(costs, prefixes[from]))
    })
}

/// The filters by rank, as far as they may go before one another.
fn by_rank(profile: &FilterProfile, costs: &[FilterCost]) -> Vec<usize> {
    let rank = |filter: usize| costs[filter].nanos / (1.0 - profile.selectivity(filter)).max(1e-6);
    let (mut order, mut done) = (Vec::new(), 0u64);
    while order.len() < costs.len() {
        let open = (0..costs.len()).filter(|&filter| done >> filter & 1 == 0);
        let allowed = open.clone().filter(|&filter| costs[filter].after & !done == 0);
        let next = allowed.min_by(|&a, &b| rank(a).total_cmp(&rank(b)));
        // A filter comes after earlier ones only, so the first open one is always allowed.
        let Some(next) = next.or_else(|| open.clone().next()) else { break };
        order.push(next);
        done |= 1 << next;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use FilterShape::{Branch, Mask, Selection};
    use arrow_array::BooleanArray;

    const ROWS: usize = 10_000;

    /// Filters that pass these rows.
    fn profile(filters: &[&dyn Fn(usize) -> bool]) -> FilterProfile {
        let conditions: Vec<BooleanArray> =
            filters.iter().map(|passes| BooleanArray::from_iter((0..ROWS).map(|row| Some(passes(row))))).collect();
        let mut profile = FilterProfile::default();
        profile.observe(ROWS, &conditions.iter().collect::<Vec<_>>());
        profile
    }

    /// Independent filters with these shares, in per cent.
    fn independent(shares: &[usize]) -> FilterProfile {
        let filters: Vec<Box<dyn Fn(usize) -> bool>> = shares
            .iter()
            .enumerate()
            .map(|(filter, &share)| -> Box<dyn Fn(usize) -> bool> {
                Box::new(move |row| {
                    let mixed = millstream_abi::hash_finish(millstream_abi::hash_word(filter as u64, row as u64));
                    (mixed % 100) < share as u64
                })
            })
            .collect();
        profile(&filters.iter().map(|f| &**f as &dyn Fn(usize) -> bool).collect::<Vec<_>>())
    }

    fn cost(nanos: f64) -> FilterCost {
        FilterCost { nanos, vectorises: true, after: 0 }
    }

    fn choice(filter: usize, shape: FilterShape) -> FilterChoice {
        FilterChoice { filter, shape }
    }

    fn order(plan: &FilterPlan) -> Vec<usize> {
        plan.filters.iter().map(|f| f.filter).collect()
    }

    #[test]
    fn one_filter_gets_the_shape_of_its_selectivity() {
        for (share, expected) in [(0, Branch), (50, Selection), (100, Branch)] {
            let plan = plan(&independent(&[share]), &[cost(0.3)]).expect("rows were seen");
            assert_eq!(plan.filters, [choice(0, expected)], "{share} %");
        }
    }

    #[test]
    fn selective_and_cheap_filters_go_first() {
        let equal = |shares: &[usize]| {
            let costs = vec![cost(10.0); shares.len()];
            order(&plan(&independent(shares), &costs).expect("rows were seen"))
        };
        assert_eq!(equal(&[90, 2]), [1, 0]);
        assert_eq!(equal(&[2, 90]), [0, 1]);
        assert_eq!(equal(&[80, 40, 2]), [2, 1, 0]);
        let dear = plan(&independent(&[20, 30]), &[cost(50.0), cost(0.5)]).expect("rows were seen");
        assert_eq!(order(&dear), [1, 0], "a dear condition comes after a cheap one");
    }

    #[test]
    fn dependent_filters_are_counted_as_what_they_are() {
        // The second passes whatever passes the first; the third drops it all.
        let profile = profile(&[&|row| row % 4 == 0, &|row| row % 2 == 0, &|row| row % 4 > 0]);
        let plan = plan(&profile, &[cost(8.0), cost(8.0), cost(8.0)]).expect("rows were seen");
        assert_eq!(
            plan.filters[..2].iter().map(|f| f.filter).collect::<std::collections::BTreeSet<_>>(),
            [0, 2].into()
        );
        assert_eq!(order(&plan)[2], 1, "nothing is left for it");
    }

    #[test]
    fn cheap_conditions_are_anded() {
        let plan = plan(&independent(&[50, 50, 50]), &[cost(0.3); 3]).expect("rows were seen");
        let shapes: Vec<FilterShape> = plan.filters.iter().map(|f| f.shape).collect();
        assert_eq!(shapes, [Mask, Mask, Selection]);
    }

    #[test]
    fn a_condition_that_may_fail_stays_behind_its_guard() {
        let guarded = FilterCost { nanos: 0.1, vectorises: true, after: 0b1 };
        for shares in [[99, 0], [50, 50], [100, 100]] {
            let plan = plan(&independent(&shares), &[cost(20.0), guarded]).expect("rows were seen");
            assert_eq!(order(&plan), [0, 1], "{shares:?}");
            assert_ne!(plan.filters[0].shape, Mask, "{shares:?}: it must not see what the guard drops");
        }
    }

    #[test]
    fn the_plan_is_the_cheapest_and_costs_what_it_says() {
        let shapes = [Branch, Mask, Selection];
        for shares in [[5, 50, 95], [33, 33, 33], [0, 50, 100], [70, 10, 45]] {
            for nanos in [[0.3, 0.3, 0.3], [5.0, 1.0, 0.3], [0.5, 20.0, 2.0]] {
                let (profile, costs) = (independent(&shares), nanos.map(cost));
                let plan = plan(&profile, &costs).expect("rows were seen");
                assert!((cost_of(&profile, &costs, &plan.filters) - plan.nanos).abs() < 1e-9);
                for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                    for number in 0..27 {
                        let all = [0, 1, 2].map(|i| choice(order[i], shapes[number / 3usize.pow(i as u32) % 3]));
                        let other = cost_of(&profile, &costs, &all);
                        assert!(
                            plan.nanos <= other + 1e-9,
                            "{shares:?} {nanos:?}: {all:?} costs {other}, not {plan:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn many_filters_are_ranked() {
        let shares = [90, 80, 70, 60, 50, 40, 30, 20, 10, 1];
        let profile = independent(&shares);
        let plan = plan(&profile, &[cost(5.0); 10]).expect("rows were seen");
        assert_eq!(order(&plan), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert!((cost_of(&profile, &[cost(5.0); 10], &plan.filters) - plan.nanos).abs() < 1e-9);
        let mut costs = [cost(5.0); 10];
        costs[9].after = 0b1;
        let plan = super::plan(&profile, &costs).expect("rows were seen");
        let place = |filter| order(&plan).iter().position(|&f| f == filter);
        assert!(place(0) < place(9));
    }

    #[test]
    fn of_nothing_no_plan_is_made() {
        assert_eq!(plan(&FilterProfile::default(), &[]), None);
        assert_eq!(plan(&FilterProfile::default(), &[cost(1.0)]), None);
        assert_eq!(plan(&independent(&[50]), &[cost(1.0), cost(1.0)]), None, "of another program");
        let passes = BooleanArray::from(vec![true; 8]);
        let mut many = FilterProfile::default();
        many.observe(8, &vec![&passes; 65]);
        assert_eq!(plan(&many, &[cost(1.0); 65]), None);
    }

    #[test]
    fn the_choice_does_not_swing() {
        use crate::adaptive::decisions::hysteresis::{COMPILED, Hysteresis};
        use std::time::Duration;
        // Two selectivities cross over while samples are noisy: the order changes once.
        let dear = FilterCost { nanos: 20.0, ..FilterCost::default() };
        let (costs, gate) = ([dear; 2], Hysteresis::new(COMPILED));
        let mut used = vec![choice(0, Selection), choice(1, Selection)];
        let mut changes = Vec::new();
        for step in 0..100 {
            let noise = step * 7 % 5;
            let profile = independent(&[step + noise, 100 - step]);
            let plan = plan(&profile, &costs).expect("rows were seen");
            if gate.allows(Duration::ZERO, cost_of(&profile, &costs, &used), plan.nanos) {
                if order(&plan)[0] != used[0].filter {
                    changes.push(step);
                }
                used = plan.filters;
            }
        }
        assert!(changes.len() == 1 && (45..70).contains(&changes[0]), "{changes:?}");
    }
}
