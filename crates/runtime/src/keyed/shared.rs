//! Rows of a buffer that several partitions share: each knows which rows are its own, and selects values when they are needed.
//!
//! Rows on their way to a partition would otherwise be copied, column by column, before anybody knows whether they meet a row of
//! the other side. Buffers stay in memory until the last partition has forgotten its rows, so they are shared only while
//! memory is plenty (`Spilling::is_plenty`): then partitions make copies of their own.

use crate::columns::{bytes_of, compact, is_sparse, selected, tidy};
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::ScalarBuffer;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Whole columns, of which partitions have some rows.
#[derive(Debug)]
struct Whole {
    columns: Vec<ArrayRef>,
    rows: usize,
    bytes: usize,
    /// Whether strings are in buffers of tables in memory.
    are_of_table: bool,
}

/// Some rows, or all of them, of columns that others may share.
#[derive(Debug, Clone)]
pub(crate) struct Portion {
    of: Arc<Whole>,
    /// The numbers of the rows; `None`: all.
    rows: Option<ScalarBuffer<u32>>,
}

impl Portion {
    /// All rows of columns that are nobody else's.
    pub(crate) fn own(columns: Vec<ArrayRef>, rows: usize) -> Portion {
        Portion::whole_of(columns, rows, false)
    }

    fn whole_of(columns: Vec<ArrayRef>, rows: usize, are_of_table: bool) -> Portion {
        let bytes = bytes_of(&columns);
        Portion { of: Arc::new(Whole { columns, rows, bytes, are_of_table }), rows: None }
    }

    /// All rows of columns that are going to be shared. Strings that are the smaller part of what their buffers hold are copied,
    /// unless the buffers are those of a table in memory, which stay anyway.
    pub(crate) fn to_share(columns: Vec<ArrayRef>, rows: usize, are_of_table: bool) -> Portion {
        let keeps_little = |column: &ArrayRef| if is_sparse(column) { compact(column) } else { Arc::clone(column) };
        let columns = if are_of_table { columns } else { columns.iter().map(keeps_little).collect() };
        Portion::whole_of(columns, rows, are_of_table)
    }

    /// Whether its strings are in buffers of tables in memory.
    pub(crate) fn is_of_table(&self) -> bool {
        self.of.are_of_table
    }

    /// Rows of one that has all, by ascending number.
    pub(crate) fn of(&self, rows: ScalarBuffer<u32>) -> Portion {
        Portion { of: Arc::clone(&self.of), rows: Some(rows) }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.as_ref().map_or(self.of.rows, |rows| rows.len())
    }

    /// Bytes of memory: of shared ones their part.
    pub(crate) fn bytes(&self) -> usize {
        let Some(rows) = &self.rows else { return self.of.bytes };
        let part = self.of.bytes as u128 * rows.len() as u128 / self.of.rows.max(1) as u128;
        part as usize + size_of_val(&**rows)
    }

    /// How many columns it has.
    pub(crate) fn width(&self) -> usize {
        self.of.columns.len()
    }

    /// Whether the columns have rows that are not its own.
    pub(crate) fn is_shared(&self) -> bool {
        self.rows.is_some()
    }

    /// The number in [`Portion::wholes`] of one of its rows.
    #[inline]
    pub(crate) fn place(&self, row: usize) -> usize {
        self.rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }

    /// The columns with all rows, those of others included.
    pub(crate) fn wholes(&self) -> &[ArrayRef] {
        &self.of.columns
    }

    /// One of [`Portion::wholes`].
    pub(crate) fn whole(&self, column: usize) -> &ArrayRef {
        &self.of.columns[column]
    }

    /// One of its columns.
    pub(crate) fn column(&self, column: usize) -> Result<ArrayRef, Diagnostic> {
        let whole = self.whole(column);
        match &self.rows {
            None => Ok(Arc::clone(whole)),
            Some(rows) => selected(whole, &UInt32Array::new(rows.clone(), None)),
        }
    }

    /// All its columns.
    pub(crate) fn columns(&self) -> Result<Vec<ArrayRef>, Diagnostic> {
        (0..self.width()).map(|column| self.column(column)).collect()
    }

    /// Its columns with nothing of others in their buffers. Own ones are copied only if they are in many buffers, as they are where
    /// nobody minded that others have them, too.
    pub(crate) fn copied(&self) -> Result<Vec<ArrayRef>, Diagnostic> {
        let columns = self.columns()?;
        Ok(match self.is_shared() {
            true => columns.iter().map(compact).collect(),
            false => columns.into_iter().map(tidy).collect(),
        })
    }

