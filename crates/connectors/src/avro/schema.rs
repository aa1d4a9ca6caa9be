//! Schemas of Avro: their JSON form, and the one that a table's columns have.

use millstream_types::{DataType, Diagnostic, Field, code};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A schema; types refer to each other by their number, so that a record may contain itself.
#[derive(Debug, Clone, Default)]
pub(super) struct AvroSchema {
    types: Vec<AvroType>,
    /// The number of the schema's own type.
    pub root: usize,
}

/// A type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AvroType {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// Length in bytes.
    Fixed(usize),
    Enum(Vec<String>),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    Record(Vec<(String, usize)>),
    /// A meaning that a schema gives to values of another type.
    Logical(Logical, usize),
}

/// What values mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logical {
    /// With this scale.
    Decimal(u8),
    Date,
    TimeMillis,
    TimeMicros,
    /// Units per second, of an instant or a local time, which are stored alike.
    Timestamp(i64),
}

/// Levels of types within each other that are followed.
pub(super) const MOST_LEVELS: usize = 64;
/// Types that a schema may have. Each use of a name counts all that the name stands for, since a record may contain another
/// twice, and that one yet another twice: few bytes could make very many.
pub(super) const MOST_TYPES: usize = 100_000;

impl AvroSchema {
    /// The type of a number.
    pub(super) fn of(&self, number: usize) -> &AvroType {
        &self.types[number]
    }

    /// Reads the JSON form.
    pub(super) fn parse(text: &str) -> Result<AvroSchema, String> {
        let json: Value = serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
        let mut parser = Parser { schema: AvroSchema::default(), names: HashMap::new(), count: 0 };
        let root = parser.parse(&json, "", 0)?;
        Ok(AvroSchema { root, ..parser.schema })
    }
}

struct Parser {
    schema: AvroSchema,
    /// Types that have a name, by their full name, and how many are in them; 0 while that is not known.
    names: HashMap<String, (usize, usize)>,
    /// Types so far.
    count: usize,
}

impl Parser {
    fn add(&mut self, kind: AvroType) -> usize {
        self.schema.types.push(kind);
        self.schema.types.len() - 1
    }

    fn parse(&mut self, json: &Value, namespace: &str, level: usize) -> Result<usize, String> {
        if level > MOST_LEVELS {
            return Err("its types are nested too deeply".into());
        }
        self.counted(1)?;
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => {
                let branches =
                    branches.iter().map(|b| self.parse(b, namespace, level + 1)).collect::<Result<_, _>>()?;
                Ok(self.add(AvroType::Union(branches)))
            }
            Value::Object(object) => self.object(object, namespace, level),
            _ => Err(format!("{json} is no type")),
        }
    }

    fn counted(&mut self, types: usize) -> Result<(), String> {
        self.count += types;
        if self.count > MOST_TYPES { Err(format!("it has more than {MOST_TYPES} types")) } else { Ok(()) }
    }

    fn named(&mut self, name: &str, namespace: &str) -> Result<usize, String> {
        let primitive = match name {
            "null" => AvroType::Null,
            "boolean" => AvroType::Boolean,
            "int" => AvroType::Int,
            "long" => AvroType::Long,
            "float" => AvroType::Float,
            "double" => AvroType::Double,
            "bytes" => AvroType::Bytes,
            "string" => AvroType::String,
            _ => {
                let known = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
                let (number, types) = known.copied().ok_or_else(|| format!("it has no type '{name}'"))?;
                self.counted(types)?;
                return Ok(number);
            }
        };
        Ok(self.add(primitive))
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str, level: usize) -> Result<usize, String> {
        let kind = object.get("type").ok_or("a type has no 'type'")?;
        let Value::String(kind) = kind else { return self.parse(kind, namespace, level + 1) };
        let number = match kind.as_str() {
            "record" | "error" => return self.record(object, namespace, level),
            "enum" => {
                let symbols = object.get("symbols").and_then(Value::as_array).ok_or("an enum has no 'symbols'")?;
                let symbols = symbols.iter().filter_map(|s| s.as_str().map(str::to_string)).collect();
                self.add(AvroType::Enum(symbols))
            }
            "fixed" => {
                let size = object.get("size").and_then(Value::as_u64).ok_or("a fixed has no 'size'")?;
                self.add(AvroType::Fixed(usize::try_from(size).map_err(|e| e.to_string())?))
            }
            "array" => {
                let items = self.parse(object.get("items").ok_or("an array has no 'items'")?, namespace, level + 1)?;
                self.add(AvroType::Array(items))
            }
            "map" => {
                let values = self.parse(object.get("values").ok_or("a map has no 'values'")?, namespace, level + 1)?;
                self.add(AvroType::Map(values))
            }
            name => self.named(name, namespace)?,
        };
        if matches!(kind.as_str(), "enum" | "fixed") {
            self.remember(object, namespace, number)?;
        }
        let logical = match object.get("logicalType").and_then(Value::as_str) {
            Some("decimal") => {
                let scale = object.get("scale").and_then(Value::as_u64).unwrap_or(0);
                Logical::Decimal(u8::try_from(scale).map_err(|e| e.to_string())?)
            }
            Some("date") => Logical::Date,
            Some("time-millis") => Logical::TimeMillis,
            Some("time-micros") => Logical::TimeMicros,
            Some("timestamp-millis" | "local-timestamp-millis") => Logical::Timestamp(1_000),
            Some("timestamp-micros" | "local-timestamp-micros") => Logical::Timestamp(1_000_000),
            Some("timestamp-nanos" | "local-timestamp-nanos") => Logical::Timestamp(1_000_000_000),
            // What is not known has no meaning, as the specification says.
            _ => return Ok(number),
        };
        let fits = match logical {
            Logical::Decimal(_) => matches!(self.schema.of(number), AvroType::Bytes | AvroType::Fixed(_)),
            Logical::Date | Logical::TimeMillis => *self.schema.of(number) == AvroType::Int,
            Logical::TimeMicros | Logical::Timestamp(_) => *self.schema.of(number) == AvroType::Long,
        };
        Ok(if fits { self.add(AvroType::Logical(logical, number)) } else { number })
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str, level: usize) -> Result<usize, String> {
        let (number, before) = (self.add(AvroType::Record(Vec::new())), self.count);
        let name = self.remember(object, namespace, number)?;
        let within = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        let fields = object.get("fields").and_then(Value::as_array).ok_or("a record has no 'fields'")?;
        let mut parsed = Vec::with_capacity(fields.len());
        for field in fields {
            let name = field.get("name").and_then(Value::as_str).ok_or("a field has no 'name'")?;
            let kind = field.get("type").ok_or_else(|| format!("the field '{name}' has no 'type'"))?;
            parsed.push((name.to_string(), self.parse(kind, within, level + 1)?));
        }
        self.schema.types[number] = AvroType::Record(parsed);
        self.names.insert(name, (number, self.count - before));
        Ok(number)
    }

    /// Remembers a type by its full name.
    fn remember(&mut self, object: &Map<String, Value>, namespace: &str, number: usize) -> Result<String, String> {
        let name = object.get("name").and_then(Value::as_str).ok_or("a type has no 'name'")?;
        let namespace = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        let name = full_name(name, namespace);
        self.names.insert(name.clone(), (number, 0));
        Ok(name)
    }
}

