//! Operations without side effects, over lanes.

use super::Machine;
use super::lanes::{Lane, Lanes, Selection, with_number, with_type};
use crate::program::{Comparison, Op, Value};
use crate::semantics;
use millstream_abi::{Phys, Str, hash_finish};
use std::mem;

/// Arithmetic as programs define it.
trait Number: Lane {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn neg(self) -> Self;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            fn add(self, other: $ty) -> $ty { self.wrapping_add(other) }
            fn sub(self, other: $ty) -> $ty { self.wrapping_sub(other) }
            fn mul(self, other: $ty) -> $ty { self.wrapping_mul(other) }
            // A zero divisor is only met where a trap has cut the row off, or a guard ignores the result.
            fn div(self, other: $ty) -> $ty { if other == 0 { 0 } else { self.wrapping_div(other) } }
            fn rem(self, other: $ty) -> $ty { if other == 0 { 0 } else { self.wrapping_rem(other) } }
            fn neg(self) -> $ty { self.wrapping_neg() }
        }
    )*};
}
integers!(i8, i16, i32, i64, i128);

macro_rules! floats {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            fn add(self, other: $ty) -> $ty { self + other }
            fn sub(self, other: $ty) -> $ty { self - other }
            fn mul(self, other: $ty) -> $ty { self * other }
            fn div(self, other: $ty) -> $ty { self / other }
            fn rem(self, other: $ty) -> $ty { self % other }
            fn neg(self) -> $ty { -self }
        }
    )*};
}
floats!(f32, f64);

