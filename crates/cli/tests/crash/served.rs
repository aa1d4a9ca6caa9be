//! Twenty jobs under `millstream serve`, while the process is killed and ended, and files are edited, broken, taken away and brought back: no row
//! is lost or repeated, and nothing is left behind. `MILLSTREAM_SERVE_SECONDS=3600` goes on for an hour (`make soak-serve`).

use crate::draws::Draws;
use crate::how_often::how_often;
use crate::serving::Served;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

const JOBS: u64 = 20;
/// Rows of a window of 100 ms.
const OF_WINDOW: u64 = 20;
/// Bytes that the process may have beyond the budget of all jobs: code, threads, and what nobody counts.
const BEYOND: u64 = 500 << 20;
const MEMORY: u64 = 1400 << 20;

/// What a job does; `label` may change, and `least` decides what is kept.
fn script(job: u64, label: u64, least: u64) -> String {
    let source = "SET 'execution.checkpointing.interval' = '500 ms';
         CREATE TABLE s (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n * 5, 3), WATERMARK FOR ts AS ts) WITH ('connector'='datagen',
         'rows-per-second'='200', 'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='1000000000');";
    let sink = |columns: &str| {
        format!("CREATE TABLE o ({columns}) WITH ('connector'='filesystem', 'path'='out/{job}', 'format'='csv');")
    };
    let windows = "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))";
    match job % 3 {
        0 => format!(
            "{source} {} INSERT INTO o SELECT n, {label} FROM s WHERE n >= {least};",
            sink("n BIGINT, label BIGINT")
        ),
        1 => format!(
            "{source} {} INSERT INTO o SELECT MIN(n), COUNT(*), {label} {windows} WHERE n >= {least}
             GROUP BY window_start, window_end;",
            sink("least BIGINT, n BIGINT, label BIGINT")
        ),
        _ => format!(
            "{source} {} INSERT INTO o SELECT MIN(n), COUNT(*), {label} {windows} WHERE n >= {least}
             GROUP BY window_start, window_end, n % 4;",
            sink("least BIGINT, n BIGINT, label BIGINT")
        ),
    }
}

fn name(job: u64) -> String {
    format!("job-{job}")
}

