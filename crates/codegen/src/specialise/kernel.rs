//! A specialised program with the generic one behind it.

use super::{Choices, Constant, specialise};
use crate::kernel::{Kernel, Tier};
use crate::program::{Input, Program};
use arrow_buffer::bit_util::get_bit_raw;
use millstream_abi::{ColumnView, ExecContext, Status, StatusKind, Str};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs a specialised kernel up to the row that breaks an assumption, and the generic one from there to the end: no row is left
/// out, none is processed twice.
pub struct Specialised {
    special: Arc<dyn Kernel>,
    generic: Arc<dyn Kernel>,
    choices: Choices,
    inputs: Vec<Input>,
    /// Whether the special program has no filter left: then it says of no row that it was emitted.
    is_total: bool,
    deoptimisations: AtomicU64,
    /// Bits of inputs whose assumption broke; the last bit stands for all from the 63rd on.
    broken_inputs: AtomicU64,
}

impl Specialised {
    /// `special` was made from `specialise(program, &choices)`, `generic` from `program`.
    pub fn new(program: &Program, choices: Choices, special: Arc<dyn Kernel>, generic: Arc<dyn Kernel>) -> Specialised {
        let inputs = program.inputs.clone();
        let is_total = !program.is_total() && specialise(program, &choices).is_total();
        Specialised {
            is_total,
            special,
            generic,
            choices,
            inputs,
            deoptimisations: AtomicU64::new(0),
            broken_inputs: AtomicU64::new(0),
        }
    }

    /// What it is specialised for.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// How often an assumption did not hold.
    pub fn deoptimisations(&self) -> u64 {
        self.deoptimisations.load(Relaxed)
    }

    /// The inputs whose assumption did not hold at some time.
    pub fn broken(&self) -> Vec<u32> {
        let bits = self.broken_inputs.load(Relaxed);
        let assumed = self.choices.not_null.iter().chain(self.choices.constants.keys());
        assumed.copied().filter(|input| bits & bit(*input) != 0).collect()
    }

    /// Writes the numbers of the rows that the special program has emitted since there were `before`, from row `start` on, where it
    /// has dropped none and the generic one would have written them.
    ///
    /// # Safety
    /// The context is that of a run of the programs.
    unsafe fn select(&self, context: &mut ExecContext, before: u64, start: u64) {
        for row in (before..context.out_rows).filter(|_| self.is_total) {
            // SAFETY: there is room for each row.
            unsafe { *context.out_selection.add(row as usize) = (start + (row - before)) as u32 };
        }
    }

    /// The first row from `start` to before `end` that breaks an assumption about a column, or `end`.
    ///
    /// # Safety
    /// The columns are those of the program's inputs, with at least `end` rows.
    unsafe fn holds_until(&self, columns: *const ColumnView, start: u64, end: u64) -> u64 {
        // SAFETY: there is a column for each input; the rest is promised by the caller.
        let column = |input: u32| unsafe { &*columns.add(input as usize) };
        let rows = || start as usize..end as usize;
        let nulls = self.choices.not_null.iter().filter_map(|&input| {
            let column = column(input);
            // SAFETY: promised by the caller.
            let null = rows().find(|&row| !column.validity.is_null() && unsafe { !is_valid(column, row) })?;
            Some((null, input))
        });
        let others = self.choices.constants.iter().filter_map(|(&input, constant)| {
            let size = self.inputs[input as usize].phys.size();
            // SAFETY: promised by the caller; `can_be_constant` has compared the types.
            let other = unsafe { first_other(column(input), constant, size, rows()) }?;
            Some((other, input))
        });
        let Some((row, input)) = nulls.chain(others).min() else { return end };
        self.broken_inputs.fetch_or(bit(input), Relaxed);
        row as u64
    }
}

impl Kernel for Specialised {
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status {
        // SAFETY: the caller keeps the contract of `Kernel::run`, which is the same for both kernels.
        unsafe {
            let broken = self.holds_until(context.columns, start, end);
            if broken > start {
                let before = context.out_rows;
                let status = self.special.run(context, start, broken);
                self.select(context, before, start);
                if broken == end || status.kind() != StatusKind::Done {
                    return status;
                }
            }
            self.deoptimisations.fetch_add(1, Relaxed);
            self.generic.run(context, broken, end)
        }
    }

    fn tier(&self) -> Tier {
        self.special.tier()
    }
}

fn bit(input: u32) -> u64 {
    1 << input.min(63)
}

/// # Safety
/// The column has a validity bitmap and the row.
unsafe fn is_valid(column: &ColumnView, row: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { get_bit_raw(column.validity, column.validity_offset as usize + row) }
}

/// The first of some rows whose value is another one, and not NULL.
///
/// # Safety
/// The column has the rows, and values of the constant's type in an array; `size` is that of an integer.
unsafe fn first_other(column: &ColumnView, constant: &Constant, size: usize, mut rows: Range<usize>) -> Option<usize> {
    // SAFETY: promised by the caller.
    unsafe {
        match constant {
            Constant::Bool(value) => rows.find(|&row| {
                let other = get_bit_raw(column.values, column.values_offset as usize + row) != *value;
                other && (column.validity.is_null() || is_valid(column, row))
            }),
            Constant::Int(value) => match size {
                1 => first_other_of(column, *value as i8, rows),
                2 => first_other_of(column, *value as i16, rows),
                4 => first_other_of(column, *value as i32, rows),
                8 => first_other_of(column, *value as i64, rows),
                _ => first_other_of(column, *value, rows),
            },
            Constant::Str(bytes) => first_other_of(column, Str::new(bytes).bits() as i128, rows),
        }
    }
}

/// [`first_other`] of integers, or of views of strings.
///
/// # Safety
/// As there, for values of type `T`.
unsafe fn first_other_of<T: Copy + PartialEq>(column: &ColumnView, value: T, rows: Range<usize>) -> Option<usize> {
    /// Rows that are compared without a branch between them.
    const STEP: usize = 64;
    let values = column.values.cast::<T>();
    let mut from = rows.start;
    while from < rows.end {
        let to = rows.end.min(from + STEP);
        // SAFETY: promised by the caller. Arrow's memory is aligned for the type or a read without alignment serves.
        let is_other = |row: usize| unsafe { values.add(row).read_unaligned() } != value;
        if (from..to).fold(false, |other, row| other | is_other(row)) {
            // SAFETY: promised by the caller.
            let counts = |row: usize| column.validity.is_null() || unsafe { is_valid(column, row) };
            let found = (from..to).find(|&row| is_other(row) && counts(row));
            if found.is_some() {
                return found;
            }
        }
        from = to;
    }
    None
}
