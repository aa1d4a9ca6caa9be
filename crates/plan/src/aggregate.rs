//! Aggregate functions as compositions of accumulator components.
//!
//! An aggregate declares which components it updates and how its result is computed from them. The result is an
//! ordinary expression over the trigger's output columns, so it is compiled with the next pipeline, and components
//! that several aggregates need (`SUM(x)` and `AVG(x)`) are kept once.

use crate::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use crate::pipeline::{ComponentOutput, ComponentUpdate};
use crate::weights::Weights;
use millstream_abi::{Accumulator, Finish, ObjectKind, Phys, ShorterWindows};
use millstream_types::{DataType, Field, Value};
use std::num::NonZeroI64;

/// Digits of decimals: 10¹² of these can be added up in 128 bits.
const NEVER_WRAPS: u8 = 26;

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
    /// `STDDEV_POP(x)`, DOUBLE.
    StddevPop,
    /// `STDDEV_SAMP(x)`, DOUBLE; NULL for fewer than two values.
    StddevSamp,
    /// `VAR_POP(x)`, DOUBLE.
    VarPop,
    /// `VAR_SAMP(x)`, DOUBLE; NULL for fewer than two values.
    VarSamp,
    /// `COVAR_POP(y, x)`, DOUBLE, over pairs without NULL.
    CovarPop,
    /// `COVAR_SAMP(y, x)`, DOUBLE; NULL for fewer than two pairs.
    CovarSamp,
    /// `CORR(y, x)`, DOUBLE; NULL when either does not vary.
    Corr,
    /// `BOOL_AND(x)`, `EVERY(x)`
    BoolAnd,
    /// `BOOL_OR(x)`, `SOME(x)`
    BoolOr,
    /// `FIRST_VALUE(x)`: the first that is not NULL in order of the input.
    FirstValue,
    /// `LAST_VALUE(x)`: the last that is not NULL.
    LastValue,
    /// `APPROX_COUNT_DISTINCT(x)`, BIGINT.
    ApproxCountDistinct,
    /// `MEDIAN(x)`, DOUBLE.
    Median,
    /// `PERCENTILE(x, fraction)`, DOUBLE, interpolated; the fraction is the only parameter.
    Percentile,
    /// `APPROX_PERCENTILE(x, fraction)`, DOUBLE, within 1 % of the value.
    ApproxPercentile,
    /// `MODE(x)`: the most frequent value, the smallest of those.
    Mode,
    /// `COLLECT(x)`: MAP from value to count (Flink's MULTISET).
    Collect,
    /// `LISTAGG(x, separator)`; the separator is the only parameter.
    ListAgg,
    /// `ARRAY_AGG(x)`; the only parameter, BOOLEAN, says whether NULLs are kept.
    ArrayAgg,
    /// State of a function of the program over BYTES that have its arguments: BYTES.
    Fold {
        /// Of the function in this process.
        number: u32,
        /// Rows that are kept before they are folded into the state.
        rows: u16,
    },
}

impl AggregateFunction {
    /// Name in SQL.
    pub fn name(self) -> &'static str {
        use AggregateFunction::*;
        match self {
            CountRows | Count => "COUNT",
            Sum => "SUM",
            Min => "MIN",
            Max => "MAX",
            Avg => "AVG",
            StddevPop => "STDDEV_POP",
            StddevSamp => "STDDEV_SAMP",
            VarPop => "VAR_POP",
            VarSamp => "VAR_SAMP",
            CovarPop => "COVAR_POP",
            CovarSamp => "COVAR_SAMP",
            Corr => "CORR",
            BoolAnd => "BOOL_AND",
            BoolOr => "BOOL_OR",
            FirstValue => "FIRST_VALUE",
            LastValue => "LAST_VALUE",
            ApproxCountDistinct => "APPROX_COUNT_DISTINCT",
            Median => "MEDIAN",
            Percentile => "PERCENTILE",
            ApproxPercentile => "APPROX_PERCENTILE",
            Mode => "MODE",
            Collect => "COLLECT",
            ListAgg => "LISTAGG",
            ArrayAgg => "ARRAY_AGG",
            Fold { .. } => "STATE",
        }
    }
}

