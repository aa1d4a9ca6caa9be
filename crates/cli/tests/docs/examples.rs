//! Examples of pages run, and print what the page says.
//!
//! A part of a page, what is below a `##`, has an empty folder, where its blocks run in order:
//!
//! - The block behind a line that ends in "`` `name`: ``" is the file of that name. Files above the first `##` are there in every part.
//! - `console` has commands (`$ …`, which continue while a double quote is open), each with what it prints.
//! - `sql` is a script for `millstream run -e`, and `text` behind it is what it prints.
//! - `python` with `text` behind it is run by `python/tests/test_docs.py`, where `sh` is parsed.
//! - What has `{data-not-run="reason"}` behind its language is not run, and SQL is planned instead. `sh` must have it.
//!
//! What is printed is standard output as a terminal shows it, and behind it, if the command fails, standard error.

use crate::support::program;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

#[derive(Debug)]
struct Block<'a> {
    line: usize,
    language: &'a str,
    not_run: Option<&'a str>,
    file: Option<&'a str>,
    text: String,
}

/// What ran, what the page says it prints, and what it has printed.
struct Example {
    line: usize,
    command: String,
    expected: String,
    printed: String,
}

/// The blocks of each part; the first part is what stands above the first `##`.
fn parts(page: &str) -> Vec<Vec<Block<'_>>> {
    let mut parts = vec![Vec::new()];
    let mut lines = page.lines().zip(1..);
    let mut before = "";
    while let Some((text, line)) = lines.next() {
        if text.starts_with("## ") {
            parts.push(Vec::new());
        }
        if let Some(fence) = text.strip_prefix("```") {
            let (language, options) = fence.split_once(' ').unwrap_or((fence, ""));
            let inside = lines.by_ref().map(|(text, _)| text).take_while(|text| *text != "```");
            let block = Block {
                line,
                language,
                not_run: options.strip_prefix("{data-not-run=\"").and_then(|reason| reason.strip_suffix("\"}")),
                file: before.strip_suffix("`:").and_then(|line| line.rsplit_once('`')).map(|(_, name)| name),
                text: inside.flat_map(|text| [text, "\n"]).collect(),
            };
            assert!(options.is_empty() || block.not_run.is_some(), "{block:?}: what is {options}?");
            parts.last_mut().expect("the first part is there").push(block);
        }
        if !text.is_empty() {
            before = text;
        }
    }
    parts
}

/// The commands of a console, and what each prints.
fn commands(text: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.into(), String::new())),
            (None, Some((command, printed))) if printed.is_empty() && command.matches('"').count() % 2 == 1 => {
                command.push_str(line);
            }
            (None, Some((_, printed))) => printed.push_str(line),
            (None, None) => panic!("a console begins with a command: {line}"),
        }
    }
    commands
}

/// What a command prints; an error is that and what it has to say about its failure.
fn run(folder: &Path, words: &[&str]) -> Result<String, String> {
    let binaries = Path::new(env!("CARGO_BIN_EXE_millstream")).parent().expect("it is in a folder");
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    // No example takes long, and none may keep the tests for ever.
    let mut command = program("timeout", folder);
    let output = command.arg("120").args(words).env("PATH", path).env("MILLSTREAM_OUTPUT", "text").output().unwrap();
    let mut printed = String::from_utf8(output.stdout).unwrap();
    if output.status.success() {
        return Ok(printed);
    }
    printed.push_str(&String::from_utf8(output.stderr).unwrap());
    Err(printed)
}

fn write(folder: &Path, block: &Block, name: &str) {
    let path = folder.join(name);
    if path.exists() {
        let same = fs::read_to_string(path).unwrap() == block.text;
        return assert!(same, "line {}: {name} is not as it is shown", block.line);
    }
    fs::create_dir_all(path.parent().expect("it is below the folder")).unwrap();
    fs::write(path, &block.text).unwrap();
}

/// Runs the blocks of a part.
fn examples(folder: &Path, part: &[Block]) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut blocks = part.iter().peekable();
    while let Some(block) = blocks.next() {
        let line = block.line;
        if let Some(name) = block.file {
            write(folder, block, name);
            continue;
        }
        let mut text =
            || blocks.next_if(|next| next.language == "text" && next.file.is_none()).map(|block| block.text.clone());
        match (block.language, block.not_run) {
            (_, Some("")) | ("sh", None) => panic!("line {line}: say why it is not run"),
            ("sql", Some(_)) => {
                text();
                let printed = run(folder, &["millstream", "explain", "-e", &block.text]).err().unwrap_or_default();
                examples.push(Example { line, command: block.text.clone(), expected: String::new(), printed });
            }
            ("sql", None) => {
                let printed = run(folder, &["millstream", "run", "-e", &block.text]).unwrap_or_else(|failure| failure);
                let expected = text().unwrap_or_default();
                examples.push(Example { line, command: block.text.clone(), expected, printed });
            }
            ("console", None) => {
                for (command, expected) in commands(&block.text) {
                    let printed = run(folder, &["sh", "-c", &command]).unwrap_or_else(|failure| failure);
                    examples.push(Example { line, command, expected, printed });
                }
            }
            ("python", None) | (_, Some(_)) => {
                text();
            }
            // Drawings.
            ("", None) => {}
            (language, None) => panic!("line {line}: '{language}' is neither a file nor an example"),
        }
    }
    examples
}

/// Runs the parts of a page, all at the same time. `prepare` puts into their folders what the page takes for granted.
fn check(page: &str, prepare: fn(&Path)) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let parts = parts(&text);
    let run_part = |part: &[Block]| {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        for block in &parts[0] {
            if let Some(name) = block.file {
                write(folder.path(), block, name);
            }
        }
        examples(folder.path(), part)
    };
    let examples: Vec<Example> = thread::scope(|scope| {
        let running: Vec<_> = parts.iter().map(|part| scope.spawn(|| run_part(part))).collect();
        running.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(!examples.is_empty(), "{page} has no example");
    let mut wrong = String::new();
    for Example { line, command, expected, printed } in &examples {
        if expected != printed {
            write!(wrong, "{page}:{line}: {command}--- prints\n{printed}--- and not\n{expected}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_cookbook() {
    check("docs/cookbook.md", |_| {});
}

#[test]
fn files() {
    check("docs/how-to/files.md", |_| {});
}

/// Its commands are those of who stands in the sources and has built them.
#[test]
fn the_readme() {
    check("README.md", |folder| {
        std::os::unix::fs::symlink(root().join("examples"), folder.join("examples")).unwrap();
        fs::create_dir_all(folder.join("target/demo")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_millstream"), folder.join("target/demo/millstream")).unwrap();
    });
}
