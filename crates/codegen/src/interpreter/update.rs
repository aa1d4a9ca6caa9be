//! Updating tables: the executable form of what is described at `program::Update` and `program::Component`.

use super::Machine;
use super::call::slot_of;
use super::lanes::{Lane, Selection};
use super::shared;
use crate::program::{Access, Component, Update, Value};
use crate::semantics::float_order;
use millstream_abi::exact::{self, Fixed};
use millstream_abi::{
    Accumulator, EntryLayout, HASH_BUSY, HASH_EMPTY, HASH_SEED, Phys, Slot, Str, TableHeader, hash_finish, hash_str,
    hash_wide, hash_word,
};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why there is a callback.
const IS_THERE: &str = "only programs that update tables call this";

/// Folds a key column that is not NULL into a hash.
///
/// # Safety
/// The slot holds a value of the type; a string is alive.
unsafe fn hash_fold(hash: u64, phys: Phys, key: &Slot) -> u64 {
    match phys {
        Phys::Bool => hash_word(hash, key.0[0] as u64),
        Phys::I8 => hash_word(hash, i8::from_le_bytes(key.bytes()) as i64 as u64),
        Phys::I16 => hash_word(hash, i16::from_le_bytes(key.bytes()) as i64 as u64),
        Phys::I32 => hash_word(hash, i32::from_le_bytes(key.bytes()) as i64 as u64),
        Phys::I64 => hash_word(hash, u64::from_le_bytes(key.bytes())),
        Phys::I128 => hash_wide(hash, u128::from_le_bytes(key.0)),
        Phys::F32 => hash_word(hash, (f32::from_le_bytes(key.bytes()) as f64).to_bits()),
        Phys::F64 => hash_word(hash, u64::from_le_bytes(key.bytes())),
        // SAFETY: promised by the caller.
        Phys::Str => unsafe { hash_str(hash, Str::from_bits(u128::from_le_bytes(key.0))) },
    }
}

/// The hash of a key: the slot of each column and whether it is not NULL.
///
/// # Safety
/// Each slot holds a value of its type; strings are alive.
pub(crate) unsafe fn hash_key(layout: &EntryLayout, keys: &[Slot], null_mask: u64) -> u64 {
    let hash = layout.keys.iter().zip(keys).enumerate().fold(HASH_SEED, |hash, (i, (slot, key))| {
        match null_mask >> i & 1 {
            // SAFETY: promised by the caller.
            0 => unsafe { hash_fold(hash, slot.phys, key) },
            _ => hash_word(hash, HASH_SEED),
        }
    });
    hash_finish(hash)
}

/// A key that is not NULL, by which a dense region has its entry.
pub(crate) fn dense_key(phys: Phys, key: &Slot) -> i64 {
    match phys {
        Phys::I8 => i8::from_le_bytes(key.bytes()) as i64,
        Phys::I16 => i16::from_le_bytes(key.bytes()) as i64,
        Phys::I32 => i32::from_le_bytes(key.bytes()) as i64,
        _ => i64::from_le_bytes(key.bytes()),
    }
}

/// Whether an entry holds a key.
///
/// # Safety
/// `entry` is an occupied entry of the layout; the key as for [`hash_key`].
unsafe fn holds(layout: &EntryLayout, entry: *const u8, keys: &[Slot], null_mask: u64) -> bool {
    if let Some(offset) = layout.null_mask {
        // SAFETY: the layout places the null mask there.
        if unsafe { entry.add(offset).cast::<u64>().read() } != null_mask {
            return false;
        }
    }
    layout.keys.iter().zip(keys).all(|(slot, key)| {
        // SAFETY: the layout places the key there; strings in entries live as long as the table.
        unsafe {
            let stored = entry.add(slot.offset);
            match slot.phys {
                Phys::Str => {
                    let stored = stored.cast::<u128>().read_unaligned();
                    super::ops::same_string(Str::from_bits(stored), Str::from_bits(u128::from_le_bytes(key.0)))
                }
                phys => std::slice::from_raw_parts(stored, phys.size()) == &key.0[..phys.size()],
            }
        }
    })
}