/// One aggregate of a query, over the input of the aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// Function.
    pub function: AggregateFunction,
    /// Arguments whose values are aggregated; none for `COUNT(*)`.
    pub arguments: Vec<Expr>,
    /// Constant arguments, as the function's documentation says.
    pub parameters: Vec<Value>,
    /// `DISTINCT`: COUNT, SUM, AVG, LISTAGG, ARRAY_AGG and COLLECT of distinct values. The binder drops it where it changes
    /// nothing (MIN, MAX, BOOL_AND, …).
    pub distinct: bool,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Expr>,
    /// Only of the last milliseconds of the window: what the planner asks for when it makes one of two aggregations whose
    /// windows end together.
    pub last_ms: Option<NonZeroI64>,
    /// Type of the result.
    pub data_type: DataType,
    /// Whether the result can be NULL.
    pub nullable: bool,
}

impl AggregateCall {
    /// The column of its results.
    pub fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type.clone(), self.nullable)
    }

    /// Its arguments, and what it filters by.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.arguments.iter().chain(&self.filter)
    }

    /// The same, to change in place.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.arguments.iter_mut().chain(&mut self.filter)
    }

    /// The function with what it is told but its arguments: `AVG`, `DISTINCT SUM`, `LISTAGG ';'`. Calls of other outlines give other
    /// results even from the same components.
    pub fn outline(&self) -> String {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let parameter = |parameter: &Value| match parameter {
            Value::Null => " NULL".to_string(),
            Value::Boolean(value) => format!(" {value}"),
            Value::Int(value) => format!(" {value}"),
            Value::Decimal(value) => format!(" {value}"),
            Value::Float(value) => format!(" {value}"),
            Value::String(text) => format!(" '{}'", text.replace('\'', "''")),
            Value::Bytes(bytes) => format!(" {bytes:?}"),
        };
        let parameters: String = self.parameters.iter().map(parameter).collect();
        format!("{distinct}{}{parameters}", self.function.name())
    }
}

/// The components of all aggregates of one aggregation, each distinct one once.
#[derive(Debug, Default)]
pub struct Components {
    /// Kind and update of each.
    pub list: Vec<(Accumulator, ComponentUpdate)>,
    /// What is shown of them: the columns of a trigger's output that results are computed from.
    pub outputs: Vec<ComponentOutput>,
    /// The calls, as [`AggregateCall::outline`] names them.
    pub calls: Vec<String>,
    /// For each of the list, [`AggregateCall::last_ms`] of the calls that it is of.
    pub last_ms: Vec<Option<NonZeroI64>>,
    /// The same of the call that is being decomposed.
    of_call: Option<NonZeroI64>,
    /// Column of the first output in the results.
    first: usize,
    /// Of rows that may be taken back.
    pub(crate) weights: Option<Weights>,
    /// Distinct values that are counted elsewhere.
    pub(crate) second: Vec<SecondLevel>,
}

/// What comes of the distinct values of an argument in rows that pass a filter.
#[derive(Debug)]
pub(crate) struct SecondLevel {
    pub(crate) argument: Expr,
    pub(crate) filter: Option<Expr>,
    /// The value.
    pub(crate) value: Expr,
    /// How much more it counts: 1, 0 or -1.
    pub(crate) delta: Expr,
}

impl Components {
    /// Components that have been made.
    pub(crate) fn of_list(
        list: Vec<(Accumulator, ComponentUpdate)>,
        outputs: Vec<ComponentOutput>,
        calls: Vec<String>,
    ) -> Components {
        Components { list, outputs, calls, ..Components::default() }
    }

    /// The components of all `calls`, and their results as expressions over a trigger's output, in which output *i* is column
    /// `first + i`.
    pub fn of(calls: &[(AggregateCall, String)], first: usize) -> (Components, Vec<Expr>) {
        let mut components = Components::starting_at(first);
        let results = calls.iter().map(|(call, _)| components.decompose(call)).collect();
        (components, results)
    }

    /// None yet, of which the first output is to be a column of the results.
    pub(crate) fn starting_at(first: usize) -> Components {
        Components { first, ..Components::default() }
    }

