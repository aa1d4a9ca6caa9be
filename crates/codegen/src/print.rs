//! The text form of row programs: deterministic, one statement a line, for EXPLAIN CODEGEN and golden tests.
//!
//! Sites are left out; a trap shows its kind.

use crate::program::{
    Access, Call, Comparison, Component, FilterShape, InRecord, Layout, Op, Program, Statement, Terminal, Update, Value,
};
use millstream_abi::{Accumulator, ObjectKind, Phys};
use std::fmt;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {:?} (", self.name)?;
        for (i, input) in self.inputs.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let mark = if input.nullable { "?" } else { "" };
            write!(f, "{comma}{}: {}{mark}", input.name, input.phys)?;
            if let Layout::Record(InRecord { length, offset, width, .. }) = input.layout {
                write!(f, " at {offset}..{} of {length}", offset + width)?;
            }
        }
        f.write_str(")\n")?;
        self.block(f, &self.body, 1)?;
        match &self.terminal {
            Terminal::Emit(columns) if columns.is_empty() => f.write_str("  emit\n"),
            Terminal::Emit(columns) => {
                for column in columns {
                    writeln!(f, "  emit {} = {}{}", column.name, column.value, optional(" if ", column.valid))?;
                }
                Ok(())
            }
            Terminal::Update(update) => print_update(f, update),
        }
    }
}

impl Program {
    fn block(&self, f: &mut fmt::Formatter<'_>, statements: &[Statement], depth: usize) -> fmt::Result {
        for statement in statements {
            self.statement(f, statement, depth)?;
        }
        Ok(())
    }

    fn statement(&self, f: &mut fmt::Formatter<'_>, statement: &Statement, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        match statement {
            Statement::Let(value, op) => {
                write!(f, "{indent}{value} = ")?;
                self.op(f, self.type_of(*value), op)?;
                f.write_str("\n")
            }
            Statement::Call(Call { result, valid, function, arguments, .. }) => {
                write!(f, "{indent}{result}, {valid} = call {}", function.name())?;
                arguments.iter().try_for_each(|a| write!(f, " {a}"))?;
                f.write_str("\n")
            }
            Statement::If { condition, then, otherwise, results } => {
                let list = |pick: fn(&(Value, Value, Value)) -> Value| {
                    results.iter().map(|r| pick(r).to_string()).collect::<Vec<_>>().join(", ")
                };
                let defines = if results.is_empty() { String::new() } else { format!("{} = ", list(|r| r.0)) };
                writeln!(f, "{indent}{defines}if {condition}")?;
                self.block(f, then, depth + 1)?;
                self.give(f, depth + 1, &list(|r| r.1))?;
                writeln!(f, "{indent}else")?;
                self.block(f, otherwise, depth + 1)?;
                self.give(f, depth + 1, &list(|r| r.2))
            }
            Statement::Trap { condition, kind, .. } => writeln!(f, "{indent}trap {condition} {}", variant(kind)),
            Statement::Filter { condition, counts_late, shape } => {
                let late = if *counts_late { " late" } else { "" };
                write!(f, "{indent}filter {condition}{late}")?;
                if *shape != FilterShape::Auto {
                    write!(f, " by {shape}")?;
                }
                f.write_str("\n")
            }
        }
    }

    /// The values that a branch gives.
    fn give(&self, f: &mut fmt::Formatter<'_>, depth: usize, values: &str) -> fmt::Result {
        if values.is_empty() { Ok(()) } else { writeln!(f, "{}give {values}", "  ".repeat(depth)) }
    }

    fn op(&self, f: &mut fmt::Formatter<'_>, phys: Phys, op: &Op) -> fmt::Result {
        match op {
            Op::Bool(b) => write!(f, "const bool {b}"),
            Op::Int(n) => write!(f, "const {phys} {n}"),
            Op::Float(bits) if phys == Phys::F32 => write!(f, "const f32 {:?}", f64::from_bits(*bits) as f32),
            Op::Float(bits) => write!(f, "const {phys} {:?}", f64::from_bits(*bits)),
            Op::Str(i) => {
                let bytes = self.strings.get(*i as usize).map_or(&[] as &[u8], |s| s);
                write!(f, "const str \"{}\"", bytes.escape_ascii())
            }
            Op::Load(i) => write!(f, "load {i}"),
            Op::IsValid(i) => write!(f, "valid {i}"),
            Op::LoadView(i) => write!(f, "view {i}"),
            Op::LoadBytes(i, count) => write!(f, "bytes {i} {count}"),
            Op::Compare(comparison, a, b) => write!(f, "{comparison} {a} {b}"),
            Op::Convert(a) => write!(f, "convert {phys} {a}"),
            Op::SliceStart { time, size_ms, offset_ms } => {
                write!(f, "slice_start {time} size {size_ms}")?;
                if *offset_ms == 0 { Ok(()) } else { write!(f, " offset {offset_ms}") }
            }
            Op::OutOfDecimal(a, digits) | Op::ScaleUp(a, digits) | Op::ScaleDown(a, digits) => {
                write!(f, "{} {a} {digits}", variant(op))
            }
            plain => {
                f.write_str(&variant(plain))?;
                let mut operands = Vec::new();
                plain.clone().visit_operands(|operand| operands.push(*operand));
                operands.iter().try_for_each(|operand| write!(f, " {operand}"))
            }
        }
    }
}

fn print_update(f: &mut fmt::Formatter<'_>, update: &Update) -> fmt::Result {
    f.write_str(match update.access {
        Access::Own => "  update",
        Access::Shared => "  update shared",
    })?;
    f.write_str(&optional(" slice ", update.slice))?;
    f.write_str("\n")?;
    for (value, valid) in &update.keys {
        writeln!(f, "    key {value}{}", optional(" if ", *valid))?;
    }
    for ((accumulator, _), component) in update.layout.accumulators.iter().zip(&update.components) {
        let Component { argument, valid, guard } = *component;
        let (argument, valid) = (optional(" ", argument), optional(" valid ", valid));
        writeln!(f, "    {}{argument}{valid}{}", accumulator_name(*accumulator), optional(" if ", guard))?;
    }
    Ok(())
}

/// A value that need not be there, behind a word.
fn optional(word: &str, value: Option<Value>) -> String {
    value.map_or_else(String::new, |value| format!("{word}{value}"))
}

/// Name of an accumulator in printed programs.
fn accumulator_name(accumulator: Accumulator) -> String {
    match accumulator {
        Accumulator::Object(ObjectKind::List { keeps_nulls: true }, phys) => format!("list_with_nulls {phys}"),
        Accumulator::Object(kind, phys) => format!("{} {phys}", variant(&kind)),
        plain => variant(&plain),
    }
}

/// The name of a variant, without what it holds: `SumI64` as `sum_i64`.
fn variant(of: &impl fmt::Debug) -> String {
    let mut text = String::new();
    for c in format!("{of:?}").chars().take_while(|c| c.is_alphanumeric()) {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

impl fmt::Display for FilterShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterShape::Auto => f.write_str("default"),
            shape => f.write_str(&variant(shape)),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&variant(self))
    }
}
