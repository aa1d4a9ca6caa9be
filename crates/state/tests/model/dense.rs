//! Integer keys that lie close together, with outliers and NULL: table → partial → merge → columns, against a map. Tables are filled as
//! generated code does, so that their arrays grow to both sides meanwhile.

use crate::input::{filled, partition_bits};
use arrow_array::ArrayRef;
use millstream_abi::*;
use millstream_state::{
    BlockMerge, Change, Combiner, MemoryBudget, MergeFault, Merged, Ordinal, Output, OutputTypes, Partial, Table,
    TableHint, merge,
};
use millstream_types::DataType;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

type Key = Option<i64>;

/// Rows of a key: how many, their sum, and the greatest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    count: i64,
    sum: i64,
    max: i64,
    /// The sum of those that are far as doubles.
    far: i64,
    /// How many are odd.
    odd: i64,
}

/// As doubles, some numbers are so large that they are kept apart, and nothing is seen of the others in a sum.
const FAR: f64 = (1u128 << 100) as f64;

fn is_far(number: i64) -> bool {
    number % 97 == 0 && number != 0
}

fn double(number: i64) -> f64 {
    number as f64 * if is_far(number) { FAR } else { 1.0 }
}

impl Group {
    fn with(self, other: Group) -> Group {
        Group {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            max: self.max.max(other.max),
            far: self.far + other.far,
            odd: self.odd + other.odd,
        }
    }
}

type Model = BTreeMap<Key, Group>;

/// A layout of such groups: all of them, only some, with and without a counter.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Counted,
    Sums,
    Maxima,
    Doubles,
    Means,
    /// Even numbers and odd ones are counted apart.
    Joined,
}

impl Kind {
    fn layout(self, phys: Phys, bits: u32) -> Arc<EntryLayout> {
        use Accumulator::*;
        let (accumulators, counters): (&[Accumulator], _) = match self {
            Kind::Counted => (&[Count], Counters::One(0)),
            Kind::Sums => (&[SumI64, SumI128], Counters::None),
            Kind::Maxima => (&[MaxI64, MaxI128, Count], Counters::One(2)),
            Kind::Doubles => (&[SumF64, MaxF64], Counters::None),
            Kind::Means => (&[Count, SumF64, SumF64], Counters::One(0)),
            Kind::Joined => (&[SumI64, Count, Count], Counters::EachOf(1, 2)),
        };
        Arc::new(EntryLayout::new(&[(phys, true)], accumulators).counted_by(counters).in_partitions(bits))
    }

    fn types(self, phys: Phys) -> OutputTypes {
        let wide = || DataType::decimal(38, 0);
        let outputs = match self {
            Kind::Counted => vec![DataType::BigInt],
            Kind::Sums => vec![DataType::BigInt, wide()],
            Kind::Maxima => vec![DataType::BigInt, wide(), DataType::Int],
            Kind::Doubles => vec![DataType::Double, DataType::Float],
            Kind::Means => vec![DataType::BigInt, DataType::Double, DataType::Double],
            Kind::Joined => vec![DataType::BigInt, DataType::BigInt, DataType::BigInt],
        };
        let output = |(component, data_type)| Output { component, finish: Finish::Value, data_type };
        let key = match phys {
            Phys::I8 => DataType::TinyInt,
            Phys::I16 => DataType::SmallInt,
            Phys::I32 => DataType::Int,
            _ => DataType::BigInt,
        };
        OutputTypes { keys: vec![key], outputs: outputs.into_iter().enumerate().map(output).collect() }
    }
}

/// A table as a program sees it.
struct Filled {
    table: Table,
    kind: Kind,
    phys: Phys,
}

