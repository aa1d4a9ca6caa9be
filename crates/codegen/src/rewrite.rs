//! Walking and renumbering of programs: the operands of an operation, dead code, dense numbers.

use crate::program::{Call, Op, Program, Statement, Terminal, Update, Value};
use millstream_abi::Phys;
use std::collections::{BTreeSet, HashMap};
use std::iter::once;

impl Program {
    /// Every statement of the body, each followed by those within it.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        all(&self.body)
    }

    /// Every operation of the body, with the value that it defines.
    pub fn ops(&self) -> impl Iterator<Item = (Value, &Op)> {
        self.statements().filter_map(Statement::op)
    }

    /// The top-level statement that defines each value, by index.
    pub fn definitions(&self) -> HashMap<Value, usize> {
        let statements = self.body.iter().enumerate();
        statements.flat_map(|(index, s)| s.definitions().into_iter().map(move |value| (value, index))).collect()
    }

    /// Appends an operation to the body.
    pub(crate) fn define(&mut self, op: Op, phys: Phys) -> Value {
        let value = Value(self.types.len() as u32);
        self.types.push(phys);
        self.body.push(Statement::Let(value, op));
        value
    }
}

/// Statements, each followed by those within it.
fn all(statements: &[Statement]) -> impl Iterator<Item = &Statement> {
    let mut left: Vec<&Statement> = statements.iter().rev().collect();
    std::iter::from_fn(move || {
        let statement = left.pop()?;
        if let Statement::If { then, otherwise, .. } = statement {
            left.extend(then.iter().chain(otherwise).rev());
        }
        Some(statement)
    })
}

impl Op {
    /// Whether the operation is a constant.
    pub fn is_constant(&self) -> bool {
        matches!(self, Op::Bool(_) | Op::Int(_) | Op::Float(_) | Op::Str(_))
    }

    /// The input column that the operation reads.
    pub fn input(&self) -> Option<u32> {
        match self {
            Op::Load(input) | Op::IsValid(input) | Op::LoadView(input) | Op::LoadBytes(input, _) => Some(*input),
            _ => None,
        }
    }

    /// The same, to be changed.
    fn input_mut(&mut self) -> Option<&mut u32> {
        match self {
            Op::Load(input) | Op::IsValid(input) | Op::LoadView(input) | Op::LoadBytes(input, _) => Some(input),
            _ => None,
        }
    }

    /// Calls `visit` on every operand, in order.
    pub fn visit_operands(&mut self, visit: impl FnMut(&mut Value)) {
        let operands = match self {
            Op::Bool(_)
            | Op::Int(_)
            | Op::Float(_)
            | Op::Str(_)
            | Op::Load(_)
            | Op::IsValid(_)
            | Op::LoadView(_)
            | Op::LoadBytes(..)
            | Op::Watermark => vec![],
            Op::Add(a, b)
            | Op::Sub(a, b)
            | Op::Mul(a, b)
            | Op::Div(a, b)
            | Op::Rem(a, b)
            | Op::Compare(_, a, b)
            | Op::And(a, b)
            | Op::Or(a, b)
            | Op::HashFold(a, b) => vec![a, b],
            Op::Neg(a)
            | Op::Not(a)
            | Op::Convert(a)
            | Op::OutOfDecimal(a, _)
            | Op::ScaleUp(a, _)
            | Op::ScaleDown(a, _)
            | Op::HashFinish(a)
            | Op::SliceStart { time: a, .. } => vec![a],
            Op::Select(c, a, b) => vec![c, a, b],
        };
        operands.into_iter().for_each(visit);
    }
}

impl Statement {
    /// The statement and those within it.
    pub fn all(&self) -> impl Iterator<Item = &Statement> {
        all(std::slice::from_ref(self))
    }

    /// The operation and the value that it defines, of a [`Statement::Let`].
    pub fn op(&self) -> Option<(Value, &Op)> {
        match self {
            Statement::Let(value, op) => Some((*value, op)),
            _ => None,
        }
    }

    /// Calls `visit` with every value that the statement, or one within it, uses.
    pub fn each_use(&self, visit: &mut dyn FnMut(Value)) {
        for statement in self.all() {
            match statement {
                Statement::Let(_, op) => op.clone().visit_operands(|value| visit(*value)),
                Statement::Call(Call { arguments, .. }) => arguments.iter().for_each(|&a| visit(a)),
                Statement::If { condition, results, .. } => {
                    visit(*condition);
                    results.iter().flat_map(|(_, a, b)| [*a, *b]).for_each(&mut *visit);
                }
                Statement::Trap { condition, .. } | Statement::Filter { condition, .. } => visit(*condition),
            }
        }
    }

    /// Calls `visit` on every value that the statement itself uses.
    fn visit_operands(&mut self, mut visit: impl FnMut(&mut Value)) {
        match self {
            Statement::Let(_, op) => op.visit_operands(visit),
            Statement::Call(Call { arguments, .. }) => arguments.iter_mut().for_each(visit),
            Statement::If { condition, results, .. } => {
                visit(condition);
                results.iter_mut().flat_map(|(_, a, b)| [a, b]).for_each(visit);
            }
            Statement::Trap { condition, .. } | Statement::Filter { condition, .. } => visit(condition),
        }
    }

