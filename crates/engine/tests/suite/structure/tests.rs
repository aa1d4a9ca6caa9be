//! The counter itself, on tiny crates.

use super::arrows::Graph;
use super::components::components;
use super::modules::Modules;
use std::path::Path;

fn tree(files: &[(&str, &str)]) -> Modules {
    let read = |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string());
    Modules::load(Path::new("lib.rs"), &read)
}

/// The arrows as `a -> b: items`, without `crate::`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let graph = Graph::of(&tree(files));
    assert!(graph.unresolved.is_empty(), "{:?}", graph.unresolved);
    let name = |module: usize| graph.modules[module].trim_start_matches("crate::").to_string();
    let text = |((from, to), items): (&(usize, usize), &std::collections::BTreeSet<String>)| {
        format!("{} -> {}: {}", name(*from), name(*to), items.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    graph.arrows.iter().map(text).collect()
}

/// The arrows of a crate of one file.
fn of(text: &str) -> Vec<String> {
    arrows(&[("lib.rs", text)])
}

#[test]
fn files_are_found_where_the_compiler_looks() {
    let files = [
        ("lib.rs", "mod a; mod b; #[path = \"odd.rs\"] mod c; mod inline { mod d; }"),
        ("a.rs", "mod x;"),
        ("a/x.rs", "fn f() { crate::b::y::g() }"),
        ("b/mod.rs", "pub mod y;"),
        ("b/y.rs", "pub fn g() { super::super::c::z::h() }"),
        ("odd.rs", "pub mod z;"),
        ("z.rs", "pub fn h() {}"),
        ("inline/d.rs", "use crate::a as other;"),
    ];
    assert_eq!(arrows(&files), ["a::x -> b::y: g", "b::y -> c::z: h"]);
    assert_eq!(tree(&files).files.len(), files.len());
}

#[test]
fn re_exports_lead_to_the_definition_and_are_no_arrows() {
    let found = of("pub use a::Foo; pub(crate) use a::inner::Bar as Baz; use std::fmt; pub use millstream_x::Y;
        mod a { pub struct Foo; pub mod inner { pub struct Bar; } }
        mod b { use crate::{Foo, Baz, Y}; fn f(_: Foo, _: Baz) {} }
        mod c { use super::fmt; fn f(_: &dyn fmt::Debug, _: crate::Y) {} }");
    assert_eq!(found, ["b -> a: Foo", "b -> a::inner: Bar"]);
}

#[test]
fn what_is_re_exported_is_an_arrow_where_it_is_used() {
    let found = of("pub use a::f; fn g() { f() } mod a { pub fn f() {} }");
    assert_eq!(found, ["crate -> a: f"]);
    let found = of("pub use a::f; fn g(f: u32) -> u32 { let h = f; f + h } mod a { pub fn f() {} }");
    assert_eq!(found, [""; 0]);
}

#[test]
fn inline_paths_are_resolved() {
    let found =
        of("mod a { pub struct T; pub const N: usize = 1; pub fn f() {} pub enum E { V, W(u8) } pub trait R {} }
        mod expression { fn g() { crate::a::f() } }
        mod types { use crate::a; struct S(Vec<[a::T; a::N]>); }
        mod pattern { use super::a; fn g(e: u8) { match e { a::E::V | a::E::W(_) => {} } } }
        mod bound { fn g<X: super::a::R>() {} }
        mod head { impl crate::a::R for u8 {} }
        mod generic { fn g() { Vec::<crate::a::T>::new(); } }
        mod unused { use crate::a; }");
    let expected = ["expression -> a: f", "types -> a: N, T", "pattern -> a: E", "bound -> a: R", "head -> a: R"];
    assert_eq!(found, [&expected[..], &["generic -> a: T"]].concat());
}

#[test]
fn globs_open_modules_and_enums() {
    let found = of("mod a { pub use super::d::*; pub struct A; pub fn f() {} }
        mod b { use crate::a::*; fn g(_: A, _: D) { f() } }
        mod c { fn g(e: u8) { use super::d::E::*; match e { V => {} _ => W } } }
        mod d { use super::a::*; pub struct D; pub enum E { V, W } }");
    assert_eq!(found, ["b -> a: A, f", "b -> d: D", "c -> d: E"]);
}

#[test]
fn tokens_of_macros_are_read() {
    let found = of("mod a { pub struct T; pub fn f() {} pub const N: u8 = 1; pub mod deep { pub fn g() {} } }
        mod b { use super::a; fn g() { println!(\"{}\", vec![a::deep::g(), x.f()]); } }
        mod c { use crate::a::*; fn g(row: u8) { assert!(matches!(row, N)); } }
        mod d { macro_rules! m { ($x:expr) => { $crate::a::f($x) } } }");
    assert_eq!(found, ["b -> a::deep: g", "c -> a: N", "d -> a: f"]);
}

#[test]
fn macros_are_items_and_make_items() {
    let found = of("mod a { macro_rules! m { () => {} } pub(crate) use m; }
        mod b { use crate::a::m; m!(); }
        mod c { macro_rules! make { ($($name:ident = $x:ident;)*) => { $(pub fn $name() {})* pub enum Made {} } }
            make! { sine = sin; } }
        mod d { fn g(_: super::c::Made) { crate::c::sine() } }");
    assert_eq!(found, ["b -> a: m", "d -> c: Made, sine"]);
}

#[test]
fn an_impl_elsewhere_is_an_arrow_both_ways() {
    let found = of("mod a { pub struct T; impl T { fn own() {} } fn g() { T::split(); T::own() } }
        mod b { impl crate::a::T { pub fn split() { Self::own() } } }
        mod c { fn g() { super::a::T::split() } }");
    assert_eq!(found, ["a -> b: T::split", "b -> a: T", "c -> a: T", "c -> b: T::split"]);
}

#[test]
fn code_of_tests_does_not_count() {
    let found = of("mod a { pub fn f() {} }
        #[cfg(test)] mod tests { fn g() { crate::a::f() } }
        #[cfg(all(test, not(loom)))] use a::f;
        mod b { #[cfg(any(test, feature = \"testing\"))] fn g() { crate::a::f() } fn h() { #[cfg(loom)] let x = crate::a::f(); } }
        mod c { struct C; impl C { #[cfg(test)] fn g() { crate::a::f() } #[cfg(not(test))] fn h() { crate::a::f() } } }
        mod d { #[cfg(target_os = \"linux\")] fn g() { crate::a::f() } }");
    assert_eq!(found, ["c -> a: f", "d -> a: f"]);
}

#[test]
fn paths_that_lead_nowhere_are_reported() {
    let graph = Graph::of(&tree(&[("lib.rs", "mod a { use crate::b::x; fn f() { super::c(); vec![self::d()]; } }")]));
    let found: Vec<&String> = graph.unresolved.iter().collect();
    assert_eq!(found, ["crate::a: crate::b::x", "crate::a: self::d", "crate::a: super::c"]);
}

#[test]
fn components_and_cuts() {
    let arrows = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3)].into();
    assert_eq!(components(6, &arrows), [vec![0, 1, 2], vec![3, 4], vec![5]]);
    // Two names hold the circle together in one place, one in the others.
    let text = "mod a { pub struct A; use crate::b::{B, C}; } mod b { pub struct B; pub struct C; use crate::d::D; }
        mod d { pub struct D; use crate::a::A; use crate::b::B; }";
    let graph = Graph::of(&tree(&[("lib.rs", text)]));
    let largest = graph.components().remove(0);
    assert_eq!(largest, [1, 2, 3]);
    assert_eq!(graph.cuts(&largest, 1), [((2, 3), 1)]);
    assert_eq!(graph.cuts(&largest, 3), []);
}

#[test]
fn types_of_one_name_are_found() {
    let text = "mod a { pub struct T; enum U {} } mod b { trait T {} type U = u8; struct V; #[cfg(test)] struct V; }
        #[cfg(test)] mod tests { struct T; }";
    let found = super::types::types_of(&tree(&[("lib.rs", text)]));
    let expected = [("T", vec!["crate::a", "crate::b"]), ("U", vec!["crate::a", "crate::b"]), ("V", vec!["crate::b"])];
    assert_eq!(found, expected.map(|(name, m)| (name.to_string(), m.into_iter().map(String::from).collect())).into());
}

#[test]
fn numbers_only_go_down() {
    let check = |table, now: usize| super::check(table, &[("x".to_string(), now)].into(), 5).join("");
    assert_eq!(check(&[], 5), "");
    assert_eq!(check(&[], 6), "x: 6 is more than 5");
    assert_eq!(check(&[("x", 7)], 7), "");
    assert_eq!(check(&[("x", 7)], 8), "x: 8 is more than 7; this number only goes down");
    assert_eq!(check(&[("x", 7)], 6), "x: 6 is less than 7: lower the number in the table");
    assert_eq!(check(&[("x", 7)], 5), "x: 5 is within 5: delete it from the table");
    assert_eq!(check(&[("y", 7)], 5), "y is gone: delete it");
}
