//! One operator, one name: the file of an operator in `plan` has namesakes in `codegen` and, if it is keyed, in `runtime`.

use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder(path: &str) -> PathBuf {
    crate::tests_dir().join("../crates").join(path)
}

/// The modules of a folder: its files and folders.
fn modules(path: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let stem = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().file_stem().unwrap().to_os_string();
    let names = entries.map(|entry| stem(entry).into_string().unwrap());
    names.filter(|name| name != "mod" && name != "tests").collect()
}

/// The operators of a plan that answer the questions of a trait: `Keyed` or `Expansion`.
fn operators(answering: &str) -> BTreeSet<String> {
    let says_so = |name: &String| {
        let text = std::fs::read_to_string(folder(&format!("plan/src/operators/{name}.rs"))).unwrap();
        text.contains(&format!(" {answering} for "))
    };
    modules("plan/src/operators").into_iter().filter(says_so).collect()
}

#[test]
fn every_operator_has_its_programs_in_a_file_of_its_name() {
    let lowered = modules("codegen/src/lower");
    let missing: Vec<String> =
        modules("plan/src/operators").into_iter().filter(|name| !lowered.contains(name)).collect();
    assert!(missing.is_empty(), "crates/codegen/src/lower has no file for {missing:?} of crates/plan/src/operators");
}

#[test]
fn every_keyed_operator_runs_in_a_file_of_its_name() {
    let (run, keyed) = (modules("runtime/src/keyed"), operators("Keyed"));
    assert!(!keyed.is_empty());
    let missing: Vec<&String> = keyed.difference(&run).collect();
    assert!(missing.is_empty(), "crates/runtime/src/keyed has no file for {missing:?} of crates/plan/src/operators");
}

#[test]
fn every_flat_map_runs_in_a_file_of_its_name() {
    let flat_maps = operators("Expansion");
    assert!(!flat_maps.is_empty());
    assert_eq!(modules("runtime/src/flat_map"), flat_maps);
}
