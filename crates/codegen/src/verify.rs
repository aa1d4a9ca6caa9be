//! Checks that a row program is well formed, so that both back ends can rely on it.
//!
//! Checked: every value is defined once, before its uses and in scope where it is used; operands and results have the
//! types that each operation, call, branch and terminal asks for; filters stand at the top level only; indices of
//! inputs, strings and sites are in range; a table update fits its layout. Called after lowering, and by both back ends
//! in debug builds.

use crate::program::{Comparison, Emit, Op, Program, Statement, Terminal, Update, Value};
use millstream_abi::{EntryLayout, Phys};
use std::collections::HashSet;

/// Checks a program; the error says what is wrong and where.
pub fn verify(program: &Program) -> Result<(), String> {
    let mut verifier = Verifier { program, visible: Vec::new(), in_scope: vec![false; program.types.len()], defined: HashSet::new() };
    verifier.block(&program.body, true)?;
    match &program.terminal {
        Terminal::Emit(columns) => columns.iter().try_for_each(|c| verifier.emit(c)),
        Terminal::Update(update) => verifier.update(update),
    }
}

struct Verifier<'a> {
    program: &'a Program,
    /// Values in scope, in order of definition.
    visible: Vec<Value>,
    /// By value number, whether it is in scope.
    in_scope: Vec<bool>,
    /// Values defined anywhere so far.
    defined: HashSet<Value>,
}

