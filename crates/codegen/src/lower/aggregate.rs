//! Consume of a windowed aggregation: the row updates the entry of its key in a table that `assigner` chooses.

use super::{Computed, Lowered, Lowering, unsupported};
use crate::buffers::phys_of;
use crate::program::{Access, Comparison, Component, Op, Terminal, Update, Value};
use millstream_abi::{Accumulator, Counters, EntryLayout, ErrorKind, ObjectKind, Phys};
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
    /// Ends the program with the update of a table, of which `counters` count all rows.
    pub(super) fn aggregate(
        mut self,
        name: &str,
        (aggregation, counters): (&Aggregation, Counters),
        time: Option<&Expr>,
        keys: &[Expr],
        updates: &[ComponentUpdate],
    ) -> Computed<Lowered> {
        let layout = entry_layout(aggregation)?.counted_by(counters);
        let slice = self.table(aggregation, time)?;
        self.update_entries(name, layout, slice, (keys, &aggregation.keys), updates)
    }

    /// Ends the program with the update of the entry of a key, in the table of a slice or in the only one.
    pub(super) fn update_entries(
        mut self,
        name: &str,
        layout: EntryLayout,
        slice: Option<Value>,
        (keys, fields): (&[Expr], &[Field]),
        updates: &[ComponentUpdate],
    ) -> Computed<Lowered> {
        if keys.len() != fields.len() {
            return Err(Diagnostic::bug("there is not one value for each key of a table"));
        }
        let keys = keys.iter().zip(fields).map(|(expr, field)| self.key(expr, field)).collect::<Computed<_>>()?;
        if updates.len() != layout.accumulators.len() {
            return Err(Diagnostic::bug("there is not one update for each accumulator of a table"));
        }
        let components = updates.iter().zip(&layout.accumulators).map(|(update, (a, _))| self.component(update, *a));
        let mut components = components.collect::<Computed<Vec<_>>>()?;
        // What it counts is never NULL, whether that shows here or not.
        let counts_all = |counter: &usize| {
            let update = &updates[*counter];
            update.guard.is_none() && update.argument.as_ref().is_none_or(|argument| !argument.nullable)
        };
        layout.counters.numbers().filter(counts_all).for_each(|counter| components[counter].guard = None);
        let update = Update { access: Access::Own, layout, slice, keys, components };
        self.finish(name, Terminal::Update(update))
    }

    /// A key: floats with one zero and one NaN, so that equal keys have equal bits.
    pub(super) fn key(&mut self, expr: &Expr, field: &Field) -> Computed<(Value, Option<Value>)> {
        let mut scalar = self.expression(expr)?;
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
    fn component(&mut self, update: &ComponentUpdate, accumulator: Accumulator) -> Computed<Component> {
        let guard = update.guard.as_ref().map(|guard| self.expression(guard)).transpose()?;
        let guard = guard.map(|scalar| self.is_true(scalar));
        let Some(expr) = &update.argument else {
            return Ok(Component { argument: None, valid: None, guard });
        };
        let counted = accumulator.argument().is_none();
        let lower = |lowering: &mut Self| if counted { lowering.validity(expr) } else { lowering.expression(expr) };
        let scalar = match guard {
            None => lower(self)?,
            Some(guard) => self.guarded(guard, lower)?,
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
        Ok(Component { argument, valid: None, guard: self.both(guard, scalar.valid) })
    }
}
