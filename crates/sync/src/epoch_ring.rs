//! Epochs: which buffers must be done before which watermark is released (StreamBox section 5, "cascading containers").
//!
//! An *epoch* of a stream lies between two advances of its watermark. Every pipeline that reads the stream has a ring of
//! its epochs, oldest first. Buffers of any epoch are processed in any order by any worker; watermarks come out in order:
//!
//! ```text
//! head                                      tail
//! ┌───────────────┬───────────────┬───────────────┐
//! │ 2 unfinished  │ 0 unfinished  │ 1 unfinished  │   1000 is released when the two buffers of the first epoch
//! │ ends at 1000  │ ends at 2000  │ no end yet    │   are done, and then 2000 with it
//! └───────────────┴───────────────┴───────────────┘
//! ```
//!
//! # Protocol
//!
//! One thread at a time has the [`EpochWriter`] (the stream's sequencer, under the stream's lock); any number of threads
//! call [`EpochRing::finish`].
//!
//! - `Slot::state`, one word: the number of unfinished buffers in the low bits, and the flags `CLOSED` (the epoch has its
//!   end), `HEAD` (all epochs before it are released), `LAST` (nothing follows it), `HELD` (its end waits for a free slot).
//!   All changes of a slot in use are read-modify-write with acquire-release, so each sees all before it. A slot is
//!   *complete* when it has no unfinished buffer and is `CLOSED` and `HEAD`; exactly one change makes it so. **Whoever made
//!   that change owns the release**: nobody else touches the slot, until its owner has set it back to 0.
//! - `Slot::end`, `Slot::generation`, `Slot::cut`: written by the writer before it sets `CLOSED`, read by the owner of the release, who
//!   has seen `CLOSED`.
//! - `EpochRing::head`: number of the oldest epoch that is not released. Written (release) by the owner, after it has set
//!   the slot back, before it hands `HEAD` to the next slot; so there is one owner at a time. Read (acquire) by the writer,
//!   who takes a slot again only when it has seen `head` pass it.
//! - After a release the owner sets `HEAD` in the next slot, and releases that too if it is complete now. If its last
//!   buffer is finished or it is closed at the same time, one of the two changes comes second and sees the other.
//! - When the ring is full, the writer does not wait: the open epoch continues, and its end is *held* until a slot is
//!   free. That only delays watermarks. The end cannot be forgotten: the change that leaves a `HELD` epoch `HEAD` and
//!   without unfinished buffers, of which there is one at least, asks its caller to have [`EpochWriter::catch_up`]
//!   called.

use crate::primitives::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

const CLOSED: u64 = 1 << 60;
const HEAD: u64 = 1 << 61;
const LAST: u64 = 1 << 62;
const HELD: u64 = 1 << 63;
const COUNT: u64 = CLOSED - 1;

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All input was read: the watermark is +∞ from here.
    Complete,
    /// The query was asked to stop: the watermark stays what it is.
    Stopped,
}

/// What a pipeline's consumer may now rely on: everything before this watermark of the stream has been processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Milliseconds; `i64::MAX` after a complete end.
    pub watermark: i64,
    /// All buffers of generations before this one have been processed.
    pub generation: u32,
    /// The watermark of the stream when that generation began; `i64::MIN` for the first.
    pub cut: i64,
    /// Whether nothing more comes.
    pub ended: bool,
}

/// What a change has made possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Outcome {
    /// Progress, if there is any. Releases may be acted on in another order than they were made in: all that they say only
    /// ever advances.
    pub release: Option<Release>,
    /// Whether [`EpochWriter::catch_up`] has to be called.
    pub catch_up: bool,
}

/// An epoch; on its own cache line, because buffers of several epochs are finished at the same time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    state: AtomicU64,
    end: AtomicI64,
    generation: AtomicU32,
    cut: AtomicI64,
}

/// The epochs of one stream for one pipeline; see the module.
#[derive(Debug)]
pub struct EpochRing {
    slots: Box<[Slot]>,
    head: AtomicU64,
}

