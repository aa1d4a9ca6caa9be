//! Rows that an operator keeps, by number.
//!
//! Rows come in chunks and are numbered from 0 in the order in which they come. A chunk has columns of its own, or rows of
//! columns that other partitions share ([`Portion`]). Small chunks of the first kind are put together as in a
//! binary counter, so that rows that come one at a time cost a logarithmic number of copies and no chunk each.
//! [`RowStore::keep`] forgets rows and renumbers the others; operators call it when the number of rows has doubled
//! ([`Doubling`]), so that forgetting costs a constant number of copies a row and memory is at most twice what is
//! alive.

use super::batch::Batch;
use super::encoding::{restore_columns, save_columns};
use super::shared::Portion;
use crate::columns::{chained, compact, joined, of_few_buffers, selected, sliced, unselectable};
use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_select::interleave::interleave;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::{DataType, Diagnostic, Schema};
use std::sync::Arc;

/// Stands for a row of NULLs where a row number is asked for.
pub(crate) const NO_ROW: u32 = u32::MAX;
/// Chunks of more rows are not put together with others.
const LARGE_CHUNK: usize = 32 << 10;
/// The same while memory is plenty: each time rows are put together costs a copy of them.
const PLENTY_CHUNK: usize = 2 << 10;

/// See the module.
pub(crate) struct RowStore {
    chunks: Vec<Chunk>,
    rows: usize,
    /// Bytes of all chunks.
    bytes: usize,
    /// Whether strings may stay in buffers that others have, too.
    is_plenty: bool,
    /// Whether all strings are in buffers of tables in memory.
    are_of_table: bool,
    /// One row of NULLs.
    nulls: Vec<ArrayRef>,
}

/// Some rows of a store.
struct Chunk {
    first: usize,
    rows: Portion,
}

impl RowStore {
    /// Without rows, of the columns of `schema`.
    pub(crate) fn new(schema: &Schema) -> RowStore {
        RowStore::with_nulls(schema.fields.iter().map(|f| new_null_array(&f.data_type.to_arrow(), 1)).collect())
    }

    /// Another store of the same columns, without rows.
    pub(crate) fn another(&self) -> RowStore {
        RowStore::with_nulls(self.nulls.clone())
    }

    /// The same, without rows so far, with strings in buffers that others have, too, if memory is plenty.
    pub(crate) fn sharing(self, is_plenty: bool) -> RowStore {
        RowStore { is_plenty, ..self }
    }

