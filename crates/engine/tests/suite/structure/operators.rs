//! One operator, one name: the file of an operator in `plan` has namesakes in `codegen` and, if it is keyed, in `runtime`.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Keyed operators whose files in the runtime have other names yet. This table only shrinks.
const OTHERWISE_NAMED: &[(&str, &str)] =
    &[("count", "counts"), ("interval_join", "stream_join"), ("regular_join", "stream_join"), ("session", "sessions")];

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
        text.contains(&format!(" {answering}<'a> for "))
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
    let other = |name: &str| OTHERWISE_NAMED.iter().find(|(operator, _)| *operator == name).map(|(_, file)| *file);
    let judge = |name: &String| match (run.contains(name), other(name)) {
        (true, None) => None,
        (true, Some(_)) => Some(format!("{name} has its name in the runtime: delete it from the table")),
        (false, Some(file)) if run.contains(file) => None,
        (false, _) => Some(format!("crates/runtime/src/keyed has no file for {name} of crates/plan/src/operators")),
    };
    let gone = OTHERWISE_NAMED.iter().filter(|(operator, _)| !keyed.contains(*operator));
    let gone = gone.map(|(operator, _)| format!("{operator} is no keyed operator: delete it from the table"));
    let wrong: Vec<String> = keyed.iter().filter_map(judge).chain(gone).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_flat_map_runs_in_a_file_of_its_name() {
    let flat_maps = operators("Expansion");
    assert!(!flat_maps.is_empty());
    assert_eq!(modules("runtime/src/flat_map"), flat_maps);
}
