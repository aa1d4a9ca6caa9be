//! What happens to rows: selection over blocks, bad rows, guards, late rows, tables; and what a pipeline is.

mod support;

use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream_abi::{Accumulator, EntryLayout, Phys, RuntimeFn};
use millstream_codegen::program::{
    Access, Call, Comparison, Component, FilterShape, Op, Program, Statement, Update, Value,
};
use millstream_jit::{CompileOptions, assembly, compile, generate, identity, llvm_ir, load};
use millstream_types::code;
use std::collections::BTreeSet;
use std::sync::Arc;
use support::{Sketch, run};

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// `x % modulus = rest`
fn remainder_is(sketch: &mut Sketch, x: Value, modulus: i128, rest: i128) -> Value {
    let modulus = sketch.op(Phys::I64, Op::Int(modulus));
    let remainder = sketch.op(Phys::I64, Op::Rem(x, modulus));
    let rest = sketch.op(Phys::I64, Op::Int(rest));
    sketch.op(Phys::Bool, Op::Compare(Comparison::Eq, remainder, rest))
}

fn call(sketch: &mut Sketch, function: RuntimeFn, arguments: &[Value]) -> (Value, Value) {
    let (result, valid) = (sketch.value(function.result()), sketch.value(Phys::Bool));
    sketch.push(Statement::Call(Call { result, valid, function, arguments: arguments.to_vec(), site: 0 }));
    (result, valid)
}

#[test]
fn survivors_of_all_blocks_are_emitted_in_order() {
    let mut sketch = Sketch::new(&[Phys::I64]);
    let x = sketch.load(0);
    let third = remainder_is(&mut sketch, x, 3, 0);
    sketch.filter(third);
    let fifth = remainder_is(&mut sketch, x, 5, 0);
    sketch.filter(fifth);
    let doubled = sketch.op(Phys::I64, Op::Add(x, x));
    let (outcome, _) = run(&sketch.emit(&[doubled]), &[numbers(0..5000)], &[0]);
    assert_eq!(outcome.selection, (0..5000).step_by(15).collect::<Vec<u32>>());
}

#[test]
fn a_bad_row_is_the_first_one_whatever_the_stage() {
    let mut sketch = Sketch::new(&[Phys::I64]);
    let x = sketch.load(0);
    let early = remainder_is(&mut sketch, x, 1000, 700);
    sketch.trap(early);
    let even = remainder_is(&mut sketch, x, 2, 0);
    sketch.filter(even);
    let late = remainder_is(&mut sketch, x, 500, 100);
    sketch.trap(late);
    let (outcome, _) = run(&sketch.emit(&[x]), &[numbers(0..3000)], &[0]);
    let bad: Vec<usize> = outcome.errors.iter().map(|e| e.0).collect();
    assert_eq!(bad, [100, 600, 700, 1100, 1600, 1700, 2100, 2600, 2700]);
    assert_eq!(outcome.errors[0].1, "number out of range in x");
    assert_eq!(
        outcome.selection,
        (0..3000).filter(|r| r % 2 == 0 && !bad.contains(&(*r as usize))).collect::<Vec<u32>>()
    );
}

#[test]
fn what_a_filter_drops_cannot_fail() {
    let mut sketch = Sketch::new(&[Phys::I64]);
    let x = sketch.load(0);
    let even = remainder_is(&mut sketch, x, 2, 0);
    sketch.filter(even);
    let odd = sketch.op(Phys::Bool, Op::Not(even));
    sketch.trap(odd);
    let (text, _) = call(&mut sketch, RuntimeFn::HexInteger, &[x]);
    let ten = remainder_is(&mut sketch, x, 10, 0);
    sketch.filter(ten);
    let (outcome, arrays) = run(&sketch.emit(&[text]), &[numbers(0..2100)], &[0]);
    assert!(outcome.errors.is_empty());
    assert_eq!(arrays[0].len(), 210);
    assert!(outcome.columns[0][209].contains("82A"), "{}", outcome.columns[0][209]);
}

