//! Values of one type, compactly: booleans, integers and doubles as words, decimals, and strings.

use millstream_abi::{Phys, Slot, Str};

/// Values of one physical type. The order of the words of doubles is that of the doubles ([`key_of_number`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Values {
    /// Bool as 0 or 1, I64, F64 as [`key_of_number`].
    Words(Vec<i64>),
    /// I128.
    Wides(Vec<i128>),
    /// Str: the bytes one after the other, and where each ends.
    Strings(Vec<u8>, Vec<usize>),
}

impl Values {
    /// None yet.
    pub(crate) fn new(phys: Phys) -> Values {
        match phys {
            Phys::I128 => Values::Wides(Vec::new()),
            Phys::Str => Values::Strings(Vec::new(), Vec::new()),
            _ => Values::Words(Vec::new()),
        }
    }

    /// Those of strings.
    pub(crate) fn of_strings<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> Values {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for string in strings {
            bytes.extend_from_slice(string);
            ends.push(bytes.len());
        }
        Values::Strings(bytes, ends)
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Values::Words(words) => words.len(),
            Values::Wides(wides) => wides.len(),
            Values::Strings(_, ends) => ends.len(),
        }
    }

    /// Appends a value.
    ///
    /// # Safety
    /// The slot holds a value of the type that the values were made for, and its string is alive.
    pub(crate) unsafe fn push(&mut self, phys: Phys, value: &Slot) {
        match self {
            Values::Words(words) => words.push(word(phys, value)),
            Values::Wides(wides) => wides.push(i128::from_le_bytes(value.bytes())),
            Values::Strings(bytes, ends) => {
                let string = string(value);
                // SAFETY: promised by the caller.
                bytes.extend_from_slice(unsafe { string.as_bytes() });
                ends.push(bytes.len());
            }
        }
    }

    /// Appends something in the place of a NULL.
    pub(crate) fn push_nothing(&mut self) {
        match self {
            Values::Words(words) => words.push(0),
            Values::Wides(wides) => wides.push(0),
            Values::Strings(bytes, ends) => ends.push(bytes.len()),
        }
    }

    /// Forgets the values.
    pub(crate) fn clear(&mut self) {
        match self {
            Values::Words(words) => words.clear(),
            Values::Wides(wides) => wides.clear(),
            Values::Strings(bytes, ends) => {
                bytes.clear();
                ends.clear();
            }
        }
    }

    /// Leaves only the value.
    ///
    /// # Safety
    /// As for [`Values::push`].
    pub(crate) unsafe fn replace(&mut self, phys: Phys, value: &Slot) {
        self.clear();
        // SAFETY: forwarded.
        unsafe { self.push(phys, value) };
    }

    /// Appends value `i` of others of the same type.
    pub(crate) fn push_from(&mut self, others: &Values, i: usize) {
        match (self, others) {
            (Values::Words(words), Values::Words(others)) => words.push(others[i]),
            (Values::Wides(wides), Values::Wides(others)) => wides.push(others[i]),
            (Values::Strings(bytes, ends), Values::Strings(..)) => {
                bytes.extend_from_slice(others.string(i));
                ends.push(bytes.len());
            }
            _ => unreachable!("the values of a component are of one type"),
        }
    }

    /// The bytes of string `i`; none if these are not strings.
    pub(crate) fn string(&self, i: usize) -> &[u8] {
        match self {
            Values::Strings(bytes, ends) => &bytes[if i == 0 { 0 } else { ends[i - 1] }..ends[i]],
            _ => &[],
        }
    }

    /// Order of value `i` against value `j` of others.
    pub(crate) fn compare(&self, i: usize, others: &Values, j: usize) -> std::cmp::Ordering {
        match (self, others) {
            (Values::Words(words), Values::Words(others)) => words[i].cmp(&others[j]),
            (Values::Wides(wides), Values::Wides(others)) => wides[i].cmp(&others[j]),
            _ => self.string(i).cmp(others.string(j)),
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Values::Words(words) => words.capacity() * size_of::<i64>(),
            Values::Wides(wides) => wides.capacity() * size_of::<i128>(),
            Values::Strings(bytes, ends) => bytes.capacity() + ends.capacity() * size_of::<usize>(),
        }
    }
}

/// The word of a Bool, I64 or F64.
pub(crate) fn word(phys: Phys, value: &Slot) -> i64 {
    match phys {
        Phys::Bool => i64::from(value.bytes::<1>()[0] != 0),
        Phys::F64 => key_of_number(f64::from_le_bytes(value.bytes())),
        _ => i64::from_le_bytes(value.bytes()),
    }
}

/// The string in a slot.
pub(crate) fn string(value: &Slot) -> Str {
    Str::from_bits(u128::from_le_bytes(value.bytes()))
}

/// A number as a word in the order of numbers: -0.0 below 0.0, the one NaN above all.
#[inline]
pub(crate) fn key_of_number(x: f64) -> i64 {
    let bits = if x.is_nan() { f64::NAN.to_bits() & i64::MAX as u64 } else { x.to_bits() } as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The inverse of [`key_of_number`].
#[inline]
pub(crate) fn number_of_key(key: i64) -> f64 {
    f64::from_bits((key ^ ((key >> 63) as u64 >> 1) as i64) as u64)
}

/// The word of 0.0 for that of -0.0, because they are one value to those who count values.
pub(crate) fn positive_zero(phys: Phys, word: i64) -> i64 {
    // The bits of -0.0 are those of no number but the least, with all others inverted: -1.
    if phys == Phys::F64 && word == -1 { 0 } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_numbers_are_in_their_order() {
        let ascending =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 5e-324, 1.0, f64::INFINITY, f64::NAN];
        let keys: Vec<i64> = ascending.iter().map(|&x| key_of_number(x)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        for (x, &key) in ascending.iter().zip(&keys) {
            assert_eq!(number_of_key(key).to_bits(), x.to_bits());
        }
        assert_eq!(key_of_number(-f64::NAN), key_of_number(f64::NAN));
        assert_eq!(positive_zero(Phys::F64, key_of_number(-0.0)), key_of_number(0.0));
        assert_eq!(positive_zero(Phys::I64, -1), -1);
    }
}
