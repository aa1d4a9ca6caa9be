//! Signatures of the functions on arrays, maps and rows; the bodies are in `millstream_functions::collection`.
//!
//! Row programs pass nested values on but do not compute with them, so everything here is evaluated a buffer at a time,
//! over Arrow columns ([`vector`]). Elements that are looked for or added are cast to the common type of both sides;
//! arrays whose elements differ in type are cast likewise ([`cast`]).

pub(crate) mod nested;
mod vector;

use super::call::{BoundCall, Call, convert, fits, int, integer_of, native, string};
use super::function::{Binding, Category, Function, functions};
use crate::bind::coercion::{common_type, is_implicit, least_common_type};
use Binding::Custom;
use millstream_abi::RuntimeFn;
use millstream_functions::collection::{Input, Output, array, map, row};
use millstream_plan::expr::{Expr, ExprKind};
use millstream_types::{DataType, Diagnostic, Field, code};
use std::sync::Arc;
pub(crate) use vector::call as vector_call;

/// Functions on arrays, maps and rows.
pub(super) const COLLECTION: &[Function] = functions! {Collection;
    "ARRAY" ("ARRAY[value, …]") Custom(array), "An array of the values, in their common type.";
    "MAP" ("MAP[key, value, …]") Custom(map), "A map from the keys to the values; of equal keys the last one counts.";
    "ROW" ("ROW(value, …)", "(value, value, …)") Custom(row), "A row of the values; its fields are named EXPR$0, EXPR$1, ….";
    "[]" ("array[index]", "map[key]") Custom(item),
        "The element at a position (from 1), or the value of a key; NULL if there is none.";
    "CARDINALITY" ("CARDINALITY(array | map)") Custom(cardinality), "The number of elements or entries.";
    "ELEMENT" ("ELEMENT(array)") Custom(|call| of_array(call, array::element, |element| element)),
        "The only element; NULL for an empty array, an error for more than one element.";
    "ARRAY_APPEND" ("ARRAY_APPEND(array, element)") Custom(|call| of_element(call, array::append, array_of)),
        "The array with the element at its end.";
    "ARRAY_CONCAT" ("ARRAY_CONCAT(array, …)") Custom(|call| all_arrays(call, array::concat, 1..=usize::MAX)),
        "The elements of all arrays, one array after the other.";
    "ARRAY_CONTAINS" ("ARRAY_CONTAINS(array, element)")
        Custom(|call| of_element(call, array::contains, |_| DataType::Boolean)),
        "Whether the array has the element, which may be NULL.";
    "ARRAY_DISTINCT" ("ARRAY_DISTINCT(array)") Custom(|call| of_array(call, array::distinct, array_of)),
        "The elements without duplicates, each where it first stands.";
    "ARRAY_EXCEPT" ("ARRAY_EXCEPT(array, array)") Custom(|call| all_arrays(call, array::except, 2..=2)),
        "The elements of the first array that are not in the second, without duplicates.";
    "ARRAY_INTERSECT" ("ARRAY_INTERSECT(array, array)") Custom(|call| all_arrays(call, array::intersect, 2..=2)),
        "The elements of the first array that are in the second, too, without duplicates.";
    "ARRAY_JOIN" ("ARRAY_JOIN(array, delimiter [, replacement])") Custom(join),
        "The strings of an array joined with the delimiter. NULLs are left out, or replaced if there is a replacement.";
    "ARRAY_MAX" ("ARRAY_MAX(array)") Custom(|call| of_array(call, array::max, |element| element)),
        "The greatest element that is not NULL.";
    "ARRAY_MIN" ("ARRAY_MIN(array)") Custom(|call| of_array(call, array::min, |element| element)),
        "The least element that is not NULL.";
    "ARRAY_POSITION" ("ARRAY_POSITION(array, element)")
        Custom(|call| of_element(call, array::position, |_| DataType::Int)),
        "Position (from 1) of the first element that is equal, 0 if there is none.";
    "ARRAY_PREPEND" ("ARRAY_PREPEND(array, element)") Custom(|call| of_element(call, array::prepend, array_of)),
        "The array with the element at its start.";
    "ARRAY_REMOVE" ("ARRAY_REMOVE(array, element)") Custom(|call| of_element(call, array::remove, array_of)),
        "The array without the elements that are equal.";
    "ARRAY_REVERSE" ("ARRAY_REVERSE(array)") Custom(|call| of_array(call, array::reverse, array_of)),
        "The elements in reverse order.";
    "ARRAY_SLICE" ("ARRAY_SLICE(array, from [, to])")
        Custom(|call| with_others(call, array::slice, &[DataType::Int, DataType::Int], 1)),
        "The elements from one position to another (the end by default). Positions count from 1, negative ones from the end.";
    "ARRAY_SORT" ("ARRAY_SORT(array [, ascending [, nulls_first]])")
        Custom(|call| with_others(call, array::sort, &[DataType::Boolean, DataType::Boolean], 0)),
        "The elements in order. NULLs come first in ascending order and last in descending, unless the third argument says otherwise.";
    "ARRAY_UNION" ("ARRAY_UNION(array, array)") Custom(|call| all_arrays(call, array::union, 2..=2)),
        "The elements of both arrays without duplicates.";
    "MAP_ENTRIES" ("MAP_ENTRIES(map)") Custom(map_entries), "The entries as an array of rows of key and value.";
    "MAP_FROM_ARRAYS" ("MAP_FROM_ARRAYS(keys, values)") Custom(map_from_arrays),
        "A map from keys to values, two arrays of the same length.";
    "MAP_KEYS" ("MAP_KEYS(map)") Custom(|call| of_map(call, map::keys, |key, _| array_of(key))),
        "The keys as an array.";
    "MAP_UNION" ("MAP_UNION(map, …)") Custom(map_union), "The entries of all maps; of equal keys the last one counts.";
    "MAP_VALUES" ("MAP_VALUES(map)") Custom(|call| of_map(call, map::values, |_, value| array_of(value))),
        "The values as an array.";
    "REGEXP_EXTRACT_ALL" ("REGEXP_EXTRACT_ALL(string, regex [, group])") Custom(regexp_extract_all),
        "A group (1 by default; 0 is the whole match) of every match, as an array; NULL for a malformed regex or a group that does not exist.";
    "REGEXP_SPLIT" ("REGEXP_SPLIT(string, regex)") Custom(regexp_split), "The parts of the string between the matches, as an array.";
    "SPLIT" ("SPLIT(string, delimiter)") Custom(split),
        "The parts of the string between the delimiters, as an array; an empty delimiter splits it into characters.";
    "STR_TO_MAP" ("STR_TO_MAP(string [, pair_regex, key_value_regex])") Custom(str_to_map),
        "The map that a string stands for. Pairs are split at ',' and keys from values at '=' unless other separators are given.";
};

