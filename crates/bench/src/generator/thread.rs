//! Generators as threads: tests have no program that they could start.

use super::{Plan, Sent, generate};
use crate::suite::Failure;
use clap::Parser;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};

/// A generator that runs beside the test.
pub(crate) struct Process {
    thread: Option<JoinHandle<Result<Sent, String>>>,
    is_ready: Receiver<()>,
}

impl Process {
    /// Starts a generator with these arguments, of which the first is `generate`.
    pub(crate) fn start(arguments: &[String]) -> Result<Process, Failure> {
        let plan = Plan::try_parse_from(arguments)?;
        let (say, is_ready) = channel();
        let ready = move || say.send(()).map_err(std::io::Error::other);
        let thread = spawn(move || generate(&plan, ready).map_err(|e| e.to_string()));
        Ok(Process { thread: Some(thread), is_ready })
    }

    /// Waits until it has its rows and its connection.
    pub(crate) fn ready(&mut self) -> Result<(), Failure> {
        Ok(self.is_ready.recv()?)
    }

    /// Waits for its end; gives what it has sent.
    pub(crate) fn finish(&mut self) -> Result<Sent, Failure> {
        let thread = self.thread.take().ok_or("it was waited for before")?;
        Ok(thread.join().map_err(|_| "the generator panicked")??)
    }
}