impl Machine<'_> {
    /// Updates the tables with the rows of the selection, in order.
    ///
    /// # Safety
    /// The context's callbacks belong to tables of the update's layout.
    pub(super) unsafe fn update(&mut self, update: &Update, selection: &Selection) {
        let mut keys = vec![Slot::ZERO; update.keys.len()];
        selection.each(|lane| {
            // SAFETY: promised by the caller.
            unsafe {
                self.find_table(update, lane);
                let null_mask = self.key_of(update, lane, &mut keys);
                let entry = self.find_entry(update, null_mask, &keys);
                let accumulators = update.layout.accumulators.iter().zip(&update.components);
                for (number, ((accumulator, offset), component)) in accumulators.enumerate() {
                    if component.guard.is_none_or(|guard| self.lanes::<bool>(guard)[lane]) {
                        let field = entry.add(*offset);
                        match accumulator {
                            Accumulator::Object(..) => self.update_object(field, number as u32, component, lane),
                            Accumulator::SumF64 => {
                                self.add_double(field, number as u32, component, lane, update.access)
                            }
                            Accumulator::Group => {
                                let row = self.first_row as usize + lane;
                                *self.context.groups.add(row) = field.cast::<u64>().read();
                            }
                            plain => match update.access {
                                Access::Own => self.accumulate(*plain, field, component, lane),
                                Access::Shared => self.accumulate_shared(*plain, field, component, lane),
                            },
                        }
                    }
                }
            }
        });
    }

    /// Makes the table of the row's slice the context's.
    unsafe fn find_table(&mut self, update: &Update, lane: usize) {
        let start = update.slice.map(|slice| self.lanes::<i64>(slice)[lane]);
        let other = start.is_some_and(|start| start != self.context.slice_start);
        if other || self.context.table.is_null() {
            let find_slice = self.context.find_slice.expect(IS_THERE);
            // SAFETY: promised by the caller of `update`.
            unsafe { find_slice(self.context, start.unwrap_or(0)) };
        }
    }

    /// Writes the key of a row to `keys` and returns its null mask.
    fn key_of(&self, update: &Update, lane: usize, keys: &mut [Slot]) -> u64 {
        let mut null_mask = 0;
        for (i, ((value, valid), slot)) in update.keys.iter().zip(keys).enumerate() {
            let valid = valid.is_none_or(|valid| self.lanes::<bool>(valid)[lane]);
            *slot = if valid { slot_of(&self.registers[value.0 as usize], lane) } else { Slot::ZERO };
            null_mask |= (!valid as u64) << i;
        }
        null_mask
    }

    /// The entry of a key in the context's table, inserted if it is not there.
    unsafe fn find_entry(&mut self, update: &Update, null_mask: u64, keys: &[Slot]) -> *mut u8 {
        let layout = &update.layout;
        // SAFETY: the context has a table, and the keys are of the layout.
        unsafe {
            let header = *self.context.table;
            let key = layout.dense_key().filter(|_| null_mask == 0).map(|key| dense_key(key.phys, &keys[0]));
            if let (Some(array), Some(key)) = (update.array(), key)
                && let Some(entry) = header.dense_entry(key, array.stride)
            {
                if array.sets_mark {
                    entry.add(array.mark).cast::<u64>().write(1);
                }
                return entry;
            }
            let dense = key.filter(|_| update.array().is_none());
            let dense = dense.and_then(|key| header.dense_entry(key, layout.stride));
            if let Some(entry) = dense.filter(|&entry| hash_word_of(entry) > HASH_BUSY) {
                return entry;
            }
            let hash = hash_key(layout, keys, null_mask);
            let found = if dense.is_some() { None } else { search(&header, layout, hash, null_mask, keys) };
            found.unwrap_or_else(|| {
                let insert_key = self.context.insert_key.expect(IS_THERE);
                insert_key(self.context, hash, null_mask, keys.as_ptr())
            })
        }
    }

    /// Updates the object of component `number` with the argument of a row, or with NULL.
    ///
    /// # Safety
    /// `field` is the address of an accumulator of the object in the context's table.
    unsafe fn update_object(&mut self, field: *mut u8, number: u32, component: &Component, lane: usize) {
        let is_valid = component.valid.is_none_or(|valid| self.lanes::<bool>(valid)[lane]);
        let argument = component.argument.filter(|_| is_valid);
        let slot = argument.map(|value| slot_of(&self.registers[value.0 as usize], lane));
        let (update_object, row) = (self.context.update_object.expect(IS_THERE), self.first_row + lane as u64);
        // SAFETY: promised by the caller of `update`; the slot outlives the call.
        unsafe { update_object(self.context, field, number, slot.as_ref().map_or(ptr::null(), ptr::from_ref), row) };
    }

    /// Adds the argument of a row to the sum of component `number`, or has it added where far ones are.
    ///
    /// # Safety
    /// `field` is the address of an accumulator of the sum in the context's table.
    unsafe fn add_double(&mut self, field: *mut u8, number: u32, component: &Component, lane: usize, access: Access) {
        let argument = component.argument.expect("the verifier has checked the arguments of accumulators");
        // SAFETY: promised by the caller.
        unsafe {
            match (exact::fixed(self.lanes::<f64>(argument)[lane]), access) {
                (None, _) => self.update_object(field, number, component, lane),
                (Some(near), Access::Own) => change(field, |sum: Fixed| exact::add(sum, near)),
                (Some(near), Access::Shared) => shared::add_words(field, near),
            }
        }
    }

    /// Folds a key column into the hashes of rows.
    pub(super) fn hash_fold(&mut self, value: Value, hash: Value, key: Value, selection: &Selection) {
        let phys = self.program.type_of(key);
        let mut target = self.take(value);
        let (out, hashes) = (i64::slice_mut(&mut target), self.lanes::<i64>(hash));
        let keys = &self.registers[key.0 as usize];
        selection.each(|lane| {
            // SAFETY: the register holds values of its type, and strings outlive the run.
            out[lane] = unsafe { hash_fold(hashes[lane] as u64, phys, &slot_of(keys, lane)) } as i64;
        });
        self.put(value, target);
    }

    /// Updates one plain accumulator with the argument of a row.
    ///
    /// # Safety
    /// `field` is the address of an accumulator of this kind in the context's table.
    unsafe fn accumulate(&mut self, accumulator: Accumulator, field: *mut u8, component: &Component, lane: usize) {
        let Some(argument) = component.argument else {
            // SAFETY: only a Count has no argument.
            return unsafe { change(field, |count: i64| count.wrapping_add(1)) };
        };
        macro_rules! argument {
            ($ty:ty) => {
                self.lanes::<$ty>(argument)[lane]
            };
        }
        // SAFETY: promised by the caller.
        unsafe {
            match accumulator {
                Accumulator::Count | Accumulator::SumF64 | Accumulator::Group | Accumulator::Object(..) => {
                    unreachable!("the verifier has checked the arguments of accumulators")
                }
                Accumulator::SumI64 => change(field, |sum: i64| sum.wrapping_add(argument!(i64))),
                Accumulator::SumI128 => change(field, |sum: i128| sum.wrapping_add(argument!(i128))),
                Accumulator::MinI64 => change(field, |a: i64| a.min(argument!(i64))),
                Accumulator::MaxI64 => change(field, |a: i64| a.max(argument!(i64))),
                Accumulator::MinI128 => change(field, |a: i128| a.min(argument!(i128))),
                Accumulator::MaxI128 => change(field, |a: i128| a.max(argument!(i128))),
                Accumulator::MinF64 => {
                    let x = argument!(f64);
                    change(field, |a: f64| if float_order(x) < float_order(a) { x } else { a });
                }
                Accumulator::MaxF64 => {
                    let x = argument!(f64);
                    change(field, |a: f64| if float_order(x) > float_order(a) { x } else { a });
                }
                Accumulator::MinStr | Accumulator::MaxStr => {
                    let x = argument!(Str);
                    let a = Str::from_bits(field.cast::<u128>().read_unaligned());
                    if a == Str::NONE || replaces(accumulator == Accumulator::MinStr, x, a) {
                        self.keep(field, x);
                    }
                }
            }
        }
    }

    /// [`Machine::accumulate`], while other tasks do the same.
    ///
    /// # Safety
    /// As for [`Machine::accumulate`], in a table that can be shared; all who use the accumulator do so atomically.
    unsafe fn accumulate_shared(&self, accumulator: Accumulator, field: *mut u8, component: &Component, lane: usize) {
        let Some(argument) = component.argument else {
            // SAFETY: only a Count has no argument.
            return unsafe { shared::add(field, 1) };
        };
        macro_rules! argument {
            ($ty:ty) => {
                self.lanes::<$ty>(argument)[lane]
            };
        }
        // SAFETY: promised by the caller.
        unsafe {
            match accumulator {
                Accumulator::SumI64 => shared::add(field, argument!(i64)),
                Accumulator::SumI128 => shared::add_wide(field, argument!(i128)),
                Accumulator::MinI64 => shared::replace(field, argument!(i64), |x, a| x < a),
                Accumulator::MaxI64 => shared::replace(field, argument!(i64), |x, a| x > a),
                Accumulator::MinI128 => shared::replace_wide(field, argument!(i128), |x, a| x < a),
                Accumulator::MaxI128 => shared::replace_wide(field, argument!(i128), |x, a| x > a),
                Accumulator::MinF64 => shared::replace_float(field, argument!(f64), |x, a| x < a),
                Accumulator::MaxF64 => shared::replace_float(field, argument!(f64), |x, a| x > a),
                _ => unreachable!("the verifier has checked that the layout allows sharing"),
            }
        }
    }

    /// Stores a string in an accumulator; the table gets its own copy of long bytes.
    unsafe fn keep(&mut self, field: *mut u8, mut string: Str) {
        if !string.is_inline() {
            let keep_string = self.context.keep_string.expect(IS_THERE);
            // SAFETY: promised by the caller of `update`.
            unsafe { keep_string(self.context, &mut string) };
        }
        // SAFETY: the layout places 16 bytes there.
        unsafe { field.cast::<u128>().write_unaligned(string.bits()) };
    }
}

