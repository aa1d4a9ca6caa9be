//! Sinks: the way of rows out, in order.
//!
//! Every (stream, pipeline) that ends in the sink has a *lane*. Workers encode the output of their task and push the
//! piece under its buffer's number. Those that are next in their lane become ready (of a buffer that becomes many rows,
//! also before it is done), and whoever finds the sink free writes them. So each lane is in order, lanes interleave,
//! nobody waits for a piece to be written, and the sink is used by one thread at a time. A piece holds its chunk's
//! permit until it is written: a slow sink slows the readers down. Before it makes another piece of a buffer, a worker
//! waits for a moment while much is to be written that others write, or that comes behind what they make.
//!
//! Where results change, every cut ends a beat, and the sink is told ([`Sink::end_beat`]).
//!
//! Under cuts a sink writes all pieces of one generation before the first of the next (`lanes`). Then the sink is told
//! ([`Sink::cut`]), if the cut is a checkpoint.
//!
//! With a `LIMIT` or `OFFSET` pieces stay columns until their turn, because only then it is known which rows are the first.

mod lanes;

use crate::columns::{bytes_of, sliced};
use crate::durable::blobs::damaged;
use crate::durable::part::{Gathering, Part};
use crate::exchange::{Mark, StationMessage, port_of_node, read_gathered};
use crate::host::Host;
use crate::ids::{Generation, Port};
use crate::pipeline::{Arrived, WorkerContext};
use crate::schedule::flow::Permit;
use crate::schedule::threads::Watch;
use crate::station::{Awaited, Consequences, Job, Station, Succeeded, Succession};
use crate::stats::SinkStats;
use arrow_array::ArrayRef;
use lanes::{Lanes, PieceContent, Ready, SinkPiece};
use millstream_connectors::{Commit, Encoded, Encoder, LostSink, Sink};
use millstream_plan::pipeline::SinkPlan;
use millstream_state::{Charge, MemoryClass};
use millstream_storage::{Manifest, SinkState};
use millstream_sync::epoch_ring::Release;
use millstream_types::{DataType, Diagnostic, Field, Schema};
use parking_lot::{Condvar, Mutex};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What waits for its sink is much if it is 1/`UNWRITTEN` of the budget.
const UNWRITTEN: u64 = 8;
/// How long a worker waits at most before it makes more.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a sink gets of other nodes: each has a lane, behind those of this node.
pub(crate) struct FromNodes {
    /// Columns of its rows.
    schema: Schema,
    /// The lane of the first of them.
    first: usize,
    came: Mutex<Vec<FromNode>>,
}

/// What has come of a node.
#[derive(Default)]
struct FromNode {
    /// Pieces that are in the lane.
    pieces: u64,
    /// The generation that the node has come to.
    reached: Generation,
    /// Pieces from behind a cut that the node has not come to: others from before it may still come.
    behind: Vec<(Generation, SinkPiece)>,
}

impl FromNodes {
    /// Of so many other nodes, whose lanes come behind those of this one.
    pub(crate) fn new(plan: &SinkPlan, lanes: usize, nodes: usize) -> FromNodes {
        let mut schema = plan.schema.clone();
        if plan.changes.is_some() {
            schema.fields.push(Field::new("kind of change", DataType::TinyInt, false));
        }
        FromNodes { schema, first: lanes, came: Mutex::new((0..nodes).map(|_| FromNode::default()).collect()) }
    }
}

/// See the module.
pub(crate) struct SinkStation {
    /// Position in the plan.
    number: usize,
    /// What checkpoints say of it, but for its token.
    state: SinkState,
    host: Arc<Host>,
    stats: Arc<SinkStats>,
    encoder: Arc<dyn Encoder>,
    limited: bool,
    /// Whether it is told where beats end.
    ends_beats: bool,
    /// Nothing more is written; tasks that end here need not run.
    done: AtomicBool,
    lanes: Mutex<Lanes>,
    /// What comes from other nodes.
    gathered: Option<FromNodes>,
    /// Pieces have been written.
    written: Condvar,
}

