//! Aggregate functions as compositions of accumulator components.
//!
//! An aggregate declares which components it updates and how its result is computed from them. The result is an
//! ordinary expression over the trigger's output columns, so it is compiled with the next pipeline, and components
//! that several aggregates need (`SUM(x)` and `AVG(x)`) are kept once.

use crate::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use crate::pipeline::ComponentUpdate;
use millstream_abi::Accumulator;
use millstream_types::{DataType, Value};

/// A SQL aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// `COUNT(*)`
    CountRows,
    /// `COUNT(x)`: rows where x is not NULL.
    Count,
    /// `SUM(x)`: of x's type (integers wrap), DECIMAL(38, s) for decimals; NULL when no value was there.
    Sum,
    /// `MIN(x)`
    Min,
    /// `MAX(x)`
    Max,
    /// `AVG(x)`: of x's type, truncated for integers; DECIMAL(38, max(6, s)) for decimals.
    Avg,
}

impl AggregateFunction {
    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::CountRows | AggregateFunction::Count => "COUNT",
            AggregateFunction::Sum => "SUM",
            AggregateFunction::Min => "MIN",
            AggregateFunction::Max => "MAX",
            AggregateFunction::Avg => "AVG",
        }
    }
}

/// One aggregate of a query, over the input of the aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// Function.
    pub function: AggregateFunction,
    /// Argument; `None` for `COUNT(*)`.
    pub argument: Option<Expr>,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Expr>,
    /// Type of the result.
    pub data_type: DataType,
    /// Whether the result can be NULL.
    pub nullable: bool,
}

/// The components of all aggregates of one aggregation, each distinct one once.
#[derive(Debug, Default)]
pub struct Components {
    /// Kind, output type and update of each.
    pub list: Vec<(Accumulator, DataType, ComponentUpdate)>,
}

impl Components {
    /// Adds the components of `call` and returns its result as an expression over a trigger's output, in which
    /// component *i* is column `first + i`.
    pub fn decompose(&mut self, call: &AggregateCall, first: usize) -> Expr {
        match (call.function, &call.argument) {
            (AggregateFunction::CountRows, _) | (_, None) => self.count(None, call, first),
            (AggregateFunction::Count, Some(argument)) => self.count(Some(argument), call, first),
            (AggregateFunction::Sum, Some(argument)) => {
                let (accumulator, output) = sum_of(&call.data_type, &call.data_type);
                let sum = self.add(accumulator, output, argument, call, first);
                self.null_when_empty(checked(sum), argument, call, first)
            }
            (AggregateFunction::Avg, Some(argument)) => self.average(argument, call, first),
            (AggregateFunction::Min | AggregateFunction::Max, Some(argument)) => self.extreme(argument, call, first),
        }
    }

    fn push(&mut self, accumulator: Accumulator, output: DataType, update: ComponentUpdate, first: usize) -> Expr {
        let entry = (accumulator, output.clone(), update);
        let index = self.list.iter().position(|e| *e == entry).unwrap_or_else(|| {
            self.list.push(entry);
            self.list.len() - 1
        });
        let nullable = matches!(accumulator, Accumulator::MinStr | Accumulator::MaxStr);
        Expr::column(first + index, output, nullable)
    }

    fn add(
        &mut self,
        kind: Accumulator,
        output: DataType,
        argument: &Expr,
        call: &AggregateCall,
        first: usize,
    ) -> Expr {
        let update = ComponentUpdate { argument: Some(argument.clone()), guard: call.filter.clone() };
        self.push(kind, output, update, first)
    }

    fn count(&mut self, argument: Option<&Expr>, call: &AggregateCall, first: usize) -> Expr {
        let update = ComponentUpdate { argument: argument.filter(|a| a.nullable).cloned(), guard: call.filter.clone() };
        self.push(Accumulator::Count, DataType::BigInt, update, first)
    }

    /// A result is missing only through NULLs, a FILTER, or as that of a global aggregation over no rows.
    fn null_when_empty(&mut self, value: Expr, argument: &Expr, call: &AggregateCall, first: usize) -> Expr {
        if !call.nullable {
            return value;
        }
        let count = self.count(Some(argument), call, first);
        let zero = Expr::literal(Value::Int(0), DataType::BigInt);
        let empty =
            Expr::new(ExprKind::Compare(CompareOp::Equal, Box::new(count), Box::new(zero)), DataType::Boolean, false);
        let data_type = value.data_type.clone();
        let null = Expr::literal(Value::Null, data_type.clone());
        Expr::new(ExprKind::Case(vec![(empty, null)], Box::new(value)), data_type, true)
    }

