//! Upfront partitioning (design section 7): a program that updates tables, cut in two where the row meets the table.
//!
//! ```text
//!             scatter                        rows by partition           fold
//! buffer ──► body of the program ──► emit ──────────────────────► load, update the table of the partition
//!                                    table number, keys, arguments, guards, hash of the key
//! ```
//!
//! The first half does everything that can fail, drop a row or ask for the watermark; the second one only loads what it
//! was given. Values that both halves need and that are constants are repeated instead of being sent.

use crate::lower::Lowered;
use crate::program::{Component, Emit, Input, Op, Program, Statement, Terminal, Update, Value};
use crate::programs::Partitioned;
use crate::{rewrite, verify};
use millstream_abi::{Accumulator, EntryLayout, HASH_SEED, Phys};
use millstream_types::{DataType, Diagnostic};
use std::collections::HashMap;

/// Cuts a program in two. `None` if its rows cannot be partitioned: it updates no table, there is no key, or a component
/// wants to know the place of a row in the input, which does not travel with it.
pub fn partition(lowered: &Lowered) -> Result<Option<Partitioned<Lowered>>, Diagnostic> {
    match &lowered.program.terminal {
        Terminal::Update(update) if can_partition(&update.layout) => halves(lowered, update).map(Some),
        _ => Ok(None),
    }
}

/// Whether rows for entries of this layout can be partitioned.
pub fn can_partition(layout: &EntryLayout) -> bool {
    let is_bound = |a: Accumulator| a.keeps_places() || a == Accumulator::Group;
    !layout.keys.is_empty() && !layout.accumulators.iter().any(|&(accumulator, _)| is_bound(accumulator))
}

fn halves(lowered: &Lowered, update: &Update) -> Result<Partitioned<Lowered>, Diagnostic> {
    let from = &lowered.program;
    let fold = Program {
        name: format!("{} fold", from.name),
        inputs: Vec::new(),
        types: Vec::new(),
        strings: from.strings.clone(),
        sites: Vec::new(),
        body: Vec::new(),
        terminal: Terminal::Emit(Vec::new()),
    };
    let scatter = Program { name: format!("{} scatter", from.name), ..from.clone() };
    let mut cut = Cut { scatter, emits: Vec::new(), fold, carried: HashMap::new() };
    let hash = cut.hash(&update.keys);
    let slice = update.slice.map(|slice| cut.carry(slice, None).0);
    let keys = update.keys.iter().map(|&(value, valid)| cut.carry(value, valid)).collect();
    let components = update.components.iter().map(|c| cut.component(c)).collect();
    let Cut { mut scatter, mut emits, mut fold, .. } = cut;
    fold.terminal = Terminal::Update(Update { slice, keys, components, ..update.clone() });
    emits.push(Emit { name: "hash".into(), value: hash, valid: None });
    let output_types = emits.iter().map(|e| type_of(scatter.type_of(e.value))).collect();
    scatter.terminal = Terminal::Emit(emits);
    let scatter = Lowered { vectors: lowered.vectors.clone(), ..Lowered::plain(finished(scatter)?, output_types) };
    Ok(Partitioned { scatter, fold: Lowered::plain(finished(fold)?, vec![]) })
}

/// Both halves while the values that pass from one to the other are found.
struct Cut {
    /// The whole body, and what the first half computes after it.
    scatter: Program,
    emits: Vec<Emit>,
    fold: Program,
    /// For each value and validity of the first half, those of the second.
    carried: HashMap<(Value, Option<Value>), (Value, Option<Value>)>,
}

impl Cut {
    fn component(&mut self, component: &Component) -> Component {
        let Component { argument, valid, guard } = *component;
        let (argument, valid) = match argument {
            Some(argument) => {
                let (argument, valid) = self.carry(argument, valid);
                (Some(argument), valid)
            }
            None => (None, valid.map(|v| self.carry(v, None).0)),
        };
        Component { argument, valid, guard: guard.map(|g| self.carry(g, None).0) }
    }

    /// A value of the first half in the second, with its validity.
    fn carry(&mut self, value: Value, valid: Option<Value>) -> (Value, Option<Value>) {
        if let Some(carried) = self.carried.get(&(value, valid)) {
            return *carried;
        }
        let phys = self.scatter.type_of(value);
        let carried = match self.constant(value).filter(|_| valid.is_none()) {
            Some(constant) => (self.fold.define(constant, phys), None),
            None => {
                let (column, name) = (self.emits.len() as u32, format!("{value}"));
                self.fold.inputs.push(Input::array(name.clone(), phys, valid.is_some()));
                self.emits.push(Emit { name, value, valid });
                let loaded = self.fold.define(Op::Load(column), phys);
                (loaded, valid.map(|_| self.fold.define(Op::IsValid(column), Phys::Bool)))
            }
        };
        self.carried.insert((value, valid), carried);
        carried
    }

