//! Layout of one entry of a table: hash, keys, accumulators, in fixed places of a fixed stride.
//!
//! ```text
//! offset 0      8                     8+…                         stride (multiple of 16)
//! ┌──────┬──────────────────┬─────────────────┬───────────────────┐
//! │ hash │ null mask of keys│ key 0, key 1, … │ accumulator 0, …  │
//! └──────┴──────────────────┴─────────────────┴───────────────────┘
//! ```
//!
//! `hash` = 0 marks an empty entry, `hash` = 1 one of a shared table that is being written. The null mask is there only
//! when a key is nullable: bit *i* set means key *i* is NULL, and then the key's bytes are zero. Every field is aligned to
//! its size, 16-byte fields to 16, sums of doubles to 8.
//!
//! A table has two parts:
//!
//! ```text
//! hash part     mask + 1 entries, searched linearly from `hash & mask` (open addressing), always with empty ones
//! dense region  dense_len entries, number `key - dense_first` is that of the key; perhaps none
//! ```
//!
//! The dense region is for a single integer key ([`EntryLayout::dense_key`]) whose values lie close together: its entries
//! are found without hashing or comparing. A key that the region covers is in the region, all others, and NULL, are in the
//! hash part. Where accumulators are numbers, and one task owns the table, the region is an array of accumulators
//! ([`EntryLayout::array`]): each entry is fresh from the beginning, and nothing is inserted. Otherwise it has whole
//! entries. (A key of a shared table may be in either part, and more than once.) A partial holds the same, without the
//! empty entries, so merging needs no conversion.
//!
//! Keys of several integers have no dense region, but where these lie close together they are packed into one number, by
//! which a *directory* says where entries are in the hash part ([`PackedKey`]). It is no more than a shortcut: what it does
//! not know is searched, and told to it.

use crate::{Phys, Str};
use std::ops::Range;

/// One accumulator component of an aggregate: its layout, its update and its merge.
///
/// SQL aggregates are compositions of these (`AVG` is a sum and a count); the final value is an ordinary
/// expression over the components. Each is commutative and associative, so the order of rows and of merges does
/// not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// `i64`: number of rows whose guard holds.
    Count,
    /// `i64`: wrapping sum of integers (sign-extended).
    SumI64,
    /// `i128`: wrapping sum of unscaled decimals.
    SumI128,
    /// [`exact::Fixed`](crate::exact::Fixed): exact sum of the numbers that are near; who has the table keeps the sum of the others,
    /// by key. So the result is the double nearest to the sum, in whatever order rows and merges come.
    SumF64,
    /// `i64`: minimum of integers (sign-extended); starts as `i64::MAX`.
    MinI64,
    /// `i64`: maximum; starts as `i64::MIN`.
    MaxI64,
    /// `i128` minimum; starts as `i128::MAX`.
    MinI128,
    /// `i128` maximum; starts as `i128::MIN`.
    MaxI128,
    /// `f64` minimum by IEEE total order of numbers, NaN above all; starts as NaN.
    MinF64,
    /// `f64` maximum, NaN above all; starts as -∞.
    MaxF64,
    /// [`Str`] minimum in byte order; starts as [`Str::NONE`]. Long bytes are owned by the table.
    MinStr,
    /// [`Str`] maximum in byte order; starts as [`Str::NONE`].
    MaxStr,
    /// `u64` number of the entry among those of its table, in the order of insertion; set by `insert_key`. An update does
    /// not change it but reports it for the row, in `ExecContext::groups`. Only in tables that are never merged.
    Group,
    /// Pointer (8 bytes) to an object of the state crate, null at first: what keeps values or a sketch. Updated by
    /// `ExecContext::update_object` with an argument of the type.
    Object(ObjectKind, Phys),
}

