//! Aggregates over rows that may be taken back.
//!
//! | over rows that only come | over changes |
//! | --- | --- |
//! | a count | the sum of the weights |
//! | a sum | the sum of the values, negated where they are taken back: exact, so nothing of them is left |
//! | a minimum, a maximum; values without their order | every value with its weight |
//! | values in their order | the same, in the order of the values: those of a result that changes come in no other |
//! | sketches | exact, of every value with its weight |
//! | first and last values, functions of the program | refused |

use crate::aggregate::{
    AggregateCall, AggregateFunction, Components, checked, phys_of_value, quotient, sum_of, unless_few, widest,
};
use crate::expr::{CompareOp, Expr, ExprKind, Span};
use crate::pipeline::{ComponentOutput, ComponentUpdate};
use millstream_abi::{Accumulator, Finish, ObjectKind};
use millstream_types::{DataType, Diagnostic, Place, Value, code};

/// How components weigh rows.
#[derive(Debug)]
pub(crate) struct Weights {
    /// 1 or -1.
    weight: Expr,
    /// A call that cannot take rows back.
    refused: Option<Diagnostic>,
}

impl Components {
    /// Has what is decomposed from now on weigh rows: 1 or -1.
    pub(crate) fn weigh(&mut self, weight: &Expr) {
        self.weights = Some(Weights { weight: weight.clone(), refused: None });
    }

    /// Nothing more is decomposed. The component that adds up the weights of all rows, if they have any.
    ///
    /// # Errors
    /// [`NEEDS_UPDATES`](code::NEEDS_UPDATES) for a call that cannot take a value back.
    pub(crate) fn end_weighing(&mut self, weight: Option<&Expr>) -> Result<Option<usize>, Diagnostic> {
        if let Some(refused) = self.weights.take().and_then(|weights| weights.refused) {
            return Err(refused);
        }
        let all = |weight: &Expr| ComponentUpdate { argument: Some(weight.clone()), guard: None };
        Ok(weight.map(|weight| self.component(Accumulator::SumI64, all(weight))))
    }

    /// Has components be updated only by rows for which a column is TRUE, but for those of a second level.
    pub(crate) fn guard_rows(&mut self, is_row: &Expr) {
        let deltas: Vec<&Expr> = self.second.iter().map(|second| &second.delta).collect();
        for (_, update) in &mut self.list {
            let reads = |delta: &Expr| {
                let mut found = false;
                update.argument.iter().for_each(|e| e.walk(&mut |e| found |= e == delta));
                found
            };
            if !deltas.iter().any(|delta| reads(delta)) {
                let conditions = [is_row.clone()].into_iter().chain(update.guard.take()).collect::<Vec<_>>();
                update.guard = Some(if conditions.len() == 1 { is_row.clone() } else { Expr::all(conditions) });
            }
        }
    }

