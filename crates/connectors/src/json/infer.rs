//! Which columns JSON records have.

use super::split::JsonFramer;
use crate::infer::{Enough, FormatInput, RECORDS, ScalarKind, Scalars, event_time, not_known, unreadable};
use crate::records::Framer;
use crate::times;
use millstream_types::text::TimestampStyle;
use millstream_types::{DataType, Diagnostic, Field, Inferred};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// More keys than that are values of a MAP, if these have a type in common.
const MOST_FIELDS: usize = 200;
/// Deeper than that values are JSON text.
const DEEPEST: usize = 16;

/// The columns of the first records.
pub(super) fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    let style = times::timestamp_style(input.options, "json")?;
    let ignores_errors = input.options.boolean("json.ignore-parse-errors", false)?;
    let mut all = SeenValues::default();
    let mut records = 0;
    let framer = |info| Box::new(JsonFramer::new(info)) as Box<dyn Framer>;
    input.each_text(framer, |piece| {
        for (line, text) in piece.text.split(|byte| *byte == b'\n').enumerate() {
            let text = text.trim_ascii();
            let number = line as u64 + 1;
            if text.starts_with(b"[") {
                let message = "a JSON array that is not one of objects has no columns";
                let advice = "the json format reads objects: one per line, in one array, or over several lines";
                return Err(unreadable(&piece, number, message).advise(advice));
            }
            let mut json = serde_json::Deserializer::from_slice(text);
            while json.end().is_err() {
                match (&mut all).deserialize(&mut json) {
                    Ok(()) => records += 1,
                    Err(_) if ignores_errors => break,
                    Err(error) => {
                        let message = format!("this is no JSON object: {}", without_place(&error));
                        let advice = "the json format reads objects: one per line, in one array, or over several lines; \
                                      'json.ignore-parse-errors' = 'true' skips others";
                        return Err(unreadable(&piece, number, message).advise(advice));
                    }
                }
                if records == RECORDS {
                    return Ok(Enough::Yes);
                }
            }
        }
        Ok(Enough::No)
    })?;
    let Some(fields) = all.object.filter(|fields| !fields.names.is_empty()) else {
        return Err(input.without_records());
    };
    if !all.scalars.is_empty() || all.list.is_some() {
        return Err(not_known("the records are not all JSON objects"));
    }
    let columns: Vec<Field> =
        fields.each().map(|(name, values)| Field::new(name, values.data_type(0, style), true)).collect();
    let values: Vec<&SeenValues> = fields.each().map(|(_, values)| values).collect();
    let is_always_there = |i: usize| values[i].count == records && values[i].nulls == 0;
    let event_time = event_time(&columns, |i| is_always_there(i).then(|| values[i].scalars.delay()));
    Ok(Inferred { event_time, ..Inferred::of_columns(columns) })
}

/// The error without its line and column, which are those within one record.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_string()
}

/// What is known of the values at one place of the records.
#[derive(Debug, Default)]
struct SeenValues {
    count: usize,
    nulls: usize,
    scalars: Scalars,
    object: Option<Fields>,
    list: Option<Box<SeenValues>>,
}

/// The fields of objects, in the order in which they were first seen.
#[derive(Debug, Default)]
struct Fields {
    names: Vec<String>,
    values: HashMap<String, SeenValues>,
}

impl Fields {
    fn each(&self) -> impl Iterator<Item = (&str, &SeenValues)> {
        self.names.iter().filter_map(|name| Some((name.as_str(), self.values.get(name)?)))
    }
}

impl SeenValues {
    fn data_type(&self, level: usize, style: TimestampStyle) -> DataType {
        let is_scalar = !self.scalars.is_empty();
        match (&self.object, &self.list) {
            (None, None) => self.scalars.data_type_in(style),
            (Some(fields), None) if !is_scalar && level < DEEPEST => {
                let types: Vec<(&str, DataType)> =
                    fields.each().map(|(name, values)| (name, values.data_type(level + 1, style))).collect();
                let common = types.first().map_or(DataType::STRING, |(_, first)| first.clone());
                let is_map = types.is_empty() || types.len() > MOST_FIELDS;
                if is_map {
                    let has_common = types.iter().all(|(_, data_type)| *data_type == common);
                    let value = if has_common { common } else { DataType::STRING };
                    return DataType::Map(Arc::new(DataType::STRING), Arc::new(value));
                }
                DataType::Row(types.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect())
            }
            (None, Some(elements)) if !is_scalar && level < DEEPEST => {
                DataType::Array(Arc::new(elements.data_type(level + 1, style)))
            }
            // Any value has a JSON text.
            _ => DataType::STRING,
        }
    }
}

impl<'de> DeserializeSeed<'de> for &mut SeenValues {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.count += 1;
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut SeenValues {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.scalars.add(ScalarKind::Boolean);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalars.add_integer(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.scalars.add_integer(value),
            Err(_) => self.scalars.add(ScalarKind::Long),
        }
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.scalars.add_fraction(value);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalars.add(ScalarKind::of_time(text));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.nulls += 1;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let list = self.list.get_or_insert_default();
        while elements.next_element_seed(&mut **list)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let object = self.object.get_or_insert_default();
        while let Some(name) = members.next_key::<std::borrow::Cow<'_, str>>()? {
            if !object.values.contains_key(name.as_ref()) {
                object.names.push(name.to_string());
                object.values.insert(name.to_string(), SeenValues::default());
            }
            match object.values.get_mut(name.as_ref()) {
                Some(values) => members.next_value_seed(values)?,
                None => members.next_value_seed(&mut SeenValues::default())?,
            }
        }
        Ok(())
    }
}
