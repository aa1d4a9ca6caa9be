//! Generators in their own processes.

use super::Sent;
use crate::suite::Failure;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A generator that runs beside this program; killed if it is dropped before its end.
pub(crate) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with these arguments, of which the first is `generate`.
    pub(crate) fn start(arguments: &[String]) -> Result<Process, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("a process without output")?;
        Ok(Process { child, output: BufReader::new(output) })
    }

    /// Waits until it has its rows and its connection.
    pub(crate) fn ready(&mut self) -> Result<(), Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim() == "ready" { Ok(()) } else { Err("the generator could not start".into()) }
    }

    /// Waits for its end; gives what it has sent.
    pub(crate) fn finish(&mut self) -> Result<Sent, Failure> {
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        if !self.child.wait()?.success() {
            return Err("the generator failed".into());
        }
        Ok(serde_json::from_str(&said)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
