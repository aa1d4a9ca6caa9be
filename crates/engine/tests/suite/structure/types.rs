//! One word, one meaning: no two types of a crate have one name.

use super::modules::Modules;
use super::{CRATES, check};
use std::collections::BTreeMap;
use syn::Item;

/// Crates with names that several types have, and how many such names.
const SHARED_NAMES: &[(&str, usize)] = &[("bench", 13)];

/// The modules of each type of a crate, by its name. Types of tests and those that macros make do not count.
pub fn types_of(tree: &Modules) -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for module in &tree.modules {
        for item in &module.items {
            let name = match item {
                Item::Enum(item) => &item.ident,
                Item::Struct(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Union(item) => &item.ident,
                _ => continue,
            };
            let modules = types.entry(name.to_string()).or_default();
            // One module may have a type twice, for different systems.
            if !modules.contains(&module.path) {
                modules.push(module.path.clone());
            }
        }
    }
    types
}

#[test]
fn no_two_types_of_a_crate_have_one_name() {
    let shared = |types: &BTreeMap<String, Vec<String>>| -> Vec<String> {
        let several = types.iter().filter(|(_, modules)| modules.len() > 1);
        several.map(|(name, modules)| format!("  {name}: {}", modules.join(", "))).collect()
    };
    let found: BTreeMap<String, Vec<String>> = CRATES.iter().map(|c| (c.name.clone(), shared(&c.types))).collect();
    let wrong = check(SHARED_NAMES, &found.iter().map(|(name, found)| (name.clone(), found.len())).collect(), 0);
    let shown = found.iter().filter(|(name, _)| wrong.iter().any(|w| w.starts_with(&format!("{name}:"))));
    let lists: Vec<String> = shown.map(|(name, found)| format!("{name}\n{}", found.join("\n"))).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), lists.join("\n"));
}
