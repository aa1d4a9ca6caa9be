//! The suite: what a benchmark says about itself, how its systems are run in turn, compared and reported.
//!
//! A [`Benchmark`] measures groups of [`Case`]s; a case is the same work done by several [`System`]s. [`Suite::measure`]
//! runs all systems of a group in turn, so that a change of the machine's speed meets all of them, compares what they
//! return, and only then prints medians and ratios. Every repetition of every system is a [`Record`]: a line of JSON, and
//! what the report is drawn from.

mod allocations;
mod bandwidth;
mod checksum;
mod columns;
mod curves;
mod discard;
mod measure;
mod output_rows;
mod peer;
mod plots;
mod process;
mod record;
mod report;
mod written;

#[cfg(test)]
pub(crate) use allocations::waits;
pub(crate) use allocations::{Counting, allocations};
pub(crate) use checksum::{Adder, Checksum, hash_double, hash_text, query};
pub(crate) use columns::{Columns, Random, session};
pub(crate) use curves::{CURVE, EVENTS};
pub(crate) use discard::{collect, discard, first_checked};
pub(crate) use measure::{Across, Case, Measured, System, median, timed};
pub(crate) use output_rows::{Kind, OutputRows};
pub(crate) use peer::Peer;
pub(crate) use process::{code_mappings, peak_resident_bytes, process_time, resident_bytes};
pub(crate) use record::Record;
pub(crate) use report::write as write_report;
pub(crate) use written::Written;

use bandwidth::Bandwidth;
use millstream::Session;
use std::cell::RefCell;
use std::error::Error;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Why a benchmark ends: a query failed, results differ.
pub(crate) type Failure = Box<dyn Error>;

/// A session, a query, and the number of rows that it runs over.
pub(crate) type Prepared = (Session, String, u64);

/// What a benchmark is, in its own words, and how to run it.
#[derive(Debug)]
pub(crate) struct Benchmark {
    /// On the command line and in the records.
    pub(crate) name: &'static str,
    /// A heading.
    pub(crate) title: &'static str,
    /// The rows that it runs over.
    pub(crate) data: &'static str,
    /// What is asked of them.
    pub(crate) query: &'static str,
    /// What is inside the measured time, and what is not.
    pub(crate) measured: &'static str,
    /// When it runs.
    pub(crate) runs: Runs,
    /// Runs its cases.
    pub(crate) run: fn(&mut Suite) -> Result<(), Failure>,
}

/// When a benchmark runs; always when it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Without names on the command line.
    Always,
    /// With `--all`: it takes minutes.
    WithAll,
    /// Only when it is named: it does not end by itself, or does not measure speed.
    Named,
}

/// How benchmarks are to be run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Threads of every system.
    pub(crate) threads: usize,
    /// Repetitions of every system, after one to warm up.
    pub(crate) repetitions: usize,
    /// The case that runs, or the figure whose cases run.
    pub(crate) case: Option<String>,
    /// What the names of systems that run start with.
    pub(crate) system: Option<String>,
    /// What numbers of rows are multiplied with.
    pub(crate) rows_scale: f64,
    /// Whether standard output gets records instead of text.
    pub(crate) json: bool,
    /// How long `soak` runs.
    pub(crate) soak: Duration,
    /// Where generated files are kept between runs.
    pub(crate) directory: PathBuf,
}

/// Runs benchmarks and keeps what they measured.
#[derive(Debug)]
pub(crate) struct Suite {
    /// How to run.
    pub(crate) options: Options,
    /// The name of the benchmark that runs.
    current: &'static str,
    bandwidth: Rc<RefCell<Bandwidth>>,
    records: Vec<Record>,
}

impl Suite {
    /// Nothing measured yet.
    pub(crate) fn new(options: Options) -> Suite {
        let bandwidth = Rc::new(RefCell::new(Bandwidth::new(options.rows_scale)));
        Suite { options, current: "", bandwidth, records: Vec::new() }
    }

    /// Runs a benchmark.
    pub(crate) fn run(&mut self, benchmark: &'static Benchmark) -> Result<(), Failure> {
        self.current = benchmark.name;
        self.say(&format!(
            "\n{}: {}\n  data:     {}\n  query:    {}\n  measured: {}",
            benchmark.name,
            benchmark.title,
            one_line(benchmark.data),
            one_line(benchmark.query),
            one_line(benchmark.measured)
        ));
        (benchmark.run)(self).map_err(|error| format!("{}: {error}", benchmark.name).into())
    }

    /// Threads of the systems.
    pub(crate) fn threads(&self) -> usize {
        self.options.threads
    }

    /// One thread, and all that were asked for: what scaling is computed from.
    pub(crate) fn thread_counts(&self) -> Vec<usize> {
        if self.options.threads > 1 { vec![1, self.options.threads] } else { vec![1] }
    }

