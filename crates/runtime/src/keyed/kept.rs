//! What a partition remembers: in memory, or encoded in files: of the run when memory is short, of the checkpoint that the
//! query was recovered from until it is needed.

use super::operators::state_of;
use super::state::State;
use super::versions::{Next, Pieces, Versioned};
use crate::durable::blobs::{Place, Saved, StateBlob};
use crate::durable::restored::Restored;
use crate::executable_plan::OperatorCode;
use millstream_plan::pipeline::KeyedOperator;
use millstream_state::{Charge, MemoryBudget, MemoryClass};
use millstream_storage::{ByteReader, ByteWriter, Damaged, PartitionState};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// See the module.
pub(super) struct Kept {
    place: Held,
    charge: Charge,
    /// Bytes of memory when it was there last; 0 if it has not been.
    decoded: usize,
    /// `Work::now_ms` of the last job: what times that are saved are relative to. Negative if that was in an earlier run.
    now_ms: i64,
    /// What the last checkpoint has of it.
    pieces: Pieces,
}

/// Where a state is.
enum Held {
    Memory(Box<dyn State>),
    /// Encoded, in a file of the run.
    Spilled(SpilledState),
    /// In files of a checkpoint: all, and what has changed since, each with the time of the last job before.
    Checkpointed(Vec<(StateBlob, i64)>),
}

/// A state in a file of the run.
struct SpilledState {
    encoded: Encoded<StateBlob>,
    /// What a checkpoint has written of it meanwhile.
    written: Option<Written>,
}

/// What a checkpoint has written of a state that was in a file.
#[derive(Clone, Copy)]
enum Written {
    All,
    Run,
}

/// The encoding of a state for a file of the run: bytes, or where they are.
pub(super) struct Encoded<T> {
    pub(super) state: T,
    /// What it has noted for checkpoints.
    pub(super) notes: Option<T>,
    /// What a checkpoint writes of it.
    pub(super) run: Option<(ChangedRun, T)>,
}

/// A run that is to be written behind some of the pieces of the last checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedRun {
    /// So many of the pieces are kept.
    pub(super) keeps: usize,
    pub(super) level: u8,
    /// Milliseconds since the last of those.
    pub(super) after_ms: i64,
}

/// What a checkpoint keeps of a state that has changed.
pub(super) struct SavedState {
    /// `None`: this is all of the state.
    pub(super) run: Option<ChangedRun>,
    pub(super) state: Saved,
}

/// State in memory is about this many times as large as its encoding at most: tables have empty places, and order is
/// kept beside what is ordered.
const DECODED: usize = 3;