impl SinkStation {
    /// For a sink in which `lanes` lanes end.
    pub(crate) fn new(
        (number, state): (usize, SinkState),
        host: &Arc<Host>,
        sink: Box<dyn Sink>,
        lanes: usize,
        ends_beats: bool,
        (skip, limit): (u64, Option<u64>),
        gathered: Option<FromNodes>,
    ) -> SinkStation {
        let lanes = lanes + gathered.as_ref().map_or(0, |gathered| gathered.came.lock().len());
        SinkStation {
            number,
            state,
            host: Arc::clone(host),
            stats: Arc::clone(&host.stats.sinks[number]),
            encoder: sink.encoder(),
            limited: limit.is_some() || skip > 0,
            ends_beats,
            done: AtomicBool::new(false),
            lanes: Mutex::new(Lanes::new(sink, lanes, (skip, limit))),
            written: Condvar::new(),
            gathered,
        }
    }

    /// Whether output is still wanted. Relaxed: a task that reads an old value only does work for nothing.
    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Makes a piece of rows.
    fn piece(&self, columns: Vec<ArrayRef>, rows: usize, permit: Option<Arc<Permit>>) -> Result<SinkPiece, Diagnostic> {
        self.stats.show(&columns, rows);
        let content = if self.limited {
            PieceContent::Columns(columns, rows)
        } else {
            PieceContent::Encoded(self.encoder.encode(&columns, rows)?)
        };
        let bytes = match &content {
            PieceContent::Encoded(Encoded::Bytes { data, .. }) => data.capacity(),
            PieceContent::Encoded(Encoded::Columns { columns, .. }) | PieceContent::Columns(columns, _) => {
                bytes_of(columns)
            }
        };
        let charge = Charge::new(&self.host.flow.budget, MemoryClass::Sinks, bytes);
        Ok(SinkPiece { content, _permit: permit, _charge: charge })
    }

    /// Waits, before another piece of a buffer is made, while much is to be written by another worker, or behind what another
    /// worker makes. Not forever: a sink that stands still must not hold back the workers, which have other sinks.
    fn wait_for_others(&self, lane: Port, number: u64) {
        let budget = &self.host.flow.budget;
        let is_much = || budget.used_by(MemoryClass::Sinks) > budget.limit() / UNWRITTEN;
        if !is_much() {
            return;
        }
        let until = Instant::now() + PATIENCE;
        let mut lanes = self.lanes.lock();
        while !lanes.done && (lanes.sink.is_none() || !lanes.is_next(lane, number)) && is_much() {
            if self.written.wait_until(&mut lanes, until).timed_out() {
                break;
            }
        }
    }

    /// A piece of the output of a buffer of a lane, known by number and generation, has been made, the last one if it is
    /// `complete`.
    fn write(
        &self,
        lane: Port,
        buffer: (u64, Generation),
        piece: Option<SinkPiece>,
        complete: bool,
        consequences: &mut Consequences,
    ) -> Result<(), Diagnostic> {
        let mut lanes = self.lanes.lock();
        if lanes.done {
            // The piece's permit is released after the lock.
            drop(lanes);
            return Ok(());
        }
        lanes.arrive(lane, buffer, piece, complete);
        drop(lanes);
        self.drive(consequences)
    }

    /// What is handed over of a checkpoint: the end of the sink's span.
    fn span(
        &self,
        commit: Option<Box<dyn Commit>>,
    ) -> impl FnOnce(&mut Gathering) -> Result<bool, Diagnostic> + Send + use<> {
        let sink = self.number;
        move |into: &mut Gathering| {
            into.commits[sink] = commit;
            Ok(true)
        }
    }

