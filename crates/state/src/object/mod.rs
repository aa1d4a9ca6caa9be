//! Objects: accumulators that keep single values or sketches (`Accumulator::Object`, but for lists, which are in `list`).
//!
//! An entry holds a pointer of 8 bytes, null while there is nothing. Every pointer that is not null in an occupied entry
//! is one strong reference to an [`Object`]: who copies an entry retains its objects, who forgets one releases them.
//! An object that others share is never changed: [`writable`] puts a copy in its place. So merging and overlapping
//! windows may share the objects of sealed partials.

mod encoding;
mod exact;
mod fold;
mod sketch;
mod values;
mod weights;

use crate::entry::{read, write};
pub(crate) use exact::Exact;
use fold::Folded;
pub use fold::{Fold, FoldState, register_fold, set_run};
use millstream_abi::{Accumulator, EntryLayout, ObjectKind, Phys, Slot};
use sketch::{Cardinality, Quantiles};
use std::cmp::Ordering;
use std::mem::ManuallyDrop;
use std::sync::Arc;
pub(crate) use values::{Values, key_of_number, number_of_key, positive_zero, string, word};
pub(crate) use weights::Weights;

/// Place of a row in the input of a query, in the order in which keyed operators consume rows. It depends on the input
/// alone, neither on workers nor on when a watermark came. The same holds for results that depend on the order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal {
    /// Watermark of the row's stream before it, in milliseconds. Of rows that a station has put out it is the highest one under
    /// which they are not put out: `window_end - 2` of a window's rows.
    pub watermark: i64,
    /// Number of the source or station that the row comes from; a job keeps it over restarts and changes of its script.
    pub input: u16,
    /// Number of the source's split; 0 for stations.
    pub split: u32,
    /// Of a split: rows of it before this one. Of a station: the partition, and the row's place among those that it puts out
    /// there under the same watermark. Behind that the row's place among those made of one.
    pub position: u64,
    /// Pipeline that has brought the row: several may make rows of one, such as those of a UNION ALL of a table with
    /// itself.
    pub pipeline: u16,
}

impl Ordinal {
    /// The place of rows whose order nobody asks for.
    pub const NOWHERE: Ordinal = Ordinal { watermark: i64::MIN, input: 0, split: 0, position: 0, pipeline: 0 };
}

/// What a row does to what is kept of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It comes, and has this place.
    Added(Ordinal),
    /// It has come before and is taken back. Only sums of doubles and [`ObjectKind::Weights`] can forget a value; the sums get it negated.
    TakenBack,
}

impl Change {
    /// The place of a row for what cannot forget it.
    ///
    /// # Panics
    /// When the row is taken back.
    pub(crate) fn place(self) -> Ordinal {
        match self {
            Change::Added(place) => place,
            Change::TakenBack => unreachable!("only what can forget a value is planned for rows that are taken back"),
        }
    }
}

/// What an entry points to.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Single(Single),
    Cardinality(Cardinality),
    Quantiles(Quantiles),
    Folded(Folded),
    Exact(Box<Exact>),
    Weights(Weights),
}

/// The value with the smallest ordinal, or the largest.
#[derive(Debug, Clone)]
pub(crate) struct Single {
    is_last: bool,
    at: Ordinal,
    pub(crate) value: Values,
}

impl Object {
    /// The object of one value; `None` for a first or last value that is NULL.
    ///
    /// # Safety
    /// `value` is of the type `phys`, and its string is alive.
    unsafe fn of(kind: ObjectKind, phys: Phys, value: Option<&Slot>, change: Change) -> Option<Object> {
        let mut object = match kind {
            ObjectKind::List { .. } | ObjectKind::Bag | ObjectKind::Distinct => {
                unreachable!("a list is no object")
            }
            ObjectKind::First | ObjectKind::Last => {
                let (mut first, value) = (Values::new(phys), value?);
                // SAFETY: promised by the caller.
                unsafe { first.push(phys, value) };
                return Some(Object::Single(Single {
                    is_last: kind == ObjectKind::Last,
                    at: change.place(),
                    value: first,
                }));
            }
            ObjectKind::Cardinality => Object::Cardinality(Cardinality::new()),
            ObjectKind::Quantiles => Object::Quantiles(Quantiles::new()),
            ObjectKind::Exact => Object::Exact(Box::new(Exact::new())),
            ObjectKind::Weights => Object::Weights(Weights::new(phys)),
            ObjectKind::Fold { number, rows } => Object::Folded(Folded::new(number, rows)),
        };
        // SAFETY: forwarded.
        unsafe { object.update(phys, value, change) };
        Some(object)
    }

