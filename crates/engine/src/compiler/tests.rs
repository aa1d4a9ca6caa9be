//! Where code comes from, by queries of sessions with compilers of their own.

use super::*;
use crate::results::Collected;
use crate::{Outcome, RunMonitor, Session, SessionConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// A session that begins with nothing in memory, like one of another process, with a directory for code.
fn session(directory: &Path) -> Session {
    let mut session = Session::with_compiler(SessionConfig::default(), Arc::new(Compiler::new(4)));
    session.set("pipeline.tier", "compiled").unwrap();
    session.set("pipeline.code-cache", directory.to_str().unwrap()).unwrap();
    session
}

/// The values that a query gives, as text, and how its programs were compiled.
fn run(session: &mut Session, sql: &str) -> (String, Vec<Compilation>) {
    let statements = session.parse(sql).unwrap();
    let mut results = Collected::new();
    match session.execute(&statements[0], &mut results, &RunMonitor::new()).unwrap() {
        Outcome::Ran(stats) => (format!("{:?}", results.into_batch().unwrap().columns()), stats.compilations.clone()),
        other => panic!("{other:?}"),
    }
}

fn plus(constant: usize) -> String {
    format!("SELECT a + {constant} FROM (VALUES (1), (2)) AS t (a)")
}

/// Long strings, runtime functions, support functions, failing rows and a table: everything that code refers to.
const MANY: &str = "SELECT k, COUNT(*), SUM(d), MAX(UPPER(s)), MIN(x % 7) FROM (VALUES \
     (1, 'a string that is too long to be inline', CAST(1.5 AS DECIMAL(30, 2)), CAST(8.5 AS DOUBLE)), \
     (1, 'another string that is as long as that', CAST(2.5 AS DECIMAL(30, 2)), CAST(9.5 AS DOUBLE)), \
     (2, 'short', CAST(3.5 AS DECIMAL(30, 2)), CAST(9 AS DOUBLE))) AS t (k, s, d, x) \
     WHERE s <> 'a third string that is none of them' AND d / 3 > 0 GROUP BY k";

fn many(session: &mut Session) -> (String, Vec<CodeOrigin>) {
    session.set("execution.runtime-mode", "batch").unwrap();
    session.set("parallelism.default", "1").unwrap();
    let (rows, compilations) = run(session, MANY);
    assert!(compilations.iter().all(|c| c.cache_problem.is_none()), "{compilations:?}");
    (rows, compilations.iter().map(|c| c.origin).collect())
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_same_program_is_compiled_once_and_others_push_it_out() {
    let mut session = Session::with_compiler(SessionConfig::default(), Arc::new(Compiler::new(4)));
    session.set("pipeline.tier", "compiled").unwrap();
    let mut origin = |n| run(&mut session, &plus(n)).1[0].origin;
    assert_eq!([1, 1, 2].map(&mut origin), [CodeOrigin::Compiled, CodeOrigin::Memory, CodeOrigin::Compiled]);
    (3..7).for_each(|n| assert_eq!(origin(n), CodeOrigin::Compiled));
    assert_eq!(origin(1), CodeOrigin::Compiled);
}

#[test]
fn sessions_of_a_process_share_code() {
    let compiler = Arc::new(Compiler::new(4));
    let origin = || {
        let mut session = Session::with_compiler(SessionConfig::default(), compiler.clone());
        session.set("pipeline.tier", "compiled").unwrap();
        run(&mut session, &plus(1)).1[0].origin
    };
    assert_eq!([origin(), origin()], [CodeOrigin::Compiled, CodeOrigin::Memory]);
}

#[test]
fn the_next_process_compiles_nothing_and_gives_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (rows, origins) = many(&mut session(directory.path()));
    assert!(!origins.is_empty() && origins.iter().all(|o| *o == CodeOrigin::Compiled));
    let mut next = session(directory.path());
    let (again, from_disk) = many(&mut next);
    assert_eq!(again, rows);
    assert_eq!(from_disk, vec![CodeOrigin::Disk; origins.len()]);
    assert_eq!(many(&mut next), (rows, vec![CodeOrigin::Memory; origins.len()]));
}

#[test]
fn damaged_files_are_compiled_again_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    let (rows, _) = run(&mut session(directory), &plus(1));
    let [file] = files(directory).try_into().unwrap();
    let whole = fs::read(&file).unwrap();
    let spoil = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        let (again, compilations) = run(&mut session(directory), &plus(1));
        assert_eq!((again, compilations[0].origin), (rows.clone(), CodeOrigin::Compiled), "{what}");
        let problem = compilations[0].cache_problem.as_deref().unwrap_or_default();
        assert!(problem.contains(file.to_str().unwrap()), "{what}: {problem}");
        let (again, compilations) = run(&mut session(directory), &plus(1));
        assert_eq!((again, compilations[0].origin), (rows.clone(), CodeOrigin::Disk), "after {what}");
    };
    spoil(&[], "an empty file");
    spoil(&whole[..whole.len() - 1], "a truncated file");
    spoil(&whole[..20], "less than a header");
    spoil(&[&whole[..], b"x"].concat(), "a longer file");
    spoil(b"#!/bin/sh", "a foreign file");
    for place in (0..whole.len()).step_by(whole.len() / 20) {
        let mut flipped = whole.clone();
        flipped[place] ^= 1 << (place % 8);
        spoil(&flipped, &format!("a flipped bit in byte {place}"));
    }
}

