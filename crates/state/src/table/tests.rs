//! Tables against a model.

use super::*;
use millstream_abi::{Accumulator, Counters, HASH_SEED, PackedKey, Phys, hash_finish, hash_word};
use std::collections::BTreeMap;

const ROUNDS: u64 = if cfg!(miri) { 3 } else { 150 };

#[test]
fn the_header_is_first() {
    assert_eq!(std::mem::offset_of!(Table, parts.header), 0);
}

#[test]
fn growth_keeps_every_key_and_at_most_half_of_the_places() {
    let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
    let mut table = Table::new(Arc::clone(&layout));
    for key in 0..1000i64 {
        let hash = hash_finish(hash_word(HASH_SEED, key as u64));
        // SAFETY: the keys are distinct.
        let inserted = unsafe { table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]) };
        // SAFETY: the entry has the count there.
        unsafe { entry::write(inserted, layout.accumulators[0].1, key * 2) };
    }
    assert_eq!(table.len(), 1000);
    assert_eq!(table.parts.header.mask, 2047);
    assert_eq!(table.bytes(), 2048 * layout.stride);
    let mut found: Vec<(i64, i64)> = table
        .occupied()
        // SAFETY: offsets are those of the layout.
        .map(|e| unsafe { (entry::read(e, layout.keys[0].offset), entry::read(e, layout.accumulators[0].1)) })
        .collect();
    found.sort_unstable();
    assert_eq!(found, (0..1000).map(|k| (k, 2 * k)).collect::<Vec<_>>());
}

#[test]
fn compaction_bounds_the_garbage_of_replaced_strings() {
    let layout = Arc::new(EntryLayout::new(&[], &[Accumulator::MaxStr]));
    let mut table = Table::new(Arc::clone(&layout));
    // SAFETY: the table is empty and has no key columns.
    let only = unsafe { table.insert(7, 0, &[]) };
    let mut last = String::new();
    for i in 0..100_000 {
        last = format!("a string that is long {i:06}");
        // SAFETY: `last` is alive; the entry has the accumulator there.
        unsafe {
            let kept = table.keep_string(Str::new(last.as_bytes()));
            entry::write(only, layout.accumulators[0].1, kept);
        }
        if i % 100 == 0 {
            table.compact();
        }
    }
    assert!(table.bytes() < 400 << 10, "{} bytes", table.bytes());
    // SAFETY: the accumulator's string lives in the arena.
    let kept: Str = unsafe { entry::read(only, layout.accumulators[0].1) };
    // SAFETY: as above.
    assert_eq!(unsafe { kept.as_bytes() }, last.as_bytes());
}

/// A sequence of numbers that looks random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// A table of counts by one nullable key, and what should be in it. With strings, its dense region has entries (tests/model/dense.rs
/// is about arrays).
struct Counts {
    table: Table,
    phys: Phys,
    model: BTreeMap<Option<i64>, i64>,
}

impl Counts {
    fn new(phys: Phys, hint: TableHint) -> Counts {
        let layout = Arc::new(EntryLayout::new(&[(phys, true)], &[Accumulator::Count, Accumulator::MaxStr]));
        Counts { table: Table::with_hint(layout, true, hint), phys, model: BTreeMap::new() }
    }

    fn slot(&self, key: i64) -> Slot {
        match self.phys {
            Phys::I8 => Slot::of((key as i8).to_le_bytes()),
            Phys::I16 => Slot::of((key as i16).to_le_bytes()),
            Phys::I32 => Slot::of((key as i32).to_le_bytes()),
            _ => Slot::of(key.to_le_bytes()),
        }
    }

    /// An entry of the key with a count of one, to search and merge.
    fn probe(&self, key: Option<i64>) -> Table {
        let mut probe = Table::new(Arc::clone(&self.table.layout));
        let hash = hash_finish(hash_word(HASH_SEED, key.map_or(HASH_SEED, |key| key as u64)));
        // SAFETY: the table is empty.
        unsafe {
            let inserted = probe.insert(hash, key.is_none() as u64, &[self.slot(key.unwrap_or(0))]);
            entry::write(inserted, probe.layout.accumulators[0].1, 1i64);
        }
        probe
    }

    fn count(&mut self, key: Option<i64>) {
        *self.model.entry(key).or_default() += 1;
        let probe = self.probe(key);
        let one = probe.occupied().next().expect("it has one entry");
        // SAFETY: an entry of the same layout, without strings.
        unsafe { self.table.merge_entry(one) };
    }

