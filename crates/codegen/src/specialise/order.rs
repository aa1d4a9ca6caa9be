//! Which filters may change places, and the order of statements that follows from an order of filters.
//!
//! A *region* is a run of statements without anything that can fail, has to happen in order, or counts rows: within it the
//! filters may stand in any order, since a row either passes all of them or has no effect. A statement that a filter needs moves
//! with the first filter that does; what no filter of the region needs comes behind them.

use crate::program::{Call, Program, Statement, Value};
use std::collections::{BTreeSet, HashMap};

/// Number of the filters of a program, not counting those of late rows.
pub fn filter_count(program: &Program) -> usize {
    filters(program).count()
}

/// For each filter the number of its region: filters of one region may change places.
pub fn regions(program: &Program) -> Vec<usize> {
    let mut region = 0;
    let mut regions = Vec::new();
    for statement in &program.body {
        match statement {
            _ if is_filter(statement) => regions.push(region),
            _ if is_total(statement) => {}
            _ => region += 1,
        }
    }
    regions
}

/// The filters of a program that are counted: index in the body, condition.
pub(crate) fn filters(program: &Program) -> impl Iterator<Item = (usize, Value)> {
    program.body.iter().enumerate().filter_map(|(index, statement)| match statement {
        Statement::Filter { condition, counts_late: false, .. } => Some((index, *condition)),
        _ => None,
    })
}

fn is_filter(statement: &Statement) -> bool {
    matches!(statement, Statement::Filter { counts_late: false, .. })
}

/// Whether a statement has no effect and gives the same whenever it is executed.
pub fn is_total(statement: &Statement) -> bool {
    statement.all().all(|statement| match statement {
        Statement::Let(..) | Statement::If { .. } => true,
        Statement::Call(Call { function, .. }) => function.is_total() && function.is_deterministic(),
        Statement::Trap { .. } | Statement::Filter { .. } => false,
    })
}

/// The statements of a program by number, in the order that follows from that of its filters: `rank` gives the place of each
/// filter among the others.
pub(super) fn arranged(program: &Program, rank: impl Fn(usize) -> usize) -> Vec<usize> {
    let needs = Needs::new(program);
    let mut order = Vec::with_capacity(program.body.len());
    let mut filter = 0;
    let mut start = 0;
    while start < program.body.len() {
        let in_region = |s: &Statement| is_filter(s) || is_total(s);
        let length = program.body[start..].iter().take_while(|s| in_region(s)).count();
        let region = start..start + length;
        let mut filters = Vec::new();
        for index in region.clone().filter(|&i| is_filter(&program.body[i])) {
            filters.push((rank(filter), index));
            filter += 1;
        }
        filters.sort_unstable();
        let mut placed = vec![false; length];
        let roots = filters.into_iter().map(|(_, index)| index).chain(region.clone());
        for root in roots {
            let first = order.len();
            needs.close(root, &region, |index| {
                let is_new = !std::mem::replace(&mut placed[index - start], true);
                if is_new {
                    order.push(index);
                }
                is_new
            });
            order[first..].sort_unstable();
        }
        // What ends the region keeps its place.
        order.extend((region.end < program.body.len()).then_some(region.end));
        start = region.end + 1;
    }
    order
}

/// Which statements a statement of the top level needs.
pub(crate) struct Needs<'a> {
    program: &'a Program,
    definition: HashMap<Value, usize>,
}

impl<'a> Needs<'a> {
    pub(crate) fn new(program: &'a Program) -> Needs<'a> {
        Needs { program, definition: program.definitions() }
    }

    /// Visits a statement and those of a region that it needs, directly or not. `is_new` says for each whether to
    /// continue from there.
    fn close(&self, index: usize, region: &std::ops::Range<usize>, mut is_new: impl FnMut(usize) -> bool) {
        let mut left = vec![index];
        while let Some(index) = left.pop() {
            if is_new(index) {
                self.program.body[index].each_use(&mut |value| {
                    left.extend(self.definition.get(&value).filter(|needed| region.contains(needed)));
                });
            }
        }
    }

    /// All statements that a value needs.
    pub(crate) fn of_value(&self, value: Value) -> BTreeSet<usize> {
        let mut wanted = BTreeSet::new();
        if let Some(&index) = self.definition.get(&value) {
            self.close(index, &(0..self.program.body.len()), |index| wanted.insert(index));
        }
        wanted
    }
}