    fn with_nulls(nulls: Vec<ArrayRef>) -> RowStore {
        let (is_plenty, are_of_table) = (false, true);
        RowStore { chunks: Vec::new(), rows: 0, bytes: 0, is_plenty, are_of_table, nulls }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunks in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Portion> {
        self.chunks.iter().map(|chunk| &chunk.rows)
    }

    /// Adds rows and returns the number of the first.
    pub(crate) fn push(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<u32, Diagnostic> {
        if rows == 0 {
            return Ok(self.rows as u32);
        }
        self.push_part(Portion::own(columns, rows))
    }

    /// Adds the rows of a batch, which may be shared, and returns the number of the first.
    pub(crate) fn push_batch(&mut self, batch: Batch) -> Result<u32, Diagnostic> {
        let first = self.rows as u32;
        let batch = batch.in_parts();
        batch.parts().iter().try_for_each(|part| self.push_part(part.clone()).map(|_| ()))?;
        Ok(first)
    }

    /// Adds all rows of another store of the same columns.
    pub(crate) fn push_all(&mut self, other: &RowStore) -> Result<(), Diagnostic> {
        other.parts().try_for_each(|part| self.push_part(part.clone()).map(|_| ()))
    }

    /// Adds rows of another store of the same columns, by their numbers there; the number of the first.
    pub(crate) fn absorb(&mut self, other: &RowStore, numbers: &[u32]) -> Result<u32, Diagnostic> {
        let first = self.rows as u32;
        for numbers in numbers.chunks(LARGE_CHUNK) {
            self.push(other.gather(numbers)?.iter().map(compact).collect(), numbers.len())?;
        }
        Ok(first)
    }

    fn push_part(&mut self, part: Portion) -> Result<u32, Diagnostic> {
        if part.is_shared() && !self.is_plenty {
            return self.push(part.copied()?, part.rows());
        }
        let (first, rows) = (self.rows, part.rows());
        if first + rows >= NO_ROW as usize {
            return Err(Diagnostic::bug("an operator keeps more than 4 billion rows of one partition"));
        }
        self.rows += rows;
        self.bytes += part.bytes();
        self.are_of_table &= part.is_of_table();
        self.chunks.push(Chunk { first, rows: part });
        let largest = if self.is_plenty { PLENTY_CHUNK } else { LARGE_CHUNK };
        while let [.., before, last] = self.chunks.as_slice() {
            let (few, more) = (last.rows.rows(), before.rows.rows());
            if more > 2 * few || more + few > largest || before.rows.is_shared() || last.rows.is_shared() {
                break;
            }
            let put_together = if self.is_plenty { chained } else { joined };
            let column = |i| put_together(&[before.rows.whole(i), last.rows.whole(i)]);
            let columns = (0..self.nulls.len()).map(column).collect::<Result<_, _>>()?;
            let merged = Chunk { first: before.first, rows: Portion::own(columns, more + few) };
            self.bytes = self.bytes + merged.rows.bytes() - before.rows.bytes() - last.rows.bytes();
            self.chunks.truncate(self.chunks.len() - 2);
            self.chunks.push(merged);
        }
        Ok(first as u32)
    }

    /// Whether all strings are in buffers of tables in memory, so that what is gathered of them keeps nothing else alive.
    pub(crate) fn are_of_table(&self) -> bool {
        self.are_of_table
    }

    /// Whether memory is plenty from now on; if not, makes copies of what others have in memory, too.
    pub(crate) fn settle(&mut self, is_plenty: bool) -> Result<(), Diagnostic> {
        if std::mem::replace(&mut self.is_plenty, is_plenty) == is_plenty || is_plenty {
            return Ok(());
        }
        let mut owned = self.another();
        for Chunk { rows, .. } in std::mem::take(&mut self.chunks) {
            owned.push(rows.copied()?, rows.rows())?;
        }
        *self = owned;
        Ok(())
    }

    /// Writes all rows.
    pub(crate) fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.save_from(0, out)
    }

    /// Writes the rows from number `from` on.
    pub(crate) fn save_from(&self, from: usize, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let written = self.chunks.partition_point(|chunk| chunk.first + chunk.rows.rows() <= from);
        out.length(self.chunks.len() - written);
        for Chunk { first, rows } in &self.chunks[written..] {
            let skipped = from.saturating_sub(*first);
            let (columns, rows) = (rows.columns()?, rows.rows() - skipped);
            save_columns(&sliced(&columns, skipped, rows), rows, out);
        }
        Ok(())
    }

    /// Adds the rows that [`RowStore::save_from`] has written; behind those that were before them they have the numbers that they had.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        for _ in 0..from.count(1)? {
            let types = self.nulls.iter().map(|column| column.data_type().clone());
            let (columns, rows) = restore_columns(types, from)?;
            self.push(columns, rows)?;
        }
        Ok(())
    }

    /// The rows of these numbers, in their order; [`NO_ROW`] gives NULLs.
    pub(crate) fn gather(&self, numbers: &[u32]) -> Result<Vec<ArrayRef>, Diagnostic> {
        match self.chunks.as_slice() {
            chunks if chunks.is_empty() || numbers.is_empty() => {
                Ok(self.nulls.iter().map(|c| new_null_array(c.data_type(), numbers.len())).collect())
            }
            [Chunk { rows: only, .. }] => {
                let is_all = numbers.len() == only.rows() && numbers.iter().enumerate().all(|(i, &n)| n as usize == i);
                if is_all {
                    return only.columns();
                }
                let place = |&n: &u32| only.place(n as usize) as u32;
                let indices: UInt32Array = match numbers.contains(&NO_ROW) {
                    true => numbers.iter().map(|n| (*n != NO_ROW).then(|| place(n))).collect(),
                    false => UInt32Array::from_iter_values(numbers.iter().map(place)),
                };
                (0..self.nulls.len()).map(|i| selected(only.whole(i), &indices)).collect()
            }
            chunks => {
                const UNUSED: usize = usize::MAX;
                // The row of NULLs comes first, if it is used: a column that may have some costs more.
                let nulls = usize::from(numbers.contains(&NO_ROW));
                let (mut last, mut used, mut place_of) = (0, Vec::new(), vec![UNUSED; chunks.len()]);
                let place = |&number: &u32| {
                    if number == NO_ROW {
                        return (0, 0);
                    }
                    let number = number as usize;
                    let chunk = &chunks[last];
                    if number < chunk.first || number >= chunk.first + chunk.rows.rows() {
                        last = chunks.partition_point(|c| c.first <= number) - 1;
                    }
                    let Chunk { first, rows } = &chunks[last];
                    if place_of[last] == UNUSED {
                        place_of[last] = nulls + used.len();
                        used.push(rows);
                    }
                    (place_of[last], rows.place(number - first))
                };
                let places: Vec<(usize, usize)> = numbers.iter().map(place).collect();
                let column = |(i, null): (usize, &ArrayRef)| {
                    let wholes = used.iter().map(|rows| &**rows.whole(i));
                    let arrays: Vec<&dyn Array> = std::iter::repeat_n(&**null, nulls).chain(wholes).collect();
                    interleave(&arrays, &places).map(of_few_buffers).map_err(unselectable)
                };
                self.nulls.iter().enumerate().map(column).collect()
            }
        }
    }

    /// Keeps the rows of these ascending numbers only; the *i*-th of them is number *i* from now on.
    pub(crate) fn keep(&mut self, numbers: &[u32]) -> Result<(), Diagnostic> {
        let mut rest = numbers;
        let mut kept = self.another();
        kept.is_plenty = self.is_plenty;
        for Chunk { first, rows } in std::mem::take(&mut self.chunks) {
            let end = first + rows.rows();
            let (here, after) = rest.split_at(rest.partition_point(|&n| (n as usize) < end));
            rest = after;
            if here.len() == rows.rows() {
                kept.push_part(rows)?;
            } else if !here.is_empty() {
                let left = rows.pick(here.iter().map(|&n| n - first as u32));
                kept.push(left.copied()?, here.len())?;
            }
        }
        *self = kept;
        Ok(())
    }
}

