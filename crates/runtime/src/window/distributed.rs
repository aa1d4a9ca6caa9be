//! A windowed aggregation on several nodes: each aggregates the rows that it reads, and sends what slices have become to the owners of
//! their keys. Those merge partials as one node merges those of its workers.
//!
//! ```text
//! rows ─► tables of this node ─► slice complete here ─► sealed ─┬─► partials of own partitions ─► frozen tables ─► windows
//!                                                               └─► partials of others: frames ─┘ (of all nodes)
//! ```
//!
//! Partials of a slice and the marks behind them are sent in the order in which the watermark of this node has advanced (`Outbox`),
//! whichever table is sealed first.

use super::aggregation::{Advance, Aggregation};
use super::tables::frozen::Frozen;
use super::tables::{OpenTables, Taken};
use super::{WindowJob, WindowStation};
use crate::columns::partition_of;
use crate::durable::blobs::damaged;
use crate::exchange::{FRAME_BYTES, Linger, Links, Mark, Said, StationMessage};
use crate::ids::{Generation, Port};
use crate::station::progress::Progress;
use crate::station::{Consequences, Station, Task};
use millstream_abi::{HASH_SEED, hash_finish};
use millstream_state::Partial;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_sync::epoch_ring::Release;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// See the module.
pub(super) struct DistributedSlices {
    links: Links,
    /// What the rows of this node become: tables of slices. Its progress is of the pipelines of this node.
    pub(super) slices: Aggregation,
    outbox: Mutex<Outbox>,
}

/// What is sent next.
struct Outbox {
    said: Said,
    linger: Linger,
    next: u64,
    waiting: BTreeMap<u64, Outgoing>,
}

/// What is sent under a number.
enum Outgoing {
    /// Frames, each with the node that it is for.
    Frames(Vec<(usize, Vec<u8>)>),
    Mark(Mark),
}

/// A slice on its way to the owners of its keys.
pub(super) struct SentSlice {
    /// What it is sent under.
    number: u64,
    /// Number of its table.
    id: i64,
    tables: Vec<Taken>,
}

impl DistributedSlices {
    pub(super) fn new(links: Links, slices: Aggregation) -> DistributedSlices {
        let outbox = Outbox { said: Said::new(), linger: Linger::default(), next: 0, waiting: BTreeMap::new() };
        DistributedSlices { links, slices, outbox: Mutex::new(outbox) }
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.links.nodes().count
    }

    /// The partitions that this node owns.
    pub(super) fn owned(&self) -> Range<usize> {
        self.links.nodes().owned_here(self.slices.layout.partitions().len())
    }

    /// Whether the group without keys is this node's.
    pub(super) fn has_group_of_nothing(&self) -> bool {
        self.owned().contains(&partition_of(hash_finish(HASH_SEED), self.slices.layout.partition_bits))
    }
}

impl WindowStation {
    /// What its rows go to: on several nodes those of this one, which are not all.
    pub(super) fn of_rows(&self) -> &Aggregation {
        self.distributed.as_ref().map_or(&self.windows, |distributed| &distributed.slices)
    }

    /// Notes what a pipeline of this node has released.
    pub(super) fn release_here(&self, port: Port, release: Release) {
        self.of_rows().progress.lock().release(port, release);
    }

    /// Leaves a pipeline of this node out of the watermark, or takes it back in; the watermark that this node has said at most.
    pub(super) fn set_idle_here(&self, port: Port, is_idle: bool) -> i64 {
        let mut progress = self.of_rows().progress.lock();
        progress.set_idle(port, is_idle);
        progress.watermark()
    }

    /// Acts on all steps of the pipelines of this node.
    pub(super) fn settle_here(&self, distributed: &DistributedSlices, consequences: &mut Consequences) {
        while self.step_here(distributed, consequences) {}
        consequences.due_at(distributed.outbox.lock().linger.due());
    }