#[test]
fn the_code_of_another_program_or_machine_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    run(&mut session(directory), &plus(1));
    let one = files(directory)[0].clone();
    run(&mut session(directory), &plus(2));
    let two = files(directory).into_iter().find(|file| *file != one).unwrap();
    fs::copy(&two, &one).unwrap();
    let (rows, compilations) = run(&mut session(directory), &plus(1));
    assert_eq!((&rows, compilations[0].origin), (&run(&mut session(directory), &plus(1)).0, CodeOrigin::Compiled));
    assert!(compilations[0].cache_problem.as_ref().unwrap().ends_with("is for another program or machine"));
}

#[test]
fn a_directory_that_cannot_be_made_or_is_open_to_others_fails_no_query() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no directory").unwrap();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    run(&mut session(&open), &plus(1));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for directory in [file.join("code"), PathBuf::from("/proc/millstream"), open] {
        for _ in 0..2 {
            let (_, compilations) = run(&mut session(&directory), &plus(1));
            assert_eq!(compilations[0].origin, CodeOrigin::Compiled);
            let problem = compilations[0].cache_problem.as_ref().unwrap();
            assert!(problem.contains(directory.to_str().unwrap()), "{problem}");
        }
    }
}

#[test]
fn processes_may_read_and_write_a_directory_at_once() {
    let folder = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in (0..4).chain(0..4) {
                    let (rows, compilations) = run(&mut session(folder.path()), &plus(n));
                    assert!(rows.contains(&format!("{},\n  {},", 1 + n, 2 + n)), "{rows}");
                    assert_eq!(compilations[0].cache_problem, None);
                }
            });
        }
    });
    assert_eq!(files(folder.path()).len(), 4);
}

#[test]
fn queries_that_have_ended_compile_nothing_in_the_background() {
    let compiler = QueryCompiler::new(Arc::new(Compiler::new(4)), None, 1 << 29);
    let mut program = Program {
        name: "nothing".into(),
        inputs: vec![],
        types: vec![],
        strings: vec![],
        sites: vec![],
        body: vec![],
        terminal: Terminal::Emit(vec![]),
    };
    assert_eq!(compiler.compile(&program).unwrap().compilation.origin, CodeOrigin::Compiled);
    program.types = vec![millstream_abi::Phys::I64; 6_000];
    assert_eq!(
        compiler.compile(&program).err().unwrap().code,
        code::COMPILE_FAILED,
        "it takes more than half of the memory"
    );
    program.types.clear();
    compiler.end();
    assert_eq!(compiler.compile(&program).err().unwrap().code, code::CANCELLED);
}

#[test]
fn what_a_program_will_take_follows_from_what_others_took() {
    let compiler = Compiler::new(4);
    let program = |values| Program {
        name: "nothing".into(),
        inputs: vec![],
        types: vec![millstream_abi::Phys::I64; values],
        strings: vec![],
        sites: vec![],
        body: vec![],
        terminal: Terminal::Emit(vec![]),
    };
    assert_eq!(compiler.expected_time(&program(0)), Duration::from_millis(13));
    (0..40).for_each(|_| compiler.note_time(&program(40), Duration::from_millis(100)));
    let expected = compiler.expected_time(&program(90)).as_millis();
    assert!((195..=205).contains(&expected), "{expected} ms");
}
