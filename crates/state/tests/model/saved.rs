//! Partials and blocks as bytes: what is read is what was written, and damage is found or does no harm.

use crate::input::{self, Row, filled, partition_bits};
use arrow_array::ArrayRef;
use millstream_abi::EntryLayout;
use millstream_state::{BlockMerge, MemoryBudget, MergeFault, OutputTypes, Partial, Table, merge};
use proptest::prelude::*;
use std::sync::Arc;

/// Rows of the workers, and whether their tables append.
type Tables = Vec<(Vec<Row>, bool)>;

fn tables(most: usize) -> impl Strategy<Value = Tables> {
    let rows = proptest::collection::vec(input::row(), 0..most);
    proptest::collection::vec((rows, any::<bool>()), 1..4).prop_map(|tables| {
        let mut place = 0;
        let mut number = |row: Row| {
            place += 1;
            Row { place: place * 7919 % 1009, ..row }
        };
        tables.into_iter().map(|(rows, appends)| (rows.into_iter().map(&mut number).collect(), appends)).collect()
    })
}

fn partials(tables: &Tables, layout: &Arc<EntryLayout>) -> Vec<Arc<Partial>> {
    let partial = |(rows, appends): &(Vec<Row>, bool)| {
        let mut table = Table::new(Arc::clone(layout));
        table.set_appending(*appends);
        input::fill(&mut table, rows);
        Arc::new(table.seal())
    };
    tables.iter().map(partial).collect()
}

fn saved(partial: &Partial, partition: usize) -> Vec<Vec<u8>> {
    partial.blocks(partition).collect()
}

fn all_saved(partial: &Partial) -> Vec<Vec<u8>> {
    partial.partitions().flat_map(|partition| saved(partial, partition)).collect()
}

/// The partial after it was written and read.
pub fn round_trip(partial: &Partial, types: &OutputTypes) -> Partial {
    let budget = MemoryBudget::new(1 << 30);
    let restored = Partial::restore(partial.layout(), types, &budget, &all_saved(partial)).unwrap();
    assert_eq!((restored.len(), restored.is_distinct()), (partial.len(), partial.is_distinct() || partial.is_empty()));
    assert_eq!(budget.used(), restored.bytes() as u64, "what is read counts");
    restored
}

/// Of partials that are in memory.
fn all_columns(partials: &[Arc<Partial>], types: &OutputTypes) -> Vec<ArrayRef> {
    columns(partials, partials[0].partitions(), types)
}

fn columns(partials: &[Arc<Partial>], partitions: std::ops::Range<usize>, types: &OutputTypes) -> Vec<ArrayRef> {
    let merged = merge(partials, partitions);
    merged.columns(0..merged.len(), types, &[])
}

