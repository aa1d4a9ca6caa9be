//! Consume of a windowed aggregation: the row updates the entry of its key in a table that `assigner` chooses.

use super::{Lowered, Lowering, unsupported};
use crate::buffers::phys_of;
use crate::program::{Access, Comparison, Component, Op, Terminal, Update, Value};
use millstream_abi::{Accumulator, EntryLayout, ErrorKind, ObjectKind, Phys};
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{Aggregation, ComponentUpdate};
use millstream_types::{Diagnostic, Field};

/// Layout of the entries of an aggregation's tables. Fails for keys of nested types.
pub fn entry_layout(aggregation: &Aggregation) -> Result<EntryLayout, Diagnostic> {
    key_layout(&aggregation.keys, &aggregation.components)
}

/// Layout of the entries of a table with these keys.
pub(super) fn key_layout(keys: &[Field], accumulators: &[Accumulator]) -> Result<EntryLayout, Diagnostic> {
    if keys.len() > EntryLayout::MAX_KEYS {
        let message = format!("a key of {} columns; at most {} are possible", keys.len(), EntryLayout::MAX_KEYS);
        return Err(unsupported(message, Default::default()));
    }
    let key = |field: &Field| match phys_of(&field.data_type) {
        Some(phys) => Ok((phys, field.nullable)),
        None => Err(unsupported(format!("the key {} of type {}", field.name, field.data_type), Default::default())
            .advise("use its fields as keys")),
    };
    let keys: Vec<(Phys, bool)> = keys.iter().map(key).collect::<Result<_, _>>()?;
    Ok(EntryLayout::new(&keys, accumulators))
}

impl Lowering<'_> {
    /// Ends the program with the update of a table.
    pub(super) fn aggregate(
        mut self,
        name: &str,
        aggregation: &Aggregation,
        time: Option<&Expr>,
        keys: &[Expr],
        updates: &[ComponentUpdate],
    ) -> Result<Lowered, Diagnostic> {
        let layout = entry_layout(aggregation)?;
        let slice = self.table(aggregation, time)?;
        let keys = self.keys(keys, &aggregation.keys)?;
        let components = self.components(updates, &aggregation.components)?;
        self.finish(
            name,
            Terminal::Update(Update { access: Access::Own, layout, slice, keys, components, range: None }),
            Vec::new(),
            Vec::new(),
        )
    }

    /// The keys of an entry: value and validity of each.
    pub(super) fn keys(&mut self, keys: &[Expr], fields: &[Field]) -> Result<Vec<(Value, Option<Value>)>, Diagnostic> {
        if keys.len() != fields.len() {
            return Err(Diagnostic::bug("there is not one value for each key of a table"));
        }
        keys.iter().zip(fields).map(|(expr, field)| self.key(expr, field)).collect()
    }

    /// What a row does to the accumulators of an entry.
    pub(super) fn components(
        &mut self,
        updates: &[ComponentUpdate],
        accumulators: &[Accumulator],
    ) -> Result<Vec<Component>, Diagnostic> {
        if updates.len() != accumulators.len() {
            return Err(Diagnostic::bug("there is not one update for each accumulator of a table"));
        }
        updates.iter().zip(accumulators).map(|(update, accumulator)| self.component(update, *accumulator)).collect()
    }

    /// A key: floats with one zero and one NaN, so that equal keys have equal bits.
    pub(super) fn key(&mut self, expr: &Expr, field: &Field) -> Result<(Value, Option<Value>), Diagnostic> {
        let depth = self.depth();
        let mut scalar = self.expression(expr, depth)?;
        if !field.nullable && scalar.valid.is_some() {
            let what = format!("key {}", field.name);
            self.trap_null(scalar, ErrorKind::NullInNotNull, what, expr.span);
            scalar.valid = None;
        }
        let value = self.normal_float(scalar.value);
        Ok((value, scalar.valid))
    }

    /// A value whose bits are equal to those of equal ones: floats with one zero and one NaN.
    fn normal_float(&mut self, value: Value) -> Value {
        let phys = self.builder.type_of(value);
        if !phys.is_float() {
            return value;
        }
        let zero = self.builder.float(0.0, phys);
        let sum = self.builder.op(Op::Add(value, zero), phys);
        self.one_nan(sum)
    }

    /// A float whose NaNs are all `f64::NAN`.
    fn one_nan(&mut self, value: Value) -> Value {
        let phys = self.builder.type_of(value);
        let is_nan = self.builder.compare(Comparison::Ne, value, value);
        let nan = self.builder.float(f64::NAN, phys);
        self.builder.select(is_nan, nan, value)
    }

    /// Argument and guard of a component. The argument is only computed for rows that its guard admits.
    fn component(&mut self, update: &ComponentUpdate, accumulator: Accumulator) -> Result<Component, Diagnostic> {
        let depth = self.depth();
        let guard = match &update.guard {
            None => None,
            Some(guard) => {
                let scalar = self.expression(guard, depth)?;
                Some(self.is_true(scalar))
            }
        };
        let Some(expr) = &update.argument else {
            return Ok(Component { argument: None, valid: None, guard });
        };
        let counted = accumulator.argument().is_none();
        let scalar = match guard {
            None if counted => self.validity(expr, depth)?,
            None => self.expression(expr, depth)?,
            Some(guard) => self.guarded(guard, |lowering| {
                if counted { lowering.validity(expr, depth) } else { lowering.expression(expr, depth) }
            })?,
        };
        let argument = accumulator.argument().map(|phys| {
            let value = self.builder.convert(scalar.value, phys);
            match accumulator {
                // What is counted as distinct is compared as keys are.
                Accumulator::Object(ObjectKind::Distinct | ObjectKind::Cardinality, _) => self.normal_float(value),
                Accumulator::MinF64 | Accumulator::MaxF64 | Accumulator::Object(_, Phys::F64) => self.one_nan(value),
                _ => value,
            }
        });
        if let Accumulator::Object(ObjectKind::List { keeps_nulls: true }, _) = accumulator {
            return Ok(Component { argument, valid: scalar.valid, guard });
        }
        let guard = match (guard, scalar.valid) {
            (Some(guard), Some(valid)) => Some(self.builder.and(guard, valid)),
            (guard, valid) => guard.or(valid),
        };
        Ok(Component { argument, valid: None, guard })
    }
}