/// What an [`Accumulator::Object`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// All values, each with its place in the input, so that they can be put in order.
    List {
        /// Whether NULL is a value; if not, updates bring none.
        keeps_nulls: bool,
    },
    /// All values without their places: for results that do not depend on order. NULL is not one.
    Bag,
    /// Distinct values.
    Distinct,
    /// The value with the first place in the input.
    First,
    /// The value with the last place.
    Last,
    /// A sketch of the number of distinct values (HyperLogLog++).
    Cardinality,
    /// A sketch of the distribution of numbers (DDSketch); the argument is F64.
    Quantiles,
    /// An exact sum of doubles, whatever their exponents; the argument is F64. Of a row that is taken back it has been negated.
    Exact,
    /// Every value with its weight: how often it has come, less how often it was taken back. Values whose weight is positive are shown, as
    /// often as that. NULL is not one.
    Weights,
    /// The state of an aggregate function of the program; the argument is a string of bytes.
    Fold {
        /// Of the function in this process.
        number: u32,
        /// Rows that are kept before they are folded into the state.
        rows: u16,
    },
}

impl ObjectKind {
    /// Whether it is all values of a group, or all distinct ones. While a table is filled they are in its [`ValueLog`], and the accumulator is a
    /// number.
    pub const fn is_list(self) -> bool {
        matches!(self, ObjectKind::List { .. } | ObjectKind::Bag | ObjectKind::Distinct)
    }

    /// As in [`Accumulator::name`].
    const fn name(self) -> &'static str {
        match self {
            ObjectKind::List { keeps_nulls: false } => "LIST",
            ObjectKind::List { keeps_nulls: true } => "LIST_WITH_NULLS",
            ObjectKind::Bag => "BAG",
            ObjectKind::Distinct => "DISTINCT",
            ObjectKind::First => "FIRST",
            ObjectKind::Last => "LAST",
            ObjectKind::Cardinality => "CARDINALITY",
            ObjectKind::Quantiles => "QUANTILES",
            ObjectKind::Exact => "EXACT",
            ObjectKind::Weights => "WEIGHTS",
            // Which function it is stands in the argument.
            ObjectKind::Fold { .. } => "FOLD",
        }
    }
}

/// What a column of a trigger's output shows of an accumulator.
#[derive(Debug, Clone, PartialEq)]
pub enum Finish {
    /// The value of a plain accumulator; of [`ObjectKind::First`] and [`ObjectKind::Last`] the value, NULL when there is
    /// none.
    Value,
    /// Of a List, Bag or Distinct: number of values, BIGINT; of a Weights that of the distinct ones.
    Count,
    /// Of a Distinct, or the distinct values of a Weights: sum of the values in the type of the column (integers wrap); NULL when there is
    /// none, or when decimals do not fit 128 bits.
    Sum,
    /// Of a List, Bag or Weights of numbers as F64: value at the fraction (0 to 1) of the sorted values, interpolated between neighbours,
    /// DOUBLE; NULL when there is none.
    Percentile(f64),
    /// Of a List, Bag or Weights: the most frequent value, the smallest of those; NULL when there is none.
    Mode,
    /// Of a List: an ARRAY, in order of the input, of a Weights in ascending order; NULL when there is none.
    Array,
    /// Of a List: an ARRAY of the distinct values in the order in which they first came, of a Weights in ascending order; NULL when there
    /// is none.
    DistinctArray,
    /// Of a List, Bag, Distinct or Weights: a MAP from each value to how often it is there (Flink's MULTISET), in ascending
    /// order; NULL when there is none.
    Multiset,
    /// Of strings: the values of [`Finish::Array`], joined by the separator; NULL when there is none.
    Join(Box<str>),
    /// As [`Finish::Join`], of the values of [`Finish::DistinctArray`].
    DistinctJoin(Box<str>),
    /// Of a Cardinality: the estimate, BIGINT.
    Estimate,
    /// Of a Quantiles: the estimated value at the fraction, DOUBLE; NULL when there is none.
    Quantile(f64),
    /// Of a Fold: all that it keeps, BYTES; NULL when there is none.
    State,
    /// Of a Weights: the smallest value, of doubles with -0.0 below 0.0 and NaN above all; NULL when there is none.
    Least,
    /// The largest value, as in [`Finish::Least`].
    Greatest,
}

