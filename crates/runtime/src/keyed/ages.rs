//! How long entries of a state have not been written: those whose time to live is over are forgotten.
//!
//! Times are noted in steps of a sixteenth of the time to live, so an entry that is written all the time is noted seventeen times at most
//! before it would be forgotten. One is kept for its time to live at least, and for a step more.

use super::encoding::check_count;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;
use std::collections::VecDeque;

/// Steps in a time to live.
const STEPS: i64 = 16;

/// See the module.
pub(super) struct Ages {
    /// `None`: entries are kept for good, and nothing is noted.
    ttl: Option<Ttl>,
    /// When each entry was written, to a step.
    written: Vec<i64>,
    /// Entries in the order in which they were written, each with that time, which a later one may have replaced.
    order: VecDeque<(i64, u32)>,
    /// The time of the last job.
    now_ms: i64,
}

/// How long an entry is kept, in milliseconds.
struct Ttl {
    ttl_ms: i64,
    /// A later write is noted when the one before was so long ago.
    step_ms: i64,
}

/// Of an entry that has been forgotten.
const NEVER: i64 = i64::MIN;

impl Ages {
    /// Of entries that are kept so long; `None`: for good.
    pub(super) fn new(ttl_ms: Option<u64>) -> Ages {
        let ttl = ttl_ms.map(|ms| {
            let ttl_ms = i64::try_from(ms).unwrap_or(i64::MAX);
            Ttl { ttl_ms, step_ms: (ttl_ms / STEPS).max(1) }
        });
        Ages { ttl, written: Vec::new(), order: VecDeque::new(), now_ms: 0 }
    }

    /// An entry is written, perhaps for the first time.
    pub(super) fn touch(&mut self, entry: usize, now_ms: i64) {
        let Some(ttl) = &self.ttl else { return };
        if entry >= self.written.len() {
            self.written.resize(entry + 1, NEVER);
        }
        let written = &mut self.written[entry];
        if *written == NEVER || now_ms.saturating_sub(*written) >= ttl.step_ms {
            *written = now_ms;
            self.order.push_back((now_ms, entry as u32));
        }
    }

    /// When an entry is forgotten.
    fn end_of(&self, written: i64) -> i64 {
        let Some(Ttl { ttl_ms, step_ms }) = self.ttl else { return i64::MAX };
        written.saturating_add(step_ms).saturating_add(ttl_ms)
    }

    /// A job begins: takes out the entries whose time is over.
    pub(super) fn expired(&mut self, now_ms: i64) -> Vec<u32> {
        self.now_ms = now_ms;
        let mut expired = Vec::new();
        while let Some(&(written, entry)) = self.order.front().filter(|(written, _)| self.end_of(*written) <= now_ms) {
            self.order.pop_front();
            if self.written[entry as usize] == written {
                self.written[entry as usize] = NEVER;
                expired.push(entry);
            }
        }
        expired
    }

    /// When it is time to look again.
    pub(super) fn due(&self) -> i64 {
        self.order.front().map_or(i64::MAX, |(written, _)| self.end_of(*written))
    }

    /// Keeps these entries only; the *i*-th of them is entry *i* from now on.
    pub(super) fn keep(&mut self, entries: impl IntoIterator<Item = usize>) {
        if self.ttl.is_none() {
            return;
        }
        let written = entries.into_iter().map(|entry| self.written.get(entry).copied().unwrap_or(NEVER)).collect();
        self.set(written);
    }

    /// Adds entries of others, by their numbers there; there are `entries` so far.
    pub(super) fn absorb(&mut self, entries: usize, other: &Ages, taken: impl IntoIterator<Item = usize>) {
        if self.ttl.is_none() {
            return;
        }
        let mut written = std::mem::take(&mut self.written);
        written.resize(entries, NEVER);
        written.extend(taken.into_iter().map(|entry| other.written.get(entry).copied().unwrap_or(NEVER)));
        self.set(written);
    }

    fn set(&mut self, written: Vec<i64>) {
        let mut order: Vec<(i64, u32)> =
            written.iter().copied().zip(0..).filter(|(written, _)| *written != NEVER).collect();
        order.sort_unstable();
        (self.written, self.order) = (written, order.into());
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.written.capacity() * size_of::<i64>() + self.order.capacity() * size_of::<(i64, u32)>()
    }

