//! The vectorised fallback: DataFusion's scalar functions, each evaluated over a whole column.
//!
//! Types are coerced and inferred by DataFusion's own rules, on the Arrow types of our columns. What the function needs
//! in another Arrow type (other string layouts, finer timestamps) is cast on the way in, and its result is cast to the
//! Arrow type of the SQL type that we give it. Arguments that are constants are handed over as constants, which many
//! functions require or profit from.
//!
//! Only immutable functions are taken: what depends on the time of the query is ours to define.

use super::call::{at, mismatch};
use super::{further, ours};
use arrow_array::ArrayRef;
use arrow_schema::{DataType as Arrow, Field as ArrowField, FieldRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility};
use millstream_plan::expr::{Expr, ExprKind, Span, VectorCall, VectorFunction};
use millstream_types::{DataType, Diagnostic, Value, code};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// DataFusion's functions by upper-case name, without those that we define ourselves.
static FUNCTIONS: LazyLock<BTreeMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let packages = [
        datafusion_functions::string::functions(),
        datafusion_functions::unicode::functions(),
        datafusion_functions::math::functions(),
        datafusion_functions::datetime::functions(),
        datafusion_functions::encoding::functions(),
    ];
    let mut functions = BTreeMap::new();
    for udf in packages.into_iter().flatten().filter(|udf| udf.signature().volatility == Volatility::Immutable) {
        for name in std::iter::once(udf.name()).chain(udf.aliases().iter().map(String::as_str)) {
            let name = name.to_ascii_uppercase();
            if ours::find(&name).is_none() {
                functions.insert(name, Arc::clone(&udf));
            }
        }
    }
    functions
});

/// The function of an upper-case name.
pub(super) fn find(name: &str) -> Option<&'static Arc<ScalarUDF>> {
    FUNCTIONS.get(name)
}

/// Binds a call of a DataFusion function.
pub(super) fn bind(udf: &Arc<ScalarUDF>, arguments: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
    let fields: Vec<FieldRef> =
        arguments.iter().map(|a| Arc::new(ArrowField::new("argument", a.data_type.to_arrow(), a.nullable))).collect();
    let name = udf.name().to_ascii_uppercase();
    let rejected = || mismatch(&name, &arguments, span).advise(format!("use {}", further::usage(&name)));
    let fields = fields_with_udf(&fields, &**udf).map_err(|_| rejected())?;
    let constants = arguments
        .iter()
        .zip(&fields)
        .map(|(argument, field)| constant_of(argument, field.data_type()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| rejected())?;
    let scalars: Vec<Option<&ScalarValue>> = constants.iter().map(Option::as_ref).collect();
    let field = udf
        .return_field_from_args(ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &scalars })
        .map_err(|_| rejected())?;
    let Some(data_type) = sql_type(field.data_type()) else {
        let message = format!("{name} gives {}, which has no SQL type here", field.data_type());
        return Err(at(Diagnostic::new(code::UNSUPPORTED, message), span));
    };
    let function =
        Fallback { udf: Arc::clone(udf), fields, constants, return_field: field, result: data_type.to_arrow() };
    let kind = ExprKind::Vector(VectorCall(Arc::new(function)), arguments);
    Ok(Expr::new(kind, data_type, true).at(span))
}

/// The value of a constant argument as the function takes it.
fn constant_of(argument: &Expr, coerced: &Arrow) -> datafusion_common::Result<Option<ScalarValue>> {
    let ExprKind::Literal(value) = &argument.kind else { return Ok(None) };
    let arrow = argument.data_type.to_arrow();
    let scalar = match value {
        Value::Null => ScalarValue::try_from(&arrow)?,
        Value::Boolean(b) => ScalarValue::Boolean(Some(*b)),
        // Dates, times and timestamps have the representation of the integer of their width.
        Value::Int(i) => ScalarValue::Int64(Some(*i)).cast_to(&integer_of(&arrow))?.cast_to(&arrow)?,
        Value::Decimal(unscaled) => match arrow {
            Arrow::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(*unscaled), precision, scale),
            _ => return Ok(None),
        },
        Value::Float(x) => ScalarValue::Float64(Some(*x)).cast_to(&arrow)?,
        Value::String(s) => ScalarValue::Utf8View(Some(s.clone())),
        Value::Bytes(b) => ScalarValue::BinaryView(Some(b.clone())),
    };
    scalar.cast_to(coerced).map(Some)
}

/// The integer type that Arrow stores values of this type in.
fn integer_of(arrow: &Arrow) -> Arrow {
    match arrow {
        Arrow::Date32 | Arrow::Time32(_) | Arrow::Interval(_) => Arrow::Int32,
        Arrow::Timestamp(..) | Arrow::Duration(_) => Arrow::Int64,
        other => other.clone(),
    }
}

/// The SQL type that holds every value of an Arrow type that a function gives: of scalars without intervals.
fn sql_type(arrow: &Arrow) -> Option<DataType> {
    match arrow {
        Arrow::Time32(arrow_schema::TimeUnit::Second) => Some(DataType::Time(0)),
        Arrow::Null | Arrow::Duration(_) | Arrow::Interval(_) | Arrow::Dictionary(..) => None,
        other if other.is_nested() => None,
        Arrow::Decimal32(..) | Arrow::Decimal64(..) | Arrow::Decimal256(..) => None,
        Arrow::Decimal128(_, scale) if *scale < 0 => None,
        other => DataType::from_arrow(other),
    }
}

