//! Late materialisation: columns that are only needed behind a filter are read for the rows that it lets through.
//!
//! The columns that the filter needs are read first, and with them all whose values can be wrong: those that need not fit the
//! table's type or may be NULL where they must not, and text whose bytes are not checked as a whole. The filter looks at
//! them; of the others only the survivors are read, fitted, and spread over the rows of the chunk.

use super::read::{OpenFile, ParquetChunk, ParquetDecoder};
use crate::filesystem::insert_metadata;
use crate::fit::Wanted;
use crate::survivors::Survivors;
use crate::{Decoded, HeadFilter};
use ::parquet::arrow::arrow_reader::{RowSelection, RowSelectionPolicy, RowSelector};
use ::parquet::basic::{ConvertedType, Encoding, Type};
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use millstream_types::Diagnostic;

/// Mean length of runs of rows, left or not, below which the reader decodes all rows between the first and the last one and
/// picks those that are left, which costs less than starting and stopping for each. (The reader's own measure, but of the rows
/// of the chunk alone: those before it would count as a long run.)
const SHORT_RUNS: usize = 32;

impl ParquetDecoder {
    /// All columns; those that come late only of the rows that survive.
    pub(super) fn survivors(&self, chunk: &ParquetChunk, filter: &mut dyn HeadFilter) -> Result<Decoded, Diagnostic> {
        let comes_late = |column: &&Wanted| !filter.columns().contains(&column.position) && is_sure(chunk, column);
        let (late, early): (Vec<&Wanted>, Vec<&Wanted>) = self.plan.columns.iter().partition(comes_late);
        if late.is_empty() {
            return self.all(chunk);
        }
        let all = 0..self.plan.requests.len();
        let positions: Vec<usize> = all.filter(|position| late.iter().all(|c| c.position != *position)).collect();
        let requests: Vec<_> = positions.iter().map(|&position| self.plan.requests[position].clone()).collect();
        let mut decoded = insert_metadata(&requests, &chunk.open.info, self.columns(chunk, &early, None)?);
        let whole = |position| Some(decoded.columns.get(positions.binary_search(position).ok()?)?.clone());
        let asked: Option<Vec<ArrayRef>> = filter.columns().iter().map(whole).collect();
        let asked = asked.ok_or_else(|| Diagnostic::bug("a filter needs columns that were not asked for"))?;
        let left = filter.survivors(&asked, decoded.rows)?;
        if left.len() != decoded.rows {
            return Err(Diagnostic::bug("a filter decided about other rows than it was asked for"));
        }
        let spread = self.late(chunk, &late, &Survivors::new(left))?;
        // In ascending order of positions, so those before it are in their places.
        for (column, array) in late.iter().zip(spread) {
            decoded.columns.insert(column.position, array);
        }
        Ok(decoded)
    }

    /// Columns of the rows that are left, over all rows.
    fn late(&self, chunk: &ParquetChunk, columns: &[&Wanted], left: &Survivors) -> Result<Vec<ArrayRef>, Diagnostic> {
        let read = match left.count() {
            0 => {
                self.check_dictionaries(chunk, columns)?;
                columns.iter().map(|column| arrow_array::new_empty_array(&column.arrow_type())).collect()
            }
            _ => {
                let Decoded { columns, error, .. } = self.columns(chunk, columns, Some(left))?;
                error.map_or(Ok(columns), Err)?
            }
        };
        let spread = |column| left.spread(column).map_err(|e| Diagnostic::bug(format!("rows cannot be spread: {e}")));
        read.iter().map(spread).collect()
    }

    /// Makes sure that the dictionaries of a row group are looked at even if none of its rows is left: by reading its first
    /// row, with the first chunk.
    fn check_dictionaries(&self, chunk: &ParquetChunk, columns: &[&Wanted]) -> Result<(), Diagnostic> {
        let is_text = |column: &&&Wanted| chunk.open.leaves(&[column]).any(|leaf| is_text(&chunk.open, leaf));
        let texts: Vec<&Wanted> = columns.iter().filter(is_text).copied().collect();
        if chunk.first > 0 || texts.is_empty() {
            return Ok(());
        }
        let first = BooleanBuffer::collect_bool(chunk.rows, |row| row == 0);
        self.columns(chunk, &texts, Some(&Survivors::new(first))).map(|_| ())
    }
}

/// The rows that are left of those from `first` on.
pub(super) fn selection(first: usize, left: &BooleanBuffer) -> RowSelection {
    let (mut selectors, mut next) = (vec![RowSelector::skip(first)], 0);
    for (start, end) in left.set_slices() {
        selectors.push(RowSelector::skip(start - next));
        selectors.push(RowSelector::select(end - start));
        next = end;
    }
    selectors.into()
}

/// How the reader picks them.
pub(super) fn policy(left: &BooleanBuffer) -> RowSelectionPolicy {
    let runs = 2 * left.set_slices().count();
    if left.len() < SHORT_RUNS * runs { RowSelectionPolicy::Mask } else { RowSelectionPolicy::Selectors }
}

/// Whether no value of a column can be wrong, whatever is in the row group.
fn is_sure(chunk: &ParquetChunk, column: &Wanted) -> bool {
    let open = &chunk.open;
    column.always_fits(open.metadata.schema().fields())
        && open.leaves(&[column]).all(|leaf| !is_text(open, leaf) || has_dictionary(chunk, leaf))
}

/// Whether the bytes of a leaf have to be something.
fn is_text(open: &OpenFile, leaf: usize) -> bool {
    let leaf = open.metadata.parquet_schema().column(leaf);
    let is_plain = leaf.converted_type() == ConvertedType::NONE && leaf.logical_type_ref().is_none();
    leaf.physical_type() == Type::BYTE_ARRAY && !is_plain
}

/// Whether all values of a leaf are in its dictionary, which is checked when the first of them is read.
fn has_dictionary(chunk: &ParquetChunk, leaf: usize) -> bool {
    let column = chunk.open.metadata.metadata().row_group(chunk.group).column(leaf);
    let only = [Encoding::PLAIN_DICTIONARY, Encoding::RLE_DICTIONARY];
    column.dictionary_page_offset().is_some()
        && column.page_encoding_stats_mask().is_some_and(|mask| only.iter().any(|encoding| mask.is_only(*encoding)))
}

#[cfg(test)]
mod tests;
