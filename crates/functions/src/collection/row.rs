//! Bodies for values of any nested type: construction of rows, choice, equality, casts.

use super::lists::{Pool, text};
use super::{Input, Output};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow_schema::DataType as Arrow;
use std::sync::Arc;

/// `ROW(a, b, …)`
pub fn construct(input: &Input) -> Output {
    let Arrow::Struct(fields) = input.result else { return Err(format!("{} is not a type of rows", input.result)) };
    if input.columns.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(input.rows, None)));
    }
    StructArray::try_new(fields.clone(), input.columns.to_vec(), None)
        .map(|rows| Arc::new(rows) as ArrayRef)
        .map_err(text)
}

/// `CASE WHEN a THEN b … ELSE z END`, of the arguments in this order.
pub fn case(input: &Input) -> Output {
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
pub fn equals(input: &Input) -> Output {
    let (pool, _, bases) = Pool::with_elements(&[], &[&input.columns[0], &input.columns[1]])?;
    let keys = pool.keys()?;
    let equal = |row: usize| {
        let (a, b) = (bases[0] + row, bases[1] + row);
        (!pool.is_null(a) && !pool.is_null(b)).then(|| keys.at(a) == keys.at(b))
    };
    Ok(Arc::new((0..input.rows).map(equal).collect::<BooleanArray>()))
}