    fn remove(&mut self, key: Option<i64>) {
        let probe = self.probe(key);
        let one = probe.occupied().next().expect("it has one entry");
        // SAFETY: as in `count`; what is found is an entry of the table.
        unsafe {
            let found = self.table.find(one);
            assert_eq!(found.is_some(), self.model.remove(&key).is_some(), "{key:?}");
            found.into_iter().for_each(|entry| self.table.remove(entry));
        }
    }

    fn pairs(layout: &EntryLayout, entries: impl Iterator<Item = *const u8>) -> BTreeMap<Option<i64>, i64> {
        // SAFETY: entries of the layout, which has a count.
        let pair = |e| unsafe { (dense::key_of_entry(layout, e), entry::read(e, layout.accumulators[0].1)) };
        entries.map(pair).collect()
    }

    fn check(&self) {
        assert_eq!(Counts::pairs(&self.table.layout, self.table.occupied()), self.model);
        assert_eq!(self.table.len(), self.model.len());
        for entry in self.table.occupied() {
            // SAFETY: an entry of the table.
            let key = unsafe { self.table.key_of(entry) };
            let covered = key.and_then(|key| self.table.parts.dense_entry(key));
            assert_eq!(covered.is_some(), self.table.parts.is_dense(entry), "{key:?}");
            assert!(covered.is_none_or(|place| std::ptr::eq(place, entry)), "{key:?}");
        }
    }

    fn drain(&mut self) {
        let partial = self.table.drain();
        let drained = Counts::pairs(&self.table.layout, partial.entries_of(&partial.partitions()));
        assert_eq!(drained, std::mem::take(&mut self.model));
        self.check();
    }
}

#[test]
fn keys_are_where_they_belong_whatever_their_order() {
    for seed in 0..ROUNDS {
        let mut numbers = Numbers(seed);
        let phys = [Phys::I8, Phys::I16, Phys::I32, Phys::I64][numbers.below(4) as usize];
        let (smallest, largest) = match phys {
            Phys::I8 => (i8::MIN as i64, i8::MAX as i64),
            Phys::I16 => (i16::MIN as i64, i16::MAX as i64),
            Phys::I32 => (i32::MIN as i64, i32::MAX as i64),
            _ => (i64::MIN, i64::MAX),
        };
        let mut counts = Counts::new(phys, TableHint::default());
        for _ in 0..3 {
            let width = 1 + numbers.below(2000) as i64;
            let middles = [smallest, largest - width, -width / 2, 0, 10_000];
            let first = middles[numbers.below(5) as usize].clamp(smallest, largest - width.min(255));
            for step in 0..numbers.below(1500) as i64 {
                let key = match numbers.below(20) {
                    0 => None,
                    1 => Some(smallest),
                    2 => Some(largest),
                    3 => Some(first.wrapping_add(numbers.below(1 << 40) as i64 * 1000)),
                    4..10 => Some(first.saturating_add(step % width)),
                    _ => Some(first.saturating_add(numbers.below(width as u64) as i64)),
                };
                let key = key.map(|key| key.clamp(smallest, largest));
                match numbers.below(12) {
                    0 => counts.remove(key),
                    _ => counts.count(key),
                }
                if step % 256 == 0 {
                    counts.check();
                }
            }
            counts.check();
            if numbers.below(2) == 0 {
                counts.table.shrink();
                counts.check();
            }
            counts.drain();
        }
    }
}

#[test]
fn a_drained_table_is_used_again_without_allocation() {
    let mut counts = Counts::new(Phys::I64, TableHint::default());
    let fill = |counts: &mut Counts| {
        (0..1000).for_each(|key| counts.count(Some(key)));
        (0..5).for_each(|key| counts.count(Some(key << 40)));
        counts.count(None);
    };
    fill(&mut counts);
    let (hint, header, bytes) = (counts.table.hint(), counts.table.parts.header, counts.table.bytes());
    assert_eq!(hint, TableHint { keys: 5, range: Some(KeyRange { first: 0, len: 1024 }), is_known: true });
    counts.drain();
    fill(&mut counts);
    assert_eq!((counts.table.parts.header.entries, counts.table.parts.header.dense), (header.entries, header.dense));
    assert_eq!(counts.table.bytes(), bytes);
    counts.drain();

    let mut hinted = Counts::new(Phys::I64, hint);
    let dense = hinted.table.parts.header.dense;
    fill(&mut hinted);
    assert_eq!(hinted.table.parts.header.dense, dense, "the hint was large enough");
    hinted.drain();

    counts.count(Some(3));
    counts.drain();
    assert!(counts.table.bytes() * 10 < bytes, "what one key needs: {} bytes", counts.table.bytes());
}

