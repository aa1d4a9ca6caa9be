//! What all rows of a block have in common when their event times lie in one slice.
//!
//! Windows are long and blocks are short: nearly every block lies within one slice. Then the slice, whether the rows are
//! late, and so the table that they go to are found once for the block, from its lowest and highest time, and the loop
//! over its rows does without (design section 6). Blocks that a slice ends in, or in which a watermark advances that
//! matters, take the general way, so both loops exist.
//!
//! The slice of a time grows with it: if the lowest and the highest time of a block are in the same slice, all are. Every
//! statement that depends on slices and constants alone is *uniform* then. Watermarks never fall, so comparing them with
//! something uniform is uniform, too, when the first and the last row of the block give the same result. If a program does
//! anything else with watermarks, then that before the first row must be that before the last one. A uniform filter either
//! keeps all rows or, which sends the block the general way, none.

use crate::stages::{Action, Stage};
use millstream_abi::Phys;
use millstream_codegen::program::{Op, Program, Statement, Terminal, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The statements of the last stage that a block within one slice executes once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Uniform {
    /// Top-level statements by index, without the loads of times.
    pub(crate) statements: BTreeSet<usize>,
    /// The times that slices are made of, and the input column of each.
    pub(crate) times: BTreeMap<Value, u32>,
    /// Watermarks, by the value that is one.
    pub(crate) watermarks: BTreeSet<Value>,
    /// Whether the watermark must be the same for all rows of the block; else it is enough if comparisons with it
    /// are.
    pub(crate) fixes_watermark: bool,
    /// Statements `if` that compute with the watermark when their condition holds: then it must be the same, too.
    pub(crate) watermark_branches: BTreeSet<usize>,
}

/// Slices that are made of one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slicing {
    pub(crate) time: Value,
    /// Its input column.
    pub(crate) input: u32,
    pub(crate) size_ms: i64,
    pub(crate) offset_ms: i64,
}

impl Uniform {
    /// How rows are cut into slices, if in one way only.
    pub(crate) fn slicing(&self, program: &Program) -> Option<Slicing> {
        let slicing = |index: &usize| match program.body[*index] {
            Statement::Let(_, Op::SliceStart { time, size_ms, offset_ms }) => {
                let input = *self.times.get(&time)?;
                Some(Slicing { time, input, size_ms, offset_ms })
            }
            _ => None,
        };
        let mut all = self.statements.iter().filter_map(slicing);
        let first = all.next().filter(|_| self.times.len() == 1)?;
        all.all(|other| other == first).then_some(first)
    }

    /// Of a program that updates a table for each slice, when the slice is uniform.
    pub(crate) fn new(program: &Program, last_stage: &Stage) -> Option<Uniform> {
        let Terminal::Update(update) = &program.terminal else { return None };
        let mut finder = Finder { program, loads: BTreeMap::new(), known: BTreeSet::new(), found: Uniform::default() };
        let executed = last_stage.actions.iter().filter(|&(_, &action)| action == Action::Execute);
        let statements = executed.map(|(&index, _)| index).filter(|&index| finder.admit(index)).collect();
        let is_uniform = update.slice.is_some_and(|slice| finder.known.contains(&slice));
        let found = Uniform { statements, ..finder.found };
        (is_uniform && !found.times.is_empty()).then_some(found)
    }

    /// Whether an operation compares a watermark with something else, and does nothing more with it.
    pub(crate) fn compares_watermark(&self, op: &Op) -> bool {
        match op {
            Op::Compare(_, a, b) => self.watermarks.contains(a) != self.watermarks.contains(b),
            _ => false,
        }
    }
}

struct Finder<'a> {
    program: &'a Program,
    /// Integer columns that were loaded.
    loads: BTreeMap<Value, u32>,
    /// Uniform values.
    known: BTreeSet<Value>,
    found: Uniform,
}

