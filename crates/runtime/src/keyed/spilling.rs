//! How the state and the waiting rows of keyed operators are spilled: whole partitions, in the encoding of checkpoints.
//!
//! A worker that has done the jobs of a partition writes its state to a file when memory is short, and the next job reads it
//! again; `rounds` sees to it that this pays. The spilling thread writes the rows that wait, of all partitions into one
//! file, and the states of partitions that nobody works on: it takes such a partition as a worker would, so that jobs that
//! come meanwhile wait for it.
//!
//! A partition has to fit while it is worked on: with its state, the rows that its job consumes, and their output.

use super::KeyedStation;
use super::batch::Batch;
use super::inbox::WaitingGroup;
use super::kept::Encoded;
use crate::durable::blobs::StateBlob;
use crate::station::Consequences;
use millstream_state::{Charge, MemoryClass};
use millstream_storage::{ByteWriter, SpilledBlob};
use millstream_types::Diagnostic;

impl KeyedStation {
    /// Whether a partition of `bytes` bytes is written to a file when its jobs are done.
    fn is_to_spill(&self, bytes: usize) -> bool {
        let spilling = &self.host.spilling;
        bytes > 0 && (spilling.is_eager() || spilling.is_too_much(bytes, self.partitions.len()))
    }

    /// Writes the state of a partition, which the caller works on, to a file, if it is worth it; whether it has.
    pub(super) fn spill_state(&self, partition: usize) -> Result<bool, Diagnostic> {
        let spilling = &self.host.spilling;
        let mut kept = self.kept(partition)?;
        if !self.is_to_spill(kept.bytes_in_memory()) {
            return Ok(false);
        }
        let Some(Encoded { state, notes, run }) = kept.encoded()? else { return Ok(false) };
        let more = notes.as_ref().map_or(0, Vec::len) + run.as_ref().map_or(0, |(_, run)| run.len());
        let _encoded = Charge::new(&self.host.flow.budget, MemoryClass::Operators, state.len() + more);
        let mut writer = spilling.writer()?;
        let mut write = |bytes: Vec<u8>| writer.write(&bytes).map_err(|e| spilling.failed(&e));
        let state = write(state)?;
        let notes = notes.map(&mut write).transpose()?;
        let run = run.map(|(run, bytes)| Ok::<_, Diagnostic>((run, write(bytes)?))).transpose()?;
        let files = writer.finish().map_err(|e| spilling.failed(&e))?;
        let bytes = state.bytes + notes.as_ref().map_or(0, |notes| notes.bytes);
        let blob = |blob| StateBlob::Spilled(SpilledBlob::new(&files, blob));
        let run = run.map(|(run, bytes)| (run, blob(bytes)));
        kept.spilled(Encoded { state: blob(state), notes: notes.map(blob), run });
        drop(kept);
        self.inbox(partition).spilled_state = bytes;
        self.rounds.spilled(bytes);
        Ok(true)
    }

    /// Spills states of partitions that nobody works on, until there are at most `enough` bytes of state; how many.
    pub(super) fn spill_states(&self, enough: u64, consequences: &mut Consequences) -> Result<usize, Diagnostic> {
        let mut spilled = 0;
        for partition in 0..self.partitions.len() {
            if self.host.spilling.has_at_most(enough) {
                break;
            }
            spilled += usize::from(self.spill_idle(partition, consequences)?);
        }
        Ok(spilled)
    }

    /// Spills the state of a partition if nobody works on it, and it is worth it; whether it has.
    fn spill_idle(&self, partition: usize, consequences: &mut Consequences) -> Result<bool, Diagnostic> {
        let mut inbox = self.inbox(partition);
        if inbox.is_busy {
            return Ok(false);
        }
        inbox.is_busy = true;
        drop(inbox);
        let is_spilled = self.spill_state(partition)?;
        if !is_spilled {
            self.kept(partition)?.settle()?;
        }
        let mut inbox = self.inbox(partition);
        let permits = std::mem::take(&mut inbox.permits);
        inbox.is_busy = !inbox.jobs.is_empty();
        let is_busy = inbox.is_busy;
        drop(inbox);
        drop(permits);
        consequences.tasks.extend(is_busy.then(|| self.task(partition)));
        Ok(is_spilled)
    }

    /// Spills the rows that wait for partitions in memory, until there is little enough state; of how many partitions.
    pub(super) fn spill_rows(&self, enough: u64) -> Result<usize, Diagnostic> {
        let spilling = &self.host.spilling;
        if spilling.has_at_most(enough) {
            return Ok(0);
        }
        let all = (0..self.partitions.len()).map(|partition| self.inbox(partition).bytes_in_memory()).sum();
        if !self.is_to_spill(all) {
            return Ok(0);
        }
        let mut writer = spilling.writer()?;
        let mut written = Vec::new();
        let mut partitions = 0;
        for partition in 0..self.partitions.len() {
            // Whoever consumes rows meanwhile does so from memory.
            let groups = self.inbox(partition).groups_in_memory();
            partitions += usize::from(!groups.is_empty());
            for WaitingGroup { port, numbers, batches } in groups {
                let mut out = ByteWriter::new();
                Batch::merge(batches)?.save(&mut out)?;
                let blob = writer.write(&out.into_bytes()).map_err(|e| spilling.failed(&e))?;
                written.push((partition, port, numbers, blob));
            }
        }
        let files = writer.finish().map_err(|e| spilling.failed(&e))?;
        for (partition, port, numbers, blob) in written {
            self.inbox(partition).spilled(port, &numbers, SpilledBlob::new(&files, blob));
        }
        Ok(partitions)
    }
}
