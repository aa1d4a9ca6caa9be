//! What of a state has changed since an earlier checkpoint, so that a checkpoint writes that, and not all of it.
//!
//! The state of a partition is in a checkpoint as a base, which is all of it, and as runs, each of which has what changed from one version
//! to another:
//!
//! ```text
//! version      0          1     2     3 …  15    16    17
//! level 0      base       run   run   run  run         run
//! level 1                                        run           in place of those since the base
//! ```
//!
//! A state notes for each of its entries (groups, rows) the version in which it changed last, so a run of any level is written from memory:
//! runs are never read to be put together. Entries have the numbers that they had in the base. When a state renumbers them it forgets its
//! notes, and its next checkpoint is a base; states renumber when as many entries are gone as are left, so that costs a constant factor.

use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::Diagnostic;

/// Runs of a level that are replaced by one of the next: so often a change is written once more.
const RUNS_OF_LEVEL: usize = 16;
/// The checkpoint behind this many runs is a base.
const MOST_RUNS: usize = 60;
/// A base of fewer bytes is written again: runs would save little, and have to be read one by one.
const SMALL_BASE: u64 = 1 << 10;

/// A state that notes what changes.
pub(crate) trait Versioned {
    /// The versions of its entries, kind by kind (groups, rows of a side), and how many entries of the kind there are.
    fn versions(&mut self) -> Vec<(&mut Versions, usize)>;

    /// Whether no beat is under way whose changes have not been put out: only then are changes written.
    fn is_between_beats(&self) -> bool;

    /// All that is there is of version 0, and what changes from now on of version 1.
    fn begin(&mut self) {
        self.versions().into_iter().for_each(|(versions, entries)| versions.begin(entries));
    }

    /// Whether it has noted all changes since [`Versioned::begin`], since when its entries have had the same numbers.
    fn is_noting(&mut self) -> bool {
        self.versions().iter().all(|(versions, _)| versions.is_noting())
    }

    /// What changes from now on is of the next version.
    fn end_version(&mut self) {
        self.versions().into_iter().for_each(|(versions, entries)| versions.end(entries));
    }

    /// Writes what it has noted, if it is noting, for [`Versioned::restore_notes`] of the same state in the same run.
    fn save_notes(&mut self, out: &mut ByteWriter) {
        self.versions().iter().for_each(|(versions, _)| versions.save(out));
    }

    /// Takes over what [`Versioned::save_notes`] has written.
    fn restore_notes(&mut self, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        self.versions().into_iter().try_for_each(|(versions, _)| versions.restore(from))
    }

    /// Writes what has changed behind the end of a version, while it [is noting](Versioned::is_noting) and
    /// [between beats](Versioned::is_between_beats).
    fn save_since(&self, version: u32, out: &mut ByteWriter) -> Result<(), Diagnostic>;

    /// Takes over what [`Versioned::save_since`] has written, in a state that is what it was at the end of that version; notes it as
    /// changed in the current version. Times are as for `State::restore`.
    ///
    /// # Errors
    /// `CHECKPOINT_DAMAGED`, when the bytes are something else. The state is not to be used then.
    fn apply(&mut self, from: &mut ByteReader<'_>, now_ms: i64) -> Result<(), Diagnostic>;
}

/// The versions of the entries of a state: groups, or rows of a store.
#[derive(Default)]
pub(crate) struct Versions {
    /// The version that is under way; 0: nothing is noted.
    current: u32,
    /// In which each entry changed last, of those that were there when one changed. All that are not here have not changed since they came.
    changed: Vec<u32>,
    /// How many entries there were at the end of each version.
    ends: Vec<usize>,
}

impl Versions {
    /// See [`Versioned::begin`]; there are so many entries.
    fn begin(&mut self, entries: usize) {
        *self = Versions { current: 1, changed: Vec::new(), ends: vec![entries] };
    }

    /// See [`Versioned::is_noting`].
    fn is_noting(&self) -> bool {
        self.current > 0
    }

