//! Cutting a program into stages: which loop executes which statement, and which values travel between loops.
//!
//! A filter ends a stage when something must not run, or should not, for the rows that it drops: a statement with
//! effects (a call, a trap, an `if` that holds one), another filter that is expensive, or the terminal. Filters with only
//! cheap work between them share a stage; their conditions are and-ed. A filter `<>` keeps nearly all rows: a branch that is
//! nearly always taken is better than a selection then, so it ends no stage before the terminal.
//!
//! Where a filter says its shape ([`FilterShape`]), that decides instead: a selection ends its stage, a branch and a mask do not.
//!
//! A filter that counts late rows starts the last stage, since its rows must be counted in order with the effects:
//! from there on filters are plain branches. That suits them: almost no row is late.
//!
//! A later stage recomputes what it needs of earlier ones, except the results of statements with effects and of expensive
//! operations, which are *spilled* to an array with one element a row of the block. A program that would spill more
//! than [`MAX_SPILLED_BYTES`] a row runs in one stage, with branches.

use crate::uniform::Uniform;
use millstream_abi::Phys;
use millstream_codegen::program::{Comparison, FilterShape, Layout, Op, Program, Statement, Value};
use millstream_codegen::specialise::is_total;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rows of a block, unless it spills much: enough for the memory to be read in long runs of each column, and few enough
/// for a block's columns to stay in the cache between the stages.
const BLOCK_ROWS: u64 = 4096;
/// Most bytes of stack for the spilled values of a block.
const SPILL_BYTES: u64 = 64 << 10;
/// Most bytes of the packed records of a block, when inputs are read in them: stages go through the same records one after
/// the other, and should find them in the first cache.
const RECORD_BYTES: u64 = 24 << 10;
/// Most bytes of spilled values a row.
const MAX_SPILLED_BYTES: u64 = 256;

/// What a stage does with a top-level statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Executes it.
    Execute,
    /// Loads its results, which an earlier stage spilled.
    Reload,
}

/// One loop over rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    /// Top-level statements by index, in order.
    pub(crate) actions: BTreeMap<usize, Action>,
}

/// How a program runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StagePlan {
    /// At least one; the last one holds the terminal. Filters of the last stage are branches, those of the others are
    /// and-ed into its selection.
    pub(crate) stages: Vec<Stage>,
    /// Values that are spilled when they are computed.
    pub(crate) spilled: BTreeSet<Value>,
    /// Rows of a block.
    pub(crate) block_rows: u64,
    /// What the last stage need not do for each row of a block within one slice.
    pub(crate) uniform: Option<Uniform>,
}

impl StagePlan {
    /// Plans a well-formed program.
    pub(crate) fn new(program: &Program) -> StagePlan {
        let planner = Planner::new(program);
        let mut plan = planner.plan(&planner.homes());
        let spilled_bytes = plan.spilled_bytes(program);
        if spilled_bytes > MAX_SPILLED_BYTES {
            plan = planner.plan(&vec![0; program.body.len() + 1]);
        }
        plan.uniform = plan.stages.last().and_then(|stage| Uniform::new(program, stage));
        plan
    }

    /// Whether the rows are processed by blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        self.stages.len() > 1 || self.uniform.is_some()
    }

    /// Whether a stage before the last has no effects but to drop rows, so that its loop can be made of vectors.
    pub(crate) fn only_selects(&self, program: &Program, stage: usize) -> bool {
        let is_filter = |index: usize| match program.body[index] {
            Statement::Filter { shape, .. } => shape != FilterShape::Branch,
            _ => false,
        };
        self.stages[stage]
            .actions
            .iter()
            .all(|(&index, &action)| action == Action::Reload || is_filter(index) || !has_effects(&program.body[index]))
    }

    fn spilled_bytes(&self, program: &Program) -> u64 {
        self.spilled.iter().map(|&v| program.type_of(v).size() as u64).sum()
    }
}

/// Bytes of the packed records that inputs are read in; 0 without any.
fn record_bytes(program: &Program) -> u64 {
    let length = program.inputs.iter().find_map(|input| match input.layout {
        Layout::Record(place) => Some(place.length as u64),
        Layout::Array => None,
    });
    length.unwrap_or(0)
}