/// The end of the ring at which buffers and watermarks are added.
#[derive(Debug)]
pub struct EpochWriter {
    ring: Arc<EpochRing>,
    /// Number of the open epoch.
    tail: u64,
    /// The watermark and generation that the stream has reached.
    watermark: i64,
    generation: u32,
    /// The watermark when that generation began.
    cut: i64,
    /// Whether the open epoch should have ended there, but there was no slot for the next one.
    is_held: bool,
}

fn is_complete(state: u64) -> bool {
    state & (COUNT | CLOSED | HEAD) == CLOSED | HEAD
}

fn is_stuck(state: u64) -> bool {
    state & (COUNT | CLOSED | HEAD | HELD) == HEAD | HELD
}

impl EpochRing {
    fn slot(&self, epoch: u64) -> &Slot {
        &self.slots[(epoch % self.slots.len() as u64) as usize]
    }

    /// A buffer of an epoch is done: everything that follows from it is visible to whoever acts on the release.
    pub fn finish(&self, epoch: u64) -> Outcome {
        let before = self.slot(epoch).state.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & COUNT > 0, "every buffer is finished once");
        self.settle(epoch, before - 1)
    }

    /// What follows from a change that has left an epoch in this state.
    fn settle(&self, epoch: u64, state: u64) -> Outcome {
        match is_complete(state) {
            true => self.release(epoch, state),
            false => Outcome { release: None, catch_up: is_stuck(state) },
        }
    }

    /// Releases an epoch that the caller owns, and the complete ones after it.
    fn release(&self, mut epoch: u64, mut state: u64) -> Outcome {
        loop {
            let slot = self.slot(epoch);
            let watermark = slot.end.load(Ordering::Relaxed);
            let generation = slot.generation.load(Ordering::Relaxed);
            let cut = slot.cut.load(Ordering::Relaxed);
            let ended = state & LAST != 0;
            let release = Some(Release { watermark, generation, cut, ended });
            if ended {
                return Outcome { release, catch_up: false };
            }
            slot.state.store(0, Ordering::Relaxed);
            self.head.store(epoch + 1, Ordering::Release);
            epoch += 1;
            state = HEAD | self.slot(epoch).state.fetch_or(HEAD, Ordering::AcqRel);
            if !is_complete(state) {
                return Outcome { release, catch_up: is_stuck(state) };
            }
        }
    }
}

impl EpochWriter {
    /// One open epoch, no watermark yet. At most `capacity` epochs are told apart at a time, 2 at least.
    pub fn new(capacity: usize) -> EpochWriter {
        let ring =
            EpochRing { slots: (0..capacity.max(2)).map(|_| Slot::default()).collect(), head: AtomicU64::new(0) };
        ring.slots[0].state.store(HEAD, Ordering::Relaxed);
        EpochWriter { ring: Arc::new(ring), tail: 0, watermark: i64::MIN, generation: 0, cut: i64::MIN, is_held: false }
    }

    /// The ring, for those who finish buffers.
    pub fn ring(&self) -> &Arc<EpochRing> {
        &self.ring
    }

    /// A buffer joins the open epoch, whose number is returned.
    pub fn begin(&mut self) -> u64 {
        let before = self.ring.slot(self.tail).state.fetch_add(1, Ordering::AcqRel);
        debug_assert!(before & CLOSED == 0, "nothing follows the end of a stream");
        self.tail
    }

    /// The stream's watermark advances: the open epoch ends there.
    pub fn close(&mut self, watermark: i64) -> Outcome {
        debug_assert!(watermark >= self.watermark, "watermarks of a stream never go back");
        self.watermark = watermark;
        self.end_epoch()
    }

    /// A new generation begins with the next buffer.
    pub fn cut(&mut self, generation: u32) -> Outcome {
        debug_assert!(generation > self.generation, "generations are numbered in order");
        (self.generation, self.cut) = (generation, self.watermark);
        self.end_epoch()
    }

