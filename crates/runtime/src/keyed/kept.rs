//! What a partition remembers: in memory, or encoded in a file: of the run when memory is short, of the checkpoint that the
//! query was recovered from until it is needed.

use super::operators::state_of;
use super::state::State;
use crate::durable::blobs::{Place, Saved, StateBlob};
use crate::executable_plan::OperatorCode;
use millstream_plan::pipeline::KeyedOperator;
use millstream_state::{Charge, MemoryBudget, MemoryClass};
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// See the module.
pub(super) struct Kept {
    place: Place<Box<dyn State>>,
    charge: Charge,
    /// Bytes of memory when it was there last; 0 if it has not been.
    decoded: usize,
    /// `Work::now_ms` of the last job: what times that are saved are relative to.
    now_ms: i64,
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
        Ok(Kept { place: Place::Memory(state_of(plan, code)?), charge, decoded: 0, now_ms: 0 })
    }

    /// The state, read if need be.
    pub(super) fn state(&mut self, plan: &KeyedOperator, code: &OperatorCode) -> Result<&mut dyn State, Diagnostic> {
        if let Place::File(blob) = &self.place {
            // Until it is measured after the job.
            self.charge.set(self.needs());
            let (mut state, bytes) = (state_of(plan, code)?, blob.read()?);
            state.restore(&mut ByteReader::new(&bytes), self.now_ms)?;
            self.place = Place::Memory(state);
        }
        match &mut self.place {
            Place::Memory(state) => Ok(&mut **state),
            Place::File(_) => Err(Diagnostic::bug("state was read and is not there")),
        }
    }

    /// Memory is short: keeps nothing in buffers of others. Takes more memory until the last partition has done so.
    pub(super) fn settle(&mut self) -> Result<(), Diagnostic> {
        if let Place::Memory(state) = &mut self.place {
            state.settle(false)?;
            self.decoded = state.bytes();
            self.charge.set(self.decoded);
        }
        Ok(())
    }

    /// A job at a moment is done: what is held now.
    pub(super) fn worked(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        if let Place::Memory(state) = &mut self.place {
            self.decoded = state.bytes();
            self.charge.set(self.decoded);
        }
    }

    /// Bytes of memory while a job works on it: what is read from a file is held until it is decoded.
    pub(super) fn needs(&self) -> usize {
        match &self.place {
            Place::Memory(_) => self.charge.bytes(),
            Place::File(blob) => {
                let encoded = usize::try_from(blob.bytes()).unwrap_or(usize::MAX);
                encoded.saturating_add(self.decoded.max(encoded.saturating_mul(DECODED)))
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes_in_memory(&self) -> usize {
        self.charge.bytes()
    }

    /// Gives its memory up, if it has any: its encoding is in a file.
    pub(super) fn filed(&mut self, blob: StateBlob) {
        self.place = Place::File(blob);
        self.charge.set(0);
    }

    /// What a moment of [`Work::now_ms`](super::state::Work::now_ms) is when it is saved: relative to the last job.
    pub(super) fn relative(&self, moment_ms: i64) -> i64 {
        if moment_ms == i64::MAX { moment_ms } else { moment_ms.saturating_sub(self.now_ms) }
    }

    /// What is kept of it in a file: its encoding, if it is in memory.
    pub(super) fn save(&self) -> Result<Saved, Diagnostic> {
        match &self.place {
            Place::Memory(state) => {
                let mut out = ByteWriter::new();
                state.save(&mut out)?;
                Ok(Place::Memory(out.into_bytes()))
            }
            Place::File(blob) => Ok(Place::File(blob.clone())),
        }
    }
}
