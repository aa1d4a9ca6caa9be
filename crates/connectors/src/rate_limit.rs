//! `scan.rate-limit.rows-per-second`: hands a source's chunks out in small parts at even distances.

use crate::declaration::SplitFront;
use crate::{Acknowledger, Chunk, Decoder, Outlook, Position, Source, SplitReader, Witness, locked};
use millstream_types::Diagnostic;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A source that gives a limited number of rows per second over all its splits.
pub(crate) struct RateLimitedSource {
    inner: Box<dyn Source>,
    pace: Pace,
}

#[derive(Clone)]
struct Pace {
    /// When the next part may be handed out.
    next: Arc<Mutex<Instant>>,
    rows_per_second: f64,
    /// Rows handed out at once.
    rows: u64,
    split_front: SplitFront,
}

impl RateLimitedSource {
    pub(crate) fn new(
        inner: Box<dyn Source>,
        rows_per_second: f64,
        rows: u64,
        split_front: SplitFront,
    ) -> RateLimitedSource {
        let next = Arc::new(Mutex::new(Instant::now()));
        RateLimitedSource { inner, pace: Pace { next, rows_per_second, rows, split_front } }
    }
}

impl Source for RateLimitedSource {
    fn share(&mut self, node: usize, nodes: usize) {
        self.inner.share(node, nodes);
    }

    fn resumes(&mut self, splits: &[&str]) {
        self.inner.resumes(splits);
    }

    fn agreed(&mut self, splits: &[String]) {
        self.inner.agreed(splits);
    }

    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let pace = |inner| {
            let pace = self.pace.clone();
            Box::new(PacedReader { inner, pace, part: None, pending: None, is_awaited: false }) as Box<dyn SplitReader>
        };
        Ok(self.inner.splits()?.into_iter().map(pace).collect())
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.inner.decoder()
    }

    fn is_bounded(&self) -> bool {
        self.inner.is_bounded()
    }

    fn is_replayable(&self) -> bool {
        self.inner.is_replayable()
    }

    fn acknowledger(&self) -> Option<Box<dyn Acknowledger>> {
        self.inner.acknowledger()
    }
}

struct PacedReader {
    inner: Box<dyn SplitReader>,
    pace: Pace,
    /// What is handed out next, and its rows.
    part: Option<(Chunk, u64)>,
    /// What comes behind it.
    pending: Option<Chunk>,
    /// Whether somebody has asked when the next part may be handed out, and has waited until then.
    is_awaited: bool,
}

impl Pace {
    /// When `rows` rows may be handed out; the time they take is reserved. Who comes a little late does not lower the rate.
    fn reserve(&self, now: Instant, rows: u64) -> Instant {
        let mut next = locked(&self.next);
        // A rate may be so low that the time is beyond any calendar.
        let lasts = Duration::try_from_secs_f64(rows as f64 / self.rows_per_second).unwrap_or(Duration::MAX);
        let slot = if now.saturating_duration_since(*next) < lasts { *next } else { now };
        *next = slot.checked_add(lasts).unwrap_or(slot + Duration::from_secs(1 << 32));
        slot
    }
}

impl SplitReader for PacedReader {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn is_spare(&self) -> bool {
        self.inner.is_spare()
    }

    fn never_waits(&self) -> bool {
        self.inner.never_waits()
    }

    fn due(&mut self) -> Option<Instant> {
        self.is_awaited = true;
        Some(*locked(&self.pace.next))
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.inner.resume(from)
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.inner.witness()
    }

    fn verify(&self, described: &Value, has_ended: bool) -> Result<(), Diagnostic> {
        self.inner.verify(described, has_ended)
    }

    fn limit_records(&mut self, bytes: usize) {
        self.inner.limit_records(bytes);
    }

    fn aim(&mut self, bytes: usize) {
        self.inner.aim(bytes);
    }

    fn wait(&mut self) -> Result<bool, Diagnostic> {
        self.cut();
        if self.part.is_some() { Ok(true) } else { self.inner.wait() }
    }

    fn lag(&self, after: Option<Position>) -> Option<u64> {
        self.inner.lag(after)
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }

    fn outlook(&self) -> Outlook {
        self.inner.outlook()
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        self.cut();
        let (part, rows) = match self.part.take() {
            Some(part) => part,
            None => {
                let Some(mut chunk) = self.inner.next()? else { return Ok(None) };
                // A chunk without rows is handed on as it is: the position after it counts.
                let Some(part) = (self.pace.split_front)(&mut chunk, self.pace.rows) else { return Ok(Some(chunk)) };
                self.pending = Some(chunk);
                part
            }
        };
        let slot = self.pace.reserve(Instant::now(), rows);
        if !std::mem::take(&mut self.is_awaited) {
            std::thread::sleep(slot.saturating_duration_since(Instant::now()));
        }
        Ok(Some(part))
    }
}

impl PacedReader {
    /// Cuts the next part off what is pending. A rest without rows is dropped: nothing would be ready, and `next` would wait for the outside.
    fn cut(&mut self) {
        if self.part.is_none()
            && let Some(mut rest) = self.pending.take()
            && let Some(part) = (self.pace.split_front)(&mut rest, self.pace.rows)
        {
            (self.part, self.pending) = (Some(part), Some(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_spread_evenly_over_all_readers() {
        let start = Instant::now();
        let next = Arc::new(Mutex::new(start));
        let pace = Pace { next, rows_per_second: 100.0, rows: 5, split_front: |_, _| None };
        let other = pace.clone();
        assert_eq!(pace.reserve(start, 5), start);
        assert_eq!(other.reserve(start, 5), start + Duration::from_millis(50));
        assert_eq!(pace.reserve(start, 5), start + Duration::from_millis(100));
        assert_eq!(pace.reserve(start + Duration::from_millis(170), 5), start + Duration::from_millis(150));
        // After a pause there is no burst to catch up.
        let later = start + Duration::from_secs(10);
        assert_eq!(pace.reserve(later, 5), later);
        assert_eq!(pace.reserve(later, 5), later + Duration::from_millis(50));
    }

    struct Once(Vec<Chunk>);

    impl SplitReader for Once {
        fn name(&self) -> &str {
            "once"
        }

        fn wait(&mut self) -> Result<bool, Diagnostic> {
            Ok(!self.0.is_empty())
        }

        fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
            Ok(self.0.pop())
        }
    }

    #[test]
    fn a_chunk_without_rows_says_where_reading_goes_on() {
        let chunk = |rows: u64, at| Chunk { payload: Box::new(rows), bytes: 0, after: Some(Position { at, line: 0 }) };
        let split_front: SplitFront = |chunk, rows| {
            let left = chunk.payload.downcast_mut::<u64>()?;
            let front = rows.min(*left);
            *left -= front;
            let after = chunk.after.map(|end| Position { at: end.at - *left, line: 0 });
            (front > 0).then(|| (Chunk { payload: Box::new(front), bytes: 0, after }, front))
        };
        let next = Arc::new(Mutex::new(Instant::now()));
        let pace = Pace { next, rows_per_second: 1e9, rows: 2, split_front };
        let inner = Box::new(Once(vec![chunk(3, 10), chunk(0, 7)]));
        let mut reader = PacedReader { inner, pace, part: None, pending: None, is_awaited: false };
        let mut positions = Vec::new();
        // As long as something is ready: behind the last row nothing is.
        while reader.wait().unwrap() {
            positions.push(reader.next().unwrap().unwrap().after.unwrap().at);
        }
        assert_eq!(positions, [7, 9, 10]);
    }
}
