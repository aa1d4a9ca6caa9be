//! Checks that a row program is well formed, so that both back ends can rely on it.
//!
//! Checked: every value is defined once, before its uses and in scope where it is used; operands and results have the
//! types that each operation, call, branch and terminal asks for; filters stand at the top level only; indices of
//! inputs, strings and sites are in range; inputs in records are fields of them; a table update fits its layout. Called after lowering, and by both back ends
//! in debug builds.

use crate::program::{
    Access, Call, Comparison, Emit, InRecord, Layout, Op, Program, Statement, Terminal, Update, Value,
};
use millstream_abi::{Accumulator, Counters, EntryLayout, ObjectKind, Phys};
use std::collections::HashSet;

/// Checks a program; the error says what is wrong and where.
pub fn verify(program: &Program) -> Result<(), String> {
    let mut verifier =
        Verifier { program, visible: Vec::new(), in_scope: vec![false; program.types.len()], defined: HashSet::new() };
    verifier.inputs()?;
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
    /// Fields lie within their records, which have one length, and have the size of their types.
    fn inputs(&self) -> Result<(), String> {
        let mut lengths = HashSet::new();
        for input in &self.program.inputs {
            let Layout::Record(InRecord { length, offset, width, .. }) = input.layout else { continue };
            lengths.insert(length);
            let fits = match input.phys {
                Phys::Str => width > 0,
                Phys::Bool => width == 1,
                phys => width == phys.size(),
            };
            if !fits || input.nullable || offset + width > length || lengths.len() > 1 {
                return Err(format!("input {} is no field of the records", input.name));
            }
        }
        Ok(())
    }

    fn block(&mut self, statements: &[Statement], top: bool) -> Result<(), String> {
        statements.iter().try_for_each(|s| self.statement(s, top))
    }

    fn statement(&mut self, statement: &Statement, top: bool) -> Result<(), String> {
        match statement {
            Statement::Let(value, op) => {
                self.op(*value, op).map_err(|e| format!("{value}: {e}"))?;
                self.define(*value)
            }
            Statement::Call(Call { result, valid, function, arguments, site }) => {
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
                if self.input(i)?.0 != Phys::Str || self.program.inputs[i as usize].layout != Layout::Array {
                    return Err(format!("input {i} has no views"));
                }
                self.result(value, Phys::I128)
            }
            Op::LoadBytes(i, count) => {
                let (phys, _) = self.input(i)?;
                match self.program.inputs[i as usize].layout {
                    Layout::Record(place)
                        if phys == Phys::Str && (1..=place.width.min(16)).contains(&(count as usize)) => {}
                    _ => return Err(format!("input {i} has no {count} bytes in a record")),
                }
                self.result(value, Phys::I128)
            }
            Op::Watermark => self.result(value, Phys::I64),
            Op::Add(a, b) | Op::Sub(a, b) | Op::Mul(a, b) | Op::Div(a, b) | Op::Rem(a, b) => {
                check(number(own), "arithmetic")?;
                self.gives(value, own, &[(a, own), (b, own)])
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
            Op::And(a, b) | Op::Or(a, b) => self.gives(value, Phys::Bool, &[(a, Phys::Bool), (b, Phys::Bool)]),
            Op::Not(a) => self.gives(value, Phys::Bool, &[(a, Phys::Bool)]),
            Op::Select(condition, a, b) => self.gives(value, own, &[(condition, Phys::Bool), (a, own), (b, own)]),
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
            Op::HashFold(hash, key) => {
                self.expect(hash, Phys::I64)?;
                self.used(key)?;
                self.result(value, Phys::I64)
            }
            Op::HashFinish(hash) => self.gives(value, Phys::I64, &[(hash, Phys::I64)]),
        }
    }

    /// Whether the operands of an operation have these types, and its result has its own.
    fn gives(&self, value: Value, phys: Phys, operands: &[(Value, Phys)]) -> Result<(), String> {
        operands.iter().try_for_each(|&(operand, phys)| self.expect(operand, phys))?;
        self.result(value, phys)
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
            return Err(format!(
                "{} components for a layout of {}",
                update.components.len(),
                layout.accumulators.len()
            ));
        }
        if update.access == Access::Shared && !layout.allows_sharing() {
            return Err("a shared table of entries that cannot be shared".into());
        }
        if let Some(slice) = update.slice {
            self.expect(slice, Phys::I64)?;
        }
        let is_count = |number: usize| layout.accumulators.get(number).is_some_and(|(a, _)| *a == Accumulator::Count);
        let counts = |number: usize| is_count(number) && update.components[number].guard.is_none();
        let numbers = || layout.counters.numbers();
        if layout.counters != Counters::None && !(numbers().any(counts) && numbers().all(is_count)) {
            return Err(format!("not every row is counted by {:?}", layout.counters));
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
                if *accumulator == Accumulator::Group {
                    return Err("a group that not every row has".into());
                }
            }
            if let Some(valid) = component.valid {
                self.expect(valid, Phys::Bool)?;
                if !matches!(accumulator, Accumulator::Object(ObjectKind::List { keeps_nulls: true }, _)) {
                    return Err(format!("{accumulator:?} is updated with NULL"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Component, FilterShape, Input, Site};
    use millstream_abi::{ErrorKind, RuntimeFn};

    /// A program of two inputs, `(a: i64, s: str)`, that emits nothing.
    fn program(types: &[Phys], body: Vec<Statement>) -> Program {
        let input = |name: &str, phys| Input::array(name, phys, true);
        Program {
            name: "test".into(),
            inputs: vec![input("a", Phys::I64), input("s", Phys::Str)],
            types: types.to_vec(),
            strings: vec![],
            sites: vec![Site { what: "x".into(), line: 0, column: 0, length: 0 }],
            body,
            terminal: Terminal::Emit(vec![]),
        }
    }

    fn assign(value: u32, op: Op) -> Statement {
        Statement::Let(Value(value), op)
    }

    #[track_caller]
    fn rejected(program: &Program, why: &str) {
        let error = verify(program).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn accepts_a_branch_with_results() {
        let then = vec![assign(2, Op::Int(1))];
        let otherwise = vec![assign(3, Op::Load(0))];
        let results = vec![(Value(4), Value(2), Value(3))];
        let body = vec![
            assign(0, Op::IsValid(0)),
            assign(1, Op::Not(Value(0))),
            Statement::If { condition: Value(1), then, otherwise, results },
            assign(5, Op::Neg(Value(4))),
        ];
        let types = [Phys::Bool, Phys::Bool, Phys::I64, Phys::I64, Phys::I64, Phys::I64];
        assert_eq!(verify(&program(&types, body)), Ok(()));
    }

    #[test]
    fn values_are_defined_once_before_their_uses_and_in_scope() {
        let bools = [Phys::Bool, Phys::Bool];
        rejected(&program(&bools, vec![assign(0, Op::Not(Value(1))), assign(1, Op::Bool(true))]), "v1 is used where");
        rejected(&program(&bools, vec![assign(0, Op::Bool(true)), assign(0, Op::Bool(true))]), "defined twice");
        rejected(&program(&bools, vec![assign(7, Op::Bool(true))]), "v7 has no type");
        let then = vec![assign(1, Op::Bool(true))];
        let body = vec![
            assign(0, Op::Bool(true)),
            Statement::If { condition: Value(0), then, otherwise: vec![], results: vec![] },
            Statement::Filter { condition: Value(1), counts_late: false, shape: FilterShape::Auto },
        ];
        rejected(&program(&bools, body), "v1 is used where");
    }

    #[test]
    fn types_fit() {
        let load = assign(0, Op::Load(0));
        rejected(&program(&[Phys::I32], vec![load.clone()]), "declared i32 but is i64");
        rejected(
            &program(&[Phys::I64, Phys::Bool], vec![load.clone(), assign(1, Op::Not(Value(0)))]),
            "v0 is i64 where bool",
        );
        rejected(&program(&[Phys::I8], vec![assign(0, Op::Int(128))]), "too wide");
        rejected(
            &program(&[Phys::I64, Phys::I64], vec![load, assign(1, Op::Convert(Value(0)))]),
            "conversion from i64 to i64",
        );
        let less = Op::Compare(Comparison::Lt, Value(0), Value(0));
        rejected(
            &program(&[Phys::Str, Phys::Bool], vec![assign(0, Op::Load(1)), assign(1, less)]),
            "ordered by a call",
        );
        let (result, valid, function) = (Value(1), Value(2), RuntimeFn::CharLength);
        let call = |arguments, site| Statement::Call(Call { result, valid, function, arguments, site });
        let types = [Phys::Str, Phys::I32, Phys::Bool];
        let with = |call| program(&types, vec![assign(0, Op::Load(1)), call]);
        assert_eq!(verify(&with(call(vec![Value(0)], 0))), Ok(()));
        rejected(&with(call(vec![], 0)), "0 arguments");
        rejected(&with(call(vec![Value(0)], 1)), "no site 1");
    }

    #[test]
    fn indices_are_in_range_and_filters_at_the_top() {
        rejected(&program(&[Phys::I64], vec![assign(0, Op::Load(2))]), "no input 2");
        rejected(&program(&[Phys::I128], vec![assign(0, Op::LoadView(0))]), "no views");
        rejected(&program(&[Phys::Str], vec![assign(0, Op::Str(0))]), "no string 0");
        let trap = Statement::Trap { condition: Value(0), kind: ErrorKind::Overflow, site: 3 };
        rejected(&program(&[Phys::Bool], vec![assign(0, Op::Bool(true)), trap]), "no site 3");
        let filter = Statement::Filter { condition: Value(0), counts_late: false, shape: FilterShape::Auto };
        let branch = Statement::If { condition: Value(0), then: vec![filter], otherwise: vec![], results: vec![] };
        rejected(&program(&[Phys::Bool], vec![assign(0, Op::Bool(true)), branch]), "filter within");
    }

    #[test]
    fn updates_fit_their_layout() {
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::SumI64]);
        let access = Access::Own;
        let with = |keys, components| {
            let mut p = program(&[Phys::I64, Phys::Bool], vec![assign(0, Op::Load(0)), assign(1, Op::IsValid(0))]);
            p.terminal = Terminal::Update(Update { access, layout: layout.clone(), slice: None, keys, components });
            p
        };
        let sum = |argument| vec![Component { argument, valid: None, guard: Some(Value(1)) }];
        assert_eq!(verify(&with(vec![(Value(0), None)], sum(Some(Value(0))))), Ok(()));
        rejected(&with(vec![], sum(Some(Value(0)))), "0 keys");
        rejected(&with(vec![(Value(0), Some(Value(1)))], sum(Some(Value(0)))), "its slot cannot");
        rejected(&with(vec![(Value(0), None)], sum(None)), "argument of SumI64");
        rejected(&with(vec![(Value(0), None)], sum(Some(Value(1)))), "v1 is bool where i64");
        rejected(&with(vec![(Value(0), None)], vec![]), "0 components");
    }

    #[test]
    fn only_what_can_be_shared_is_shared() {
        let with = |accumulator: Accumulator, access| {
            let layout = EntryLayout::new(&[(Phys::I64, false)], &[accumulator]);
            let argument = accumulator.argument().map(|_| Value(0));
            let components = vec![Component { argument, valid: None, guard: None }];
            let input = (accumulator.argument() == Some(Phys::Str)) as u32;
            let mut p = program(&[accumulator.argument().unwrap_or(Phys::I64)], vec![assign(0, Op::Load(input))]);
            let keys = vec![(Value(1), None)];
            p.types.push(Phys::I64);
            p.body.push(assign(1, Op::Int(7)));
            p.terminal = Terminal::Update(Update { access, layout, slice: None, keys, components });
            p
        };
        let sum = with(Accumulator::SumI64, Access::Own).shared().expect("sums can be shared");
        assert_eq!((sum.clone(), verify(&sum)), (with(Accumulator::SumI64, Access::Shared), Ok(())));
        assert_eq!(with(Accumulator::MaxStr, Access::Own).shared(), None);
        rejected(&with(Accumulator::MaxStr, Access::Shared), "cannot be shared");
    }
}
