//! Comparisons and IN lists.
//!
//! A string column is compared with a constant of up to 12 bytes by its raw view, and a text in a record with one of up to
//! 15 bytes by the bytes of its field: one comparison of 16 bytes or less.

use super::super::{Computed, Lowering, Scalar};
use crate::program::{Comparison, InRecord, Layout, Op, Value as Number};
use millstream_abi::{Phys, RuntimeFn, Str};
use millstream_plan::expr::{CompareOp, Expr};
use millstream_types::{Diagnostic, Value};

impl Lowering<'_> {
    /// Comparison of two operands of the same type.
    pub(super) fn comparison(&mut self, expr: &Expr, op: CompareOp, a: &Expr, b: &Expr) -> Computed {
        let (left, right) = (self.expression(a)?, self.expression(b)?);
        let comparison = match op {
            CompareOp::Equal => Comparison::Eq,
            CompareOp::NotEqual => Comparison::Ne,
            CompareOp::Less => Comparison::Lt,
            CompareOp::LessEqual => Comparison::Le,
            CompareOp::Greater => Comparison::Gt,
            CompareOp::GreaterEqual => Comparison::Ge,
        };
        let phys = self.builder.type_of(left.value);
        if phys != self.builder.type_of(right.value) {
            let message = format!("comparison of {} with {}", a.data_type, b.data_type);
            return Err(Diagnostic::bug(message));
        }
        let equality = matches!(comparison, Comparison::Eq | Comparison::Ne);
        if phys == Phys::Str && !equality {
            let site = self.site(expr);
            let order = self.call(RuntimeFn::StrCompare, &[left, right], site, false)?;
            let zero = self.builder.int(0, Phys::I32);
            let value = self.builder.compare(comparison, order.value, zero);
            return Ok(Scalar { value, valid: order.valid });
        }
        let valid = self.both(left.valid, right.valid);
        Ok(Scalar { value: self.compare_values(comparison, left.value, right.value), valid })
    }

    /// Comparison of two values of the same type; strings only for (in)equality.
    fn compare_values(&mut self, comparison: Comparison, a: Number, b: Number) -> Number {
        let (a, b) = match (self.view(a, b), self.view(b, a)) {
            (Some(views), _) => views,
            (None, Some((b, a))) => (a, b),
            (None, None) => (a, b),
        };
        self.builder.compare(comparison, a, b)
    }

    /// The bytes of a field that decide whether it has the text of a constant, as far as a comparison of 16 bytes can tell,
    /// and what they then are: those of the constant, and the 0 behind it if the field is longer.
    fn field_bytes(&mut self, input: u32, place: InRecord, constant: u32) -> Option<(Number, Number)> {
        let text = &self.builder.string(constant)?.to_vec();
        let fits = match place.ends_at_zero {
            true => text.len() <= place.width && !text.contains(&0),
            false => text.len() == place.width,
        };
        if !fits {
            // No field has it.
            return Some((self.builder.int(0, Phys::I128), self.builder.int(1, Phys::I128)));
        }
        let count = place.width.min(text.len() + 1);
        if count > size_of::<i128>() {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text);
        let found = self.builder.op(Op::LoadBytes(input, count as u32), Phys::I128);
        Some((found, self.builder.int(i128::from_le_bytes(bytes), Phys::I128)))
    }

    /// The raw view of a string column and the bits of a constant of up to 12 bytes, when these are the operands.
    fn view(&mut self, column: Number, constant: Number) -> Option<(Number, Number)> {
        let (Some(&Op::Load(input)), Some(&Op::Str(index))) =
            (self.builder.definition(column), self.builder.definition(constant))
        else {
            return None;
        };
        if let Layout::Record(place) = self.inputs[input as usize].layout {
            return self.field_bytes(input, place, index);
        }
        let bits = self.builder.string(index).filter(|s| s.len() <= Str::INLINE).map(|s| Str::new(s).bits())?;
        let view = self.builder.op(Op::LoadView(input), Phys::I128);
        Some((view, self.builder.int(bits as i128, Phys::I128)))
    }

    /// `x IN (constants)`
    pub(super) fn in_list(&mut self, operand: &Expr, values: &[Value]) -> Computed {
        let scalar = self.expression(operand)?;
        let phys = self.builder.type_of(scalar.value);
        let mut found = Vec::with_capacity(values.len());
        for value in values {
            let constant = self.constant(value, phys)?;
            found.push(self.compare_values(Comparison::Eq, scalar.value, constant));
        }
        // As a tree, for what walks the program from its end: lists have tens of thousands of values.
        while found.len() > 1 {
            let pair = |pair: &[Number]| match *pair {
                [a, b] => self.builder.or(a, b),
                ref one => one[0],
            };
            found = found.chunks(2).map(pair).collect();
        }
        let value = found.pop().unwrap_or_else(|| self.builder.bool(false));
        Ok(Scalar { value, valid: scalar.valid })
    }
}
