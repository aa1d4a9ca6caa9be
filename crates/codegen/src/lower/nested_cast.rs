//! Casts between nested types, part by part: what is not nested is cast by a separate program, over all elements of a
//! buffer at once, so that a part becomes what it would become alone.

use super::{Lowered, lower_expressions, unsupported};
use crate::execute::{Flow, emit};
use crate::interpreter::Interpreter;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray, make_array, new_empty_array, new_null_array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer};
use arrow_schema::DataType as Arrow;
use millstream_functions::FunctionContext;
use millstream_plan::expr::{Expr, ExprKind, VectorCall, VectorFunction};
use millstream_types::{DataType, Diagnostic, Field, Schema};
use std::sync::Arc;

/// A cast of a column of a nested type.
#[derive(Debug)]
struct NestedCast {
    name: String,
    cast: Part,
    to: Arrow,
    /// TRY_CAST: a value with a part that cannot be cast is NULL.
    is_lenient: bool,
}

/// A part of the cast.
#[derive(Debug)]
enum Part {
    /// The values stay what they are.
    Same,
    /// Nothing but NULLs.
    Nulls,
    /// Values that are not nested.
    Plain(Box<Plain>),
    /// The elements of lists.
    List(Box<Part>),
    /// The fields of rows, also the keys and values of maps.
    Row(Vec<Part>),
    /// The entries of maps.
    Map(Box<Part>),
}

#[derive(Debug)]
struct Plain {
    lowered: Lowered,
    kernel: Interpreter,
}

/// A cast to a nested type, as a column that is made for each buffer.
pub(super) fn cast_column(cast: &Expr) -> Result<Expr, Diagnostic> {
    let ExprKind::Cast { operand, fallible_to_null } = &cast.kind else { return Ok(cast.clone()) };
    let (from, to) = (&operand.data_type, &cast.data_type);
    let part = Part::new(from, to).map_err(|(from, to)| {
        unsupported(format!("a cast from {from} to {to}"), cast.span).advise("cast its parts where they are made")
    })?;
    let word = if *fallible_to_null { "TRY_CAST" } else { "CAST" };
    let name = format!("{word} {from} AS {to}");
    let column = NestedCast { name, cast: part, to: to.to_arrow(), is_lenient: *fallible_to_null };
    Ok(Expr { kind: ExprKind::Vector(VectorCall(Arc::new(column)), vec![(**operand).clone()]), ..cast.clone() })
}

impl VectorFunction for NestedCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize, _: u64) -> Result<ArrayRef, String> {
        match self.cast.apply(&arguments[0], &self.to) {
            // The caller then retries row by row.
            Err(_) if self.is_lenient && rows == 1 => Ok(new_null_array(&self.to, 1)),
            cast => cast,
        }
    }
}

impl Part {
    /// Fails with the types of a part that cannot be cast.
    fn new(from: &DataType, to: &DataType) -> Result<Part, (DataType, DataType)> {
        Ok(match (from, to) {
            _ if from == to => Part::Same,
            (DataType::Null, _) => Part::Nulls,
            (DataType::Array(from), DataType::Array(to)) => Part::List(Box::new(Part::new(from, to)?)),
            (DataType::Map(k, v), DataType::Map(l, w)) => {
                Part::Map(Box::new(Part::Row(vec![Part::new(k, l)?, Part::new(v, w)?])))
            }
            (DataType::Row(from), DataType::Row(to)) if from.len() == to.len() => {
                let fields = from.iter().zip(&**to).map(|(from, to)| Part::new(&from.data_type, &to.data_type));
                Part::Row(fields.collect::<Result<_, _>>()?)
            }
            _ => {
                let schema = Schema::new(vec![Field::new("part", from.clone(), true)]);
                let cast = Expr::column(0, from.clone(), true).cast_to(to.clone());
                let lowered = lower_expressions("cast of a part", &schema, &[cast]);
                let lowered = lowered.map_err(|_| (from.clone(), to.clone()))?;
                let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
                Part::Plain(Box::new(Plain { lowered, kernel }))
            }
        })
    }