    /// Sends the mark that has waited long enough; what follows on this node, and when to look again.
    pub(super) fn send_due(&self, distributed: &DistributedSlices, now: Instant) -> Result<Consequences, Diagnostic> {
        let mut progress = distributed.slices.progress.lock();
        let mut outbox = distributed.outbox.lock();
        if let Some(mark) = outbox.linger.take_due(now) {
            self.send_mark(distributed, (&mut progress, &mut outbox), mark)?;
        }
        let mut consequences = Consequences::default();
        consequences.due_at(outbox.linger.due());
        drop((outbox, progress));
        self.settle_windows(&mut consequences);
        Ok(consequences)
    }

    /// Acts on the next step of the pipelines of this node, if there is one: has slices sent that are complete here.
    fn step_here(&self, distributed: &DistributedSlices, consequences: &mut Consequences) -> bool {
        let slices = &distributed.slices;
        let mut progress = slices.progress.lock();
        distributed.links.follow(&mut progress);
        let advance = slices.advance(&mut progress);
        let mark = |outbox: &mut Outbox, progress: &Progress| {
            outbox.said.next(advance.map(|advance| advance.forward), progress.is_idle())
        };
        let Some(Advance { forward, completes, .. }) = advance else {
            // Perhaps they are idle, or no more.
            let mut outbox = distributed.outbox.lock();
            if let Some(mark) = mark(&mut outbox, &progress) {
                let sent = self.send_soon(distributed, (&mut progress, &mut outbox), mark, false);
                consequences.note(sent);
            }
            return false;
        };
        if let Some(generation) = forward.cut.filter(|generation| self.host.tables.begin_with(*generation)) {
            slices.tables.freeze_before(self.host.tables.of(generation));
        }
        if completes {
            let mut tables = slices.tables.take(slices.ids(), slices.timeline.reached(forward.watermark));
            tables.retain(|_, tables| !tables.iter().all(Taken::is_empty));
            let fired = tables.values().flatten();
            self.note(slices.strategy.note_slices(tables.len(), fired, slices.tables.memory_left()));
            for (id, tables) in tables {
                let slice = SentSlice { number: progress.units, id, tables };
                progress.units += 1;
                consequences.tasks.push(self.send_task(slice));
            }
        }
        // What the step has completed is sent before its mark, so it belongs to the owners.
        forward.cut.into_iter().for_each(|generation| self.hand_over_here(generation, slices));
        let mut outbox = distributed.outbox.lock();
        if let Some(mark) = mark(&mut outbox, &progress) {
            let sent = self.send_soon(distributed, (&mut progress, &mut outbox), mark, completes);
            consequences.note(sent);
        }
        true
    }

    /// Sends a mark, at once if it matters to the owners.
    fn send_soon(
        &self,
        distributed: &DistributedSlices,
        (progress, outbox): (&mut Progress, &mut Outbox),
        mark: Mark,
        matters: bool,
    ) -> Result<(), Diagnostic> {
        match outbox.linger.pass(mark, matters, Instant::now()) {
            Some(mark) => self.send_mark(distributed, (progress, outbox), mark),
            None => Ok(()),
        }
    }

    /// Sends a mark behind what has been numbered before it.
    fn send_mark(
        &self,
        distributed: &DistributedSlices,
        (progress, outbox): (&mut Progress, &mut Outbox),
        mark: Mark,
    ) -> Result<(), Diagnostic> {
        outbox.waiting.insert(progress.units, Outgoing::Mark(mark));
        progress.units += 1;
        self.send_next(distributed, outbox)
    }

    fn send_task(&self, slice: SentSlice) -> Task {
        self.task(slice.id, WindowJob::Send(Box::new(slice)))
    }