#[test]
fn branches_are_lazy() {
    let mut sketch = Sketch::new(&[Phys::I64]);
    let x = sketch.load(0);
    let even = remainder_is(&mut sketch, x, 2, 0);
    let (then, otherwise, result) = (sketch.value(Phys::I64), sketch.value(Phys::I64), sketch.value(Phys::I64));
    sketch.push(Statement::If {
        condition: even,
        then: vec![Statement::Let(then, Op::Neg(x))],
        otherwise: vec![
            Statement::Trap { condition: even, kind: millstream_abi::ErrorKind::Overflow, site: 0 },
            Statement::Let(otherwise, Op::Int(7)),
        ],
        results: vec![(result, then, otherwise)],
    });
    let (outcome, arrays) = run(&sketch.emit(&[result]), &[numbers(0..6)], &[0]);
    assert!(outcome.errors.is_empty());
    let found = arrays[0].as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    assert_eq!(found, [0, 7, -2, 7, -4, 7]);
}

/// Late rows dropped, then rows whose key is a multiple of 100 fail, then an update per 10 ms and key.
fn windowed(keys: &[u32]) -> Program {
    let mut sketch = Sketch::new(&[Phys::I64, Phys::I64, Phys::Str]);
    let (time, x, name) = (sketch.load(0), sketch.load(1), sketch.load(2));
    let positive = sketch.op(Phys::I64, Op::Int(0));
    let positive = sketch.op(Phys::Bool, Op::Compare(Comparison::Ge, x, positive));
    sketch.filter(positive);
    let slice = sketch.op(Phys::I64, Op::SliceStart { time, size_ms: 10, offset_ms: 0 });
    let ten = sketch.op(Phys::I64, Op::Int(10));
    let end = sketch.op(Phys::I64, Op::Add(slice, ten));
    let watermark = sketch.op(Phys::I64, Op::Watermark);
    let on_time = sketch.op(Phys::Bool, Op::Compare(Comparison::Gt, end, watermark));
    sketch.push(Statement::Filter { condition: on_time, counts_late: true, shape: FilterShape::Auto });
    let bad = remainder_is(&mut sketch, x, 100, 50);
    sketch.trap(bad);
    let double = sketch.op(Phys::F64, Op::Convert(x));
    let wide = sketch.op(Phys::I128, Op::Convert(x));
    let guard = remainder_is(&mut sketch, x, 3, 1);
    let all = [(x, Phys::I64), (name, Phys::Str)];
    let keys: Vec<(Value, Phys)> = keys.iter().map(|&k| all[k as usize]).collect();
    use Accumulator::*;
    let components = [
        (Count, None, None),
        (Count, None, Some(guard)),
        (SumI64, Some(x), Some(guard)),
        (SumF64, Some(double), Some(guard)),
        (MinI128, Some(wide), None),
        (MaxF64, Some(double), None),
        (MaxStr, Some(name), None),
        (MinStr, Some(name), Some(guard)),
    ];
    let key_types: Vec<(Phys, bool)> = keys.iter().map(|k| (k.1, false)).collect();
    let accumulators: Vec<Accumulator> = components.iter().map(|c| c.0).collect();
    sketch.update(Update {
        access: Access::Own,
        layout: EntryLayout::new(&key_types, &accumulators),
        slice: Some(slice),
        keys: keys.iter().map(|k| (k.0, None)).collect(),
        components: components.iter().map(|&(_, argument, guard)| Component { argument, valid: None, guard }).collect(),
    })
}

fn events(rows: i64) -> (Vec<ArrayRef>, Vec<i64>) {
    let names = ["a", "view", "a name of more than twelve bytes", "another name that is long", ""];
    let columns: Vec<ArrayRef> = vec![
        numbers((0..rows).map(|r| r / 100 - r % 7)),
        numbers((0..rows).map(|r| r % 61 - 5)),
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|r| names[(r % 5) as usize]))),
    ];
    (columns, (0..rows).map(|r| r / 100 - 3).collect())
}

