//! What the command says about wrong input: every case of `tests/messages` with the text that is printed.
//!
//! A case is `=== name`, the input, `---`, and what is printed on both outputs. The input is SQL behind the tables of `tables.sql`, or,
//! behind `$ `, lines for `sh`. Each runs in a folder of its own with the files that the tables read. `MILLSTREAM_UPDATE_DOCS=1` writes
//! what is printed now.

use crate::support::millstream;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Files that every case finds in its folder.
const FILES: [&str; 3] = ["tables.sql", "bids.jsonl", "users.csv"];
/// Cases that run at the same time.
const AT_A_TIME: usize = 4;

struct Case {
    name: String,
    input: String,
    printed: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages")
}

fn cases(text: &str) -> Vec<Case> {
    let blocks = format!("\n{text}");
    let case = |block: &str| {
        let (name, rest) = block.split_once('\n').unwrap();
        let (input, printed) = rest.split_once("\n---\n").unwrap();
        Case { name: name.into(), input: input.into(), printed: printed.into() }
    };
    blocks.split("\n=== ").skip(1).map(|block| case(&format!("{block}\n"))).collect()
}

/// What a case prints, with names for what is another in every run.
fn printed(case: &Case, busy: u16) -> String {
    let place = tempfile::tempdir().unwrap();
    // The path as the command sees it.
    let place_shown = fs::canonicalize(place.path()).unwrap();
    for file in FILES {
        fs::copy(folder().join(file), place.path().join(file)).unwrap();
    }
    let mut command: Command = millstream(place.path());
    let program = command.get_program().to_owned();
    match case.input.strip_prefix("$ ") {
        None => {
            command.args(["run", "tables.sql", "-e", &case.input]);
        }
        Some(lines) => {
            let cache = env!("CARGO_TARGET_TMPDIR");
            command = Command::new("sh");
            let function = format!("millstream() {{ '{}' \"$@\"; }}\nexec 2>&1\n", Path::new(&program).display());
            command.arg("-c").arg(function + lines).env("XDG_CACHE_HOME", cache).current_dir(place.path());
            for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_")) {
                command.env_remove(name);
            }
        }
    }
    let output = command.env("BUSY_PORT", busy.to_string()).env("HOME", place.path()).output().unwrap();
    let mut text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.replace(&*place_shown.to_string_lossy(), "$DIR").replace(&busy.to_string(), "$BUSY_PORT")
}

#[test]
fn every_message_is_as_it_is_kept() {
    let update = std::env::var_os("MILLSTREAM_UPDATE_DOCS").is_some();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap().port();
    let mut files: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut all: Vec<(PathBuf, Case)> = vec![];
    for file in &files {
        all.extend(cases(&fs::read_to_string(file).unwrap()).into_iter().map(|case| (file.clone(), case)));
    }
    assert!(all.len() > 200, "{}", all.len());
    let (next, results) = (Mutex::new(0..all.len()), Mutex::new(vec![String::new(); all.len()]));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(i) = { next.lock().unwrap().next() } {
                    let text = printed(&all[i].1, busy);
                    results.lock().unwrap()[i] = text;
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    if update {
        for file in &files {
            let of_file = all.iter().zip(&results).filter(|((of, _), _)| of == file);
            let text = of_file.map(|((_, case), now)| format!("=== {}\n{}\n---\n{now}", case.name, case.input));
            fs::write(file, text.collect::<String>()).unwrap();
        }
        return;
    }
    let differs = |((_, case), now): &(&(PathBuf, Case), &String)| case.printed.trim_end() != now.trim_end();
    let different: Vec<String> = all
        .iter()
        .zip(&results)
        .filter(differs)
        .map(|((_, case), now)| format!("=== {}\n{}\n--- kept\n{}--- now\n{now}", case.name, case.input, case.printed))
        .collect();
    assert!(
        different.is_empty(),
        "{} messages differ; MILLSTREAM_UPDATE_DOCS=1 keeps them as they are now:\n{}",
        different.len(),
        different.join("\n")
    );
    let lazy = ["Correct the statement", "see docs/", "docs/", "DoubleColon"];
    for ((_, case), now) in all.iter().zip(&results) {
        assert!(lazy.iter().all(|text| !now.contains(text)), "{}: {now}", case.name);
    }
}
