//! The shell in a terminal, which `script` of util-linux makes: however it ends, the terminal is as it was.

use crate::alone;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs commands of sh in a terminal that `script` makes, where `$UNDER_TEST` is the program; what is shown goes to the file `shown`. `None`: there is no
/// command `script`.
fn in_terminal(folder: &Path, commands: &str) -> Option<Child> {
    Command::new("script")
        .args(["--quiet", "--command", commands, "/dev/null"])
        .current_dir(folder)
        .env("UNDER_TEST", env!("CARGO_BIN_EXE_millstream"))
        .env("XDG_STATE_HOME", folder)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::piped())
        .stdout(File::create(folder.join("shown")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was_and_the_history_whole() {
    let _alone = alone();
    for signal in ["TERM", "HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let read = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
        let commands =
            "stty -g > before; sh -c 'echo $$ > process; exec \"$UNDER_TEST\" sql'; echo $? > code; stty -g > after";
        let Some(mut terminal) = in_terminal(folder.path(), commands) else {
            println!("not run: there is no command 'script'");
            return;
        };
        let mut keys = terminal.stdin.take().unwrap();
        keys.write_all(b"SELECT 40 + 2;\r").unwrap();
        let since = Instant::now();
        // The prompt behind the answer: the shell edits the next line, and has the terminal in its own way.
        let is_asked_again = || {
            let shown = fs::read(path("shown")).unwrap_or_default();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            shown.split_once("(1 row)").is_some_and(|(_, rest)| rest.contains("millstream>"))
        };
        while !is_asked_again() {
            assert!(since.elapsed() < Duration::from_secs(30), "no answer: {}", read("shown"));
            std::thread::sleep(Duration::from_millis(20));
        }
        let process = read("process").trim().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &process]).status().unwrap().success());
        while read("after").is_empty() {
            assert!(since.elapsed() < Duration::from_secs(60), "SIG{signal} did not end the shell");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(keys);
        terminal.wait().unwrap();
        assert_eq!(read("before"), read("after"), "SIG{signal}");
        assert_ne!(read("code").trim(), "0", "SIG{signal}");
        assert!(read("millstream/history").contains("SELECT 40 + 2;"), "SIG{signal}: {}", read("millstream/history"));
    }
}

/// What a terminal of 60 columns and 12 rows gets of `run --output live`; `None` where there is no terminal.
fn live(sql: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("job.sql"), sql).unwrap();
    let commands = "stty cols 60 rows 12; \"$UNDER_TEST\" run job.sql --output live; echo $? > code";
    let mut terminal = in_terminal(folder.path(), commands)?;
    let keys = terminal.stdin.take();
    let since = Instant::now();
    while fs::read_to_string(path("code")).unwrap_or_default().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(30), "it has not ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(keys);
    terminal.wait().unwrap();
    Some(fs::read_to_string(path("shown")).unwrap())
}

/// The rows of a result that changes are replaced where they stand, in the order of their keys.
#[test]
fn a_live_table_keeps_changing_rows_in_their_places() {
    let sql = "CREATE TABLE g (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
        'fields.id.end' = '600', 'rows-per-second' = '600'); SET 'execution.runtime-mode' = 'streaming';
        SET 'sql-client.execution.result-mode' = 'changelog';
        SELECT 2 - MOD(id, 3) AS k, COUNT(*) AS n FROM g GROUP BY MOD(id, 3);";
    let Some(shown) = live(sql) else {
        println!("not run: there is no command 'script'");
        return;
    };
    let pictures: Vec<Vec<(u64, u64)>> = shown
        .split("\x1b[J")
        .map(|picture| {
            let cells =
                picture.lines().map(|line| line.split_whitespace().map_while(|cell| cell.parse().ok()).collect());
            cells.filter_map(|cells: Vec<u64>| if let [k, n] = cells[..] { Some((k, n)) } else { None }).collect()
        })
        .filter(|rows: &Vec<(u64, u64)>| !rows.is_empty())
        .collect();
    let sums: Vec<u64> = pictures.iter().map(|rows| rows.iter().map(|(_, n)| n).sum()).collect();
    assert!(sums.len() > 5 && sums.is_sorted(), "{sums:?}");
    assert_eq!(*pictures.last().unwrap(), [(0, 200), (1, 200), (2, 200)], "{shown}");
    assert!(pictures.iter().all(|rows| rows.is_sorted_by(|a, b| a.0 < b.0)), "{pictures:?}");
    assert!(shown.contains("(3 rows)"), "{shown}");
}

/// Tables that stay where they are.
#[test]
fn a_live_table_shows_the_newest_rows_and_their_number() {
    let sql = "CREATE TABLE g (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
        'fields.id.end' = '40', 'rows-per-second' = '40'); SELECT id, 'a text that is as wide as the terminal is, and more' AS t FROM g;
        SELECT 1 AS behind;";
    let Some(shown) = live(sql) else {
        println!("not run: there is no command 'script'");
        return;
    };
    let (first, second) = shown.split_once("(40 rows)").unwrap();
    let pictures: Vec<&str> = first.split("\x1b[J").collect();
    assert!(pictures.len() > 5, "{shown}");
    let last: Vec<&str> = pictures.last().unwrap().lines().map(str::trim_end).collect();
    let rows: Vec<&str> = last[2..9].iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["34", "35", "36", "37", "38", "39", "40"], "{last:?}");
    assert_eq!(last.len(), 9, "the number of rows comes next: {last:?}");
    assert!(last.iter().all(|line| line.chars().count() < 60), "{last:?}");
    // The next table stands below, and takes nothing of this one away.
    let (summary, next) = second.split_once("rows/s)").unwrap();
    assert!(summary.contains("40 rows in, 40 rows out"), "{second}");
    let next = screen(next);
    assert!(next.iter().any(|line| line.trim() == "behind") && next.iter().any(|line| line == "(1 row)"), "{second}");
}

/// The lines that a terminal shows in the end: of control sequences it knows "lines up" and "erase what follows", which must stay within
/// `text`.
fn screen(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut pieces = text.split("\x1b[");
    let print = |lines: &mut Vec<String>, piece: &str| {
        for (i, part) in piece.replace('\r', "").split('\n').enumerate() {
            if i > 0 {
                lines.push(String::new());
            }
            lines.last_mut().unwrap().push_str(part);
        }
    };
    print(&mut lines, pieces.next().unwrap());
    for piece in pieces {
        let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap();
        let (number, rest) = piece.split_at(digits);
        match rest.as_bytes()[0] {
            b'A' => {
                let up = number.parse::<usize>().unwrap();
                assert!(up < lines.len(), "{up} lines up, of {}: {text}", lines.len());
                lines.truncate(lines.len() - up);
                lines.last_mut().unwrap().clear();
            }
            b'J' => {}
            other => panic!("ESC [ {}: {text}", other as char),
        }
        print(&mut lines, &rest[1..]);
    }
    lines
}