impl Finish {
    /// A name that stays as it is, with its constants.
    pub fn name(&self) -> String {
        let plain = match self {
            Finish::Value => "VALUE",
            Finish::Count => "COUNT",
            Finish::Sum => "SUM",
            Finish::Percentile(fraction) => return format!("PERCENTILE {fraction:?}"),
            Finish::Mode => "MODE",
            Finish::Array => "ARRAY",
            Finish::DistinctArray => "DISTINCT_ARRAY",
            Finish::Multiset => "MULTISET",
            Finish::Join(separator) => return format!("JOIN {separator}"),
            Finish::DistinctJoin(separator) => return format!("DISTINCT_JOIN {separator}"),
            Finish::Estimate => "ESTIMATE",
            Finish::Quantile(fraction) => return format!("QUANTILE {fraction:?}"),
            Finish::State => "STATE",
            Finish::Least => "LEAST",
            Finish::Greatest => "GREATEST",
        };
        plain.into()
    }
}

impl Accumulator {
    /// A name that stays as it is: checkpoints say by it what entries hold.
    pub fn name(self) -> String {
        let plain = match self {
            Accumulator::Count => "COUNT",
            Accumulator::SumI64 => "SUM_I64",
            Accumulator::SumI128 => "SUM_I128",
            Accumulator::SumF64 => "SUM_F64",
            Accumulator::MinI64 => "MIN_I64",
            Accumulator::MaxI64 => "MAX_I64",
            Accumulator::MinI128 => "MIN_I128",
            Accumulator::MaxI128 => "MAX_I128",
            Accumulator::MinF64 => "MIN_F64",
            Accumulator::MaxF64 => "MAX_F64",
            Accumulator::MinStr => "MIN_STR",
            Accumulator::MaxStr => "MAX_STR",
            Accumulator::Group => "GROUP",
            Accumulator::Object(kind, argument) => return format!("{}_{}", kind.name(), argument.name()),
        };
        plain.into()
    }

    /// Type of the argument of an update; `None` for COUNT.
    pub const fn argument(self) -> Option<Phys> {
        match self {
            Accumulator::Count | Accumulator::Group => None,
            Accumulator::SumI64 | Accumulator::MinI64 | Accumulator::MaxI64 => Some(Phys::I64),
            Accumulator::SumI128 | Accumulator::MinI128 | Accumulator::MaxI128 => Some(Phys::I128),
            Accumulator::SumF64 | Accumulator::MinF64 | Accumulator::MaxF64 => Some(Phys::F64),
            Accumulator::MinStr | Accumulator::MaxStr => Some(Phys::Str),
            Accumulator::Object(_, argument) => Some(argument),
        }
    }

    /// Whether it is a list.
    pub const fn is_list(self) -> bool {
        matches!(self, Accumulator::Object(kind, _) if kind.is_list())
    }

    /// Whether code appends its values to a [`ValueLog`] itself.
    pub const fn is_logged_inline(self) -> bool {
        matches!(self, Accumulator::Object(ObjectKind::Bag | ObjectKind::Distinct, Phys::I64 | Phys::F64))
    }

    /// Type of the component as a column of a trigger's output (SumF64 gives the nearest double); of an object, whose columns
    /// are made by a [`Finish`], that of the values in it.
    pub const fn output(self) -> Phys {
        match self.argument() {
            None => Phys::I64,
            Some(phys) => phys,
        }
    }

    /// Whether an update needs to know the place of its row in the input.
    pub const fn keeps_places(self) -> bool {
        use ObjectKind::{First, Last, List};
        matches!(self, Accumulator::Object(List { .. } | First | Last, _))
    }

    /// Whether a merge can be undone exactly.
    pub const fn is_invertible(self) -> bool {
        matches!(self, Accumulator::Count | Accumulator::SumI64 | Accumulator::SumI128 | Accumulator::SumF64)
    }

    /// Whether several workers can update it at once by atomic instructions: all plain ones but strings, and those of 128
    /// bits that are replaced as a whole only where the machine can do that.
    pub fn allows_sharing(self) -> bool {
        use Accumulator::*;
        match self {
            Count | SumI64 | SumI128 | SumF64 | MinI64 | MaxI64 | MinF64 | MaxF64 => true,
            MinI128 | MaxI128 => exchanges_128_bits(),
            MinStr | MaxStr | Group | Object(..) => false,
        }
    }

    /// Bytes in the entry.
    pub const fn size(self) -> usize {
        match self {
            Accumulator::SumF64 => size_of::<crate::exact::Fixed>(),
            Accumulator::Object(..) => 8,
            _ => self.output().size(),
        }
    }

