//! Tables that append, that aggregate, and that change between the two: all give the rows that they were filled with.

use crate::input::{self, Row};
use millstream_state::{MemoryBudget, Partial, Table, merge};
use proptest::prelude::*;
use std::sync::Arc;

/// What a table does for a slice.
#[derive(Debug, Clone)]
struct Slice {
    rows: Vec<Row>,
    appends: bool,
    /// This many rows are appended before the table begins to aggregate.
    until: usize,
}

fn slice() -> impl Strategy<Value = Slice> {
    (proptest::collection::vec(input::row(), 0..120), any::<bool>(), 0usize..200).prop_map(|(rows, appends, until)| {
        let rows = rows.into_iter().enumerate();
        let rows = rows.map(|(i, row)| Row { place: (i * 7919 % 1009) as u64, ..row }).collect();
        Slice { rows, appends, until }
    })
}

/// The partial of a slice, made by a table that has been used for others before.
fn partial(table: &mut Table, slice: &Slice) -> Partial {
    table.set_appending(slice.appends);
    let (first, second) = slice.rows.split_at(slice.until.min(slice.rows.len()));
    input::fill(table, first);
    assert!(!slice.appends || table.len() == first.len(), "an entry for each row");
    if !second.is_empty() {
        table.set_appending(false);
    }
    input::fill(table, second);
    let (len, appends) = (table.len(), table.is_appending());
    let partial = table.drain();
    assert_eq!((partial.len(), partial.is_distinct()), (len, !appends));
    assert_eq!((table.len(), table.is_appending()), (0, appends));
    partial
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    #[test]
    fn appended_rows_are_merged_to_what_a_table_would_have(
        slices in proptest::collection::vec(slice(), 1..6),
        bits in input::partition_bits(),
    ) {
        for components in [input::invertible(), input::all()] {
            let budget = MemoryBudget::new(1 << 30);
            let layout = input::layout(bits, &components);
            let mut table = Table::new(Arc::clone(&layout)).charged(&budget);
            for slice in &slices {
                let appended = Arc::new(partial(&mut table, slice));
                let aggregated = Arc::new(input::table_of(&slice.rows, &layout).seal());
                prop_assert_eq!(appended.keys_of(&layout.partitions()), aggregated.len());
                prop_assert_eq!(appended.count_of(&layout.partitions(), 0), slice.rows.len() as u64);
                let rows = |partials: &[Arc<Partial>]| {
                    let merged = merge(partials, layout.partitions());
                    merged.columns(0..merged.len(), &input::types(&components), &[])
                };
                let found = rows(std::slice::from_ref(&appended));
                prop_assert_eq!(&found, &rows(&[aggregated]), "the same rows in the same order");
                let mut found = input::rows_of(&found);
                found.sort();
                prop_assert_eq!(found, input::model(&slice.rows, &components));
            }
            drop(table);
            prop_assert_eq!(budget.used(), 0, "every charge is given back");
        }
    }
}