pub(super) fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_string() } else { format!("{namespace}.{name}") }
}

/// The schema of a table's columns, as Flink derives it. With `legacy` timestamps without a time zone are instants,
/// as they were before Avro had local ones.
pub(super) fn derived(fields: &[Field], legacy: bool) -> Result<Value, Diagnostic> {
    record(fields, "org.apache.flink.avro.generated.record", legacy)
}

fn record(fields: &[Field], name: &str, legacy: bool) -> Result<Value, Diagnostic> {
    let field = |field: &Field| -> Result<Value, Diagnostic> {
        let mut kind = of_type(&field.data_type, &format!("{name}_{}", field.name), legacy)
            .map_err(|e| e.unwrap_or_else(|| unsupported(field)))?;
        if !field.nullable {
            return Ok(json!({"name": field.name, "type": kind}));
        }
        kind = json!(["null", kind]);
        Ok(json!({"name": field.name, "type": kind, "default": null}))
    };
    let (namespace, short) = name.rsplit_once('.').unwrap_or(("", name));
    let fields = fields.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({"type": "record", "name": short, "namespace": namespace, "fields": fields}))
}

fn unsupported(field: &Field) -> Diagnostic {
    let message = format!("column {}: Avro has no {}", field.name, field.data_type);
    Diagnostic::new(code::UNSUPPORTED, message).advise("timestamps may have six digits, keys of a MAP must be strings")
}

/// The schema of values that are not NULL; `Err(None)` if there is none.
fn of_type(data_type: &DataType, name: &str, legacy: bool) -> Result<Value, Option<Diagnostic>> {
    let timestamp = |precision: u8, local: bool| match precision {
        0..=3 => Ok(
            json!({"type": "long", "logicalType": if local { "local-timestamp-millis" } else { "timestamp-millis" }}),
        ),
        4..=6 => Ok(
            json!({"type": "long", "logicalType": if local { "local-timestamp-micros" } else { "timestamp-micros" }}),
        ),
        _ => Err(None),
    };
    Ok(match data_type {
        DataType::Boolean => json!("boolean"),
        DataType::TinyInt | DataType::SmallInt | DataType::Int => json!("int"),
        DataType::BigInt => json!("long"),
        DataType::Float => json!("float"),
        DataType::Double => json!("double"),
        DataType::Char(_) | DataType::Varchar(_) => json!("string"),
        DataType::Binary(_) | DataType::Varbinary(_) => json!("bytes"),
        DataType::Decimal { precision, scale } => {
            json!({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale})
        }
        DataType::Date => json!({"type": "int", "logicalType": "date"}),
        DataType::Time(_) => json!({"type": "int", "logicalType": "time-millis"}),
        DataType::Timestamp(precision) => timestamp(*precision, !legacy)?,
        DataType::TimestampLtz(precision) => timestamp(*precision, false)?,
        DataType::Row(fields) => record(fields, name, legacy).map_err(Some)?,
        DataType::Array(element) => json!({"type": "array", "items": ["null", of_type(element, name, legacy)?]}),
        DataType::Map(key, value) if key.is_string() => {
            json!({"type": "map", "values": ["null", of_type(value, name, legacy)?]})
        }
        DataType::Map(..) | DataType::Null | DataType::IntervalMonth | DataType::IntervalMilli => return Err(None),
    })
}