/// The type of an array's elements.
fn element_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(element) => Some(element),
        _ => None,
    }
}

fn array_of(element: DataType) -> DataType {
    DataType::Array(Arc::new(element))
}

/// The arguments in their common type.
fn unified(call: &mut Call) -> Result<DataType, Diagnostic> {
    let types: Vec<DataType> = call.arguments.iter().map(|a| a.data_type.clone()).collect();
    let Some(common) = least_common_type(&types) else { return Err(call.mismatch()) };
    let common = if common == DataType::Null { DataType::STRING } else { common };
    let arguments = std::mem::take(&mut call.arguments);
    call.arguments = arguments.into_iter().map(|a| convert(a, &common)).collect();
    Ok(common)
}

fn array(mut call: Call) -> BoundCall {
    if call.arguments.is_empty() {
        return Err(call.mismatch().advise("write CAST(NULL AS ARRAY<type>), or at least one element"));
    }
    let element = unified(&mut call)?;
    Ok(vector_call("ARRAY", call.arguments, array_of(element), array::construct))
}

fn map(call: Call) -> BoundCall {
    if call.arguments.is_empty() || call.arguments.len() % 2 == 1 {
        return Err(call.mismatch());
    }
    let common = |side: usize| {
        let types: Vec<DataType> = call.arguments.iter().skip(side).step_by(2).map(|a| a.data_type.clone()).collect();
        let common = least_common_type(&types).ok_or_else(|| call.mismatch())?;
        Ok(if common == DataType::Null { DataType::STRING } else { common })
    };
    let types: [DataType; 2] = [common(0)?, common(1)?];
    let arguments = call.arguments.into_iter().enumerate().map(|(i, a)| convert(a, &types[i % 2])).collect();
    let [key, value] = types;
    Ok(vector_call("MAP", arguments, DataType::Map(Arc::new(key), Arc::new(value)), map::construct))
}