    /// Alignment in the entry.
    pub const fn align(self) -> usize {
        match self {
            Accumulator::SumF64 => 8,
            other => other.size(),
        }
    }

    /// Bytes of a fresh accumulator; the first [`Accumulator::size`] of the 24 count.
    pub fn initial(self) -> [u8; 24] {
        let bits: u128 = match self {
            Accumulator::Count
            | Accumulator::SumI64
            | Accumulator::SumI128
            | Accumulator::SumF64
            | Accumulator::Group
            | Accumulator::Object(..) => 0,
            Accumulator::MinI64 => i64::MAX as u64 as u128,
            Accumulator::MaxI64 => i64::MIN as u64 as u128,
            Accumulator::MinI128 => i128::MAX as u128,
            Accumulator::MaxI128 => i128::MIN as u128,
            Accumulator::MinF64 => f64::NAN.to_bits() as u128,
            Accumulator::MaxF64 => f64::NEG_INFINITY.to_bits() as u128,
            Accumulator::MinStr | Accumulator::MaxStr => Str::NONE.bits(),
        };
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&bits.to_le_bytes());
        bytes
    }
}

/// Whether the machine compares and swaps 16 bytes at once.
fn exchanges_128_bits() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("cmpxchg16b");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Most keys that are packed.
pub const MOST_PACKED: usize = 6;

/// The place of a key within a packed one: of keys `k` from the first to the last the packed key is `p = p << bits | (k - first)`.
/// It is covered if all `k - first`, without sign, are below `1 << bits`, and no key is NULL.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackedKey {
    /// The least value that is covered.
    pub first: i64,
    /// How many bits it has, less than 64.
    pub bits: u64,
}

/// A key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeySlot {
    /// Byte offset in the entry.
    pub offset: usize,
    /// Type; stored in its natural size.
    pub phys: Phys,
    /// Whether bit *i* of the null mask can be set for this key.
    pub nullable: bool,
}

/// Accumulators [`Accumulator::Count`] that tell by their numbers whether a row has updated an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Counters {
    /// There are none.
    #[default]
    None,
    /// One that every update increases.
    One(usize),
    /// Two, of which every update increases one at least: those of the inputs of a join.
    EachOf(usize, usize),
}

impl Counters {
    /// The one that counts all rows.
    pub fn of_all(self) -> Option<usize> {
        match self {
            Counters::One(number) => Some(number),
            Counters::None | Counters::EachOf(..) => None,
        }
    }

    /// All numbers.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        let (one, other) = match self {
            Counters::None => (None, None),
            Counters::One(number) => (Some(number), None),
            Counters::EachOf(one, other) => (Some(one), Some(other)),
        };
        one.into_iter().chain(other)
    }
}

/// Where everything is in an entry of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryLayout {
    /// Keys in order; at most 64.
    pub keys: Vec<KeySlot>,
    /// Offset of the `u64` null mask, if any key is nullable.
    pub null_mask: Option<usize>,
    /// Accumulators with their byte offsets.
    pub accumulators: Vec<(Accumulator, usize)>,
    /// Bytes from one entry to the next; a multiple of 16 when a 16-byte field is in it, else of 8.
    pub stride: usize,
    /// Accumulators that every update increases, if there are such.
    pub counters: Counters,
    /// Whether an entry's partition follows from its key, which is an integer, and not from the hash.
    pub by_key: bool,
    /// Bits of the number of a partition, 12 at most. Generated code knows none of it: programs of all jobs have the same.
    pub partition_bits: u32,
}

impl EntryLayout {
    /// Most key columns of a table: the bits of the null mask.
    pub const MAX_KEYS: usize = 64;

