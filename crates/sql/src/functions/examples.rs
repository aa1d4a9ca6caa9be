//! An example or two for each function, with what it gives. A test of the engine evaluates all of them.
//!
//! The file `examples.txt` has a line with the name of a function, then an indented line `expression → result` for each
//! example. An expression of [`Category::Aggregate`] is over all rows of [`EXAMPLE_TABLE`]; one of [`Category::Over`] has a
//! result for each of its rows, with commas between them. For one of [`Category::Window`] they are the items of each window, with `+`
//! between them. One that begins with SELECT is a query, whose rows are given likewise. Every other expression stands alone.
//! The time zone is UTC.
//!
//! [`Category::Aggregate`]: super::Category::Aggregate
//! [`Category::Over`]: super::Category::Over
//! [`Category::Window`]: super::Category::Window

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The table of the examples of aggregates, OVER and windows, in the order of `id`.
pub const EXAMPLE_TABLE: &str = "\
CREATE VIEW sales AS SELECT * FROM (VALUES
  (1, TIMESTAMP '2024-05-06 10:05:00', 'apple', 'fruit',     10,                1),
  (2, TIMESTAMP '2024-05-06 10:20:00', 'leek',  'vegetable', 20,                3),
  (3, TIMESTAMP '2024-05-06 10:55:00', 'pear',  'fruit',     20,                2),
  (4, TIMESTAMP '2024-05-06 11:10:00', 'plum',  'fruit',     CAST(NULL AS INT), 4)) AS t (id, ts, item, kind, price, amount);
";

/// A use of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// SQL.
    pub expression: &'static str,
    /// Its result as the shell shows it.
    pub result: &'static str,
}

static EXAMPLES: LazyLock<BTreeMap<&'static str, Vec<Example>>> = LazyLock::new(|| {
    let mut examples: BTreeMap<&str, Vec<Example>> = BTreeMap::new();
    let mut name = "";
    for line in include_str!("examples.txt").lines() {
        match line.strip_prefix("    ") {
            None => name = line,
            Some(example) => {
                let (expression, result) = example.split_once(" → ").expect("an example is `expression → result`");
                examples.entry(name).or_default().push(Example { expression, result });
            }
        }
    }
    examples
});

/// The examples of the function of an upper-case name.
pub(super) fn of(name: &str) -> Vec<Example> {
    EXAMPLES.get(name).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;

    #[test]
    fn every_function_has_examples_that_use_it() {
        let functions = all();
        for function in &functions {
            assert!(!function.examples.is_empty(), "{} has no example", function.name);
            for example in &function.examples {
                let sign = if function.name == "[]" { "[" } else { function.name.as_str() };
                assert!(example.expression.contains(sign), "`{}` does not use {}", example.expression, function.name);
            }
        }
        let known = |name: &&&str| functions.iter().any(|function| function.name == **name);
        assert_eq!(EXAMPLES.keys().find(|name| !known(name)), None, "a name of examples.txt is that of a function");
    }
}