    /// Writes the ages of `entries` entries at the last job.
    pub(super) fn save(&self, entries: usize, out: &mut ByteWriter) {
        if self.ttl.is_none() {
            return;
        }
        out.i64s(&(0..entries).map(|entry| self.age(entry)).collect::<Vec<_>>());
    }

    /// Writes the ages of some entries at the last job.
    pub(super) fn save_some(&self, entries: &[u32], out: &mut ByteWriter) {
        if self.ttl.is_some() {
            out.i64s(&entries.iter().map(|&entry| self.age(entry as usize)).collect::<Vec<_>>());
        }
    }

    /// Reads what [`Ages::save_some`] has written of the same entries, as if that job were now.
    pub(super) fn restore_some(
        &mut self,
        entries: &[u32],
        from: &mut ByteReader<'_>,
        now_ms: i64,
    ) -> Result<(), Diagnostic> {
        if self.ttl.is_none() {
            return Ok(());
        }
        let ages = from.i64s()?;
        check_count("ages", ages.len(), entries.len())?;
        let mut written = std::mem::take(&mut self.written);
        let known = entries.iter().max().map_or(0, |&most| most as usize + 1);
        written.resize(written.len().max(known), NEVER);
        for (&entry, &age) in entries.iter().zip(&ages) {
            written[entry as usize] = written_before(age, now_ms);
        }
        self.now_ms = now_ms;
        self.set(written);
        Ok(())
    }

    /// How long ago an entry was written, at the last job; negative: it has been forgotten.
    fn age(&self, entry: usize) -> i64 {
        match self.written.get(entry) {
            Some(&written) if written != NEVER => self.now_ms.saturating_sub(written),
            _ => -1,
        }
    }

    /// Reads what [`Ages::save`] has written, as if that job were now.
    pub(super) fn restore(&mut self, entries: usize, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic> {
        if self.ttl.is_none() {
            return Ok(());
        }
        let ages = from.i64s()?;
        check_count("ages", ages.len(), entries)?;
        self.now_ms = now_ms;
        self.set(ages.iter().map(|&age| written_before(age, now_ms)).collect());
        Ok(())
    }
}

/// When an entry was written that has an age now.
fn written_before(age: i64, now_ms: i64) -> i64 {
    if age < 0 { NEVER } else { now_ms.saturating_sub(age).max(NEVER / 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_forgotten_when_they_have_not_been_written_for_long() {
        let mut forever = Ages::new(None);
        forever.touch(0, 5);
        assert_eq!((forever.due(), forever.expired(i64::MAX)), (i64::MAX, vec![]));
        let mut ages = Ages::new(Some(160));
        assert_eq!(ages.due(), i64::MAX);
        ages.touch(0, 5);
        ages.touch(2, 25);
        assert_eq!((ages.due(), ages.expired(174)), (175, vec![]), "not before its time");
        ages.touch(0, 100);
        assert_eq!(ages.expired(175), Vec::<u32>::new(), "it has been written since");
        assert_eq!((ages.expired(195), ages.due()), (vec![2], 270));
        assert_eq!(ages.expired(1000), [0]);
        assert_eq!((ages.expired(10_000), ages.due()), (vec![], i64::MAX), "once");
        // However often it is written, it is noted once in a step.
        (0..1000).for_each(|now| ages.touch(1, 2000 + now / 100));
        assert_eq!(ages.order.len(), 1);
    }

    #[test]
    fn ages_go_along_with_their_entries() {
        let mut ages = Ages::new(Some(16));
        (0..5).for_each(|entry| ages.touch(entry as usize, entry));
        ages.keep([4, 1, 3]);
        assert_eq!(ages.expired(18), [1], "what was entry 1");
        let mut out = ByteWriter::new();
        ages.save(3, &mut out);
        let bytes = out.into_bytes();
        let mut restored = Ages::new(Some(16));
        restored.restore(3, &mut ByteReader::new(&bytes), 1000).unwrap();
        // 18 is 1000 now, so 3 is 985 and 4 is 986.
        assert_eq!(
            (restored.expired(1001), restored.expired(1002), restored.expired(1003)),
            (vec![], vec![2], vec![0])
        );
        assert!(restored.restore(2, &mut ByteReader::new(&bytes), 0).is_err());
    }
}
