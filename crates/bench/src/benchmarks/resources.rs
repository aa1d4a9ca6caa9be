//! Instructions, cache misses and mispredicted branches per row, counted by valgrind's cachegrind, as virtual machines have no
//! hardware counters for that.
//!
//! The program starts itself under valgrind, once for some rows and once for twice as many over the same windows. The
//! difference is what rows cost, without start, compilation and output. Both make all rows, so this cancels out, too.

use super::{operators, ysb};
use crate::suite::{Benchmark, Checksum, Failure, Record, Runs, Suite, query};
use serde_json::{Map, json};
use std::process::Command;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "resources",
    title: "instructions and cache behaviour per row (Zeuch, table 1; Grizzly, table 1)",
    data: "400,000 and 800,000 rows of ysb (event_type TINYINT, 100 campaigns) and of operators, in memory",
    query: "those of ysb (count) and operators",
    measured: "with one thread under valgrind --tool=cachegrind, which models two levels of caches of this machine's sizes and a
               simple branch predictor: twice the rows minus once the rows",
    runs: Runs::Named,
    run,
};

const ROWS: u64 = 400_000;
/// Event time that the rows span, however many they are.
const SPAN_MS: u64 = 40_000;

/// What cachegrind calls them, and the fields of the record.
const COUNTERS: [(&str, &str); 5] = [
    ("I refs:", "instructions"),
    ("Mispredicts:", "mispredicts"),
    ("I1 misses:", "i1_misses"),
    ("D1 misses:", "d1_misses"),
    ("LLd misses:", "ll_misses"),
];

/// Counts for each system of ysb and for each operator.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let rows = suite.rows(ROWS);
    let header = COUNTERS.map(|(_, field)| format!("{field:>13}")).join("");
    suite.say(&format!("  {:<44}{header}   each per row", ""));
    let of_ysb = ysb::SYSTEMS.map(|system| format!("ysb/{system}"));
    let of_operators = operators::OPERATORS.map(|(name, ..)| format!("millstream/{name}"));
    for name in of_ysb.into_iter().chain(of_operators) {
        let (few, many) = (count(&name, rows, false)?, count(&name, rows, true)?);
        let per_row = few.iter().zip(&many).map(|(few, many)| (many - few) / rows as f64);
        let more: Map<_, _> = COUNTERS
            .iter()
            .zip(per_row)
            .map(|((_, field), value)| (format!("{field}_per_row"), json!(value)))
            .collect();
        let values: String = more.values().map(|v| format!("{:>13.3}", v.as_f64().unwrap_or_default())).collect();
        suite.say(&format!("  {name:<44}{values}"));
        let (case, system) = name.split_once('/').unwrap_or((&name, "millstream"));
        let (case, system) = if case == "ysb" { (case, system) } else { (system, case) };
        suite.record(Record {
            benchmark: BENCHMARK.name.into(),
            case: case.into(),
            system: system.into(),
            threads: 1,
            rows,
            seconds: 0.0,
            rows_per_s: 0.0,
            bytes_per_s: 0.0,
            checksum: None,
            more,
        })?;
    }
    Ok(())
}

/// Runs this program under valgrind, for one query.
fn count(name: &str, rows: u64, is_twice: bool) -> Result<[f64; COUNTERS.len()], Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--branch-sim=yes", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["--once", name, "--once-rows", &rows.to_string()])
        .args(is_twice.then_some("--once-twice"))
        .output()
        .map_err(|e| format!("valgrind does not start: {e}; the package `valgrind` of the system has it"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("`{name}` failed under valgrind:\n{text}").into());
    }
    let mut counts = [0.0; COUNTERS.len()];
    for (count, (label, _)) in counts.iter_mut().zip(COUNTERS) {
        *count = counter(&text, label).ok_or_else(|| format!("valgrind does not say `{label}`:\n{text}"))?;
    }
    Ok(counts)
}

/// The number after a label, such as `==7== D1  misses:  1,234  ( 1,000 rd + 234 wr)`.
pub(super) fn counter(text: &str, label: &str) -> Option<f64> {
    let mut lines = text.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "));
    let line = lines.find(|line| line.starts_with(label))?;
    let number = line[label.len()..].split_whitespace().next()?;
    number.replace(',', "").parse().ok()
}

/// Runs one query over `rows` rows or twice as many, having made both; this is what valgrind watches.
pub(crate) fn once(name: &str, rows: u64, is_twice: bool) -> Result<Checksum, Failure> {
    let sizes = [rows, 2 * rows];
    match name.split_once('/') {
        Some(("ysb", system)) => {
            let [few, many] = sizes.map(|rows| ysb::Counted::new(rows, SPAN_MS));
            if is_twice { many } else { few }.run(system)
        }
        Some(("millstream", operator)) => {
            let (_, _, sql) =
                operators::OPERATORS.iter().find(|(name, ..)| *name == operator).ok_or("no such operator")?;
            let [few, many] = sizes.map(|rows| operators::generate(rows, |row| row * SPAN_MS / rows));
            let (few, many) = (few?, many?);
            let measured = query(&mut operators::open(if is_twice { &many } else { &few }, 1)?, sql)?;
            Ok(measured.checksum.unwrap_or_default())
        }
        _ => Err(format!("`{name}` is nothing that can be run once").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_what_valgrind_says() {
        let text = "==7== Cachegrind\n==7== I   refs:      1,234,567\n==7== D1  misses:      12  (10 rd   + 2 wr)\n";
        assert_eq!(counter(text, "I refs:"), Some(1_234_567.0));
        assert_eq!(counter(text, "D1 misses:"), Some(12.0));
        assert_eq!(counter(text, "LLd misses:"), None);
    }

    #[test]
    fn whatever_is_counted_can_be_run_once() {
        let results = ysb::SYSTEMS.map(|system| once(&format!("ysb/{system}"), 20_000, true).unwrap());
        assert!(results[0].rows > 0 && results.iter().all(|result| *result == results[0]), "{results:?}");
        assert!(once("millstream/sum by dense key", 2000, false).unwrap().rows > 0);
        assert!(once("millstream/nothing", 2000, false).is_err());
    }
}