    /// A number of rows, scaled as the command line asks; at least 1,000.
    pub(crate) fn rows(&self, rows: u64) -> u64 {
        ((rows as f64 * self.options.rows_scale) as u64).max(1000)
    }

    /// Makes data, and says how long that took.
    pub(crate) fn generate<T>(&self, what: &str, make: impl FnOnce() -> T) -> T {
        let (seconds, made) = timed(make);
        self.say(&format!("  generated {what} in {seconds:.2} s"));
        made
    }

    /// Text for people: to standard output, or beside it when that is for records.
    pub(crate) fn say(&self, text: &str) {
        if self.options.json {
            eprintln!("{text}");
        } else {
            println!("{text}");
        }
    }

    /// Says which targets were missed, if any were.
    pub(crate) fn say_missed(&self, missed: &[String]) {
        if !missed.is_empty() {
            self.say(&format!("  targets that were missed:\n    {}", missed.join("\n    ")));
        }
    }

    /// Keeps a record, and prints it when records are asked for.
    pub(crate) fn record(&mut self, record: Record) -> Result<(), Failure> {
        if self.options.json {
            println!("{}", serde_json::to_string(&record)?);
        }
        self.records.push(record);
        Ok(())
    }

    /// Says which program LLVM took longest for.
    pub(crate) fn say_longest_compilation(&self) {
        let time = |record: &Record| record.more.get(measure::COMPILE_MS).and_then(serde_json::Value::as_f64);
        let longest = self.records.iter().filter_map(|r| Some((time(r)?, r))).max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((ms, record)) = longest {
            self.say(&format!(
                "\nlongest compilation of a program: {ms:.0} ms ({}, {})",
                record.benchmark, record.case
            ));
        }
    }

    /// All that was measured.
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }
}

/// Text of a constant without the indentation of its lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A suite for little data.
    pub(crate) fn small(folder: &std::path::Path) -> Suite {
        Suite::new(Options {
            threads: 2,
            repetitions: 1,
            case: None,
            system: None,
            rows_scale: 0.001,
            json: false,
            soak: Duration::ZERO,
            directory: folder.to_path_buf(),
        })
    }

    fn of(rows: &[[i64; 2]]) -> Result<Checksum, Failure> {
        let mut sum = Checksum::default();
        rows.iter().for_each(|row| sum.add(row));
        Ok(sum)
    }

    #[test]
    fn systems_that_differ_are_reported_and_not_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut suite = small(folder.path());
        let case = || Case::new("c", 10).with(System::new("one", 1, || of(&[[1, 2], [3, 4]])));
        suite.measure(Across::Different, vec![case().with(System::new("two", 1, || of(&[[3, 4], [1, 2]])))]).unwrap();
        assert_eq!(suite.records().len(), 2);
        let other = case().with(System::new("two", 1, || of(&[[3, 4], [2, 1]])));
        let error = suite.measure(Across::Different, vec![other]).unwrap_err().to_string();
        assert!(error.starts_with("c: the result of two is 2 "), "{error}");
        let cases = vec![case(), Case::new("d", 10).with(System::new("one", 1, || of(&[[1, 2]])))];
        assert!(suite.measure(Across::Same, cases).is_err());
        assert_eq!(suite.records().len(), 2);
    }

    #[test]
    fn a_record_is_a_line_of_json_with_the_measures_of_its_benchmark() {
        let line = r#"{"benchmark":"b","case":"sliding/windows=10","system":"flink","threads":2,"rows":7,"seconds":2.0,"rows_per_s":3.5,"compile_ms":8}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!((record.figure(), record.parameter()), ("sliding", Some(("windows", 10.0))));
        assert_eq!(record.more["compile_ms"], 8);
        let again: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(again, record);
    }

    #[test]
    fn a_process_answers_each_line_with_its_time_and_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let suite = small(folder.path());
        let script =
            r#"echo ready; while read line; do echo '{"seconds": 0.5, "checksum": "3 77", "compile_ms": 1}'; done"#;
        let start = |script: &str| {
            let mut command = std::process::Command::new("sh");
            Peer::system(&suite, "peer", 1, command.arg("-c").arg(script))
        };
        assert!(start("exit 0").is_none());
        let mut suite = small(folder.path());
        suite.measure(Across::Different, vec![Case::new("c", 10).with(start(script).unwrap())]).unwrap();
        let record = &suite.records()[0];
        assert_eq!((record.seconds, record.rows_per_s, record.checksum.as_deref()), (0.5, 20.0, Some("3 77")));
        let case = Case::new("c", 10).with(start("echo ready; read line; echo '{}'").unwrap());
        let error = suite.measure(Across::Different, vec![case]).unwrap_err().to_string();
        assert!(error.contains("no `seconds`"), "{error}");
    }
}
