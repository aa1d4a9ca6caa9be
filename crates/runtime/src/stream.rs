//! A stream: an ordered sequence of buffers that pipelines read. Each split of a source is one, and so is the output of
//! each aggregation and of each keyed operator.
//!
//! Its lock guards the sequencer and the ends of the epoch rings at which buffers are added, so everything enters in one
//! order. Tasks finish their buffers without it.

use crate::buffer::{Buffer, Generation};
use crate::sequencer::{Reached, Sequenced, Sequencer, Unit};
use crate::task::{ProcessTask, Task};
use millstream_plan::pipeline::PipelineInput;
use millstream_sync::epochs::{EpochRing, EpochWriter, Outcome, Release};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;

/// Epochs of a stream that a pipeline tells apart at a time. More than that are never in progress in a useful way: their
/// buffers would have to be spread over as many workers.
const EPOCHS: usize = 128;

/// Index into the streams of a query.
pub(crate) type StreamId = usize;

/// A pipeline that reads a stream, and where it tells its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channel {
    /// The pipeline.
    pub(crate) pipeline: usize,
    /// Its place among the inputs of the aggregation or the lanes of the sink in which the pipeline ends.
    pub(crate) port: usize,
}

/// Where rows come from, in their places ([`millstream_state::Ordinal`]): the same after a restart, whatever files are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// [`Stream::number`]
    pub(crate) stream: u32,
    /// The pipeline's place among those with the same end.
    pub(crate) pipeline: u32,
}

/// See the file's description.
pub(crate) struct Stream {
    /// Its place among the streams of the query.
    pub(crate) id: StreamId,
    /// Its number in the places of rows. A query that goes on from a checkpoint keeps those that were there, also
    /// if a source has more splits now.
    pub(crate) number: u32,
    /// What it is part of.
    pub(crate) input: PipelineInput,
    /// Its readers.
    pub(crate) channels: Vec<Channel>,
    /// One for each channel.
    rings: Vec<Arc<EpochRing>>,
    state: Mutex<State>,
}

struct State {
    sequencer: Sequencer,
    /// One for each channel.
    epochs: Vec<EpochWriter>,
}

/// What follows from a change of a stream: to be acted on after its lock is released. Acting in another order than the
/// changes happened in does no harm, because watermarks, generations and ends only ever advance.
#[derive(Default)]
pub(crate) struct Consequences {
    /// To be scheduled.
    pub(crate) tasks: Vec<Task>,
    /// Progress, by position in [`Stream::channels`].
    pub(crate) releases: Vec<(usize, Release)>,
    /// Ends the query.
    pub(crate) error: Option<Diagnostic>,
}

impl Stream {
    /// With the sequencer of its rows.
    pub(crate) fn new(
        (id, number): (StreamId, u32),
        input: PipelineInput,
        channels: Vec<Channel>,
        sequencer: Sequencer,
    ) -> Stream {
        let epochs: Vec<EpochWriter> = channels.iter().map(|_| EpochWriter::new(EPOCHS)).collect();
        let rings = epochs.iter().map(|e| Arc::clone(e.ring())).collect();
        Stream { id, number, input, channels, rings, state: Mutex::new(State { sequencer, epochs }) }
    }

    /// Takes a unit; see [`Sequencer::arrive`].
    pub(crate) fn deliver(&self, number: u64, unit: Unit) -> Consequences {
        self.change(|sequencer, pass| sequencer.arrive(number, unit, pass))
    }

    /// A task of a channel is done.
    pub(crate) fn finish(&self, channel: usize, epoch: u64) -> Option<Release> {
        let outcome = self.rings[channel].finish(epoch);
        match outcome.catch_up {
            // Releases only ever advance: the later one says all.
            true => self.state.lock().epochs[channel].catch_up().release.or(outcome.release),
            false => outcome.release,
        }
    }

    /// The unit that nothing is waited for before.
    pub(crate) fn next_unit(&self) -> u64 {
        self.state.lock().sequencer.units()
    }

    /// Whether everything up to unit `units` has been processed.
    pub(crate) fn is_drained(&self, units: u64) -> bool {
        let state = self.state.lock();
        state.sequencer.units() == units
            && !state.sequencer.is_waiting()
            && state.epochs.iter().all(EpochWriter::is_drained)
    }

    /// Epochs of a channel that are not released.
    pub(crate) fn epochs_in_flight(&self, channel: usize) -> u64 {
        self.state.lock().epochs[channel].in_flight()
    }

    /// See [`Sequencer::raise`].
    pub(crate) fn raise(&self, floor: i64) -> Consequences {
        self.change(|sequencer, pass| sequencer.raise(floor, pass))
    }

    /// See [`Sequencer::cut`]; also how far the stream has come there.
    pub(crate) fn cut(&self, generation: Generation) -> (Consequences, Reached) {
        let mut reached = None;
        let consequences = self.change(|sequencer, pass| {
            sequencer.cut(generation, pass);
            reached = Some(sequencer.reached());
        });
        (consequences, reached.expect("a change is made once"))
    }

    /// See [`Sequencer::tick`].
    pub(crate) fn tick(&self) -> Consequences {
        self.change(|sequencer, pass| sequencer.tick(pass))
    }

    fn change(&self, change: impl FnOnce(&mut Sequencer, &mut dyn FnMut(Sequenced))) -> Consequences {
        let mut consequences = Consequences::default();
        let state = &mut *self.state.lock();
        let State { sequencer, epochs } = state;
        change(sequencer, &mut |sequenced| self.pass(sequenced, epochs, &mut consequences));
        consequences
    }

    fn pass(&self, sequenced: Sequenced, epochs: &mut [EpochWriter], consequences: &mut Consequences) {
        let mut each = |change: &dyn Fn(&mut EpochWriter) -> Outcome| {
            for (channel, epochs) in epochs.iter_mut().enumerate() {
                let mut outcome = change(epochs);
                if outcome.catch_up {
                    outcome.release = epochs.catch_up().release.or(outcome.release);
                }
                consequences.releases.extend(outcome.release.map(|r| (channel, r)));
            }
        };
        match sequenced {
            Sequenced::Watermark(watermark) => each(&|epochs| epochs.close(watermark)),
            Sequenced::Cut(generation) => each(&|epochs| epochs.cut(generation.0)),
            Sequenced::End(end) => each(&|epochs| epochs.end(end)),
            Sequenced::Error(error) => {
                consequences.error.get_or_insert(error);
            }
            Sequenced::Buffer(buffer) => {
                let buffer: Arc<Buffer> = Arc::new(buffer);
                for (channel, epochs) in epochs.iter_mut().enumerate() {
                    let (stream, epoch) = (self.id, epochs.begin());
                    let buffer = Arc::clone(&buffer);
                    consequences.tasks.push(Task::Process(ProcessTask { stream, channel, epoch, buffer }));
                }
            }
        }
    }
}