/// When to forget what is dead: after as much has come as was alive the last time.
#[derive(Debug, Default)]
pub(crate) struct Doubling {
    alive: usize,
}

impl Doubling {
    /// Fewer than this are not worth it; nor this many when memory is tight.
    const FEW: usize = 4096;
    const FEW_WHEN_TIGHT: usize = 256;

    /// Whether to look what is dead among `kept`. When memory is tight an eighth more than was alive is enough: that costs
    /// eight copies a row, which is less than being stopped.
    pub(crate) fn is_due(&self, kept: usize, is_tight: bool) -> bool {
        match is_tight {
            true => kept > self.alive + self.alive / 8 + Doubling::FEW_WHEN_TIGHT,
            false => kept > 2 * self.alive + Doubling::FEW,
        }
    }

    /// `alive` rows are alive now.
    pub(crate) fn done(&mut self, alive: usize) {
        self.alive = alive;
    }
}

/// A column of the same TIMESTAMP(3) in every row, or of one for each.
pub(crate) fn timestamps(values: Vec<i64>) -> ArrayRef {
    let times = arrow_array::TimestampMillisecondArray::from(values);
    debug_assert_eq!(*times.data_type(), DataType::Timestamp(3).to_arrow());
    Arc::new(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, StringViewArray};
    use millstream_types::Field;

    fn schema() -> Schema {
        Schema::new(vec![Field::new("n", DataType::BigInt, false), Field::new("s", DataType::STRING, true)])
    }

    fn push(store: &mut RowStore, numbers: std::ops::Range<i64>) {
        let text = |n: i64| (n % 3 != 0).then(|| format!("the long text of row {n}"));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(numbers.clone())),
            Arc::new(StringViewArray::from_iter(numbers.clone().map(text))),
        ];
        store.push(columns, numbers.count()).unwrap();
    }

    fn numbers(columns: &[ArrayRef]) -> Vec<Option<i64>> {
        let strings = columns[1].as_string_view();
        let values: Vec<Option<i64>> = columns[0].as_primitive::<Int64Type>().iter().collect();
        for (i, value) in values.iter().enumerate() {
            let text = value.filter(|n| n % 3 != 0).map(|n| format!("the long text of row {n}"));
            assert_eq!(strings.is_valid(i).then(|| strings.value(i).to_string()), text);
        }
        values
    }

    #[test]
    fn rows_keep_their_numbers_while_chunks_are_put_together() {
        let mut store = RowStore::new(&schema());
        assert_eq!(numbers(&store.gather(&[NO_ROW]).unwrap()), [None]);
        for n in 0..1000 {
            push(&mut store, n..n + 1);
        }
        push(&mut store, 1000..200_000);
        push(&mut store, 200_000..200_010);
        assert!(store.chunks.len() < 20, "{}", store.chunks.len());
        let wanted = [999, 5, NO_ROW, 200_003, 1000, 0];
        let expected = [Some(999), Some(5), None, Some(200_003), Some(1000), Some(0)];
        assert_eq!(numbers(&store.gather(&wanted).unwrap()), expected);
        let kept: Vec<u32> = (0..200_010).filter(|n| n % 1000 == 3).collect();
        store.keep(&kept).unwrap();
        assert_eq!(store.len(), 201);
        assert_eq!(numbers(&store.gather(&[0, 1, 200]).unwrap()), [Some(3), Some(1003), Some(200_003)]);
    }
}