    /// Seals the tables of a slice and sends what each owner gets.
    pub(super) fn send_slice(&self, slice: SentSlice) -> Result<Consequences, Diagnostic> {
        let not_distributed = || Diagnostic::bug("a slice is sent that is on one node");
        let distributed = self.distributed.as_ref().ok_or_else(not_distributed)?;
        let SentSlice { number, id, tables } = slice;
        let (tables_here, nodes) = (&distributed.slices.tables, distributed.links.nodes());
        let mut frames = Vec::new();
        for partial in sealed(tables_here, tables)? {
            for node in 0..nodes.count {
                let blocks = nodes
                    .owned(node, distributed.slices.layout.partitions().len())
                    .flat_map(|partition| partial.blocks(partition));
                let mut frame = None;
                for block in blocks {
                    let out = frame.get_or_insert_with(|| {
                        let mut out = ByteWriter::new();
                        out.i64(id);
                        out
                    });
                    out.bytes(&block);
                    if out.len() >= FRAME_BYTES {
                        frames.extend(frame.take().map(|frame| (node, frame.into_bytes())));
                    }
                }
                frames.extend(frame.map(|frame| (node, frame.into_bytes())));
            }
        }
        self.note(distributed.slices.strategy.note_slices_sealed(1, tables_here.memory_left()));
        let mut outbox = distributed.outbox.lock();
        outbox.waiting.insert(number, Outgoing::Frames(frames));
        self.send_next(distributed, &mut outbox)?;
        drop(outbox);
        let mut consequences = Consequences::default();
        self.settle_windows(&mut consequences);
        Ok(consequences)
    }

    /// Sends what is next.
    fn send_next(&self, distributed: &DistributedSlices, outbox: &mut Outbox) -> Result<(), Diagnostic> {
        let (links, nodes) = (&distributed.links, distributed.links.nodes());
        while let Some(outgoing) = outbox.waiting.remove(&outbox.next) {
            outbox.next += 1;
            match outgoing {
                Outgoing::Frames(frames) => {
                    for (node, frame) in frames {
                        match node == nodes.me {
                            true => self.take_partial(node, &frame)?,
                            false => links.send_frame(node, frame)?,
                        }
                    }
                }
                Outgoing::Mark(mark) => links.say(mark, &self.windows.progress),
            }
        }
        Ok(())
    }

    /// Takes partials and marks of another node.
    pub(super) fn receive_message(&self, from: usize, message: StationMessage) -> Result<Consequences, Diagnostic> {
        let not_distributed = || Diagnostic::bug("an aggregation that is on one node got a message of another node");
        let distributed = self.distributed.as_ref().ok_or_else(not_distributed)?;
        match message {
            StationMessage::Frame(frame, _permit) => {
                self.take_partial(from, &frame)?;
                Ok(Consequences::default())
            }
            StationMessage::Mark(mark) => {
                distributed.links.hear(from, mark, &self.windows.progress);
                Ok(self.settle())
            }
        }
    }

    /// Takes the partial of a slice from a node: a table that nobody writes to any more. Its generation is the one that the node had said
    /// it had come to, whatever that of its rows: what was sent behind the mark of a cut is in what that node has kept before it
    /// (`keeping`), and not in what this one keeps.
    fn take_partial(&self, from: usize, frame: &[u8]) -> Result<(), Diagnostic> {
        let (id, blocks) = read_partial(frame).map_err(damaged)?;
        let tables = &self.windows.tables;
        let partial = tables.restored(blocks)?;
        let reached = self.distributed.as_ref().map_or(Generation::default(), |it| it.links.reached(from));
        let received = Frozen::sealed(partial).of_generation(self.host.tables.of(reached));
        tables.frozen.lock().entry(id).or_default().push(Arc::new(received));
        Ok(())
    }
}

/// The partials of a slice: those of its tables in memory are one, so that a key of several workers is sent once.
fn sealed(tables: &OpenTables, of_slice: Vec<Taken>) -> Result<Vec<Arc<Partial>>, Diagnostic> {
    let filled = of_slice.into_iter().filter(|table| !table.is_empty());
    let (stored, in_memory): (Vec<Taken>, Vec<Taken>) = filled.partition(|table| table.stored().is_some());
    let seal = |table| tables.seal(table);
    let mut partials = in_memory.into_iter().map(seal).collect::<Result<Vec<_>, _>>()?;
    if partials.len() > 1 {
        partials = vec![Arc::new(Partial::compacted(&partials, &tables.budget))];
    }
    for table in stored {
        partials.push(tables.seal(table)?);
    }
    Ok(partials)
}

/// The table of a frame, and its blocks.
fn read_partial(frame: &[u8]) -> Result<(i64, Vec<&[u8]>), Damaged> {
    let mut from = ByteReader::new(frame);
    let (id, mut blocks) = (from.i64()?, Vec::new());
    while !from.is_empty() {
        blocks.push(from.bytes()?);
    }
    Ok((id, blocks))
}
