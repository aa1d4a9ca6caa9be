//! A row once for each element of its collection.

use super::Expansion;
use crate::columns::selected;
use crate::staged::{Arrive, Tools};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, StructArray, UInt32Array, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use millstream_types::Diagnostic;
use std::ops::ControlFlow;
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

/// Rows that have been made and not passed on.
#[derive(Default)]
struct MadeElements {
    of: Vec<u32>,
    /// `None` for rows without elements.
    elements: Vec<Option<u32>>,
    ordinals: Vec<Option<i32>>,
}

impl<'a> Expansion<'_, 'a> {
    /// `columns` are appended in all.
    pub(super) fn unnest(
        &self,
        outer: bool,
        ordinality: bool,
        columns: usize,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let elements = Elements::of(&self.rows.columns[self.kept()])?;
        if elements.columns.len() + usize::from(ordinality) != columns {
            return Err(Diagnostic::bug("the elements of a collection do not have the planned columns"));
        }
        let most = self.most;
        let mut made = MadeElements::default();
        for row in 0..self.rows.rows {
            let range = elements.range(row);
            let nothing = (outer && range.is_empty()).then_some((None, None));
            let some = range.zip(1..).map(|(element, ordinal)| (Some(element), Some(ordinal)));
            for (element, ordinal) in some.chain(nothing) {
                made.of.push(row as u32);
                made.elements.push(element);
                made.ordinals.push(ordinal);
                if made.of.len() == most
                    && let ControlFlow::Break(()) =
                        self.pass_elements(&elements, ordinality, &mut made, tools, arrive)?
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.pass_elements(&elements, ordinality, &mut made, tools, arrive)
    }

    fn pass_elements(
        &self,
        elements: &Elements<'_>,
        ordinality: bool,
        made: &mut MadeElements,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let made = std::mem::take(made);
        if made.of.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let (of, chosen) = (UInt32Array::from(made.of), UInt32Array::from(made.elements));
        let mut columns = self.rows.take(self.kept(), &of)?;
        for column in &elements.columns {
            columns.push(selected(column, &chosen)?);
        }
        if ordinality {
            columns.push(Arc::new(Int32Array::from(made.ordinals)));
        }
        arrive(tools, self.rows.made(columns, of.values()))
    }
}