    /// Some of its rows, by ascending number.
    pub(crate) fn pick(&self, rows: impl Iterator<Item = u32>) -> Portion {
        self.of(rows.map(|row| self.place(row as usize) as u32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Parts;
    use crate::keyed::batch::Batch;
    use crate::keyed::store::RowStore;
    use arrow_array::StringViewArray;
    use arrow_array::cast::AsArray;
    use millstream_state::Ordinal;
    use millstream_types::{DataType, Field, Schema};

    const ROWS: usize = 1000;

    fn text(row: usize) -> String {
        format!("the long text of row {row}")
    }

    fn batch() -> Batch {
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..ROWS).map(text)));
        let ordinal = |row| Ordinal { watermark: 0, input: 0, split: 0, position: row as u64, pipeline: 0 };
        Batch::new(vec![column], (0..ROWS).map(ordinal).collect())
    }

    /// Every tenth row is of the second of two partitions.
    fn parted() -> Vec<(usize, Batch)> {
        let hashes: Vec<i64> = (0..ROWS).map(|row| if row % 10 == 0 { i64::MIN } else { 0 }).collect();
        batch().share(&Parts::new(&hashes, 1), false)
    }

    fn store(batch: Batch) -> RowStore {
        let mut store = RowStore::new(&Schema::new(vec![Field::new("text", DataType::STRING, true)]));
        store.settle(true).unwrap();
        store.push_batch(batch).unwrap();
        store
    }

    fn holders(store: &RowStore) -> usize {
        store.parts().map(|part| Arc::strong_count(&part.of)).max().unwrap_or(0)
    }

    #[test]
    fn partitions_share_a_buffer_until_memory_is_short() {
        let mut stores: Vec<RowStore> = parted().into_iter().map(|(_, batch)| store(batch)).collect();
        assert_eq!(stores.iter().map(RowStore::len).collect::<Vec<_>>(), [900, 100]);
        assert_eq!((holders(&stores[0]), holders(&stores[1])), (2, 2));
        let (all, before) = (stores[0].bytes() + stores[1].bytes(), stores[1].bytes());
        let whole = batch().bytes() - ROWS * size_of::<Ordinal>();
        assert!((whole..whole + ROWS * size_of::<u32>() + 2).contains(&all), "{all} for {whole}");
        assert!(before < all / 5, "each counts its share: {before} of {all}");
        for store in &mut stores {
            store.settle(false).unwrap();
        }
        assert_eq!((holders(&stores[0]), holders(&stores[1])), (1, 1));
        let texts = stores[1].gather(&[0, 99, 7]).unwrap();
        let texts: Vec<&str> = texts[0].as_string_view().iter().flatten().collect();
        assert_eq!(texts, [text(0), text(990), text(70)]);
    }

    #[test]
    fn memory_that_is_short_again_and_again_costs_one_copy() {
        let mut kept = store(parted().swap_remove(0).1);
        let place = |store: &RowStore| {
            let texts = store.gather(&[0]).unwrap();
            texts[0].as_string_view().data_buffers()[0].as_ptr() as usize
        };
        let shared = place(&kept);
        kept.settle(false).unwrap();
        let own = place(&kept);
        assert_ne!(own, shared);
        for is_plenty in [true, false, true, false] {
            kept.settle(is_plenty).unwrap();
            assert_eq!(place(&kept), own);
        }
    }

    #[test]
    fn rows_that_are_kept_of_some_are_copies() {
        let mut parts = parted();
        let mut kept = store(parts.swap_remove(1).1);
        kept.keep(&[3, 5]).unwrap();
        assert_eq!((kept.len(), holders(&kept)), (2, 1));
        let texts = kept.gather(&[1, 0]).unwrap();
        let texts: Vec<&str> = texts[0].as_string_view().iter().flatten().collect();
        assert_eq!(texts, [text(50), text(30)]);
        // Rows that were on their way when memory became short are copied when they arrive.
        let mut late = store(Batch::default());
        late.settle(false).unwrap();
        late.push_batch(parts.swap_remove(0).1).unwrap();
        assert_eq!((late.len(), holders(&late)), (900, 1));
    }

    #[test]
    fn strings_that_are_a_small_part_of_their_buffers_are_copied_once() {
        let few = batch().pick((0..100).collect()).unwrap();
        let held = |part: Portion| part.whole(0).as_string_view().data_buffers().iter().map(|b| b.len()).sum::<usize>();
        let all = held(Portion::own(batch().columns, ROWS));
        assert_eq!(held(Portion::to_share(few.columns.clone(), 100, true)), all, "a table's stay");
        assert!(held(Portion::to_share(few.columns, 100, false)) < all / 5);
        assert_eq!(held(Portion::to_share(batch().columns, ROWS, false)), all);
    }
}