    /// See [`Versioned::end_version`]; there are so many entries.
    fn end(&mut self, entries: usize) {
        if self.is_noting() {
            self.ends.push(entries);
            self.current += 1;
        }
    }

    /// The entries have other numbers from now on: nothing is known of what has changed.
    pub(super) fn forget(&mut self) {
        *self = Versions::default();
    }

    /// An entry changes.
    #[inline]
    pub(super) fn touch(&mut self, entry: usize) {
        if self.is_noting() {
            if entry >= self.changed.len() {
                self.changed.resize(entry + 1, 0);
            }
            self.changed[entry] = self.current;
        }
    }

    /// The number of the first entry that has come behind the end of a version.
    pub(super) fn first_behind(&self, version: u32) -> usize {
        self.ends[version as usize]
    }

    /// The entries that were there at the end of a version and have changed since, ascending.
    pub(super) fn changed_behind(&self, version: u32) -> Vec<u32> {
        let were_there = self.changed.iter().take(self.first_behind(version));
        (0u32..).zip(were_there).filter(|&(_, &changed)| changed > version).map(|(entry, _)| entry).collect()
    }

    /// These, and those that have come since, of so many.
    pub(super) fn written_behind(&self, version: u32, entries: usize) -> Vec<u32> {
        let mut written = self.changed_behind(version);
        written.extend(self.first_behind(version) as u32..entries as u32);
        written
    }

    /// Writes the notes.
    fn save(&self, out: &mut ByteWriter) {
        out.u32(self.current);
        out.u32s(&self.changed);
        out.i64s(&self.ends.iter().map(|&end| end as i64).collect::<Vec<_>>());
    }

    /// Reads what [`Versions::save`] has written.
    fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        let (current, changed) = (from.u32()?, from.u32s()?);
        let ends: Vec<usize> = from.i64s()?.into_iter().map(|end| end as usize).collect();
        *self = Versions { current, changed, ends };
        Ok(())
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.changed.capacity() * size_of::<u32>() + self.ends.capacity() * size_of::<usize>()
    }
}

/// A base or a run of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoredPiece {
    level: u8,
    bytes: u64,
    /// The version that it ends.
    version: u32,
    /// The time of the last job before it was written, or of the checkpoint that it was read from.
    now_ms: i64,
}

/// What the last checkpoint has of the state of a partition: the base, and runs.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<StoredPiece>);

/// What a checkpoint writes of a partition that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// All of it.
    Base,
    /// A run of a level in place of all behind the first `keeps` pieces, of which the last is of this version and time.
    Run { level: u8, keeps: usize, since: u32, then_ms: i64 },
}

impl Pieces {
    /// Those of a checkpoint that is restored, each with level, bytes and time.
    pub(super) fn restored(pieces: impl Iterator<Item = (u8, u64, i64)>) -> Pieces {
        let piece = |((level, bytes, now_ms), version)| StoredPiece { level, bytes, version, now_ms };
        Pieces(pieces.zip(0..).map(piece).collect())
    }

    /// What to write at a checkpoint of this number, of a state that has noted what has changed. Where the number is not known that is 1,
    /// which asks for the lowest level.
    pub(super) fn next(&self, checkpoint: u64) -> Next {
        let Some(base) = self.0.first().filter(|base| base.bytes >= SMALL_BASE) else { return Next::Base };
        // Partitions go by the number of the checkpoint, so that they replace what is in one file at the same time.
        let lowest = (checkpoint.trailing_zeros() / RUNS_OF_LEVEL.trailing_zeros()) as u8;
        let kept_at = |level: u8| {
            let keeps = self.0.iter().rposition(|piece| piece.level >= level)? + 1;
            let same = self.0[..keeps].iter().rev().take_while(|piece| piece.level == level).count();
            (same < RUNS_OF_LEVEL - 1).then_some((level, keeps))
        };
        let Some((level, keeps)) = (lowest..u8::MAX).find_map(kept_at) else { return Next::Base };
        let runs: u64 = self.0[1..keeps].iter().map(|piece| piece.bytes).sum();
        if keeps > MOST_RUNS || runs > base.bytes {
            return Next::Base;
        }
        let StoredPiece { version: since, now_ms: then_ms, .. } = self.0[keeps - 1];
        Next::Run { level, keeps, since, then_ms }
    }