impl Machine<'_> {
    /// Executes an operation that reads no column.
    pub(super) fn op(&mut self, value: Value, op: &Op, selection: &Selection) {
        let phys = self.program.type_of(value);
        match *op {
            Op::Bool(b) => self.fill(value, b),
            Op::Int(n) => with_number!(phys, T => self.fill(value, n as T)),
            Op::Float(bits) => with_number!(phys, T => self.fill(value, f64::from_bits(bits) as T)),
            Op::Str(index) => self.fill(value, Str::new(&self.program.strings[index as usize])),
            Op::Load(_) | Op::IsValid(_) | Op::LoadView(_) | Op::LoadBytes(..) | Op::Watermark => {
                unreachable!("reading the context is not among the pure operations")
            }
            Op::Add(a, b) => with_number!(phys, T => self.zip(value, a, b, selection, <T as Number>::add)),
            Op::Sub(a, b) => with_number!(phys, T => self.zip(value, a, b, selection, <T as Number>::sub)),
            Op::Mul(a, b) => with_number!(phys, T => self.zip(value, a, b, selection, <T as Number>::mul)),
            Op::Div(a, b) => with_number!(phys, T => self.zip(value, a, b, selection, <T as Number>::div)),
            Op::Rem(a, b) => with_number!(phys, T => self.zip(value, a, b, selection, <T as Number>::rem)),
            Op::Neg(a) => with_number!(phys, T => self.map(value, a, selection, <T as Number>::neg)),
            Op::Compare(comparison, a, b) => self.compare(value, comparison, a, b, selection),
            Op::And(a, b) => self.zip(value, a, b, selection, |a: bool, b: bool| a & b),
            Op::Or(a, b) => self.zip(value, a, b, selection, |a: bool, b: bool| a | b),
            Op::Not(a) => self.map(value, a, selection, |a: bool| !a),
            Op::Select(condition, a, b) => with_type!(phys, T => self.select::<T>(value, condition, a, b, selection)),
            Op::Convert(a) => self.convert(value, a, selection),
            Op::OutOfDecimal(a, digits) => {
                self.map(value, a, selection, |x: i128| semantics::out_of_decimal(x, digits));
            }
            Op::ScaleUp(a, digits) => self.map(value, a, selection, |x: i128| semantics::scale_up(x, digits)),
            Op::ScaleDown(a, digits) => self.map(value, a, selection, |x: i128| semantics::scale_down(x, digits)),
            Op::SliceStart { time, size_ms, offset_ms } => {
                self.map(value, time, selection, |t: i64| semantics::slice_start(t, size_ms, offset_ms));
            }
            Op::HashFold(hash, key) => self.hash_fold(value, hash, key, selection),
            Op::HashFinish(hash) => self.map(value, hash, selection, |h: i64| hash_finish(h as u64) as i64),
        }
    }

    /// Takes a register out to write it while others are read.
    pub(super) fn take(&mut self, value: Value) -> Lanes {
        mem::replace(&mut self.registers[value.0 as usize], Lanes::taken())
    }

    pub(super) fn put(&mut self, value: Value, lanes: Lanes) {
        self.registers[value.0 as usize] = lanes;
    }

    /// Sets every lane, whatever the selection.
    fn fill<T: Lane>(&mut self, value: Value, x: T) {
        T::slice_mut(&mut self.registers[value.0 as usize]).fill(x);
    }

    /// `f` of one operand.
    pub(super) fn map<A: Lane, R: Lane>(&mut self, value: Value, a: Value, selection: &Selection, f: impl Fn(A) -> R) {
        let mut target = self.take(value);
        let (out, a) = (R::slice_mut(&mut target), self.lanes::<A>(a));
        match selection {
            Selection::All(rows) => {
                for (out, a) in out[..*rows].iter_mut().zip(&a[..*rows]) {
                    *out = f(*a);
                }
            }
            Selection::Some(_) => selection.each(|lane| out[lane] = f(a[lane])),
        }
        self.put(value, target);
    }

    /// `f` of two operands of one type.
    fn zip<A: Lane, R: Lane>(
        &mut self,
        value: Value,
        a: Value,
        b: Value,
        selection: &Selection,
        f: impl Fn(A, A) -> R,
    ) {
        let mut target = self.take(value);
        let (out, a, b) = (R::slice_mut(&mut target), self.lanes::<A>(a), self.lanes::<A>(b));
        match selection {
            Selection::All(rows) => {
                for ((out, a), b) in out[..*rows].iter_mut().zip(&a[..*rows]).zip(&b[..*rows]) {
                    *out = f(*a, *b);
                }
            }
            Selection::Some(_) => selection.each(|lane| out[lane] = f(a[lane], b[lane])),
        }
        self.put(value, target);
    }

    fn select<T: Lane>(&mut self, value: Value, condition: Value, a: Value, b: Value, selection: &Selection) {
        let mut target = self.take(value);
        let (out, condition) = (T::slice_mut(&mut target), self.lanes::<bool>(condition));
        let (a, b) = (self.lanes::<T>(a), self.lanes::<T>(b));
        selection.each(|lane| out[lane] = if condition[lane] { a[lane] } else { b[lane] });
        self.put(value, target);
    }

    fn compare(&mut self, value: Value, comparison: Comparison, a: Value, b: Value, selection: &Selection) {
        match self.program.type_of(a) {
            Phys::Str => {
                let equal = comparison == Comparison::Eq;
                self.zip(value, a, b, selection, |a: Str, b: Str| same_string(a, b) == equal);
            }
            Phys::Bool => self.compare_as::<bool>(value, comparison, a, b, selection),
            phys => with_number!(phys, T => self.compare_as::<T>(value, comparison, a, b, selection)),
        }
    }

    fn compare_as<T: Lane + PartialOrd>(
        &mut self,
        value: Value,
        comparison: Comparison,
        a: Value,
        b: Value,
        selection: &Selection,
    ) {
        match comparison {
            Comparison::Eq => self.zip(value, a, b, selection, |a: T, b: T| a == b),
            Comparison::Ne => self.zip(value, a, b, selection, |a: T, b: T| a != b),
            Comparison::Lt => self.zip(value, a, b, selection, |a: T, b: T| a < b),
            Comparison::Le => self.zip(value, a, b, selection, |a: T, b: T| a <= b),
            Comparison::Gt => self.zip(value, a, b, selection, |a: T, b: T| a > b),
            Comparison::Ge => self.zip(value, a, b, selection, |a: T, b: T| a >= b),
        }
    }

    fn convert(&mut self, value: Value, a: Value, selection: &Selection) {
        let (from, to) = (self.program.type_of(a), self.program.type_of(value));
        match from {
            Phys::Bool => with_number!(to, R => self.map(value, a, selection, |x: bool| x as u8 as R)),
            _ => with_number!(from, A => with_number!(to, R => self.map(value, a, selection, |x: A| x as R))),
        }
    }
}

/// Equality of strings by content.
#[inline]
pub(super) fn same_string(a: Str, b: Str) -> bool {
    // The low word holds length and first bytes; short strings are all in the two words.
    a.low == b.low && (a.high == b.high || (!a.is_inline() && same_bytes(a, b)))
}

fn same_bytes(a: Str, b: Str) -> bool {
    // SAFETY: values of live lanes are strings whose owner (column, arena, program or table) outlives the run.
    unsafe { a.as_bytes() == b.as_bytes() }
}
