//! Finding the entry of a key, in the dense region or by its hash, as `millstream_abi` defines both.

use super::ir::{Basic, Block, Emitted, Int, Ptr};
use super::update::TableState;
use super::{Emitter, Rows};
use crate::runtime;
use inkwell::{AtomicOrdering, IntPredicate};
use millstream_abi::{HASH_BUSY, HASH_EMPTY, HASH_SEED, PackedKey, Phys, TableHeader, hash_finish};
use millstream_codegen::program::{Access, Op, Terminal, Update, Value};
use std::mem::offset_of;

/// Multiplier of `millstream_abi::hash_word`; a test compares the two.
const MULTIPLIER: u64 = 0xBF58_476D_1CE4_E5B9;

/// Bytes of a hash part from which on entries are fetched: what a core has for itself of the cache.
const FETCHED_BYTES: usize = 1 << 20;

/// Offsets in the header of how a key is packed: its first value, its bits.
pub(super) fn packing_of(number: usize) -> [usize; 2] {
    let at = offset_of!(TableHeader, packing) + number * size_of::<PackedKey>();
    [at + offset_of!(PackedKey, first), at + offset_of!(PackedKey, bits)]
}

/// A key whose entry is searched.
struct Key<'a, 'c> {
    table: &'a TableState<'c>,
    update: &'a Update,
    values: KeyColumns<'c>,
    /// Where control goes when there is no entry.
    insert: Block<'c>,
    /// Where it goes when there is one.
    found: Block<'c>,
}

/// The values of a key.
struct KeyColumns<'c> {
    columns: Vec<KeyColumn<'c>>,
    /// Bit *i*: key *i* is NULL.
    null_mask: Int<'c>,
}

/// One column of a key.
struct KeyColumn<'c> {
    /// The value, zero when NULL.
    value: Basic<'c>,
    /// The same as it is stored.
    stored: Basic<'c>,
    phys: Phys,
    /// Whether it is not NULL; `None`: it never is.
    valid: Option<Int<'c>>,
}

/// The hash of a key that was not found, and the block that the search ends in.
type Miss<'c> = (Int<'c>, Block<'c>);
/// An entry, and the block in which it was found.
type Hit<'c> = (Basic<'c>, Block<'c>);

