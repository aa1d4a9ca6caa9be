//! What the values of a column are like: NULLs, a constant, few values, the lengths of strings.
//!
//! Whether a column is NULL or constant is looked at in every sampled row, because one exception is what matters; the number
//! of its values and lengths in [`COUNTED`] rows of a sample.

use super::cells::Cells;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray, UInt32Array};
use arrow_select::take::take;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of a sample whose values and lengths are counted.
const COUNTED: usize = 128;
/// Most values of a column that counts as few-valued.
pub(crate) const FEW: usize = 8;
/// Most values of a column that counts as dictionary-like: more are not told apart.
pub(crate) const DICTIONARY: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ColumnProfile {
    rows: u64,
    nulls: u64,
    /// Sampled rows since the last NULL.
    pub(crate) since_null: u64,
    /// The last value, unless it was NULL, and its word.
    last: Option<(ArrayRef, u128)>,
    /// Sampled rows since the value before it was another one.
    since_change: u64,
    /// Values since the last halving, and between the two before.
    values: [BTreeSet<u128>; 2],
    texts: u64,
    text_bytes: u64,
    inline_texts: u64,
}

impl ColumnProfile {
    /// Takes in the column of a sample.
    pub(crate) fn observe(&mut self, column: &ArrayRef) {
        let (rows, nulls) = (column.len(), column.null_count());
        self.rows += rows as u64;
        self.nulls += nulls as u64;
        self.since_null = match nulls {
            0 => self.since_null + rows as u64,
            _ => (0..rows).rev().take_while(|&row| column.is_valid(row)).count() as u64,
        };
        let Some(cells) = Cells::of(column) else { return };
        self.follow(column, &cells);
        for row in (0..rows).step_by(rows.div_ceil(COUNTED).max(1)).filter(|&row| column.is_valid(row)) {
            // One more than [`DICTIONARY`] means many.
            if self.values[0].len() <= DICTIONARY {
                self.values[0].insert(cells.word(row));
            }
            if let Some(length) = cells.length(row) {
                self.texts += 1;
                self.text_bytes += u64::from(length);
                self.inline_texts += u64::from(Cells::is_inline(length));
            }
        }
    }

    /// Looks for a value that differs from the one before it. NULL is a difference.
    fn follow(&mut self, column: &ArrayRef, cells: &Cells<'_>) {
        let rows = column.len();
        let Some(last) = rows.checked_sub(1) else { return };
        if column.is_null(last) {
            (self.last, self.since_change) = (None, 0);
            return;
        }
        let value = cells.word(last);
        let alike = |row: &usize| cells.word(*row) == value && column.is_valid(*row);
        let run = (0..rows).rev().take_while(alike).count();
        let goes_on = run == rows && self.last.as_ref().is_some_and(|before| before.1 == value);
        self.since_change = if goes_on { self.since_change + rows as u64 } else { run as u64 };
        if !goes_on {
            self.last = Some((copied(column, last), value));
        }
    }

    /// Lets all so far count half.
    pub(crate) fn halve(&mut self) {
        for count in [&mut self.rows, &mut self.nulls, &mut self.texts, &mut self.text_bytes, &mut self.inline_texts] {
            *count /= 2;
        }
        self.values.swap(0, 1);
        self.values[0].clear();
    }

    /// The share of NULLs; `None` before the first row.
    pub(crate) fn null_rate(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.nulls as f64 / self.rows as f64)
    }

    /// The value that the last sampled rows all have, as an array of one row, and how many rows these are. `None` if the
    /// last one was NULL, or the type is not looked into.
    pub(crate) fn constant(&self) -> Option<(&ArrayRef, u64)> {
        self.last.as_ref().map(|(value, _)| (value, self.since_change))
    }

    /// The different values that were seen recently, in order.
    fn recent(&self) -> impl Iterator<Item = &u128> {
        self.values[0].union(&self.values[1])
    }

    /// How many different values were seen recently; `None` if more than [`DICTIONARY`], or nothing is known.
    pub(crate) fn distinct(&self) -> Option<usize> {
        Some(self.recent().count()).filter(|count| (1..=DICTIONARY).contains(count))
    }

    /// The strings that were seen recently, in order, if they are few and short enough to be held in place.
    pub(crate) fn few_texts(&self) -> Option<Vec<Box<[u8]>>> {
        if self.distinct()? > FEW || self.inline_texts() != Some(1.0) {
            return None;
        }
        let text = |word: &u128| {
            let bytes = word.to_le_bytes();
            let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
            bytes.get(4..4 + length).map(Box::from)
        };
        self.recent().map(text).collect()
    }

    /// The mean length of strings, in bytes; `None` for other types.
    pub(crate) fn text_bytes(&self) -> Option<f64> {
        (self.texts > 0).then(|| self.text_bytes as f64 / self.texts as f64)
    }

    /// The share of strings of up to 12 bytes, which are held in place; `None` for other types.
    pub(crate) fn inline_texts(&self) -> Option<f64> {
        (self.texts > 0).then(|| self.inline_texts as f64 / self.texts as f64)
    }
}

