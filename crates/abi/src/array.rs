//! Layout of a dense region that is an array: the entries of a range of integer keys, found by the key alone.
//!
//! ```text
//! address     start            start + stride
//! ┌───────────┬────────────────┬────────────────┬─
//! │ not used  │ of key first   │ of first + 1   │ …
//! └───────────┴────────────────┴────────────────┴─
//! ```
//!
//! An entry is that of an [`EntryLayout`] without hash, null mask and key: only its accumulators and, behind them, perhaps
//! a mark. What is left out was in front, so entry *i* is at `address + i * stride` with all offsets as they were; the bytes
//! of those fields are those of other entries.

use crate::{Accumulator, Counters, EntryLayout};

/// The integer keys `first..first + len`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The lowest.
    pub first: i64,
    /// How many, at least 1; the last one is at most `i64::MAX`.
    pub len: u64,
}

impl KeyRange {
    /// The last one.
    pub fn last(self) -> i64 {
        self.first.wrapping_add_unsigned(self.len - 1)
    }

    /// The keys from one to another, which is not less.
    pub fn between(first: i64, last: i64) -> KeyRange {
        KeyRange { first, len: (last.wrapping_sub(first) as u64).saturating_add(1) }
    }

    /// Whether all of the others are among them.
    pub fn contains(self, others: KeyRange) -> bool {
        self.first <= others.first && others.last() <= self.last()
    }

    /// The shortest range that has the keys of both.
    pub fn union(self, other: KeyRange) -> KeyRange {
        KeyRange::between(self.first.min(other.first), self.last().max(other.last()))
    }

    /// Number of a key within the range, counted from 0.
    #[inline]
    pub fn index(self, key: i64) -> Option<usize> {
        let index = key.wrapping_sub(self.first) as u64;
        (index < self.len).then_some(index as usize)
    }
}

/// Where everything is in the entries of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayLayout {
    /// Offset of the first field; a multiple of the alignment of all of them.
    pub start: usize,
    /// Bytes from one entry to the next.
    pub stride: usize,
    /// Offset of the word that is not 0 if the key is there, unless that of `other_mark` is.
    pub mark: usize,
    /// Another such word, or the same.
    pub other_mark: usize,
    /// Whether updates have to set the mark to 1; else it is an accumulator that counts every row, or two are that do.
    pub sets_mark: bool,
}

impl ArrayLayout {
    /// Bytes of a table of `keys` keys.
    pub fn bytes(&self, keys: usize) -> usize {
        self.start + keys * self.stride
    }
}

impl Accumulator {
    /// Whether an array can have it: a number, or two that are one sum.
    pub fn is_number(self) -> bool {
        use Accumulator::*;
        match self {
            Count | SumI64 | SumI128 | SumF64 | MinI64 | MaxI64 | MinI128 | MaxI128 | MinF64 | MaxF64 => true,
            MinStr | MaxStr | Group | Object(..) => false,
        }
    }
}

impl EntryLayout {
    /// Whether the dense region is an array: that of entries with a dense key whose accumulators are numbers.
    pub fn allows_arrays(&self) -> bool {
        self.dense_key().is_some() && self.accumulators.iter().all(|(accumulator, _)| accumulator.is_number())
    }

    /// The entries of the dense region, if that is an array.
    pub fn array(&self) -> Option<ArrayLayout> {
        if !self.allows_arrays() {
            return None;
        }
        let align = self.accumulators.iter().map(|(accumulator, _)| accumulator.align()).fold(8, usize::max);
        let first = self.accumulators.first().map_or(self.stride, |&(_, offset)| offset);
        let end = self.accumulators.last().map_or(self.stride, |&(accumulator, offset)| offset + accumulator.size());
        let start = first - first % align;
        let ([mark, other_mark], end) = match self.counters {
            Counters::One(number) => ([self.accumulators[number].1; 2], end),
            Counters::EachOf(one, other) => ([one, other].map(|number| self.accumulators[number].1), end),
            Counters::None => ([end; 2], end + 8),
        };
        let stride = (end - start).next_multiple_of(align);
        Some(ArrayLayout { start, stride, mark, other_mark, sets_mark: self.counters == Counters::None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phys;
    use Accumulator::*;

    #[test]
    fn only_accumulators_are_kept() {
        let array = |key: (Phys, bool), accumulators: &[Accumulator], count: Option<usize>| {
            let counters = count.map_or(Counters::None, Counters::One);
            let layout = EntryLayout::new(&[key], accumulators).counted_by(counters);
            layout.array().map(|a| (a.start, a.stride, a.mark))
        };
        let long = (Phys::I64, false);
        assert_eq!(array(long, &[Count], Some(0)), Some((16, 8, 16)));
        assert_eq!(array(long, &[Count], None), Some((16, 16, 24)));
        assert_eq!(array(long, &[SumI64, Count], Some(1)), Some((16, 16, 24)));
        assert_eq!(array((Phys::I32, true), &[Count, SumI128], Some(0)), Some((16, 32, 24)));
        assert_eq!(array(long, &[SumF64], None), Some((16, 32, 40)));
        assert_eq!(array(long, &[Count, SumF64], Some(0)), Some((16, 32, 16)));
        assert_eq!(array((Phys::I8, false), &[], None), Some((16, 8, 16)));
        assert_eq!(array((Phys::Bool, false), &[Count], Some(0)), None);
        assert_eq!(array(long, &[MaxStr], None), None);
        let of_two = EntryLayout::new(&[long], &[SumF64, SumF64, Count, Count]).counted_by(Counters::EachOf(2, 3));
        let layout = ArrayLayout { start: 16, stride: 64, mark: 64, other_mark: 72, sets_mark: false };
        assert_eq!(of_two.array(), Some(layout));
    }

    #[test]
    fn ranges_have_unions() {
        let (low, high) = (KeyRange::between(-5, 3), KeyRange::between(10, 10));
        assert_eq!((low.len, high.len), (9, 1));
        assert_eq!(low.union(high), KeyRange { first: -5, len: 16 });
        assert_eq!(KeyRange::between(i64::MIN, i64::MAX).len, u64::MAX);
    }

    #[test]
    fn keys_outside_of_a_range_have_no_number() {
        let range = KeyRange { first: i64::MAX - 3, len: 4 };
        assert_eq!((range.index(i64::MAX - 3), range.index(i64::MAX)), (Some(0), Some(3)));
        assert_eq!((range.index(i64::MAX - 4), range.index(i64::MIN), range.index(0)), (None, None, None));
    }
}