/// The numbers that rows stand for have to be those from 0, each once.
fn check(job: u64, rows: &[String]) {
    let numbers = |row: &str| row.split(',').map(|field| field.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let mut firsts = Vec::new();
    for row in rows.iter().map(|row| numbers(row)) {
        let count = match job % 3 {
            0 => None,
            1 => Some(OF_WINDOW),
            _ => Some(OF_WINDOW / 4),
        };
        assert!(count.is_none_or(|count| row[1] == count), "{}: {row:?}", name(job));
        firsts.push(row[0]);
    }
    firsts.sort_unstable();
    let expected = |at: u64| match job % 3 {
        0 => at,
        1 => at * OF_WINDOW,
        _ => at / 4 * OF_WINDOW + at % 4,
    };
    let wrong = (0..).zip(&firsts).find(|(at, first)| **first != expected(*at));
    assert!(wrong.is_none(), "{}: {wrong:?} of {}", name(job), firsts.len());
    assert!(!firsts.is_empty(), "{} has written nothing", name(job));
}

/// Threads, open files and bytes of memory of the process.
fn held(served: &Served) -> (usize, usize, u64) {
    let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", served.id())).unwrap().count();
    let status = fs::read_to_string(format!("/proc/{}/status", served.id())).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    (count("task"), count("fd"), kib.unwrap_or(0u64) << 10)
}

struct Soak {
    served: Served,
    draws: Draws,
    labels: BTreeMap<u64, u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl Soak {
    fn write(&mut self, job: u64) {
        let text = script(job, self.labels[&job], 0);
        self.served.write(&name(job), &text);
    }

    fn all_run(&self) {
        (0..JOBS).for_each(|job| drop(self.served.until_is(&name(job), "running")));
    }

    fn happens(&mut self, ends_process: bool) {
        let job = self.draws.below(JOBS);
        let kinds = if ends_process { 8 } else { 6 };
        let what = match self.draws.below(kinds) {
            0 | 1 => {
                *self.labels.get_mut(&job).unwrap() += 1;
                self.write(job);
                "edits"
            }
            2 => {
                self.served.write(&name(job), "INSERT INTO nowhere SELEC 1");
                "broken files"
            }
            3 => {
                // Of the first kind nothing is kept, so it fits, and nothing is left out.
                let (label, least) = (self.labels[&job], u64::from(!job.is_multiple_of(3)) * 3);
                self.served.write(&name(job), &script(job, label, least));
                "edits that do not fit"
            }
            4 => {
                self.write(job);
                "files that are as they were"
            }
            5 => {
                let script = self.served.script(&name(job));
                if script.exists() {
                    fs::remove_file(script).unwrap();
                }
                "files that go"
            }
            6 => {
                self.served.kill();
                self.served.start();
                "kills"
            }
            _ => {
                let (code, log) = self.served.terminate();
                assert_eq!(code, Some(0), "{log}");
                self.served.start();
                "ends"
            }
        };
        *self.counts.entry(what).or_default() += 1;
        // What has gone comes back in the end.
        let other = self.draws.below(JOBS);
        self.write(other);
    }

    fn happens_until(&mut self, until: Instant, ends_process: bool) {
        while Instant::now() < until {
            self.happens(ends_process);
            std::thread::sleep(Duration::from_millis(100 + self.draws.below(1_500)));
            let bytes = held(&self.served).2;
            assert!(bytes < MEMORY + BEYOND, "the process has {} MiB\n{}", bytes >> 20, self.served.log());
        }
    }

    /// Brings all files back, and waits until all jobs run.
    fn settle(&mut self) -> (usize, usize, u64) {
        (0..JOBS).for_each(|job| self.write(job));
        let is_well = |job: &serde_json::Value| job["state"] == "running" && job["error"].is_null();
        (0..JOBS).for_each(|job| drop(self.served.until(&name(job), is_well)));
        // Files that are being written, and threads that answer requests, are there for moments.
        let samples = (0..50).map(|_| {
            std::thread::sleep(Duration::from_millis(40));
            held(&self.served)
        });
        samples.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1), a.2.min(b.2))).unwrap()
    }
}

#[test]
fn jobs_of_a_service_lose_and_repeat_nothing() {
    let seconds = Duration::from_secs(how_often("MILLSTREAM_SERVE_SECONDS", 15));
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::new(folder.path());
    served.options = vec!["--memory".into(), format!("{} MiB", MEMORY >> 20)];
    let labels = (0..JOBS).map(|job| (job, 0)).collect();
    let mut soak = Soak { served, draws: Draws(u64::from(std::process::id())), labels, counts: BTreeMap::new() };
    println!("seed {}", soak.draws.0);
    (0..JOBS).for_each(|job| soak.write(job));
    soak.served.start();
    soak.all_run();
    soak.happens_until(Instant::now() + seconds / 2, true);
    // What a process leaves behind is seen in one that lives.
    let before = soak.settle();
    soak.happens_until(Instant::now() + seconds / 2, false);
    let after = soak.settle();
    println!("{:?}; threads, files and bytes: {before:?}, then {after:?}", soak.counts);
    // A job may have a file open that it writes, or not.
    let (most_threads, most_files) = (before.0 + 8, before.1 + usize::try_from(JOBS).unwrap());
    let most_bytes = before.2 + (200 << 20);
    assert!(after.0 <= most_threads && after.1 <= most_files && after.2 <= most_bytes, "{before:?}, then {after:?}");
    let (code, log) = soak.served.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    (0..JOBS).for_each(|job| check(job, &soak.served.rows(&job.to_string())));
}