    /// Whether a run of so many bytes behind the first pieces is worth it: a base costs the same as the changes since the last one.
    pub(super) fn is_worth(&self, keeps: usize, bytes: u64) -> bool {
        let runs: u64 = self.0[1..keeps].iter().map(|piece| piece.bytes).sum();
        runs + bytes <= self.0[0].bytes
    }

    /// All has been written.
    pub(super) fn base(&mut self, bytes: u64, now_ms: i64) {
        self.0 = vec![StoredPiece { level: u8::MAX, bytes, version: 0, now_ms }];
    }

    /// A run has been written.
    pub(super) fn run(&mut self, (level, keeps): (u8, usize), bytes: u64, now_ms: i64) {
        let version = self.0.last().map_or(0, |last| last.version + 1);
        self.0.truncate(keeps);
        self.0.push(StoredPiece { level, bytes, version, now_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_of_the_version_in_which_they_changed_last() {
        let mut versions = Versions::default();
        versions.touch(5);
        versions.end(6);
        assert!(!versions.is_noting());
        versions.begin(3);
        versions.touch(1);
        versions.touch(4);
        versions.end(5);
        versions.touch(0);
        versions.touch(4);
        versions.end(7);
        assert_eq!((versions.first_behind(0), versions.changed_behind(0)), (3, vec![0, 1]));
        assert_eq!((versions.first_behind(1), versions.changed_behind(1)), (5, vec![0, 4]));
        assert_eq!((versions.first_behind(2), versions.changed_behind(2)), (7, vec![]));
        versions.forget();
        assert!(!versions.is_noting());
    }

    /// The pieces of a state of `base` bytes of which each checkpoint changes `changed`, and bytes written for a byte changed.
    fn written(base: u64, changed: u64, checkpoints: u64, is_due: impl Fn(u64) -> bool) -> (usize, f64) {
        let mut pieces = Pieces::default();
        pieces.base(base, 0);
        let (mut most, mut written, mut all) = (0, 0, 0);
        // Changes since each version.
        let mut version = 0;
        for checkpoint in (1..=checkpoints).filter(|&checkpoint| is_due(checkpoint)) {
            version += 1;
            all += changed;
            match pieces.next(checkpoint) {
                Next::Run { level, keeps, since, .. }
                    if pieces.is_worth(keeps, changed * u64::from(version - since)) =>
                {
                    let bytes = changed * u64::from(version - since);
                    pieces.run((level, keeps), bytes, 0);
                    written += bytes;
                }
                _ => {
                    pieces.base(base, 0);
                    version = 0;
                    written += base;
                }
            }
            assert!(pieces.0.is_sorted_by(|a, b| a.level >= b.level), "{pieces:?}");
            most = most.max(pieces.0.len());
        }
        (most, written as f64 / all as f64)
    }

    #[test]
    fn a_change_is_written_a_few_times_and_pieces_are_few() {
        for thousandths in [1, 3, 10, 30, 100, 300, 1000] {
            let of = |checkpoints, is_due: fn(u64) -> bool| written(1_000_000, thousandths * 1000, checkpoints, is_due);
            for is_due in [|_| true, |n| n % 16 != 0, |n| n % 7 == 0] as [fn(u64) -> bool; 3] {
                let ((pieces, times), (in_the_end, later)) = (of(200, is_due), of(20_000, is_due));
                assert!(times <= 4.0 && later <= 5.0, "{thousandths}: {times}, {later}");
                assert!(pieces.max(in_the_end) <= 64, "{thousandths}: {pieces}, {in_the_end}");
            }
        }
        assert_eq!(written(1000, 1, 50, |_| true).0, 1, "a small base is written again");
    }
}
