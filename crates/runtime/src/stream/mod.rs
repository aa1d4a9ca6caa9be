//! A stream: an ordered sequence of buffers that pipelines read. Each split of a source is one, and so is the output of
//! each aggregation and of each keyed operator.
//!
//! Its lock guards the sequencer and the ends of the epoch rings at which buffers are added, so everything enters in one
//! order. Tasks finish their buffers without it.

pub(crate) mod sequencer;

use crate::ids::{Generation, Port, SplitId, StationId, StreamId, StreamNumber};
use crate::schedule::beats::BeatEnd;
use crate::station::{BufferPlace, Consequences, ProcessTask, Task};
use millstream_storage::SplitState;
use millstream_sync::epoch_ring::{EpochRing, EpochWriter, Outcome, Release};
use parking_lot::Mutex;
use sequencer::{Sequenced, Sequencer, Unit};
use std::sync::Arc;

/// Epochs of a stream that a pipeline tells apart at a time. More than that are never in progress in a useful way: their
/// buffers would have to be spread over as many workers.
const EPOCHS: usize = 128;

/// A pipeline that reads a stream, and where it tells its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channel {
    /// Position of the pipeline in the plan.
    pub(crate) pipeline: usize,
    /// The end of the pipeline.
    pub(crate) station: StationId,
    /// Which of the station's inputs it is.
    pub(crate) port: Port,
}

/// What puts the units of a stream in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    /// The reader of a split.
    Split(SplitId),
    /// A station.
    Station(StationId),
}

/// See the module.
pub(crate) struct Stream {
    /// Its place among the streams of the query.
    pub(crate) id: StreamId,
    /// Its number in the places of rows.
    pub(crate) number: StreamNumber,
    /// Where its units come from.
    pub(crate) feed: Feed,
    /// Its readers.
    pub(crate) channels: Vec<Channel>,
    /// One for each channel.
    rings: Vec<Arc<EpochRing>>,
    state: Mutex<Entrance>,
}

/// Where units come in.
struct Entrance {
    sequencer: Sequencer,
    /// One for each channel.
    epochs: Vec<EpochWriter>,
}

impl Stream {
    /// With the sequencer of its rows.
    pub(crate) fn new(
        (id, number): (StreamId, StreamNumber),
        feed: Feed,
        channels: Vec<Channel>,
        sequencer: Sequencer,
    ) -> Stream {
        let epochs: Vec<EpochWriter> = channels.iter().map(|_| EpochWriter::new(EPOCHS)).collect();
        let rings = epochs.iter().map(|e| Arc::clone(e.ring())).collect();
        Stream { id, number, feed, channels, rings, state: Mutex::new(Entrance { sequencer, epochs }) }
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
    pub(crate) fn cut(&self, generation: Generation, is_checkpoint: bool) -> (Consequences, SplitState) {
        let mut reached = None;
        let consequences = self.change(|sequencer, pass| {
            if is_checkpoint {
                sequencer.end_unit(&mut *pass);
            }
            sequencer.cut(generation, &mut *pass);
            reached = Some(sequencer.reached());
            sequencer.resume(pass);
        });
        (consequences, reached.expect("a change is made once"))
    }

    /// See [`Sequencer::beat_end`].
    pub(crate) fn beat_end(&self) -> BeatEnd {
        self.state.lock().sequencer.beat_end()
    }

    /// See [`Sequencer::can_resume`].
    pub(crate) fn can_resume(&self) -> bool {
        self.state.lock().sequencer.can_resume()
    }

    /// See [`Sequencer::take_beat`].
    pub(crate) fn take_beat(&self, end: i64) -> Consequences {
        self.change(|sequencer, pass| sequencer.take_beat(end, pass))
    }

    /// See [`Sequencer::reached`].
    pub(crate) fn reached(&self) -> SplitState {
        self.state.lock().sequencer.reached()
    }

    /// See [`Sequencer::tick`].
    pub(crate) fn tick(&self) -> Consequences {
        self.change(|sequencer, pass| sequencer.tick(pass))
    }

    fn change(&self, change: impl FnOnce(&mut Sequencer, &mut dyn FnMut(Sequenced))) -> Consequences {
        let mut consequences = Consequences::of_tasks();
        let state = &mut *self.state.lock();
        let Entrance { sequencer, epochs } = state;
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
                outcome.release.into_iter().for_each(|release| consequences.release(self.id, channel, release));
            }
        };
        match sequenced {
            Sequenced::Watermark(watermark) => each(&|epochs| epochs.close(watermark)),
            Sequenced::Cut(generation) => each(&|epochs| epochs.cut(generation.0)),
            Sequenced::End(end) => each(&|epochs| epochs.end(end)),
            Sequenced::Held => consequences.ends_beat = true,
            Sequenced::Error(error) => {
                consequences.error.get_or_insert(error);
            }
            Sequenced::Buffer(buffer) => {
                let buffer = buffer.shared();
                for (channel, epochs) in epochs.iter_mut().enumerate() {
                    let place = BufferPlace { stream: self.id, channel, epoch: epochs.begin() };
                    let buffer = Arc::clone(&buffer);
                    consequences.tasks.push(Task::Process(ProcessTask { place, buffer }));
                }
            }
        }
    }
}