    /// The operation that gives a value that is the same in every row.
    fn constant(&self, value: Value) -> Option<Op> {
        let mut constants = self.scatter.body.iter().filter_map(Statement::op).filter(|(_, op)| op.is_constant());
        constants.find(|(defined, _)| *defined == value).map(|(_, op)| op.clone())
    }

    /// The hash of a key as an update computes it.
    fn hash(&mut self, keys: &[(Value, Option<Value>)]) -> Value {
        let seed = self.append(Op::Int((HASH_SEED as i64).into()));
        let mut hash = seed;
        for &(value, valid) in keys {
            let folded = self.append(Op::HashFold(hash, value));
            hash = match valid {
                None => folded,
                Some(valid) => {
                    let null = self.append(Op::HashFold(hash, seed));
                    self.append(Op::Select(valid, folded, null))
                }
            };
        }
        self.append(Op::HashFinish(hash))
    }

    /// A BIGINT that the first half computes.
    fn append(&mut self, op: Op) -> Value {
        self.scatter.define(op, Phys::I64)
    }
}

fn finished(mut program: Program) -> Result<Program, Diagnostic> {
    rewrite::finish(&mut program);
    let malformed = |e| Diagnostic::bug(format!("the row program {} is malformed: {e}", program.name));
    verify::verify(&program).map_err(malformed)?;
    Ok(program)
}

/// A type whose columns hold values of `phys`.
fn type_of(phys: Phys) -> DataType {
    match phys {
        Phys::Bool => DataType::Boolean,
        Phys::I8 => DataType::TinyInt,
        Phys::I16 => DataType::SmallInt,
        Phys::I32 => DataType::Int,
        Phys::I64 => DataType::BigInt,
        Phys::I128 => DataType::decimal(38, 0),
        Phys::F32 => DataType::Float,
        Phys::F64 => DataType::Double,
        Phys::Str => DataType::BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Flow, emit, update};
    use crate::interpreter::Interpreter;
    use crate::testing::{Case, MemoryTables};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use millstream_functions::FunctionContext;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// The entries that the two halves make, late rows and bad rows.
    fn run(case: &Case, halves: &Partitioned<Lowered>) -> (Vec<String>, u64, usize) {
        let kernel = |lowered: &Lowered| Interpreter::new(Arc::new(lowered.program.clone()));
        let mut functions = FunctionContext::default();
        let mut errors = 0;
        let mut count = |_| {
            errors += 1;
            Flow::Skip
        };
        let (columns, rows, watermarks) = (&case.columns, case.rows, &case.watermarks);
        let scatter = (&halves.scatter, kernel(&halves.scatter));
        let mut emitted = emit(scatter.0, &scatter.1, columns, rows, watermarks, &mut functions, &mut count).unwrap();
        let hashes = emitted.columns.pop().unwrap();
        let mut tables = MemoryTables::new(halves.fold.layout().unwrap().clone());
        let (columns, rows, hooks) = (&emitted.columns, emitted.rows, tables.hooks());
        let fold = kernel(&halves.fold);
        let mut fail = |e| panic!("the second half fails: {e:?}");
        let done =
            update(&halves.fold, &fold, (columns, None), rows, &[i64::MIN], hooks, &mut functions, &mut fail).unwrap();
        assert_eq!(done.late_rows, 0, "the first half drops late rows");
        let hashes = hashes.as_primitive::<Int64Type>().values();
        assert_eq!(hashes.iter().map(|&h| h as u64).collect::<BTreeSet<u64>>(), tables.hashes());
        (tables.entries(), emitted.late_rows, errors)
    }

    #[test]
    fn both_halves_do_what_the_whole_does() {
        let (mut partitioned, mut entries, mut late, mut bad) = (0, 0, 0, 0);
        for seed in 0..1200 {
            let case = Case::random(seed);
            let Some(halves) = partition(&case.lowered).unwrap() else { continue };
            let whole = case.run(&case.interpreter());
            let (found, late_rows, errors) = run(&case, &halves);
            let without_rows = |entries: &[String]| entries.iter().map(|e| of_objects(e)).collect::<Vec<_>>();
            assert_eq!(without_rows(&found), without_rows(&whole.entries), "seed {seed}\n{case}");
            assert_eq!((late_rows, errors), (whole.late_rows, whole.errors.len()), "seed {seed}\n{case}");
            partitioned += 1;
            entries += found.len();
            late += late_rows;
            bad += errors;
        }
        assert!(partitioned > 80 && entries > 1000, "{partitioned} cases, {entries} entries");
        assert!(late > 50 && bad > 200, "{late} late rows, {bad} bad rows");
    }

    /// An entry without the numbers of the rows that updated its objects.
    fn of_objects(entry: &str) -> String {
        let word = |word: &str| word.rsplit_once(':').map_or(word, |(_, value)| value).to_string();
        entry.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }
}