/// Whether executing a statement can be seen: it can fail the row, or need not give the same value again.
pub(crate) fn has_effects(statement: &Statement) -> bool {
    statement.all().any(|s| matches!(s, Statement::Call(_) | Statement::Trap { .. } | Statement::Filter { .. }))
}

struct Planner<'a> {
    program: &'a Program,
    /// Top-level statement that defines a value.
    definition: HashMap<Value, usize>,
}

impl<'a> Planner<'a> {
    fn new(program: &'a Program) -> Planner<'a> {
        Planner { program, definition: program.definitions() }
    }

    /// Top-level statements that a statement needs directly.
    fn needs(&self, index: usize) -> Vec<usize> {
        let mut needs = Vec::new();
        self.program.body[index].each_use(&mut |v| needs.extend(self.definition.get(&v)));
        needs
    }

    /// Top-level statements that the terminal needs directly.
    fn terminal_needs(&self) -> Vec<usize> {
        let mut needs = Vec::new();
        self.program.terminal.clone().visit_operands(|v| needs.extend(self.definition.get(v)));
        needs
    }

    /// The stage that each statement with effects belongs to (pure ones go where they are needed), and as the last element
    /// that of the terminal.
    fn homes(&self) -> Vec<usize> {
        let mut homes = Vec::with_capacity(self.program.body.len() + 1);
        let mut stage = 0;
        // Whether the current stage has a filter whose dropped rows later statements must not see, and whether one of them
        // may drop many.
        let (mut filtered, mut selects) = (false, false);
        // Whether filters are branches by now, and whether the last one was a mask.
        let (mut last, mut masked) = (false, false);
        let mut computed = BTreeSet::new();
        for (index, statement) in self.program.body.iter().enumerate() {
            if !last && has_effects(statement) {
                let joins = match statement {
                    // There filters are branches.
                    Statement::Filter { counts_late: true, .. } => !selects,
                    Statement::Filter { shape: FilterShape::Auto, .. } => self.is_cheap_after(index, &computed),
                    Statement::Filter { .. } => true,
                    _ => masked && is_total(statement),
                };
                if filtered && !joins {
                    stage += 1;
                    (filtered, selects, masked) = (false, false, false);
                    computed.clear();
                }
                self.close(index, &mut computed);
                match statement {
                    Statement::Filter { counts_late: true, .. } => last = true,
                    Statement::Filter { condition, shape: FilterShape::Auto, .. } => {
                        filtered = true;
                        selects |= !self.keeps_most(*condition);
                    }
                    Statement::Filter { shape: FilterShape::Mask, .. } => (filtered, masked) = (true, true),
                    Statement::Filter { shape, .. } => {
                        homes.push(stage);
                        stage += (*shape == FilterShape::Selection) as usize;
                        (filtered, selects, masked) = (false, false, false);
                        if *shape == FilterShape::Selection {
                            computed.clear();
                        }
                        continue;
                    }
                    _ => {}
                }
            }
            homes.push(stage);
        }
        homes.push(stage + (filtered && selects) as usize);
        homes
    }

    /// Whether a condition holds for nearly all rows.
    fn keeps_most(&self, condition: Value) -> bool {
        let statement = self.definition.get(&condition).map(|&index| &self.program.body[index]);
        matches!(statement, Some(Statement::Let(_, Op::Compare(Comparison::Ne, ..))))
    }

    /// Adds a statement and all it needs to `computed`.
    fn close(&self, index: usize, computed: &mut BTreeSet<usize>) {
        if computed.insert(index) {
            self.needs(index).into_iter().for_each(|n| self.close(n, computed));
        }
    }

    /// Whether a filter adds only cheap work to what its stage has computed anyway.
    fn is_cheap_after(&self, index: usize, computed: &BTreeSet<usize>) -> bool {
        let mut all = computed.clone();
        self.close(index, &mut all);
        all.difference(computed).all(|&i| i == index || self.is_cheap(i))
    }

    fn is_cheap(&self, index: usize) -> bool {
        match &self.program.body[index] {
            Statement::Let(value, op) => match op {
                Op::Load(_) => self.program.type_of(*value) != Phys::Str,
                Op::SliceStart { .. } => false,
                _ => !self.is_expensive(index),
            },
            _ => false,
        }
    }

    /// Whether computing a pure statement twice costs more than storing and loading its result.
    fn is_expensive(&self, index: usize) -> bool {
        let Statement::Let(value, op) = &self.program.body[index] else { return true };
        let phys = self.program.type_of(*value);
        match op {
            Op::Div(..) | Op::Rem(..) => true,
            Op::ScaleDown(..) => true,
            Op::Convert(a) => phys == Phys::I128 && self.program.type_of(*a).is_float(),
            Op::Compare(_, a, _) => self.program.type_of(*a) == Phys::Str,
            _ => false,
        }
    }

    fn plan(&self, homes: &[usize]) -> StagePlan {
        let terminal_stage = homes[homes.len() - 1];
        let mut spilled = BTreeSet::new();
        let mut stages: Vec<Stage> = Vec::new();
        for number in 0..=terminal_stage {
            let mut open: Vec<usize> = (0..self.program.body.len())
                .filter(|&i| homes[i] == number && has_effects(&self.program.body[i]))
                .collect();
            if number == terminal_stage {
                open.extend(self.terminal_needs());
            }
            let mut stage = Stage::default();
            while let Some(index) = open.pop() {
                if stage.actions.contains_key(&index) {
                    continue;
                }
                let statement = &self.program.body[index];
                let is_elsewhere = stages.iter().any(|s| s.actions.get(&index) == Some(&Action::Execute));
                if is_elsewhere && (has_effects(statement) || self.is_expensive(index)) {
                    spilled.extend(statement.definitions());
                    stage.actions.insert(index, Action::Reload);
                } else {
                    stage.actions.insert(index, Action::Execute);
                    open.extend(self.needs(index));
                }
            }
            stages.push(stage);
        }
        let mut plan = StagePlan { stages, spilled, block_rows: BLOCK_ROWS, uniform: None };
        let bytes = plan.spilled_bytes(self.program).max(1);
        let record = record_bytes(self.program);
        let fits = |rows: u64| rows * bytes <= SPILL_BYTES && rows * record <= RECORD_BYTES;
        while !fits(plan.block_rows) && plan.block_rows > 64 {
            plan.block_rows /= 2;
        }
        plan
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use millstream_abi::RuntimeFn;
    use millstream_codegen::program::{Call, Emit, Input, Terminal};

    pub(crate) fn program(types: &[Phys], inputs: &[Phys], body: Vec<Statement>, emitted: &[u32]) -> Program {
        let program = Program {
            name: "test".into(),
            inputs: inputs.iter().map(|&phys| Input::array("c", phys, false)).collect(),
            types: types.to_vec(),
            strings: vec![],
            sites: vec![millstream_codegen::program::Site { what: String::new(), line: 0, column: 1, length: 1 }],
            body,
            terminal: Terminal::Emit(
                emitted.iter().map(|&v| Emit { name: "e".into(), value: Value(v), valid: None }).collect(),
            ),
        };
        millstream_codegen::verify::verify(&program).unwrap();
        program
    }

    pub(crate) fn filter(condition: u32, counts_late: bool) -> Statement {
        Statement::Filter { condition: Value(condition), counts_late, shape: FilterShape::Auto }
    }

    pub(crate) fn load(value: u32, input: u32) -> Statement {
        Statement::Let(Value(value), Op::Load(input))
    }

    fn upper(result: u32, argument: u32) -> Statement {
        Statement::Call(Call {
            result: Value(result),
            valid: Value(result + 1),
            function: RuntimeFn::Upper,
            arguments: vec![Value(argument)],
            site: 0,
        })
    }

    #[test]
    fn cheap_filters_share_a_stage_and_the_terminal_has_its_own() {
        use Phys::{Bool, I64};
        let plan = StagePlan::new(&program(
            &[Bool, Bool, I64],
            &[Bool, Bool, I64],
            vec![load(0, 0), filter(0, false), load(1, 1), filter(1, false), load(2, 2)],
            &[2],
        ));
        assert_eq!(plan.stages.len(), 2);
        assert_eq!(plan.stages[0].actions.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(plan.stages[1].actions.keys().copied().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_filter_that_keeps_most_rows_is_a_branch_unless_something_must_wait_for_it() {
        use Phys::{Bool, I64, Str};
        let differs = |result, a, b| Statement::Let(Value(result), Op::Compare(Comparison::Ne, Value(a), Value(b)));
        let inputs = [I64, I64, Str];
        let alone = vec![load(0, 0), load(1, 1), differs(2, 0, 1), filter(2, false)];
        assert_eq!(StagePlan::new(&program(&[I64, I64, Bool], &inputs, alone.clone(), &[0])).stages.len(), 1);
        let types = [I64, I64, Bool, Str, Str, Bool];
        let with_call = alone.into_iter().chain([load(3, 2), upper(4, 3)]).collect();
        assert_eq!(StagePlan::new(&program(&types, &inputs, with_call, &[4])).stages.len(), 2);
    }

    #[test]
    fn shapes_say_where_stages_end() {
        use FilterShape::{Branch, Mask, Selection};
        use Phys::Bool;
        let stages = |shapes: [FilterShape; 3]| {
            let filter = |(i, &shape): (usize, &FilterShape)| {
                let condition = Value(i as u32);
                [load(i as u32, i as u32), Statement::Filter { condition, counts_late: false, shape }]
            };
            let body = shapes.iter().enumerate().flat_map(filter).collect();
            let plan = StagePlan::new(&program(&[Bool; 3], &[Bool; 3], body, &[2]));
            plan.stages.iter().map(|s| s.actions.len()).collect::<Vec<_>>()
        };
        assert_eq!(stages([Selection; 3]), [2, 2, 2, 1]);
        assert_eq!(stages([Branch; 3]), [6]);
        assert_eq!(stages([Mask; 3]), [6]);
        assert_eq!(stages([Mask, Selection, Branch]), [4, 2]);
        assert_eq!(stages([Branch, Mask, Selection]), [6, 1]);
    }

    #[test]
    fn a_call_waits_for_the_filter_and_its_result_is_not_computed_twice() {
        use Phys::{Bool, Str};
        let plan = StagePlan::new(&program(
            &[Bool, Str, Str, Bool],
            &[Bool, Str],
            vec![load(0, 0), filter(0, false), load(1, 1), upper(2, 1), filter(3, false)],
            &[2],
        ));
        assert_eq!(plan.stages.len(), 3);
        assert_eq!(plan.stages[1].actions.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(plan.stages[2].actions, BTreeMap::from([(3, Action::Reload)]));
        assert!(plan.spilled.contains(&Value(2)));
    }

    #[test]
    fn late_rows_are_counted_in_the_last_stage() {
        use Phys::{Bool, I64};
        let plan = StagePlan::new(&program(
            &[Bool, I64, I64, Bool, Bool],
            &[Bool, I64],
            vec![
                load(0, 0),
                filter(0, false),
                load(1, 1),
                Statement::Let(Value(2), Op::Watermark),
                Statement::Let(Value(3), Op::Compare(Comparison::Gt, Value(1), Value(2))),
                filter(3, true),
                Statement::Let(Value(4), Op::Not(Value(3))),
                filter(4, false),
            ],
            &[1],
        ));
        assert_eq!(plan.stages.len(), 2);
        assert!(plan.stages[1].actions.contains_key(&5) && plan.stages[1].actions.contains_key(&7));
        assert!(plan.spilled.is_empty());
    }

    #[test]
    fn many_spills_give_up_on_stages() {
        let mut types = vec![Phys::Bool, Phys::Str];
        let mut body = vec![load(0, 0), load(1, 1)];
        let mut emitted = Vec::new();
        for _ in 0..20 {
            let result = types.len() as u32;
            types.extend([Phys::Str, Phys::Bool]);
            body.push(upper(result, 1));
            emitted.push(result);
        }
        body.push(filter(0, false));
        let plan = StagePlan::new(&program(&types, &[Phys::Bool, Phys::Str], body, &emitted));
        assert_eq!((plan.stages.len(), plan.spilled.len()), (1, 0));
    }
}
