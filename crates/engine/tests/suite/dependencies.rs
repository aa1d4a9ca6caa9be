//! Who may depend on whom (ARCHITECTURE.md), and under which licences (deny.toml).

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(crate::tests_dir())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Direct dependencies of each crate of ours, without those of tests.
fn direct(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().unwrap();
    let ours = packages.iter().filter(|p| p["source"].is_null());
    let names = |p: &Value| {
        let all = p["dependencies"].as_array().unwrap().iter();
        all.filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().unwrap().to_string()).collect()
    };
    ours.map(|p| (p["name"].as_str().unwrap().to_string(), names(p))).collect()
}

#[test]
fn only_the_named_crates_see_sqlparser_datafusion_and_llvm() {
    let direct = direct(&metadata());
    let users = |prefix: &str| -> Vec<&str> {
        let uses = |deps: &&BTreeSet<String>| deps.iter().any(|d| d.starts_with(prefix));
        direct.iter().filter(|(_, deps)| uses(deps)).map(|(name, _)| name.as_str()).collect()
    };
    assert_eq!(users("sqlparser"), ["millstream-sql"]);
    assert_eq!(users("datafusion"), ["millstream-sql"]);
    assert_eq!(users("inkwell"), ["millstream-jit"]);
    assert_eq!(users("tonic"), ["millstream-cluster"]);
    assert_eq!(users("arrow-flight"), ["millstream-cluster"]);
    assert_eq!(users("llvm-sys"), [""; 0]);
}

#[test]
fn crates_depend_only_downwards() {
    let direct = direct(&metadata());
    let ours =
        |name: &str| -> BTreeSet<&str> { direct[name].iter().filter_map(|d| d.strip_prefix("millstream-")).collect() };
    let allowed: &[(&str, &[&str])] = &[
        ("millstream-types", &[]),
        ("millstream-abi", &[]),
        ("millstream-functions", &["types", "abi"]),
        ("millstream-plan", &["types", "abi"]),
        ("millstream-sql", &["types", "abi", "plan", "functions"]),
        ("millstream-codegen", &["types", "abi", "plan", "functions"]),
        ("millstream-jit", &["types", "abi", "codegen", "functions"]),
        ("millstream-sync", &[]),
        ("millstream-disk", &[]),
        ("millstream-storage", &["types", "disk"]),
        ("millstream-state", &["types", "abi", "sync", "storage"]),
        ("millstream-connectors", &["types"]),
        (
            "millstream-runtime",
            &["types", "abi", "plan", "codegen", "functions", "state", "sync", "connectors", "storage"],
        ),
        ("millstream-cluster", &["types", "runtime"]),
    ];
    for (name, allowed) in allowed {
        let extra: Vec<&str> = ours(name).into_iter().filter(|d| !allowed.contains(d)).collect();
        assert!(extra.is_empty(), "{name} must not depend on {extra:?}");
    }
    let of_command: Vec<&String> = direct["millstream-cli"].iter().filter(|d| d.starts_with("millstream")).collect();
    assert_eq!(of_command, ["millstream", "millstream-cluster", "millstream-dashboard"]);
    assert_eq!(ours("millstream-dashboard"), BTreeSet::new(), "it sees the engine alone");
}

#[test]
fn licences_are_permissive_and_sources_are_the_registry() {
    let rules: toml::Table = std::fs::read_to_string(crate::tests_dir().join("../deny.toml")).unwrap().parse().unwrap();
    let allowed: Vec<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    for package in metadata()["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        if let Some(source) = package["source"].as_str() {
            assert!(source.starts_with("registry+"), "{name} does not come from the registry: {source}");
        }
        let licence = package["license"].as_str().unwrap_or("").replace('/', " OR ");
        assert!(satisfies(&licence, &allowed), "{name} has the licence '{licence}', which deny.toml does not allow");
    }
}

/// Whether an SPDX expression can be satisfied by the allowed licences. OR binds weaker than AND.
fn satisfies(expression: &str, allowed: &[&str]) -> bool {
    let text = expression.trim();
    if let Some(parts) = split_top(text, " OR ") {
        return parts.iter().any(|p| satisfies(p, allowed));
    }
    if let Some(parts) = split_top(text, " AND ") {
        return parts.iter().all(|p| satisfies(p, allowed));
    }
    if text.starts_with('(') && text.ends_with(')') {
        return satisfies(&text[1..text.len() - 1], allowed);
    }
    allowed.contains(&text)
}

/// Splits at a word outside of parentheses.
fn split_top<'a>(text: &'a str, word: &str) -> Option<Vec<&'a str>> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 && text[i..].starts_with(word) => {
                parts.push(&text[start..i]);
                start = i + word.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (parts.len() > 1).then_some(parts)
}
