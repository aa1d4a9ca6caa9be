//! The rows of a changing result as they are now, for `--output live`.

use millstream::connectors::{Encoded, with_kinds};
use millstream::{Diagnostic, RowKind, Schema};
use std::collections::BTreeMap;

/// A value to sort by: numbers by their size, before all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortedCell {
    /// The bits of a double, ordered as integers.
    Number(i64),
    Text(String),
}

/// Rows by what tells them apart. A row that is there twice counts twice.
#[derive(Debug)]
pub(crate) struct CurrentRows {
    /// Positions of the key; `None`: the whole row.
    key: Option<Vec<usize>>,
    are_numbers: Vec<bool>,
    rows: BTreeMap<Vec<SortedCell>, (Vec<String>, u64)>,
    len: u64,
}

impl CurrentRows {
    /// None yet.
    pub(crate) fn new(schema: &Schema, key: Option<&[usize]>) -> CurrentRows {
        let are_numbers = schema.fields.iter().map(|field| field.data_type.is_numeric()).collect();
        CurrentRows { key: key.map(<[usize]>::to_vec), are_numbers, rows: BTreeMap::new(), len: 0 }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The first rows.
    pub(crate) fn first(&self, most: usize) -> impl Iterator<Item = &Vec<String>> {
        self.rows.values().flat_map(|(row, times)| std::iter::repeat_n(row, *times as usize)).take(most)
    }

    /// A row comes or goes.
    pub(crate) fn change(&mut self, kind: RowKind, row: Vec<String>) {
        let sorted = |&column: &usize| match row[column].parse::<f64>() {
            Ok(number) if self.are_numbers[column] => {
                let bits = number.to_bits() as i64;
                SortedCell::Number(bits ^ ((bits >> 63) as u64 >> 1) as i64)
            }
            _ => SortedCell::Text(row[column].clone()),
        };
        let all: Vec<usize> = (0..row.len()).collect();
        let place: Vec<SortedCell> = self.key.as_ref().unwrap_or(&all).iter().map(sorted).collect();
        match (kind, &self.key) {
            // What replaces it follows.
            (RowKind::UpdateBefore, Some(_)) => {}
            (RowKind::Insert | RowKind::UpdateAfter, Some(_)) => {
                self.len += u64::from(self.rows.insert(place, (row, 1)).is_none());
            }
            (RowKind::Delete, Some(_)) => self.len -= u64::from(self.rows.remove(&place).is_some()),
            (RowKind::Insert | RowKind::UpdateAfter, None) => {
                self.rows.entry(place).or_insert((row, 0)).1 += 1;
                self.len += 1;
            }
            (RowKind::UpdateBefore | RowKind::Delete, None) => {
                if let Some((_, times)) = self.rows.get_mut(&place) {
                    *times -= 1;
                    self.len -= 1;
                    if *times == 0 {
                        self.rows.remove(&place);
                    }
                }
            }
        }
    }
}

/// The kinds of the rows of a piece, and the piece without them.
pub(crate) fn without_kinds(piece: Encoded) -> Result<(Vec<RowKind>, Encoded), Diagnostic> {
    let Encoded::Columns { mut columns, rows } = piece else {
        return Err(Diagnostic::bug("changes of no kind reached the table of results"));
    };
    let (_, kinds) = with_kinds(&columns)?;
    columns.pop();
    Ok((kinds, Encoded::Columns { columns, rows }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{DataType, Field};

    #[test]
    fn rows_are_those_that_changes_have_left() {
        let fields = vec![Field::new("n", DataType::BigInt, false), Field::new("t", DataType::STRING, true)];
        let schema = Schema::new(fields);
        let row = |n: &str, t: &str| vec![n.to_string(), t.to_string()];
        let mut keyed = CurrentRows::new(&schema, Some(&[0]));
        keyed.change(RowKind::Insert, row("10", "a"));
        keyed.change(RowKind::Insert, row("-9", "b"));
        keyed.change(RowKind::UpdateBefore, row("10", "a"));
        keyed.change(RowKind::UpdateAfter, row("10", "c"));
        keyed.change(RowKind::Insert, row("9", "d"));
        let shown = |rows: &CurrentRows| rows.first(9).map(|row| row.concat()).collect::<Vec<_>>();
        assert_eq!((shown(&keyed), keyed.len()), (vec!["-9b".into(), "9d".into(), "10c".to_string()], 3));
        keyed.change(RowKind::Delete, row("9", "d"));
        assert_eq!(shown(&keyed), ["-9b", "10c"]);
        let mut counted = CurrentRows::new(&schema, None);
        for kind in [RowKind::Insert, RowKind::Insert, RowKind::Insert, RowKind::Delete] {
            counted.change(kind, row("1", "a"));
        }
        assert_eq!((shown(&counted), counted.len()), (vec!["1a".into(), "1a".to_string()], 2));
    }
}
