//! What dropped code leaves behind: nothing. The only test of its process, because it looks at the memory of all of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod support;

use millstream_abi::Phys;
use millstream_codegen::program::{Comparison, Op, Program};
use millstream_jit::{CompileOptions, compile};
use std::fs;
use support::Sketch;

/// A program with a unique constant, long enough to be data beside the code.
fn program(number: i128) -> Program {
    let mut sketch = Sketch::new(&[Phys::I64, Phys::Str]);
    let (a, text) = (sketch.load(0), sketch.load(1));
    let constant = sketch.op(Phys::I64, Op::Int(number));
    let sum = sketch.op(Phys::I64, Op::Add(a, constant));
    let long = sketch.string(&format!("a text that is not inline, number {number}"));
    let is_equal = sketch.op(Phys::Bool, Op::Compare(Comparison::Eq, text, long));
    sketch.filter(is_equal);
    sketch.emit(&[sum])
}

/// Mappings of the process, and its resident memory in KiB.
fn memory() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    (maps, resident.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
fn dropped_code_is_unmapped() {
    let options = CompileOptions::default();
    let run =
        |from: i128, count: i128| (from..from + count).for_each(|n| drop(compile(&program(n), &options).unwrap()));
    run(0, 50);
    let (maps, resident) = memory();
    let kept: Vec<_> = (0..20).map(|n| compile(&program(n), &options).unwrap()).collect();
    assert!(memory().0 >= maps + 20, "loaded code has pages of its own");
    drop(kept);
    run(50, 200);
    let (maps_after, resident_after) = memory();
    assert!(maps_after <= maps + 5, "mappings grew from {maps} to {maps_after}");
    assert!(resident_after <= resident + 4096, "memory grew from {resident} to {resident_after} KiB");
}