/// The word that says whether an entry is there, and its hash. If so, its key is there as well: in a shared table that is
/// what the acquire ordering is for.
///
/// # Safety
/// `entry` is an entry of a table, perhaps an empty one.
unsafe fn hash_word_of(entry: *mut u8) -> u64 {
    // SAFETY: promised by the caller; entries are aligned to 8.
    unsafe { AtomicU64::from_ptr(entry.cast()) }.load(Ordering::Acquire)
}

/// The entry of a key in the hash part of a table.
///
/// # Safety
/// The header is that of a table of the layout, and the key is one for it.
unsafe fn search(
    header: &TableHeader,
    layout: &EntryLayout,
    hash: u64,
    null_mask: u64,
    keys: &[Slot],
) -> Option<*mut u8> {
    let mut index = hash & header.mask;
    loop {
        // SAFETY: the hash part has `mask + 1` entries, of which some are empty, and each starts with its hash.
        unsafe {
            let entry = header.entries.add(index as usize * layout.stride);
            match hash_word_of(entry) {
                HASH_EMPTY => return None,
                found if found == hash && holds(layout, entry, keys, null_mask) => return Some(entry),
                _ => index = (index + 1) & header.mask,
            }
        }
    }
}

/// Whether `x` takes the place of `a` as minimum or maximum.
///
/// # Safety
/// Both strings are alive, and neither is [`Str::NONE`].
unsafe fn replaces(minimum: bool, x: Str, a: Str) -> bool {
    // SAFETY: promised by the caller.
    let (x, a) = unsafe { (x.as_bytes(), a.as_bytes()) };
    if minimum { x < a } else { x > a }
}

/// Replaces a field of an entry by a function of it.
///
/// # Safety
/// `field` is the address of a `T`, which need not be aligned.
unsafe fn change<T>(field: *mut u8, f: impl FnOnce(T) -> T) {
    let field = field.cast::<T>();
    // SAFETY: promised by the caller.
    unsafe { field.write_unaligned(f(field.read_unaligned())) };
}