    fn average(&mut self, argument: &Expr, call: &AggregateCall, first: usize) -> Expr {
        let (accumulator, sum_type) = match &argument.data_type {
            DataType::Decimal { scale, .. } => (Accumulator::SumI128, DataType::decimal(38, *scale)),
            t if t.is_floating() => (Accumulator::SumF64, DataType::Double),
            _ => (Accumulator::SumI64, DataType::BigInt),
        };
        let sum = self.add(accumulator, sum_type.clone(), argument, call, first);
        let count = self.count(Some(argument), call, first);
        let (divisor, quotient_type) = match &sum_type {
            DataType::Decimal { .. } => (count.clone().cast_to(DataType::decimal(19, 0)), call.data_type.clone()),
            t => (count.clone().cast_to(t.clone()), t.clone()),
        };
        let nullable = quotient_type.is_numeric() && matches!(quotient_type, DataType::Decimal { .. });
        let quotient = Expr::new(
            ExprKind::Arithmetic(ArithmeticOp::Divide, Box::new(sum), Box::new(divisor)),
            quotient_type,
            nullable,
        );
        // The division stands in a lazy branch, so an empty group does not divide by zero.
        self.null_when_empty(quotient.cast_to(call.data_type.clone()), argument, call, first)
    }

    fn extreme(&mut self, argument: &Expr, call: &AggregateCall, first: usize) -> Expr {
        let is_min = call.function == AggregateFunction::Min;
        let pick = |min, max| if is_min { min } else { max };
        let data_type = &argument.data_type;
        if *data_type == DataType::Boolean {
            // FALSE < TRUE: the extreme of 0 and 1.
            let number = Expr::new(
                ExprKind::Case(
                    vec![
                        (argument.clone(), Expr::literal(Value::Int(1), DataType::TinyInt)),
                        (
                            Expr::new(ExprKind::IsNull(Box::new(argument.clone())), DataType::Boolean, false),
                            Expr::literal(Value::Null, DataType::TinyInt),
                        ),
                    ],
                    Box::new(Expr::literal(Value::Int(0), DataType::TinyInt)),
                ),
                DataType::TinyInt,
                argument.nullable,
            );
            let kind = pick(Accumulator::MinI64, Accumulator::MaxI64);
            let value = self.add(kind, DataType::TinyInt, &number, call, first);
            let one = Expr::literal(Value::Int(1), DataType::TinyInt);
            let truth = ExprKind::Compare(CompareOp::Equal, Box::new(value), Box::new(one));
            return self.null_when_empty(Expr::new(truth, DataType::Boolean, false), &number, call, first);
        }
        let kind = match data_type {
            DataType::Decimal { .. } => pick(Accumulator::MinI128, Accumulator::MaxI128),
            t if t.is_floating() => pick(Accumulator::MinF64, Accumulator::MaxF64),
            t if t.is_string() || t.is_binary() => pick(Accumulator::MinStr, Accumulator::MaxStr),
            _ => pick(Accumulator::MinI64, Accumulator::MaxI64),
        };
        let value = self.add(kind, data_type.clone(), argument, call, first);
        match kind {
            Accumulator::MinStr | Accumulator::MaxStr => value,
            _ => self.null_when_empty(value, argument, call, first),
        }
    }
}

fn sum_of(data_type: &DataType, output: &DataType) -> (Accumulator, DataType) {
    let accumulator = match data_type {
        DataType::Decimal { .. } => Accumulator::SumI128,
        t if t.is_floating() => Accumulator::SumF64,
        _ => Accumulator::SumI64,
    };
    (accumulator, output.clone())
}

/// A decimal sum beyond 38 digits is NULL, as in Flink: adding zero applies the check of decimal addition.
fn checked(sum: Expr) -> Expr {
    let DataType::Decimal { scale, .. } = sum.data_type else { return sum };
    let data_type = sum.data_type.clone();
    let zero = Expr::literal(Value::Decimal(0), DataType::decimal(scale.max(1), scale));
    Expr::new(ExprKind::Arithmetic(ArithmeticOp::Add, Box::new(sum), Box::new(zero)), data_type, true)
}
