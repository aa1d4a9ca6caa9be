//! The columns that a schema of Avro stands for.

use super::registry::Registry;
use super::schema::full_name;
use super::{CREDENTIALS, SUBJECT};
use crate::infer::{FormatInput, not_known};
use millstream_types::{DataType, Diagnostic, Field, Inferred};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The columns of the newest schema of the table's subject.
pub(super) fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    CREDENTIALS.only(input.options)?;
    let subject = input.options.require(SUBJECT.key)?;
    let schema = Registry::open(input.options)?.latest(subject)?;
    let columns = schema.and_then(|text| columns(&text));
    let columns = columns.map_err(|why| not_known(format!("the schema of '{subject}' says no columns: {why}")))?;
    Ok(Inferred::of_columns(columns))
}

/// The columns of a record in the JSON form of schemas.
fn columns(schema: &str) -> Result<Vec<Field>, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|e| format!("it is not JSON: {e}"))?;
    let mut names = HashMap::new();
    match data_type(&schema, "", &mut names, 0)? {
        (DataType::Row(fields), _) => Ok(fields.to_vec()),
        (other, _) => Err(format!("it is of {other}, not of a record")),
    }
}

/// The type of a schema, and whether it may be NULL. `names` are those that stand before it.
fn data_type(
    schema: &Value,
    namespace: &str,
    names: &mut HashMap<String, DataType>,
    level: usize,
) -> Result<(DataType, bool), String> {
    if level > super::schema::MOST_LEVELS {
        return Err("its types are nested too deeply".into());
    }
    match schema {
        Value::String(name) => Ok((named(name, namespace, names)?, name == "null")),
        Value::Array(branches) => {
            let mut others = branches.iter().filter(|branch| **branch != "null");
            match (others.next(), others.next()) {
                (None, _) => Ok((DataType::STRING, true)),
                (Some(only), None) => {
                    let (data_type, nullable) = data_type(only, namespace, names, level + 1)?;
                    Ok((data_type, nullable || branches.len() > 1))
                }
                _ => Err(format!("SQL has no type for the union {schema}")),
            }
        }
        Value::Object(object) => Ok((of_object(object, namespace, names, level)?, false)),
        _ => Err(format!("{schema} is no type")),
    }
}

fn named(name: &str, namespace: &str, names: &HashMap<String, DataType>) -> Result<DataType, String> {
    Ok(match name {
        "null" | "string" => DataType::STRING,
        "boolean" => DataType::Boolean,
        "int" => DataType::Int,
        "long" => DataType::BigInt,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "bytes" => DataType::BYTES,
        _ => {
            let known = names.get(&full_name(name, namespace)).or_else(|| names.get(name));
            return known.cloned().ok_or_else(|| format!("it has no type '{name}' before it is named"));
        }
    })
}

fn of_object(
    object: &Map<String, Value>,
    namespace: &str,
    names: &mut HashMap<String, DataType>,
    level: usize,
) -> Result<DataType, String> {
    let kind = object.get("type").ok_or("a type has no 'type'")?;
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let number = |key: &str| object.get(key).and_then(Value::as_u64).and_then(|n| u8::try_from(n).ok());
    let within = text("namespace").unwrap_or(namespace);
    let logical = match text("logicalType") {
        Some("decimal") => {
            number("precision").map(|precision| DataType::decimal(precision.min(38), number("scale").unwrap_or(0)))
        }
        Some("date") => Some(DataType::Date),
        Some("time-millis" | "time-micros") => Some(DataType::Time(3)),
        Some("timestamp-millis") => Some(DataType::TimestampLtz(3)),
        Some("timestamp-micros") => Some(DataType::TimestampLtz(6)),
        Some("timestamp-nanos") => Some(DataType::TimestampLtz(9)),
        Some("local-timestamp-millis") => Some(DataType::Timestamp(3)),
        Some("local-timestamp-micros") => Some(DataType::Timestamp(6)),
        Some("local-timestamp-nanos") => Some(DataType::Timestamp(9)),
        _ => None,
    };
    let Value::String(kind) = kind else { return Ok(data_type(kind, within, names, level + 1)?.0) };
    let data_type = match (kind.as_str(), logical) {
        ("record" | "error", _) => {
            let name = full_name(text("name").ok_or("a record has no 'name'")?, within);
            let within = name.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_string();
            let fields = object.get("fields").and_then(Value::as_array).ok_or("a record has no 'fields'")?;
            let field = |field: &Value| {
                let name = field.get("name").and_then(Value::as_str).ok_or("a field has no 'name'")?;
                let schema = field.get("type").ok_or_else(|| format!("the field '{name}' has no 'type'"))?;
                let (data_type, nullable) = data_type(schema, &within, names, level + 1)?;
                Ok(Field::new(name, data_type, nullable))
            };
            let row = DataType::Row(fields.iter().map(field).collect::<Result<_, String>>()?);
            names.insert(name, row.clone());
            return Ok(row);
        }
        ("enum", _) => DataType::STRING,
        ("fixed", Some(decimal)) => decimal,
        ("fixed", None) => DataType::BYTES,
        ("array", _) => {
            let items = object.get("items").ok_or("an array has no 'items'")?;
            return Ok(DataType::Array(Arc::new(data_type(items, within, names, level + 1)?.0)));
        }
        ("map", _) => {
            let values = object.get("values").ok_or("a map has no 'values'")?;
            let values = data_type(values, within, names, level + 1)?.0;
            return Ok(DataType::Map(Arc::new(DataType::STRING), Arc::new(values)));
        }
        ("bytes" | "int" | "long", Some(logical)) => return Ok(logical),
        (name, _) => return named(name, within, names),
    };
    if let Some(name) = text("name") {
        names.insert(full_name(name, within), data_type.clone());
    }
    Ok(data_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_say_columns() {
        let schema = r#"{"type": "record", "name": "Order", "namespace": "shop", "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
            {"name": "before", "type": ["null", "State"]},
            {"name": "address", "type": {"type": "record", "name": "Address", "fields": [{"name": "city", "type": ["null", "string"]}]}},
            {"name": "other", "type": ["null", "shop.Address"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "extra", "type": {"type": "map", "values": "double"}}
        ]}"#;
        let shown: Vec<String> = columns(schema)
            .unwrap()
            .iter()
            .map(|f| format!("{} {}{}", f.name, f.data_type, if f.nullable { "" } else { " NOT NULL" }))
            .collect();
        assert_eq!(
            shown,
            [
                "id BIGINT NOT NULL",
                "at TIMESTAMP_LTZ(3) NOT NULL",
                "price DECIMAL(10, 2)",
                "state STRING NOT NULL",
                "before STRING",
                "address ROW<`city` STRING> NOT NULL",
                "other ROW<`city` STRING>",
                "tags ARRAY<STRING> NOT NULL",
                "extra MAP<STRING, DOUBLE> NOT NULL",
            ]
        );
        for (schema, why) in [
            ("\"long\"", "not of a record"),
            (r#"{"type":"record","name":"A","fields":[{"name":"a","type":["int","string"]}]}"#, "union"),
            (r#"{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}"#, "no type 'A'"),
            ("{", "not JSON"),
        ] {
            let error = columns(schema).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