#[test]
fn tables_without_permission_have_no_region() {
    let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
    let hint = TableHint { keys: 3, range: Some(KeyRange { first: 0, len: 101 }), is_known: true };
    assert_eq!(Table::with_hint(Arc::clone(&layout), false, hint).parts.region(), None);
    let table = Table::with_hint(layout, true, hint);
    assert_eq!((table.parts.region(), table.is_array(), table.is_empty()), (hint.range, true, true));
    let two = Arc::new(EntryLayout::new(&[(Phys::I64, false), (Phys::I64, false)], &[]));
    assert_eq!(Table::with_hint(two, true, hint).parts.region(), None);
}

/// A table of groups of a way (perhaps NULL), a direction and a segment.
struct Segments(Table);

impl Segments {
    fn new() -> Segments {
        let keys = [(Phys::I8, true), (Phys::Bool, false), (Phys::I32, false)];
        let layout = Arc::new(EntryLayout::new(&keys, &[Accumulator::Count]));
        Segments(Table::with_hint(layout, true, TableHint::default()))
    }

    /// Inserts a group that is not there.
    fn insert(&mut self, (way, direction, segment): (Option<i8>, bool, i32)) {
        let slot = |word: i64| Slot::of(word.to_le_bytes());
        let keys = [slot(way.unwrap_or(0).into()), slot(direction.into()), slot(segment.into())];
        let mut hash = keys.iter().fold(HASH_SEED, |hash, key| hash_word(hash, u64::from_le_bytes(key.bytes())));
        hash = hash_word(hash, way.is_none().into());
        // SAFETY: values of the keys' types, which are not there yet.
        unsafe { self.0.insert(hash_finish(hash), u64::from(way.is_none()), &keys) };
    }

    /// Entries that the directory covers, after it was told all of their places, as code does it. Each has its own.
    fn covered(&mut self) -> usize {
        let (layout, header) = (Arc::clone(self.0.layout()), self.0.parts.header);
        let places: Vec<u32> = (0..header.directory_len as usize)
            // SAFETY: within the directory.
            .map(|i| unsafe { header.directory.add(i).read() })
            .collect();
        assert!(places.iter().all(|&place| place == 0), "it knows nothing that code has not told it");
        let mut packed = Vec::new();
        for entry in self.0.occupied() {
            // SAFETY: an entry of the layout.
            if !unsafe { self.0.parts.directory().covers(&layout, entry) } {
                continue;
            }
            // SAFETY: as above.
            let keys: [i64; 3] = unsafe {
                let (way, direction) = (entry::read::<i8>(entry, layout.keys[0].offset), layout.keys[1].offset);
                let segment = entry::read::<i32>(entry, layout.keys[2].offset);
                [way.into(), entry::read::<u8>(entry, direction).into(), segment.into()]
            };
            let pack = |packed: u64, (key, how): (&i64, &PackedKey)| packed << how.bits | (key - how.first) as u64;
            packed.push(keys.iter().zip(&header.packing).fold(0, pack));
        }
        let covered = packed.len();
        packed.sort_unstable();
        packed.dedup();
        assert!(packed.len() == covered && packed.last().is_none_or(|&last| last < header.directory_len));
        for place in packed {
            // SAFETY: within the directory.
            unsafe { header.directory.add(place as usize).write(1) };
        }
        covered
    }
}

#[test]
fn a_directory_covers_most_groups_of_small_numbers() {
    let mut segments = Segments::new();
    let groups = (0..800).map(|i| (Some((i % 4) as i8 - 1), i / 4 % 2 == 1, 7000 + i / 8));
    groups.clone().take(9).for_each(|group| segments.insert(group));
    assert_eq!(segments.covered(), 8, "all that were there when the hash part grew");
    groups.clone().skip(9).for_each(|group| segments.insert(group));
    assert_eq!(segments.0.parts.header.directory_len, 1 << (2 + 1 + 7));
    // What it was told is forgotten where entries move, and when they go.
    assert!(segments.covered() >= 700);
    segments.insert((None, false, 7000));
    let partial = segments.0.drain();
    assert_eq!((partial.len(), segments.covered()), (801, 0));
    // The keys of the next slice are elsewhere.
    groups.clone().for_each(|(way, direction, segment)| segments.insert((way, direction, segment + 100_000)));
    assert!(segments.covered() >= 600);
}