impl Filled {
    fn add(&mut self, key: Key, number: i64) {
        let layout = Arc::clone(self.table.layout());
        let slot = key.map_or(Slot::ZERO, |key| match self.phys {
            Phys::I8 => Slot::of((key as i8).to_le_bytes()),
            Phys::I16 => Slot::of((key as i16).to_le_bytes()),
            Phys::I32 => Slot::of((key as i32).to_le_bytes()),
            _ => Slot::of(key.to_le_bytes()),
        });
        let hash = hash_finish(hash_word(HASH_SEED, key.map_or(HASH_SEED, |key| key as u64)));
        // SAFETY: the header is that of the table; what is not found is inserted.
        unsafe {
            let header = *Table::header_of(&raw mut self.table);
            let array = layout.array().filter(|_| header.dense_len > 0);
            let in_array = key.zip(array).and_then(|(key, array)| {
                let entry = header.dense_entry(key, array.stride)?;
                if array.sets_mark {
                    entry.add(array.mark).cast::<u64>().write(1);
                }
                Some(entry)
            });
            let entry = in_array.or_else(|| search(&header, &layout, hash));
            let entry = entry.unwrap_or_else(|| self.table.insert(hash, key.is_none() as u64, &[slot]));
            let place = |i: usize| entry.add(layout.accumulators[i].1);
            macro_rules! change {
                ($i:expr, $type:ty, $f:expr) => {{
                    let place = place($i).cast::<$type>();
                    let change: fn($type, i64) -> $type = $f;
                    place.write(change(place.read(), number));
                }};
            }
            match self.kind {
                Kind::Counted => change!(0, i64, |count, _| count + 1),
                Kind::Sums => {
                    change!(0, i64, |sum, x| sum + x);
                    change!(1, i128, |sum, x| sum + (i128::from(x) << 64));
                }
                Kind::Maxima => {
                    change!(0, i64, |max, x| max.max(x));
                    change!(1, i128, |max, x| max.max(i128::from(x) << 64));
                    change!(2, i64, |count, _| count + 1);
                }
                Kind::Doubles => {
                    change!(1, f64, |max, x| max.max(x as f64));
                    self.add_double(0, place(0), double(number));
                }
                Kind::Means => {
                    change!(0, i64, |count, _| count + 1);
                    self.add_double(1, place(1), 0.5);
                    self.add_double(2, place(2), double(number));
                }
                Kind::Joined => {
                    change!(0, i64, |sum, x| sum + x);
                    change!(1 + usize::from(number % 2 != 0), i64, |count, _| count + 1);
                }
            }
        }
    }

    /// # Safety
    /// The place is that of a sum in an entry of the table.
    unsafe fn add_double(&mut self, component: usize, place: *mut u8, x: f64) {
        let added = Change::Added(Ordinal::NOWHERE);
        // SAFETY: promised by the caller.
        unsafe {
            match exact::fixed(x) {
                Some(near) => place.cast::<exact::Fixed>().write(exact::add(place.cast::<exact::Fixed>().read(), near)),
                None => self.table.update_object(place, component, Some(Slot::of(x.to_le_bytes())), added),
            }
        }
    }
}

/// The entry of a hash in the hash part: hashes of single integers do not collide.
///
/// # Safety
/// The header is that of a table of the layout.
unsafe fn search(header: &TableHeader, layout: &EntryLayout, hash: u64) -> Option<*mut u8> {
    let mut place = hash & header.mask;
    loop {
        // SAFETY: places are masked, and some are empty.
        unsafe {
            let entry = header.entries.add(place as usize * layout.stride);
            match *entry.cast::<u64>() {
                HASH_EMPTY => return None,
                found if found == hash => return Some(entry),
                _ => place = (place + 1) & header.mask,
            }
        }
    }
}

/// Rows of a slice.
type Rows = Vec<(Key, i64)>;

#[derive(Debug, Clone)]
struct Case {
    kind: Kind,
    phys: Phys,
    /// By slice, then worker.
    slices: Vec<Vec<Rows>>,
    hint: Option<KeyRange>,
    block_bytes: usize,
    /// Bits of the number of a partition.
    bits: u32,
}

