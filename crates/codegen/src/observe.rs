//! What of a program is looked at when its pipeline is observed: the conditions of its filters, its key, its event time.
//!
//! Each becomes a separate program that emits a value for every row, whatever filters come before it: so it is known
//! what a filter would let through in another place, and what two of them have in common. Only what cannot fail is
//! observed, since it is computed for rows that the pipeline drops.

use crate::lower::Lowered;
use crate::program::{Emit, Op, Program, Statement, Terminal, Value};
use crate::rewrite;
use crate::specialise::{Needs, filter_count, filters, is_total};
use millstream_abi::{HASH_SEED, Phys};
use millstream_types::DataType;
use std::collections::BTreeSet;

/// Programs with more filters are not observed: each filter takes a separate program.
const MOST_FILTERS: usize = 100;

/// See the module. Every program emits one row for each row of its input.
#[derive(Debug)]
pub struct Observed {
    /// One for each filter that [`crate::specialise::filter_count`] counts, if it can be observed: its condition as BOOLEAN.
    pub filters: Vec<Option<Lowered>>,
    /// Of a program that updates tables: the hash of its keys as BIGINT, and, when there is one integer key, the key as
    /// BIGINT, NULL as it is.
    pub key: Option<Lowered>,
    /// The event time that slices are made of, in milliseconds, as BIGINT.
    pub time: Option<Lowered>,
    /// Length of a slice in milliseconds.
    pub slice_ms: i64,
}

/// What can be observed of a program.
pub fn observed(lowered: &Lowered) -> Observed {
    let program = &lowered.program;
    let is_observed = filter_count(program) <= MOST_FILTERS;
    let observe = |value, data_type| emitting(lowered, program.clone(), vec![(value, None)], data_type);
    let filters =
        filters(program).map(|(_, condition)| is_observed.then(|| observe(condition, DataType::Boolean)).flatten());
    let slice = program.body.iter().find_map(|statement| match statement {
        Statement::Let(_, Op::SliceStart { time, size_ms, .. }) => Some((*time, *size_ms)),
        _ => None,
    });
    Observed {
        filters: filters.collect(),
        key: key(lowered),
        time: slice.and_then(|(time, _)| observe(time, DataType::BigInt)),
        slice_ms: slice.map_or(0, |(_, size)| size),
    }
}

fn key(lowered: &Lowered) -> Option<Lowered> {
    let Terminal::Update(update) = &lowered.program.terminal else { return None };
    let mut program = lowered.program.clone();
    let mut hash = program.define(Op::Int(HASH_SEED as i64 as i128), Phys::I64);
    for &(key, _) in &update.keys {
        hash = program.define(Op::HashFold(hash, key), Phys::I64);
    }
    let mut emitted = vec![(program.define(Op::HashFinish(hash), Phys::I64), None)];
    if let (Some(slot), [(key, valid)]) = (update.layout.dense_key(), &update.keys[..]) {
        let key = match slot.phys {
            Phys::I64 => *key,
            _ => program.define(Op::Convert(*key), Phys::I64),
        };
        emitted.push((key, *valid));
    }
    emitting(lowered, program, emitted, DataType::BigInt)
}

/// The program that emits values, all of a type, of another with which `program` begins; `None` when what they need can fail.
fn emitting(
    lowered: &Lowered,
    mut program: Program,
    values: Vec<(Value, Option<Value>)>,
    data_type: DataType,
) -> Option<Lowered> {
    let needs = Needs::new(&program);
    let wanted = values.iter().flat_map(|&(value, valid)| [Some(value), valid]).flatten();
    let needed: BTreeSet<usize> = wanted.flat_map(|v| needs.of_value(v)).collect();
    if !needed.iter().all(|&index| is_total(&program.body[index])) {
        return None;
    }
    program.body = needed.into_iter().map(|index| program.body[index].clone()).collect();
    let types = vec![data_type; values.len()];
    let emits = values.into_iter().map(|(value, valid)| Emit { name: "observed".into(), value, valid });
    program.terminal = Terminal::Emit(emits.collect());
    rewrite::finish(&mut program);
    // What vectorised functions compute is not worth computing to look at it.
    without_vectors(lowered, program, types)
}