    /// Ends an epoch that could not end when its watermark came, if there is one. See [`Outcome::catch_up`].
    pub fn catch_up(&mut self) -> Outcome {
        if self.let_go() { self.end_epoch() } else { Outcome::default() }
    }

    /// Forgets that the end of the open epoch is held; whether it was.
    fn let_go(&mut self) -> bool {
        let was_held = std::mem::take(&mut self.is_held);
        if was_held {
            self.ring.slot(self.tail).state.fetch_and(!HELD, Ordering::AcqRel);
        }
        was_held
    }

    /// Nothing more comes.
    pub fn end(&mut self, end: End) -> Outcome {
        if end == End::Complete {
            self.watermark = i64::MAX;
        }
        self.let_go();
        self.set_end(self.tail, CLOSED | LAST)
    }

    /// Epochs that are not released, the open one among them.
    pub fn in_flight(&self) -> u64 {
        self.tail + 1 - self.ring.head.load(Ordering::Acquire)
    }

    /// Whether no buffer is unfinished, and every watermark has been released.
    pub fn is_drained(&self) -> bool {
        let state = self.ring.slot(self.tail).state.load(Ordering::Acquire);
        self.ring.head.load(Ordering::Acquire) == self.tail && state & COUNT == 0 && !self.is_held
    }

    fn end_epoch(&mut self) -> Outcome {
        if self.in_flight() == self.ring.slots.len() as u64 {
            self.is_held = true;
            let state = HELD | self.ring.slot(self.tail).state.fetch_or(HELD, Ordering::AcqRel);
            // The head has come here meanwhile, and with it free slots.
            return if is_stuck(state) { self.catch_up() } else { Outcome::default() };
        }
        self.let_go();
        self.tail += 1;
        self.set_end(self.tail - 1, CLOSED)
    }