/// A DataFusion function with the types of one call.
#[derive(Debug)]
struct Fallback {
    udf: Arc<ScalarUDF>,
    /// Arguments as the function takes them.
    fields: Vec<FieldRef>,
    /// Values of those that are constant, in the type of their field.
    constants: Vec<Option<ScalarValue>>,
    return_field: FieldRef,
    /// Type of the column that we give.
    result: Arrow,
}

impl VectorFunction for Fallback {
    fn name(&self) -> &str {
        self.udf.name()
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize, _: u64) -> Result<ArrayRef, String> {
        let values = arguments
            .iter()
            .zip(&self.constants)
            .zip(&self.fields)
            .map(|((array, constant), field)| match constant {
                Some(constant) => Ok(ColumnarValue::Scalar(constant.clone())),
                None => ColumnarValue::Array(Arc::clone(array)).cast_to(field.data_type(), None),
            })
            .collect::<Result<Vec<_>, _>>();
        let call = |args| {
            self.udf.invoke_with_args(ScalarFunctionArgs {
                args,
                arg_fields: self.fields.clone(),
                number_rows: rows,
                return_field: Arc::clone(&self.return_field),
                config_options: Arc::new(ConfigOptions::default()),
            })
        };
        values
            .and_then(call)
            .and_then(|value| value.cast_to(&self.result, None))
            .and_then(|value| value.into_array(rows))
            .map_err(|error| first_line(&error))
    }
}

/// The first line of an error of DataFusion: what follows is for its developers.
fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::bind_call;
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMillisecondType};
    use arrow_array::{Array, Float64Array, Int32Array, StringViewArray, TimestampMillisecondArray};

    fn evaluate(expr: &Expr, arguments: &[ArrayRef]) -> Result<ArrayRef, String> {
        let ExprKind::Vector(call, _) = &expr.kind else { panic!("{expr:?} is not evaluated by the fallback") };
        let result = call.0.evaluate(arguments, arguments[0].len(), 0)?;
        assert_eq!(*result.data_type(), expr.data_type.to_arrow());
        Ok(result)
    }

    fn text(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringViewArray::from(values.to_vec()))
    }

    #[test]
    fn every_function_is_described() {
        let mut described: Vec<&str> = further::FURTHER.iter().flat_map(|function| function.names()).collect();
        described.sort_unstable();
        assert_eq!(described, FUNCTIONS.keys().map(String::as_str).collect::<Vec<_>>());
    }

    #[test]
    fn evaluates_string_functions_with_constants() {
        let column = Expr::column(0, DataType::STRING, true);
        let literal = |s: &str| Expr::literal(Value::String(s.into()), DataType::Char(1));
        let split = bind_call(
            "split_part",
            vec![column.clone(), literal("-"), Expr::literal(Value::Int(2), DataType::Int)],
            Span::default(),
        )
        .unwrap();
        assert_eq!((&split.data_type, split.nullable), (&DataType::STRING, true));
        let constant = text(&[Some("-"); 3]);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![2; 3]));
        let result = evaluate(&split, &[text(&[Some("a-bc"), None, Some("x")]), constant, numbers]).unwrap();
        let result = result.as_string_view();
        assert_eq!((result.value(0), result.is_null(1), result.value(2)), ("bc", true, ""));

        let distance = bind_call("LEVENSHTEIN", vec![column.clone(), column], Span::default()).unwrap();
        let result = evaluate(&distance, &[text(&[Some("kitten")]), text(&[Some("sitting")])]).unwrap();
        assert_eq!(distance.data_type, DataType::Int);
        assert_eq!(result.as_primitive::<Int32Type>().value(0), 3);
    }

    #[test]
    fn evaluates_math_and_time_functions() {
        let root = bind_call("cbrt", vec![Expr::column(0, DataType::Double, false)], Span::default()).unwrap();
        let result = evaluate(&root, &[Arc::new(Float64Array::from(vec![27.0]))]).unwrap();
        assert_eq!(result.as_primitive::<Float64Type>().value(0), 3.0);

        let gcd = bind_call("GCD", vec![Expr::column(0, DataType::Int, false); 2], Span::default()).unwrap();
        let column: ArrayRef = Arc::new(Int32Array::from(vec![12]));
        let result = evaluate(&gcd, &[column.clone(), Arc::new(Int32Array::from(vec![18]))]).unwrap();
        assert_eq!(result.as_primitive::<Int64Type>().value(0), 6);

        let hour = Expr::literal(Value::String("hour".into()), DataType::Char(4));
        let time = Expr::column(0, DataType::Timestamp(3), false);
        let truncated = bind_call("date_trunc", vec![hour, time], Span::default()).unwrap();
        assert_eq!(truncated.data_type, DataType::Timestamp(3));
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![3_600_000 + 59_999]));
        let result = evaluate(&truncated, &[text(&[Some("hour")]), times]).unwrap();
        assert_eq!(result.as_primitive::<TimestampMillisecondType>().value(0), 3_600_000);
    }

    #[test]
    fn explains_wrong_arguments() {
        let span = Span { line: 3, column: 7, length: 4 };
        let error = bind_call("cbrt", vec![], span).unwrap_err();
        assert_eq!(error.code, code::TYPE_MISMATCH);
        assert_eq!(error.message, "CBRT does not take arguments ()");
        assert_eq!(error.advice.as_deref(), Some("use CBRT(number)"));
        assert!(error.to_string().contains("line 3, column 7"));
    }

    #[test]
    fn reports_bad_rows() {
        let factorial =
            bind_call("FACTORIAL", vec![Expr::column(0, DataType::BigInt, false)], Span::default()).unwrap();
        let column: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![50]));
        assert!(evaluate(&factorial, &[column]).unwrap_err().to_lowercase().contains("overflow"));
    }
}