fn row(call: Call) -> BoundCall {
    let typed = |argument: Expr| match argument.data_type {
        DataType::Null => convert(argument, &DataType::STRING),
        _ => argument,
    };
    let arguments: Vec<Expr> = call.arguments.into_iter().map(typed).collect();
    let field = |(i, a): (usize, &Expr)| Field::new(format!("EXPR${i}"), a.data_type.clone(), true);
    let fields: Arc<[Field]> = arguments.iter().enumerate().map(field).collect();
    Ok(vector_call("ROW", arguments, DataType::Row(fields), row::construct))
}

fn item(call: Call) -> BoundCall {
    let [container, at] = &call.arguments[..] else { return Err(call.mismatch()) };
    match container.data_type.clone() {
        DataType::Array(element) if fits(at, DataType::is_integer) => {
            if integer_of(at).is_some_and(|index| index < 1) {
                let message = "the elements of an ARRAY are counted from 1";
                return Err(super::call::at(Diagnostic::new(code::TYPE_MISMATCH, message), at.span)
                    .advise("use an index of at least 1"));
            }
            let [container, at] = call.take()?;
            let arguments = vec![container, convert(at, &DataType::Int)];
            Ok(vector_call("[]", arguments, (*element).clone(), array::item))
        }
        DataType::Map(key, value) => {
            let Some(common) = common_type(&key, &at.data_type) else { return Err(call.mismatch()) };
            let [container, at] = call.take()?;
            let container = convert(container, &DataType::Map(Arc::new(common.clone()), value.clone()));
            Ok(vector_call("[]", vec![container, convert(at, &common)], (*value).clone(), map::item))
        }
        _ => Err(call.mismatch()),
    }
}

fn cardinality(call: Call) -> BoundCall {
    let evaluate = match call.arguments.first().map(|a| &a.data_type) {
        Some(DataType::Array(_)) => array::cardinality,
        Some(DataType::Map(..)) => map::cardinality,
        _ => return Err(call.mismatch()),
    };
    let [argument] = call.take()?;
    Ok(vector_call("CARDINALITY", vec![argument], DataType::Int, evaluate))
}

type Evaluate = fn(&Input) -> Output;

/// A function of one array, whose type `result` gives from that of the elements.
fn of_array(call: Call, evaluate: Evaluate, result: fn(DataType) -> DataType) -> BoundCall {
    let [argument] = &call.arguments[..] else { return Err(call.mismatch()) };
    let Some(element) = element_of(&argument.data_type).cloned() else { return Err(call.mismatch()) };
    Ok(vector_call(call.function.name, call.arguments, result(element), evaluate))
}

/// A function of an array and an element, both in their common type.
fn of_element(mut call: Call, evaluate: Evaluate, result: fn(DataType) -> DataType) -> BoundCall {
    let [array, element] = &call.arguments[..] else { return Err(call.mismatch()) };
    let common = element_of(&array.data_type).and_then(|own| common_type(own, &element.data_type));
    let Some(common) = common else { return Err(call.mismatch()) };
    let types = [array_of(common.clone()), common.clone()];
    call.arguments = call.arguments.into_iter().zip(&types).map(|(a, t)| convert(a, t)).collect();
    Ok(vector_call(call.function.name, call.arguments, result(common), evaluate))
}

/// A function of several arrays, or maps, of one type.
fn of_several(mut call: Call, evaluate: Evaluate, count: std::ops::RangeInclusive<usize>) -> BoundCall {
    if !count.contains(&call.arguments.len()) {
        return Err(call.mismatch());
    }
    let common = unified(&mut call)?;
    Ok(vector_call(call.function.name, call.arguments, common, evaluate))
}

fn all_arrays(call: Call, evaluate: Evaluate, count: std::ops::RangeInclusive<usize>) -> BoundCall {
    let arrays = call.arguments.iter().any(|a| element_of(&a.data_type).is_some());
    if arrays { of_several(call, evaluate, count) } else { Err(call.mismatch()) }
}

fn map_union(call: Call) -> BoundCall {
    let maps = call.arguments.iter().any(|a| matches!(a.data_type, DataType::Map(..)));
    if maps { of_several(call, map::union, 1..=usize::MAX) } else { Err(call.mismatch()) }
}

