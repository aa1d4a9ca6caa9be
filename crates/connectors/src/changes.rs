//! The changes of a result as they reach an encoder: the columns of the sink's schema, and behind them what each row does.

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef};
use millstream_types::{Diagnostic, RowKind};

/// The columns of the schema, and what each row does. Where rows are only added there is no such column, and nothing is said of
/// any row.
pub(crate) fn parted(columns: &[ArrayRef], changes: bool) -> Result<(&[ArrayRef], Option<Vec<RowKind>>), Diagnostic> {
    if !changes {
        return Ok((columns, None));
    }
    let kinds = columns.split_last().and_then(|(kinds, columns)| Some((columns, kinds_of(kinds)?)));
    let (columns, kinds) = kinds.ok_or_else(|| Diagnostic::bug("a change is of no kind"))?;
    Ok((columns, Some(kinds)))
}

fn kinds_of(column: &ArrayRef) -> Option<Vec<RowKind>> {
    let numbers = column.as_primitive_opt::<Int8Type>().filter(|numbers| numbers.null_count() == 0)?;
    numbers.values().iter().map(|number| RowKind::of(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int8Array, Int64Array};
    use std::sync::Arc;

    #[test]
    fn the_last_column_says_what_rows_do() {
        let row: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9, 10]));
        let with = |kinds: Vec<Option<i8>>| [row.clone(), Arc::new(Int8Array::from(kinds)) as ArrayRef];
        let changes = with((0..4).map(Some).collect());
        let (columns, kinds) = parted(&changes, true).unwrap();
        assert_eq!((columns.len(), kinds.as_deref()), (1, Some(RowKind::ALL.as_slice())));
        assert_eq!(parted(&changes, false).unwrap().0.len(), 2);
        for unknown in [Some(4), Some(-1), None] {
            assert!(parted(&with(vec![Some(0), Some(0), Some(0), unknown]), true).is_err());
        }
        assert!(parted(&[row], true).is_err() && parted(&[], true).is_err());
    }
}
