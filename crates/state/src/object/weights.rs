//! Values with their weights: what shows MIN, MODE, COLLECT and their like of rows that may be taken back.
//!
//! The weight of a value is how often it has come, less how often it was taken back. It may be negative, when a value is taken back that has
//! not come yet; a value of weight 0 is forgotten. So what is kept depends on all changes together, whatever order they and merges come in.
//! Values are in ascending order, that of [`Values`], so both ends are near. Those whose weight is positive are *shown*.

use super::{Change, Values, string, word};
use millstream_abi::{Phys, Slot};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weights {
    /// As [`Values::Words`].
    Words(Weighed<i64>),
    /// As [`Values::Wides`].
    Wides(Weighed<i128>),
    /// As [`Values::Strings`].
    Strings(Weighed<Box<[u8]>>),
}

/// Values of one type with their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weighed<K> {
    /// None is 0.
    weights: BTreeMap<K, i64>,
    /// How many of them are shown.
    shown: usize,
    /// Bytes of the values that are not in the map itself.
    elsewhere: usize,
}

/// What a value is kept as.
pub(crate) trait Kept: Ord + Clone + Borrow<Self::Given> {
    /// The value as it comes.
    type Given: Ord + ?Sized;
    /// A type of such values.
    const PHYS: Phys;

    /// The value with memory of its own.
    fn keep(given: &Self::Given) -> Self;

    /// Appends it to values of the type.
    fn push_to(&self, values: &mut Values);

    /// Bytes of memory besides its own size.
    fn elsewhere(&self) -> usize {
        0
    }
}

impl Kept for i64 {
    type Given = i64;
    const PHYS: Phys = Phys::I64;

    fn keep(given: &i64) -> i64 {
        *given
    }

    fn push_to(&self, values: &mut Values) {
        let Values::Words(words) = values else { unreachable!("a word is among words") };
        words.push(*self);
    }
}

impl Kept for i128 {
    type Given = i128;
    const PHYS: Phys = Phys::I128;

    fn keep(given: &i128) -> i128 {
        *given
    }

    fn push_to(&self, values: &mut Values) {
        let Values::Wides(wides) = values else { unreachable!("a decimal is among decimals") };
        wides.push(*self);
    }
}

impl Kept for Box<[u8]> {
    type Given = [u8];
    const PHYS: Phys = Phys::Str;

    fn keep(given: &[u8]) -> Box<[u8]> {
        given.into()
    }

    fn push_to(&self, values: &mut Values) {
        let Values::Strings(bytes, ends) = values else { unreachable!("a string is among strings") };
        bytes.extend_from_slice(self);
        ends.push(bytes.len());
    }

    fn elsewhere(&self) -> usize {
        self.len()
    }
}

impl<K: Kept> Weighed<K> {
    fn new() -> Weighed<K> {
        Weighed { weights: BTreeMap::new(), shown: 0, elsewhere: 0 }
    }

    /// Those of values in ascending order, of which each is there once, and of weights that are not 0.
    fn of(ascending: impl Iterator<Item = (K, i64)>) -> Weighed<K> {
        // Takes linear time, as they are in order.
        let weights: BTreeMap<K, i64> = ascending.collect();
        let shown = weights.values().filter(|&&weight| weight > 0).count();
        let elsewhere = weights.keys().map(Kept::elsewhere).sum();
        Weighed { weights, shown, elsewhere }
    }

    /// Adds to the weight of a value.
    fn add(&mut self, value: &K::Given, more: i64) {
        let Some(weight) = self.weights.get_mut(value) else {
            let kept = K::keep(value);
            self.elsewhere += kept.elsewhere();
            self.shown += usize::from(more > 0);
            self.weights.insert(kept, more);
            return;
        };
        let was_shown = *weight > 0;
        *weight = weight.wrapping_add(more);
        let (is_shown, is_nothing) = (*weight > 0, *weight == 0);
        self.shown = self.shown + usize::from(is_shown) - usize::from(was_shown);
        if is_nothing && let Some((kept, _)) = self.weights.remove_entry(value) {
            self.elsewhere -= kept.elsewhere();
        }
    }

    fn merge(&mut self, other: &Weighed<K>) {
        other.weights.iter().for_each(|(value, &weight)| self.add(value.borrow(), weight));
    }

    fn shown(&self) -> impl DoubleEndedIterator<Item = (&K, &i64)> {
        self.weights.iter().filter(|&(_, &weight)| weight > 0)
    }

    /// About the bytes of memory: nodes of the map are two thirds full.
    fn bytes(&self) -> usize {
        self.weights.len() * size_of::<(K, i64)>() * 3 / 2 + self.elsewhere
    }
}

