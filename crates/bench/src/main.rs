//! `millstream bench`, `make bench`: Millstream beside its baselines, in one process run, as ratios.
//!
//! The benchmarks are in [`benchmarks`], one in each file; what runs, compares and reports them is in [`suite`].
#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "figures go to standard output")]

#[path = "../../cli/src/allocator.rs"]
mod allocator;
mod arguments;
mod benchmarks;
mod by_hand;
mod generator;
mod iterator;
mod suite;

use arguments::{Arguments, Command};
use benchmarks::BENCHMARKS;
use clap::Parser;
use std::process::ExitCode;
use suite::{Benchmark, Counting, Failure, Record, Runs, Suite};

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(Command::Generate(plan)) => return generator::command(plan),
        Some(Command::Compare(comparison)) => return comparison.run(),
        Some(Command::Workload(workload)) => {
            println!("{}", workload.run()?);
            return Ok(());
        }
        Some(Command::Window(window)) => {
            allocator::measure_memory();
            println!("{}", window.once()?);
            return Ok(());
        }
        None => {}
    }
    if arguments.list {
        for benchmark in BENCHMARKS {
            println!("{:<12} {}", benchmark.name, benchmark.title);
        }
        return Ok(());
    }
    if let Some(name) = &arguments.once {
        println!("{}", benchmarks::once(name, arguments.once_rows, arguments.once_twice)?);
        return Ok(());
    }
    let chosen = chosen(&arguments.names, arguments.all)?;
    // Rows that a benchmark holds are not to be taken for what a query holds. These have none.
    if chosen.iter().all(|benchmark| ["resources", "soak", "state"].contains(&benchmark.name)) {
        allocator::measure_memory();
    }
    let mut suite = Suite::new(arguments.options()?);
    let machine = format!("{} threads, {}", suite.threads(), arguments::machine());
    suite.say(&machine);
    for file in &arguments.merge {
        for record in read(file)? {
            suite.record(record)?;
        }
    }
    let ran = chosen.iter().try_for_each(|benchmark| suite.run(benchmark));
    suite.say_longest_compilation();
    // A benchmark that failed leaves the figures of those before it.
    if let Some(folder) = &arguments.report {
        suite::write_report(folder, BENCHMARKS, suite.records(), &machine)?;
        suite.say(&format!("\nreport: {}", folder.join("index.html").display()));
    }
    ran
}

/// The benchmarks that were named; all, or those that run by default, when none is.
fn chosen(names: &[String], all: bool) -> Result<Vec<&'static Benchmark>, Failure> {
    if let Some(unknown) = names.iter().find(|name| !BENCHMARKS.iter().any(|b| b.name == *name)) {
        let known = BENCHMARKS.iter().map(|b| b.name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no benchmark `{unknown}`; there are {known}").into());
    }
    let is_chosen = |b: &Benchmark| {
        if names.is_empty() {
            b.runs == Runs::Always || (all && b.runs == Runs::WithAll)
        } else {
            names.iter().any(|name| name == b.name)
        }
    };
    Ok(BENCHMARKS.iter().copied().filter(|b| is_chosen(b)).collect())
}

/// The records of another run.
fn read(file: &std::path::Path) -> Result<Vec<Record>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| format!("{}, line {}: {e}", file.display(), number + 1).into())
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every benchmark compares what its systems return; here over little data, and the report is drawn. Those that take
    /// minutes ask the same queries of more data.
    #[test]
    fn all_systems_of_every_benchmark_agree_on_small_data() {
        let folder = tempfile::tempdir().unwrap();
        let mut suite = suite::tests::small(folder.path());
        for benchmark in BENCHMARKS.iter().filter(|b| b.runs == Runs::Always) {
            suite.run(benchmark).unwrap();
            assert!(suite.records().iter().any(|record| record.benchmark == benchmark.name));
        }
        suite::write_report(folder.path(), BENCHMARKS, suite.records(), "a machine").unwrap();
        let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
        for record in suite.records() {
            assert!(page.contains(&format!("<h2 id=\"{}\">", record.benchmark)));
        }
        assert_eq!(read(&folder.path().join("records.jsonl")).unwrap().len(), suite.records().len());
        let plots = std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "svg"));
        assert_eq!(plots.count(), page.matches("<img ").count());
    }

    #[test]
    fn benchmarks_are_chosen_by_name() {
        let names = |chosen: Vec<&'static Benchmark>| chosen.iter().map(|b| b.name).collect::<Vec<_>>();
        assert_eq!(names(chosen(&["ysb".into()], false).unwrap()), ["ysb"]);
        assert!(chosen(&["tpch".into()], false).unwrap_err().to_string().contains("there are ysb, "));
        assert!(!names(chosen(&[], true).unwrap()).contains(&"soak"));
        assert!(!names(chosen(&[], false).unwrap()).contains(&"keys"));
    }
}
