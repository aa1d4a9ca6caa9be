//! Bodies of JSON_OBJECT and JSON_ARRAY.

use super::write::{Form, quoted, write};
use super::{Input, Output};
use arrow_array::Array;
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use millstream_types::DataType;
use std::sync::Arc;

/// A constructor of JSON.
#[derive(Debug)]
pub struct JsonConstructor {
    /// Whether it makes an object. Then each value comes after its key.
    pub is_object: bool,
    /// Whether values that are NULL are written; else they are left out.
    pub keeps_null: bool,
    /// Of each argument its type, and whether it is JSON already.
    pub arguments: Vec<(DataType, bool)>,
}

impl JsonConstructor {
    /// The text of each row's object or array; never NULL.
    pub fn evaluate(&self, input: &Input) -> Output {
        let step = if self.is_object { 2 } else { 1 };
        let brackets = if self.is_object { b"{}" } else { b"[]" };
        let mut texts = StringViewBuilder::new();
        let mut out = Vec::new();
        for row in 0..input.rows {
            out.clear();
            out.push(brackets[0]);
            for at in (step - 1..input.columns.len()).step_by(step) {
                let (column, (data_type, is_json)) = (&input.columns[at], &self.arguments[at]);
                if column.is_null(row) && !self.keeps_null {
                    continue;
                }
                if out.len() > 1 {
                    out.push(b',');
                }
                if self.is_object {
                    quoted(&mut out, input.columns[at - 1].as_string_view().value(row));
                    out.push(b':');
                }
                if *is_json && column.is_valid(row) {
                    out.extend_from_slice(column.as_string_view().value(row).as_bytes());
                } else {
                    write(&mut out, column, row, data_type, Form::Json);
                }
            }
            out.push(brackets[1]);
            texts.append_value(String::from_utf8_lossy(&out));
        }
        Ok(Arc::new(texts.finish()))
    }
}