    /// Takes in a value, or forgets it; NULL is none.
    ///
    /// # Safety
    /// As for [`Object::of`].
    unsafe fn update(&mut self, phys: Phys, value: Option<&Slot>, change: Change) {
        let Some(value) = value else { return };
        let number = || f64::from_le_bytes(value.bytes());
        // SAFETY: forwarded in every arm.
        unsafe {
            match (self, change) {
                (Object::Weights(weights), change) => weights.update(phys, value, change),
                (Object::Exact(sum), Change::Added(_)) => sum.push(number()),
                (Object::Exact(sum), Change::TakenBack) => sum.take_back(-number()),
                (object, Change::TakenBack) => unreachable!("{object:?} forgets no value"),
                // Of one row the first value is the first, and the last the last.
                (Object::Single(kept), Change::Added(place)) if (place >= kept.at) == kept.is_last => {
                    kept.at = place;
                    kept.value.replace(phys, value);
                }
                (Object::Single(_), _) => {}
                (Object::Cardinality(sketch), _) => sketch.insert(phys, value),
                (Object::Quantiles(sketch), _) => sketch.insert(number()),
                (Object::Folded(folded), _) => folded.push(phys, value),
            }
        }
    }

    /// Takes in another object of the same kind and type.
    fn merge(&mut self, other: &Arc<Object>) {
        match (self, &**other) {
            (Object::Single(kept), Object::Single(other)) => {
                let replaces = if kept.is_last { Ordering::Greater } else { Ordering::Less };
                if (&other.at, &other.value).cmp(&(&kept.at, &kept.value)) == replaces {
                    *kept = other.clone();
                }
            }
            (Object::Cardinality(sketch), Object::Cardinality(other)) => sketch.merge(other),
            (Object::Quantiles(sketch), Object::Quantiles(other)) => sketch.merge(other),
            (Object::Folded(folded), Object::Folded(other)) => folded.merge(other),
            (Object::Exact(sum), Object::Exact(other)) => sum.merge(other),
            (Object::Weights(weights), Object::Weights(other)) => weights.merge(other),
            _ => unreachable!("one component has objects of one kind"),
        }
    }

    /// Bytes of memory, as if nothing were shared.
    pub(crate) fn bytes(&self) -> usize {
        let inner = match self {
            Object::Single(kept) => kept.value.bytes(),
            Object::Cardinality(sketch) => sketch.bytes(),
            Object::Quantiles(sketch) => sketch.bytes(),
            Object::Folded(folded) => folded.bytes(),
            Object::Exact(_) => size_of::<Exact>(),
            Object::Weights(weights) => weights.bytes(),
        };
        size_of::<Object>() + inner
    }
}

/// Whether entries of the layout have objects.
pub(crate) fn has_objects(layout: &EntryLayout) -> bool {
    offsets(layout).next().is_some()
}

/// Offsets of the objects in entries of the layout.
fn offsets(layout: &EntryLayout) -> impl Iterator<Item = usize> + use<'_> {
    let is_object = |a: Accumulator| matches!(a, Accumulator::Object(..)) && !a.is_list();
    let objects = layout.accumulators.iter().filter(move |(a, _)| is_object(*a));
    objects.map(|&(_, offset)| offset)
}

/// The object at `offset`, if there is one.
///
/// # Safety
/// `entry` is an entry with an object there, and is not changed while the reference lives.
pub(crate) unsafe fn object_at<'a>(entry: *const u8, offset: usize) -> Option<&'a Object> {
    // SAFETY: promised by the caller; a pointer that is not null is a strong reference.
    unsafe { read::<*const Object>(entry, offset).as_ref() }
}

/// The reference at `offset` without its count.
///
/// # Safety
/// As for [`object_at`].
unsafe fn borrowed(entry: *const u8, offset: usize) -> Option<ManuallyDrop<Arc<Object>>> {
    // SAFETY: as in `object_at`; all objects are made by `Arc`, and the count stays the entry's.
    unsafe {
        let pointer = read::<*const Object>(entry, offset);
        (!pointer.is_null()).then(|| ManuallyDrop::new(Arc::from_raw(pointer)))
    }
}

/// The object at `offset` for writing: the entry's own, or a copy that it becomes the owner of.
///
/// # Safety
/// As for [`object_at`], the entry is ours to write, and its pointer is not null.
unsafe fn writable(entry: *mut u8, offset: usize) -> *mut Object {
    // SAFETY: the pointer is a strong reference that is taken out of the entry and put back.
    unsafe {
        let mut object = Arc::from_raw(read::<*const Object>(entry, offset));
        if Arc::get_mut(&mut object).is_none() {
            object = Arc::new(Object::clone(&object));
        }
        let pointer = Arc::into_raw(object).cast_mut();
        write(entry, offset, pointer);
        pointer
    }
}

