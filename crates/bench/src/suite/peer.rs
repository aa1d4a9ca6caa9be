//! Other systems, each in its own process: Python programs, a Java virtual machine.
//!
//! Such a process says `ready` when its data is loaded. Then it runs the query once for every line that it gets, and answers
//! with a line of JSON: `seconds`, `checksum` (see docs/benchmarks.md), and whatever else belongs into the record. Anything that it
//! writes to standard error is shown. Those that cannot be run in turn write whole records into a file, which `--merge`
//! reads.

use super::{Failure, Measured, Suite, System};
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is seen whether a process rests, by how little processor time it takes meanwhile, and for how long at most.
const SETTLING: Duration = Duration::from_millis(100);
const RESTING_TICKS: u64 = 1;
const LONGEST_SETTLING: Duration = Duration::from_secs(5);

/// A running process; it ends with this value.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a process and waits until it is ready; `None` when it cannot be started or ends before.
    pub(crate) fn start(command: &mut Command) -> Option<Peer> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let (input, output) = (child.stdin.take()?, child.stdout.take()?);
        let mut peer = Peer { child, input, output: BufReader::new(output) };
        let mut ready = String::new();
        peer.output.read_line(&mut ready).ok()?;
        (ready.trim() == "ready").then_some(peer)
    }

    /// A Python program of scripts/, in the environment that `scripts/bench.sh` makes.
    pub(crate) fn python(script: &str) -> Command {
        let python = std::env::var("MILLSTREAM_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
        let mut command = Command::new(python);
        command.arg(format!("scripts/{script}"));
        command
    }

    /// The system, if its process starts; says so if it does not.
    pub(crate) fn system(suite: &Suite, name: &str, threads: usize, command: &mut Command) -> Option<System<'static>> {
        let Some(mut peer) = Peer::start(command) else {
            suite.say(&format!("  {name} is not measured: it does not start (scripts/bench.sh installs it)"));
            return None;
        };
        Some(System::measured(name, threads, move || peer.run()))
    }

    fn run(&mut self) -> Result<Measured, Failure> {
        self.ask("run")
    }

    /// Sends a line and waits for the answer to it.
    pub(crate) fn ask(&mut self, request: &str) -> Result<Measured, Failure> {
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            return Err("its process ended".into());
        }
        let mut more: Map<String, Value> = serde_json::from_str(&line)?;
        let seconds =
            more.remove("seconds").and_then(|s| s.as_f64()).ok_or_else(|| format!("no `seconds` in {line}"))?;
        let checksum = more.remove("checksum");
        let checksum = checksum.as_ref().and_then(Value::as_str).map(str::parse).transpose()?;
        self.settle();
        Ok(Measured { seconds, checksum, more, ..Measured::default() })
    }

    /// Waits until the process rests. What it does behind a run, such as to collect garbage, would take a core from whoever is measured
    /// next.
    fn settle(&self) {
        let deadline = Instant::now() + LONGEST_SETTLING;
        let mut before = self.processor_ticks();
        while Instant::now() < deadline {
            std::thread::sleep(SETTLING);
            let now = self.processor_ticks();
            if now.zip(before).is_none_or(|(now, before)| now - before <= RESTING_TICKS) {
                return;
            }
            before = now;
        }
    }

    /// Hundredths of a second of processor time of the process, where the system tells.
    fn processor_ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name, in parentheses, may have spaces; time in user and system mode are fields 14 and 15.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
