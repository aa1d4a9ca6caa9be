//! A keyed operator on several nodes: each owns some of the partitions, and rows are sent to the owner of theirs.
//!
//! ```text
//! frame:  input u32, generation u32, number of parts u32, parts: partition u32, rows u32; then the rows of all of them, as one batch
//! ```

use super::KeyedStation;
use super::batch::Batch;
use super::held::HeldRows;
use crate::durable::blobs::damaged;
use crate::exchange::{FRAME_BYTES, Links, LocalInputs, StationMessage};
use crate::ids::{Generation, Port};
use crate::station::{Consequences, Station};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_sync::epoch_ring::Release;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::ops::Range;

/// See the module.
pub(super) struct DistributedKeys {
    pub(super) links: Links,
    /// The pipelines of this node that end in the operator.
    pub(super) inputs: Mutex<LocalInputs>,
    /// Taken after the inputs.
    pub(super) held: Mutex<HeldRows>,
}

impl DistributedKeys {
    pub(super) fn new(links: Links, channels: usize, held: HeldRows) -> DistributedKeys {
        DistributedKeys { links, inputs: Mutex::new(LocalInputs::new(channels)), held: Mutex::new(held) }
    }

    /// The partitions of so many that this node owns.
    pub(super) fn owned(&self, partitions: usize) -> Range<usize> {
        self.links.nodes().owned_here(partitions)
    }

    /// Notes what a pipeline of this node has released.
    pub(super) fn release(&self, port: Port, release: Release) {
        self.inputs.lock().progress.release(port, release);
    }

    /// Leaves a pipeline of this node out of the watermark, or takes it back in; the watermark that this node has said at most.
    pub(super) fn set_idle(&self, port: Port, is_idle: bool) -> i64 {
        let progress = &mut self.inputs.lock().progress;
        progress.set_idle(port, is_idle);
        progress.watermark()
    }

    /// Sends rows to the owners of their partitions; what is left is this node's.
    pub(super) fn send(
        &self,
        (input, generation): (usize, Generation),
        parts: Vec<(usize, Batch)>,
        partitions: usize,
    ) -> Result<Vec<(usize, Batch)>, Diagnostic> {
        let nodes = self.links.nodes();
        let frame = |parts: Vec<(usize, Batch)>| {
            let mut frame = ByteWriter::new();
            frame.u32(input as u32);
            frame.u32(generation.0);
            frame.u32(parts.len() as u32);
            for (partition, batch) in &parts {
                frame.u32(*partition as u32);
                frame.u32(batch.rows() as u32);
            }
            Batch::gathered_to_pass_on(parts.into_iter().map(|(_, batch)| batch).collect())?.send(&mut frame)?;
            Ok::<_, Diagnostic>(frame.into_bytes())
        };
        let mut of_owners: Vec<(Vec<(usize, Batch)>, usize)> = (0..nodes.count).map(|_| (Vec::new(), 0)).collect();
        for (partition, batch) in parts {
            let owner = nodes.owner(partition, partitions);
            let (parts, bytes) = &mut of_owners[owner];
            *bytes += batch.bytes();
            parts.push((partition, batch));
            if owner != nodes.me && *bytes >= FRAME_BYTES {
                *bytes = 0;
                self.links.send_frame(owner, frame(std::mem::take(parts))?)?;
            }
        }
        let own = std::mem::take(&mut of_owners[nodes.me].0);
        for (owner, (parts, _)) in of_owners.into_iter().enumerate().filter(|(_, (parts, _))| !parts.is_empty()) {
            self.links.send_frame(owner, frame(parts)?)?;
        }
        Ok(own)
    }
}

impl KeyedStation {
    /// Tells the owners of partitions how far the pipelines of this node have come.
    pub(super) fn pass_on(&self, consequences: &mut Consequences) {
        let Some(distributed) = &self.distributed else { return };
        let DistributedKeys { links, inputs, .. } = distributed;
        let mut inputs = inputs.lock();
        let passed = links.pass_on(&mut inputs, &self.progress, |mark| self.send_held_before(distributed, mark));
        consequences.note(passed);
        consequences.due_at(inputs.linger.due());
    }

    /// Takes rows and marks of another node.
    pub(super) fn receive_message(&self, from: usize, message: StationMessage) -> Result<Consequences, Diagnostic> {
        let not_distributed = || Diagnostic::bug("an operator that is on one node got a message of another node");
        let DistributedKeys { links, .. } = self.distributed.as_ref().ok_or_else(not_distributed)?;
        let (frame, permit) = match message {
            StationMessage::Frame(frame, permit) => (frame, Some(permit)),
            StationMessage::Mark(mark) => {
                links.hear(from, mark, &self.progress);
                return Ok(self.settle());
            }
        };
        let ((input, generation), parts) = self.read_frame(&frame).map_err(damaged)?;
        let mut consequences = Consequences::default();
        self.arrive((input, generation), parts, &permit, &mut consequences)?;
        Ok(consequences)
    }

    /// The rows of a frame, with their input and generation.
    #[expect(clippy::type_complexity)]
    fn read_frame(&self, frame: &[u8]) -> Result<((usize, Generation), Vec<(usize, Batch)>), Damaged> {
        let mut from = ByteReader::new(frame);
        let (input, generation) = (from.u32()? as usize, Generation(from.u32()?));
        let schema = self.plan.inputs.get(input).map(|input| &input.schema);
        let schema = schema.ok_or_else(|| Damaged("rows are for an input that is not there".into()))?;
        let mut places = Vec::new();
        for _ in 0..from.u32()? {
            let (partition, rows) = (from.u32()? as usize, from.u32()? as usize);
            Damaged::unless(partition < self.partitions.len(), "rows are for a partition that is not there")?;
            places.push((partition, rows));
        }
        let all = Batch::receive(schema, &mut from)?;
        from.end()?;
        let rows = all.rows();
        let said: usize = places.iter().map(|(_, rows)| rows).sum();
        Damaged::unless(said == rows, "a frame has other rows than it says")?;
        let all = if self.is_unordered() { Batch::unordered(all.columns, rows) } else { all };
        let mut first = 0;
        let part = |(partition, rows): (usize, usize)| {
            first += rows;
            (partition, all.range(first - rows..first))
        };
        Ok(((input, generation), places.into_iter().map(part).collect()))
    }

    /// Whether nobody asks for the places of rows.
    fn is_unordered(&self) -> bool {
        self.joins_arrivals() && !self.behaviour.keeps_places
    }
}