/// Of partials in blocks of `bytes` bytes.
fn columns_of_blocks(partials: &[Arc<Partial>], types: &OutputTypes, bytes: usize) -> Vec<Vec<ArrayRef>> {
    let layout = Arc::clone(partials[0].layout());
    let budget = MemoryBudget::new(1 << 30);
    let block = |block: Vec<u8>| Partial::restore(&layout, types, &budget, &[block]).map_err(MergeFault::from);
    let sources = partials.iter().map(|p| p.partitions().flat_map(move |i| p.blocks_of(i, bytes)).map(block));
    let pieces = BlockMerge::new(&layout, usize::MAX, sources).map(Result::unwrap);
    let pieces = pieces.map(|merged| merged.columns(0..merged.len(), types, &[])).collect();
    assert_eq!(budget.used(), 0, "no block is kept");
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    #[test]
    fn what_was_written_is_read(tables in tables(150), bits in partition_bits()) {
        for components in [input::invertible(), input::all()] {
            let (layout, types) = (input::layout(bits, &components), input::types(&components));
            let original = partials(&tables, &layout);
            let restored: Vec<_> = original.iter().map(|partial| Arc::new(round_trip(partial, &types))).collect();
            let expected = all_columns(&original, &types);
            prop_assert_eq!(&all_columns(&restored, &types), &expected);
            let mixed = [vec![Arc::clone(&restored[0])], original[1..].to_vec()].concat();
            prop_assert_eq!(&all_columns(&mixed, &types), &expected);
            for partition in filled(&original).into_iter().take(3) {
                let budget = MemoryBudget::new(1 << 30);
                let alone = |partial: &Arc<Partial>| {
                    Arc::new(Partial::restore(&layout, &types, &budget, &saved(partial, partition)).unwrap())
                };
                let alone: Vec<_> = original.iter().map(alone).collect();
                prop_assert_eq!(alone[0].len(), original[0].len_of(&(partition..partition + 1)));
                let part = columns(&original, partition..partition + 1, &types);
                prop_assert_eq!(all_columns(&alone, &types), part);
            }
        }
    }

    #[test]
    fn what_is_cut_again_has_the_same_rows(tables in tables(150)) {
        for components in [input::invertible(), input::all()] {
            let (types, budget) = (input::types(&components), MemoryBudget::new(1 << 30));
            let mut found = partials(&tables, &input::layout(4, &components));
            for (before, bits) in [(4, 6), (6, 0), (0, 4), (4, 12), (12, 4)] {
                let layout = input::layout(bits, &components);
                let expected = partials(&tables, &layout);
                let repartitioned = |partial: &Arc<Partial>| {
                    let blocks = all_saved(partial);
                    Arc::new(Partial::restore_repartitioned(&layout, before, &types, &budget, &blocks).unwrap())
                };
                found = found.iter().map(repartitioned).collect();
                prop_assert_eq!(all_columns(&found, &types), all_columns(&expected, &types));
                let forms = |partial: &Arc<Partial>| (partial.len(), partial.is_distinct() || partial.is_empty());
                prop_assert!(found.iter().map(forms).eq(expected.iter().map(forms)));
            }
            prop_assert_eq!(budget.used(), found.iter().map(|partial| partial.bytes() as u64).sum::<u64>());
        }
    }

    #[test]
    fn blocks_are_merged_to_the_same_rows(tables in tables(300), bytes in 1usize..6000, bits in partition_bits()) {
        for components in [input::invertible(), input::all()] {
            let (layout, types) = (input::layout(bits, &components), input::types(&components));
            let partials = partials(&tables, &layout);
            let whole = all_columns(&partials, &types);
            let mut rows = 0;
            for piece in columns_of_blocks(&partials, &types, bytes) {
                let len = piece[0].len();
                prop_assert!(len > 0, "a piece has rows");
                for (piece, whole) in piece.iter().zip(&whole) {
                    prop_assert_eq!(&**piece, &*whole.slice(rows, len));
                }
                rows += len;
            }
            prop_assert_eq!(rows, whole[0].len());
        }
    }

    #[test]
    fn damage_is_found_or_does_no_harm(
        tables in tables(12),
        bits in partition_bits(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 60),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 30),
    ) {
        let components = input::all();
        let (layout, types) = (input::layout(bits, &components), input::types(&components));
        let budget = MemoryBudget::new(1 << 30);
        let partial = &partials(&tables, &layout)[0];
        let sound = round_trip(partial, &types);
        let sound = Arc::new(sound);
        let Some(partition) = partial.filled_partitions().last().copied() else { return Ok(()) };
        let blocks = saved(partial, partition);
        prop_assert_eq!(blocks.len(), 1);
        let bytes = &blocks[0];
        for cut in cuts {
            let cut = &bytes[..cut.index(bytes.len())];
            prop_assert!(Partial::restore(&layout, &types, &budget, &[cut]).is_err());
        }
        for (at, bit) in flips {
            let mut bytes = bytes.clone();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(partial) = Partial::restore(&layout, &types, &budget, &[bytes]) {
                let all = [Arc::new(partial), Arc::clone(&sound)];
                for column in all_columns(&all, &types) {
                    prop_assert!(column.to_data().validate_full().is_ok());
                }
            }
        }
        prop_assert_eq!(budget.used(), 0, "nothing is kept");
    }
}

#[test]
fn partitions_and_blocks_have_their_order() {
    let components = input::invertible();
    let (layout, types) = (input::layout(4, &components), input::types(&components));
    let budget = MemoryBudget::new(1 << 30);
    let row = |n| Row { key: (None, n), place: 0, number: Some(n), double: None, text: None };
    let rows: Vec<Row> = (0..500).map(row).collect();
    let partial = input::table_of(&rows, &layout).seal();
    let partitions = [3, 2].map(|partition| saved(&partial, partition)).concat();
    assert!(Partial::restore(&layout, &types, &budget, &partitions).is_err());
    let blocks: Vec<_> = partial.blocks_of(3, 100).collect();
    assert!(blocks.len() > 4);
    let block = |block: &Vec<u8>| Partial::restore(&layout, &types, &budget, &[block]).map_err(MergeFault::from);
    let mut reader = blocks.iter().rev().map(block);
    let (mut one_by_one, mut at) = (Vec::new(), 0);
    while let Some((block, next)) = partial.block_at(3, at, 100) {
        one_by_one.push(block);
        at = next;
    }
    assert_eq!(one_by_one, blocks);
    // Of all blocks of a partition two are in memory at a time.
    let two: usize = blocks.iter().map(|b| block(b).unwrap().bytes()).max().unwrap() * 2;
    for (most, fits) in [(two, true), (two / 4, false)] {
        let merged = BlockMerge::new(&layout, most, [blocks.iter().map(block)]).collect::<Result<Vec<_>, _>>();
        assert!(if fits { merged.is_ok() } else { matches!(merged, Err(MergeFault::TooLarge(_))) });
    }
    assert!(BlockMerge::new(&layout, usize::MAX, [&mut reader]).any(|piece| piece.is_err()));
}
