//! Building a program again, statement by statement, with what is assumed in place of what it reads.

use super::calls::known_call;
use super::order::{arranged, filters};
use super::{Choices, Constant, can_be_constant};
use crate::builder::Builder;
use crate::program::{FilterShape, Op, Program, Statement, Terminal, Update, Value};
use millstream_abi::{Phys, Str};
use std::collections::HashMap;

struct Replay<'a> {
    program: &'a Program,
    choices: &'a Choices,
    builder: Builder<(), ()>,
    /// What a value of the program has become.
    new: HashMap<Value, Value>,
}

/// The program specialised for `choices`. Choices that do not fit it are left out: filters that do not exist, filters
/// that would pass something that can fail, columns of packed records.
pub fn specialise(program: &Program, choices: &Choices) -> Program {
    let place = |filter: usize| choices.filters.iter().position(|c| c.filter == filter);
    let rank = |filter: usize| place(filter).unwrap_or(choices.filters.len() + filter);
    let shapes = shapes(program, |filter| place(filter).map(|at| choices.filters[at].shape));
    let builder = Builder::over(&program.strings, &program.sites);
    let mut replay = Replay { program, choices, builder, new: HashMap::new() };
    for index in arranged(program, rank) {
        match (&program.body[index], shapes.get(&index)) {
            (Statement::Filter { condition, counts_late, .. }, Some(&shape)) => {
                let condition = replay.new[condition];
                replay.builder.shaped_filter(condition, *counts_late, shape);
            }
            (statement, _) => replay.statement(statement),
        }
    }
    let terminal = replay.terminal();
    replay.builder.finish(&program.name, program.inputs.clone(), terminal)
}

/// The shapes that are wanted, by number of the statement.
fn shapes(program: &Program, wanted: impl Fn(usize) -> Option<FilterShape>) -> HashMap<usize, FilterShape> {
    filters(program).enumerate().filter_map(|(filter, (index, _))| Some((index, wanted(filter)?))).collect()
}

impl Replay<'_> {
    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Let(value, op) => {
                let new = self.op(op, self.program.type_of(*value));
                self.new.insert(*value, new);
            }
            Statement::Call(call) => {
                let arguments: Vec<Value> = call.arguments.iter().map(|a| self.new[a]).collect();
                let new = (call.function, arguments.as_slice(), call.site);
                let (result, valid) = known_call(&mut self.builder, self.program, &self.choices.few, new)
                    .unwrap_or_else(|| self.builder.call(call.function, &arguments, call.site));
                self.new.extend([(call.result, result), (call.valid, valid)]);
            }
            Statement::If { condition, then, otherwise, results } => {
                let condition = self.new[condition];
                self.branch(condition, [then, otherwise], results);
            }
            Statement::Trap { condition, kind, site } => self.builder.trap(self.new[condition], *kind, *site),
            Statement::Filter { condition, counts_late, shape } => {
                self.builder.shaped_filter(self.new[condition], *counts_late, *shape);
            }
        }
    }

    fn branch(&mut self, condition: Value, branches: [&[Statement]; 2], results: &[(Value, Value, Value)]) {
        if let Some(holds) = self.builder.known_bool(condition) {
            branches[usize::from(!holds)].iter().for_each(|s| self.statement(s));
            for (result, a, b) in results {
                let given = self.new[if holds { a } else { b }];
                self.new.insert(*result, given);
            }
            return;
        }
        let [then, otherwise] = branches.map(|statements| {
            self.builder.open();
            statements.iter().for_each(|s| self.statement(s));
            self.builder.close()
        });
        let pairs: Vec<(Value, Value)> = results.iter().map(|(_, a, b)| (self.new[a], self.new[b])).collect();
        let given = self.builder.branch(condition, then, otherwise, &pairs);
        self.new.extend(results.iter().map(|r| r.0).zip(given));
    }

    fn op(&mut self, op: &Op, phys: Phys) -> Value {
        let constant = |input: &u32| {
            let constant = self.choices.constants.get(input)?;
            can_be_constant(self.program, *input, constant).then_some(constant)
        };
        match op {
            Op::IsValid(input) if self.choices.not_null.contains(input) => return self.builder.bool(true),
            Op::Load(input) => match constant(input) {
                Some(Constant::Bool(b)) => return self.builder.bool(*b),
                Some(Constant::Int(n)) => return self.builder.int(*n, phys),
                Some(Constant::Str(bytes)) => return self.builder.str(bytes),
                None => {}
            },
            Op::LoadView(input) => {
                if let Some(Constant::Str(bytes)) = constant(input) {
                    return self.builder.int(Str::new(bytes).bits() as i128, phys);
                }
            }
            _ => {}
        }
        let mut op = op.clone();
        op.visit_operands(|value| *value = self.new[value]);
        self.builder.op(op, phys)
    }

    fn terminal(&mut self) -> Terminal {
        let mut terminal = self.program.terminal.clone();
        terminal.visit_operands(|value| *value = self.new[value]);
        if let Terminal::Update(update) = &mut terminal {
            self.simplify(update);
        }
        terminal
    }

    /// Leaves out conditions that always hold.
    fn simplify(&self, update: &mut Update) {
        let open = |condition: &mut Option<Value>| {
            condition.take_if(|c| self.builder.known_bool(*c) == Some(true));
        };
        update.keys.iter_mut().for_each(|(_, valid)| open(valid));
        for component in &mut update.components {
            open(&mut component.guard);
            open(&mut component.valid);
        }
    }
}
