//! How far an operator with several inputs has got: their watermarks and generations, which of them are silent, and which
//! have ended.
//!
//! Windowed aggregations and keyed operators act on what all their inputs have released together. Whoever notes a release
//! looks, under the same lock, whether it moves the operator forward ([`Progress::advance`]) and numbers the units of the
//! output stream that follow from it; so these are in one order, whichever thread is first.
//!
//! A generation begins at another place of each input. An operator passes from one to the next when all that its inputs
//! brought before the cut is processed, at the lowest watermark that any of them had there. What is complete at that
//! watermark follows from the rows before the cut alone (a row after it would be late), and so belongs before the cut
//! of the output. Until then an input that has passed its cut holds the watermark where it was there: what is complete
//! at a higher one includes rows from behind the cut, which a recovery reads again.

use crate::ids::{Generation, Port};
use millstream_sync::epoch_ring::{End, Release};

/// The inputs of an operator; changed under its lock.
pub struct Progress {
    inputs: Vec<Input>,
    watermark: i64,
    generation: Generation,
    ended: bool,
    /// Where inputs that are all idle are at least.
    followed: i64,
    /// The generation that a cut waits for this operator to reach.
    awaited: Option<Generation>,
    /// Units of the output stream numbered so far.
    pub units: u64,
}

/// One channel that ends in the operator.
#[derive(Debug, Clone, Copy)]
struct Input {
    watermark: i64,
    generation: Generation,
    /// The watermark when that generation began.
    cut: i64,
    ended: bool,
    /// Left out of the minimum until it speaks again.
    idle: bool,
}

/// What the inputs have released together since the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// The new watermark; it may be the old one.
    pub watermark: i64,
    /// The generation that begins after it.
    pub cut: Option<Generation>,
    /// Whether nothing more comes.
    pub end: Option<End>,
}

impl Forward {
    /// Whether it is more than a watermark: for who does not ask for those.
    pub fn cuts_or_ends(&self) -> bool {
        self.cut.is_some() || self.end.is_some()
    }
}

impl Progress {
    /// Of `inputs` channels, at their start.
    pub fn new(inputs: usize) -> Progress {
        let first = Generation::default();
        let input = Input { watermark: i64::MIN, generation: first, cut: i64::MIN, ended: false, idle: false };
        let inputs = vec![input; inputs];
        Progress {
            inputs,
            watermark: i64::MIN,
            generation: first,
            ended: false,
            followed: i64::MIN,
            awaited: None,
            units: 0,
        }
    }

    /// The query is recovered: the inputs had come to a watermark together. `i64::MAX`: to their end.
    pub fn restore(&mut self, watermark: i64) {
        self.watermark = watermark;
    }

    /// The next step that the inputs have made together, which is recorded; to be asked for until there is none.
    pub fn advance(&mut self) -> Option<Forward> {
        let watermark = self.minimum().max(self.watermark);
        if let Some((generation, cut)) = self.cut() {
            self.generation = generation;
            self.watermark = cut.clamp(self.watermark, watermark);
            return Some(Forward { watermark: self.watermark, cut: Some(generation), end: None });
        }
        let ended = self.inputs.iter().all(|i| i.ended);
        let ends = ended && !self.ended;
        if watermark == self.watermark && !ends {
            return None;
        }
        self.watermark = watermark;
        self.ended = ended;
        let end = if watermark == i64::MAX { End::Complete } else { End::Stopped };
        Some(Forward { watermark, cut: None, end: ends.then_some(end) })
    }

    /// Whether the next step is neither a cut nor the end.
    pub fn is_next_only_watermark(&self) -> bool {
        self.cut().is_none() && (self.ended || !self.inputs.iter().all(|i| i.ended))
    }

    /// Notes what an input has released.
    pub fn release(&mut self, port: Port, release: Release) {
        let input = &mut self.inputs[port.index()];
        input.watermark = input.watermark.max(release.watermark);
        if release.generation > input.generation.0 {
            (input.generation, input.cut) = (Generation(release.generation), release.cut);
        }
        input.ended |= release.ended;
    }

    /// Leaves an input out of the minimum, or takes it back in.
    pub fn set_idle(&mut self, port: Port, idle: bool) {
        self.inputs[port.index()].idle = idle;
    }

    /// Whether no input that has not ended says anything.
    pub fn is_idle(&self) -> bool {
        let mut open = self.inputs.iter().filter(|input| !input.ended).peekable();
        open.peek().is_some() && open.all(|input| input.idle)
    }

    /// As long as all inputs are idle, they are at a watermark at least.
    pub fn follow(&mut self, watermark: i64) {
        self.followed = self.followed.max(watermark);
    }

    /// The watermark that has been acted on.
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Notes that a cut to a generation waits for the operator; `false` if there is nothing to wait for.
    pub fn await_cut(&mut self, generation: Generation) -> bool {
        let waits = self.generation < generation && self.inputs.iter().any(|i| !i.ended);
        self.awaited = waits.then_some(generation);
        waits
    }

    /// The generation of the cut that waited for the operator, if it need not do so any more; once.
    pub fn reached_cut(&mut self) -> Option<Generation> {
        let is_reached = |awaited: &mut Generation| self.generation >= *awaited || self.inputs.iter().all(|i| i.ended);
        self.awaited.take_if(is_reached)
    }

    /// The generation that all inputs have come to, if it is new, and the lowest watermark at which one did. Inputs that
    /// have ended before the cut have nothing to say; those that have ended behind it had passed it.
    fn cut(&self) -> Option<(Generation, i64)> {
        let speaking = || self.inputs.iter().filter(|i| !i.ended || i.generation > self.generation);
        let generation = speaking().map(|i| i.generation).min().filter(|&g| g > self.generation)?;
        Some((generation, speaking().map(|i| i.cut).min().unwrap_or(i64::MIN)))
    }

