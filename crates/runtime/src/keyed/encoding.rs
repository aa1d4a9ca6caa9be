//! What states are written with, and how what is read is checked: columns are of the types that they should be, and numbers
//! that stand for rows, groups or slots of others are those of some.

use crate::columns::compact;
use arrow_array::ArrayRef;
use arrow_schema::DataType;
use millstream_storage::{ByteReader, ByteWriter, Damaged};

/// Writes columns without what else their buffers hold.
pub(super) fn save_columns(columns: &[ArrayRef], rows: usize, out: &mut ByteWriter) {
    let columns: Vec<ArrayRef> = columns.iter().map(compact).collect();
    out.columns(&columns, rows);
}

/// Reads columns of these types, and how many rows they have.
pub(super) fn restore_columns(
    types: impl IntoIterator<Item = DataType>,
    from: &mut ByteReader<'_>,
) -> Result<(Vec<ArrayRef>, usize), Damaged> {
    let (columns, rows) = from.columns()?;
    match types.into_iter().eq(columns.iter().map(|column| column.data_type().clone())) {
        true => Ok((columns, rows)),
        false => Err(Damaged("rows have other columns than they should".into())),
    }
}

/// Numbers below a bound, of each of which there is one owner at most.
pub(super) struct Owned(Vec<bool>);

impl Owned {
    /// None is owned of the numbers below `bound`.
    pub(super) fn new(bound: usize) -> Owned {
        Owned(vec![false; bound])
    }

    /// Somebody owns a number.
    pub(super) fn take(&mut self, number: usize) -> Result<(), Damaged> {
        match self.0.get_mut(number) {
            Some(owned) if !*owned => {
                *owned = true;
                Ok(())
            }
            _ => Err(Damaged(format!("{number} is owned twice, or is the number of nothing"))),
        }
    }
}

/// Checks that there are as many of something as there should be.
pub(super) fn check_count(what: &str, found: usize, expected: usize) -> Result<(), Damaged> {
    match found == expected {
        true => Ok(()),
        false => Err(Damaged(format!("there are {found} {what} where {expected} should be"))),
    }
}

/// Checks that numbers are ascending, and those of some of `known` entries.
pub(super) fn check_ascending(numbers: &[u32], known: usize) -> Result<(), Damaged> {
    let is_right = numbers.is_sorted_by(|a, b| a < b) && numbers.last().is_none_or(|&last| (last as usize) < known);
    Damaged::unless(is_right, "a number is there twice, or is that of nothing")
}

/// A number that may be missing: written as a list of one, or none.
pub(super) fn restore_optional(what: &str, from: &mut ByteReader<'_>) -> Result<Option<i64>, Damaged> {
    let numbers = from.i64s()?;
    check_count(what, numbers.len(), numbers.len().min(1))?;
    Ok(numbers.first().copied())
}

/// Truth values as bytes.
pub(super) fn save_flags(flags: &[bool], out: &mut ByteWriter) {
    out.bytes(&flags.iter().map(|&flag| u8::from(flag)).collect::<Vec<_>>());
}

/// What [`save_flags`] has written.
pub(super) fn restore_flags(from: &mut ByteReader<'_>) -> Result<Vec<bool>, Damaged> {
    let flag = |&byte: &u8| match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Damaged(format!("{byte} is neither true nor false"))),
    };
    from.bytes()?.iter().map(flag).collect()
}
