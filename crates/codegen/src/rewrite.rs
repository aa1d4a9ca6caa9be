//! Walking and renumbering of programs: the operands of an operation, dead code, dense numbers.

use crate::program::{Op, Program, Statement, Terminal, Value};

impl Program {
    /// Whether an operation of the body is as `is_wanted` says.
    pub fn has_op(&self, is_wanted: impl Fn(&Op) -> bool) -> bool {
        let mut found = false;
        self.body.iter().for_each(|statement| statement.each_op(&mut |op| found |= is_wanted(op)));
        found
    }
}

impl Op {
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
    pub fn visit_operands(&mut self, mut visit: impl FnMut(&mut Value)) {
        match self {
            Op::Bool(_)
            | Op::Int(_)
            | Op::Float(_)
            | Op::Str(_)
            | Op::Load(_)
            | Op::IsValid(_)
            | Op::LoadView(_)
            | Op::LoadBytes(..)
            | Op::Watermark => {}
            Op::Add(a, b)
            | Op::Sub(a, b)
            | Op::Mul(a, b)
            | Op::Div(a, b)
            | Op::Rem(a, b)
            | Op::Compare(_, a, b)
            | Op::And(a, b)
            | Op::Or(a, b)
            | Op::HashFold(a, b) => {
                visit(a);
                visit(b);
            }
            Op::Neg(a)
            | Op::Not(a)
            | Op::Convert(a)
            | Op::OutOfDecimal(a, _)
            | Op::ScaleUp(a, _)
            | Op::ScaleDown(a, _)
            | Op::HashFinish(a)
            | Op::SliceStart { time: a, .. } => visit(a),
            Op::Select(c, a, b) => {
                visit(c);
                visit(a);
                visit(b);
            }
        }
    }
}

impl Statement {
    /// Calls `visit` with every value that the statement, or one within it, uses.
    pub fn each_use(&self, visit: &mut dyn FnMut(Value)) {
        match self {
            Statement::Let(_, op) => op.clone().visit_operands(|value| visit(*value)),
            Statement::Call { arguments, .. } => arguments.iter().for_each(|&a| visit(a)),
            Statement::If { condition, then, otherwise, results } => {
                visit(*condition);
                then.iter().chain(otherwise).for_each(|s| s.each_use(visit));
                for &(_, a, b) in results {
                    visit(a);
                    visit(b);
                }
            }
            Statement::Trap { condition, .. } | Statement::Filter { condition, .. } => visit(*condition),
        }
    }

    /// Calls `visit` with every operation of the statement, or of one within it.
    pub fn each_op(&self, visit: &mut dyn FnMut(&Op)) {
        match self {
            Statement::Let(_, op) => visit(op),
            Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).for_each(|s| s.each_op(visit)),
            Statement::Call { .. } | Statement::Trap { .. } | Statement::Filter { .. } => {}
        }
    }

    /// Values that the statement defines for those after it.
    pub fn definitions(&self) -> Vec<Value> {
        match self {
            Statement::Let(value, _) => vec![*value],
            Statement::Call { result, valid, .. } => vec![*result, *valid],
            Statement::If { results, .. } => results.iter().map(|r| r.0).collect(),
            Statement::Trap { .. } | Statement::Filter { .. } => Vec::new(),
        }
    }
}

impl Terminal {
    /// Calls `visit` on every value that the terminal uses, in order.
    pub fn visit_operands(&mut self, mut visit: impl FnMut(&mut Value)) {
        match self {
            Terminal::Emit(columns) => {
                for column in columns {
                    visit(&mut column.value);
                    column.valid.iter_mut().for_each(&mut visit);
                }
            }
            Terminal::Update(update) => {
                update.slice.iter_mut().for_each(&mut visit);
                for (value, valid) in &mut update.keys {
                    visit(value);
                    valid.iter_mut().for_each(&mut visit);
                }
                for component in &mut update.components {
                    component.argument.iter_mut().for_each(&mut visit);
                    component.valid.iter_mut().for_each(&mut visit);
                    component.guard.iter_mut().for_each(&mut visit);
                }
            }
        }
    }
}