    /// Adds the components of `call` and returns its result.
    pub(crate) fn decompose(&mut self, call: &AggregateCall) -> Expr {
        use AggregateFunction as F;
        self.calls.push(call.outline());
        self.of_call = call.last_ms;
        let Some(argument) = call.arguments.first() else { return self.count(None, call) };
        if call.distinct && matches!(call.function, F::Count | F::Sum | F::Avg) {
            return self.distinct(argument, call);
        }
        match call.function {
            F::CountRows => self.count(None, call),
            F::Count => self.count(Some(argument), call),
            F::Sum => {
                let sum = self.add(sum_of(&call.data_type), call.data_type.clone(), argument, call);
                let sum = self.unless_wrapped(sum, argument, call);
                self.null_when_empty(checked(sum), argument, call)
            }
            F::Avg => self.average(argument, call),
            F::Min | F::Max => self.extreme(argument, call.function == F::Min, call),
            F::BoolAnd | F::BoolOr => self.extreme(argument, call.function == F::BoolAnd, call),
            F::StddevPop | F::StddevSamp | F::VarPop | F::VarSamp => self.moments(argument, argument, call),
            F::CovarPop | F::CovarSamp | F::Corr => {
                let other = call.arguments.get(1).unwrap_or(argument);
                self.moments(argument, other, call)
            }
            F::FirstValue => self.object(ObjectKind::First, Finish::Value, argument, call),
            F::LastValue => self.object(ObjectKind::Last, Finish::Value, argument, call),
            F::ApproxCountDistinct => self.object(ObjectKind::Cardinality, Finish::Estimate, argument, call),
            F::Median | F::Percentile | F::ApproxPercentile => {
                let number = argument.clone().cast_to(DataType::Double);
                let (kind, finish) = match call.function {
                    F::ApproxPercentile => (ObjectKind::Quantiles, Finish::Quantile(fraction(call))),
                    _ => (ObjectKind::Bag, Finish::Percentile(fraction(call))),
                };
                self.object(kind, finish, &number, call)
            }
            F::Fold { number, rows } => self.object(ObjectKind::Fold { number, rows }, Finish::State, argument, call),
            F::Mode => self.object(ObjectKind::Bag, Finish::Mode, argument, call),
            F::Collect if call.distinct => self.object(ObjectKind::Distinct, Finish::Multiset, argument, call),
            F::Collect => self.object(ObjectKind::Bag, Finish::Multiset, argument, call),
            F::ArrayAgg => {
                let keeps_nulls = call.parameters.first() == Some(&Value::Boolean(true));
                let finish = if call.distinct { Finish::DistinctArray } else { Finish::Array };
                self.object(list(keeps_nulls), finish, argument, call)
            }
            F::ListAgg => {
                let separator = match call.parameters.first() {
                    Some(Value::String(separator)) => separator.as_str(),
                    _ => ",",
                };
                let finish = match call.distinct {
                    true => Finish::DistinctJoin(separator.into()),
                    false => Finish::Join(separator.into()),
                };
                self.object(list(false), finish, argument, call)
            }
        }
    }

    /// The index of a component, which is made unless it is there.
    pub(crate) fn component(&mut self, accumulator: Accumulator, update: ComponentUpdate) -> usize {
        let (entry, last_ms) = ((accumulator, update), self.of_call);
        let known = self.list.iter().zip(&self.last_ms).position(|(e, ms)| *e == entry && *ms == last_ms);
        known.unwrap_or_else(|| {
            self.list.push(entry);
            self.last_ms.push(last_ms);
            self.list.len() - 1
        })
    }

    /// Those that count shorter windows, which are all of one length.
    pub fn shorter(&self) -> Option<ShorterWindows> {
        let size_ms = self.last_ms.iter().find_map(|ms| *ms)?.get();
        Some(ShorterWindows { size_ms, components: self.last_ms.iter().map(Option::is_some).collect() })
    }

    /// The column of an output, which is made unless it is there.
    pub(crate) fn output(&mut self, output: ComponentOutput) -> Expr {
        let (data_type, nullable) = (output.data_type.clone(), output.nullable);
        let index = self.outputs.iter().position(|o| *o == output).unwrap_or_else(|| {
            self.outputs.push(output);
            self.outputs.len() - 1
        });
        Expr::column(self.first + index, data_type, nullable)
    }