#[test]
fn groups_that_are_far_from_each_other_have_no_directory() {
    let mut segments = Segments::new();
    (0..100).for_each(|i| segments.insert((None, false, i)));
    assert_eq!(segments.covered(), 0, "NULL is not covered");
    segments.0.drain();
    (0..100).for_each(|i| segments.insert((Some(i as i8), true, i * 20_000_000)));
    assert_eq!(segments.0.parts.header.directory_len, 0);
    let mut without = Segments(Table::new(Arc::clone(segments.0.layout())));
    (0..100).for_each(|i| without.insert((Some(0), true, i)));
    assert_eq!(without.0.parts.header.directory_len, 0, "nobody asked for it");
}

/// Slices of which most keys are those of the one before, with counts and maxima. Sometimes a slice is another one.
#[test]
fn keys_are_kept_for_the_next_slice_and_are_in_no_partial_without_rows() {
    let (mut kept, mut grown) = (0, 0);
    for seed in 0..ROUNDS {
        let mut numbers = Numbers(seed);
        let counters = [Counters::One(0), Counters::EachOf(0, 1)][numbers.below(2) as usize];
        let layout =
            EntryLayout::new(&[(Phys::I64, true)], &[Accumulator::Count, Accumulator::Count, Accumulator::MaxI64]);
        let layout = Arc::new(layout.counted_by(counters));
        let ([count, other, max], key_at) = ([0, 1, 2].map(|i| layout.accumulators[i].1), layout.keys[0].offset);
        let dense = numbers.below(2) == 0;
        let mut table = Table::with_hint(Arc::clone(&layout), dense, TableHint::default());
        let (keys, mut first) = (1 + numbers.below(300), 0);
        for slice in 0..12 {
            first += if numbers.below(5) == 0 { keys / 2 } else { 0 };
            let mut model = BTreeMap::<Option<i64>, (i64, i64, i64)>::new();
            for _ in 0..numbers.below(6 * keys) {
                let number = first + numbers.below(keys);
                let key = (!number.is_multiple_of(50))
                    .then(|| (number as i64).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64));
                let (is_other, value) = (counters != Counters::One(0) && numbers.below(2) == 0, -1 - slice);
                let (counted, also, most) = model.entry(key).or_insert((0, 0, value));
                *if is_other { also } else { counted } += 1;
                *most = value.max(*most);
                let mut probe = Table::new(Arc::clone(&layout));
                let hash = hash_finish(hash_word(HASH_SEED, key.map_or(HASH_SEED, |key| key as u64)));
                let slot = Slot::of(key.unwrap_or(0).to_le_bytes());
                // SAFETY: the probe is empty; entries are of the layout, without strings.
                unsafe {
                    let one = probe.insert(hash, u64::from(key.is_none()), &[slot]);
                    entry::write(one, if is_other { other } else { count }, 1i64);
                    entry::write(one, max, value);
                    table.merge_entry(one);
                }
            }
            let before = table.len();
            let partial = match numbers.below(4) {
                0 => table.drain(),
                _ => table.drain_keeping(),
            };
            let of_partial = partial.entries_of(&partial.partitions());
            let found: BTreeMap<_, _> = of_partial
                // SAFETY: entries of the layout.
                .map(|e| unsafe {
                    assert!(entry::null_mask(&layout, e) == 0 || entry::read::<i64>(e, key_at) == 0);
                    (
                        dense::key_of_entry(&layout, e),
                        (entry::read(e, count), entry::read(e, other), entry::read(e, max)),
                    )
                })
                .collect();
            assert_eq!((found.len(), &found), (partial.len(), &model));
            assert!(table.is_empty() || (table.len() == before && 4 * model.len() >= 3 * before));
            kept += usize::from(!table.is_empty());
            if numbers.below(8) == 0 {
                table.set_appending(true);
                table.set_appending(false);
                assert!(table.is_empty(), "no key is kept by a table that appends");
            }
            grown += usize::from(table.bytes() > 4096 * layout.stride);
        }
    }
    assert!(kept > 3 * ROUNDS as usize && grown == 0, "{kept} slices kept their keys, {grown} have grown");
}
