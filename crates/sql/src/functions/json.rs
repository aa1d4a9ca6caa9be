//! JSON functions.
//!
//! The clauses of SQL's syntax come as further arguments, words as string constants, from [`crate::json_syntax`]. What
//! reads JSON is native; what writes it ([`construct`], JSON_STRING) takes values of every type, so it is evaluated a
//! buffer at a time.

use super::call::{BoundCall, Call, case, compare, convert, fits, int, is_not_null, native, null, string, text_of};
use super::collection::{strings_of_json, vector_call};
use super::function::{Binding, Category, Function, functions};
use super::overload::Overload;
use super::overload::Parameter::Text;
use crate::bind::coercion::is_castable;
use crate::data_type::from_text;
use Binding::{Custom, Overloads};
use millstream_abi::RuntimeFn as F;
use millstream_functions::collection::json::JsonConstructor;
use millstream_functions::collection::write::{Form, texts};
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_types::{DataType, Diagnostic, Value, code};

/// JSON functions.
pub(super) const JSON: &[Function] = functions! {Json;
    "IS JSON" ("string IS [NOT] JSON [VALUE | SCALAR | ARRAY | OBJECT]") Custom(is_json),
        "Whether the string is JSON, or JSON of a kind; FALSE for NULL.";
    "JSON_EXISTS" ("JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR])") Custom(exists),
        "Whether the path selects a value; FALSE on an error by default.";
    "JSON_VALUE" ("JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY] [{NULL | ERROR | DEFAULT value} ON ERROR])")
        Custom(value), "The scalar that the path selects, as a STRING, BOOLEAN, INT, BIGINT or DOUBLE; NULL if there is none, by default.";
    "JSON_QUERY" ("JSON_QUERY(json, path [RETURNING type] [{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} [ARRAY] WRAPPER] [{NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [{…} ON ERROR])")
        Custom(query), "The array or object that the path selects, as a STRING or an ARRAY<STRING>; NULL if there is none, by default.";
    "JSON_STRING" ("JSON_STRING(value)") Custom(json_string), "The value as JSON.";
    "JSON_OBJECT" ("JSON_OBJECT([[KEY] key VALUE value, …] [{NULL | ABSENT} ON NULL])") Custom(object),
        "A JSON object of the values; NULLs are kept by default. What other JSON functions give is nested, not quoted.";
    "JSON_ARRAY" ("JSON_ARRAY([value, …] [{NULL | ABSENT} ON NULL])") Custom(array),
        "A JSON array of the values; NULLs are left out by default. What other JSON functions give is nested, not quoted.";
    "JSON" ("JSON(string)") Overloads(&[Overload::new(&[Text], F::JsonText, |_| DataType::STRING)]),
        "Marks a string as JSON, so that JSON_OBJECT and JSON_ARRAY nest it instead of quoting it.";
    "JSON_QUOTE" ("JSON_QUOTE(string)") Overloads(&[Overload::new(&[Text], F::JsonQuote, |_| DataType::STRING)]),
        "The string as a JSON string, with quotes and escapes.";
    "JSON_UNQUOTE" ("JSON_UNQUOTE(string)") Overloads(&[Overload::new(&[Text], F::JsonUnquote, |_| DataType::STRING)]),
        "The text of a JSON string, without quotes and escapes; anything else stays as it is.";
};

/// `string IS JSON`, with the kind as a word.
fn is_json(call: Call) -> BoundCall {
    let kind = choice(&call, 1, &["SCALAR", "ARRAY", "OBJECT"]);
    let Some(s) = call.arguments.first().filter(|s| fits(s, DataType::is_string)).cloned() else {
        return Err(call.mismatch());
    };
    let s = convert(s, &DataType::STRING);
    let test = native(F::IsJson, vec![s.clone(), int(kind)], DataType::Boolean, false);
    if !s.nullable {
        return Ok(test);
    }
    Ok(Expr::new(ExprKind::And(vec![is_not_null(s), test]), DataType::Boolean, false))
}

/// JSON and path, the first two arguments.
fn document(call: &Call) -> Result<[Expr; 2], Diagnostic> {
    match &call.arguments[..] {
        [json, path, ..] if fits(json, DataType::is_string) && fits(path, DataType::is_string) => {
            Ok([json, path].map(|e| convert(e.clone(), &DataType::STRING)))
        }
        _ => Err(call.mismatch()),
    }
}

/// The word of a clause.
fn word(call: &Call, index: usize) -> &str {
    call.arguments.get(index).and_then(text_of).unwrap_or_default()
}

/// The number of a clause's word among `words`, from 1; 0 for any other.
fn choice(call: &Call, index: usize, words: &[&str]) -> i32 {
    words.iter().position(|known| *known == word(call, index)).map_or(0, |place| place as i32 + 1)
}

fn exists(call: Call) -> BoundCall {
    let [json, path] = document(&call)?;
    let on_error = choice(&call, 2, &["TRUE", "UNKNOWN", "ERROR"]);
    Ok(native(F::JsonExists, vec![json, path, int(on_error)], DataType::Boolean, on_error == 2))
}

/// A value of ON EMPTY or ON ERROR in the type of the result; booleans as JSON writes them.
fn default_value(value: Expr, to: &DataType) -> BoundCall {
    if let (ExprKind::Literal(Value::Boolean(truth)), true) = (&value.kind, to.is_string()) {
        return Ok(string(if *truth { "true" } else { "false" }));
    }
    if !is_castable(&value.data_type, to) {
        let message = format!("the DEFAULT of JSON_VALUE is {}, but it returns {to}", value.data_type);
        return Err(super::call::at(Diagnostic::new(code::TYPE_MISMATCH, message), value.span).advise("cast the value"));
    }
    Ok(convert(value, to))
}

