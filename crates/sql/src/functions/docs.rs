//! The list of functions for people: `SHOW FUNCTIONS` and `docs/functions.md`.

use super::all;
use super::function::{Category, FunctionInfo};
use std::fmt::Write;

/// The reference of all functions, in Markdown, by category.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Functions\n\nNames are case-insensitive. *Fused* functions are compiled into the pipeline and have Flink's \
         semantics. *Vectorised* functions are evaluated a buffer at a time before the compiled loop: those on \
         collections and a few of JSON, with Flink's semantics too, and further functions of DataFusion (where a name \
         exists in both, Flink's meaning wins). Functions give NULL when an argument is NULL unless their \
         description says otherwise.\n",
    );
    let functions = all();
    for (category, title) in Category::ALL {
        let mut members = functions.iter().filter(|f| f.category == *category).peekable();
        if members.peek().is_none() {
            continue;
        }
        write!(out, "\n## {title}\n\n| Function | Meaning |\n| --- | --- |\n")
            .expect("writing to a string cannot fail");
        for function in members {
            out.push_str(&row(function));
        }
    }
    out
}

fn row(function: &FunctionInfo) -> String {
    // A bar would end the cell.
    let cell = |text: &str| text.replace('|', "\\|");
    let mut signatures: Vec<String> = function.signatures.iter().map(|s| format!("`{}`", cell(s))).collect();
    signatures.extend(function.aliases.iter().map(|alias| format!("`{}`", cell(alias))));
    format!("| {} | {} |\n", signatures.join("<br>"), cell(&function.description))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_every_function_once() {
        let text = reference_markdown();
        for expected in ["`REGEXP_EXTRACT(string, regex [, group])`", "`LEVENSHTEIN(", "## String functions"] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert_eq!(text.lines().filter(|l| l.starts_with("| `")).count(), all().len());
    }
}
