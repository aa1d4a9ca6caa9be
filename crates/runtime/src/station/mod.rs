//! Stations: where pipelines end. What the runtime knows of windows, keyed operators, sinks and lookup tables is [`Station`].
//!
//! ```text
//!              take (rows of a buffer)          Consequences
//! pipeline ────────────────────────►┌─────────┐────────────► deliveries to the stream of its output
//! stream ──── release (watermark) ─►│ station │────────────► tasks, which come back as `perform`
//! supervisor ────────────── due ───►└─────────┘────────────► moments at which something is due
//! ```
//!
//! A station locks its own state only, and says what follows ([`Consequences`]); `query` acts on it. A new kind of end is a
//! new implementor: an exchange with another machine, functions of another language.

mod consequences;
pub(crate) mod progress;
mod task;

pub(crate) use consequences::{Consequences, Parked, Unconsumed, Until};
pub(crate) use task::{BufferPlace, DecodeTask, Job, ProcessTask, Task};

use crate::durable::part::Part;
use crate::durable::restored::Restored;
use crate::exchange::StationMessage;
use crate::ids::{Generation, Port, StreamId};
use crate::pipeline::{Arrived, WorkerContext};
use millstream_connectors::SharedPlace;
use millstream_storage::{Manifest, SinkState};
use millstream_sync::epoch_ring::Release;
use millstream_types::Diagnostic;
use parking_lot::MutexGuard;
use progress::Progress;
use serde_json::Value;
use std::time::Instant;

/// Where pipelines end.
pub(crate) trait Station: Send + Sync {
    /// Takes the rows of a buffer: runs the last program of the pipeline, whose form depends on the station. The buffer is
    /// among [`Consequences::finished`] when its rows are in the station's state or written, here or later.
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic>;

    /// Does a job that a [`Task`] of the station brings, or a part of it ([`Consequences::then`]).
    fn perform(&self, job: Job, context: &mut WorkerContext) -> Result<Consequences, Diagnostic>;

    /// Acts on what the ports have released. Also called before the first row: inputs may have ended, or there are none.
    fn settle(&self) -> Consequences;

    /// How far the ports have come, locked, if they do so together.
    fn progress(&self) -> Option<MutexGuard<'_, Progress>> {
        None
    }

    /// A port has released a watermark, passed a cut, or ended.
    fn release(&self, port: Port, release: Release) -> Consequences {
        if let Some(mut progress) = self.progress() {
            progress.release(port, release);
        }
        self.settle()
    }

    /// Leaves a port out of the watermark, or takes it back in; also the watermark that has been acted on.
    fn set_idle(&self, port: Port, is_idle: bool) -> (i64, Consequences) {
        let Some(mut progress) = self.progress() else { return (i64::MIN, Consequences::default()) };
        progress.set_idle(port, is_idle);
        let watermark = progress.watermark();
        drop(progress);
        (watermark, self.settle())
    }

    /// Takes a message of the same station on another node.
    fn receive(&self, _from: usize, _message: StationMessage) -> Result<Consequences, Diagnostic> {
        Err(Diagnostic::bug("a station that is not on several nodes got a message of another node"))
    }

    /// The watermark that has been acted on; `i64::MIN` where there is none.
    fn watermark(&self) -> i64 {
        self.progress().map_or(i64::MIN, |progress| progress.watermark())
    }

    /// The stream of its output, and the watermark that rows behind it may rely on.
    fn output(&self) -> Option<(StreamId, i64)> {
        None
    }

    /// A cut begins a generation; what the station has to do with it. Called before any port can release it.
    fn await_cut(&self, generation: Generation) -> Awaited {
        match self.progress().is_some_and(|mut progress| progress.await_cut(generation)) {
            true => Awaited::Yes,
            false => Awaited::No,
        }
    }

    /// Hands over what belongs before a cut that will not pass; see [`Awaited::Passed`].
    fn cut_passed(&self, _generation: Generation) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Enters what is kept of the station when it has ended.
    fn describe(&self, _manifest: &mut Manifest) {}

    /// Takes over what a checkpoint has kept, before the first row.
    fn restore(&self, _from: &Restored<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Writes state to files of the run, until there are at most `enough` bytes of it; how many pieces.
    fn spill(&self, _what: Spillable, _enough: u64) -> Result<(usize, Consequences), Diagnostic> {
        Ok((0, Consequences::default()))
    }

    /// Does what is due at a moment; [`Consequences::due`] says when something is next.
    fn due(&self, _now: Instant) -> Result<Consequences, Diagnostic> {
        Ok(Consequences::default())
    }

    /// The query is to end before its input does: rows that are held until all have come are given up; whether there are any.
    fn stop(&self) -> bool {
        false
    }

    /// All rows have come, and no thread is at work any more: what belongs to the last checkpoint of the job.
    fn last_part(&self, _checkpoint: u64) -> Result<Option<Part>, Diagnostic> {
        Ok(None)
    }

    /// The last checkpoint of the job has been written: what other nodes have prepared for it, by the number of the station's sink, is made
    /// visible.
    fn commit_of_others(&self, _sinks: &[SinkState]) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Another node is lost, and will be replaced: what it has prepared for the last complete checkpoint is made visible, and what else it has
    /// left is removed. `None`: the station's sink is in use, and has been for a while.
    fn succeed(&self, _lost: &Succession<'_>) -> Result<Option<Succeeded>, Diagnostic> {
        Ok(Some(Succeeded::default()))
    }

    /// All checkpoints are written, or there are none: what has been written is made visible.
    fn finish(&self) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// The query is over, in whatever way: what is held outside of the process is let go.
    fn abandon(&self) {}
}

/// A node that is lost.
pub(crate) struct Succession<'a> {
    pub(crate) node: usize,
    /// By sink of the plan: the token of the span that it has prepared for the last complete checkpoint.
    pub(crate) tokens: &'a [Option<Value>],
    /// Whether a node is lost now.
    pub(crate) is_lost: &'a dyn Fn(usize) -> bool,
}

/// What was done for a node that is lost.
#[derive(Default)]
pub(crate) struct Succeeded {
    /// What a process in its place has to find: by the number of a sink.
    pub(crate) place: Option<(usize, SharedPlace)>,
    pub(crate) consequences: Consequences,
}

/// What a station has to do with a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Nothing: it keeps nothing, or no longer.
    No,
    /// The cut passes.
    Yes,
    /// The cut does not pass any more, but something belongs before it ([`Station::cut_passed`]).
    Passed,
}

/// State that can be spilled, in the order in which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spillable {
    /// Memory that is kept for state to come: it is given up.
    Reserve,
    /// What is read once: frozen tables.
    Tables,
    /// Slices of overlapping windows, which are read once for each window from then on.
    Slices,
    /// Rows that wait for keyed operators.
    Rows,
    /// States of partitions that nobody works on.
    States,
}

impl Spillable {
    /// All of it.
    pub(crate) const ALL: [Spillable; 4] = [Spillable::Tables, Spillable::Slices, Spillable::Rows, Spillable::States];
}