/// Counts and sums by key and slice of 10 ms, of the rows whose number is a multiple of `every`, and of those only that are on time where
/// lateness matters. Nothing in it can fail, so its rows may be taken slice by slice.
fn sliced(every: i128, drops_late: bool) -> Program {
    let mut sketch = Sketch::new(&[Phys::I64, Phys::I64]);
    let (time, x) = (sketch.load(0), sketch.load(1));
    if every > 1 {
        let chosen = remainder_is(&mut sketch, x, every, 0);
        sketch.filter(chosen);
    }
    let slice = sketch.op(Phys::I64, Op::SliceStart { time, size_ms: 10, offset_ms: 3 });
    if drops_late {
        let ten = sketch.op(Phys::I64, Op::Int(10));
        let end = sketch.op(Phys::I64, Op::Add(slice, ten));
        let watermark = sketch.op(Phys::I64, Op::Watermark);
        let on_time = sketch.op(Phys::Bool, Op::Compare(Comparison::Gt, end, watermark));
        sketch.push(Statement::Filter { condition: on_time, counts_late: true, shape: FilterShape::Auto });
    }
    let modulus = sketch.op(Phys::I64, Op::Int(5));
    let key = sketch.op(Phys::I64, Op::Rem(x, modulus));
    let components = [(Accumulator::Count, None), (Accumulator::SumI64, Some(x)), (Accumulator::MaxI64, Some(time))];
    let accumulators = components.map(|component| component.0);
    sketch.update(Update {
        access: Access::Own,
        layout: EntryLayout::new(&[(Phys::I64, false)], &accumulators),
        slice: Some(slice),
        keys: vec![(key, None)],
        components: components.map(|(_, argument)| Component { argument, valid: None, guard: None }).to_vec(),
    })
}

/// Blocks whose rows lie in one slice, in some, and in more than are taken one by one; with rows far behind and far ahead among them.
#[test]
fn blocks_of_several_slices() {
    let rows = 5000;
    let slice_of = |time: i64| (time - 3).div_euclid(10);
    let unoptimised = llvm_ir(&sliced(2, true), &CompileOptions::unoptimised()).unwrap();
    assert!(unoptimised.contains("slices.cut"), "rows are taken slice by slice");
    for slices in 1..=5 {
        for far in [0, if slices % 2 == 0 { -100_000 } else { 7_000 }] {
            let time = |row: i64| match row % 1500 {
                700 if far != 0 => far,
                _ => row / 50 - 40 + (row * 7 % slices) * 10 + row % 3,
            };
            let columns = [numbers((0..rows).map(time)), numbers(0..rows)];
            // Behind the times of rows that come early, and between those that come late.
            let watermarks: Vec<i64> = (0..rows).map(|row| (row / 400 * 400) / 50 - 30).collect();
            for (every, drops_late) in [(1, false), (1, true), (2, false), (2, true), (20, false), (20, true)] {
                let (outcome, _) = run(&sliced(every, drops_late), &columns, &watermarks);
                let is_late = |row: i64| 10 * (slice_of(time(row)) + 1) + 3 <= watermarks[row as usize];
                let chosen = || (0..rows).filter(|row| i128::from(*row) % every == 0);
                let kept = chosen().filter(|row| !drops_late || !is_late(*row));
                let groups: BTreeSet<(i64, i64)> = kept.clone().map(|row| (slice_of(time(row)), row % 5)).collect();
                let late = chosen().count() - kept.count();
                let what = format!("{slices} slices, {far}, 1 in {every}, {drops_late}");
                assert_eq!((outcome.late_rows as usize, outcome.entries.len()), (late, groups.len()), "{what}");
                assert!(drops_late == (late > 0), "{what}");
            }
        }
    }
}

/// Tables that are larger than the cache, whose entries are fetched for a block at a time.
#[test]
fn tables_of_many_keys() {
    let (rows, keys) = (100_000, 40_000);
    for (count, filters) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut sketch = Sketch::new(&[Phys::I64; 4]);
        let [time, x, first, second] = [0, 1, 2, 3].map(|input| sketch.load(input));
        if filters {
            let chosen = remainder_is(&mut sketch, x, 4, 1);
            sketch.filter(chosen);
        }
        let slice = sketch.op(Phys::I64, Op::SliceStart { time, size_ms: 10, offset_ms: 0 });
        let components = [(Accumulator::Count, None), (Accumulator::SumI64, Some(x))];
        let key = [(Phys::I64, false); 2];
        let program = sketch.update(Update {
            access: Access::Own,
            layout: EntryLayout::new(&key[..count], &components.map(|component| component.0)),
            slice: Some(slice),
            keys: [(first, None), (second, None)][..count].to_vec(),
            components: components.map(|(_, argument)| Component { argument, valid: None, guard: None }).to_vec(),
        });
        let unoptimised = llvm_ir(&program, &CompileOptions::unoptimised()).unwrap();
        assert!(unoptimised.contains("entries.fetch"), "what is read from columns is fetched");
        let scattered = |row: i64| (row % keys).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
        let columns = [
            numbers((0..rows).map(|row| row * 20 / rows)),
            numbers(0..rows),
            numbers((0..rows).map(scattered)),
            numbers((0..rows).map(|row| scattered(row) ^ (row % 3))),
        ];
        let (outcome, _) = run(&program, &columns, &vec![i64::MIN; rows as usize]);
        let key = |row: i64| (row * 20 / rows / 10, row % keys, if count == 2 { row % 3 } else { 0 });
        let groups: BTreeSet<_> = (0..rows).filter(|row| !filters || row % 4 == 1).map(key).collect();
        assert_eq!(outcome.entries.len(), groups.len());
        assert!(filters || groups.len() > 1 << 16, "tables are large");
    }
}