/// Programs that end behind the filters of another one: the first before any filter, each of the others one filter later. They
/// emit rows without columns, so the extra time of each over the one before is the cost of its last filter. `None` if a
/// condition needs what vectorised functions compute, or there are too many.
pub fn prefixes(lowered: &Lowered) -> Option<Vec<Lowered>> {
    let program = &lowered.program;
    if filter_count(program) > MOST_FILTERS {
        return None;
    }
    let filters = filters(program).map(|(index, _)| index + 1);
    let prefix = |(number, length): (usize, usize)| {
        let mut program = program.clone();
        program.name = format!("{}, {number} filters", program.name);
        program.body.truncate(length);
        program.terminal = Terminal::Emit(Vec::new());
        rewrite::finish(&mut program);
        without_vectors(lowered, program, Vec::new())
    };
    std::iter::once(0).chain(filters).enumerate().map(prefix).collect()
}

/// A program over the inputs of another that are not vectors, which emits columns of these types; `None` if it needs
/// others.
fn without_vectors(lowered: &Lowered, mut program: Program, output_types: Vec<DataType>) -> Option<Lowered> {
    let inputs = lowered.program.inputs.len() - 2 * lowered.vectors.len();
    let reads_vectors = program.ops().any(|(_, op)| op.input().is_some_and(|input| input as usize >= inputs));
    (!reads_vectors).then(|| {
        program.inputs.truncate(inputs);
        Lowered::plain(program, output_types)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::Interpreter;
    use crate::testing::Case;
    use crate::verify::verify;
    use std::sync::Arc;

    #[test]
    fn prefixes_pass_ever_fewer_rows() {
        let mut dropped = 0;
        for seed in 0..300 {
            let case = Case::random(seed);
            let Some(prefixes) = prefixes(&case.lowered) else { continue };
            assert_eq!(prefixes.len(), filter_count(&case.lowered.program) + 1, "seed {seed}");
            let mut rows = case.rows;
            for lowered in prefixes {
                assert_eq!(verify(&lowered.program), Ok(()), "seed {seed}\n{}", lowered.program);
                let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
                let outcome = Case { lowered, ..Case::random(seed) }.run(&kernel);
                assert!(outcome.selection.len() <= rows, "seed {seed}");
                dropped += rows - outcome.selection.len();
                rows = outcome.selection.len();
            }
        }
        assert!(dropped > 1000, "{dropped} rows were dropped");
    }

    #[test]
    fn every_row_is_observed() {
        let (mut filters, mut keys, mut times) = (0, 0, 0);
        for seed in 0..600 {
            let case = Case::random(seed);
            let observed = observed(&case.lowered);
            assert_eq!(observed.filters.len(), filter_count(&case.lowered.program), "seed {seed}");
            filters += observed.filters.iter().flatten().count();
            keys += usize::from(observed.key.is_some());
            times += usize::from(observed.time.is_some());
            for lowered in observed.filters.into_iter().flatten().chain(observed.key).chain(observed.time) {
                assert_eq!(verify(&lowered.program), Ok(()), "seed {seed}\n{}", lowered.program);
                let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
                let rows = case.rows;
                let columns = lowered.outputs.len();
                let outcome = Case { lowered, ..Case::random(seed) }.run(&kernel);
                assert_eq!(outcome.selection.len(), rows, "seed {seed}");
                assert_eq!((outcome.columns.len(), outcome.errors.len()), (columns, 0), "seed {seed}");
            }
        }
        assert!(filters > 50 && keys > 50 && times > 20, "{filters} filters, {keys} keys, {times} times");
    }
}