    /// Ends the span of a sink that the cut will not reach, because it has got all.
    fn end_span_of_done(&self, generation: Generation) -> Result<(), Diagnostic> {
        let Some(number) = self.host.checkpoint_before(generation) else { return Ok(()) };
        let mut lanes = self.lanes.lock();
        if lanes.awaited.is_some() || !lanes.done {
            return Ok(());
        }
        let commit = lanes.sink.as_deref_mut().map(|sink| sink.cut(number)).transpose()?.flatten();
        drop(lanes);
        self.host.hand_over(generation, self.span(commit));
        Ok(())
    }

    /// The cut has reached the sink.
    fn end_span(&self, generation: Generation, writer: &mut dyn Sink) -> Result<(), Diagnostic> {
        if let Some(number) = self.host.checkpoint_before(generation) {
            let watch = Watch::start();
            let commit = writer.cut(number)?;
            self.host.hand_over(generation, self.span(commit));
            self.host.stats.checkpoints.note_handing_over(&watch);
        }
        Ok(())
    }

    /// Notes what a lane has released; whether that is news.
    fn is_news(&self, lane: Port, release: Release) -> bool {
        let mut lanes = self.lanes.lock();
        !lanes.done && lanes.release(lane, release)
    }

    fn flush_interval(&self) -> Duration {
        Duration::from_millis(self.host.config.flush_interval_ms)
    }

    /// Writes what is ready, unless another thread is at it: that one will see it before it leaves.
    fn drive(&self, consequences: &mut Consequences) -> Result<(), Diagnostic> {
        loop {
            let mut lanes = self.lanes.lock();
            while lanes.is_wanted && lanes.sink.is_some() {
                self.written.wait(&mut lanes);
            }
            if lanes.done || lanes.sink.is_none() {
                return Ok(());
            }
            if lanes.ready.is_empty() && !lanes.flush_wanted {
                if lanes.is_exhausted() {
                    lanes.done = true;
                    let awaited = lanes.awaited.take();
                    // Pieces beyond the limit hold permits, which the other sinks' input needs.
                    let beyond = lanes.take_waiting();
                    drop(lanes);
                    drop(beyond);
                    if let Some(generation) = awaited {
                        self.end_span_of_done(generation)?;
                        consequences.cuts += 1;
                    }
                    self.done.store(true, Ordering::Relaxed);
                    consequences.sinks_done += 1;
                }
                return Ok(());
            }
            let pieces = std::mem::take(&mut lanes.ready);
            // A task that makes much of one buffer may write for longer than the interval.
            let is_due = lanes.flush_due(self.flush_interval()).is_some_and(|due| due <= Instant::now());
            let (mut skip, mut remaining, flush) =
                (lanes.skip, lanes.remaining, std::mem::take(&mut lanes.flush_wanted) || is_due);
            let Some(mut writer) = lanes.sink.take() else { return Ok(()) };
            drop(lanes);
            let (mut written, started) = (0, Instant::now());
            self.stats.writes(started);
            let mut reached = None;
            let mut result = pieces.into_iter().try_for_each(|ready| {
                match ready {
                    Ready::SinkPiece(piece) => {
                        written += self.write_piece(&mut *writer, piece, (&mut skip, &mut remaining))?;
                        self.written.notify_all();
                    }
                    Ready::Cut(generation) => {
                        if self.ends_beats && self.host.ends_beat(generation) {
                            writer.end_beat()?;
                        }
                        self.end_span(generation, &mut *writer)?;
                        reached = Some(generation);
                    }
                }
                Ok(())
            });
            // Who waits for a beat need not wait for others.
            let flush = flush || (self.ends_beats && reached.is_some());
            if flush && result.is_ok() {
                result = writer.flush();
            }
            self.host.stats.rows_out.fetch_add(written, Ordering::Relaxed);
            self.stats.wrote(written, started.elapsed());
            let mut lanes = self.lanes.lock();
            lanes.sink = Some(writer);
            self.written.notify_all();
            (lanes.skip, lanes.remaining) = (skip, remaining);
            let is_awaited = lanes.awaited.take_if(|awaited| reached >= Some(*awaited)).is_some();
            let was_due = lanes.flush_due(self.flush_interval());
            lanes.note_written(flush, written, Instant::now());
            let due = lanes.flush_due(self.flush_interval());
            // What is dropped gives memory back, for which other locks are taken.
            let beyond = if remaining == Some(0) { std::mem::take(&mut lanes.ready) } else { Default::default() };
            drop(lanes);
            drop(beyond);
            consequences.cuts += usize::from(is_awaited);
            consequences.due_at(due.filter(|_| due != was_due));
            result?;
        }
    }

