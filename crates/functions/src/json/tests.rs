//! Bodies of the JSON functions: the examples of Flink's documentation and the rules of lax and strict paths.

use super::*;

fn value(json: &str, path: &str, returning: i32) -> Option<String> {
    json_value(&mut FunctionContext::default(), json, path, returning)
}

#[test]
fn values_are_scalars_of_the_type_asked_for() {
    let json = r#"{"a": true, "i": 12, "big": 3000000000, "x": 2.50, "s": " 7 ", "t": "true", "o": {}, "n": null}"#;
    let cases: &[(&str, i32, Option<&str>)] = &[
        ("$.a", 0, Some("true")),
        ("$.a", BOOLEAN, Some("true")),
        ("$.a", INT, None),
        ("$.t", BOOLEAN, Some("true")),
        ("$.i", BOOLEAN, None),
        ("$.i", INT, Some("12")),
        ("$.big", INT, None),
        ("$.big", BIGINT, Some("3000000000")),
        ("$.x", 0, Some("2.50")),
        ("$.x", INT, None),
        ("$.x", DOUBLE, Some("2.50")),
        ("$.o", 0, None),
        ("$.n", 0, None),
        ("$.missing", 0, None),
    ];
    for (path, returning, expected) in cases {
        assert_eq!(value(json, path, *returning).as_deref(), *expected, "{path} as {returning}");
    }
}

#[test]
fn outcomes_tell_nothing_from_errors() {
    let mut context = FunctionContext::default();
    let mut outcome = |json: &str, path: &str| value_outcome(&mut context, json, path, 0, 0).unwrap();
    assert_eq!(outcome("{\"a\": 1}", "$.a"), 0);
    assert_eq!(outcome("{}", "lax $.a"), 1);
    assert_eq!(outcome("{}", "strict $.a"), 2);
    assert_eq!(outcome("{}", "$.a"), 2);
    assert_eq!(outcome("{\"a\": null}", "strict $.a"), 1);
    assert_eq!(outcome("{\"a\": []}", "lax $.a"), 1);
    assert_eq!(outcome("{\"a\": []}", "strict $.a"), 2);
    assert_eq!(outcome("nonsense", "lax $.a"), 1, "as Flink has it");
    assert_eq!(outcome("nonsense", "strict $.a"), 2);
    assert_eq!((outcome("null", "lax $.a"), outcome("null", "$")), (2, 2));
    assert_eq!(outcome("{}", "lax $.a["), 2);
    let failure = value_outcome(&mut context, "{}", "lax $.a", 0, 1).unwrap_err();
    assert_eq!(failure.message, "JSON_VALUE: the path 'lax $.a' selects nothing");
    let failure = value_outcome(&mut context, "{", "$.a", 0, 2).unwrap_err();
    assert_eq!(failure.message, "JSON_VALUE with the path '$.a': the text is not JSON");
}

#[test]
fn queries_wrap_and_choose() {
    let mut context = FunctionContext::default();
    let mut run = |json: &str, path: &str, wrapper: i32| query(&mut context, json, path, wrapper, 1, 2).unwrap();
    assert_eq!(run("[1, 2]", "$", 0).as_deref(), Some("[1,2]"));
    assert_eq!(run("[1, 2]", "$", 1).as_deref(), Some("[1,2]"));
    assert_eq!(run("[1, 2]", "$", 2).as_deref(), Some("[[1,2]]"));
    assert_eq!(run("1", "$", 1).as_deref(), Some("[1]"));
    assert_eq!(run("1", "$", 0).as_deref(), Some("{}"), "a scalar is an error of a strict path");
    assert_eq!(run("1", "lax $", 0).as_deref(), Some("[]"), "and nothing for a lax one");
    assert_eq!(run("{}", "lax $.a[*].b", 0).as_deref(), Some("[]"));
    assert_eq!(run("{}", "$.a[*].b", 0).as_deref(), Some("{}"));
    assert!(query(&mut context, "{}", "lax $.a", 0, 3, 0).is_err());
}

#[test]
fn one_document_serves_many_paths_and_the_next_one_replaces_it() {
    let mut context = FunctionContext::default();
    for (json, expected) in [("{\"a\": 1}", "1"), ("{\"a\": 1}", "1"), ("{\"a\": 2}", "2")] {
        assert_eq!(json_value(&mut context, json, "$.a", 0).as_deref(), Some(expected));
    }
    assert_eq!(json_value(&mut context, "", "$.a", 0), None);
}