    fn set_end(&mut self, epoch: u64, flags: u64) -> Outcome {
        let slot = self.ring.slot(epoch);
        slot.end.store(self.watermark, Ordering::Relaxed);
        slot.generation.store(self.generation, Ordering::Relaxed);
        slot.cut.store(self.cut, Ordering::Relaxed);
        let state = flags | slot.state.fetch_or(flags, Ordering::AcqRel);
        self.ring.settle(epoch, state)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(watermark: i64) -> Option<Release> {
        Some(Release { watermark, generation: 0, cut: i64::MIN, ended: false })
    }

    #[test]
    fn watermarks_are_released_in_order_whatever_finishes_first() {
        let mut writer = EpochWriter::new(8);
        let ring = Arc::clone(writer.ring());
        let (a, b) = (writer.begin(), writer.begin());
        assert_eq!(writer.close(10).release, None);
        let c = writer.begin();
        assert_eq!(writer.close(20).release, None);
        let d = writer.begin();
        assert_eq!(writer.in_flight(), 3);
        assert_eq!(ring.finish(c).release, None);
        assert_eq!(ring.finish(a).release, None);
        assert_eq!(ring.finish(b).release, at(20));
        assert!(!writer.is_drained());
        assert_eq!(writer.end(End::Complete).release, None);
        let last = Release { watermark: i64::MAX, generation: 0, cut: i64::MIN, ended: true };
        assert_eq!(ring.finish(d).release, Some(last));
    }

    #[test]
    fn an_empty_epoch_is_released_at_once_and_a_stop_keeps_the_watermark() {
        let mut writer = EpochWriter::new(2);
        assert_eq!(writer.close(5).release, at(5));
        assert_eq!(writer.cut(3).release, Some(Release { watermark: 5, generation: 3, cut: 5, ended: false }));
        assert!(writer.is_drained());
        assert_eq!(
            writer.end(End::Stopped).release,
            Some(Release { watermark: 5, generation: 3, cut: 5, ended: true })
        );
    }

    #[test]
    fn a_full_ring_delays_watermarks_and_forgets_none() {
        let mut writer = EpochWriter::new(2);
        let ring = Arc::clone(writer.ring());
        let a = writer.begin();
        assert_eq!(writer.close(1), Outcome::default());
        let b = writer.begin();
        assert_eq!(writer.close(2), Outcome::default(), "no slot for another epoch");
        let c = writer.begin();
        assert_eq!(writer.close(3), Outcome::default());
        assert_eq!((b, c), (1, 1), "the open epoch continues");
        assert_eq!(ring.finish(c), Outcome::default());
        assert_eq!(ring.finish(b), Outcome::default());
        assert_eq!(ring.finish(a), Outcome { release: at(1), catch_up: true });
        assert_eq!(writer.catch_up().release, at(3));
        assert!(writer.is_drained());
        assert_eq!(writer.catch_up(), Outcome::default());
    }

    #[test]
    fn the_next_end_takes_a_held_one_along() {
        let mut writer = EpochWriter::new(2);
        let ring = Arc::clone(writer.ring());
        let a = writer.begin();
        let _ = writer.close(1);
        let b = writer.begin();
        let _ = writer.close(2);
        assert_eq!(ring.finish(a).release, at(1));
        assert_eq!(writer.close(4).release, None);
        assert_eq!(ring.finish(b), Outcome { release: at(4), catch_up: false });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    /// Two workers finish the buffers of three epochs, while the writer closes them in a ring of two slots.
    #[test]
    fn every_watermark_is_released_once_and_in_the_end_all() {
        loom::model(|| {
            let mut writer = EpochWriter::new(2);
            let ring = Arc::clone(writer.ring());
            let first = writer.begin();
            let second = {
                let outcome = writer.close(1);
                assert_eq!(outcome, Outcome::default());
                writer.begin()
            };
            let worker = |epoch: u64| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.finish(epoch))
            };
            let workers = [worker(first), worker(second)];
            let mut outcomes = vec![writer.close(2)];
            outcomes.extend(workers.map(|w| w.join().unwrap()));
            if outcomes.iter().any(|o| o.catch_up) {
                outcomes.push(writer.catch_up());
            }
            let mut released: Vec<i64> = outcomes.iter().filter_map(|o| o.release).map(|r| r.watermark).collect();
            released.sort_unstable();
            assert_eq!(released.last(), Some(&2), "{released:?}");
            assert!(released.windows(2).all(|w| w[0] < w[1]), "{released:?}");
            assert!(writer.is_drained());
        });
    }

    /// What a worker did before it finished its buffer is seen by the one who acts on the release.
    #[test]
    fn a_release_sees_the_work_before_it() {
        use loom::cell::UnsafeCell;
        struct Work([UnsafeCell<u32>; 2]);
        // SAFETY: each cell is written by one worker before it finishes its buffer, and read after the release.
        unsafe impl Sync for Work {}
        // SAFETY: as above.
        unsafe impl Send for Work {}
        loom::model(|| {
            let mut writer = EpochWriter::new(2);
            let work = Arc::new(Work([UnsafeCell::new(0), UnsafeCell::new(0)]));
            let epochs = [writer.begin(), writer.begin()];
            let act = |work: &Work, outcome: Outcome| {
                if outcome.release.is_some() {
                    let sum: u32 = work.0.iter().map(|cell| cell.with(|p| unsafe { *p })).sum();
                    assert_eq!(sum, 2);
                }
                outcome.release.is_some()
            };
            let workers = [0, 1].map(|i| {
                let (ring, work, epoch) = (Arc::clone(writer.ring()), Arc::clone(&work), epochs[i]);
                thread::spawn(move || {
                    work.0[i].with_mut(|p| unsafe { *p = 1 });
                    let outcome = ring.finish(epoch);
                    act(&work, outcome)
                })
            });
            let outcome = writer.end(End::Complete);
            let here = act(&work, outcome);
            let releases = workers.map(|w| w.join().unwrap()).iter().filter(|r| **r).count() + here as usize;
            assert_eq!(releases, 1);
        });
    }
}