    /// Values that the statement defines for those after it.
    pub fn definitions(&self) -> Vec<Value> {
        match self {
            Statement::Let(value, _) => vec![*value],
            Statement::Call(Call { result, valid, .. }) => vec![*result, *valid],
            Statement::If { results, .. } => results.iter().map(|r| r.0).collect(),
            Statement::Trap { .. } | Statement::Filter { .. } => Vec::new(),
        }
    }

    /// The same, to be changed.
    fn definitions_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Statement::Let(value, _) => vec![value],
            Statement::Call(Call { result, valid, .. }) => vec![result, valid],
            Statement::If { results, .. } => results.iter_mut().map(|r| &mut r.0).collect(),
            Statement::Trap { .. } | Statement::Filter { .. } => Vec::new(),
        }
    }
}

impl Terminal {
    /// Calls `visit` on every value that the terminal uses, in order.
    pub fn visit_operands(&mut self, visit: impl FnMut(&mut Value)) {
        match self {
            Terminal::Emit(columns) => {
                columns.iter_mut().flat_map(|c| once(&mut c.value).chain(&mut c.valid)).for_each(visit)
            }
            Terminal::Update(Update { slice, keys, components, .. }) => {
                let keys = keys.iter_mut().flat_map(|(value, valid)| once(value).chain(valid));
                let components = components.iter_mut().flat_map(|c| [&mut c.argument, &mut c.valid, &mut c.guard]);
                slice.iter_mut().chain(keys).chain(components.flatten()).for_each(visit);
            }
        }
    }
}

/// Leaves out the inputs that no operation reads; gives the numbers that the others had, in order.
pub(crate) fn keep_used_inputs(program: &mut Program) -> Vec<usize> {
    let used: BTreeSet<u32> = program.ops().filter_map(|(_, op)| op.input()).collect();
    let used: Vec<u32> = used.into_iter().collect();
    renumber_inputs(&mut program.body, &used);
    program.inputs = used.iter().map(|&input| program.inputs[input as usize].clone()).collect();
    used.into_iter().map(|input| input as usize).collect()
}

fn renumber_inputs(statements: &mut [Statement], used: &[u32]) {
    for statement in statements {
        match statement {
            Statement::Let(_, op) => {
                if let Some(input) = op.input_mut() {
                    *input = used.partition_point(|u| *u < *input) as u32;
                }
            }
            Statement::If { then, otherwise, .. } => {
                renumber_inputs(then, used);
                renumber_inputs(otherwise, used);
            }
            Statement::Call(_) | Statement::Trap { .. } | Statement::Filter { .. } => {}
        }
    }
}

/// Removes what no effect depends on and numbers the remaining values densely, in order of definition.
pub(crate) fn finish(program: &mut Program) {
    let mut live = vec![false; program.types.len()];
    program.terminal.visit_operands(|v| live[v.0 as usize] = true);
    sweep(&mut program.body, &mut live);
    let (mut new, mut types) = (vec![u32::MAX; program.types.len()], Vec::new());
    number(&mut program.body, &program.types, &mut new, &mut types);
    program.terminal.visit_operands(|v| v.0 = new[v.0 as usize]);
    program.types = types;
}

/// Removes statements without live results or effects, from the last to the first, and marks what the others use.
fn sweep(statements: &mut Vec<Statement>, live: &mut [bool]) {
    let mut kept = Vec::with_capacity(statements.len());
    for mut statement in std::mem::take(statements).into_iter().rev() {
        let keep = match &mut statement {
            Statement::Let(value, _) => live[value.0 as usize],
            Statement::If { then, otherwise, results, .. } => {
                results.retain(|r| live[r.0.0 as usize]);
                results.iter().flat_map(|(_, a, b)| [a, b]).for_each(|v| live[v.0 as usize] = true);
                sweep(then, live);
                sweep(otherwise, live);
                !(results.is_empty() && then.is_empty() && otherwise.is_empty())
            }
            // A call may fail, which is an effect.
            Statement::Call(_) | Statement::Trap { .. } | Statement::Filter { .. } => true,
        };
        if keep {
            statement.visit_operands(|v| live[v.0 as usize] = true);
            kept.push(statement);
        }
    }
    kept.reverse();
    *statements = kept;
}

/// Gives every value the next number. `old` has the types by old number, `types` gets those by new number, and `new` the new
/// number by old number.
fn number(statements: &mut [Statement], old: &[Phys], new: &mut [u32], types: &mut Vec<Phys>) {
    for statement in statements {
        if let Statement::If { then, otherwise, .. } = statement {
            number(then, old, new, types);
            number(otherwise, old, new, types);
        }
        statement.visit_operands(|v| v.0 = new[v.0 as usize]);
        for value in statement.definitions_mut() {
            let known = value.0 as usize;
            (value.0, new[known]) = (types.len() as u32, types.len() as u32);
            types.push(old[known]);
        }
    }
}