    /// Writes a piece, as far as its rows are neither to be skipped nor beyond those that remain, and returns its rows.
    fn write_piece(
        &self,
        sink: &mut dyn Sink,
        piece: SinkPiece,
        (skip, remaining): (&mut u64, &mut Option<u64>),
    ) -> Result<u64, Diagnostic> {
        let encoded = match piece.content {
            PieceContent::Encoded(encoded) => encoded,
            PieceContent::Columns(columns, rows) => {
                let at_most = |rows: usize, most: u64| rows.min(usize::try_from(most).unwrap_or(usize::MAX));
                let skipped = at_most(rows, *skip);
                *skip -= skipped as u64;
                let rows = remaining.map_or(rows - skipped, |most| at_most(rows - skipped, most));
                if rows == 0 {
                    return Ok(0);
                }
                *remaining = remaining.map(|r| r - rows as u64);
                let wanted = sliced(&columns, skipped, rows);
                self.encoder.encode(&wanted, rows)?
            }
        };
        let rows = match &encoded {
            Encoded::Bytes { rows, .. } | Encoded::Columns { rows, .. } => *rows as u64,
        };
        sink.write(encoded)?;
        Ok(rows)
    }
}

impl Station for SinkStation {
    /// The program itself checks the sink's NOT NULL columns.
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let (stamp, port) = (arrived.buffer.stamp, arrived.port);
        let number = (stamp.sequence, stamp.generation);
        let mut consequences = Consequences { finished: vec![arrived.place], ..Consequences::default() };
        if !self.is_done() {
            let mut is_first = true;
            arrived.emit(&self.host, context, &mut |_, emitted| {
                if !std::mem::take(&mut is_first) {
                    self.wait_for_others(port, number.0);
                }
                let piece = self.piece(emitted.columns, emitted.rows, arrived.buffer.permit.clone())?;
                self.write(port, number, Some(piece), false, &mut consequences)?;
                Ok(if self.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        }
        self.write(port, number, None, true, &mut consequences)?;
        Ok(consequences)
    }

    fn release(&self, lane: Port, release: Release) -> Consequences {
        if self.is_news(lane, release) { self.settle() } else { Consequences::default() }
    }

    /// Writes what is ready.
    fn settle(&self) -> Consequences {
        let mut consequences = Consequences::default();
        let result = self.drive(&mut consequences);
        consequences.note(result);
        consequences
    }

    fn receive(&self, from: usize, message: StationMessage) -> Result<Consequences, Diagnostic> {
        let gathered = self.gathered.as_ref().ok_or_else(|| Diagnostic::bug("a sink got rows of another node"))?;
        let port = port_of_node(gathered.first, from);
        let mut consequences = Consequences::default();
        let mut came = gathered.came.lock();
        let (came, mut released) = (&mut came[from - 1], None);
        let pieces = match message {
            StationMessage::Mark(Mark { release, .. }) => {
                came.reached = came.reached.max(Generation(release.generation));
                released = Some(release);
                std::mem::take(&mut came.behind)
            }
            StationMessage::Frame(frame, permit) if !self.is_done() => {
                let (generation, batch) = read_gathered(&gathered.schema, &frame).map_err(damaged)?;
                if generation > self.lanes.lock().generation() {
                    // It waits for marks.
                    permit.return_credit();
                }
                let rows = batch.rows();
                vec![(generation, self.piece(batch.columns, rows, Some(permit))?)]
            }
            StationMessage::Frame(..) => Vec::new(),
        };
        for (generation, piece) in pieces {
            if generation > came.reached {
                came.behind.push((generation, piece));
                continue;
            }
            self.write(port, (came.pieces, generation), Some(piece), true, &mut consequences)?;
            came.pieces += 1;
        }
        if released.is_some_and(|release| self.is_news(port, release)) {
            self.drive(&mut consequences)?;
        }
        Ok(consequences)
    }

    fn perform(&self, _: Job, _: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        Err(Diagnostic::bug("a sink has no jobs"))
    }

    fn await_cut(&self, generation: Generation) -> Awaited {
        let mut lanes = self.lanes.lock();
        lanes.awaited = (!lanes.done).then_some(generation);
        if lanes.done { Awaited::Passed } else { Awaited::Yes }
    }

    fn cut_passed(&self, generation: Generation) -> Result<(), Diagnostic> {
        self.end_span_of_done(generation)
    }

    fn describe(&self, manifest: &mut Manifest) {
        manifest.sinks.push(self.state.clone());
    }

    /// Hands what was written to the reader, if it has waited for the flush interval. A thread that is using the sink does it
    /// before it leaves.
    fn due(&self, now: Instant) -> Result<Consequences, Diagnostic> {
        let mut consequences = Consequences::default();
        let mut lanes = self.lanes.lock();
        let due = lanes.flush_due(self.flush_interval());
        if lanes.flush_wanted || due.is_none_or(|due| due > now) {
            consequences.due_at(due.filter(|_| !lanes.flush_wanted));
            return Ok(consequences);
        }
        lanes.flush_wanted = true;
        drop(lanes);
        self.drive(&mut consequences)?;
        Ok(consequences)
    }

    fn last_part(&self, checkpoint: u64) -> Result<Option<Part>, Diagnostic> {
        let mut lanes = self.lanes.lock();
        let Some(sink) = lanes.sink.as_deref_mut() else { return Ok(Some(Box::new(self.span(None)))) };
        if self.ends_beats {
            sink.end_beat()?;
        }
        Ok(Some(Box::new(self.span(sink.cut(checkpoint)?))))
    }

    fn commit_of_others(&self, sinks: &[SinkState]) -> Result<(), Diagnostic> {
        let (mut lanes, tokens) = (self.lanes.lock(), &sinks[self.number].others);
        if tokens.is_empty() {
            return Ok(());
        }
        lanes.sink.as_deref_mut().map_or(Ok(()), |sink| self.stats.commits(|| sink.commit_of_others(tokens)))
    }

    fn succeed(&self, lost: &Succession<'_>) -> Result<Option<Succeeded>, Diagnostic> {
        let (token, until) = (lost.tokens.get(self.number).and_then(Option::as_ref), Instant::now() + PATIENCE);
        let mut lanes = self.lanes.lock();
        lanes.is_wanted = true;
        while lanes.sink.is_none() && !self.written.wait_until(&mut lanes, until).timed_out() {}
        lanes.is_wanted = false;
        let taken = lanes.sink.take();
        drop(lanes);
        self.written.notify_all();
        let Some(mut sink) = taken else { return Ok(None) };
        // Without the lock: brokers and databases may take their time, and workers have other sinks.
        let succeeded =
            self.stats.commits(|| sink.succeed(&LostSink { node: lost.node, token, is_lost: lost.is_lost }));
        let place = succeeded.and_then(|()| sink.share());
        self.lanes.lock().sink = Some(sink);
        self.written.notify_all();
        let mut succeeded = Succeeded { place: place?.map(|place| (self.number, place)), ..Succeeded::default() };
        self.drive(&mut succeeded.consequences)?;
        Ok(Some(succeeded))
    }

    fn finish(&self) -> Result<(), Diagnostic> {
        let Some(mut sink) = self.lanes.lock().sink.take() else { return Ok(()) };
        if self.ends_beats {
            sink.end_beat()?;
        }
        sink.finish()
    }

    fn abandon(&self) {
        drop(self.lanes.lock().sink.take());
    }
}
