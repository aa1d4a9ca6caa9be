//! COUNT, SUM and AVG of distinct values over groups of all rows, by a *second level*.
//!
//! ```text
//! input ─┬─ rows ─────────────────────────────────────────────────► groups by g: all other aggregates
//!        └─► groups by (g, x): which filters has x passed? ─ changes ─► the same groups: counts and sums of distinct values
//! ```
//!
//! A value of a group is a group of its own. When its first row that passes a filter has come, or its last one has been taken back, it
//! counts once more, or less, in the groups above: at the end of the same beat, because these wait for both. So a distinct value is found
//! once a row, whatever number of calls ask for it; the values of one group are spread over all partitions; and a beat costs what has
//! changed in it, however many values there are.

use super::Planner;
use super::branch::Branch;
use super::expressions::{columns_from, same_computation};
use super::payload::Payload;
use crate::aggregate::{AggregateCall, AggregateFunction, Components, SecondLevel};
use crate::changes::changing;
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::logical::Rel;
use crate::pipeline::*;
use crate::window::Timeline;
use millstream_abi::Accumulator;
use millstream_types::{DataType, Diagnostic, Field, Value};

/// The distinct values of one argument, and the filters of the calls that ask for them.
struct Values {
    argument: Expr,
    filters: Vec<Option<Expr>>,
}

/// The distinct values that calls ask for.
fn values_of(aggregates: &[(AggregateCall, String)]) -> Vec<Values> {
    let mut all: Vec<Values> = Vec::new();
    for (call, _) in aggregates.iter().filter(|(call, _)| has_second_level(call)) {
        let argument = &call.arguments[0];
        let known = all.iter().position(|values| same_computation(&values.argument, argument));
        let values = match known {
            Some(place) => &mut all[place],
            None => {
                all.push(Values { argument: argument.clone(), filters: Vec::new() });
                let last = all.len() - 1;
                &mut all[last]
            }
        };
        if !values.filters.iter().any(|filter| is_same_filter(filter.as_ref(), call.filter.as_ref())) {
            values.filters.push(call.filter.clone());
        }
    }
    all
}

fn has_second_level(call: &AggregateCall) -> bool {
    use AggregateFunction::{Avg, Count, Sum};
    call.distinct && matches!(call.function, Count | Sum | Avg)
}