/// Leaves out the inputs that no operation reads; gives the numbers that the others had, in order.
pub(crate) fn keep_used_inputs(program: &mut Program) -> Vec<usize> {
    let mut used = std::collections::BTreeSet::new();
    program.body.iter().for_each(|statement| statement.each_op(&mut |op| used.extend(op.input())));
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
            Statement::Call { .. } | Statement::Trap { .. } | Statement::Filter { .. } => {}
        }
    }
}

/// Removes what no effect depends on and numbers the remaining values densely, in order of definition.
pub(crate) fn finish(program: &mut Program) {
    let mut live = vec![false; program.types.len()];
    program.terminal.visit_operands(|v| live[v.0 as usize] = true);
    sweep(&mut program.body, &mut live);
    let mut numbering = Numbering { new: vec![u32::MAX; program.types.len()], types: Vec::new(), old: &program.types };
    numbering.block(&mut program.body);
    program.terminal.visit_operands(|v| numbering.used(v));
    program.types = numbering.types;
}

/// Removes statements without live results or effects, from the last to the first, and marks what the others use.
fn sweep(statements: &mut Vec<Statement>, live: &mut [bool]) {
    let mut kept = Vec::with_capacity(statements.len());
    for mut statement in std::mem::take(statements).into_iter().rev() {
        let keep = match &mut statement {
            Statement::Let(value, op) => {
                let keep = live[value.0 as usize];
                if keep {
                    op.visit_operands(|v| live[v.0 as usize] = true);
                }
                keep
            }
            // A call may fail, which is an effect.
            Statement::Call { arguments, .. } => {
                arguments.iter().for_each(|v| live[v.0 as usize] = true);
                true
            }
            Statement::If { condition, then, otherwise, results } => {
                results.retain(|r| live[r.0.0 as usize]);
                for (_, a, b) in results.iter() {
                    live[a.0 as usize] = true;
                    live[b.0 as usize] = true;
                }
                sweep(then, live);
                sweep(otherwise, live);
                let keep = !(results.is_empty() && then.is_empty() && otherwise.is_empty());
                live[condition.0 as usize] |= keep;
                keep
            }
            Statement::Trap { condition, .. } | Statement::Filter { condition, .. } => {
                live[condition.0 as usize] = true;
                true
            }
        };
        if keep {
            kept.push(statement);
        }
    }
    kept.reverse();
    *statements = kept;
}

struct Numbering<'a> {
    /// New number by old number.
    new: Vec<u32>,
    types: Vec<millstream_abi::Phys>,
    old: &'a [millstream_abi::Phys],
}

impl Numbering<'_> {
    fn used(&self, value: &mut Value) {
        value.0 = self.new[value.0 as usize];
    }

    fn defined(&mut self, value: &mut Value) {
        let old = value.0 as usize;
        value.0 = self.types.len() as u32;
        self.new[old] = value.0;
        self.types.push(self.old[old]);
    }

    fn block(&mut self, statements: &mut [Statement]) {
        for statement in statements {
            match statement {
                Statement::Let(value, op) => {
                    op.visit_operands(|v| self.used(v));
                    self.defined(value);
                }
                Statement::Call { result, valid, arguments, .. } => {
                    arguments.iter_mut().for_each(|v| self.used(v));
                    self.defined(result);
                    self.defined(valid);
                }
                Statement::If { condition, then, otherwise, results } => {
                    self.used(condition);
                    self.block(then);
                    self.block(otherwise);
                    for (result, a, b) in results {
                        self.used(a);
                        self.used(b);
                        self.defined(result);
                    }
                }
                Statement::Trap { condition, .. } | Statement::Filter { condition, .. } => self.used(condition),
            }
        }
    }
}
