//! The rows of a lookup table by key, when they are there: nothing changes any more, and all workers read.

use crate::columns::{bytes_of, compact};
use crate::executable_plan::PipelineCode;
use crate::groups::{self, ByGroup};
use arrow_array::{Array, ArrayRef, new_empty_array};
use millstream_functions::FunctionContext;
use millstream_state::GroupTable;
use millstream_types::{Diagnostic, Field, code};
use std::sync::{Arc, OnceLock};

/// Columns and their rows.
pub(super) type LookupPiece = (Vec<ArrayRef>, usize);

/// The place of a lookup table: pipelines have it before the rows are there.
pub(crate) type LookupTable = OnceLock<LookupRows>;

/// Rows by key.
pub(crate) struct LookupRows {
    /// Columns of all rows.
    pub(crate) columns: Vec<ArrayRef>,
    groups: GroupTable,
    by_group: ByGroup,
}

impl LookupRows {
    pub(super) fn new(
        fields: &[Field],
        pieces: Vec<LookupPiece>,
        code: &PipelineCode,
        functions: &mut FunctionContext,
    ) -> Result<LookupRows, Diagnostic> {
        let rows: usize = pieces.iter().map(|(_, rows)| rows).sum();
        if u32::try_from(rows).is_err() {
            let message = format!("a lookup table has {rows} rows, more than the {} that it can have", u32::MAX);
            return Err(Diagnostic::new(code::UNSUPPORTED, message).advise("join the tables in a window instead"));
        }
        let column = |(i, field): (usize, &Field)| {
            let parts: Vec<&dyn Array> = pieces.iter().map(|(columns, _)| &*columns[i]).collect();
            match parts[..] {
                [] => Ok(new_empty_array(&field.data_type.to_arrow())),
                // Strings of many pieces go into one buffer: what is taken from a column refers to all that it has.
                _ => arrow_select::concat::concat(&parts)
                    .map(|column| compact(&column))
                    .map_err(|e| Diagnostic::bug(format!("the rows of a lookup table cannot be put together: {e}"))),
            }
        };
        let columns = fields.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
        drop(pieces);
        let layout = code.lowered.layout().ok_or_else(|| Diagnostic::bug("a program does not number keys"))?;
        let mut groups = GroupTable::new(Arc::new(layout.clone()));
        let group_of = groups::assign(&mut groups, code, &columns, rows, functions)?;
        let by_group = ByGroup::new(&group_of, groups.len());
        Ok(LookupRows { columns, groups, by_group })
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.columns) + self.groups.bytes() + self.by_group.bytes()
    }

    /// For each row of `keys` the rows of the table that have the same; none where a key is NULL.
    pub(crate) fn partners<'t>(
        &'t self,
        code: &PipelineCode,
        keys: &[ArrayRef],
        rows: usize,
        functions: &mut FunctionContext,
    ) -> Result<Vec<&'t [u32]>, Diagnostic> {
        let groups = groups::look_up(&self.groups, code, keys, rows, functions)?;
        let is_found = |group| group < self.groups.len() as u64 && !self.groups.is_null(group);
        let partners = |group| if is_found(group) { self.by_group.rows(group) } else { &[] };
        Ok(groups.into_iter().map(partners).collect())
    }
}
