//! Lookup tables: bounded inputs, read completely before the first row looks one up (see `source::phases`).
//!
//! Pipelines that end in a table bring columns, in any order of buffers. When the last of its lanes has ended, one task
//! puts the columns one after the other in the order of their streams, so that rows of a key come in the same order in
//! every run. Then it numbers the keys and lists the rows of each.

pub(crate) mod table;

use crate::columns::bytes_of;
use crate::executable_plan::PipelineCode;
use crate::host::Host;
use crate::ids::{Port, StationId};
use crate::pipeline::{Arrived, WorkerContext};
use crate::station::{Consequences, Job, Station, Task};
use millstream_state::{Charge, MemoryClass};
use millstream_sync::epoch_ring::Release;
use millstream_types::{Diagnostic, Schema};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use table::{LookupPiece, LookupRows, LookupTable};

/// A lookup table on its way.
pub(crate) struct LookupStation {
    id: StationId,
    host: Arc<Host>,
    schema: Schema,
    /// Groups of rows by key.
    code: PipelineCode,
    /// Phase of the last source that it is made of.
    phase: usize,
    collected: Mutex<Collected>,
    table: Arc<LookupTable>,
}

/// What has come so far.
struct Collected {
    open_lanes: usize,
    scheduled: bool,
    /// By lane and by number of the buffer in it.
    pieces: BTreeMap<(Port, u64), Vec<LookupPiece>>,
    charge: Charge,
}

/// The only job: makes the table of its rows.
struct Build;

impl LookupStation {
    /// With `lanes` channels that end in it.
    pub(crate) fn new(
        (id, host): (StationId, &Arc<Host>),
        schema: Schema,
        code: PipelineCode,
        phase: usize,
        lanes: usize,
        table: Arc<LookupTable>,
    ) -> Result<LookupStation, Diagnostic> {
        if code.lowered.layout().is_none() {
            return Err(Diagnostic::bug("the program of a lookup table does not number keys"));
        }
        let charge = Charge::new(&host.flow.budget, MemoryClass::Lookups, 0);
        let collected = Collected { open_lanes: lanes, scheduled: false, pieces: BTreeMap::new(), charge };
        Ok(LookupStation { id, host: Arc::clone(host), schema, code, phase, collected: Mutex::new(collected), table })
    }
}

impl Station for LookupStation {
    /// What is taken does not hold back the reading of what it was made of: all of it is kept.
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let number = arrived.buffer.stamp.sequence;
        arrived.emit(&self.host, context, &mut |_, emitted| {
            let bytes = bytes_of(&emitted.columns);
            let collected = &mut *self.collected.lock();
            collected.pieces.entry((arrived.port, number)).or_default().push((emitted.columns, emitted.rows));
            collected.charge.set(collected.charge.bytes() + bytes);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Consequences { finished: vec![arrived.place], ..Consequences::default() })
    }

    fn release(&self, _port: Port, release: Release) -> Consequences {
        if !release.ended {
            return Consequences::default();
        }
        self.collected.lock().open_lanes -= 1;
        self.settle()
    }

    /// Has the table made when all lanes have ended.
    fn settle(&self) -> Consequences {
        let mut collected = self.collected.lock();
        let is_ended = collected.open_lanes == 0 && !std::mem::replace(&mut collected.scheduled, true);
        let tasks = is_ended.then(|| Task::awaited(self.id, Build));
        Consequences { tasks: tasks.into_iter().collect(), ..Consequences::default() }
    }

    fn perform(&self, job: Job, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let Build = job.take()?;
        let pieces = std::mem::take(&mut self.collected.lock().pieces);
        let pieces = pieces.into_values().flatten().collect();
        let rows = LookupRows::new(&self.schema.fields, pieces, &self.code, &mut context.functions)?;
        self.collected.lock().charge.set(rows.bytes());
        self.table.set(rows).map_err(|_| Diagnostic::bug("a lookup table was made twice"))?;
        Ok(Consequences { phases: vec![self.phase], ..Consequences::default() })
    }
}
