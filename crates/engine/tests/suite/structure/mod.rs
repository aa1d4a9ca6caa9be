//! No knots: which modules need each other in a circle, and how long files are.
//!
//! A crate whose modules all need each other can only be understood and changed as a whole. So its modules and the arrows
//! between them (see `arrows`) are counted here, from the source alone: no strongly connected component is larger than
//! [`LARGEST`], no file longer than [`LONGEST`]. Where the tree is not there yet, a table has the number of today, which
//! only ever goes down.
//!
//! No two types of a crate have one name (see `types`), and an operator has one name in all crates (see `operators`).
//!
//! `MILLSTREAM_STRUCTURE=print cargo test --test suite structure -- --nocapture` prints every component with its arrows,
//! and for those that are too large some arrows without which they would not be.

mod arrows;
mod components;
mod modules;
mod names;
mod operators;
mod pages;
mod tests;
mod types;

use arrows::Graph;
use modules::Modules;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Modules in a component.
const LARGEST: usize = 5;

/// Lines of a file.
const LONGEST: usize = 600;

/// Crates with larger components, and the size of the largest.
const KNOTS: &[(&str, usize)] = &[];

/// Longer files, and their length.
const LONG_FILES: &[(&str, usize)] = &[];

/// A crate as it is.
struct Measured {
    /// The name of its folder.
    name: String,
    graph: Graph,
    /// Its files without those of tests, with their number of lines.
    files: Vec<(PathBuf, usize)>,
    /// The modules of each of its types, by name.
    types: BTreeMap<String, Vec<String>>,
}

/// Every crate of the workspace.
static CRATES: LazyLock<Vec<Measured>> = LazyLock::new(|| {
    let folder = crate::tests_dir().join("../crates").canonicalize().unwrap();
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let measure = |name: String| {
        let source = folder.join(&name).join("src");
        let root = ["lib.rs", "main.rs"].map(|f| source.join(f)).into_iter().find(|f| f.exists()).unwrap();
        let tree = Modules::load(&root, &read);
        let relative = |(file, lines): &(PathBuf, usize)| (file.strip_prefix(&folder).unwrap().into(), *lines);
        let files = tree.files.iter().map(relative).collect();
        Measured { graph: Graph::of(&tree), files, types: types::types_of(&tree), name }
    };
    names.into_iter().map(measure).collect()
});

/// Compares what is counted with what a table allows; `limit` holds for what is not listed. Gives what is wrong.
fn check(table: &[(&str, usize)], counted: &BTreeMap<String, usize>, limit: usize) -> Vec<String> {
    let allowed: BTreeMap<&str, usize> = table.iter().copied().collect();
    let gone = allowed.keys().filter(|name| !counted.contains_key(**name)).map(|n| format!("{n} is gone: delete it"));
    let judge = |(name, now): (&String, &usize)| match allowed.get(name.as_str()) {
        None if *now > limit => Some(format!("{name}: {now} is more than {limit}")),
        Some(was) if now > was => Some(format!("{name}: {now} is more than {was}; this number only goes down")),
        Some(_) if *now <= limit => Some(format!("{name}: {now} is within {limit}: delete it from the table")),
        Some(was) if now < was => Some(format!("{name}: {now} is less than {was}: lower the number in the table")),
        _ => None,
    };
    gone.chain(counted.iter().filter_map(judge)).collect()
}

#[test]
fn no_component_of_modules_is_larger_than_allowed() {
    if std::env::var("MILLSTREAM_STRUCTURE").is_ok_and(|v| v == "print") {
        CRATES.iter().for_each(|c| println!("{}", full(c)));
    }
    let largest = |c: &Measured| (c.name.clone(), c.graph.components()[0].len());
    let wrong = check(KNOTS, &CRATES.iter().map(largest).collect(), LARGEST);
    let shown = CRATES.iter().filter(|c| wrong.iter().any(|w| w.starts_with(&format!("{}:", c.name))));
    let pictures: Vec<String> = shown.map(|c| component(&c.graph, &c.graph.components()[0], 3)).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), pictures.join("\n"));
}

#[test]
fn no_file_is_longer_than_allowed() {
    let long = |(file, lines): &(PathBuf, usize)| {
        let file = file.display().to_string();
        (*lines > LONGEST || LONG_FILES.iter().any(|(name, _)| *name == file)).then_some((file, *lines))
    };
    // The length of a benchmark harms nobody who reads the engine.
    let product = CRATES.iter().filter(|c| c.name != "bench");
    let wrong = check(LONG_FILES, &product.flat_map(|c| c.files.iter().filter_map(long)).collect(), LONGEST);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_path_into_its_own_crate_is_followed() {
    let unresolved =
        |c: &Measured| -> Vec<String> { c.graph.unresolved.iter().map(|path| format!("{} {path}", c.name)).collect() };
    let found: Vec<String> = CRATES.iter().flat_map(unresolved).collect();
    assert!(found.is_empty(), "the counter does not understand these:\n{}", found.join("\n"));
}

/// Every component of a crate, and what would untie those that are too large.
fn full(measured: &Measured) -> String {
    let Measured { name, graph, .. } = measured;
    let components = graph.components();
    let mut text = format!("== {name}: {} modules, largest component {}\n", graph.modules.len(), components[0].len());
    for members in components.iter().filter(|c| c.len() > 1) {
        text += &component(graph, members, usize::MAX);
        if members.len() > LARGEST {
            text += &hubs(graph, members);
            text += &format!("Cuts to reach {LARGEST}, and the largest part after each:\n");
            for (cut, size) in graph.cuts(members, LARGEST) {
                writeln!(text, "  {size:3}  {}", arrow(graph, cut)).unwrap();
            }
        }
    }
    text
}

/// The modules of a component, each with its first arrows to others of them.
fn component(graph: &Graph, members: &[usize], most: usize) -> String {
    let arrows = graph.within(members);
    let mut text = format!("A component of {} modules with {} arrows:\n", members.len(), arrows.len());
    for module in members {
        writeln!(text, "  {}", graph.modules[*module]).unwrap();
        for found in arrows.iter().filter(|(from, _)| from == module).take(most) {
            writeln!(text, "    {}", arrow(graph, *found)).unwrap();
        }
    }
    text
}

/// The items of a component that most of its modules name.
fn hubs(graph: &Graph, members: &[usize]) -> String {
    let mut users: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for (from, to) in graph.within(members) {
        graph.arrows[&(from, to)].iter().for_each(|item| *users.entry((to, item)).or_default() += 1);
    }
    let mut users: Vec<_> = users.into_iter().collect();
    users.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lines = users.iter().take(20).map(|((to, item), n)| format!("  {n:3}  {}::{item}\n", graph.modules[*to]));
    lines.fold("Items that most of its modules name:\n".into(), |text, line| text + &line)
}

fn arrow(graph: &Graph, (from, to): (usize, usize)) -> String {
    let items: Vec<&str> = graph.arrows[&(from, to)].iter().map(String::as_str).collect();
    format!("{} -> {}: {}", graph.modules[from], graph.modules[to], items.join(", "))
}
