//! Two builds of this program, one against the other: whether a change costs anything.
//!
//! Each workload runs in a process of its own, first with the one build and then with the other, and in the opposite order in the
//! next pair: a change of the machine's speed meets both, and the median of the pairs' ratios is judged. Instructions per row
//! are counted under valgrind with one thread and code that is not adapted, as the difference of twice the rows and once the
//! rows.

use super::state::Emptied;
use super::{ndjson, nexmark, resources, state, ysb};
use crate::suite::{Failure, median, query};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workloads, with the factor by which one is smaller under valgrind.
const WORKLOADS: [(&str, u64); 6] = [
    ("ysb/count", 12),
    ("nexmark/q5", 20),
    ("nexmark/q8", 20),
    ("nexmark/q11", 20),
    ("ndjson/count", 20),
    (CHECKPOINTED, 24),
];

const CHECKPOINTED: &str = "checkpointed/count";

/// Compare this build with another one: time in pairs of runs, and instructions per row.
#[derive(Debug, Args)]
pub(crate) struct BuildPair {
    /// The program `millstream-bench` of the other build
    other: PathBuf,
    /// Workloads [default: all]
    names: Vec<String>,
    /// Pairs of runs
    #[arg(long, value_name = "N", default_value_t = 15)]
    pairs: usize,
    /// Count instructions under valgrind instead
    #[arg(long)]
    instructions: bool,
    /// Folder for generated files
    #[arg(long, env = "MILLSTREAM_BENCH_DIR", value_name = "DIR", default_value = "target/bench")]
    directory: PathBuf,
}

/// One workload in this process.
#[derive(Debug, Args)]
pub(crate) struct OneWorkload {
    name: String,
    /// Measured runs after one to warm up; 0 for a single one, which is counted
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Twice the rows
    #[arg(long)]
    twice: bool,
    #[arg(long)]
    directory: PathBuf,
}

impl BuildPair {
    /// Runs all pairs and prints a line for each workload.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let this = std::env::current_exe()?;
        if let Some(name) = self.names.iter().find(|name| !WORKLOADS.iter().any(|(known, _)| known == name)) {
            let known = WORKLOADS.map(|(name, _)| name).join(", ");
            return Err(format!("there is no workload `{name}`; there are {known}").into());
        }
        for (name, _) in
            WORKLOADS.iter().filter(|(name, _)| self.names.is_empty() || self.names.iter().any(|n| n == name))
        {
            if self.instructions {
                let [own, others] = [&this, &self.other].map(|program| self.instructions_per_row(program, name));
                let (own, others) = (own?, others?);
                println!(
                    "{name:<20} {own:>9.2} instructions per row, {others:>9.2} in the other build: {:.4}",
                    own / others
                );
            } else {
                self.pairs(&this, name)?;
            }
        }
        Ok(())
    }

    fn pairs(&self, this: &Path, name: &str) -> Result<(), Failure> {
        let (mut ratios, mut seconds) = (Vec::new(), [Vec::new(), Vec::new()]);
        for pair in 0..self.pairs {
            for turn in 0..2 {
                let which = (pair + turn) % 2;
                let said = self.workload(&mut Command::new([this, &*self.other][which]), name, 5, false)?.0;
                seconds[which].push(said["seconds"].as_f64().ok_or("no `seconds`")?);
            }
            ratios.push(seconds[0][pair] / seconds[1][pair]);
        }
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]);
        let [own, others] = seconds.map(|seconds| median(&seconds) * 1000.0);
        println!(
            "{name:<20} {own:>8.1} ms, {others:>8.1} ms in the other build: {:.3} ({low:.3} to {high:.3}; {} pairs)",
            median(&ratios),
            self.pairs
        );
        Ok(())
    }

    fn instructions_per_row(&self, program: &Path, name: &str) -> Result<f64, Failure> {
        let mut counted = [0.0; 2];
        let mut rows = 0.0;
        for (twice, counted) in [false, true].into_iter().zip(&mut counted) {
            let mut command = Command::new("valgrind");
            command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]).arg(program);
            let (said, text) = self.workload(&mut command, name, 0, twice)?;
            *counted = resources::counter(&text, "I refs:").ok_or("valgrind does not count")?;
            if !twice {
                rows = said["rows"].as_f64().ok_or("no `rows`")?;
            }
        }
        Ok((counted[1] - counted[0]) / rows)
    }

    /// What a process says, on standard output and beside it.
    fn workload(
        &self,
        command: &mut Command,
        name: &str,
        repetitions: usize,
        twice: bool,
    ) -> Result<(Value, String), Failure> {
        command.args(["workload", name, "--repetitions", &repetitions.to_string()]).args(twice.then_some("--twice"));
        let output = command.arg("--directory").arg(&self.directory).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("{name}: {text}").into());
        }
        Ok((serde_json::from_slice(&output.stdout)?, text))
    }
}

impl OneWorkload {
    /// The median of the measured runs in seconds, and the rows of one.
    pub(crate) fn run(&self) -> Result<Value, Failure> {
        let counted = self.repetitions == 0;
        let (_, factor) = WORKLOADS.iter().find(|(name, _)| *name == self.name).ok_or("no such workload")?;
        let factor = if counted { *factor } else { 1 };
        let threads = if counted { 1 } else { std::thread::available_parallelism()?.get() };
        let times = if self.twice { 2 } else { 1 };
        let checkpoints = Emptied::new(self.directory.join("builds-state"))?;
        let (mut session, sql, rows) = match self.name.split_once('/') {
            Some(("ysb", _)) => ysb::views(24_000_000 / factor, times, threads)?,
            Some(("nexmark", name)) => nexmark::one(name, 1_000_000 / factor, times, threads)?,
            Some(("ndjson", _)) => ndjson::counted(&self.directory, 1_000_000 / factor, times, threads)?,
            _ => state::counted(1_000_000 / factor, 1536 / factor * times, threads)?,
        };
        if counted {
            session.set("pipeline.adaptive", "never")?;
        }
        let mut seconds = Vec::new();
        for run in 0..=self.repetitions {
            if self.name == CHECKPOINTED {
                // A job that has ended is not run again.
                let state = checkpoints.path().join(run.to_string());
                session.set("execution.checkpointing.dir", &state.to_string_lossy())?;
                // Checkpoints are taken by the clock; while instructions are counted, only the last one is.
                session.set("execution.checkpointing.interval", if counted { "1 h" } else { "200 ms" })?;
            }
            let measured = query(&mut session, &sql)?;
            if run > 0 {
                seconds.push(measured.seconds);
            }
        }
        Ok(json!({ "seconds": if counted { 0.0 } else { median(&seconds) }, "rows": rows }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_runs() {
        let folder = tempfile::tempdir().unwrap();
        for (name, _) in WORKLOADS {
            let workload =
                OneWorkload { name: name.into(), repetitions: 0, twice: true, directory: folder.path().to_path_buf() };
            assert!(workload.run().unwrap()["rows"].as_u64().unwrap() > 10_000, "{name}");
        }
    }
}