/// Updates the object at `accumulator`, which is null for a fresh one. Returns how many bytes it has grown by; one that has folded what it kept has shrunk.
///
/// # Safety
/// `accumulator` points to the object's place in an entry that is ours to write; `value` is of the type `phys`, and its
/// string is alive.
pub(crate) unsafe fn update(
    accumulator: *mut u8,
    kind: ObjectKind,
    phys: Phys,
    value: Option<&Slot>,
    change: Change,
) -> isize {
    if value.is_none() {
        return 0;
    }
    // SAFETY: promised by the caller.
    unsafe {
        if read::<*const Object>(accumulator, 0).is_null() {
            let Some(object) = Object::of(kind, phys, value, change) else { return 0 };
            let bytes = object.bytes();
            write(accumulator, 0, Arc::into_raw(Arc::new(object)));
            bytes.cast_signed()
        } else {
            let object = &mut *writable(accumulator, 0);
            let before = object.bytes();
            object.update(phys, value, change);
            object.bytes().cast_signed() - before.cast_signed()
        }
    }
}

/// Merges the object at `offset` of entry `from` into that of `into`.
///
/// # Safety
/// Both are entries with an object of one kind there; `into` is ours to write.
pub(crate) unsafe fn merge(offset: usize, into: *mut u8, from: *const u8) {
    // SAFETY: promised by the caller.
    unsafe {
        let Some(other) = borrowed(from, offset) else { return };
        if read::<*const Object>(into, offset).is_null() {
            write(into, offset, Arc::into_raw(Arc::clone(&other)));
        } else {
            (*writable(into, offset)).merge(&other);
        }
    }
}

/// Counts the references of an entry that has been copied.
///
/// # Safety
/// `entry` is an entry of `layout`.
pub(crate) unsafe fn retain(layout: &EntryLayout, entry: *const u8) {
    for offset in offsets(layout) {
        // SAFETY: the entry has an object there; the clone's count becomes that of the copied entry.
        unsafe {
            if let Some(object) = borrowed(entry, offset) {
                std::mem::forget(Arc::clone(&object));
            }
        }
    }
}

/// Gives up the references of an entry and sets them to null.
///
/// # Safety
/// `entry` is an entry of `layout` that is ours to write.
pub(crate) unsafe fn release(layout: &EntryLayout, entry: *mut u8) {
    for offset in offsets(layout) {
        // SAFETY: the entry has an object there, and its count goes with the pointer.
        unsafe {
            if let Some(object) = borrowed(entry, offset) {
                write(entry, offset, std::ptr::null::<Object>());
                drop(ManuallyDrop::into_inner(object));
            }
        }
    }
}

/// Gives up the references of entries that are not used any more.
///
/// # Safety
/// As for [`release`], of each entry.
pub(crate) unsafe fn release_all(layout: &EntryLayout, entries: impl Iterator<Item = *mut u8>) {
    if has_objects(layout) {
        // SAFETY: promised by the caller.
        entries.for_each(|entry| unsafe { release(layout, entry) });
    }
}

/// Bytes of the objects of an entry.
///
/// # Safety
/// `entry` is an entry of `layout`.
pub(crate) unsafe fn bytes(layout: &EntryLayout, entry: *const u8) -> usize {
    // SAFETY: promised by the caller.
    offsets(layout).filter_map(|offset| unsafe { object_at(entry, offset) }).map(Object::bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    fn place(position: u64) -> Ordinal {
        Ordinal { watermark: 0, input: 0, split: 0, position, pipeline: 0 }
    }

    fn table_of_last(number: i64) -> Table {
        let last = Accumulator::Object(ObjectKind::Last, Phys::I64);
        let mut table = Table::new(Arc::new(EntryLayout::new(&[], &[last])));
        let offset = table.layout().accumulators[0].1;
        // SAFETY: the table is empty; its only entry has the object at the offset.
        unsafe {
            let only = table.insert(7, 0, &[]);
            let added = Change::Added(place(number as u64));
            table.update_object(only.add(offset), 0, Some(Slot::of(number.to_le_bytes())), added);
        }
        table
    }

    fn value(object: &Object) -> &[i64] {
        let Object::Single(Single { value: Values::Words(words), .. }) = object else {
            unreachable!("the table has last values")
        };
        words
    }

    #[test]
    fn merges_share_the_objects_of_partials_and_leave_them_as_they_are() {
        let partials = [3, 5].map(|number| Arc::new(table_of_last(number).seal()));
        let offset = partials[0].layout().accumulators[0].1;
        let only = partials[0].entries_of(&partials[0].partitions()).next().unwrap();
        // SAFETY: the entry has the object at the offset.
        let witness = unsafe { Arc::clone(&borrowed(only, offset).unwrap()) };
        assert_eq!(Arc::strong_count(&witness), 2);
        let merged = crate::merge(&partials, partials[0].partitions());
        // SAFETY: as above.
        assert_eq!(value(unsafe { object_at(merged.entries()[0], offset) }.unwrap()), [5]);
        assert_eq!(value(&witness), [3]);
        drop(merged);
        assert_eq!(Arc::strong_count(&witness), 2, "the merged row has given up its share");
        drop(partials);
        assert_eq!(Arc::strong_count(&witness), 1, "the partial has given up its own");
    }
}