/// Keys about a middle, in an order that makes ranges grow at both ends, and some far away.
fn rows(phys: Phys) -> impl Strategy<Value = Rows> {
    let (least, most) = match phys {
        Phys::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        Phys::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Phys::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let middle = prop_oneof![Just(0), Just(least), Just(most), Just(1_000_000), -5000i64..5000];
    let width = prop_oneof![1i64..100, 1i64..3000];
    (middle, width, 0usize..2500, any::<u64>()).prop_map(move |(middle, width, count, seed)| {
        let mut state = seed;
        let mut below = |end: i64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as i64) % end
        };
        let row = |i: usize| {
            let reach = 1 + width * (i as i64 + 1) / count.max(1) as i64;
            let key = match below(50) {
                0 => None,
                1 => Some(least),
                2 => Some(most),
                3 => Some(middle.wrapping_add(below(1 << 30) << 20)),
                _ => Some(middle.saturating_add(below(2 * reach) - reach)),
            };
            (key.map(|key| key.clamp(least, most)), below(1000) - 500)
        };
        (0..count).map(row).collect()
    })
}

fn case() -> impl Strategy<Value = Case> {
    use Kind::{Counted, Doubles, Joined, Maxima, Means, Sums};
    let kind = proptest::sample::select(vec![Counted, Sums, Maxima, Doubles, Means, Joined]);
    let phys = prop_oneof![Just(Phys::I8), Just(Phys::I16), Just(Phys::I32), Just(Phys::I64)];
    let hint = proptest::option::of((-3000i64..3000, 1u64..5000));
    (kind, phys, hint, 1usize..20_000, partition_bits()).prop_flat_map(|(kind, phys, hint, block_bytes, bits)| {
        let slice = proptest::collection::vec(rows(phys), 1..3);
        let hint = hint.map(|(first, len)| KeyRange { first, len });
        let slices = proptest::collection::vec(slice, 1..6);
        slices.prop_map(move |slices| Case { kind, phys, slices, hint, block_bytes, bits })
    })
}

impl Case {
    fn layout(&self) -> Arc<EntryLayout> {
        self.kind.layout(self.phys, self.bits)
    }

    fn filled(&self, rows: &Rows, dense: bool) -> Arc<Partial> {
        let hint = TableHint { keys: 0, range: self.hint, is_known: false };
        let layout = self.layout();
        let mut filled = Filled { table: Table::with_hint(layout, dense, hint), kind: self.kind, phys: self.phys };
        rows.iter().for_each(|&(key, number)| filled.add(key, number));
        assert_eq!(filled.table.is_empty(), rows.is_empty());
        Arc::new(filled.table.drain())
    }