impl Verifier<'_> {
    fn block(&mut self, statements: &[Statement], top: bool) -> Result<(), String> {
        statements.iter().try_for_each(|s| self.statement(s, top))
    }

    fn statement(&mut self, statement: &Statement, top: bool) -> Result<(), String> {
        match statement {
            Statement::Let(value, op) => {
                self.op(*value, op).map_err(|e| format!("{value}: {e}"))?;
                self.define(*value)
            }
            Statement::Call { result, valid, function, arguments, site } => {
                let place = |e: String| format!("call {}: {e}", function.name());
                if arguments.len() != function.arguments().len() {
                    return Err(place(format!("{} arguments", arguments.len())));
                }
                for (argument, phys) in arguments.iter().zip(function.arguments()) {
                    self.expect(*argument, *phys).map_err(place)?;
                }
                self.site(*site)?;
                self.define_as(*result, function.result())?;
                self.define_as(*valid, Phys::Bool)
            }
            Statement::If { condition, then, otherwise, results } => {
                self.expect(*condition, Phys::Bool)?;
                self.branch(then, results.iter().map(|r| (r.0, r.1)))?;
                self.branch(otherwise, results.iter().map(|r| (r.0, r.2)))?;
                results.iter().try_for_each(|r| self.define(r.0))
            }
            Statement::Trap { condition, site, .. } => {
                self.expect(*condition, Phys::Bool)?;
                self.site(*site)
            }
            Statement::Filter { condition, .. } if top => self.expect(*condition, Phys::Bool),
            Statement::Filter { .. } => Err("a filter within an if".into()),
        }
    }

    /// A branch of an `if`, with (result, value given).
    fn branch(&mut self, body: &[Statement], gives: impl Iterator<Item = (Value, Value)>) -> Result<(), String> {
        let outer = self.visible.len();
        self.block(body, false)?;
        for (result, given) in gives {
            let phys = self.declared(result)?;
            self.expect(given, phys)?;
        }
        for value in self.visible.drain(outer..) {
            self.in_scope[value.0 as usize] = false;
        }
        Ok(())
    }

    fn declared(&self, value: Value) -> Result<Phys, String> {
        self.program.types.get(value.0 as usize).copied().ok_or_else(|| format!("{value} has no type"))
    }

    fn define(&mut self, value: Value) -> Result<(), String> {
        self.declared(value)?;
        if !self.defined.insert(value) {
            return Err(format!("{value} is defined twice"));
        }
        self.visible.push(value);
        self.in_scope[value.0 as usize] = true;
        Ok(())
    }

    fn define_as(&mut self, value: Value, phys: Phys) -> Result<(), String> {
        self.result(value, phys)?;
        self.define(value)
    }

    /// Checks the declared type of a value that is being defined.
    fn result(&self, value: Value, phys: Phys) -> Result<(), String> {
        let declared = self.declared(value)?;
        if declared == phys { Ok(()) } else { Err(format!("{value} is declared {declared} but is {phys}")) }
    }

    /// Type of a value that is used.
    fn used(&self, value: Value) -> Result<Phys, String> {
        let phys = self.declared(value)?;
        if self.in_scope[value.0 as usize] { Ok(phys) } else { Err(format!("{value} is used where it is not defined")) }
    }

    fn expect(&self, value: Value, phys: Phys) -> Result<(), String> {
        let found = self.used(value)?;
        if found == phys { Ok(()) } else { Err(format!("{value} is {found} where {phys} is expected")) }
    }

    fn site(&self, site: u32) -> Result<(), String> {
        if (site as usize) < self.program.sites.len() { Ok(()) } else { Err(format!("there is no site {site}")) }
    }

    fn input(&self, index: u32) -> Result<(Phys, bool), String> {
        let input = self.program.inputs.get(index as usize).ok_or_else(|| format!("there is no input {index}"))?;
        Ok((input.phys, input.nullable))
    }

    fn op(&self, value: Value, op: &Op) -> Result<(), String> {
        let own = self.declared(value)?;
        let number = |phys: Phys| phys.is_integer() || phys.is_float();
        let check = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what} of type {own}")) };
        match *op {
            Op::Bool(_) => self.result(value, Phys::Bool),
            Op::Int(n) => {
                check(own.is_integer(), "an integer constant")?;
                let bits = own.size() as u32 * 8;
                check(n >> (bits - 1) == 0 || n >> (bits - 1) == -1, "a constant too wide for a value")
            }
            Op::Float(_) => check(own.is_float(), "a float constant"),
            Op::Str(i) => {
                if i as usize >= self.program.strings.len() {
                    return Err(format!("there is no string {i}"));
                }
                self.result(value, Phys::Str)
            }
            Op::Load(i) => self.result(value, self.input(i)?.0),
            Op::IsValid(i) => {
                self.input(i)?;
                self.result(value, Phys::Bool)
            }
            Op::LoadView(i) => {
                if self.input(i)?.0 != Phys::Str {
                    return Err(format!("input {i} has no views"));
                }
                self.result(value, Phys::I128)
            }
            Op::Watermark => self.result(value, Phys::I64),
            Op::Add(a, b) | Op::Sub(a, b) | Op::Mul(a, b) | Op::Div(a, b) | Op::Rem(a, b) => {
                check(number(own), "arithmetic")?;
                self.expect(a, own)?;
                self.expect(b, own)
            }
            Op::Neg(a) => {
                check(number(own), "negation")?;
                self.expect(a, own)
            }
            Op::Compare(comparison, a, b) => {
                let phys = self.used(a)?;
                self.expect(b, phys)?;
                if phys == Phys::Str && !matches!(comparison, Comparison::Eq | Comparison::Ne) {
                    return Err("strings are ordered by a call".into());
                }
                self.result(value, Phys::Bool)
            }
            Op::And(a, b) | Op::Or(a, b) => {
                self.expect(a, Phys::Bool)?;
                self.expect(b, Phys::Bool)?;
                self.result(value, Phys::Bool)
            }
            Op::Not(a) => {
                self.expect(a, Phys::Bool)?;
                self.result(value, Phys::Bool)
            }
            Op::Select(condition, a, b) => {
                self.expect(condition, Phys::Bool)?;
                self.expect(a, own)?;
                self.expect(b, own)
            }
            Op::Convert(a) => {
                let from = self.used(a)?;
                check(number(own), "a conversion to a value")?;
                if from == own || from == Phys::Str {
                    return Err(format!("conversion from {from} to {own}"));
                }
                Ok(())
            }
            Op::OutOfDecimal(a, digits) => {
                self.digits(a, digits)?;
                self.result(value, Phys::Bool)
            }
            Op::ScaleUp(a, digits) | Op::ScaleDown(a, digits) => {
                self.digits(a, digits)?;
                self.result(value, Phys::I128)
            }
            Op::SliceStart { time, size_ms, offset_ms } => {
                self.expect(time, Phys::I64)?;
                if size_ms <= 0 || !(0..size_ms).contains(&offset_ms) {
                    return Err(format!("slices of {size_ms} ms shifted by {offset_ms} ms"));
                }
                self.result(value, Phys::I64)
            }
        }
    }

    fn digits(&self, value: Value, digits: u8) -> Result<(), String> {
        self.expect(value, Phys::I128)?;
        if (1..=38).contains(&digits) { Ok(()) } else { Err(format!("{digits} decimal digits")) }
    }

    fn emit(&self, column: &Emit) -> Result<(), String> {
        self.used(column.value).map_err(|e| format!("emit {}: {e}", column.name))?;
        column.valid.map_or(Ok(()), |valid| self.expect(valid, Phys::Bool))
    }

    fn update(&self, update: &Update) -> Result<(), String> {
        let layout = &update.layout;
        if layout.keys.len() > EntryLayout::MAX_KEYS || layout.keys.len() != update.keys.len() {
            return Err(format!("{} keys for a layout of {}", update.keys.len(), layout.keys.len()));
        }
        if layout.accumulators.len() != update.components.len() {
            return Err(format!("{} components for a layout of {}", update.components.len(), layout.accumulators.len()));
        }
        if let Some(slice) = update.slice {
            self.expect(slice, Phys::I64)?;
        }
        for (slot, (value, valid)) in layout.keys.iter().zip(&update.keys) {
            self.expect(*value, slot.phys)?;
            if let Some(valid) = valid {
                self.expect(*valid, Phys::Bool)?;
                if !slot.nullable {
                    return Err(format!("key {value} can be NULL, its slot cannot"));
                }
            }
        }
        for ((accumulator, _), component) in layout.accumulators.iter().zip(&update.components) {
            match (accumulator.argument(), component.argument) {
                (Some(phys), Some(argument)) => self.expect(argument, phys)?,
                (None, None) => {}
                _ => return Err(format!("argument of {accumulator:?}")),
            }
            if let Some(guard) = component.guard {
                self.expect(guard, Phys::Bool)?;
            }
        }
        Ok(())
    }
}