impl<'c> Emitter<'c, '_> {
    /// Evaluates the key of the row.
    fn key_columns(&self, update: &Update) -> Emitted<KeyColumns<'c>> {
        let ir = &self.ir;
        let mut null_mask = ir.word(0);
        let mut columns = Vec::with_capacity(update.keys.len());
        for (number, &(value, valid)) in update.keys.iter().enumerate() {
            let phys = self.program.type_of(value);
            let mut value = self.value(value);
            let valid = valid.map(|v| self.int(v));
            if let Some(valid) = valid {
                value = ir.select(valid, value, value.get_type().const_zero(), "key.or_zero")?;
                let bit = ir.select(valid, ir.word(0).into(), ir.word(1 << number).into(), "null.bit")?;
                null_mask = ir.b.build_or(null_mask, bit.into_int_value(), "null.mask")?;
            }
            columns.push(KeyColumn { value, stored: self.to_memory(value, phys)?, phys, valid });
        }
        Ok(KeyColumns { columns, null_mask })
    }

    /// The hash of a key.
    fn hash(&self, key: &KeyColumns<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        if key.columns.is_empty() {
            return Ok(ir.word(hash_finish(HASH_SEED)));
        }
        let mut hash = ir.word(HASH_SEED);
        for column in &key.columns {
            let folded = self.fold(hash, column.value, column.phys)?;
            hash = match column.valid {
                None => folded,
                Some(valid) => {
                    let null = self.fold_word(hash, ir.word(HASH_SEED))?;
                    ir.select(valid, folded.into(), null.into(), "hash.key")?.into_int_value()
                }
            };
        }
        self.finish_hash(hash)
    }

    /// Fetches the entries of the keys of a block's rows, if the table is too large for the cache: many lines come at a time then,
    /// where the search for one key would wait for one. Only if reading the keys once more is all that it takes.
    pub(super) fn fetch_entries(&mut self, rows: &Rows<'c>) -> Emitted<()> {
        let program = self.program;
        let Terminal::Update(update) = &program.terminal else { return Ok(()) };
        let values = update.keys.iter().flat_map(|&(value, valid)| std::iter::once(value).chain(valid));
        let reads: Vec<_> = values.filter_map(|value| Some((value, *self.operations.get(&value)?))).collect();
        let is_read = |(value, op): &(Value, &Op)| match op {
            // The bytes of long strings are far away themselves.
            Op::Load(_) => program.type_of(*value) != Phys::Str,
            Op::IsValid(_) => true,
            _ => false,
        };
        let all = update.keys.iter().map(|(_, valid)| 1 + usize::from(valid.is_some())).sum::<usize>();
        let count = match rows {
            _ if update.keys.is_empty() || reads.len() < all || !reads.iter().all(is_read) => return Ok(()),
            Rows::Range(..) => return Ok(()),
            Rows::Block(_, length) => *length,
            Rows::Selection(_) => self.selected()?,
        };
        let (ir, table) = (&self.ir, self.table.as_ref().expect("a program that updates has table state"));
        let (fetch, fetched) = (ir.block("entries.fetch"), ir.block("entries.fetched"));
        let mask = table.header_word(ir, offset_of!(TableHeader, mask), "mask")?;
        let least = ir.word((FETCHED_BYTES / update.layout.stride) as u64);
        let mut is_large = ir.compare(IntPredicate::UGE, mask, least, "table.is_large")?;
        if update.layout.packs() {
            let len = table.header_word(ir, offset_of!(TableHeader, directory_len), "directory.len")?;
            let is_searched = ir.compare(IntPredicate::EQ, len, ir.word(0), "table.is_searched")?;
            is_large = ir.b.build_and(is_large, is_searched, "table.is_fetched")?;
        }
        let entries = table.header_pointer(ir, offset_of!(TableHeader, entries), "entries")?;
        ir.branch_rarely(is_large, fetch, fetched)?;
        ir.enter(fetch);
        self.each(count, 1, "entries.fetch", &mut |this, index| {
            (this.row, this.row_in_block) = this.current_row(rows, index)?;
            this.values.clear();
            for &(value, op) in &reads {
                let read = this.op(value, op)?;
                this.values.insert(value, read);
            }
            let hash = this.hash(&this.key_columns(update)?)?;
            let place = this.ir.b.build_and(hash, mask, "place.first")?;
            let entry = this.entry(entries, place, update.layout.stride)?;
            this.ir.prefetch(this.ir.i8, entry, this.ir.word(0))
        })?;
        self.ir.jump(fetched)?;
        self.ir.enter(fetched);
        Ok(())
    }

    /// Folds a key that is not NULL into a hash.
    pub(super) fn fold(&self, hash: Int<'c>, key: Basic<'c>, phys: Phys) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        match phys {
            Phys::Bool => self.fold_word(hash, ir.b.build_int_z_extend(key.into_int_value(), ir.i64, "key.word")?),
            Phys::I64 => self.fold_word(hash, key.into_int_value()),
            Phys::I8 | Phys::I16 | Phys::I32 => {
                self.fold_word(hash, ir.b.build_int_s_extend(key.into_int_value(), ir.i64, "key.word")?)
            }
            Phys::F32 | Phys::F64 => {
                let double = ir.b.build_float_cast(key.into_float_value(), ir.f64, "key.double")?;
                self.fold_word(hash, ir.b.build_bit_cast(double, ir.i64, "key.word")?.into_int_value())
            }
            Phys::I128 => self.fold_wide(hash, key.into_int_value()),
            Phys::Str => self.fold_string(hash, key.into_int_value()),
        }
    }

    /// `hash_word`
    fn fold_word(&self, hash: Int<'c>, word: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let mixed = ir.b.build_xor(hash, word, "hash.mixed")?;
        let product = ir.b.build_int_mul(mixed, ir.word(MULTIPLIER), "hash.product")?;
        let arguments = [product.into(), product.into(), ir.word(32).into()];
        Ok(ir.intrinsic("llvm.fshl", &[ir.i64.into()], &arguments, "hash.rotated")?.into_int_value())
    }

    /// `hash_wide`
    fn fold_wide(&self, hash: Int<'c>, wide: Int<'c>) -> Emitted<Int<'c>> {
        let (low, high) = self.ir.halves(wide)?;
        self.fold_word(self.fold_word(hash, low)?, high)
    }

    /// `hash_str`
    fn fold_string(&self, hash: Int<'c>, string: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let (short, long, end) = (ir.block("hash.short"), ir.block("hash.long"), ir.block("hash.string"));
        let (low, high) = ir.halves(string)?;
        ir.branch(self.is_long(low)?, long, short)?;
        ir.enter(short);
        let by_words = self.fold_wide(hash, string)?;
        ir.jump(end)?;
        ir.enter(long);
        let length = ir.b.build_and(low, ir.word(u32::MAX as u64), "length")?;
        let bytes = ir.result(self.support(runtime::HASH_BYTES), &[high.into(), length.into()], "hash.bytes")?;
        let by_bytes = self.fold_word(hash, bytes.into_int_value())?;
        ir.jump(end)?;
        ir.enter(end);
        Ok(ir.merge(&[(by_words.into(), short), (by_bytes.into(), long)], "hash.folded")?.into_int_value())
    }

    /// `hash_finish`
    pub(super) fn finish_hash(&self, hash: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let shifted = ir.b.build_right_shift(hash, ir.word(29), false, "hash.high")?;
        let mixed = ir.b.build_xor(hash, shifted, "hash.mixed")?;
        let product = ir.b.build_int_mul(mixed, ir.word(MULTIPLIER), "hash.product")?;
        let shifted = ir.b.build_right_shift(product, ir.word(32), false, "hash.high")?;
        let mixed = ir.b.build_xor(product, shifted, "hash.mixed")?;
        let is_reserved = ir.compare(IntPredicate::ULE, mixed, ir.word(HASH_BUSY), "hash.is_reserved")?;
        let other = ir.b.build_or(mixed, ir.word(2), "hash.other")?;
        Ok(ir.select(is_reserved, other.into(), mixed.into(), "hash")?.into_int_value())
    }

    /// Finds the entry of the row's key, or has it inserted.
    pub(super) fn probe(&self, table: &TableState<'c>, update: &Update) -> Emitted<Ptr<'c>> {
        let ir = &self.ir;
        let (insert, found) = (ir.block("update.insert"), ir.block("update.found"));
        let key = Key { table, update, values: self.key_columns(update)?, insert, found };
        let (mut hits, mut misses): (Vec<Hit<'c>>, Vec<Miss<'c>>) = Default::default();
        if update.layout.dense_key().is_some() {
            let (hit, miss) = self.look_up_dense(&key)?;
            hits.push(hit);
            misses.extend(miss);
        }
        let told = match update.layout.packs() && update.access == Access::Own {
            true => {
                let (hit, told) = self.look_up_directory(&key)?;
                hits.push(hit);
                Some(told)
            }
            false => None,
        };
        let (hit, miss) = self.search(&key, told)?;
        hits.push(hit);
        misses.push(miss);

        ir.enter(key.insert);
        let hashes: Vec<Hit<'c>> = misses.iter().map(|&(hash, block)| (hash.into(), block)).collect();
        let hash = ir.merge(&hashes, "hash.missing")?.into_int_value();
        let inserted = self.insert(&key, hash)?;
        hits.push((inserted.into(), ir.current()));
        ir.jump(key.found)?;
        ir.enter(key.found);
        Ok(ir.merge(&hits, "entry.found")?.into_pointer_value())
    }

    /// Looks into the dense region: goes to `found` when it has the key, to `insert` when it covers the key but does not
    /// have it, and falls through when it does not cover the key. An array has every key that it covers.
    fn look_up_dense(&self, key: &Key<'_, 'c>) -> Emitted<(Hit<'c>, Option<Miss<'c>>)> {
        let (ir, table, layout) = (&self.ir, key.table, &key.update.layout);
        let (look, other) = (ir.block("update.dense"), ir.block("update.not_dense"));
        let column = &key.values.columns[0];
        let value = ir.b.build_int_s_extend_or_bit_cast(column.value.into_int_value(), ir.i64, "key.word")?;
        let index = ir.b.build_int_sub(
            value,
            table.header_word(ir, offset_of!(TableHeader, dense_first), "dense.first")?,
            "dense.index",
        )?;
        let len = table.header_word(ir, offset_of!(TableHeader, dense_len), "dense.len")?;
        let mut is_covered = ir.compare(IntPredicate::ULT, index, len, "is_covered")?;
        if let Some(valid) = column.valid {
            is_covered = ir.b.build_and(is_covered, valid, "is_covered.valid")?;
        }
        ir.branch(is_covered, look, other)?;

        ir.enter(look);
        let dense = table.header_pointer(ir, offset_of!(TableHeader, dense), "dense")?;
        if let Some(array) = key.update.array() {
            let entry = self.entry(dense, index, array.stride)?;
            if array.sets_mark {
                ir.store(ir.at(entry, array.mark, "entry.mark")?, ir.word(1).into())?;
            }
            ir.jump(key.found)?;
            ir.enter(other);
            return Ok(((entry.into(), look), None));
        }
        let missing = ir.block("update.dense_missing");
        let entry = self.entry(dense, index, layout.stride)?;
        let word = self.hash_word(entry, key.update.access)?;
        let is_missing = ir.compare(IntPredicate::ULE, word, ir.word(HASH_BUSY), "is_missing")?;
        ir.branch_rarely(is_missing, missing, key.found)?;

        ir.enter(missing);
        let hash = self.hash(&key.values)?;
        let miss = (hash, ir.current());
        ir.jump(key.insert)?;
        ir.enter(other);
        Ok(((entry.into(), look), Some(miss)))
    }

    /// Looks into the directory: goes to `found` when that knows the place of the entry, and falls through when it does not.
    /// Also gives the address where the place is to be written down.
    fn look_up_directory(&self, key: &Key<'_, 'c>) -> Emitted<(Hit<'c>, Ptr<'c>)> {
        let (ir, table) = (&self.ir, key.table);
        let (look, other) = (ir.block("update.directory"), ir.block("update.not_known"));
        let (mut packed, mut beyond) = (ir.word(0), ir.word(0));
        let mut is_covered = ir.i1.const_int(1, false);
        for (number, column) in key.values.columns.iter().enumerate() {
            let value = column.value.into_int_value();
            let value = match column.phys {
                Phys::Bool => ir.b.build_int_z_extend(value, ir.i64, "key.word")?,
                _ => ir.b.build_int_s_extend_or_bit_cast(value, ir.i64, "key.word")?,
            };
            let [first, bits] = packing_of(number);
            let bits = table.header_word(ir, bits, "key.bits")?;
            let distance = ir.b.build_int_sub(value, table.header_word(ir, first, "key.first")?, "key.distance")?;
            let above = ir.b.build_right_shift(distance, bits, false, "key.above")?;
            beyond = ir.b.build_or(beyond, above, "key.beyond")?;
            packed = ir.b.build_or(ir.b.build_left_shift(packed, bits, "key.shifted")?, distance, "key.packed")?;
            if let Some(valid) = column.valid {
                is_covered = ir.b.build_and(is_covered, valid, "is_covered.valid")?;
            }
        }
        let is_within = ir.compare(IntPredicate::EQ, beyond, ir.word(0), "is_within")?;
        is_covered = ir.b.build_and(is_covered, is_within, "is_covered")?;
        let len = table.header_word(ir, offset_of!(TableHeader, directory_len), "directory.len")?;
        let is_there = ir.compare(IntPredicate::NE, len, ir.word(0), "directory.is_there")?;
        is_covered = ir.b.build_and(is_covered, is_there, "is_covered.there")?;
        let before = ir.current();
        ir.branch(is_covered, look, other)?;

        ir.enter(look);
        let directory = table.header_pointer(ir, offset_of!(TableHeader, directory), "directory")?;
        let place = ir.element(ir.i32, directory, packed, "directory.place")?;
        let known = ir.load(ir.i32, place, "place.known")?.into_int_value();
        let is_unknown = ir.compare(IntPredicate::EQ, known, ir.i32.const_zero(), "place.is_unknown")?;
        // Counted from 1.
        let known = ir.b.build_int_z_extend(known, ir.i64, "place.word")?;
        let index = ir.b.build_int_sub(known, ir.word(1), "place.index")?;
        let entries = table.header_pointer(ir, offset_of!(TableHeader, entries), "entries")?;
        let entry = self.entry(entries, index, key.update.layout.stride)?;
        ir.branch_rarely(is_unknown, other, key.found)?;

        ir.enter(other);
        let told = ir.merge(&[(place.into(), look), (table.untold.into(), before)], "place.told")?;
        Ok(((entry.into(), look), told.into_pointer_value()))
    }

    /// Searches the hash part: goes to `found` or to `insert`. The place of what is found is written to `told`.
    fn search(&self, key: &Key<'_, 'c>, told: Option<Ptr<'c>>) -> Emitted<(Hit<'c>, Miss<'c>)> {
        let (ir, table, layout) = (&self.ir, key.table, &key.update.layout);
        let (look, same) = (ir.block("update.look"), ir.block("update.same_hash"));
        let (other, step) = (ir.block("update.other_hash"), ir.block("update.step"));
        let key_hash = self.hash(&key.values)?;
        let mask = table.header_word(ir, offset_of!(TableHeader, mask), "mask")?;
        let entries = table.header_pointer(ir, offset_of!(TableHeader, entries), "entries")?;
        let first = ir.b.build_and(key_hash, mask, "place.first")?;

        let (place, index) = ir.begin_loop(look, first, "place")?;
        let entry = self.entry(entries, index, layout.stride)?;
        let hash = self.hash_word(entry, key.update.access)?;
        let is_same = ir.compare(IntPredicate::EQ, hash, key_hash, "hash.is_same")?;
        ir.branch(is_same, same, other)?;

        ir.enter(same);
        let is_key = self.has_key(entry, key)?;
        let mut hit = ir.current();
        match told {
            None => ir.branch(is_key, key.found, step)?,
            Some(told) => {
                let tell = ir.block("update.tell");
                ir.branch(is_key, tell, step)?;
                ir.enter(tell);
                let place = ir.b.build_int_add(index, ir.word(1), "place.counted")?;
                ir.store(told, ir.b.build_int_truncate(place, ir.i32, "place.counted")?.into())?;
                hit = ir.current();
                ir.jump(key.found)?;
            }
        }

        ir.enter(other);
        let is_empty = ir.compare(IntPredicate::EQ, hash, ir.word(HASH_EMPTY), "is_empty")?;
        ir.branch_rarely(is_empty, key.insert, step)?;

        ir.enter(step);
        let next = ir.b.build_int_add(index, ir.word(1), "place.next")?;
        let next = ir.b.build_and(next, mask, "place.wrapped")?;
        place.add_incoming(&[(&next, step)]);
        ir.jump(look)?;
        Ok(((entry.into(), hit), (key_hash, other)))
    }

    /// The hash word of an entry.
    fn hash_word(&self, entry: Ptr<'c>, access: Access) -> Emitted<Int<'c>> {
        match access {
            Access::Own => self.ir.load_word(entry, "entry.hash"),
            Access::Shared => self.ir.load_atomic(self.ir.i64, entry, AtomicOrdering::Acquire, "entry.hash"),
        }
    }

    /// The address of an entry by its index.
    fn entry(&self, first: Ptr<'c>, index: Int<'c>, stride: usize) -> Emitted<Ptr<'c>> {
        let ir = &self.ir;
        let offset = ir.b.build_int_mul(index, ir.word(stride as u64), "entry.offset")?;
        ir.element(ir.i8, first, offset, "entry")
    }

    /// Whether an entry with the right hash has the key.
    fn has_key(&self, entry: Ptr<'c>, key: &Key<'_, 'c>) -> Emitted<Int<'c>> {
        let (ir, layout) = (&self.ir, &key.update.layout);
        let mut all = ir.i1.const_int(1, false);
        if let Some(offset) = layout.null_mask {
            let null_mask = ir.load_word(ir.at(entry, offset, "entry.nulls")?, "entry.nulls")?;
            all = ir.compare(IntPredicate::EQ, null_mask, key.values.null_mask, "nulls.are_same")?;
        }
        for (number, (column, slot)) in key.values.columns.iter().zip(&layout.keys).enumerate() {
            let (value, phys) = (column.stored, column.phys);
            let name = format!("key{number}.is_same");
            let place = ir.at(entry, slot.offset, "entry.key")?;
            let same = match value {
                Basic::FloatValue(float) => {
                    // By bits: lowering has left one zero and one NaN.
                    let ty = if phys == Phys::F32 { ir.i32 } else { ir.i64 };
                    let bits = ir.b.build_bit_cast(float, ty, "key.bits")?.into_int_value();
                    let stored = ir.load(ty, place, "entry.bits")?.into_int_value();
                    ir.compare(IntPredicate::EQ, stored, bits, &name)?
                }
                _ => {
                    let stored = ir.load(value.get_type(), place, "entry.key")?.into_int_value();
                    let value = value.into_int_value();
                    match phys {
                        Phys::Str => self.strings_equal(stored, value, false, &name)?,
                        _ => ir.compare(IntPredicate::EQ, stored, value, &name)?,
                    }
                }
            };
            all = ir.b.build_and(all, same, "keys.are_same")?;
        }
        Ok(all)
    }

    /// Has the table insert the key.
    fn insert(&self, key: &Key<'_, 'c>, hash: Int<'c>) -> Emitted<Ptr<'c>> {
        let (ir, table, layout) = (&self.ir, key.table, &key.update.layout);
        for (number, column) in key.values.columns.iter().enumerate() {
            // The whole slot is defined, whatever the size of the key.
            let place = ir.at(table.keys, number * 16, "insert.key")?;
            ir.store(place, ir.i128.const_zero().into())?;
            ir.store(place, column.stored)?;
        }
        table.tell_host(ir)?;
        let null_mask = if layout.null_mask.is_some() { key.values.null_mask } else { ir.word(0) };
        let ty = ir.ptr.fn_type(&[ir.ptr.into(), ir.i64.into(), ir.i64.into(), ir.ptr.into()], false);
        let arguments = [self.context.into(), hash.into(), null_mask.into(), table.keys.into()];
        let inserted = ir.b.build_indirect_call(ty, table.insert_key, &arguments, "entry.inserted")?;
        table.copy_header(ir)?;
        Ok(inserted.try_as_basic_value().basic().expect("insert_key has a result").into_pointer_value())
    }
}

#[cfg(test)]
mod tests {
    use super::MULTIPLIER;
    use millstream_abi::hash_word;

    #[test]
    fn the_multiplier_is_that_of_the_shared_hash() {
        assert_eq!(hash_word(0, 1), MULTIPLIER.rotate_left(32));
    }
}