    fn model<'a>(&self, rows: impl Iterator<Item = &'a Rows>) -> Model {
        let mut model = Model::new();
        for &(key, number) in rows.flatten() {
            let far = if is_far(number) { number } else { 0 };
            let one = Group { count: 1, sum: number, max: number, far, odd: i64::from(number % 2 != 0) };
            model.entry(key).and_modify(|group| *group = group.with(one)).or_insert(one);
        }
        model
    }

    fn columns(&self, merged: &Merged) -> Vec<ArrayRef> {
        let types = self.kind.types(self.phys);
        let all = merged.columns(0..merged.len(), &types, &[]);
        // Pieces of the rows are the rows.
        let step = 1 + self.block_bytes % 300;
        for from in (0..merged.len()).step_by(step * 3) {
            let to = merged.len().min(from + step);
            for (piece, all) in merged.columns(from..to, &types, &[]).iter().zip(&all) {
                assert_eq!(**piece, *all.slice(from, to - from));
            }
        }
        all
    }

    /// The sum of a group's doubles: what is far hides what is near.
    fn sum(&self, group: &Group) -> f64 {
        match group.far {
            0 => group.sum as f64,
            far => far as f64 * FAR,
        }
    }

    /// Columns of a model, in the order in which a hash table alone would have them.
    fn expected(&self, model: &Model) -> Vec<ArrayRef> {
        let mut filled = Filled { table: Table::new(self.layout()), kind: Kind::Counted, phys: self.phys };
        let layout = Arc::clone(filled.table.layout());
        for (&key, group) in model {
            let hash = hash_finish(hash_word(HASH_SEED, key.map_or(HASH_SEED, |key| key as u64)));
            let slot = key.map_or(Slot::ZERO, |key| Slot::of(key.to_le_bytes()));
            // SAFETY: each key comes once; offsets are those of the layout.
            unsafe {
                let entry = filled.table.insert(hash, key.is_none() as u64, &[slot]);
                let place = |i: usize| entry.add(layout.accumulators[i].1);
                match self.kind {
                    Kind::Counted => place(0).cast::<i64>().write(group.count),
                    Kind::Sums => {
                        place(0).cast::<i64>().write(group.sum);
                        place(1).cast::<i128>().write(i128::from(group.sum) << 64);
                    }
                    Kind::Maxima => {
                        place(0).cast::<i64>().write(group.max);
                        place(1).cast::<i128>().write(i128::from(group.max) << 64);
                        place(2).cast::<i64>().write(group.count);
                    }
                    Kind::Doubles => {
                        filled.add_double(0, place(0), self.sum(group));
                        place(1).cast::<f64>().write(group.max as f64);
                    }
                    Kind::Means => {
                        place(0).cast::<i64>().write(group.count);
                        filled.add_double(1, place(1), group.count as f64 / 2.0);
                        filled.add_double(2, place(2), self.sum(group));
                    }
                    Kind::Joined => {
                        place(0).cast::<i64>().write(group.sum);
                        place(1).cast::<i64>().write(group.count - group.odd);
                        place(2).cast::<i64>().write(group.odd);
                    }
                }
            }
        }
        self.merged(&[Arc::new(filled.table.seal())])
    }

    fn merged(&self, partials: &[Arc<Partial>]) -> Vec<ArrayRef> {
        self.columns(&merge(partials, partials[0].partitions()))
    }

    fn blocks(&self, partial: &Partial) -> Vec<Vec<u8>> {
        partial.partitions().flat_map(|p| partial.blocks_of(p, self.block_bytes)).collect()
    }

    fn restored(&self, partial: &Partial) -> Partial {
        let blocks = self.blocks(partial);
        let (layout, types) = (self.layout(), self.kind.types(self.phys));
        Partial::restore(&layout, &types, &MemoryBudget::new(1 << 30), &blocks).expect("what was written is read")
    }

    /// Of partials that come as blocks, partition by partition.
    fn block_merged(&self, partials: &[Arc<Partial>]) -> Vec<ArrayRef> {
        let (layout, types) = (self.layout(), self.kind.types(self.phys));
        let budget = MemoryBudget::new(1 << 30);
        let mut pieces = Vec::new();
        for partition in filled(partials) {
            let sources = partials.iter().map(|partial| {
                let blocks = partial.blocks_of(partition, self.block_bytes);
                blocks.map(|block| Partial::restore(&layout, &types, &budget, &[block]).map_err(MergeFault::from))
            });
            for piece in BlockMerge::<_>::new(&layout, 1 << 30, sources) {
                pieces.push(self.columns(&piece.expect("blocks follow each other")));
            }
        }
        together(&pieces, self.expected(&Model::new()))
    }
}

