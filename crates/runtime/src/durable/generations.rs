//! Generations of tables: those of the cuts that tables are cut for. Beats, which are short, end by cuts that leave tables alone.

use crate::ids::Generation;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which generation of tables rows go to. Only some cuts begin one.
#[derive(Debug, Default)]
pub struct TableGenerations {
    /// The generation that the last of these cuts begins in the upper half, its number among them in the lower one. Written before any
    /// stream is cut, and read by tasks that a stream has handed out: the stream's lock orders the two.
    last: AtomicU64,
}

impl TableGenerations {
    /// The tables of rows of a generation. No row of one before the last cut's is left when the next one is made.
    pub fn of(&self, generation: Generation) -> Generation {
        let (begun, number) = self.last();
        Generation(if generation.0 >= begun { number } else { number - 1 })
    }

    /// Whether tables are cut where a generation begins.
    pub fn begin_with(&self, generation: Generation) -> bool {
        self.last().0 == generation.0
    }

    /// The number of the next generation of tables.
    pub fn next(&self) -> Generation {
        Generation(self.last().1 + 1)
    }

    /// A cut begins a generation, and one of tables; that.
    pub fn begin(&self, generation: Generation) -> Generation {
        let next = self.next();
        self.last.store(u64::from(generation.0) << 32 | u64::from(next.0), Ordering::Release);
        next
    }

    fn last(&self) -> (u32, u32) {
        let last = self.last.load(Ordering::Acquire);
        ((last >> 32) as u32, last as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_cuts_begin_a_generation_of_tables() {
        let tables = TableGenerations::default();
        assert_eq!((tables.of(Generation(0)), tables.of(Generation(3))), (Generation(0), Generation(0)));
        assert_eq!(tables.begin(Generation(4)), Generation(1));
        assert_eq!((tables.of(Generation(3)), tables.of(Generation(4))), (Generation(0), Generation(1)));
        assert!(tables.begin_with(Generation(4)) && !tables.begin_with(Generation(5)));
        assert_eq!((tables.of(Generation(9)), tables.next()), (Generation(1), Generation(2)));
    }
}
