//! Rows as they are sent, but for their times, which are filled in.

use super::pool::{Column, Pool};
use crate::suite::Failure;
use millstream::{DataType, Schema};
use std::io::Write;

/// Digits of milliseconds since 1970, for the next 250 years.
const DIGITS: usize = 13;

/// A way to write rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Csv,
    /// Packed, little-endian.
    Row,
}

impl Form {
    /// What follows the time of a row.
    fn tail(self) -> &'static [u8] {
        match self {
            Form::Json => b"}\n",
            Form::Csv => b"\n",
            Form::Row => b"",
        }
    }

    /// Bytes of the time.
    fn time_bytes(self) -> usize {
        if self == Form::Row { size_of::<i64>() } else { DIGITS }
    }
}

/// The rows of a pool.
pub(super) struct Template {
    form: Form,
    data: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
}

impl Template {
    pub(super) fn new(format: &str, pool: &Pool, schema: &Schema) -> Result<Template, Failure> {
        let form = match format {
            "json" => Form::Json,
            "csv" => Form::Csv,
            "row" => Form::Row,
            _ => return Err(format!("there is no format `{format}`; there are json, csv, arrow and row").into()),
        };
        let mut template = Template { form, data: Vec::new(), ends: Vec::with_capacity(pool.rows as usize) };
        for row in 0..pool.rows as usize {
            template.push(pool, schema, row)?;
        }
        Ok(template)
    }

    fn push(&mut self, pool: &Pool, schema: &Schema, row: usize) -> Result<(), Failure> {
        let (form, out) = (self.form, &mut self.data);
        let separator = |at: usize| {
            if form == Form::Csv {
                ""
            } else if at == 0 {
                "{"
            } else {
                ","
            }
        };
        for (at, (field, column)) in schema.fields.iter().zip(&pool.columns).enumerate() {
            let name = &field.name;
            let quote = if matches!(column, Column::Text(_)) { "\"" } else { "" };
            match (form, column) {
                (Form::Row, Column::Int(v)) => out.extend_from_slice(&v[row].to_le_bytes()),
                (Form::Row, Column::Long(v)) => out.extend_from_slice(&v[row].to_le_bytes()),
                (Form::Row, Column::Double(v)) => out.extend_from_slice(&v[row].to_le_bytes()),
                (Form::Row, Column::Text(v)) => {
                    let DataType::Varchar(width) = field.data_type else { return Err("a text without a width".into()) };
                    let end = out.len() + width as usize;
                    out.extend_from_slice(v[row].as_bytes());
                    out.resize(end, 0);
                }
                (Form::Json, _) => {
                    write!(out, "{}\"{name}\":{quote}{}{quote}", separator(at), Shown(column, row))?;
                }
                (Form::Csv, _) => write!(out, "{},", Shown(column, row))?,
            }
        }
        if form == Form::Json {
            write!(out, ",\"{}\":", schema.fields[pool.columns.len()].name)?;
        }
        out.resize(out.len() + form.time_bytes(), 0);
        out.extend_from_slice(form.tail());
        self.ends.push(out.len());
        Ok(())
    }

    /// The rows from `first` on, with these times.
    pub(super) fn fill(&self, first: usize, times: impl ExactSizeIterator<Item = i64>) -> Vec<u8> {
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let ends = &self.ends[first..first + times.len()];
        let mut out = self.data[start..ends[ends.len() - 1]].to_vec();
        let behind = self.form.tail().len();
        let (mut last, mut digits) = (i64::MIN, [b'0'; DIGITS]);
        for (end, time) in ends.iter().zip(times) {
            let at = end - start - behind;
            if self.form == Form::Row {
                out[at - size_of::<i64>()..at].copy_from_slice(&time.to_le_bytes());
                continue;
            }
            if time != last {
                last = time;
                let mut rest = time;
                for digit in digits.iter_mut().rev() {
                    *digit = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
            }
            out[at - DIGITS..at].copy_from_slice(&digits);
        }
        out
    }
}

/// A value as text.
struct Shown<'a>(&'a Column, usize);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let row = self.1;
        match self.0 {
            Column::Int(v) => v[row].fmt(f),
            Column::Long(v) => v[row].fmt(f),
            Column::Double(v) => v[row].fmt(f),
            Column::Text(v) => v[row].fmt(f),
        }
    }
}
