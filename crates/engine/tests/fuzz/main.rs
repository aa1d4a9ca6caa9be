//! Fuzzing by grammar: statements over a catalog that mostly run; and by damage: files, streams, and the state of jobs. Whatever comes, there
//! is no panic, no hang, and no difference between the interpreter with one worker and compiled code with several, small buffers and everything spilled.
//!
//! `MILLSTREAM_FUZZ_SECONDS` is how long each test runs, `MILLSTREAM_FUZZ_SEED` where it begins (`make fuzz` has both).
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod files;
mod frames;
mod grammar;
mod state;
#[path = "../support/stopping.rs"]
mod stopping;

use millstream::connectors::display;
use millstream::{Code, Collected, DataType, Diagnostic, RunMonitor, Session, SessionConfig, code};
use state::{Checksums, Stopped};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Numbers that look random and are the same for a seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize) % n
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Panics of any thread, caught or not, but for those that the readers of Parquet and Arrow have of damaged files.
static PANICS: AtomicUsize = AtomicUsize::new(0);
/// What each test is trying, and since when, for messages about hangs.
static TRIED: Mutex<BTreeMap<u64, (Instant, String)>> = Mutex::new(BTreeMap::new());
/// A statement over some hundred rows that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `body` with the numbers of cases until the time is over: as many seconds as given, or as the variable says.
fn fuzz(seconds: u64, mut body: impl FnMut(u64, &mut Random)) {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Relaxed);
            before(panic);
        }));
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((since, what)) = tried.values().find(|(since, _)| since.elapsed() > PATIENCE) {
                    eprintln!("hangs for {:?}: {what}", since.elapsed());
                    std::process::exit(1);
                }
            }
        });
    });
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (seconds, seed) = (number("MILLSTREAM_FUZZ_SECONDS", seconds), number("MILLSTREAM_FUZZ_SEED", 1));
    let started = Instant::now();
    let mut cases = 0;
    while started.elapsed() < Duration::from_secs(seconds) {
        let case = seed.wrapping_mul(1_000_000) + cases;
        body(case, &mut Random::new(case));
        assert_eq!(PANICS.load(Relaxed), 0, "a panic in case {case}");
        cases += 1;
    }
    eprintln!("{cases} cases from seed {seed}");
}

/// The rows of the last query of a script as texts, in any order.
fn rows(session: &mut Session, sql: &str) -> Result<Vec<String>, Diagnostic> {
    let results = watched(sql, || results(session, sql))?;
    let types: Vec<DataType> = results.schema().fields.iter().map(|field| field.data_type.clone()).collect();
    let batch = results.into_batch()?;
    let row = |row: usize| {
        let mut text = Vec::new();
        for (column, data_type) in batch.columns().iter().zip(&types) {
            display::write_value(&mut text, column.as_ref(), row, data_type);
            text.push(b'|');
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    let mut rows: Vec<String> = (0..batch.num_rows()).map(row).collect();
    rows.sort_unstable();
    Ok(rows)
}

/// Does something that hangs if it takes long.
fn watched<T>(what: &str, body: impl FnOnce() -> T) -> T {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let tried = || TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    tried().insert(number, (Instant::now(), what.to_string()));
    let result = body();
    tried().remove(&number);
    result
}

fn results(session: &mut Session, sql: &str) -> Result<Collected, Diagnostic> {
    let mut last = Collected::new();
    for statement in &session.parse(sql)? {
        last = Collected::new();
        session.execute(statement, &mut last, &RunMonitor::new())?;
    }
    Ok(last)
}

fn session(settings: &[(&str, &str)]) -> Session {
    let mut session = Session::new(SessionConfig::default());
    settings.iter().for_each(|(key, value)| session.set(key, value).unwrap());
    session
}

/// Errors that no input may cause.
fn is_fault(code: Code) -> bool {
    [code::BUG, code::WORKER_FAILED, code::COMPILE_FAILED].contains(&code)
}

#[test]
fn tiers_agree_on_statements() {
    let tables = grammar::Tables::new();
    let (mut run, mut tried) = (0, 0);
    fuzz(20, |case, random| {
        let sql = grammar::statement(random);
        let mut answers = Vec::new();
        for settings in [
            &[("pipeline.tier", "interpreted"), ("parallelism.default", "1"), ("pipeline.adaptive", "never")][..],
            &[
                ("pipeline.tier", "compiled"),
                ("parallelism.default", "3"),
                ("pipeline.buffer-rows", "7"),
                ("pipeline.spill", "always"),
            ][..],
        ] {
            let mut session = session(settings);
            session.run(&tables.definitions).unwrap();
            answers.push(rows(&mut session, &sql));
        }
        tried += 1;
        match (&answers[0], &answers[1]) {
            (Ok(a), Ok(b)) => {
                run += 1;
                assert_eq!(a, b, "case {case}: {sql}");
            }
            // Which of several bad rows is met first depends on the order.
            (Err(a), Err(b)) => assert!(!is_fault(a.code) && !is_fault(b.code), "case {case}: {sql}\n{a}\n{b}"),
            (a, b) => panic!("case {case}: {sql}\n{a:?}\n{b:?}"),
        }
    });
    assert!(run * 2 > tried, "only {run} of {tried} statements ran");
}

#[test]
fn damaged_files_are_errors() {
    let samples = files::Samples::new();
    fuzz(20, |case, random| {
        let (what, sql) = samples.damaged(random);
        if let Err(error) = rows(&mut session(&[("parallelism.default", "2")]), &sql) {
            assert!(!is_fault(error.code), "case {case}: {what}: {error}");
        }
    });
}

#[test]
fn damaged_streams_are_errors() {
    let samples = files::Samples::new();
    fuzz(5, |case, random| {
        let (what, sql, mut session, server) = frames::damaged(&samples, random);
        let result = rows(&mut session, &sql);
        server.join().unwrap();
        if let Err(error) = result {
            assert!(!is_fault(error.code), "case {case}: {what}: {error}");
        }
    });
}

#[test]
fn damaged_state_is_found_or_not_needed() {
    let stopped = Stopped::new();
    let (mut gone_on, mut refused) = (0, 0);
    fuzz(8, |case, random| {
        let what = stopped.damage(random, Checksums::Kept);
        let workers = random.pick(&["1", "3"]);
        match watched(&what, || stopped.run(1_000_000, workers, true, None)) {
            Ok(has_ended) => {
                assert!(has_ended);
                let found = stopped.rows();
                let first = found.iter().zip(&stopped.expected).find(|(a, b)| a != b);
                let (has, wants) = (found.len(), stopped.expected.len());
                assert!(found == stopped.expected, "case {case}: {what}: {has} rows instead of {wants}, {first:?}");
                gone_on += 1;
            }
            Err(error) => {
                assert!(error.code.to_string().starts_with("MS301"), "case {case}: {what}: {error}");
                refused += 1;
            }
        }
    });
    assert!(gone_on > 0 && refused > 0, "{gone_on} jobs went on, {refused} were refused");
}

#[test]
fn damaged_state_with_right_checksums_does_no_harm() {
    let stopped = Stopped::new();
    fuzz(7, |case, random| {
        let what = stopped.damage(random, Checksums::Repaired);
        // Rows may be others then, for nothing says what was there; but there is an end, without a fault.
        if let Err(error) = watched(&what, || stopped.run(1_000_000, "2", true, None)) {
            assert!(!is_fault(error.code), "case {case}: {what}: {error}");
        }
    });
}
