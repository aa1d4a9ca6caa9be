//! A row once for each element of its collection.

use super::Expansion;
use crate::columns::all_selected;
use crate::pipeline_stages::{Arrive, Tools, Wanted};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, StructArray, UInt32Array, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use millstream_plan::pipeline::Unnest;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// The elements of a column of collections.
struct Elements<'a> {
    nulls: Option<&'a NullBuffer>,
    /// Elements `offsets[i]..offsets[i + 1]` are those of row *i*.
    offsets: &'a [i32],
    /// The columns that elements give.
    columns: Vec<ArrayRef>,
}

impl Elements<'_> {
    fn of(collection: &ArrayRef) -> Result<Elements<'_>, Diagnostic> {
        if let Some(list) = collection.as_list_opt::<i32>() {
            let columns = match list.values().as_struct_opt() {
                Some(rows) => fields(rows)?,
                None => vec![Arc::clone(list.values())],
            };
            return Ok(Elements { nulls: list.nulls(), offsets: list.value_offsets(), columns });
        }
        if let Some(map) = collection.as_map_opt() {
            let columns = vec![Arc::clone(map.keys()), Arc::clone(map.values())];
            return Ok(Elements { nulls: map.nulls(), offsets: map.value_offsets(), columns });
        }
        Err(Diagnostic::bug(format!("a column of type {} has no elements", collection.data_type())))
    }

    /// The elements of a row; none of NULL.
    fn range(&self, row: usize) -> std::ops::Range<u32> {
        match self.nulls.is_none_or(|n| n.is_valid(row)) {
            true => self.offsets[row] as u32..self.offsets[row + 1] as u32,
            false => 0..0,
        }
    }
}

/// The fields of rows as columns: NULL where the row is.
fn fields(rows: &StructArray) -> Result<Vec<ArrayRef>, Diagnostic> {
    let Some(missing) = rows.nulls().filter(|n| n.null_count() > 0) else { return Ok(rows.columns().to_vec()) };
    let field = |column: &ArrayRef| {
        if *column.data_type() == DataType::Null {
            return Ok(Arc::clone(column));
        }
        let nulls = NullBuffer::union(column.nulls(), Some(missing));
        let data = column.to_data().into_builder().nulls(nulls).build();
        data.map(make_array).map_err(|e| Diagnostic::bug(format!("a field of a row cannot be NULL: {e}")))
    };
    rows.columns().iter().map(field).collect()
}

impl<'a> Expansion<'_, 'a> {
    pub(super) fn unnest(&self, unnest: &Unnest, tools: &mut Tools<'_>, arrive: &mut Arrive<'_, 'a>) -> Wanted {
        let Unnest { outer, ordinality, columns, .. } = unnest;
        let elements = Elements::of(&self.rows.columns[self.kept()])?;
        if elements.columns.len() + usize::from(*ordinality) != columns.len() {
            return Err(Diagnostic::bug("the elements of a collection do not have the planned columns"));
        }
        let made = (0..self.rows.rows).flat_map(|row| {
            let range = elements.range(row);
            let nothing = (*outer && range.is_empty()).then_some((None, None));
            let some = range.zip(1..).map(|(element, ordinal)| (Some(element), Some(ordinal)));
            some.chain(nothing).map(move |element| (row as u32, element))
        });
        let append = |made: Vec<(Option<u32>, Option<i32>)>| {
            let (chosen, ordinals): (Vec<_>, Vec<_>) = made.into_iter().unzip();
            let mut columns = all_selected(&elements.columns, &UInt32Array::from(chosen))?;
            if *ordinality {
                columns.push(Arc::new(Int32Array::from(ordinals)));
            }
            Ok(columns)
        };
        self.make(made, append, tools, arrive)
    }
}
