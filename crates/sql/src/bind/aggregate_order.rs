//! ARRAY_AGG and LISTAGG with ORDER BY.
//!
//! Values come in the order of the input. In another order they are gathered with their keys, an array for each, and put in
//! order when the group is complete.

use super::aggregate_list::AggregateList;
use super::place::error;
use crate::functions::collection::vector_call;
use millstream_functions::collection::ordered::{self, KeyOrder};
use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::SortKey;
use millstream_types::{DataType, Diagnostic, Value, code};
use std::fmt::Write;
use std::sync::Arc;

/// The result of ARRAY_AGG or LISTAGG, whose call without the order is `call`.
pub(super) fn add_ordered(
    list: &mut AggregateList,
    call: &AggregateCall,
    order: Vec<SortKey>,
    span: Span,
) -> Result<Expr, Diagnostic> {
    let plain = |e: &Expr| e.clone().unplaced();
    let value = &call.arguments[0];
    if let Some(key) = order.iter().find(|key| call.distinct && plain(&key.expr) != plain(value)) {
        let message = "distinct values can only be ordered by themselves";
        return Err(error(code::TYPE_MISMATCH, key.expr.span, message)
            .advise(format!("remove DISTINCT, or order by the argument of {}", call.function.name())));
    }
    let gathered = |expr: &Expr| AggregateCall {
        function: AggregateFunction::ArrayAgg,
        arguments: vec![expr.clone()],
        parameters: vec![Value::Boolean(true)],
        distinct: call.distinct,
        filter: call.filter.clone(),
        last_ms: None,
        data_type: DataType::Array(Arc::new(expr.data_type.clone())),
        nullable: true,
    };
    let mut name = format!("{} ORDER BY", call.outline());
    let mut arrays = vec![list.add(gathered(value), span)];
    let mut orders = vec![];
    for SortKey { expr, descending, nulls_first } in order {
        let (direction, nulls) = (if descending { "DESC" } else { "ASC" }, if nulls_first { "FIRST" } else { "LAST" });
        write!(name, " {direction} NULLS {nulls}").expect("writing to a string cannot fail");
        arrays.push(list.add(gathered(&expr), span));
        orders.push(KeyOrder { descending, nulls_first });
    }
    let data_type = call.data_type.clone();
    Ok(match (call.function, call.parameters.as_slice()) {
        (AggregateFunction::ListAgg, [Value::String(separator)]) => {
            let separator = separator.clone();
            vector_call(name, arrays, data_type, move |input| ordered::texts(input, &orders, &separator))
        }
        (_, parameters) => {
            let keeps_nulls = parameters == [Value::Boolean(true)];
            vector_call(name, arrays, data_type, move |input| ordered::arrays(input, &orders, keeps_nulls))
        }
    }
    .at(span))
}
