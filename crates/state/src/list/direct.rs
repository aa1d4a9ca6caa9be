//! Pairs that are found by their value: for each value of a range the first two groups that have it.
//!
//! ```text
//! value    first      first + 1    first + 2   …
//!          [ 3, 0 ]   [ 3, 8 ]     [ 0, 0 ]          numbers of groups, from 1 on
//! ```
//!
//! Cars that are counted by road segment, or users by page, have small numbers, and each of them is in few groups of a
//! slice. Then a pair is one word of memory, where a hash table has places, numbers and values, and words of values that come
//! in order follow each other. Further groups of a value are found by hash, as all pairs of values outside of the range are.

use millstream_abi::prefetch;

/// Memory of which less than one part in so many was used is given up.
pub(super) const SPARSE: usize = 16;
/// Values of a range for each pair, at most: the places of a hash table take about as much memory.
const VALUES_OF_PAIR: usize = 4;
/// How many values further on the memory of one is fetched.
const AHEAD: usize = 24;

/// Numbers and values of pairs.
pub(super) type Columns = (Vec<u32>, Vec<u64>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Direct {
    first: i64,
    groups: Vec<[u32; 2]>,
}

impl Direct {
    /// Whether there is no range.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn index(&self, value: u64) -> usize {
        (value as i64).wrapping_sub(self.first) as usize
    }

    /// Takes in pairs up to the first whose value is outside of the range, if that could be longer; how many. Those that are new are
    /// put behind `pairs`; those for which there is no place into `beside`.
    pub(super) fn absorb(
        &mut self,
        numbers: &[u32],
        values: &[u64],
        pairs: (&mut Vec<u32>, &mut Vec<u64>),
        beside: &mut Columns,
    ) -> usize {
        for (i, (&number, &value)) in numbers.iter().zip(values).enumerate() {
            if let Some(&ahead) = values.get(i + AHEAD) {
                prefetch(self.groups.as_ptr().wrapping_add(self.index(ahead)).cast(), 1);
            }
            let index = self.index(value);
            let Some(groups) = self.groups.get_mut(index) else {
                if self.range_with(value, pairs.0.len()).is_some() {
                    return i;
                }
                beside.0.push(number);
                beside.1.push(value);
                continue;
            };
            let place = match *groups {
                [a, b] if a == number || b == number => continue,
                [0, _] => 0,
                [_, 0] => 1,
                _ => {
                    beside.0.push(number);
                    beside.1.push(value);
                    continue;
                }
            };
            groups[place] = number;
            pairs.0.push(number);
            pairs.1.push(value);
        }
        numbers.len()
    }

    /// A range that has a value too, if it is worth its memory with so many pairs.
    fn range_with(&self, value: u64, pairs: usize) -> Option<(i64, usize)> {
        let last = self.first.checked_add_unsigned(self.groups.len() as u64 - 1)?;
        let (value, len) = (value as i64, self.groups.len());
        let (first, needed) = match value < self.first {
            true => (value, last.checked_sub(value)?),
            false => (self.first, value.checked_sub(self.first)?),
        };
        let needed = usize::try_from(needed).ok()?.checked_add(1)?;
        // So much longer that all pairs are looked at a logarithmic number of times.
        let all = needed.max(len + len / 2);
        if all > VALUES_OF_PAIR * pairs {
            return None;
        }
        match value < self.first {
            true => Some((first.checked_sub_unsigned((all - needed) as u64)?, all)),
            false => first.checked_add_unsigned(all as u64).map(|_| (first, all)),
        }
    }

    /// Makes the range longer, if that is worth its memory.
    pub(super) fn grow_to(&mut self, value: u64, numbers: &[u32], values: &[u64]) {
        if let Some((first, len)) = self.range_with(value, numbers.len()) {
            self.set_range(first, len, numbers, values);
        }
    }

    /// Begins a range for pairs that have been found by hash so far, if their values lie close together.
    pub(super) fn begin(&mut self, numbers: &[u32], values: &[u64]) {
        let words = || values.iter().map(|&value| value as i64);
        let (Some(first), Some(last)) = (words().min(), words().max()) else { return };
        let Some(len) = last.checked_sub(first).and_then(|len| usize::try_from(len).ok()) else { return };
        if len < VALUES_OF_PAIR * numbers.len() {
            self.set_range(first, len + 1, numbers, values);
        }
    }

    /// Makes it a range that has all pairs of its values: the first two of each.
    fn set_range(&mut self, first: i64, len: usize, numbers: &[u32], values: &[u64]) {
        (self.first, self.groups) = (first, vec![[0; 2]; len]);
        for (&number, &value) in numbers.iter().zip(values) {
            let index = self.index(value);
            match self.groups.get_mut(index) {
                Some([a, _]) if *a == 0 => *a = number,
                Some([_, b]) if *b == 0 => *b = number,
                _ => {}
            }
        }
    }

    /// Empties it, which had so many pairs. The range remains, unless less than a part of it was used.
    pub(super) fn clear(&mut self, pairs: usize) {
        match pairs * SPARSE < self.groups.len() {
            true => self.groups = Vec::new(),
            false => self.groups.fill([0; 2]),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<[u32; 2]>()
    }
}
