//! Consume of a windowed aggregation: the row updates the entry of its key in the table of its slice.

use super::{Lowered, Lowering, unsupported};
use crate::buffers::phys_of;
use crate::program::{Comparison, Component, Op, Terminal, Update, Value};
use millstream_abi::{Accumulator, EntryLayout, ErrorKind, Phys};
use millstream_plan::expr::{Expr, ExprKind};
use millstream_plan::pipeline::{Aggregation, ComponentUpdate};
use millstream_plan::window::Slicing;
use millstream_types::{Diagnostic, Field};

/// Layout of the entries of an aggregation's tables. Fails for keys of nested types.
pub fn entry_layout(aggregation: &Aggregation) -> Result<EntryLayout, Diagnostic> {
    if aggregation.keys.len() > EntryLayout::MAX_KEYS {
        let message =
            format!("grouping by {} columns; at most {} are possible", aggregation.keys.len(), EntryLayout::MAX_KEYS);
        return Err(unsupported(message, Default::default()));
    }
    let key = |field: &Field| match phys_of(&field.data_type) {
        Some(phys) => Ok((phys, field.nullable)),
        None => Err(unsupported(format!("grouping by {} of type {}", field.name, field.data_type), Default::default())
            .advise("group by its fields")),
    };
    let keys: Vec<(Phys, bool)> = aggregation.keys.iter().map(key).collect::<Result<_, _>>()?;
    Ok(EntryLayout::new(&keys, &aggregation.components))
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
        if keys.len() != aggregation.keys.len() || updates.len() != aggregation.components.len() {
            return Err(Diagnostic::bug("a pipeline does not fit the aggregation that it ends in"));
        }
        let slice = match (aggregation.assigner.slicing(), time) {
            (Some(slicing), Some(time)) => Some(self.slice(time, slicing)?),
            (None, _) => None,
            (Some(_), None) => return Err(Diagnostic::bug("rows of a windowed aggregation have no time")),
        };
        let keys = keys
            .iter()
            .zip(&aggregation.keys)
            .map(|(expr, field)| self.key(expr, field))
            .collect::<Result<Vec<_>, _>>()?;
        let components = updates
            .iter()
            .zip(&aggregation.components)
            .map(|(update, accumulator)| self.component(update, *accumulator))
            .collect::<Result<Vec<_>, _>>()?;
        self.finish(name, Terminal::Update(Update { layout, slice, keys, components }), Vec::new(), Vec::new())
    }

    /// Start of the slice that the row belongs to. Rows without time are errors, rows whose window is complete under
    /// the watermark before them are late: dropped and counted.
    fn slice(&mut self, time: &Expr, slicing: Slicing) -> Result<Value, Diagnostic> {
        let depth = self.depth();
        let scalar = self.expression(time, depth)?;
        let what = self.text(time, depth);
        self.trap_null(scalar, ErrorKind::NullRowtime, what, time.span);
        let starts_slice = match self.resolve(time, depth).0 {
            Expr { kind: ExprKind::WindowStart(_, inner), .. } => *inner == slicing,
            _ => false,
        };
        let slice = if starts_slice {
            scalar.value
        } else {
            let Slicing { size_ms, offset_ms } = slicing;
            self.builder.op(Op::SliceStart { time: scalar.value, size_ms, offset_ms }, Phys::I64)
        };
        // A window [s, e) is complete when the watermark has reached e - 1.
        let length = self.builder.int(slicing.size_ms as i128 - 1, Phys::I64);
        let last = self.builder.op(Op::Add(slice, length), Phys::I64);
        let watermark = self.builder.op(Op::Watermark, Phys::I64);
        let in_time = self.builder.compare(Comparison::Gt, last, watermark);
        self.builder.filter(in_time, true);
        Ok(slice)
    }

    /// A key: floats with one zero and one NaN, so that equal keys have equal bits.
    fn key(&mut self, expr: &Expr, field: &Field) -> Result<(Value, Option<Value>), Diagnostic> {
        let depth = self.depth();
        let mut scalar = self.expression(expr, depth)?;
        if !field.nullable && scalar.valid.is_some() {
            let what = format!("key {}", field.name);
            self.trap_null(scalar, ErrorKind::NullInNotNull, what, expr.span);
            scalar.valid = None;
        }
        let phys = self.builder.type_of(scalar.value);
        if phys.is_float() {
            let zero = self.builder.float(0.0, phys);
            let sum = self.builder.op(Op::Add(scalar.value, zero), phys);
            scalar.value = self.one_nan(sum);
        }
        Ok((scalar.value, scalar.valid))
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
            return Ok(Component { argument: None, guard });
        };
        let counted = accumulator.argument().is_none();
        let scalar = match guard {
            None if counted => self.validity(expr, depth)?,
            None => self.expression(expr, depth)?,
            Some(guard) => self.guarded(guard, |lowering| {
                if counted { lowering.validity(expr, depth) } else { lowering.expression(expr, depth) }
            })?,
        };
        let guard = match (guard, scalar.valid) {
            (Some(guard), Some(valid)) => Some(self.builder.and(guard, valid)),
            (guard, valid) => guard.or(valid),
        };
        let argument = accumulator.argument().map(|phys| {
            let value = self.builder.convert(scalar.value, phys);
            let ordered = matches!(accumulator, Accumulator::MinF64 | Accumulator::MaxF64);
            if ordered { self.one_nan(value) } else { value }
        });
        Ok(Component { argument, guard })
    }
}