    /// Lays out keys (type, nullable) and accumulators, each in its order, in 16 partitions.
    pub fn new(keys: &[(Phys, bool)], accumulators: &[Accumulator]) -> EntryLayout {
        assert!(keys.len() <= EntryLayout::MAX_KEYS, "at most 64 key columns");
        let mut end: usize = 8;
        let mut align = 8;
        let mut place = |size: usize, aligned: usize| {
            align = align.max(aligned);
            let offset = end.next_multiple_of(aligned);
            end = offset + size;
            offset
        };
        let null_mask = keys.iter().any(|&(_, nullable)| nullable).then(|| place(8, 8));
        let keys = keys.iter().map(|&(phys, nullable)| {
            let size = phys.size();
            KeySlot { offset: place(size, size), phys, nullable }
        });
        let keys: Vec<KeySlot> = keys.collect();
        let accumulators: Vec<_> = accumulators.iter().map(|&a| (a, place(a.size(), a.align()))).collect();
        let stride = end.next_multiple_of(align);
        let (counters, partition_bits) = (Counters::None, 4);
        let layout = EntryLayout { keys, null_mask, accumulators, stride, counters, by_key: false, partition_bits };
        EntryLayout { by_key: layout.allows_arrays(), ..layout }
    }

    /// The same, whose entries are in `1 << bits` partitions.
    pub fn in_partitions(self, bits: u32) -> EntryLayout {
        debug_assert!(bits <= 12, "partitions of a job are at most 4,096");
        EntryLayout { partition_bits: bits, ..self }
    }

    /// All partitions.
    pub fn partitions(&self) -> Range<usize> {
        0..1 << self.partition_bits
    }

    /// Whether entries have sums of doubles, some of which may be kept elsewhere.
    pub fn has_exact_sums(&self) -> bool {
        self.accumulators.iter().any(|(accumulator, _)| *accumulator == Accumulator::SumF64)
    }

    /// The layout of what is kept elsewhere of the sums of doubles: the same keys, in the same partitions, with an object
    /// for each such sum, in their order.
    pub fn far(&self) -> EntryLayout {
        let keys: Vec<(Phys, bool)> = self.keys.iter().map(|key| (key.phys, key.nullable)).collect();
        let sums = self.accumulators.iter().filter(|(accumulator, _)| *accumulator == Accumulator::SumF64);
        let objects = vec![Accumulator::Object(ObjectKind::Exact, Phys::F64); sums.count()];
        EntryLayout { by_key: self.by_key, ..EntryLayout::new(&keys, &objects) }.in_partitions(self.partition_bits)
    }

    /// Which object of [`EntryLayout::far`] belongs to a sum.
    pub fn far_number(&self, component: usize) -> usize {
        let before = self.accumulators[..component].iter();
        before.filter(|(accumulator, _)| *accumulator == Accumulator::SumF64).count()
    }

    /// Which of the lists, and so of the logs of a table, a component is.
    pub fn list_number(&self, component: usize) -> usize {
        self.accumulators[..component].iter().filter(|(accumulator, _)| accumulator.is_list()).count()
    }

    /// The same, of which every update increases these accumulators.
    pub fn counted_by(self, counters: Counters) -> EntryLayout {
        debug_assert!(counters.numbers().all(|number| self.accumulators[number].0 == Accumulator::Count), "they count");
        EntryLayout { counters, ..self }
    }

    /// Whether entries can be in a table that several workers update at once. Not without keys: one entry for all rows is
    /// better kept by each worker for itself.
    pub fn allows_sharing(&self) -> bool {
        !self.keys.is_empty() && self.accumulators.iter().all(|(accumulator, _)| accumulator.allows_sharing())
    }

    /// Whether keys can be packed into one number: several of them, all integers of up to 64 bits or Booleans.
    pub fn packs(&self) -> bool {
        let is_word = |key: &KeySlot| key.phys == Phys::Bool || (key.phys.is_integer() && key.phys != Phys::I128);
        (2..=MOST_PACKED).contains(&self.keys.len()) && self.keys.iter().all(is_word)
    }

    /// The key by which entries can be in a dense region: the only one, when it is an integer of up to 64 bits.
    pub fn dense_key(&self) -> Option<KeySlot> {
        match self.keys[..] {
            [key] if key.phys.is_integer() && key.phys != Phys::I128 => Some(key),
            _ => None,
        }
    }
}

