//! The columns that a schema of Avro stands for.

use super::schema::{MOST_LEVELS, MOST_TYPES, full_name};
use millstream_types::{DataType, Field};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The columns of a record in the JSON form of schemas.
pub(super) fn columns(schema: &str) -> Result<Vec<Field>, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|e| format!("it is not JSON: {e}"))?;
    match data_type(&schema, "", &mut KnownTypes::default(), 0)? {
        (DataType::Row(fields), _) => Ok(fields.to_vec()),
        (other, _) => Err(format!("it is of {other}, not of a record")),
    }
}

/// The types of a schema so far.
#[derive(Default)]
struct KnownTypes {
    /// By full name, with the number of types in them.
    named: HashMap<String, (DataType, usize)>,
    count: usize,
}

impl KnownTypes {
    fn add(&mut self, count: usize) -> Result<(), String> {
        self.count += count;
        if self.count > MOST_TYPES { Err(format!("it has more than {MOST_TYPES} types")) } else { Ok(()) }
    }

    /// Gives a type its name; `before` were the types before it.
    fn name(&mut self, name: String, data_type: &DataType, before: usize) {
        self.named.insert(name, (data_type.clone(), self.count - before));
    }
}

/// The type of a schema, and whether it may be NULL. `names` are those that stand before it.
fn data_type(
    schema: &Value,
    namespace: &str,
    names: &mut KnownTypes,
    level: usize,
) -> Result<(DataType, bool), String> {
    if level > MOST_LEVELS {
        return Err("its types are nested too deeply".into());
    }
    match schema {
        Value::String(name) => Ok((named(name, namespace, names)?, name == "null")),
        Value::Array(branches) => {
            let others: Vec<&Value> = branches.iter().filter(|branch| **branch != "null").collect();
            let types = others.iter().map(|branch| data_type(branch, namespace, names, level + 1));
            let types = types.collect::<Result<Vec<_>, _>>()?;
            let nullable = others.len() < branches.len() || types.iter().any(|(_, nullable)| *nullable);
            let common = types.into_iter().map(|(data_type, _)| Some(data_type)).reduce(|a, b| wider(a?, b?));
            match common.unwrap_or(Some(DataType::STRING)) {
                Some(common) => Ok((common, nullable)),
                None => Err(format!("SQL has no type for the union {schema}")),
            }
        }
        Value::Object(object) => Ok((of_object(object, namespace, names, level)?, false)),
        _ => Err(format!("{schema} is no type")),
    }
}

/// The type that has the values of two branches of a union.
fn wider(a: DataType, b: DataType) -> Option<DataType> {
    use DataType::{BigInt, Double, Float, Int};
    match (&a, &b) {
        _ if a == b => Some(a),
        (Int | BigInt, Int | BigInt) => Some(BigInt),
        (Int | BigInt | Float | Double, Int | BigInt | Float | Double) => Some(Double),
        _ => None,
    }
}

fn named(name: &str, namespace: &str, names: &mut KnownTypes) -> Result<DataType, String> {
    names.add(1)?;
    Ok(match name {
        "null" | "string" => DataType::STRING,
        "boolean" => DataType::Boolean,
        "int" => DataType::Int,
        "long" => DataType::BigInt,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "bytes" => DataType::BYTES,
        _ => {
            let known = names.named.get(&full_name(name, namespace)).or_else(|| names.named.get(name));
            let known = known.cloned().ok_or_else(|| format!("it has no type '{name}' before it is named"));
            let (data_type, count) = known?;
            names.add(count)?;
            return Ok(data_type);
        }
    })
}

fn of_object(
    object: &Map<String, Value>,
    namespace: &str,
    names: &mut KnownTypes,
    level: usize,
) -> Result<DataType, String> {
    let before = names.count;
    names.add(1)?;
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
            names.name(name, &row, before);
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
        names.name(full_name(name, within), &data_type, before);
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
        let field = |kind: &str| format!(r#"{{"type":"record","name":"A","fields":[{{"name":"a","type":{kind}}}]}}"#);
        for (union, expected) in [
            (r#"["int","long"]"#, DataType::BigInt),
            (r#"["null","float","long","int"]"#, DataType::Double),
            (r#"["string",{"type":"enum","name":"E","symbols":["X"]}]"#, DataType::STRING),
            (r#"["null"]"#, DataType::STRING),
        ] {
            assert_eq!(columns(&field(union)).unwrap()[0].data_type, expected, "{union}");
        }
        // Each record has the one before twice.
        let mut twice = r#"{"type":"record","name":"R0","fields":[]}"#.to_string();
        for i in 1..40 {
            twice = format!(
                r#"{{"type":"record","name":"R{i}","fields":[{{"name":"a","type":{twice}}},{{"name":"b","type":"R{}"}}]}}"#,
                i - 1
            );
        }
        for (schema, why) in [
            ("\"long\"", "not of a record"),
            (&field(r#"["int","string"]"#), "union"),
            (&twice, "more than 100000 types"),
            (r#"{"type":"record","name":"A","fields":[{"name":"a","type":"A"}]}"#, "no type 'A'"),
            ("{", "not JSON"),
        ] {
            let error = columns(schema).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
