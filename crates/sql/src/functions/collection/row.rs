//! Bodies for values of any nested type: construction of rows, choice, equality, casts.

use super::lists::{Pool, text};
use super::vector::{Input, Output};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, MapArray, StructArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType as Arrow;
use std::sync::Arc;

/// `ROW(a, b, …)`
pub(super) fn construct(input: &Input) -> Output {
    let Arrow::Struct(fields) = input.result else { return Err(format!("{} is not a type of rows", input.result)) };
    if input.columns.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(input.rows, None)));
    }
    StructArray::try_new(fields.clone(), input.columns.to_vec(), None)
        .map(|rows| Arc::new(rows) as ArrayRef)
        .map_err(text)
}

/// `CASE WHEN a THEN b … ELSE z END`, of the arguments in this order.
pub(super) fn case(input: &Input) -> Output {
    let (branches, otherwise) = input.columns.split_at(input.columns.len() - 1);
    let conditions: Vec<&BooleanArray> = branches.iter().step_by(2).map(|c| c.as_boolean()).collect();
    let values: Vec<&ArrayRef> = branches.iter().skip(1).step_by(2).chain(otherwise).collect();
    let (pool, _, bases) = Pool::with_elements(&[], &values)?;
    let holds = |condition: &&BooleanArray, row: usize| condition.is_valid(row) && condition.value(row);
    pool.pick((0..input.rows).map(|row| {
        let branch = conditions.iter().position(|condition| holds(condition, row)).unwrap_or(conditions.len());
        Some(bases[branch] + row)
    }))
}

/// `a = b`: NULL when one is NULL; within them, NULLs are equal.
pub(super) fn equals(input: &Input) -> Output {
    let (pool, _, bases) = Pool::with_elements(&[], &[&input.columns[0], &input.columns[1]])?;
    let keys = pool.keys()?;
    let equal = |row: usize| {
        let (a, b) = (bases[0] + row, bases[1] + row);
        (!pool.is_null(a) && !pool.is_null(b)).then(|| keys.at(a) == keys.at(b))
    };
    Ok(Arc::new((0..input.rows).map(equal).collect::<BooleanArray>()))
}

/// `CAST(a AS …)` between nested types, part by part.
pub(super) fn cast(input: &Input) -> Output {
    cast_column(&input.columns[0], input.result)
}

fn cast_column(column: &ArrayRef, to: &Arrow) -> Output {
    Ok(match (column.data_type(), to) {
        (from, to) if from == to => column.clone(),
        (Arrow::Null, _) => new_null_array(to, column.len()),
        (Arrow::List(_), Arrow::List(element)) => {
            let list = column.as_list::<i32>();
            let values = cast_column(list.values(), element.data_type())?;
            let list = ListArray::try_new(element.clone(), list.offsets().clone(), values, list.nulls().cloned());
            Arc::new(list.map_err(text)?)
        }
        (Arrow::Struct(_), Arrow::Struct(fields)) => {
            let rows = column.as_struct();
            let columns =
                rows.columns().iter().zip(fields).map(|(column, field)| cast_column(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, rows.nulls().cloned()).map_err(text)?)
        }
        (Arrow::Map(..), Arrow::Map(entries, sorted)) => {
            let map = column.as_map();
            let structs: ArrayRef = Arc::new(map.entries().clone());
            let structs = cast_column(&structs, entries.data_type())?.as_struct().clone();
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(entries.clone(), offsets, structs, nulls, *sorted).map_err(text)?)
        }
        _ => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(column, to, &options).map_err(text)?
        }
    })
}