    /// COUNT, SUM and AVG of values that are counted elsewhere; `None` if these are not.
    pub(crate) fn of_second_level(&mut self, argument: &Expr, call: &AggregateCall) -> Option<Expr> {
        let same = |a: &Expr, b: &Expr| a.clone().unplaced() == b.clone().unplaced();
        let is_filter = |filter: Option<&Expr>| match (filter, &call.filter) {
            (Some(a), Some(b)) => same(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let second = self.second.iter().find(|s| same(&s.argument, argument) && is_filter(s.filter.as_ref()))?;
        let (value, delta) = (second.value.clone(), second.delta.clone());
        let mut add = |accumulator, data_type, argument| {
            let component = self.component(accumulator, ComponentUpdate { argument: Some(argument), guard: None });
            self.output(ComponentOutput::value(component, accumulator, data_type))
        };
        let count = add(Accumulator::SumI64, DataType::BigInt, delta.clone());
        let sum_type = match call.function {
            AggregateFunction::Count => return Some(count),
            AggregateFunction::Sum => call.data_type.clone(),
            _ => widest(&argument.data_type),
        };
        let value = if argument.data_type.is_integer() { value.cast_to(DataType::BigInt) } else { value };
        let zero = || Expr::literal(Value::Int(0), DataType::BigInt);
        let negated = Expr::new(ExprKind::Negate(Box::new(value.clone())), value.data_type.clone(), true);
        let (data_type, null) = (value.data_type.clone(), Expr::null(value.data_type.clone()));
        let cases = vec![
            (Expr::compare(CompareOp::Less, delta.clone(), zero()), negated),
            (Expr::compare(CompareOp::Less, zero(), delta), value),
        ];
        let signed = Expr::new(ExprKind::Case(cases, Box::new(null)), data_type, true);
        let sum = checked(add(sum_of(&argument.data_type), sum_type, signed));
        Some(match call.function {
            AggregateFunction::Sum => unless_few(&count, 1, sum),
            _ => unless_few(&count, 1, quotient(sum, &count, call)),
        })
    }
}

impl Weights {
    /// What a component of values without order becomes, and what is shown of it, if that is not its value.
    pub(crate) fn weighed(
        &self,
        accumulator: Accumulator,
        update: ComponentUpdate,
    ) -> (Accumulator, ComponentUpdate, Option<Finish>) {
        let ComponentUpdate { argument, guard } = update;
        let changed = |accumulator, argument, finish| (accumulator, ComponentUpdate { argument, guard }, finish);
        match accumulator {
            Accumulator::Count => {
                let weight = self.weight.clone();
                let counted = argument.map_or_else(|| weight.clone(), |value| weight.clone().only_if(value.not_null()));
                changed(Accumulator::SumI64, Some(counted), None)
            }
            Accumulator::SumI64 => {
                let value = argument.map(|value| self.signed(value.cast_to(DataType::BigInt)));
                changed(accumulator, value, None)
            }
            Accumulator::SumI128 | Accumulator::SumF64 => {
                changed(accumulator, argument.map(|value| self.signed(value)), None)
            }
            Accumulator::MinI64 | Accumulator::MinI128 | Accumulator::MinF64 | Accumulator::MinStr => {
                changed(of_values(argument.as_ref()), argument, Some(Finish::Least))
            }
            Accumulator::MaxI64 | Accumulator::MaxI128 | Accumulator::MaxF64 | Accumulator::MaxStr => {
                changed(of_values(argument.as_ref()), argument, Some(Finish::Greatest))
            }
            Accumulator::Group | Accumulator::Object(..) => changed(accumulator, argument, None),
        }
    }

    /// The same of values that an object keeps.
    pub(crate) fn object(
        &mut self,
        kind: ObjectKind,
        finish: Finish,
        argument: &Expr,
        call: &AggregateCall,
    ) -> (ObjectKind, Finish) {
        let mut refuse = |why: &str, advice: &str| {
            let message = format!("{} {why}", call.function.name());
            let Span { line, column, length } = argument.span;
            let place = Place::Sql { line: line.into(), column: column.into(), length: u64::from(length).max(1) };
            let refused = Diagnostic::new(code::NEEDS_UPDATES, message).advise(advice);
            self.refused.get_or_insert_with(|| if line > 0 { refused.at(place) } else { refused });
        };
        match kind {
            ObjectKind::First | ObjectKind::Last => refuse(
                "depends on the order of its rows, and those of a result that changes come in none",
                "take MIN or MAX of a column that orders them",
            ),
            ObjectKind::Fold { .. } => {
                refuse("cannot take rows back", "aggregate the rows before they are grouped, or in windows");
            }
            ObjectKind::List { keeps_nulls: true } if argument.nullable => {
                refuse("cannot keep NULLs of rows that may be taken back", "leave them out: ARRAY_AGG(x IGNORE NULLS)")
            }
            _ => {}
        }
        let finish = match finish {
            Finish::Estimate => Finish::Count,
            Finish::Quantile(fraction) => Finish::Percentile(fraction),
            other => other,
        };
        (ObjectKind::Weights, finish)
    }

    /// The value, negated in rows that are taken back.
    fn signed(&self, value: Expr) -> Expr {
        let zero = Expr::literal(Value::Int(0), DataType::TinyInt);
        let is_taken_back = Expr::compare(CompareOp::Less, self.weight.clone(), zero);
        let (data_type, nullable) = (value.data_type.clone(), value.nullable);
        let negated = Expr::new(ExprKind::Negate(Box::new(value.clone())), data_type.clone(), nullable);
        Expr::new(ExprKind::Case(vec![(is_taken_back, negated)], Box::new(value)), data_type, nullable)
    }
}

/// Every value of an argument with its weight.
fn of_values(argument: Option<&Expr>) -> Accumulator {
    let data_type = argument.map_or(&DataType::BigInt, |argument| &argument.data_type);
    Accumulator::Object(ObjectKind::Weights, phys_of_value(data_type))
}