    fn push(&mut self, accumulator: Accumulator, data_type: DataType, update: ComponentUpdate) -> Expr {
        let (accumulator, update, extreme) = match &self.weights {
            Some(weights) => weights.weighed(accumulator, update),
            None => (accumulator, update, None),
        };
        let component = self.component(accumulator, update);
        self.output(match extreme {
            Some(finish) => ComponentOutput { component, finish, data_type, nullable: true },
            None => ComponentOutput::value(component, accumulator, data_type),
        })
    }

    fn add(&mut self, kind: Accumulator, output: DataType, argument: &Expr, call: &AggregateCall) -> Expr {
        let update = ComponentUpdate { argument: Some(argument.clone()), guard: call.filter.clone() };
        self.push(kind, output, update)
    }

    /// A result that an object makes in the type of the call.
    fn object(&mut self, kind: ObjectKind, finish: Finish, argument: &Expr, call: &AggregateCall) -> Expr {
        let (kind, finish) = match &mut self.weights {
            Some(weights) => weights.object(kind, finish, argument, call),
            None => (kind, finish),
        };
        let update = ComponentUpdate { argument: Some(argument.clone()), guard: call.filter.clone() };
        let component = self.component(Accumulator::Object(kind, phys_of_value(&argument.data_type)), update);
        let nullable = finish != Finish::Estimate && finish != Finish::Count;
        self.output(ComponentOutput { component, finish, data_type: call.data_type.clone(), nullable })
    }

    /// COUNT, SUM and AVG of the distinct values.
    fn distinct(&mut self, argument: &Expr, call: &AggregateCall) -> Expr {
        if let Some(result) = self.of_second_level(argument, call) {
            return result;
        }
        let count = AggregateCall { data_type: DataType::BigInt, nullable: false, ..call.clone() };
        let count = self.object(ObjectKind::Distinct, Finish::Count, argument, &count);
        let sum_type = match call.function {
            AggregateFunction::Count => return count,
            AggregateFunction::Sum => call.data_type.clone(),
            _ => widest(&argument.data_type),
        };
        let sum = AggregateCall { data_type: sum_type, nullable: true, ..call.clone() };
        let sum = checked(self.object(ObjectKind::Distinct, Finish::Sum, argument, &sum));
        match call.function {
            AggregateFunction::Sum => sum,
            _ => unless_few(&count, 1, quotient(sum, &count, call)),
        }
    }

    fn count(&mut self, argument: Option<&Expr>, call: &AggregateCall) -> Expr {
        let update = ComponentUpdate { argument: argument.filter(|a| a.nullable).cloned(), guard: call.filter.clone() };
        self.push(Accumulator::Count, DataType::BigInt, update)
    }

    /// A result is missing only through NULLs, a FILTER, or as that of a global aggregation over no rows.
    fn null_when_empty(&mut self, value: Expr, argument: &Expr, call: &AggregateCall) -> Expr {
        if !call.nullable {
            return value;
        }
        let count = self.count(Some(argument), call);
        unless_few(&count, 1, value)
    }

    /// A sum of decimals so wide that 128 bits could wrap in a realistic window: NULL when they have, as the sum as
    /// DOUBLE shows. It need not be exact: 128 bits hold more than 38 digits, beyond which [`checked`] gives NULL
    /// anyway.
    fn unless_wrapped(&mut self, sum: Expr, argument: &Expr, call: &AggregateCall) -> Expr {
        let DataType::Decimal { precision, scale } = argument.data_type else { return sum };
        if precision <= NEVER_WRAPS {
            return sum;
        }
        let number = argument.clone().cast_to(DataType::Double);
        let about = self.add(Accumulator::SumF64, DataType::Double, &number, call);
        let bound = 1.5 * 10f64.powi(38 - i32::from(scale));
        let limit = |value: f64| Expr::literal(Value::Float(value), DataType::Double);
        let inside = Expr::all(vec![
            Expr::compare(CompareOp::Less, limit(-bound), about.clone()),
            Expr::compare(CompareOp::Less, about, limit(bound)),
        ]);
        sum.only_if(inside)
    }

    fn average(&mut self, argument: &Expr, call: &AggregateCall) -> Expr {
        let (accumulator, sum_type) = (sum_of(&argument.data_type), widest(&argument.data_type));
        let sum = self.add(accumulator, sum_type, argument, call);
        let sum = self.unless_wrapped(sum, argument, call);
        let count = self.count(Some(argument), call);
        // The division stands in a lazy branch, so an empty group does not divide by zero.
        self.null_when_empty(quotient(sum, &count, call), argument, call)
    }