impl Finder<'_> {
    /// Whether a statement is uniform, given those before it.
    fn admit(&mut self, index: usize) -> bool {
        let statement = &self.program.body[index];
        if let Statement::Let(value, Op::Load(input)) = statement
            && self.program.type_of(*value) == Phys::I64
        {
            self.loads.insert(*value, *input);
            return false;
        }
        let mut local = BTreeSet::new();
        let is_uniform = match statement {
            Statement::Filter { condition, .. } => self.known.contains(condition),
            Statement::If { condition, then, otherwise, results } => {
                let outside = std::mem::take(&mut self.found.fixes_watermark);
                let is_then_uniform = self.known.contains(condition) && self.are_uniform(then, &mut local);
                if std::mem::replace(&mut self.found.fixes_watermark, outside) {
                    self.found.watermark_branches.insert(index);
                }
                is_then_uniform && self.are_uniform(otherwise, &mut local) && self.know_results(results, &local)
            }
            _ => self.is_uniform(statement, &mut local, false),
        };
        if is_uniform {
            self.known.extend(statement.definitions());
        }
        is_uniform
    }

    /// Whether statements within an `if` are uniform; `local` gets what they define.
    fn are_uniform(&mut self, statements: &[Statement], local: &mut BTreeSet<Value>) -> bool {
        statements.iter().all(|inner| {
            let is_uniform = self.is_uniform(inner, local, true);
            local.extend(inner.definitions());
            is_uniform
        })
    }

    fn know_results(&self, results: &[(Value, Value, Value)], local: &BTreeSet<Value>) -> bool {
        let is_known = |value: &Value| self.known.contains(value) || local.contains(value);
        results.iter().all(|(_, a, b)| is_known(a) && is_known(b))
    }

    /// Whether a statement depends on nothing but uniform values and those that `local` statements around it define.
    fn is_uniform(&mut self, statement: &Statement, local: &mut BTreeSet<Value>, is_inner: bool) -> bool {
        let is_known = |finder: &Self, local: &BTreeSet<Value>, value: &Value| {
            finder.known.contains(value) || local.contains(value)
        };
        match statement {
            Statement::Let(_, Op::Load(_) | Op::LoadView(_) | Op::LoadBytes(..) | Op::IsValid(_)) => false,
            Statement::Let(_, Op::SliceStart { time, .. }) if self.loads.contains_key(time) => {
                self.found.times.insert(*time, self.loads[time]);
                true
            }
            Statement::Let(value, Op::Watermark) => {
                // Within an `if` it is not seen from outside.
                self.found.fixes_watermark |= is_inner;
                self.found.watermarks.insert(*value);
                true
            }
            Statement::Let(_, op) => {
                let mut all = true;
                let mut uses_watermark = false;
                op.clone().visit_operands(|value| {
                    all &= is_known(self, local, value);
                    uses_watermark |= self.found.watermarks.contains(value);
                });
                self.found.fixes_watermark |= uses_watermark && (is_inner || !self.found.compares_watermark(op));
                all
            }
            Statement::If { condition, then, otherwise, results } => {
                is_known(self, local, condition)
                    && self.are_uniform(then, local)
                    && self.are_uniform(otherwise, local)
                    && self.know_results(results, local)
            }
            Statement::Call(_) | Statement::Trap { .. } | Statement::Filter { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::StagePlan;
    use crate::stages::tests::{filter, load, program};
    use millstream_abi::{Accumulator, EntryLayout};
    use millstream_codegen::program::{Access, Comparison, Component, Update};

    /// Counts rows by the key `v1` and the slice `v2`.
    fn counting(types: &[Phys], body: Vec<Statement>) -> Program {
        let mut program = program(types, &[Phys::I64, Phys::I64], body, &[]);
        program.terminal = Terminal::Update(Update {
            access: Access::Own,
            layout: EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]),
            slice: Some(Value(2)),
            keys: vec![(Value(1), None)],
            components: vec![Component { argument: None, valid: None, guard: None }],
        });
        millstream_codegen::verify::verify(&program).unwrap();
        program
    }

    #[test]
    fn the_slice_and_lateness_are_uniform_and_the_key_is_not() {
        use Phys::{Bool, I64};
        let body = vec![
            load(0, 0),
            load(1, 1),
            Statement::Let(Value(2), Op::SliceStart { time: Value(0), size_ms: 10, offset_ms: 0 }),
            Statement::Let(Value(3), Op::Watermark),
            Statement::Let(Value(4), Op::Compare(Comparison::Gt, Value(2), Value(3))),
            filter(4, true),
            Statement::Let(Value(5), Op::Compare(Comparison::Gt, Value(1), Value(2))),
            filter(5, false),
        ];
        let plan = StagePlan::new(&counting(&[I64, I64, I64, I64, Bool, Bool], body));
        let uniform = plan.uniform.unwrap();
        assert_eq!(uniform.statements, BTreeSet::from([2, 3, 4, 5]));
        assert_eq!(uniform.times, BTreeMap::from([(Value(0), 0)]));
        assert!(!uniform.fixes_watermark);
    }

    #[test]
    fn a_watermark_that_is_computed_with_is_fixed() {
        use Phys::I64;
        let body = vec![
            load(0, 0),
            load(1, 1),
            Statement::Let(Value(3), Op::SliceStart { time: Value(0), size_ms: 10, offset_ms: 0 }),
            Statement::Let(Value(4), Op::Watermark),
            Statement::Let(Value(2), Op::Add(Value(3), Value(4))),
        ];
        assert!(StagePlan::new(&counting(&[I64; 5], body)).uniform.unwrap().fixes_watermark);
    }

    #[test]
    fn a_slice_of_a_computed_time_is_not() {
        use Phys::I64;
        let body = vec![
            load(0, 0),
            load(1, 1),
            Statement::Let(Value(3), Op::Add(Value(0), Value(1))),
            Statement::Let(Value(2), Op::SliceStart { time: Value(3), size_ms: 10, offset_ms: 0 }),
        ];
        assert_eq!(StagePlan::new(&counting(&[I64, I64, I64, I64], body)).uniform, None);
    }
}