/// `JSON_VALUE`: json, path, type or NULL, a word and a value for nothing, a word and a value for an error.
fn value(call: Call) -> BoundCall {
    let [json, path] = document(&call)?;
    let returning = match word(&call, 2) {
        "" => DataType::STRING,
        text => from_text(text)?,
    };
    let kind = match returning {
        DataType::Char(_) | DataType::Varchar(_) => 0,
        DataType::Boolean => 1,
        DataType::Int => 2,
        DataType::BigInt => 3,
        DataType::Double => 4,
        _ => {
            let message = format!("JSON_VALUE does not return {returning}");
            return Err(Diagnostic::new(code::TYPE_MISMATCH, message)
                .advise("return STRING, BOOLEAN, INT, BIGINT or DOUBLE, and cast the value"));
        }
    };
    let arguments = vec![json.clone(), path.clone(), int(kind)];
    let found = convert(native(F::JsonValue, arguments, DataType::STRING, true), &returning);
    let found = Expr { nullable: true, ..found };
    let (on_empty, on_error) = (word(&call, 3), word(&call, 5));
    if [on_empty, on_error] == ["NULL"; 2] {
        return Ok(found);
    }
    let fail = i32::from(on_empty == "ERROR") | i32::from(on_error == "ERROR") << 1;
    let outcome = native(F::JsonValueOutcome, vec![json, path, int(kind), int(fail)], DataType::Int, false);
    let is = |number: i32| compare(CompareOp::Equal, outcome.clone(), int(number));
    let mut branches = vec![(is(0), found)];
    if on_empty == "DEFAULT" {
        branches.push((is(1), default_value(call.arguments[4].clone(), &returning)?));
    }
    if on_error == "DEFAULT" {
        branches.push((is(2), default_value(call.arguments[6].clone(), &returning)?));
    }
    Ok(case(branches, null(returning.clone()), returning))
}

/// `JSON_QUERY`: json, path, type or NULL, and a word each for the wrapper, for nothing, for an error.
fn query(call: Call) -> BoundCall {
    let [json, path] = document(&call)?;
    let wrapper = choice(&call, 3, &["CONDITIONAL", "UNCONDITIONAL"]);
    let instead = |index: usize| int(choice(&call, index, &["EMPTY ARRAY", "EMPTY OBJECT", "ERROR"]));
    let arguments = vec![json, path, int(wrapper), instead(4), instead(5)];
    let found = native(F::JsonQuery, arguments, DataType::STRING, true);
    match word(&call, 2) {
        "" => Ok(found),
        text => match from_text(text)? {
            returning if returning.is_string() => Ok(convert(found, &returning)),
            DataType::Array(element) if element.is_string() => Ok(strings_of_json(found)),
            other => Err(Diagnostic::new(code::TYPE_MISMATCH, format!("JSON_QUERY does not return {other}"))
                .advise("return STRING or ARRAY<STRING>")),
        },
    }
}

fn json_string(call: Call) -> BoundCall {
    let [value] = call.take()?;
    let data_type = value.data_type.clone();
    let value = if value.data_type == DataType::Null { convert(value, &DataType::STRING) } else { value };
    Ok(vector_call("JSON_STRING", vec![value], DataType::STRING, move |input| texts(input, &data_type, Form::Json)))
}

/// Whether an expression is JSON that a constructor takes in as it is.
fn is_json_text(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Vector(call, _) => {
            call.0.name().starts_with("JSON_OBJECT") || call.0.name().starts_with("JSON_ARRAY")
        }
        ExprKind::Call(function, _) => matches!(function, F::JsonText | F::JsonQuery),
        _ => false,
    }
}

/// A constructor of JSON: every value is of a type, or JSON already; the values of an object come after their keys.
fn construct(name: &str, keeps_null: bool, is_object: bool, arguments: Vec<Expr>) -> Expr {
    let typed = |a: Expr| if a.data_type == DataType::Null { convert(a, &DataType::STRING) } else { a };
    let arguments: Vec<Expr> = arguments.into_iter().map(typed).collect();
    let types = arguments.iter().map(|a| (a.data_type.clone(), is_json_text(a))).collect();
    let constructor = JsonConstructor { is_object, keeps_null, arguments: types };
    let name = format!("{name}{}", if keeps_null { "" } else { " ABSENT ON NULL" });
    Expr { nullable: false, ..vector_call(name, arguments, DataType::STRING, move |input| constructor.evaluate(input)) }
}

/// `JSON_OBJECT`: NULL or ABSENT, then keys and values in turn.
fn object(mut call: Call) -> BoundCall {
    let keeps_null = word(&call, 0) != "ABSENT";
    let members = call.arguments.split_off(1.min(call.arguments.len()));
    if let Some(key) = members.iter().step_by(2).find(|key| text_of(key).is_none()) {
        let diagnostic = Diagnostic::new(code::TYPE_MISMATCH, "a key of JSON_OBJECT must be a string constant");
        return Err(super::call::at(diagnostic, key.span).advise("write KEY 'name' VALUE value"));
    }
    Ok(construct("JSON_OBJECT", keeps_null, true, members))
}

/// `JSON_ARRAY`: NULL or ABSENT, then the values.
fn array(mut call: Call) -> BoundCall {
    let keeps_null = word(&call, 0) == "NULL";
    let values = call.arguments.split_off(1.min(call.arguments.len()));
    Ok(construct("JSON_ARRAY", keeps_null, false, values))
}