    /// Variances, deviations, covariances and correlation of pairs (y, x), from the sums of y, x, y², x² and y·x: with n
    /// pairs, the sum of the products of deviations is Σyx - Σy·Σx / n.
    fn moments(&mut self, y: &Expr, x: &Expr, call: &AggregateCall) -> Expr {
        use AggregateFunction as F;
        let double = |e: &Expr| e.clone().cast_to(DataType::Double);
        let (y, x) = (double(y), double(x));
        // Each sum takes in the pairs where neither is NULL: their product says so.
        let product = |a: &Expr, b: &Expr| Expr::arithmetic(ArithmeticOp::Multiply, a.clone(), b.clone());
        let guard = |other: &Expr| {
            let there = other.clone().not_null();
            match (&call.filter, other.nullable && y != x) {
                (filter, false) => filter.clone(),
                (None, true) => Some(there),
                (Some(filter), true) => Some(Expr::all(vec![filter.clone(), there])),
            }
        };
        let mut sum = |value: Expr, other: &Expr| {
            let update = ComponentUpdate { argument: Some(value), guard: guard(other) };
            self.push(Accumulator::SumF64, DataType::Double, update)
        };
        let (sum_y, sum_x) = (sum(y.clone(), &x), sum(x.clone(), &y));
        let (sum_yx, sum_yy, sum_xx) = (sum(product(&y, &x), &x), sum(product(&y, &y), &x), sum(product(&x, &x), &y));
        // The number of values of one variable is that of COUNT and AVG too.
        let product_of_pair = product(&y, &x);
        let count = self.count(call.arguments.first().filter(|_| y == x).or(Some(&product_of_pair)), call);
        let n = count.clone().cast_to(DataType::Double);
        let divide = |a: Expr, b: Expr| Expr::arithmetic(ArithmeticOp::Divide, a, b);
        let subtract = |a: Expr, b: Expr| Expr::arithmetic(ArithmeticOp::Subtract, a, b);
        let deviations = |ab: Expr, a: &Expr, b: &Expr| subtract(ab, divide(product(a, b), n.clone()));
        let zero = || Expr::literal(Value::Float(0.0), DataType::Double);
        // Rounding can bring the sum of squares of equal values below zero.
        let squares = |xx: Expr, x: &Expr| {
            let value = deviations(xx, x, x);
            let negative = Expr::compare(CompareOp::Less, value.clone(), zero());
            Expr::new(ExprKind::Case(vec![(negative, zero())], Box::new(value)), DataType::Double, false)
        };
        let root =
            |e: Expr| Expr::new(ExprKind::Call(millstream_abi::RuntimeFn::Sqrt, vec![e]), DataType::Double, true);
        let less_one = subtract(n.clone(), Expr::literal(Value::Float(1.0), DataType::Double));
        let (value, is_root) = match call.function {
            F::VarPop | F::VarSamp => (squares(sum_xx, &sum_x), false),
            F::StddevPop | F::StddevSamp => (squares(sum_xx, &sum_x), true),
            F::CovarPop | F::CovarSamp => (deviations(sum_yx, &sum_y, &sum_x), false),
            _ => {
                let spread = root(product(&squares(sum_yy, &sum_y), &squares(sum_xx, &sum_x)));
                let varies = Expr::compare(CompareOp::Greater, spread.clone(), zero());
                return divide(deviations(sum_yx, &sum_y, &sum_x), spread).only_if(varies);
            }
        };
        let is_sample = matches!(call.function, F::VarSamp | F::StddevSamp | F::CovarSamp);
        let (least, divisor) = if is_sample { (2, less_one) } else { (1, n.clone()) };
        let mean = divide(value, divisor);
        unless_few(&count, least, if is_root { root(mean) } else { mean })
    }

