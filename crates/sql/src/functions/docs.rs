//! The list of functions for people: `SHOW FUNCTIONS` and `docs/functions.md`.

use super::function::{Category, FunctionInfo};
use super::{EXAMPLE_TABLE, all};
use std::fmt::Write;

/// The reference of all functions, in Markdown, by category.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Functions\n\nNames are case-insensitive. *Fused* functions are compiled into the pipeline and have Flink's \
         semantics. *Vectorised* functions are evaluated a buffer at a time before the compiled loop: those on \
         collections and a few of JSON, with Flink's semantics too, and further functions of DataFusion (where a name \
         exists in both, Flink's meaning wins). Functions give NULL when an argument is NULL unless their \
         description says otherwise. Results of examples are shown as the shell shows them, with UTC as the session's \
         time zone.\n",
    );
    let functions = all();
    for (category, title) in Category::ALL {
        let mut members = functions.iter().filter(|f| f.category == *category).peekable();
        if members.peek().is_none() {
            continue;
        }
        let note = note(*category);
        write!(out, "\n## {title}\n\n{note}| Function | Meaning | Example |\n| --- | --- | --- |\n")
            .expect("writing to a string cannot fail");
        for function in members {
            out.push_str(&row(function));
        }
    }
    out
}

/// What stands before the functions of a category.
fn note(category: Category) -> String {
    match category {
        Category::Aggregate => format!(
            "NULLs are ignored unless the description says otherwise; each function but GROUPING takes `FILTER (WHERE …)` \
             ([more](sql-reference.md#aggregates)). The examples are over all rows of this table:\n\n\
             ```sql\n{EXAMPLE_TABLE}```\n\n"
        ),
        Category::Over => "These need [OVER](sql-reference.md#over), which aggregate functions can have, too. The examples are over the \
             table of the aggregate functions; they give a value for each of its rows.\n\n"
            .to_owned(),
        Category::Window => "These put the rows of a table into [windows](sql-reference.md#window-table-functions). The examples are over \
             the table of the aggregate functions; they give the items of each window: `SELECT LISTAGG(item, '+') FROM TABLE(…) \
             GROUP BY window_start, window_end`.\n\n"
            .to_owned(),
        _ => String::new(),
    }
}

fn row(function: &FunctionInfo) -> String {
    // A bar would end the cell.
    let cell = |text: &str| text.replace('|', "\\|");
    let mut signatures: Vec<String> = function.signatures.iter().map(|s| format!("`{}`", cell(s))).collect();
    signatures.extend(function.aliases.iter().map(|alias| format!("`{}`", cell(alias))));
    let examples: Vec<String> =
        function.examples.iter().map(|e| format!("`{}` → `{}`", cell(e.expression), cell(e.result))).collect();
    format!("| {} | {} | {} |\n", signatures.join("<br>"), cell(&function.description), examples.join("<br>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_every_function_once() {
        let text = reference_markdown();
        for expected in [
            "`REGEXP_EXTRACT(string, regex [, group])`",
            "`LEVENSHTEIN(",
            "## String functions",
            "`ABS(-2.5)` → `2.5` |\n",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert_eq!(text.lines().filter(|l| l.starts_with("| `")).count(), all().len());
    }
}
