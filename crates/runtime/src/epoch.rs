//! Epochs: which buffers must be done before which watermark is released (StreamBox section 5, "cascading containers").
//!
//! An *epoch* of a stream lies between two advances of its watermark. Every pipeline that reads the stream has a ring of
//! its epochs, oldest first:
//!
//! ```text
//! first                                     open
//! ┌───────────────┬───────────────┬───────────────┐
//! │ 2 unfinished  │ 0 unfinished  │ 1 unfinished  │   buffers of any epoch are processed in any order;
//! │ ends at 1000  │ ends at 2000  │ no end yet    │   1000 is released when the first epoch's two are done,
//! └───────────────┴───────────────┴───────────────┘   and then 2000 with it
//! ```
//!
//! The ring is changed under its stream's lock: [`EpochRing::begin`], [`EpochRing::close`] and [`EpochRing::end`] by the
//! sequencer, in order of the stream; [`EpochRing::finish`] by any worker. Its length is bounded by the chunks in flight.

use std::collections::VecDeque;

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All input was read: the watermark is +∞ from here.
    Complete,
    /// The query was asked to stop: the watermark stays what it is.
    Stopped,
}

/// What a pipeline's consumer may now rely on: everything before this watermark of the stream has been processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Release {
    /// Milliseconds; `i64::MAX` after a complete end.
    pub(crate) watermark: i64,
    /// Whether nothing more comes.
    pub(crate) ended: bool,
}

#[derive(Debug, Default)]
struct Epoch {
    unfinished: usize,
    /// The watermark at its end; `None` while it is open.
    end: Option<i64>,
}

/// The epochs of one stream for one pipeline.
#[derive(Debug)]
pub(crate) struct EpochRing {
    /// Never empty; the last one is open.
    epochs: VecDeque<Epoch>,
    /// Number of `epochs[0]`.
    first: u64,
    released: i64,
    end: Option<End>,
    end_released: bool,
}

impl EpochRing {
    /// One open epoch, no watermark yet.
    pub(crate) fn new() -> EpochRing {
        let epochs = VecDeque::from([Epoch::default()]);
        EpochRing { epochs, first: 0, released: i64::MIN, end: None, end_released: false }
    }

    /// A buffer joins the open epoch, whose number is returned.
    pub(crate) fn begin(&mut self) -> u64 {
        debug_assert!(self.end.is_none(), "nothing follows the end of a stream");
        let last = self.epochs.len() - 1;
        self.epochs[last].unfinished += 1;
        self.first + last as u64
    }

    /// The stream's watermark advances to `watermark`: the open epoch ends there.
    pub(crate) fn close(&mut self, watermark: i64) -> Option<Release> {
        let last = self.epochs.len() - 1;
        self.epochs[last].end = Some(watermark);
        self.epochs.push_back(Epoch::default());
        self.release()
    }

    /// A buffer of epoch `epoch` is done.
    pub(crate) fn finish(&mut self, epoch: u64) -> Option<Release> {
        let place = (epoch - self.first) as usize;
        assert!(self.epochs[place].unfinished > 0, "every buffer is finished once");
        self.epochs[place].unfinished -= 1;
        self.release()
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, end: End) -> Option<Release> {
        self.end = Some(end);
        self.release()
    }

    /// Whether no buffer is unfinished.
    pub(crate) fn is_drained(&self) -> bool {
        self.epochs.iter().all(|e| e.unfinished == 0)
    }

    /// Drops finished epochs from the front; the news, if there is any.
    fn release(&mut self) -> Option<Release> {
        let before = self.released;
        while let Some(end) = self.epochs[0].end.filter(|_| self.epochs[0].unfinished == 0) {
            debug_assert!(end >= self.released, "watermarks of a stream never go back");
            self.released = end;
            self.epochs.pop_front();
            self.first += 1;
        }
        let ended = self.epochs.len() == 1 && self.epochs[0].unfinished == 0 && !self.end_released;
        match self.end.filter(|_| ended) {
            Some(end) => {
                self.end_released = true;
                if end == End::Complete {
                    self.released = i64::MAX;
                }
                Some(Release { watermark: self.released, ended: true })
            }
            None => (self.released > before).then_some(Release { watermark: self.released, ended: false }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(watermark: i64) -> Option<Release> {
        Some(Release { watermark, ended: false })
    }

    #[test]
    fn watermarks_are_released_in_order_whatever_finishes_first() {
        let mut ring = EpochRing::new();
        let (a, b) = (ring.begin(), ring.begin());
        assert_eq!(ring.close(10), None);
        let c = ring.begin();
        assert_eq!(ring.close(20), None);
        let d = ring.begin();
        assert_eq!(ring.finish(c), None);
        assert_eq!(ring.finish(a), None);
        assert_eq!(ring.finish(b), at(20));
        assert_eq!(ring.end(End::Complete), None);
        assert_eq!(ring.finish(d), Some(Release { watermark: i64::MAX, ended: true }));
    }

    #[test]
    fn an_empty_epoch_is_released_at_once_and_a_stop_keeps_the_watermark() {
        let mut ring = EpochRing::new();
        assert_eq!(ring.close(5), at(5));
        assert_eq!(ring.end(End::Stopped), Some(Release { watermark: 5, ended: true }));
        assert!(ring.is_drained());
    }
}
