//! A stream: an ordered sequence of buffers that pipelines read. Each split of a source is one, and so is the output of
//! each aggregation.

use crate::buffer::Buffer;
use crate::epoch::{EpochRing, Release};
use crate::processing_time::ProcessingTime;
use crate::sequencer::{Sequenced, Sequencer, Unit};
use crate::task::{ProcessTask, Task};
use millstream_plan::pipeline::PipelineInput;
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;

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

/// See the file's description.
pub(crate) struct Stream {
    /// Its number.
    pub(crate) id: StreamId,
    /// What it is part of.
    pub(crate) input: PipelineInput,
    /// Its readers.
    pub(crate) channels: Vec<Channel>,
    state: Mutex<State>,
}

struct State {
    sequencer: Sequencer,
    /// One for each channel.
    rings: Vec<EpochRing>,
}

/// What follows from a change of a stream: to be acted on after its lock is released. Acting in another order than the
/// changes happened in does no harm, because watermarks and ends only ever advance.
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
    /// At its start; with a clock if the time of its rows is that of their processing.
    pub(crate) fn new(
        id: StreamId,
        input: PipelineInput,
        channels: Vec<Channel>,
        clock: Option<ProcessingTime>,
    ) -> Stream {
        let rings = channels.iter().map(|_| EpochRing::new()).collect();
        Stream { id, input, channels, state: Mutex::new(State { sequencer: Sequencer::new(clock), rings }) }
    }

    /// Takes a unit; see [`Sequencer::arrive`].
    pub(crate) fn deliver(&self, number: u64, unit: Unit) -> Consequences {
        let mut consequences = Consequences::default();
        let state = &mut *self.state.lock();
        let State { sequencer, rings } = state;
        sequencer.arrive(number, unit, |sequenced| self.pass(sequenced, rings, &mut consequences));
        consequences
    }

    /// A task of a channel is done.
    pub(crate) fn finish(&self, channel: usize, epoch: u64) -> Option<Release> {
        self.state.lock().rings[channel].finish(epoch)
    }

    /// Whether everything up to unit `units` has been processed.
    pub(crate) fn is_drained(&self, units: u64) -> bool {
        let state = self.state.lock();
        state.sequencer.units() == units
            && !state.sequencer.is_waiting()
            && state.rings.iter().all(EpochRing::is_drained)
    }

    /// See [`Sequencer::raise`].
    pub(crate) fn raise(&self, floor: i64) -> Consequences {
        let mut consequences = Consequences::default();
        let state = &mut *self.state.lock();
        let State { sequencer, rings } = state;
        sequencer.raise(floor, |sequenced| self.pass(sequenced, rings, &mut consequences));
        consequences
    }

    /// See [`Sequencer::tick`].
    pub(crate) fn tick(&self) -> Consequences {
        let mut consequences = Consequences::default();
        let state = &mut *self.state.lock();
        let State { sequencer, rings } = state;
        sequencer.tick(|sequenced| self.pass(sequenced, rings, &mut consequences));
        consequences
    }

    fn pass(&self, sequenced: Sequenced, rings: &mut [EpochRing], consequences: &mut Consequences) {
        let mut release = |change: &dyn Fn(&mut EpochRing) -> Option<Release>| {
            for (channel, ring) in rings.iter_mut().enumerate() {
                consequences.releases.extend(change(ring).map(|r| (channel, r)));
            }
        };
        match sequenced {
            Sequenced::Watermark(watermark) => release(&|ring| ring.close(watermark)),
            Sequenced::End(end) => release(&|ring| ring.end(end)),
            Sequenced::Error(error) => {
                consequences.error.get_or_insert(error);
            }
            Sequenced::Buffer(buffer) => {
                let buffer: Arc<Buffer> = Arc::new(buffer);
                for (channel, ring) in rings.iter_mut().enumerate() {
                    let (stream, epoch) = (self.id, ring.begin());
                    let buffer = Arc::clone(&buffer);
                    consequences.tasks.push(Task::Process(ProcessTask { stream, channel, epoch, buffer }));
                }
            }
        }
    }
}
