//! Operators that are not there, by their text.

use super::calls::filled;

/// The operator, and what to write instead of it: `{0}` and `{1}` are its operands, `{1'}` the text of a string without its quotes.
const ROWS: &[(&str, &str)] = &[
    ("->>", "JSON_VALUE({0}, '$.{1'}')"),
    ("#>>", "JSON_VALUE({0}, '$.a.b')"),
    ("->", "JSON_QUERY({0}, '$.{1'}') for an object or a list, or JSON_VALUE({0}, '$.{1'}') for a single value"),
    ("#>", "JSON_QUERY({0}, '$.a.b') for an object or a list, or JSON_VALUE({0}, '$.a.b') for a single value"),
    ("~", "REGEXP({0}, {1})"),
    ("~*", "REGEXP({0}, '(?i){1'}')"),
    ("!~", "NOT REGEXP({0}, {1})"),
    ("!~*", "NOT REGEXP({0}, '(?i){1'}')"),
    ("~~", "{0} LIKE {1}"),
    ("~~*", "{0} ILIKE {1}"),
    ("!~~", "{0} NOT LIKE {1}"),
    ("!~~*", "{0} NOT ILIKE {1}"),
    ("REGEXP", "REGEXP({0}, {1})"),
    ("@>", "ARRAY_CONTAINS({0}, element), or JSON_EXISTS({0}, '$.a') for JSON"),
    ("<@", "ARRAY_CONTAINS({1}, element)"),
    ("?", "JSON_EXISTS({0}, '$.{1'}')"),
    ("&&", "CARDINALITY(ARRAY_INTERSECT({0}, {1})) > 0 for arrays, or AND for conditions"),
    ("&", "BITAND({0}, {1})"),
    ("|", "BITOR({0}, {1})"),
    ("#", "BITXOR({0}, {1})"),
    ("XOR", "{0} <> {1}"),
    ("^", "POWER({0}, {1})"),
    ("**", "POWER({0}, {1})"),
    ("<<", "{0} * POWER(2, {1})"),
    (">>", "FLOOR({0} / POWER(2, {1}))"),
    ("//", "{0} / {1}"),
    ("DIV", "{0} / {1}"),
    ("<=>", "{0} IS NOT DISTINCT FROM {1}"),
    ("!", "NOT {0}"),
    ("|/", "SQRT({0})"),
    ("||/", "CBRT({0})"),
    ("@", "ABS({0})"),
    ("^@", "STARTSWITH({0}, {1})"),
];

/// What to write instead of an operator over operands of this text.
pub(crate) fn operator_cure(operator: &str, operands: &[String]) -> String {
    match ROWS.iter().find(|(known, _)| known.eq_ignore_ascii_case(operator)) {
        Some((_, template)) => format!("write {}", filled(template, operands)),
        None => "write a function instead: SHOW FUNCTIONS lists all, SHOW FUNCTIONS LIKE 'json%' some".into(),
    }
}