    /// Minimum over the inputs that are not idle; when all that have not ended are, the maximum over those, because then
    /// nobody holds it back (as Flink decides). Inputs that have passed a cut before the others hold it where they were
    /// there, idle or not. Splits are opened in order, so that the ones at the end are those that hold the minimum at
    /// its lowest: looking at them first makes this O(1) until all splits are open.
    fn minimum(&self) -> i64 {
        let (mut minimum, mut idle) = (i64::MAX, None);
        let mut someone_speaks = false;
        for input in self.inputs.iter().rev() {
            if input.generation > self.generation {
                minimum = minimum.min(input.cut);
            }
            if input.idle && !input.ended {
                idle = idle.max(Some(input.watermark));
            } else if input.watermark == i64::MIN {
                return i64::MIN;
            } else {
                minimum = minimum.min(input.watermark);
                someone_speaks |= !input.ended;
            }
        }
        match idle {
            Some(highest) if !someone_speaks => minimum.min(highest.max(self.followed)),
            _ => minimum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(watermark: i64, generation: u32, cut: i64) -> Release {
        Release { watermark, generation, cut, ended: false }
    }

    #[test]
    fn a_cut_comes_at_the_lowest_watermark_that_an_input_had_there() {
        let mut progress = Progress::new(2);
        progress.release(Port::new(0), release(10, 0, i64::MIN));
        progress.release(Port::new(1), release(12, 0, i64::MIN));
        assert_eq!(progress.advance(), Some(Forward { watermark: 10, cut: None, end: None }));
        assert!(progress.await_cut(Generation(1)));
        progress.release(Port::new(0), release(40, 1, 20));
        assert_eq!(progress.advance(), Some(Forward { watermark: 12, cut: None, end: None }));
        assert_eq!(progress.reached_cut(), None);
        progress.release(Port::new(1), release(35, 1, 30));
        assert_eq!(progress.advance(), Some(Forward { watermark: 20, cut: Some(Generation(1)), end: None }));
        assert_eq!(progress.advance(), Some(Forward { watermark: 35, cut: None, end: None }));
        assert_eq!(progress.advance(), None);
        assert_eq!((progress.reached_cut(), progress.reached_cut()), (Some(Generation(1)), None));
    }

    #[test]
    fn the_watermark_waits_at_the_cut_of_an_input_for_the_others() {
        let mut progress = Progress::new(2);
        progress.release(Port::new(0), release(10, 0, i64::MIN));
        progress.release(Port::new(1), release(12, 0, i64::MIN));
        progress.advance();
        progress.release(Port::new(0), release(40, 1, 20));
        // At 30 rows of the first input from behind its cut would be complete.
        progress.release(Port::new(1), release(30, 0, i64::MIN));
        assert_eq!(progress.advance(), Some(Forward { watermark: 20, cut: None, end: None }));
        progress.release(Port::new(1), release(36, 1, 35));
        assert_eq!(progress.advance(), Some(Forward { watermark: 20, cut: Some(Generation(1)), end: None }));
        assert_eq!(progress.advance(), Some(Forward { watermark: 36, cut: None, end: None }));
        // An input that is idle behind its cut has rows there, too.
        progress.release(Port::new(0), release(50, 2, 41));
        progress.set_idle(Port::new(0), true);
        progress.release(Port::new(1), release(60, 1, 35));
        assert_eq!(progress.advance(), Some(Forward { watermark: 41, cut: None, end: None }));
        progress.release(Port::new(1), release(62, 2, 61));
        assert_eq!(progress.advance(), Some(Forward { watermark: 41, cut: Some(Generation(2)), end: None }));
        assert_eq!(progress.advance(), Some(Forward { watermark: 62, cut: None, end: None }));
    }

    #[test]
    fn a_cut_comes_before_the_end_of_inputs_that_end_behind_it() {
        let mut progress = Progress::new(2);
        assert!(progress.await_cut(Generation(1)));
        progress.release(Port::new(0), Release { watermark: i64::MAX, generation: 1, cut: 30, ended: true });
        assert_eq!((progress.advance(), progress.reached_cut()), (None, None));
        progress.release(Port::new(1), Release { watermark: i64::MAX, generation: 1, cut: 20, ended: true });
        assert_eq!(progress.advance(), Some(Forward { watermark: 20, cut: Some(Generation(1)), end: None }));
        assert_eq!(progress.reached_cut(), Some(Generation(1)));
        let end = Some(End::Complete);
        assert_eq!(progress.advance(), Some(Forward { watermark: i64::MAX, cut: None, end }));
    }

    #[test]
    fn a_cut_does_not_wait_for_inputs_that_have_ended() {
        let mut progress = Progress::new(2);
        progress.release(Port::new(0), Release { watermark: i64::MAX, generation: 0, cut: i64::MIN, ended: true });
        progress.release(Port::new(1), release(35, 1, 30));
        assert_eq!(progress.advance(), Some(Forward { watermark: 30, cut: Some(Generation(1)), end: None }));
        assert_eq!(progress.advance(), Some(Forward { watermark: 35, cut: None, end: None }));
        progress.release(Port::new(1), Release { watermark: i64::MAX, generation: 1, cut: 30, ended: true });
        let end = Some(End::Complete);
        assert_eq!(progress.advance(), Some(Forward { watermark: i64::MAX, cut: None, end }));
        assert!(!progress.await_cut(Generation(2)));
    }
}