/// Values, and the weight of each.
fn apart<'a, K: Kept + 'a>(weighed: impl Iterator<Item = (&'a K, &'a i64)>) -> (Values, Vec<i64>) {
    let (mut values, mut weights) = (Values::new(K::PHYS), Vec::new());
    for (value, &weight) in weighed {
        value.push_to(&mut values);
        weights.push(weight);
    }
    (values, weights)
}

/// The same of values of any type.
macro_rules! each {
    ($weights:expr, $weighed:ident => $result:expr) => {
        match $weights {
            Weights::Words($weighed) => $result,
            Weights::Wides($weighed) => $result,
            Weights::Strings($weighed) => $result,
        }
    };
}

impl Weights {
    /// Of no values.
    pub(super) fn new(phys: Phys) -> Weights {
        match phys {
            Phys::I128 => Weights::Wides(Weighed::new()),
            Phys::Str => Weights::Strings(Weighed::new()),
            _ => Weights::Words(Weighed::new()),
        }
    }

    /// Takes in a value, or forgets it.
    ///
    /// # Safety
    /// The slot holds a value of the type, and its string is alive.
    pub(super) unsafe fn update(&mut self, phys: Phys, value: &Slot, change: Change) {
        let more = if change == Change::TakenBack { -1 } else { 1 };
        match self {
            Weights::Words(words) => words.add(&word(phys, value), more),
            Weights::Wides(wides) => wides.add(&i128::from_le_bytes(value.bytes()), more),
            Weights::Strings(strings) => {
                let string = string(value);
                // SAFETY: promised by the caller.
                strings.add(unsafe { string.as_bytes() }, more);
            }
        }
    }