/// A function of an array, giving one of its type, with further arguments of other types, of which `required` must be
/// there.
fn with_others(mut call: Call, evaluate: Evaluate, others: &[DataType], required: usize) -> BoundCall {
    let given = call.arguments.len();
    let fit = |(argument, to): (&Expr, &DataType)| is_implicit(&argument.data_type, to);
    let array = call.arguments.first().filter(|a| element_of(&a.data_type).is_some()).map(|a| a.data_type.clone());
    let Some(array) = array else { return Err(call.mismatch()) };
    if !(1 + required..=1 + others.len()).contains(&given) || !call.arguments[1..].iter().zip(others).all(fit) {
        return Err(call.mismatch());
    }
    let types = [std::slice::from_ref(&array), others].concat();
    call.arguments = call.arguments.into_iter().zip(&types).map(|(a, t)| convert(a, t)).collect();
    Ok(vector_call(call.function.name, call.arguments, array, evaluate))
}

fn join(call: Call) -> BoundCall {
    if !call.arguments.first().and_then(|a| element_of(&a.data_type)).is_some_and(DataType::is_string) {
        return Err(call.mismatch());
    }
    let joined = with_others(call, array::join, &[DataType::STRING, DataType::STRING], 1)?;
    let ExprKind::Vector(_, arguments) = joined.kind else { return Ok(joined) };
    Ok(vector_call("ARRAY_JOIN", arguments, DataType::STRING, array::join))
}

/// A function of one map.
fn of_map(call: Call, evaluate: Evaluate, result: fn(DataType, DataType) -> DataType) -> BoundCall {
    let [argument] = &call.arguments[..] else { return Err(call.mismatch()) };
    let DataType::Map(key, value) = argument.data_type.clone() else { return Err(call.mismatch()) };
    let result = result((*key).clone(), (*value).clone());
    Ok(vector_call(call.function.name, call.arguments, result, evaluate))
}

fn map_entries(call: Call) -> BoundCall {
    of_map(call, map::entries, |key, value| {
        array_of(DataType::Row([Field::new("key", key, true), Field::new("value", value, true)].into()))
    })
}

fn map_from_arrays(call: Call) -> BoundCall {
    let types: Vec<DataType> = call.arguments.iter().filter_map(|a| element_of(&a.data_type).cloned()).collect();
    let [key, value] = &types[..] else { return Err(call.mismatch()) };
    let result = DataType::Map(Arc::new(key.clone()), Arc::new(value.clone()));
    Ok(vector_call("MAP_FROM_ARRAYS", call.take::<2>()?.into(), result, map::from_arrays))
}

/// The arguments as STRINGs, when there are that many.
fn strings(call: Call, count: usize) -> Result<Vec<Expr>, Diagnostic> {
    if call.arguments.len() != count || !call.arguments.iter().all(|a| fits(a, DataType::is_string)) {
        return Err(call.mismatch());
    }
    Ok(call.arguments.into_iter().map(|a| convert(a, &DataType::STRING)).collect())
}

fn split(call: Call) -> BoundCall {
    Ok(vector_call("SPLIT", strings(call, 2)?, array_of(DataType::STRING), array::split))
}

/// The array of strings that the text of a JSON array stands for.
pub(super) fn strings_of_json(json: Expr) -> Expr {
    vector_call("STRINGS_OF_JSON", vec![json], array_of(DataType::STRING), array::of_json)
}

fn regexp_extract_all(mut call: Call) -> BoundCall {
    let group = match call.arguments.len() {
        3 if fits(&call.arguments[2], DataType::is_integer) => call.arguments.pop(),
        2 => Some(int(1)),
        _ => None,
    };
    let Some(group) = group else { return Err(call.mismatch()) };
    let mut arguments = strings(call, 2)?;
    arguments.push(convert(group, &DataType::Int));
    Ok(strings_of_json(native(RuntimeFn::RegexpExtractAll, arguments, DataType::STRING, true)))
}

fn regexp_split(call: Call) -> BoundCall {
    Ok(strings_of_json(native(RuntimeFn::RegexpSplit, strings(call, 2)?, DataType::STRING, true)))
}

fn str_to_map(mut call: Call) -> BoundCall {
    if call.arguments.len() == 1 {
        call.arguments.extend([string(","), string("=")]);
    }
    let pairs = native(RuntimeFn::StrToMap, strings(call, 3)?, DataType::STRING, true);
    let result = DataType::Map(Arc::new(DataType::STRING), Arc::new(DataType::STRING));
    Ok(vector_call("MAP_OF_JSON", vec![pairs], result, map::of_json))
}