/// The part of a table that generated code reads: it searches entries itself and calls out only to insert.
///
/// Owned by one worker at a time; of a shared table each worker has its own. Every field may change at an insertion.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TableHeader {
    /// First entry of the hash part; 16-byte aligned.
    pub entries: *mut u8,
    /// Number of its entries minus one; a power of two minus one.
    pub mask: u64,
    /// First entry of the dense region; 16-byte aligned.
    pub dense: *mut u8,
    /// Key of that entry.
    pub dense_first: i64,
    /// Number of entries of the dense region; 0 when there is none.
    pub dense_len: u64,
    /// A log for each accumulator that is a list, in their order.
    pub logs: *mut ValueLog,
    /// By packed key: the place of its entry in the hash part, counted from 1, or 0. Whoever finds an entry by searching
    /// writes it down.
    pub directory: *mut u32,
    /// Length of the directory; 0 when there is none.
    pub directory_len: u64,
    /// How keys are packed.
    pub packing: [PackedKey; MOST_PACKED],
}

/// The values of the lists of a table, as they came: pairs of a number, which the group's accumulator has, and a value.
///
/// A value of an accumulator with a number that is not 0 is appended where there is room. Otherwise `update_object` is called, which gives
/// out numbers and makes room. Only values of one word are appended, and only those without a place in the input
/// ([`Accumulator::is_logged_inline`]).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ValueLog {
    /// Where the number of pair `used` goes, and those behind it.
    pub numbers: *mut u32,
    /// The same for values: the bits of an I64 or F64.
    pub values: *mut u64,
    /// Pairs in this part of the log.
    pub used: u64,
    /// Pairs that it has room for.
    pub room: u64,
}

impl TableHeader {
    /// That of no entries.
    pub const EMPTY: TableHeader = TableHeader {
        entries: std::ptr::null_mut(),
        mask: 0,
        dense: std::ptr::null_mut(),
        dense_first: 0,
        dense_len: 0,
        logs: std::ptr::null_mut(),
        directory: std::ptr::null_mut(),
        directory_len: 0,
        packing: [PackedKey { first: 0, bits: 0 }; MOST_PACKED],
    };

    /// The entry of a key in the dense region, if that covers it.
    #[inline]
    pub fn dense_entry(&self, key: i64, stride: usize) -> Option<*mut u8> {
        let index = key.wrapping_sub(self.dense_first) as u64;
        // The region is in memory, so the product fits.
        (index < self.dense_len).then(|| self.dense.wrapping_add(index as usize * stride))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned_and_do_not_overlap() {
        let layout = EntryLayout::new(
            &[(Phys::I8, false), (Phys::Str, true), (Phys::I32, false)],
            &[Accumulator::Count, Accumulator::SumI128],
        );
        assert_eq!(layout.null_mask, Some(8));
        let offsets: Vec<usize> = layout.keys.iter().map(|k| k.offset).collect();
        assert_eq!(offsets, [16, 32, 48]);
        assert_eq!(layout.accumulators, [(Accumulator::Count, 56), (Accumulator::SumI128, 64)]);
        assert_eq!(layout.stride, 80);
        assert_eq!(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]).stride, 24);
    }

    #[test]
    fn one_integer_key_can_be_dense() {
        let dense = |keys: &[(Phys, bool)]| EntryLayout::new(keys, &[]).dense_key().is_some();
        assert!(dense(&[(Phys::I8, false)]) && dense(&[(Phys::I64, true)]));
        assert!(!dense(&[]) && !dense(&[(Phys::Bool, false)]) && !dense(&[(Phys::I128, false)]));
        assert!(!dense(&[(Phys::I32, false), (Phys::I32, false)]));
    }

    #[test]
    fn dense_regions_may_lie_anywhere() {
        let (entries, dense) = (std::ptr::null_mut(), std::ptr::without_provenance_mut(1 << 20));
        let logs = std::ptr::null_mut();
        let header = TableHeader {
            entries,
            mask: 0,
            dense,
            dense_first: i64::MIN + 10,
            dense_len: 4,
            logs,
            ..TableHeader::EMPTY
        };
        let entry = |key| header.dense_entry(key, 32).map(|e| e.addr() - (1 << 20));
        assert_eq!((entry(i64::MIN + 10), entry(i64::MIN + 13)), (Some(0), Some(96)));
        assert_eq!((entry(i64::MIN + 9), entry(i64::MIN + 14), entry(i64::MAX), entry(0)), (None, None, None, None));
    }
}
