//! One window that holds all rows, aggregated within a memory budget, in its own process: its memory is the query's.

use super::stream::{BLOCK, Keys, Stream, TABLE};
use super::watched::{Emptied, run};
use crate::suite::{Adder, Checksum, Failure, Measured, System, session};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
#[cfg(not(test))]
use std::process::Command;

/// What is asked.
pub(super) fn query() -> String {
    format!(
        "SELECT k, window_start, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE {TABLE}, DESCRIPTOR(event_time), INTERVAL '1' DAY))
         GROUP BY k, window_start, window_end"
    )
}

/// The same of groups without a window, which stand and are put out at the end of the input; of all of them what tells whether they are
/// right.
const STANDING: &str = "SELECT COUNT(*), SUM(n), SUM(s), SUM(MOD(k, 1000003) * s), SUM(MOD(k, 1000033) * n)
     FROM (SELECT k, COUNT(*) AS n, SUM(v) AS s FROM events GROUP BY k)";

/// Counts rows by key in one window, once, and prints time and memory: what the benchmark `state` starts.
#[derive(Debug, Clone, Args)]
pub(crate) struct Window {
    /// Keys
    #[arg(long)]
    pub(super) keys: u64,
    /// Blocks of rows
    #[arg(long)]
    pub(super) blocks: u64,
    /// Threads
    #[arg(long)]
    pub(super) threads: usize,
    /// Memory budget in bytes
    #[arg(long)]
    pub(super) memory: Option<u64>,
    /// Directory to spill to
    #[arg(long)]
    pub(super) directory: PathBuf,
    /// Without a window
    #[arg(long)]
    pub(super) standing: bool,
}

impl Window {
    /// The rows.
    pub(super) fn stream(&self) -> Stream {
        Stream::new(Keys::Scattered(self.keys), self.blocks, u64::MAX)
    }

    /// Rows that go in.
    pub(super) fn rows(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// The same within a budget of `memory` bytes.
    pub(super) fn within(&self, memory: u64) -> Window {
        Window { memory: Some(memory), ..self.clone() }
    }

    /// Runs it in its own process, in turn with other systems.
    pub(super) fn system(&self, name: &str) -> System<'static> {
        let window = self.clone();
        System::measured(name, self.threads, move || window.measure())
    }

    fn measure(&self) -> Result<Measured, Failure> {
        let said = self.in_process()?;
        let seconds = said["seconds"].as_f64().ok_or("no `seconds`")?;
        let checksum: Checksum = said["checksum"].as_str().ok_or("no `checksum`")?.parse()?;
        let mut more = said.as_object().cloned().unwrap_or_default();
        more.retain(|name, _| name != "seconds" && name != "checksum");
        Ok(Measured { seconds, checksum: Some(checksum), more, ..Measured::default() })
    }

    #[cfg(not(test))]
    fn in_process(&self) -> Result<Value, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("window").arg("--directory").arg(&self.directory);
        for (name, value) in [("keys", self.keys), ("blocks", self.blocks), ("threads", self.threads as u64)] {
            command.arg(format!("--{name}")).arg(value.to_string());
        }
        if let Some(memory) = self.memory {
            command.arg("--memory").arg(memory.to_string());
        }
        if self.standing {
            command.arg("--standing");
        }
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Tests have no program that they could start.
    #[cfg(test)]
    fn in_process(&self) -> Result<Value, Failure> {
        self.once()
    }

    /// Runs it: time, result and memory.
    pub(crate) fn once(&self) -> Result<Value, Failure> {
        let directory = Emptied::new(self.directory.clone())?;
        let mut session = session(self.threads)?;
        session.set("pipeline.spill.directory", &directory.path().to_string_lossy())?;
        if let Some(memory) = self.memory {
            session.set("pipeline.memory", &format!("{} KiB", memory >> 10))?;
        }
        self.stream().register(&mut session)?;
        let adder = Adder::default();
        let query = if self.standing { STANDING.to_string() } else { query() };
        if self.standing {
            session.set("execution.runtime-mode", "streaming")?;
        }
        let ran = run(&mut session, &query, &mut adder.clone(), |_, _| ())?;
        Ok(json!({
            "seconds": ran.seconds,
            "checksum": adder.checksum().to_string(),
            "budget_bytes": ran.stats.memory.limit,
            "budget_peak_bytes": ran.stats.memory.peak,
            "resident_peak_bytes": crate::suite::peak_resident_bytes()?,
            "spilled_bytes": ran.stats.spill.bytes_written,
        }))
    }
}
