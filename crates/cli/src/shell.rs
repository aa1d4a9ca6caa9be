//! The interactive shell: statements over several lines, history, completion.

use crate::context::Context;
use crate::failure::Failure;
use millstream::connectors::take_standard_input;
use millstream::sql;
use millstream::{Diagnostic, code, secret};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Editor, Helper};
use std::io::{IsTerminal, Read, Write, stderr, stdin};
use std::path::PathBuf;

const KEYWORDS: &[&str] = &[
    "AND",
    "AS",
    "AVG",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COUNT",
    "CREATE",
    "DESCRIBE",
    "DESCRIPTOR",
    "DROP",
    "ELSE",
    "END",
    "EXECUTE",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "EXPLAIN CODEGEN",
    "FILTER",
    "FROM",
    "GROUP",
    "HAVING",
    "INSERT",
    "INTERVAL",
    "INTO",
    "LIKE",
    "LIMIT",
    "MAX",
    "METADATA",
    "MIN",
    "NOT",
    "NULL",
    "OR",
    "SELECT",
    "SET",
    "SHOW FUNCTIONS",
    "SHOW TABLES",
    "SHOW VIEWS",
    "STATEMENT",
    "SUM",
    "TABLE",
    "TEMPORARY",
    "THEN",
    "TUMBLE",
    "UNION ALL",
    "VALUES",
    "VIEW",
    "WATERMARK",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Reads statements and executes them until the end of input or `quit`.
pub(crate) fn run(context: &mut Context) -> Result<(), Failure> {
    take_standard_input("statements come from it");
    if !stdin().is_terminal() {
        return run_piped(context);
    }
    let mut editor: Editor<Assistant, FileHistory> = Editor::new().map_err(terminal)?;
    editor.set_helper(Some(Assistant { words: vec![] }));
    let history = history_file();
    if let Some(path) = &history {
        // The first start has no history.
        let _ = editor.load_history(path);
        let _ = path.parent().map(std::fs::create_dir_all);
    }
    context.interrupt.keep_terminal();
    let _ =
        writeln!(stderr(), "Millstream {}. End statements with `;`, leave with `quit;`.", env!("CARGO_PKG_VERSION"));
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.words = words(context);
        }
        match editor.readline("millstream> ") {
            Ok(line) => {
                let statement = line.trim();
                if statement.is_empty() {
                    continue;
                }
                secret::remember_statement(statement);
                // A history that cannot be kept is ignored. It is written at once, as a signal may end the shell.
                let _ = editor.add_history_entry(secret::conceal(statement).into_owned());
                let _ = history.as_ref().map(|path| editor.append_history(path));
                if is_command(statement, &["quit", "exit"]) {
                    break;
                }
                if is_command(statement, &["help", "?"]) {
                    let _ = writeln!(stderr(), "{HELP}");
                    continue;
                }
                execute(context, statement);
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        }
    }
    Ok(())
}

const HELP: &str = "\
Statements end with `;`: CREATE TABLE, CREATE VIEW, INSERT INTO, SELECT, EXPLAIN, DESCRIBE, SHOW TABLES, SET, …
Tab completes keywords, tables, columns and functions; the arrow keys walk the history.
Ctrl-C stops the running query, a second one aborts it. `quit;` or Ctrl-D leaves.";

/// Whether a line is one of the shell's own words rather than SQL.
fn is_command(line: &str, words: &[&str]) -> bool {
    let line = line.trim().trim_end_matches(';').trim_end();
    words.iter().any(|word| line.eq_ignore_ascii_case(word))
}

/// A failed statement is reported, and the next one can be typed.
fn execute(context: &mut Context, statement: &str) {
    let result = context
        .text(statement.to_string(), "shell".into())
        .and_then(|text| context.execute(&text).and_then(|()| context.finish()));
    if let Err(failure) = result {
        failure.report();
    }
}

/// Standard input that is not a terminal is a script, so that `millstream sql < file` works; its first error ends it.
fn run_piped(context: &mut Context) -> Result<(), Failure> {
    let mut text = String::new();
    stdin().read_to_string(&mut text).map_err(|e| {
        Failure::usage(Diagnostic::new(code::READ_FAILED, format!("standard input cannot be read: {e}")))
    })?;
    let text = context.text(text, "stdin".into())?;
    context.execute(&text)?;
    context.finish()
}

fn terminal(error: ReadlineError) -> Failure {
    Failure::usage(Diagnostic::new(code::USAGE, format!("the terminal cannot be used: {error}")))
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    Some(state.join("millstream/history"))
}

fn words(context: &Context) -> Vec<String> {
    let mut words: Vec<String> = KEYWORDS.iter().map(ToString::to_string).collect();
    words.extend(context.session.names());
    words
}

/// Multi-line input and completion of keywords, tables, columns and functions.
struct Assistant {
    words: Vec<String>,
}

impl Helper for Assistant {}
impl Highlighter for Assistant {}
impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input().trim();
        let complete = input.is_empty() || is_command(input, &["quit", "exit", "help", "?"]) || sql::is_complete(input);
        Ok(if complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let start = line[..position]
            .rfind(|c| !is_word(c))
            .map_or(0, |i| i + line[i..].chars().next().map_or(1, char::len_utf8));
        let typed = &line[start..position];
        if typed.is_empty() {
            return Ok((position, vec![]));
        }
        let starts = |word: &&String| {
            word.len() >= typed.len()
                && word.is_char_boundary(typed.len())
                && word[..typed.len()].eq_ignore_ascii_case(typed)
        };
        let mut matches: Vec<&String> = self.words.iter().filter(starts).collect();
        matches.sort();
        matches.dedup();
        let pair = |w: &&String| Pair { display: w.to_string(), replacement: w.to_string() };
        Ok((start, matches.iter().map(pair).collect()))
    }
}