/// The value of a row as an array that does not keep the memory of the whole column.
fn copied(column: &ArrayRef, row: usize) -> ArrayRef {
    match Cells::of(column) {
        Some(Cells::Strings(values)) => Arc::new(StringViewArray::from_iter_values([values.value(row)])),
        Some(Cells::Bytes(values)) => Arc::new(BinaryViewArray::from_iter_values([values.value(row)])),
        _ => take(column, &UInt32Array::from(vec![row as u32]), None).expect("the row is one of the column"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{FixedSizeBinaryArray, Int64Array, StringViewArray};
    use std::sync::Arc;

    fn numbers(profile: &mut ColumnProfile, values: impl IntoIterator<Item = Option<i64>>) {
        profile.observe(&(Arc::new(Int64Array::from_iter(values)) as ArrayRef));
    }

    fn constant(profile: &ColumnProfile) -> Option<(i64, u64)> {
        profile.constant().map(|(value, rows)| (value.as_primitive::<Int64Type>().value(0), rows))
    }

    #[test]
    fn nulls_and_constants_are_followed_row_by_row() {
        let mut profile = ColumnProfile::default();
        assert_eq!((profile.null_rate(), profile.distinct()), (None, None));
        numbers(&mut profile, [Some(1), Some(5), Some(5)]);
        assert_eq!((constant(&profile), profile.since_null), (Some((5, 2)), 3));
        numbers(&mut profile, [Some(5); 100]);
        assert_eq!((constant(&profile), profile.since_null), (Some((5, 102)), 103));
        numbers(&mut profile, [Some(5), None, Some(5)]);
        assert_eq!((constant(&profile), profile.since_null), (Some((5, 1)), 1));
        assert!(profile.null_rate().is_some_and(|rate| (rate - 1.0 / 106.0).abs() < 1e-9));
        numbers(&mut profile, [Some(6)]);
        assert_eq!(constant(&profile), Some((6, 1)));
        numbers(&mut profile, []);
        assert_eq!(constant(&profile), Some((6, 1)));
        numbers(&mut profile, [None]);
        assert_eq!((constant(&profile), profile.since_null), (None, 0));
    }

    #[test]
    fn few_values_and_many() {
        let mut profile = ColumnProfile::default();
        numbers(&mut profile, (0..1000).map(|i| Some(i * 7 % 3)));
        assert_eq!((profile.distinct(), profile.few_texts()), (Some(3), None));
        numbers(&mut profile, (0..1000).map(Some));
        assert_eq!((profile.distinct(), profile.few_texts()), (None, None));
        profile.halve();
        assert_eq!(profile.distinct(), None, "the window before still counts");
        numbers(&mut profile, [Some(4); 10]);
        profile.halve();
        assert_eq!(profile.distinct(), Some(1));
    }

    #[test]
    fn strings_have_lengths() {
        let mut profile = ColumnProfile::default();
        let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some("view"), None, Some("0123456789abcdef")]));
        profile.observe(&column);
        assert_eq!(
            (profile.text_bytes(), profile.inline_texts(), profile.distinct()),
            (Some(10.0), Some(0.5), Some(2))
        );
        numbers(&mut profile, [Some(1)]);
        assert_eq!(profile.text_bytes(), Some(10.0));
    }

    #[test]
    fn few_short_strings_are_known() {
        let texts = |texts: &[&str]| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(texts)) };
        let mut profile = ColumnProfile::default();
        profile.observe(&texts(&["view", "click", "", "view", "twelve bytes"]));
        let few = profile.few_texts().expect("four values");
        let few: BTreeSet<&str> = few.iter().map(|text| std::str::from_utf8(text).expect("it was text")).collect();
        assert_eq!(few, ["", "click", "twelve bytes", "view"].into());
        profile.observe(&texts(&["thirteen bytes"]));
        assert_eq!(profile.few_texts(), None);
    }

    #[test]
    fn of_records_only_nulls_are_known() {
        let column: ArrayRef =
            Arc::new(FixedSizeBinaryArray::try_from_iter([[0u8; 40]; 3].into_iter()).expect("records of equal length"));
        let mut profile = ColumnProfile::default();
        profile.observe(&column);
        assert_eq!((profile.null_rate(), profile.distinct()), (Some(0.0), None));
        assert!(profile.constant().is_none());
    }
}
