//! All functions of ours.

use super::function::Function;
use super::{collection, conditional, json, math, string, temporal};
use std::collections::HashMap;
use std::sync::LazyLock;

/// All functions of ours, in the order of the documentation.
const FUNCTIONS: &[&[Function]] = &[
    string::STRING,
    string::REGEX,
    math::MATH,
    temporal::TEMPORAL,
    conditional::CONDITIONAL,
    collection::COLLECTION,
    json::JSON,
    string::HASH,
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static Function>> =
    LazyLock::new(|| all().flat_map(|function| function.names().map(move |name| (name, function))).collect());

/// The function of ours of an upper-case name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    BY_NAME.get(name).copied()
}

/// All of them, in the order of the documentation.
pub(super) fn all() -> impl Iterator<Item = &'static Function> {
    FUNCTIONS.iter().copied().flatten()
}

/// Their names and aliases, in no order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    BY_NAME.keys().copied()
}