/// Pieces one after the other.
fn together(pieces: &[Vec<ArrayRef>], empty: Vec<ArrayRef>) -> Vec<ArrayRef> {
    let column = |i: usize| {
        let parts: Vec<&dyn arrow_array::Array> = pieces.iter().map(|piece| &*piece[i] as _).collect();
        if parts.is_empty() { Arc::clone(&empty[i]) } else { arrow_select::concat::concat(&parts).expect("one type") }
    };
    (0..empty.len()).map(column).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 150 }))]

    #[test]
    fn arrays_are_the_groups_of_all_rows(case in case()) {
        let slice = &case.slices[0];
        let partials: Vec<Arc<Partial>> = slice.iter().map(|rows| case.filled(rows, true)).collect();
        let expected = case.expected(&case.model(slice.iter()));
        prop_assert_eq!(&case.merged(&partials), &expected);

        // A table may have had no array, and the order is the same.
        let hashed: Vec<Arc<Partial>> = slice.iter().map(|rows| case.filled(rows, false)).collect();
        prop_assert!(hashed.iter().all(|partial| !partial.has_array()));
        prop_assert_eq!(&case.merged(&hashed), &expected);
        let mixed = [&partials[..1], &hashed[1..]].concat();
        prop_assert_eq!(&case.merged(&mixed), &expected);

        // Partitions one by one are the whole.
        let parts: Vec<_> = filled(&partials).into_iter().map(|p| case.columns(&merge(&partials, p..p + 1))).collect();
        prop_assert_eq!(&together(&parts, case.expected(&Model::new())), &expected);

        // Elsewhere and back, put together, and block by block.
        let restored: Vec<_> = partials.iter().map(|partial| Arc::new(case.restored(partial))).collect();
        prop_assert_eq!(restored.iter().map(|p| p.len()).sum::<usize>(), partials.iter().map(|p| p.len()).sum::<usize>());
        prop_assert_eq!(&case.merged(&restored), &expected);
        let compacted = Arc::new(Partial::compacted(&partials, &MemoryBudget::new(1 << 30)));
        prop_assert_eq!(&case.merged(&[compacted]), &expected);
        prop_assert_eq!(&case.block_merged(&mixed), &expected);
    }

    #[test]
    fn arrays_that_are_cut_again_have_the_same_rows(case in case()) {
        let slice = &case.slices[0];
        let mut partials: Vec<Arc<Partial>> = slice.iter().map(|rows| case.filled(rows, true)).collect();
        let (mut case, budget) = (case.clone(), MemoryBudget::new(1 << 30));
        for bits in [6, 0, 4, 12, 4] {
            let (before, keys) = (std::mem::replace(&mut case.bits, bits), partials[0].len());
            let (layout, types) = (case.layout(), case.kind.types(case.phys));
            let repartitioned = |partial: &Arc<Partial>| {
                let blocks = case.blocks(partial);
                let read = Partial::restore_repartitioned(&layout, before, &types, &budget, &blocks);
                Arc::new(read.expect("what was written is read"))
            };
            partials = partials.iter().map(repartitioned).collect();
            prop_assert_eq!(budget.used(), partials.iter().map(|partial| partial.bytes() as u64).sum::<u64>());
            prop_assert_eq!((partials[0].len(), partials[0].partitions().len()), (keys, 1 << bits));
            prop_assert_eq!(&case.merged(&partials), &case.expected(&case.model(slice.iter())));
        }
    }

    #[test]
    fn windows_of_arrays_are_the_groups_of_their_slices(case in case(), length in 1usize..4) {
        let (layout, partitions) = (case.layout(), 1 << case.bits);
        let invertible = layout.accumulators.iter().all(|(a, _)| a.is_invertible());
        let mut combinations = vec![Combination::Recompute, Combination::TwoStacks];
        combinations.extend(invertible.then_some(Combination::Subtract));
        for combination in combinations {
            for cuts in [&[0, partitions][..], &[0, 5.min(partitions), partitions], &[0, partitions / 4, partitions]] {
                let ranges = cuts.windows(2).map(|ends| ends[0]..ends[1]);
                let mut combiners: Vec<Combiner> =
                    ranges.map(|p| Combiner::new(Arc::clone(&layout), combination, p)).collect();
                for (end, slice) in (1i64..).zip(&case.slices) {
                    let partials: Vec<_> = slice.iter().map(|rows| case.filled(rows, true)).collect();
                    let first = (end - length as i64).max(0);
                    let mut pieces = Vec::new();
                    for combiner in &mut combiners {
                        combiner.add_slice(end - 1, &partials);
                        pieces.push(case.columns(combiner.window(first, end)));
                    }
                    let slices = case.slices[first as usize..end as usize].iter().flatten();
                    let expected = case.expected(&case.model(slices));
                    prop_assert_eq!(&together(&pieces, case.expected(&Model::new())), &expected, "{:?}", combination);
                }
            }
        }
    }
}