#[test]
fn tables_of_several_keys() {
    let (columns, watermarks) = events(4000);
    for keys in [&[0][..], &[1], &[0, 1], &[1, 0]] {
        let (outcome, _) = run(&windowed(keys), &columns, &watermarks);
        assert!(outcome.late_rows > 0 && outcome.entries.len() > 4);
        let failing = (0..4000).filter(|r| r % 61 - 5 == 50).count();
        assert!(!outcome.errors.is_empty() && outcome.errors.len() <= failing);
    }
}

#[test]
fn a_table_without_keys() {
    let (columns, watermarks) = events(4000);
    let (outcome, _) = run(&windowed(&[]), &columns, &watermarks);
    assert_eq!(outcome.entries.len(), 5, "{:#?}", outcome.entries);
}

#[test]
fn no_table_is_made_when_no_row_arrives() {
    let (columns, _) = events(100);
    let (outcome, _) = run(&windowed(&[]), &columns, &[i64::MAX]);
    assert!(outcome.entries.is_empty());
    assert!(outcome.late_rows > 80);
}

#[test]
fn pipelines_are_shared_between_threads_and_dropped_anywhere() {
    let pipeline = Arc::new(compile(&windowed(&[0]), &CompileOptions::default()).unwrap());
    assert!(pipeline.code_bytes() > 100);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let pipeline = pipeline.clone();
            std::thread::spawn(move || {
                let own = compile(&windowed(&[1]), &CompileOptions::default()).unwrap();
                (own.name().to_string(), pipeline.name().to_string())
            })
        })
        .collect();
    drop(pipeline);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), ("sketch".to_string(), "sketch".to_string()));
    }
}

#[test]
fn listings_name_what_the_code_comes_from() {
    let program = windowed(&[0]);
    let plain = llvm_ir(&program, &CompileOptions::unoptimised()).unwrap();
    for name in ["define i64 @run", "stage1.row:", "stage2.row:", "filter.", "update.insert:", "selection", "%c1.v1"] {
        assert!(plain.contains(name), "{name} is missing in\n{plain}");
    }
    assert_eq!(plain, llvm_ir(&program, &CompileOptions::unoptimised()).unwrap());
    let optimised = llvm_ir(&program, &CompileOptions::default()).unwrap();
    assert!(!optimised.contains("alloca i64"), "variables are in registers:\n{optimised}");
    assert!(assembly(&program, &CompileOptions::default()).unwrap().contains("run:"));
}

#[test]
fn an_object_is_the_same_every_time_and_loaded_any_number_of_times() {
    let program = windowed(&[0]);
    let object = generate(&program, &CompileOptions::default()).unwrap();
    assert_eq!(object, generate(&program, &CompileOptions::default()).unwrap());
    let loaded: Vec<_> = (0..3).map(|_| load("any name", &object).unwrap()).collect();
    assert!(loaded.iter().all(|l| l.code_bytes() == loaded[0].code_bytes() && l.name() == "any name"));
    assert_ne!(identity(&CompileOptions::default()).unwrap(), identity(&CompileOptions::unoptimised()).unwrap());
}

#[test]
fn what_is_no_object_is_not_loaded() {
    for bytes in [&b""[..], b"\x7fELF", b"no object at all, but some text"] {
        let error = load("nothing", bytes).unwrap_err();
        assert!(error.message.starts_with("the code could not be loaded"), "{error}");
    }
}

#[test]
fn malformed_programs_are_refused() {
    let mut program = windowed(&[0]);
    program.types.truncate(2);
    let error = compile(&program, &CompileOptions::default()).unwrap_err();
    assert_eq!(error.code, code::COMPILE_FAILED);
    assert!(error.message.starts_with("the row program is not well formed"), "{error}");
}
