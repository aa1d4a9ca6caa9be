//! The end of pipelines on all nodes but the first, where that one has a sink or a sort: their rows are sent there.

use super::{FRAME_BYTES, Links, LocalInputs};
use crate::host::Host;
use crate::ids::{Generation, Port, StreamId};
use crate::keyed::batch::Batch;
use crate::pipeline::{Arrived, WorkerContext};
use crate::station::progress::Forward;
use crate::station::{Awaited, Consequences, Job, Station};
use crate::stream::sequencer::Unit;
use arrow_array::ArrayRef;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_sync::epoch_ring::Release;
use millstream_types::{Diagnostic, Schema};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;

/// See the module.
pub(crate) struct GatherStation {
    host: Arc<Host>,
    links: Links,
    inputs: Mutex<LocalInputs>,
    /// Of a sort: its output here, which has no rows.
    output: Option<StreamId>,
}

impl GatherStation {
    /// Of channels that end in it; of a sort also the stream of its output.
    pub(crate) fn new(host: &Arc<Host>, links: Links, channels: usize, output: Option<StreamId>) -> GatherStation {
        GatherStation { host: Arc::clone(host), links, inputs: Mutex::new(LocalInputs::new(channels)), output }
    }
}

/// Rows for a station, with the generation of the buffer that they come from.
pub(crate) fn gathered(batch: &Batch, generation: Generation) -> Result<Vec<u8>, Diagnostic> {
    let mut out = ByteWriter::new();
    out.u32(generation.0);
    batch.save(&mut out)?;
    Ok(out.into_bytes())
}

/// What [`gathered`] has written.
pub(crate) fn read_gathered(schema: &Schema, frame: &[u8]) -> Result<(Generation, Batch), Damaged> {
    let mut from = ByteReader::new(frame);
    let generation = Generation(from.u32()?);
    let batch = Batch::restore(schema, &mut from)?;
    from.end()?;
    Ok((generation, batch))
}

impl Station for GatherStation {
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let generation = arrived.buffer.stamp.generation;
        let is_sorted = self.output.is_some();
        arrived.emit(&self.host, context, &mut |rows, emitted| {
            let ordinal = |row: u32| rows.ordinal(row as usize, arrived.origin);
            let places = is_sorted.then(|| emitted.selection.iter().map(ordinal).collect::<Vec<_>>());
            let width = crate::columns::bytes_of(&emitted.columns) / emitted.rows.max(1);
            let most = (FRAME_BYTES / width.max(1)).max(1);
            for first in (0..emitted.rows).step_by(most) {
                let rows = most.min(emitted.rows - first);
                let columns: Vec<ArrayRef> = crate::columns::sliced(&emitted.columns, first, rows);
                let batch = match &places {
                    Some(places) => Batch::new(columns, places[first..first + rows].to_vec()),
                    None => Batch::unordered(columns, rows),
                };
                self.links.send_frame(0, gathered(&batch, generation)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Consequences { finished: vec![arrived.place], ..Consequences::default() })
    }

    fn perform(&self, _: Job, _: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        Err(Diagnostic::bug("rows that are sent to the first node need no jobs"))
    }

    fn release(&self, port: Port, release: Release) -> Consequences {
        self.inputs.lock().progress.release(port, release);
        self.settle()
    }

    fn settle(&self) -> Consequences {
        let mut consequences = Consequences::default();
        let mut inputs = self.inputs.lock();
        while let Some((step, mark)) = inputs.step() {
            // Sinks and sorts do not ask for watermarks.
            if step.is_some_and(|step| step.cuts_or_ends()) {
                self.links.send_mark(0, mark);
            }
            let Some(Forward { watermark, cut, end }) = step else { continue };
            if let Some(output) = self.output {
                let watermark = (watermark == i64::MAX && end.is_some()).then_some(watermark);
                let progress = &mut inputs.progress;
                if cut.is_some() || end.is_some() {
                    consequences.deliver(output, progress.units, Unit { watermark, cut, end, ..Unit::default() });
                    progress.units += 1;
                }
            } else {
                consequences.sinks_done += usize::from(end.is_some());
            }
        }
        if let Some(generation) = inputs.progress.reached_cut() {
            // It keeps nothing.
            self.host.hand_over(generation, |_| Ok(true));
            consequences.cuts += 1;
        }
        consequences
    }

    fn set_idle(&self, port: Port, is_idle: bool) -> (i64, Consequences) {
        // Rows for sinks and sorts are not waited for.
        self.inputs.lock().progress.set_idle(port, is_idle);
        (i64::MIN, self.settle())
    }

    fn await_cut(&self, generation: Generation) -> Awaited {
        match self.inputs.lock().progress.await_cut(generation) {
            true => Awaited::Yes,
            false => Awaited::No,
        }
    }
}

/// The inputs of a station on the first node, behind those on the node itself: the other nodes.
pub(crate) fn port_of_node(channels: usize, node: usize) -> Port {
    Port::new(channels + node - 1)
}