    fn extreme(&mut self, argument: &Expr, is_min: bool, call: &AggregateCall) -> Expr {
        let pick = |min, max| if is_min { min } else { max };
        let data_type = &argument.data_type;
        if *data_type == DataType::Boolean {
            // FALSE < TRUE: the extreme of 0 and 1.
            let tiny = |n| Expr::literal(Value::Int(n), DataType::TinyInt);
            let is_null = Expr::new(ExprKind::IsNull(Box::new(argument.clone())), DataType::Boolean, false);
            let cases = vec![(argument.clone(), tiny(1)), (is_null, Expr::null(DataType::TinyInt))];
            let number = Expr::new(ExprKind::Case(cases, Box::new(tiny(0))), DataType::TinyInt, argument.nullable);
            let kind = pick(Accumulator::MinI64, Accumulator::MaxI64);
            let value = self.add(kind, DataType::TinyInt, &number, call);
            return self.null_when_empty(Expr::compare(CompareOp::Equal, value, tiny(1)), &number, call);
        }
        let kind = match data_type {
            DataType::Decimal { .. } => pick(Accumulator::MinI128, Accumulator::MaxI128),
            t if t.is_floating() => pick(Accumulator::MinF64, Accumulator::MaxF64),
            t if t.is_string() || t.is_binary() => pick(Accumulator::MinStr, Accumulator::MaxStr),
            _ => pick(Accumulator::MinI64, Accumulator::MaxI64),
        };
        let value = self.add(kind, data_type.clone(), argument, call);
        match kind {
            Accumulator::MinStr | Accumulator::MaxStr => value,
            _ => self.null_when_empty(value, argument, call),
        }
    }
}

fn list(keeps_nulls: bool) -> ObjectKind {
    ObjectKind::List { keeps_nulls }
}

fn fraction(call: &AggregateCall) -> f64 {
    match call.parameters.first() {
        Some(Value::Float(fraction)) => *fraction,
        _ => 0.5,
    }
}

/// Physical type in which an object keeps values of a type: the binder has excluded nested ones.
pub(crate) fn phys_of_value(data_type: &DataType) -> Phys {
    match data_type {
        DataType::Boolean => Phys::Bool,
        DataType::Decimal { .. } => Phys::I128,
        t if t.is_floating() => Phys::F64,
        t if t.is_string() || t.is_binary() => Phys::Str,
        _ => Phys::I64,
    }
}

/// NULL when the count is below `least`, else the value, which is computed only then.
pub(crate) fn unless_few(count: &Expr, least: i64, value: Expr) -> Expr {
    let few = Expr::compare(CompareOp::Less, count.clone(), Expr::literal(Value::Int(least), DataType::BigInt));
    let (data_type, null) = (value.data_type.clone(), Expr::null(value.data_type.clone()));
    Expr::new(ExprKind::Case(vec![(few, null)], Box::new(value)), data_type, true)
}

/// The mean, in the type of AVG.
pub(crate) fn quotient(sum: Expr, count: &Expr, call: &AggregateCall) -> Expr {
    let (divisor, quotient_type) = match &sum.data_type {
        DataType::Decimal { .. } => (count.clone().cast_to(DataType::decimal(19, 0)), call.data_type.clone()),
        t => (count.clone().cast_to(t.clone()), t.clone()),
    };
    let nullable = sum.nullable || matches!(quotient_type, DataType::Decimal { .. });
    let division = ExprKind::Arithmetic(ArithmeticOp::Divide, Box::new(sum), Box::new(divisor));
    Expr::new(division, quotient_type, nullable).cast_to(call.data_type.clone())
}

/// The sum of numbers of a type.
pub(crate) fn sum_of(data_type: &DataType) -> Accumulator {
    match data_type {
        DataType::Decimal { .. } => Accumulator::SumI128,
        t if t.is_floating() => Accumulator::SumF64,
        _ => Accumulator::SumI64,
    }
}

/// The type in which numbers are added up for a mean.
pub(crate) fn widest(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Decimal { scale, .. } => DataType::decimal(38, *scale),
        t if t.is_floating() => DataType::Double,
        _ => DataType::BigInt,
    }
}

/// A decimal sum beyond 38 digits is NULL, as in Flink: adding zero applies the check of decimal addition.
pub(crate) fn checked(sum: Expr) -> Expr {
    let DataType::Decimal { scale, .. } = sum.data_type else { return sum };
    let data_type = sum.data_type.clone();
    let zero = Expr::literal(Value::Decimal(0), DataType::decimal(scale.max(1), scale));
    Expr::new(ExprKind::Arithmetic(ArithmeticOp::Add, Box::new(sum), Box::new(zero)), data_type, true)
}
