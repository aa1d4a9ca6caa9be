//! What is known of a program before any row: what could be chosen for it, and roughly what its parts cost.

use super::decisions::costs::{CALL, OPERATION, TEXT_OPERATION};
use millstream_abi::Phys;
use millstream_codegen::program::{FilterShape, Op, Program, Statement, Terminal, Value};
use millstream_codegen::specialise::{calls_of_one_column, can_be_null, filter_count, regions};
use std::collections::{BTreeMap, HashMap, HashSet};

/// See the module.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Of each filter: what it cannot change places with, and what its condition costs.
    pub(crate) filters: Vec<FilterFacts>,
    /// For each column that can be assumed to have no NULL, how often that is asked for a row.
    pub(crate) nullable: BTreeMap<u32, usize>,
    /// For each column that could be assumed to be constant, nanoseconds per row that are saved then.
    pub(crate) constants: BTreeMap<u32, f64>,
    /// For each column of strings, how many calls could be answered from few values of it.
    pub(crate) few: BTreeMap<u32, usize>,
    /// Whether it updates tables by key: then its rows tell how they fall on keys.
    pub(crate) keyed: bool,
}

/// A filter of a program.
#[derive(Debug)]
pub(crate) struct FilterFacts {
    /// Filters that have to stay before it, as a mask.
    pub(crate) after: u64,
    /// Nanoseconds of its condition for a row, if it is nothing but operations.
    pub(crate) nanos: Option<f64>,
    /// Whether these can be done in vectors.
    pub(crate) vectorises: bool,
    /// Its shape in the generic program.
    pub(crate) shape: FilterShape,
}

impl Facts {
    /// Of a generic program.
    pub(crate) fn new(program: &Program) -> Facts {
        let work = OperationCosts::new(program);
        let keyed = match &program.terminal {
            Terminal::Update(update) => !update.keys.is_empty(),
            Terminal::Emit(_) => false,
        };
        let (few, mut constants) = (calls_of_one_column(program), work.constants());
        for (&input, &calls) in &few {
            *constants.entry(input).or_default() += CALL * calls as f64;
        }
        Facts { filters: filters(program, &work), nullable: nullable(program), constants, few, keyed }
    }

    /// Whether anything can be chosen.
    pub(crate) fn is_adaptable(&self) -> bool {
        !self.filters.is_empty() || !self.nullable.is_empty() || !self.constants.is_empty() || self.keyed
    }
}

fn filters(program: &Program, work: &OperationCosts<'_>) -> Vec<FilterFacts> {
    let regions = regions(program);
    debug_assert_eq!(regions.len(), filter_count(program), "every filter has a region");
    let conditions = program.body.iter().filter_map(|statement| match statement {
        Statement::Filter { condition, counts_late: false, shape } => Some((*condition, *shape)),
        _ => None,
    });
    let facts = |(filter, (condition, shape)): (usize, (Value, FilterShape))| {
        let before = regions.iter().enumerate().filter(|&(_, region)| *region < regions[filter]);
        let (nanos, vectorises) = match work.of(condition) {
            Some((nanos, has_text)) => (Some(nanos), !has_text),
            None => (None, false),
        };
        let after = before.filter(|&(other, _)| other < 64).fold(0, |set, (other, _)| set | 1 << other);
        FilterFacts { after, nanos, vectorises, shape }
    };
    conditions.enumerate().map(facts).collect()
}

fn nullable(program: &Program) -> BTreeMap<u32, usize> {
    let mut uses = BTreeMap::new();
    for (_, op) in program.ops() {
        if let Op::IsValid(input) = op {
            *uses.entry(*input).or_default() += 1;
        }
    }
    uses.retain(|&input, _| can_be_null(program, input));
    uses
}

/// The operations of a program's top level.
struct OperationCosts<'a> {
    program: &'a Program,
    operations: HashMap<Value, &'a Op>,
}

impl<'a> OperationCosts<'a> {
    fn new(program: &'a Program) -> OperationCosts<'a> {
        OperationCosts { program, operations: program.body.iter().filter_map(Statement::op).collect() }
    }

    /// Nanoseconds of a value for a row, and whether strings are among what it is computed from; `None` if more than
    /// operations are.
    fn of(&self, value: Value) -> Option<(f64, bool)> {
        let (mut nanos, mut has_text) = (0.0, false);
        let (mut open, mut seen) = (vec![value], HashSet::new());
        while let Some(value) = open.pop() {
            if seen.insert(value) {
                let op = self.operations.get(&value)?;
                let is_text = self.program.type_of(value) == Phys::Str || matches!(op, Op::LoadView(_));
                has_text |= self.program.type_of(value) == Phys::Str;
                nanos += if is_text { TEXT_OPERATION } else { OPERATION };
                (*op).clone().visit_operands(|operand| open.push(*operand));
            }
        }
        Some((nanos, has_text))
    }

    /// For each column what the operations cost that depend on it and constants alone.
    fn constants(&self) -> BTreeMap<u32, f64> {
        let mut saved: BTreeMap<u32, f64> = BTreeMap::new();
        let mut depends: HashMap<Value, Option<u32>> = HashMap::new();
        for statement in &self.program.body {
            let Statement::Let(value, op) = statement else { continue };
            match op {
                Op::Load(input) | Op::LoadView(input) => {
                    depends.insert(*value, Some(*input));
                }
                Op::Bool(_) | Op::Int(_) | Op::Float(_) | Op::Str(_) => {
                    depends.insert(*value, None);
                }
                Op::IsValid(_) | Op::LoadBytes(..) | Op::Watermark => {}
                _ => {
                    let (mut inputs, mut known) = (HashSet::new(), true);
                    op.clone().visit_operands(|operand| match depends.get(operand) {
                        Some(input) => inputs.extend(*input),
                        None => known = false,
                    });
                    if known && inputs.len() == 1 {
                        let input = inputs.into_iter().next();
                        depends.insert(*value, input);
                        *saved.entry(input.unwrap_or_default()).or_default() += OPERATION;
                    }
                }
            }
        }
        saved
    }
}