    /// Adds the weights of another.
    pub(super) fn merge(&mut self, other: &Weights) {
        match (self, other) {
            (Weights::Words(words), Weights::Words(others)) => words.merge(others),
            (Weights::Wides(wides), Weights::Wides(others)) => wides.merge(others),
            (Weights::Strings(strings), Weights::Strings(others)) => strings.merge(others),
            _ => unreachable!("the values of a component are of one type"),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        each!(self, weighed => weighed.bytes())
    }

    /// Number of values of the type that are shown; both zeros are one.
    pub(crate) fn count(&self, phys: Phys) -> usize {
        let are_both_zeros = match self {
            // The words of -0.0 and 0.0.
            Weights::Words(words) if phys == Phys::F64 => {
                [-1, 0].iter().all(|zero| words.weights.get(zero).is_some_and(|&weight| weight > 0))
            }
            _ => false,
        };
        each!(self, weighed => weighed.shown) - usize::from(are_both_zeros)
    }

    /// Appends the smallest value that is shown; whether there is one.
    pub(crate) fn push_least(&self, into: &mut Values) -> bool {
        each!(self, weighed => weighed.shown().next().map(|(value, _)| value.push_to(into)).is_some())
    }

    /// Appends the largest value that is shown; whether there is one.
    pub(crate) fn push_greatest(&self, into: &mut Values) -> bool {
        each!(self, weighed => weighed.shown().next_back().map(|(value, _)| value.push_to(into)).is_some())
    }

    /// The values that are shown, in ascending order, and the weight of each.
    pub(crate) fn shown(&self) -> (Values, Vec<i64>) {
        each!(self, weighed => apart(weighed.shown()))
    }

    /// Writes them.
    pub(super) fn save(&self, out: &mut ByteWriter) {
        let (values, weights) = each!(self, weighed => apart(weighed.weights.iter()));
        values.save(out);
        out.i64s(&weights);
    }

    /// Reads what [`Weights::save`] has written, of values of a type, which are text if that is so.
    pub(super) fn restore(phys: Phys, is_text: bool, from: &mut ByteReader<'_>) -> Result<Weights, Damaged> {
        let (values, weights) = (Values::restore(phys, is_text, from)?, from.i64s()?);
        let have_weights = weights.len() == values.len() && !weights.contains(&0);
        Damaged::unless(have_weights, "there are values without a weight, or weights without a value")?;
        let are_in_order = (1..values.len()).all(|i| values.compare(i - 1, &values, i).is_lt());
        Damaged::unless(are_in_order, "values with weights are not in order")?;
        Ok(match values {
            Values::Words(words) => Weights::Words(Weighed::of(words.into_iter().zip(weights))),
            Values::Wides(wides) => Weights::Wides(Weighed::of(wides.into_iter().zip(weights))),
            Values::Strings(..) => {
                let strings = (0..values.len()).map(|i| values.string(i).into());
                Weights::Strings(Weighed::of(strings.zip(weights)))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Ordinal;
    use millstream_abi::Str;
    use proptest::prelude::*;

    /// Changes of values, each 1 for one that comes or -1.
    fn weights_of(phys: Phys, changes: &[(u32, i8)]) -> Weights {
        let mut weights = Weights::new(phys);
        for &(value, sign) in changes {
            let text = if value % 2 == 0 { value.to_string() } else { format!("a text that is long: {value}") };
            let slot = match phys {
                Phys::Str => Slot(Str::new(text.as_bytes()).bits().to_le_bytes()),
                Phys::I128 => Slot((i128::from(value) << 70).to_le_bytes()),
                Phys::F64 => Slot::of((f64::from(value) - 8.0).to_le_bytes()),
                _ => Slot::of(i64::from(value).to_le_bytes()),
            };
            let change = if sign < 0 { Change::TakenBack } else { Change::Added(Ordinal::NOWHERE) };
            // SAFETY: a value of the type, and a string that is alive.
            unsafe { weights.update(phys, &slot, change) };
        }
        weights
    }

    fn saved(weights: &Weights) -> Vec<u8> {
        let mut out = ByteWriter::new();
        weights.save(&mut out);
        out.into_bytes()
    }

    fn restored(phys: Phys, bytes: &[u8]) -> Result<Weights, Damaged> {
        let mut reader = ByteReader::new(bytes);
        let weights = Weights::restore(phys, true, &mut reader)?;
        reader.end().map(|()| weights)
    }

    fn changes() -> impl Strategy<Value = Vec<(u32, i8)>> {
        prop::collection::vec((0..16u32, prop::sample::select(vec![1, 1, -1])), 0..120)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 200 }))]

        #[test]
        fn only_the_sum_of_all_changes_matters(
            changes in changes().prop_flat_map(|changes| (Just(changes.clone()), Just(changes).prop_shuffle())),
            cut in any::<prop::sample::Index>(),
            phys in prop::sample::select(vec![Phys::I64, Phys::F64, Phys::I128, Phys::Str]),
        ) {
            let (changes, shuffled) = changes;
            let mut model = BTreeMap::new();
            changes.iter().for_each(|&(value, sign)| *model.entry(value).or_insert(0) += i64::from(sign));
            let net: Vec<(u32, i8)> = model
                .iter()
                .flat_map(|(&value, &weight)| vec![(value, weight.signum() as i8); weight.unsigned_abs() as usize])
                .collect();
            let weights = weights_of(phys, &changes);
            prop_assert_eq!(&weights, &weights_of(phys, &net));
            prop_assert_eq!(weights.count(phys), model.values().filter(|&&weight| weight > 0).count());

            let (left, right) = shuffled.split_at(cut.index(shuffled.len() + 1));
            let (mut merged, other) = (weights_of(phys, left), weights_of(phys, right));
            merged.merge(&other);
            prop_assert_eq!(&merged, &weights);

            let bytes = saved(&weights);
            let again = restored(phys, &bytes).unwrap();
            prop_assert_eq!(again.bytes(), weights.bytes());
            prop_assert_eq!(again, weights);
            for length in 0..bytes.len() {
                prop_assert!(restored(phys, &bytes[..length]).is_err(), "{} of {} bytes", length, bytes.len());
            }

            let negative: Vec<(u32, i8)> = changes.iter().map(|&(value, sign)| (value, -sign)).collect();
            merged.merge(&weights_of(phys, &negative));
            prop_assert_eq!(&merged, &Weights::new(phys));
            prop_assert_eq!(merged.bytes(), 0);
            prop_assert_eq!(saved(&merged), saved(&Weights::new(phys)));
        }
    }

    #[test]
    fn damaged_weights_are_refused() {
        let refused = |values: &[i64], weights: &[i64], why: &str| {
            let mut out = ByteWriter::new();
            out.i64s(values);
            out.i64s(weights);
            let damaged = restored(Phys::I64, &out.into_bytes()).unwrap_err();
            assert!(damaged.0.contains(why), "{damaged:?}");
        };
        refused(&[3, 2], &[1, 1], "not in order");
        refused(&[3, 3], &[1, 1], "not in order");
        refused(&[3, 4], &[1, 0], "without a weight");
        refused(&[3, 4], &[1], "without a weight");
        refused(&[3], &[1, -1], "without a value");
    }

    #[test]
    fn bytes_are_those_of_all_that_is_kept() {
        let few = weights_of(Phys::Str, &[(1, 1), (3, -1), (1, 1)]);
        assert!(few.bytes() >= 2 * ("a text that is long: 1".len() + size_of::<(Box<[u8]>, i64)>()));
        let more = weights_of(Phys::Str, &[(1, 1), (3, -1), (5, 1)]);
        assert!(more.bytes() > few.bytes());
    }
}
