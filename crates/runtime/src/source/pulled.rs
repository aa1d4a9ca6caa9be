//! Splits that workers read: those whose readers never wait for anybody outside.
//!
//! ```text
//!                  ┌────────────────── one task ───────────────────┐
//! queues ─► Pulled ┤ read ─► (back to the queues) ─► decode ─► run │
//!   ▲              └──────────────┼────────────────────────────────┘
//!   └─────────────────────────────┘ for whoever is free next
//! ```
//!
//! Whoever has the [`Pulled`] of a split is the only one to read it: it is a task, and there is one. Its worker gives it back as soon as it has
//! a chunk, so that others can read while it decodes the chunk and takes it through its pipeline: no thread is woken for a chunk, and
//! its rows stay in the cache of one core (Leis et al., "Morsel-driven parallelism", SIGMOD 2014, section 3). Splits are
//! read by turns.
//!
//! Small chunks that have come meanwhile are read together and become one buffer: see [`Reader::most_joined`]. A split whose next chunk comes at a moment
//! (`SplitReader::due`) waits for it in the queues.
//!
//! A worker does not wait. Where too many chunks are in flight, the task is kept until some are consumed; where memory is scarce, a thread
//! reads the split from then on, as it would a connector that waits.

use super::open_split::{OpenSplit, Pulled};
use super::reader::{Reader, Step, open_next};
use crate::query::Query;
use crate::schedule::flow::Refusal;
use crate::station::{DecodeTask, Task};
use millstream_types::Diagnostic;
use std::time::Instant;

/// Reads the next chunk of a split, and gives the split back. `None`: there is no more to read, or not now.
pub(crate) fn pull(query: &Query, mut pulled: Pulled) -> Result<Option<DecodeTask>, Diagnostic> {
    loop {
        let mut open = match pulled.open.take() {
            Some(open) => open,
            None => match open_next(query, pulled.source)? {
                Some(open) => open,
                None => return Ok(None),
            },
        };
        let this = Reader::new(query, open.id);
        let is_due = |open: &mut OpenSplit| open.reader.due().filter(|due| *due > Instant::now()).map_or(Ok(()), Err);
        // A chunk that there was no room for has come already.
        let is_read = open.kept.is_some() || query.is_stopping();
        if !is_read && let Err(due) = is_due(&mut open) {
            this.waits_for_moment();
            pulled.open = Some(open);
            query.scheduler().push_later(due, Task::Read(pulled));
            return Ok(None);
        }
        let read = match this.read(&mut open)? {
            Step::Chunk(read) => read,
            Step::Waits => {
                pulled.open = Some(open);
                query.scheduler().push(&mut vec![Task::Read(pulled)]);
                return Ok(None);
            }
            Step::Ended => continue,
        };
        let (stream, bytes) = (this.stream(), read.chunk.bytes);
        // Kept under the lock of the flow: otherwise what is consumed just then would be the last to wake it.
        let mut taken = Some((pulled, open, read));
        let permit = query.host().flow.try_acquire(stream, bytes, &this.counters().waits, |refusal| {
            if let Some((mut pulled, mut open, read)) = taken.take() {
                open.kept = Some(read);
                pulled.open = Some(open);
                query.unpulled().keep(refusal, pulled);
            }
        });
        let permit = match permit {
            Ok(permit) => permit,
            Err(Refusal::Full) => return Ok(None),
            Err(Refusal::Memory) => {
                query.wake_supervisor();
                return Ok(None);
            }
        };
        let (mut pulled, mut open, read) =
            taken.take().ok_or_else(|| Diagnostic::bug("a chunk that was let in is not there"))?;
        let most = this.most_joined(&read);
        let mut task = this.announce(read, permit);
        let mut has_ended = false;
        if let Some(task) = &mut task {
            while task.more.len() < most && open.kept.is_none() && is_due(&mut open).is_ok() {
                match this.read(&mut open)? {
                    Step::Chunk(next) if next.is_held => open.kept = Some(next),
                    Step::Chunk(next) => {
                        this.note_joined(&next.chunk);
                        task.more.push(next.chunk);
                    }
                    Step::Waits => break,
                    Step::Ended => {
                        has_ended = true;
                        break;
                    }
                }
            }
        }
        pulled.open = (!has_ended).then_some(open);
        query.scheduler().offer(Task::Read(pulled));
        return Ok(task);
    }
}