impl Kept {
    /// The state of a partition at its start.
    pub(super) fn new(
        plan: &KeyedOperator,
        code: &OperatorCode,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Kept, Diagnostic> {
        let charge = Charge::new(budget, MemoryClass::Operators, 0);
        let place = Held::Memory(state_of(plan, code)?);
        Ok(Kept { place, charge, decoded: 0, now_ms: 0, pieces: Pieces::default() })
    }

    /// The state, read if need be.
    pub(super) fn state(&mut self, plan: &KeyedOperator, code: &OperatorCode) -> Result<&mut dyn State, Diagnostic> {
        let read = match &self.place {
            Held::Memory(_) => None,
            Held::Spilled(SpilledState { encoded, written }) => {
                // Until it is measured after the job.
                self.charge.set(self.needs());
                let (mut state, bytes) = (state_of(plan, code)?, encoded.state.read()?);
                state.restore(&mut ByteReader::new(&bytes), self.now_ms)?;
                if let Some(versioned) = state.versioned() {
                    if let Some(notes) = &encoded.notes {
                        versioned.restore_notes(&mut ByteReader::new(&notes.read()?))?;
                    }
                    match written {
                        Some(Written::All) => versioned.begin(),
                        Some(Written::Run) => versioned.end_version(),
                        None => {}
                    }
                }
                Some(state)
            }
            Held::Checkpointed(pieces) => {
                self.charge.set(self.needs());
                let read = pieces.iter().map(|(blob, now_ms)| Ok((blob.read()?, *now_ms)));
                Some(in_pieces(read, state_of(plan, code)?)?)
            }
        };
        if let Some(state) = read {
            self.place = Held::Memory(state);
        }
        match &mut self.place {
            Held::Memory(state) => Ok(&mut **state),
            _ => Err(Diagnostic::bug("state was read and is not there")),
        }
    }

    /// Memory is short: keeps nothing in buffers of others. Takes more memory until the last partition has done so.
    pub(super) fn settle(&mut self) -> Result<(), Diagnostic> {
        if let Held::Memory(state) = &mut self.place {
            state.settle(false)?;
            self.decoded = state.bytes();
            self.charge.set(self.decoded);
        }
        Ok(())
    }

    /// A job at a moment is done: what is held now.
    pub(super) fn worked(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        if let Held::Memory(state) = &mut self.place {
            self.decoded = state.bytes();
            self.charge.set(self.decoded);
        }
    }

    /// Bytes of memory while a job works on it: what is read from a file is held until it is decoded.
    pub(super) fn needs(&self) -> usize {
        let encoded = match &self.place {
            Held::Memory(_) => return self.charge.bytes(),
            Held::Spilled(SpilledState { encoded: Encoded { state, notes, .. }, .. }) => {
                state.bytes() + notes.as_ref().map_or(0, StateBlob::bytes)
            }
            Held::Checkpointed(pieces) => pieces.iter().map(|(blob, _)| blob.bytes()).sum(),
        };
        let encoded = usize::try_from(encoded).unwrap_or(usize::MAX);
        encoded.saturating_add(self.decoded.max(encoded.saturating_mul(DECODED)))
    }

    /// Bytes of memory.
    pub(super) fn bytes_in_memory(&self) -> usize {
        self.charge.bytes()
    }

    /// Gives its memory up, if it has any: its encoding is in a file of the run.
    pub(super) fn spilled(&mut self, encoded: Encoded<StateBlob>) {
        self.place = Held::Spilled(SpilledState { encoded, written: None });
        self.charge.set(0);
    }

    /// It is what a checkpoint says, whose files are read when it is needed.
    pub(super) fn restored(&mut self, saved: &PartitionState, from: &Restored<'_>) {
        self.now_ms = -saved.aged_ms;
        let pieces = pieces_of(saved, from);
        let levels = [u8::MAX].into_iter().chain(saved.runs.iter().map(|run| run.level));
        self.pieces =
            Pieces::restored(pieces.iter().zip(levels).map(|((blob, now), level)| (level, blob.bytes(), *now)));
        self.place = Held::Checkpointed(pieces);
    }

    /// Milliseconds from the last job to a moment.
    pub(super) fn age_at(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(self.now_ms).max(0)
    }

    /// What a moment of [`Work::now_ms`](super::state::Work::now_ms) is when it is saved: relative to the last job.
    pub(super) fn relative(&self, moment_ms: i64) -> i64 {
        if moment_ms == i64::MAX { moment_ms } else { moment_ms.saturating_sub(self.now_ms) }
    }

    /// The moment that [`Kept::relative`] was of.
    pub(super) fn absolute(&self, relative_ms: i64) -> i64 {
        if relative_ms == i64::MAX { relative_ms } else { relative_ms.saturating_add(self.now_ms) }
    }

    /// The encoding of all of it for a file of the run, if it is in memory.
    pub(super) fn encoded(&mut self) -> Result<Option<Encoded<Vec<u8>>>, Diagnostic> {
        let Held::Memory(state) = &mut self.place else { return Ok(None) };
        let (mut notes, mut run) = (None, None);
        if let Some(versioned) = state.versioned()
            && versioned.is_noting()
        {
            let mut out = ByteWriter::new();
            versioned.save_notes(&mut out);
            notes = Some(out.into_bytes());
            run = changed(versioned, &self.pieces, 1, self.now_ms)?;
        }
        Ok(Some(Encoded { state: saved(&**state)?, notes, run }))
    }

    /// What a checkpoint of this number keeps of it, which has changed since the last one.
    pub(super) fn save(&mut self, checkpoint: u64) -> Result<SavedState, Diagnostic> {
        let (run, bytes, state) = match &mut self.place {
            Held::Memory(state) => {
                let run = match state.versioned() {
                    Some(versioned) => changed(versioned, &self.pieces, checkpoint, self.now_ms)?,
                    None => None,
                };
                let (run, state_bytes) = match run {
                    Some((run, bytes)) => {
                        state.versioned().into_iter().for_each(|versioned| versioned.end_version());
                        (Some(run), bytes)
                    }
                    None => {
                        let bytes = saved(&**state)?;
                        state.versioned().into_iter().for_each(|versioned| versioned.begin());
                        (None, bytes)
                    }
                };
                (run, state_bytes.len() as u64, Place::Memory(state_bytes))
            }
            Held::Spilled(SpilledState { encoded, written }) => {
                let (run, blob) = match encoded.run.take() {
                    Some((run, blob)) => (Some(run), blob),
                    None => (None, encoded.state.clone()),
                };
                *written = Some(if run.is_some() { Written::Run } else { Written::All });
                (run, blob.bytes(), Place::File(blob))
            }
            Held::Checkpointed(_) => return Err(Diagnostic::bug("state has changed and was not read")),
        };
        match run {
            Some(ChangedRun { keeps, level, .. }) => self.pieces.run((level, keeps), bytes, self.now_ms),
            None => self.pieces.base(bytes, self.now_ms),
        }
        Ok(SavedState { run, state })
    }
}

/// The pieces that a checkpoint has of a partition, each with the time of the last job before it.
pub(super) fn pieces_of(saved: &PartitionState, from: &Restored<'_>) -> Vec<(StateBlob, i64)> {
    // From the last back to the base.
    let (mut now_ms, mut pieces) = (-saved.aged_ms, Vec::with_capacity(saved.runs.len() + 1));
    for run in saved.runs.iter().rev() {
        pieces.push((from.blob(&run.blob), now_ms));
        now_ms = now_ms.saturating_sub(run.after_ms);
    }
    pieces.push((from.blob(&saved.state), now_ms));
    pieces.reverse();
    pieces
}

/// All of a state.
fn saved(state: &dyn State) -> Result<Vec<u8>, Diagnostic> {
    let mut out = ByteWriter::new();
    state.save(&mut out)?;
    Ok(out.into_bytes())
}

/// What has changed in a state, as the run that a checkpoint of this number writes; `None` if it writes all.
fn changed(
    versioned: &mut dyn Versioned,
    pieces: &Pieces,
    checkpoint: u64,
    now_ms: i64,
) -> Result<Option<(ChangedRun, Vec<u8>)>, Diagnostic> {
    if !versioned.is_noting() || !versioned.is_between_beats() {
        return Ok(None);
    }
    let Next::Run { level, keeps, since, then_ms } = pieces.next(checkpoint) else { return Ok(None) };
    let mut out = ByteWriter::new();
    versioned.save_since(since, &mut out)?;
    let run = ChangedRun { keeps, level, after_ms: now_ms.saturating_sub(then_ms) };
    Ok(pieces.is_worth(keeps, out.len() as u64).then(|| (run, out.into_bytes())))
}

/// The state that a checkpoint has in pieces: all of it, then what has changed since, each with the time of the last job before. It notes
/// what changes from now on.
pub(super) fn in_pieces(
    pieces: impl Iterator<Item = Result<(Vec<u8>, i64), Diagnostic>>,
    mut state: Box<dyn State>,
) -> Result<Box<dyn State>, Diagnostic> {
    for (number, piece) in pieces.enumerate() {
        let (bytes, now_ms) = piece?;
        let mut from = ByteReader::new(&bytes);
        if number == 0 {
            state.restore(&mut from, now_ms)?;
            state.versioned().into_iter().for_each(|versioned| versioned.begin());
        } else {
            let versioned = state.versioned();
            let versioned = versioned.ok_or_else(|| Damaged("changes are of a state that has none".into()))?;
            versioned.apply(&mut from, now_ms)?;
            versioned.end_version();
        }
        from.end()?;
    }
    Ok(state)
}
