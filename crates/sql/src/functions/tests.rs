//! Typing and lowering of calls.

use super::*;
use millstream_abi::RuntimeFn;
use millstream_plan::expr::{CompareOp, ExprKind};
use millstream_types::{DataType, Value};

fn column(data_type: DataType, nullable: bool) -> Expr {
    Expr::column(0, data_type, nullable)
}

fn text() -> Expr {
    column(DataType::STRING, true)
}

fn integer(value: i64) -> Expr {
    Expr::literal(Value::Int(value), DataType::Int)
}

fn literal(value: &str) -> Expr {
    Expr::literal(Value::String(value.into()), DataType::Char(value.len() as u32))
}

fn bind(name: &str, arguments: &[Expr]) -> Expr {
    bind_call(name, arguments.to_vec(), Span::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The native function at the root and its arguments.
fn native(expr: &Expr) -> (RuntimeFn, &[Expr]) {
    match &expr.kind {
        ExprKind::Call(function, arguments) => (*function, arguments),
        other => panic!("{other:?} is not a native call"),
    }
}

#[test]
fn names_are_case_insensitive_and_have_aliases() {
    for (name, function) in
        [("lower", RuntimeFn::Lower), ("Character_Length", RuntimeFn::CharLength), ("length", RuntimeFn::CharLength)]
    {
        assert_eq!(native(&bind(name, &[text()])).0, function);
    }
    assert!(is_scalar("regexp_extract") && is_scalar("LEVENSHTEIN") && !is_scalar("frobnicate"));
}

#[test]
fn types_and_nullability() {
    let not_null = column(DataType::Varchar(20), false);
    let number = column(DataType::Int, false);
    let decimal = column(DataType::decimal(10, 3), false);
    let cases: &[(&str, &[Expr], DataType, bool)] = &[
        ("LOWER", std::slice::from_ref(&not_null), DataType::Varchar(20), false),
        ("LOWER", &[text()], DataType::STRING, true),
        ("CHAR_LENGTH", std::slice::from_ref(&not_null), DataType::Int, false),
        ("SUBSTRING", &[not_null.clone(), number.clone()], DataType::Varchar(20), false),
        ("SUBSTR", &[not_null.clone(), number.clone(), number.clone()], DataType::Varchar(20), true),
        ("SPLIT_INDEX", &[not_null.clone(), literal("/"), integer(3)], DataType::STRING, true),
        ("REGEXP_EXTRACT", &[not_null.clone(), literal("a(b)"), integer(1)], DataType::STRING, true),
        ("REGEXP", &[not_null.clone(), literal("a")], DataType::Boolean, false),
        ("ENCODE", &[not_null.clone(), literal("UTF-8")], DataType::BYTES, false),
        ("POSITION", &[literal("a"), text()], DataType::Int, true),
        ("SQRT", std::slice::from_ref(&decimal), DataType::Double, false),
        ("POWER", &[number.clone(), decimal.clone()], DataType::Double, false),
        ("ABS", std::slice::from_ref(&decimal), DataType::decimal(10, 3), false),
        ("SIGN", std::slice::from_ref(&number), DataType::Int, false),
        ("FLOOR", std::slice::from_ref(&decimal), DataType::decimal(10, 0), false),
        ("CEIL", std::slice::from_ref(&number), DataType::Int, false),
        ("ROUND", &[decimal.clone(), integer(1)], DataType::decimal(9, 1), false),
        ("ROUND", &[decimal.clone(), integer(-2)], DataType::decimal(8, 0), false),
        ("ROUND", &[decimal.clone(), integer(5)], DataType::decimal(10, 3), false),
        ("ROUND", std::slice::from_ref(&decimal), DataType::decimal(8, 0), false),
        ("ROUND", &[decimal.clone(), number.clone()], DataType::decimal(10, 3), true),
        ("TRUNCATE", &[column(DataType::Float, false), integer(1)], DataType::Float, false),
        ("MOD", &[column(DataType::BigInt, false), number.clone()], DataType::Int, false),
        ("PI", &[], DataType::Double, false),
        ("RAND_INTEGER", &[integer(5)], DataType::Int, false),
        ("UUID", &[], DataType::STRING, false),
        ("CONCAT", &[not_null.clone(), text()], DataType::STRING, true),
        ("||", &[not_null.clone(), literal("ab")], DataType::Varchar(22), false),
        ("CONCAT_WS", &[literal("-"), text(), text()], DataType::STRING, false),
        ("IF", &[column(DataType::Boolean, true), number.clone(), decimal.clone()], DataType::decimal(13, 3), false),
        ("IFNULL", &[column(DataType::Int, true), integer(0)], DataType::Int, false),
        ("COALESCE", &[column(DataType::Int, true), column(DataType::BigInt, true)], DataType::BigInt, true),
        ("NULLIF", &[number.clone(), integer(0)], DataType::Int, true),
        ("GREATEST", &[number.clone(), column(DataType::BigInt, false)], DataType::BigInt, false),
        ("LEAST", &[number.clone(), column(DataType::Double, true)], DataType::Double, true),
        ("ELT", &[number.clone(), literal("a"), literal("bc")], DataType::Varchar(2), true),
        ("MD5", &[Expr::literal(Value::Null, DataType::Null)], DataType::Char(32), true),
    ];
    for (name, arguments, data_type, nullable) in cases {
        let expr = bind(name, arguments);
        assert_eq!((&expr.data_type, expr.nullable), (data_type, *nullable), "{name}{arguments:?}");
    }
}

#[test]
fn native_calls_get_the_types_of_their_parameters() {
    for info in all().iter().filter(|info| !matches!(info.category, Category::Collection | Category::Vectorised)) {
        for arguments in [
            vec![],
            vec![text()],
            vec![text(), text()],
            vec![text(), integer(1)],
            vec![text(), text(), integer(1)],
            vec![text(), integer(1), text()],
            vec![text(), text(), text()],
            vec![integer(1)],
            vec![integer(1), integer(2)],
            vec![column(DataType::TinyInt, true)],
            vec![column(DataType::decimal(9, 2), true)],
            vec![column(DataType::decimal(9, 2), true), integer(1)],
            vec![column(DataType::Float, true), column(DataType::Double, true)],
            vec![column(DataType::BYTES, true)],
        ] {
            if let Ok(expr) = bind_call(&info.name, arguments, Span::default()) {
                expr.walk(&mut check_physical_types);
            }
        }
    }
}

/// Arguments and results of native calls have the physical types of the list of runtime functions.
fn check_physical_types(expr: &Expr) {
    use millstream_abi::Phys;
    let phys = |data_type: &DataType| match data_type {
        DataType::Boolean => Phys::Bool,
        DataType::TinyInt => Phys::I8,
        DataType::SmallInt => Phys::I16,
        DataType::Int | DataType::Date | DataType::Time(_) | DataType::IntervalMonth => Phys::I32,
        DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::IntervalMilli => Phys::I64,
        DataType::Decimal { .. } => Phys::I128,
        DataType::Float => Phys::F32,
        DataType::Double => Phys::F64,
        _ => Phys::Str,
    };
    if let ExprKind::Call(function, arguments) = &expr.kind {
        let types: Vec<Phys> = arguments.iter().map(|a| phys(&a.data_type)).collect();
        assert_eq!(
            (&types[..], phys(&expr.data_type)),
            (function.arguments(), function.result()),
            "{}",
            function.name()
        );
    }
}

#[test]
fn defaults_are_filled_in() {
    let (function, arguments) = {
        let expr = bind("REGEXP_EXTRACT", &[text(), literal("a")]);
        let (function, arguments) = native(&expr);
        (function, arguments.to_vec())
    };
    assert_eq!((function, arguments.len()), (RuntimeFn::RegexpExtract, 3));
    assert_eq!(arguments[2], integer(0));

    let trim = bind("TRIM", &[literal("LEADING"), literal("x"), text()]);
    let (function, arguments) = native(&trim);
    assert_eq!((function, &arguments[0], &arguments[1]), (RuntimeFn::TrimLeading, &text(), &literal("x")));

    let instr = bind("INSTR", &[text(), literal("x")]);
    assert_eq!(native(&instr).1[0], literal("x"));

    let overlay = bind("OVERLAY", &[text(), literal("abc"), integer(2)]);
    assert_eq!(native(&native(&overlay).1[3]).0, RuntimeFn::CharLength);
}

#[test]
fn concat_needs_few_calls() {
    let parts: Vec<Expr> = (0..7).map(|index| Expr::column(index, DataType::STRING, false)).collect();
    let expr = bind("CONCAT", &parts);
    let (function, arguments) = native(&expr);
    assert_eq!((function, arguments.len()), (RuntimeFn::Concat4, 4));
    assert_eq!(native(&arguments[0]).0, RuntimeFn::Concat4);
    assert_eq!(bind("CONCAT", &parts[..1]), parts[0]);
}

#[test]
fn cheap_arguments_are_compared_instead_of_passed() {
    let cheap = bind("ABS", &[column(DataType::Int, false)]);
    assert!(matches!(&cheap.kind, ExprKind::Case(branches, _)
        if matches!(&branches[0].0.kind, ExprKind::Compare(CompareOp::Less, ..))));
    let random = bind("ABS", &[bind("RAND", &[])]);
    assert_eq!(native(&random).0, RuntimeFn::AbsDouble);
}

#[test]
fn times() {
    let timestamp = column(DataType::Timestamp(6), false);
    let cases: &[(&str, &[Expr], DataType, bool)] = &[
        ("EXTRACT", &[literal("YEAR"), timestamp.clone()], DataType::BigInt, false),
        ("HOUR", &[column(DataType::TimestampLtz(3), true)], DataType::BigInt, true),
        ("DAYOFWEEK", &[column(DataType::Date, false)], DataType::BigInt, false),
        ("SECOND", &[column(DataType::Time(0), false)], DataType::BigInt, false),
        ("FLOOR", &[timestamp.clone(), literal("HOUR")], DataType::Timestamp(6), false),
        ("CEIL", &[column(DataType::TimestampLtz(3), false), literal("DAY")], DataType::TimestampLtz(3), false),
        ("DATE_FORMAT", &[timestamp.clone(), literal("yyyy")], DataType::STRING, false),
        ("DATE_FORMAT", &[column(DataType::STRING, false), literal("yyyy")], DataType::STRING, true),
        ("TO_DATE", &[column(DataType::STRING, false)], DataType::Date, true),
        ("TO_TIMESTAMP", &[text(), literal("yyyy")], DataType::Timestamp(3), true),
        ("TO_TIMESTAMP_LTZ", &[column(DataType::BigInt, false), integer(3)], DataType::TimestampLtz(3), true),
        ("TO_TIMESTAMP_LTZ", &[text()], DataType::TimestampLtz(3), true),
        ("FROM_UNIXTIME", &[integer(44)], DataType::STRING, true),
        ("UNIX_TIMESTAMP", &[], DataType::BigInt, false),
        ("TIMESTAMPADD", &[literal("HOUR"), integer(2), column(DataType::Date, false)], DataType::Timestamp(3), false),
        (
            "TIMESTAMPADD",
            &[literal("MONTH"), column(DataType::Int, true), timestamp.clone()],
            DataType::Timestamp(6),
            true,
        ),
        ("TIMESTAMPDIFF", &[literal("DAY"), column(DataType::Date, false), timestamp.clone()], DataType::Int, false),
        ("CURRENT_TIMESTAMP", &[], DataType::TimestampLtz(3), false),
        ("LOCALTIME", &[], DataType::Time(0), false),
    ];
    for (name, arguments, data_type, nullable) in cases {
        let expr = bind(name, arguments);
        assert_eq!((&expr.data_type, expr.nullable), (data_type, *nullable), "{name}{arguments:?}");
        expr.walk(&mut check_physical_types);
    }
    let error = bind_call("EXTRACT", vec![literal("FORTNIGHT"), timestamp], Span::default()).unwrap_err();
    assert_eq!(error.message, "FORTNIGHT is not a unit of time");
}

#[test]
fn types_of_values_by_name() {
    let name = |expr: Expr| match bind("TYPEOF", &[expr]).kind {
        ExprKind::Literal(Value::String(name)) => name,
        other => panic!("{other:?} is not a name"),
    };
    assert_eq!(name(column(DataType::Int, true)), "INT");
    assert_eq!(name(column(DataType::Timestamp(3), false)), "TIMESTAMP(3) NOT NULL");
    assert_eq!(name(text()), "STRING");
}

#[test]
fn wrong_calls_are_explained() {
    let span = Span { line: 2, column: 8, length: 5 };
    let error = |name: &str, arguments: Vec<Expr>| bind_call(name, arguments, span).unwrap_err();
    let wrong = error("lpad", vec![text(), text(), integer(1)]);
    assert_eq!(wrong.code, code::TYPE_MISMATCH);
    assert_eq!(
        wrong.to_string(),
        "error[MS2006]: LPAD does not take arguments (STRING, STRING, INT) (line 2, column 8); \
         use LPAD(string, length, pad)"
    );
    assert_eq!(error("UPPER", vec![integer(1)]).code, code::TYPE_MISMATCH);
    assert_eq!(error("COALESCE", vec![integer(1), text()]).code, code::TYPE_MISMATCH);
    assert_eq!(error("GREATEST", vec![]).code, code::TYPE_MISMATCH);

    let unknown = error("REGEXP_EXTRAKT", vec![]);
    assert_eq!(unknown.code, code::UNKNOWN_FUNCTION);
    assert_eq!(unknown.advice.as_deref(), Some("did you mean REGEXP_EXTRACT?"));
    assert_eq!(error("TRY_PARSE_JSON", vec![text()]).code, code::UNSUPPORTED);
}