/// Whether two calls aggregate the same rows.
pub(super) fn is_same_filter(a: Option<&Expr>, b: Option<&Expr>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same_computation(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

impl Planner {
    /// Groups of all rows of `input` so far, kept for `ttl_ms` of processing time without rows.
    pub(super) fn group(
        &mut self,
        input: &Rel,
        keys: &[(Expr, String)],
        aggregates: &[(AggregateCall, String)],
        ttl_ms: Option<u64>,
    ) -> Result<Branch, Diagnostic> {
        let width = input.schema().fields.len();
        let is_distinct = aggregates.is_empty() && !keys.is_empty();
        let values = match keys.len() < millstream_abi::EntryLayout::MAX_KEYS {
            true => values_of(aggregates),
            false => Vec::new(),
        };
        let mut payload = Payload::new(vec![], keys.iter().map(|(e, _)| e), None);
        let weight = changing(input).is_some().then(|| payload.add_weight(width));
        let mut components = Components::starting_at(keys.len());
        if let Some(weight) = &weight {
            components.weigh(weight);
        }
        // Behind the columns of the input and the weight: whether it is a row of the input, then those of the second level.
        let (is_row, mut next) = (Expr::column(width + 1, DataType::Boolean, false), width + 2);
        for Values { argument, filters } in &values {
            let value = Expr::column(next, argument.data_type.clone(), true);
            for (filter, place) in filters.iter().zip(next + 1..) {
                let delta = Expr::column(place, DataType::BigInt, true);
                let (argument, filter) = (argument.clone(), filter.clone());
                components.second.push(SecondLevel { argument, filter, value: value.clone(), delta });
            }
            next += 1 + filters.len();
        }
        let results: Vec<Expr> = aggregates.iter().map(|(call, _)| components.decompose(call)).collect();
        let rows = components.end_weighing(weight.as_ref())?;
        if !values.is_empty() {
            components.guard_rows(&is_row);
        }
        let changes = payload.weight.zip(rows).map(|(weight, rows)| GroupChanges { weight, rows });
        let aggregates = payload.slots(components);
        payload.never_empty();
        let key_fields: Vec<Field> = keys.iter().map(|(e, name)| e.field(name)).collect();
        let mut columns = columns_from(0, &key_fields);
        columns.extend(results);
        let weight_of_group = Expr::column(keys.len() + aggregates.outputs.len(), DataType::TinyInt, false);
        let kind = KeyedKind::Group(Group { aggregates, changes, ttl_ms });
        let operator = self.operator(kind, Timeline::Own, &[&payload], key_fields);
        if values.is_empty() {
            self.exchange(input, operator, 0, &payload, &[])?;
        } else {
            self.rows_and_values(input, (operator, &payload), keys, &values)?;
        }
        // Rows of DISTINCT only come, if those below do.
        let only_come = weight.is_none() && is_distinct;
        let weight = (!only_come).then_some(weight_of_group);
        Ok(Branch { weight, ..Branch::new(PipelineInput::Operator(operator), columns) })
    }

    /// Ends the rows of an input, and the changes of its distinct values, in groups.
    fn rows_and_values(
        &mut self,
        input: &Rel,
        (operator, payload): (usize, &Payload<'_>),
        keys: &[(Expr, String)],
        values: &[Values],
    ) -> Result<(), Diagnostic> {
        let schema = input.schema();
        let one = || Expr::literal(Value::Int(1), DataType::TinyInt);
        let nothing = |values: &Values| -> Vec<Expr> {
            let deltas = values.filters.iter().map(|_| Expr::null(DataType::BigInt));
            [Expr::null(values.argument.data_type.clone())].into_iter().chain(deltas).collect()
        };
        let end = |planner: &mut Planner, mut branch: Branch, keys_of_values: Option<&[Expr]>| {
            branch.weight = None;
            let below = std::mem::take(&mut branch.columns);
            let mut columns: Vec<Expr> = payload.columns().iter().map(|e| e.clone().substitute(&below)).collect();
            for (&place, key) in payload.keys.iter().zip(keys_of_values.into_iter().flatten()) {
                columns[place] = key.clone();
            }
            branch.columns = columns;
            planner.end(branch, |columns| (Some(columns), PipelineEnd::Exchange { operator, port: 0 }));
        };
        for mut branch in self.branches(input)? {
            branch.settle();
            let weight = branch.weight.clone().unwrap_or_else(one);
            branch.columns.extend([weight, Expr::boolean(true)]);
            branch.columns.extend(values.iter().flat_map(nothing));
            end(self, branch, None);
        }
        // Values are kept as long as their groups.
        let ttl_ms = if let KeyedKind::Group(group) = &self.operators[operator].kind { group.ttl_ms } else { None };
        for (number, of) in values.iter().enumerate() {
            let mut branch = self.distinct_values(input, keys, of, ttl_ms)?;
            let shown = branch.columns.clone();
            let weight = branch.weight.clone().unwrap_or_else(one);
            let zero = Expr::literal(Value::Int(0), DataType::BigInt);
            let is_taken_back = Expr::compare(CompareOp::Less, weight, Expr::literal(Value::Int(0), DataType::TinyInt));
            let delta = |flag: &Expr| {
                let signed = |n: i64| Expr::literal(Value::Int(n), DataType::BigInt);
                let sign = ExprKind::Case(vec![(is_taken_back.clone(), signed(-1))], Box::new(signed(1)));
                let passes = Expr::compare(CompareOp::Less, zero.clone(), flag.clone());
                let sign = Expr::new(sign, DataType::BigInt, false);
                Expr::new(ExprKind::Case(vec![(passes, sign)], Box::new(zero.clone())), DataType::BigInt, false)
            };
            let deltas: Vec<Expr> = shown[keys.len() + 1..].iter().map(delta).collect();
            let changes = deltas.iter().map(|delta| Expr::compare(CompareOp::NotEqual, delta.clone(), zero.clone()));
            let changes = ExprKind::Or(changes.collect());
            let absent = schema.fields.iter().map(|field| Expr::null(field.data_type.clone()));
            let mut columns: Vec<Expr> = absent.chain([one(), Expr::boolean(false)]).collect();
            for (other, values) in values.iter().enumerate() {
                match other == number {
                    true => columns.extend([shown[keys.len()].clone()].into_iter().chain(deltas.iter().cloned())),
                    false => columns.extend(nothing(values)),
                }
            }
            branch.operators.push(Operator::Filter(Expr::new(changes, DataType::Boolean, false)));
            branch.columns = columns;
            end(self, branch, Some(&shown[..keys.len()]));
        }
        Ok(())
    }

    /// The branch of the distinct values of groups: keys, value, and for each filter whether a row has passed it (more than 0).
    fn distinct_values(
        &mut self,
        input: &Rel,
        keys: &[(Expr, String)],
        of: &Values,
        ttl_ms: Option<u64>,
    ) -> Result<Branch, Diagnostic> {
        let is_there = of.argument.clone().not_null();
        let filtered = match of.argument.nullable {
            true => Rel::Filter { input: Box::new(input.clone()), predicate: is_there },
            false => input.clone(),
        };
        let of_pair = keys.iter().map(|(e, _)| e).chain([&of.argument]);
        let mut payload = Payload::new(vec![], of_pair, None);
        let weight = changing(input).is_some().then(|| payload.add_weight(input.schema().fields.len()));
        let (mut list, mut outputs) = (Vec::new(), Vec::new());
        let mut component = |accumulator, argument, guard: Option<Expr>| {
            list.push((accumulator, ComponentUpdate { argument: Some(argument), guard }));
            list.len() - 1
        };
        let one = Expr::literal(Value::Int(1), DataType::BigInt);
        for filter in &of.filters {
            let (accumulator, argument) = match &weight {
                Some(weight) => (Accumulator::SumI64, weight.clone()),
                // One row says as much as many: what is shown changes once.
                None => (Accumulator::MaxI64, one.clone()),
            };
            let place = component(accumulator, argument, filter.clone());
            outputs.push(ComponentOutput::value(place, accumulator, DataType::BigInt));
        }
        let rows = weight.as_ref().map(|weight| component(Accumulator::SumI64, weight.clone(), None));
        let changes = payload.weight.zip(rows).map(|(weight, rows)| GroupChanges { weight, rows });
        let calls = vec!["DISTINCT".to_string(); of.filters.len()];
        let aggregates = payload.slots(Components::of_list(list, outputs, calls));
        let mut key_fields: Vec<Field> = keys.iter().map(|(e, name)| e.field(name)).collect();
        key_fields.push(Field { nullable: false, ..of.argument.field("value") });
        let output = columns_from(0, &key_fields);
        let shown =
            columns_from(key_fields.len(), &vec![Field::new("passes", DataType::BigInt, false); of.filters.len()]);
        let weight = Expr::column(key_fields.len() + of.filters.len(), DataType::TinyInt, false);
        let kind = KeyedKind::Group(Group { aggregates, changes, ttl_ms });
        let columns = output.into_iter().chain(shown).collect();
        let branch = self.keyed(&filtered, kind, Timeline::Own, &payload, key_fields, columns)?;
        Ok(Branch { weight: Some(weight), ..branch })
    }
}