    fn apply(&self, column: &ArrayRef, to: &Arrow) -> Result<ArrayRef, String> {
        if column.is_empty() {
            return Ok(new_empty_array(to));
        }
        match (self, to) {
            (Part::Same, _) => Ok(column.clone()),
            (Part::Nulls, _) => Ok(new_null_array(to, column.len())),
            (Part::Plain(plain), _) => plain.apply(column),
            (Part::List(element), Arrow::List(field)) => {
                let list = column.as_list::<i32>();
                let (values, offsets) = of_lists(list.values(), list.offsets(), list.nulls())?;
                let values = element.apply(&values, field.data_type())?;
                let list = ListArray::try_new(field.clone(), offsets, values, list.nulls().cloned());
                Ok(Arc::new(list.map_err(|e| e.to_string())?))
            }
            (Part::Row(parts), Arrow::Struct(fields)) => {
                let rows = column.as_struct();
                let cast = |((part, column), field): ((&Part, &ArrayRef), &Arc<arrow_schema::Field>)| {
                    part.apply(&masked(column, rows.nulls())?, field.data_type())
                };
                let columns = parts.iter().zip(rows.columns()).zip(fields).map(cast);
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                let rows = StructArray::try_new(fields.clone(), columns, rows.nulls().cloned());
                Ok(Arc::new(rows.map_err(|e| e.to_string())?))
            }
            (Part::Map(entry), Arrow::Map(field, is_sorted)) => {
                let map = column.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                let (entries, offsets) = of_lists(&entries, map.offsets(), None)?;
                let entries = entry.apply(&entries, field.data_type())?.as_struct().clone();
                let map = MapArray::try_new(field.clone(), offsets, entries, map.nulls().cloned(), *is_sorted);
                Ok(Arc::new(map.map_err(|e| e.to_string())?))
            }
            _ => Err(format!("a part of the cast gives no {to}")),
        }
    }
}

impl Plain {
    fn apply(&self, column: &ArrayRef) -> Result<ArrayRef, String> {
        let mut failed = None;
        let (rows, columns) = (column.len(), [column.clone()]);
        let functions = &mut FunctionContext::default();
        let emitted = emit(&self.lowered, &self.kernel, &columns, rows, &[i64::MIN], functions, &mut |error| {
            failed.get_or_insert(error.diagnostic.message);
            Flow::Stop
        });
        match (emitted, failed) {
            (_, Some(message)) => Err(message),
            (Err(diagnostic), None) => Err(diagnostic.message),
            (Ok(emitted), None) => emitted.columns.into_iter().next().ok_or_else(|| "a cast gives a column".into()),
        }
    }
}

/// The elements of lists, without those before the first and behind the last list, and NULL where the list is.
fn of_lists(
    values: &ArrayRef,
    offsets: &OffsetBuffer<i32>,
    nulls: Option<&NullBuffer>,
) -> Result<(ArrayRef, OffsetBuffer<i32>), String> {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let values = values.slice(first as usize, (last - first) as usize);
    let own = OffsetBuffer::new(offsets.iter().map(|offset| offset - first).collect());
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok((values, own)) };
    let mut is_there = BooleanBufferBuilder::new(values.len());
    for (list, bounds) in own.windows(2).enumerate() {
        is_there.append_n((bounds[1] - bounds[0]) as usize, nulls.is_valid(list));
    }
    Ok((masked(&values, Some(&NullBuffer::new(is_there.finish())))?, own))
}

/// The column, NULL where what it is a part of is NULL: whatever stands there is not to be cast.
pub(super) fn masked(column: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef, String> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(column.clone()) };
    let data = column.to_data();
    let nulls = NullBuffer::union(Some(nulls), data.nulls());
    data.into_builder().nulls(nulls).build().map(make_array).map_err(|e| e.to_string())
}
