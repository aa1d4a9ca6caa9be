//! The command line.

use crate::benchmarks::{BuildPair, OneWorkload, Window};
use crate::generator::Plan;
use crate::suite::{Failure, Options};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

/// Measures Millstream beside its baselines.
///
/// Every repetition runs all systems of a case in turn; results are compared before figures are printed. See
/// docs/benchmarks.md.
#[derive(Debug, Parser)]
#[command(name = "millstream bench", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Benchmarks to run [default: those that take a minute at most]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Run all benchmarks that end by themselves, also those that take minutes
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// List the benchmarks
    #[arg(long)]
    pub(crate) list: bool,
    /// Print a JSON object for each repetition and system instead of tables (these go to standard error)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a report with plots into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Add the records of another run, lines of JSON, to the report; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) merge: Vec<PathBuf>,
    /// Threads of each system [default: number of cores]
    #[arg(long, env = "MILLSTREAM_BENCH_THREADS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Repetitions of each system, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Run only this case, or the cases of this figure, such as `keys/keys=100` or `keys`
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Run only systems whose name starts with this, for a profile of one of them
    #[arg(long, value_name = "NAME")]
    system: Option<String>,
    /// Multiply the numbers of rows by this
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    rows_scale: f64,
    /// Minutes that `soak` runs
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    soak_minutes: f64,
    /// Run one query once, without measuring it: what `resources` starts under valgrind
    #[arg(long, value_name = "QUERY", hide = true)]
    pub(crate) once: Option<String>,
    /// Rows of that query
    #[arg(long, value_name = "N", hide = true, default_value_t = 100_000)]
    pub(crate) once_rows: u64,
    /// Run it over twice as many
    #[arg(long, hide = true)]
    pub(crate) once_twice: bool,
    /// Folder for generated files, which later runs find
    #[arg(long, env = "MILLSTREAM_BENCH_DIR", value_name = "DIR", default_value = "target/bench")]
    directory: PathBuf,
}

/// What is no benchmark.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Generate(Plan),
    Compare(BuildPair),
    #[command(hide = true)]
    Workload(OneWorkload),
    #[command(hide = true)]
    Window(Window),
}

impl Arguments {
    /// What the suite wants to know.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        if !(self.rows_scale > 0.0 && self.rows_scale.is_finite()) {
            return Err(format!("--rows-scale {}: a factor above 0 is wanted", self.rows_scale).into());
        }
        Ok(Options {
            threads: match self.threads {
                Some(threads) => threads.into(),
                None => std::thread::available_parallelism()?.get(),
            },
            repetitions: self.repetitions.into(),
            case: self.case.clone(),
            system: self.system.clone(),
            rows_scale: self.rows_scale,
            json: self.json,
            soak: Duration::try_from_secs_f64(self.soak_minutes * 60.0)?,
            directory: self.directory.clone(),
        })
    }
}

/// The processor and the commit, as far as they can be found out.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    let folder = option_env!("CARGO_MANIFEST_DIR").map_or(Path::new("."), Path::new);
    let commit = process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(folder).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    format!(
        "{} ({}, {}), commit {commit}",
        cpu.as_deref().unwrap_or("unknown processor"),
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}
