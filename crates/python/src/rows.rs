//! Rows of a batch as Python values, and Python values as parameters.

use crate::capsule;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMillisecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalYearMonthType, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, Int64Array, ListArray, MapArray,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray, StructArray, new_empty_array, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::concat::concat;
use millstream::connectors::fit;
use millstream::counted;
use millstream::sql::{ParameterValue, Parameters};
use millstream::{DataType as SqlType, Field as SqlField, Schema, TimeUnit as SqlUnit};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PySet, PyString, PyTuple};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of a batch, a tuple each.
pub(crate) fn rows<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let named = |(column, field): (&ArrayRef, &Arc<arrow_schema::Field>)| {
        values(py, column).inspect_err(|error| {
            // Without the note the error is as good as it was.
            let _ = error.value(py).call_method1("add_note", (format!("in column `{}`", field.name()),));
        })
    };
    let columns = batch.columns().iter().zip(batch.schema_ref().fields()).map(named).collect::<PyResult<Vec<_>>>()?;
    let row = |row: usize| PyTuple::new(py, columns.iter().map(|column| &column[row]));
    (0..batch.num_rows()).map(row).collect()
}

/// A class or function of the standard library.
struct Imported(PyOnceLock<Py<PyAny>>, &'static str, &'static str);

impl Imported {
    const fn new(module: &'static str, name: &'static str) -> Imported {
        Imported(PyOnceLock::new(), module, name)
    }

    fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        self.0.import(py, self.1, self.2)
    }
}

static DECIMAL: Imported = Imported::new("decimal", "Decimal");
static DATE: Imported = Imported::new("datetime", "date");
static TIME: Imported = Imported::new("datetime", "time");
static DATETIME: Imported = Imported::new("datetime", "datetime");
static TIMEDELTA: Imported = Imported::new("datetime", "timedelta");
static TIMEZONE: Imported = Imported::new("datetime", "timezone");

/// Days from 0001-01-01, which is day 1 of Python, to 1970-01-01.
const EPOCH_ORDINAL: i32 = 719_163;

/// The values of a column.
pub(crate) fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Vec<Bound<'py, PyAny>>> {
    type Row<'a, 'py> = Box<dyn Fn(usize) -> PyResult<Bound<'py, PyAny>> + 'a>;
    fn primitive<'a, 'py, T: ArrowPrimitiveType>(
        column: &'a ArrayRef,
        value: impl Fn(T::Native) -> PyResult<Bound<'py, PyAny>> + 'a,
    ) -> Row<'a, 'py> {
        let column = column.as_primitive::<T>();
        Box::new(move |row| value(column.value(row)))
    }
    fn number<'a, 'py, T: ArrowPrimitiveType>(py: Python<'py>, column: &'a ArrayRef) -> Row<'a, 'py>
    where
        'py: 'a,
        T::Native: IntoPyObject<'py>,
    {
        primitive::<T>(column, move |value| value.into_bound_py_any(py))
    }
    let value: Row<'_, 'py> = match column.data_type() {
        DataType::Null => Box::new(|_| Ok(py.None().into_bound(py))),
        DataType::Boolean => {
            let column = column.as_boolean();
            Box::new(|row| Ok(PyBool::new(py, column.value(row)).to_owned().into_any()))
        }
        DataType::Int8 => number::<Int8Type>(py, column),
        DataType::Int16 => number::<Int16Type>(py, column),
        DataType::Int32 => number::<Int32Type>(py, column),
        DataType::Int64 => number::<Int64Type>(py, column),
        DataType::Float32 => number::<Float32Type>(py, column),
        DataType::Float64 => number::<Float64Type>(py, column),
        DataType::Decimal128(..) => {
            let column = column.as_primitive::<Decimal128Type>();
            Box::new(|row| DECIMAL.get(py)?.call1((column.value_as_string(row),)))
        }
        DataType::Utf8View => {
            let column = column.as_string_view();
            Box::new(|row| Ok(PyString::new(py, column.value(row)).into_any()))
        }
        DataType::BinaryView => {
            let column = column.as_binary_view();
            Box::new(|row| Ok(PyBytes::new(py, column.value(row)).into_any()))
        }
        DataType::Date32 => primitive::<Date32Type>(column, |days| {
            let date = DATE.get(py)?.call_method1("fromordinal", (days.saturating_add(EPOCH_ORDINAL),));
            date.map_err(|_| beyond_python("date"))
        }),
        DataType::Time32(TimeUnit::Millisecond) => primitive::<Time32MillisecondType>(column, |millis| {
            let (seconds, micros) = (millis / 1_000, millis % 1_000 * 1_000);
            TIME.get(py)?.call1((seconds / 3_600, seconds / 60 % 60, seconds % 60, micros))
        }),
        DataType::Timestamp(unit, zone) => {
            let at = move |micros: i64| timestamp(py, micros, zone.is_some());
            match unit {
                TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(column, move |millis| {
                    at(millis
                        .checked_mul(1_000)
                        .ok_or_else(|| PyValueError::new_err("a timestamp beyond the year 9999"))?)
                }),
                TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(column, at),
                // Python has no nanoseconds.
                _ => primitive::<TimestampNanosecondType>(column, move |nanos| at(nanos.div_euclid(1_000))),
            }
        }
        DataType::Duration(TimeUnit::Millisecond) => primitive::<DurationMillisecondType>(column, |millis| {
            TIMEDELTA.get(py)?.call1((millis.div_euclid(86_400_000), 0, 0, millis.rem_euclid(86_400_000)))
        }),
        DataType::Interval(_) => number::<IntervalYearMonthType>(py, column),
        DataType::Struct(fields) => {
            let column = column.as_struct();
            let children = column.columns().iter().map(|child| values(py, child)).collect::<PyResult<Vec<_>>>()?;
            Box::new(move |row| {
                let value = PyDict::new(py);
                for (field, child) in fields.iter().zip(&children) {
                    value.set_item(field.name(), &child[row])?;
                }
                Ok(value.into_any())
            })
        }
        DataType::List(_) => {
            let column = column.as_list::<i32>();
            Box::new(|row| Ok(PyList::new(py, values(py, &column.value(row))?)?.into_any()))
        }
        DataType::Map(..) => {
            let column = column.as_map();
            Box::new(|row| {
                let entries = column.value(row);
                let (keys, items) = (values(py, entries.column(0))?, values(py, entries.column(1))?);
                if entries.column(0).data_type().is_nested() {
                    // What is no key of a dict.
                    let pairs = keys.iter().zip(items).map(|(key, item)| (key, item).into_pyobject(py));
                    return Ok(PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?.into_any());
                }
                let value = PyDict::new(py);
                keys.iter().zip(items).try_for_each(|(key, item)| value.set_item(key, item))?;
                Ok(value.into_any())
            })
        }
        other => return Err(PyTypeError::new_err(format!("a column of {other} has no values in Python"))),
    };
    let of_row = |row| if column.is_null(row) { Ok(py.None().into_bound(py)) } else { value(row) };
    (0..column.len()).map(of_row).collect()
}

/// A `datetime` of microseconds since the epoch: naive, or in UTC.
fn timestamp<'py>(py: Python<'py>, micros: i64, in_utc: bool) -> PyResult<Bound<'py, PyAny>> {
    let (days, micros) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let zone = match in_utc {
        true => TIMEZONE.get(py)?.getattr("utc")?,
        false => py.None().into_bound(py),
    };
    let epoch = DATETIME.get(py)?.call1((1970, 1, 1, 0, 0, 0, 0, zone))?;
    let time = TIMEDELTA.get(py)?.call1((days, 0, micros)).and_then(|since| epoch.add(since));
    time.map_err(|_| beyond_python("timestamp"))
}

fn beyond_python(what: &str) -> PyErr {
    PyValueError::new_err(format!(
        "a {what} outside of the years 1 to 9999 has no value in Python: take the rows as Arrow"
    ))
}

/// The column that a function has returned for so many rows: of Arrow, or a sequence of values.
pub(crate) fn column_of(result: &Bound<'_, PyAny>, rows: Option<usize>, data_type: &SqlType) -> PyResult<ArrayRef> {
    let column = match capsule::column_of(result)? {
        Some(pieces) => {
            let fitted = pieces.iter().map(|piece| fit(piece, data_type)).collect::<Result<Vec<_>, _>>();
            let fitted = fitted.map_err(PyTypeError::new_err)?;
            match fitted.as_slice() {
                [one] => Arc::clone(one),
                [] => new_empty_array(&data_type.to_arrow()),
                several => concat(&several.iter().map(|piece| &**piece).collect::<Vec<_>>())
                    .map_err(|e| PyValueError::new_err(e.to_string()))?,
            }
        }
        None => {
            // A set has no order, and a dict gives its keys.
            let is_other = result.is_instance_of::<PyString>()
                || result.is_instance_of::<PyBytes>()
                || result.is_instance_of::<PyDict>()
                || result.is_instance_of::<PySet>();
            let has_items = !is_other && result.hasattr("__iter__")?;
            let Some(values) = has_items.then(|| result.try_iter()).transpose()? else {
                let kind = result.get_type().fully_qualified_name()?;
                return Err(PyTypeError::new_err(format!(
                    "the function returned a {kind}; a function by column returns a column: of Arrow, or a list of values"
                )));
            };
            build(&values.collect::<PyResult<Vec<_>>>()?, data_type)?
        }
    };
    match rows {
        Some(rows) if rows != column.len() => Err(PyValueError::new_err(format!(
            "the function returned {} for {}",
            counted(column.len(), "value"),
            counted(rows, "row")
        ))),
        _ => Ok(column),
    }
}

/// A batch of rows with the columns of a schema: dicts, where a name that is absent is NULL, or tuples with a value for each column.
pub(crate) fn batch(rows: &[Bound<'_, PyAny>], schema: &Schema) -> PyResult<RecordBatch> {
    let fields = &schema.fields;
    let mut columns: Vec<Vec<Bound<'_, PyAny>>> = fields.iter().map(|_| Vec::with_capacity(rows.len())).collect();
    let Some(py) = rows.first().map(Bound::py) else { return with_columns(schema, vec![], 0) };
    let names: Vec<Bound<'_, PyString>> = fields.iter().map(|field| PyString::new(py, &field.name)).collect();
    let known = || fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ");
    let shown = |row: &Bound<'_, PyAny>| row.repr().map(|repr| repr.to_string()).unwrap_or_default();
    for row in rows {
        if let Ok(named) = row.cast::<PyDict>() {
            let mut found = 0;
            for (name, column) in names.iter().zip(&mut columns) {
                let value = named.get_item(name)?;
                found += usize::from(value.is_some());
                column.push(value.unwrap_or_else(|| py.None().into_bound(py)));
            }
            if found < named.len() {
                let message =
                    format!("the row {} has keys that are no columns; the columns are {}", shown(row), known());
                return Err(PyValueError::new_err(message));
            }
        } else if let Ok(values) = row.cast::<PyTuple>() {
            if values.len() != fields.len() {
                let message = format!(
                    "the row {} has {}; the columns are {}",
                    shown(row),
                    counted(values.len(), "value"),
                    known()
                );
                return Err(PyValueError::new_err(message));
            }
            values.iter().zip(&mut columns).for_each(|(value, column)| column.push(value));
        } else {
            let kind = row.get_type().fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!("a {kind} is no row: give a dict or a tuple")));
        }
    }
    let column = |(values, field): (Vec<Bound<'_, PyAny>>, &SqlField)| {
        build(&values, &field.data_type)
            .map_err(|e| PyTypeError::new_err(format!("column `{}`: {}", field.name, e.value(py))))
    };
    let columns = columns.into_iter().zip(fields).map(column).collect::<PyResult<Vec<_>>>()?;
    with_columns(schema, columns, rows.len())
}

/// A batch of these columns.
pub(crate) fn with_columns(schema: &Schema, columns: Vec<ArrayRef>, rows: usize) -> PyResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    // Whether there are NULLs where there must be none is checked, with a better message, by whoever reads the rows.
    let fields =
        schema.to_arrow().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    RecordBatch::try_new_with_options(Arc::new(arrow_schema::Schema::new(fields)), columns, &options)
        .map_err(|e| PyValueError::new_err(e.to_string()))
}

/// A column of these values; `None` is NULL.
pub(crate) fn build(values: &[Bound<'_, PyAny>], data_type: &SqlType) -> PyResult<ArrayRef> {
    fn optional<'a, 'py, T>(
        values: &'a [Bound<'py, PyAny>],
        data_type: &'a SqlType,
        read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T> + 'a,
    ) -> impl Iterator<Item = PyResult<Option<T>>> + 'a {
        values.iter().map(move |value| match value.is_none() {
            true => Ok(None),
            false => read(value).map(Some).map_err(|e| {
                let shown = value.repr().map(|repr| repr.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!("{shown} is no {data_type}: {}", e.value(value.py())))
            }),
        })
    }
    fn numbers<'py, T: ArrowPrimitiveType>(values: &[Bound<'py, PyAny>], data_type: &SqlType) -> PyResult<ArrayRef>
    where
        T::Native: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        let values = optional(values, data_type, |value| value.extract::<T::Native>());
        Ok(Arc::new(values.collect::<PyResult<PrimitiveArray<T>>>()?))
    }
    /// Numbers of a unit that `read` makes of a value, in the type of `data_type`.
    fn units(
        values: &[Bound<'_, PyAny>],
        data_type: &SqlType,
        unit: DataType,
        read: impl Fn(&Bound<'_, PyAny>) -> PyResult<i64>,
    ) -> PyResult<ArrayRef> {
        let numbers: Int64Array = optional(values, data_type, read).collect::<PyResult<_>>()?;
        let cast = |array: &dyn Array, to: &DataType| {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, to, &options).map_err(|e| PyValueError::new_err(e.to_string()))
        };
        cast(&cast(&numbers, &unit)?, &data_type.to_arrow())
    }
    let micros = |value: &Bound<'_, PyAny>| -> PyResult<i64> {
        let part = |name| value.getattr(name)?.extract::<i64>();
        Ok((part("days")? * 86_400 + part("seconds")?) * 1_000_000 + part("microseconds")?)
    };
    // To the precision of the type, downwards as SQL does.
    let cut = |micros: i64| match data_type.time_unit() {
        SqlUnit::Milli => micros.div_euclid(1_000) * 1_000,
        SqlUnit::Micro | SqlUnit::Nano => micros,
    };
    let whole = |micros: i64| match micros % 1_000 {
        0 => Ok(micros),
        _ => Err(PyValueError::new_err("it has parts of a millisecond")),
    };
    let micro = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    Ok(match data_type {
        SqlType::Null => new_null_array(&DataType::Null, values.len()),
        SqlType::Boolean => {
            let values = optional(values, data_type, |value| value.extract::<bool>());
            Arc::new(values.collect::<PyResult<BooleanArray>>()?)
        }
        SqlType::TinyInt => numbers::<Int8Type>(values, data_type)?,
        SqlType::SmallInt => numbers::<Int16Type>(values, data_type)?,
        SqlType::Int => numbers::<Int32Type>(values, data_type)?,
        SqlType::BigInt => numbers::<Int64Type>(values, data_type)?,
        SqlType::Float => numbers::<Float32Type>(values, data_type)?,
        SqlType::Double => numbers::<Float64Type>(values, data_type)?,
        SqlType::IntervalMonth => numbers::<IntervalYearMonthType>(values, data_type)?,
        SqlType::Char(_) | SqlType::Varchar(_) => {
            let values = optional(values, data_type, |value| value.extract::<String>());
            Arc::new(values.collect::<PyResult<StringViewArray>>()?)
        }
        SqlType::Binary(_) | SqlType::Varbinary(_) => {
            let values = optional(values, data_type, |value| value.extract::<Vec<u8>>());
            let values = values.collect::<PyResult<Vec<Option<Vec<u8>>>>>()?;
            Arc::new(BinaryViewArray::from_iter(values))
        }
        SqlType::Decimal { .. } => {
            let texts = optional(values, data_type, |value| {
                let decimal = DECIMAL.get(value.py())?.call1((value.str()?,))?;
                decimal.call_method1("__format__", ("f",))?.extract::<String>()
            });
            let texts = texts.collect::<PyResult<StringViewArray>>()?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(&texts, &data_type.to_arrow(), &options)
                .map_err(|e| PyValueError::new_err(e.to_string()))?
        }
        SqlType::Date => units(values, data_type, DataType::Timestamp(TimeUnit::Second, None), |value| {
            let days: i64 = value.call_method0("toordinal")?.extract()?;
            Ok((days - i64::from(EPOCH_ORDINAL)) * 86_400)
        })?,
        SqlType::Time(_) => units(values, data_type, DataType::Time64(TimeUnit::Microsecond), |value| {
            let part = |name| value.getattr(name)?.extract::<i64>();
            whole(((part("hour")? * 60 + part("minute")?) * 60 + part("second")?) * 1_000_000 + part("microsecond")?)
        })?,
        SqlType::Timestamp(_) => units(values, data_type, micro(None), |value| {
            micros(&value.sub(DATETIME.get(value.py())?.call1((1970, 1, 1))?)?).map(cut)
        })?,
        SqlType::TimestampLtz(_) => units(values, data_type, micro(Some("UTC")), |value| {
            let utc = TIMEZONE.get(value.py())?.getattr("utc")?;
            micros(&value.sub(DATETIME.get(value.py())?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?)?).map(cut)
        })?,
        SqlType::IntervalMilli => {
            units(values, data_type, DataType::Duration(TimeUnit::Microsecond), |value| whole(micros(value)?))?
        }
        SqlType::Array(_) | SqlType::Row(_) | SqlType::Map(..) => nested(values, data_type)?,
    })
}

/// A column of lists, rows or maps.
fn nested<'py>(values: &[Bound<'py, PyAny>], data_type: &SqlType) -> PyResult<ArrayRef> {
    let valid = NullBuffer::from_iter(values.iter().map(|value| !value.is_none()));
    let failed = |e: arrow_schema::ArrowError| PyValueError::new_err(e.to_string());
    let mut inner = Vec::new();
    let mut other = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    match data_type {
        SqlType::Row(fields) => {
            let Some(first) = values.first() else { return Ok(new_empty_array(&data_type.to_arrow())) };
            let py = first.py();
            let field = |(position, field): (usize, &millstream::Field)| {
                let of = |value: &Bound<'py, PyAny>| match value {
                    value if value.is_none() => Ok(py.None().into_bound(py)),
                    value => match value.cast::<PyDict>() {
                        Ok(named) => Ok(named.get_item(&field.name)?.unwrap_or_else(|| py.None().into_bound(py))),
                        Err(_) => value.get_item(position),
                    },
                };
                build(&values.iter().map(of).collect::<PyResult<Vec<_>>>()?, &field.data_type)
            };
            let columns = fields.iter().enumerate().map(field).collect::<PyResult<Vec<_>>>()?;
            let DataType::Struct(fields) = data_type.to_arrow() else { unreachable!("ROW is stored as a struct") };
            Ok(Arc::new(StructArray::try_new(fields, columns, Some(valid)).map_err(failed)?))
        }
        SqlType::Map(key, item) => {
            for value in values {
                let before = inner.len();
                if !value.is_none() {
                    for (key, item) in value.cast::<PyDict>()?.iter() {
                        inner.push(key);
                        other.push(item);
                    }
                }
                lengths.push(inner.len() - before);
            }
            let DataType::Map(entries, sorted) = data_type.to_arrow() else { unreachable!("MAP is stored as a map") };
            let DataType::Struct(fields) = entries.data_type() else { unreachable!("entries are a struct") };
            let pairs = StructArray::try_new(fields.clone(), vec![build(&inner, key)?, build(&other, item)?], None);
            let offsets = OffsetBuffer::from_lengths(lengths);
            Ok(Arc::new(
                MapArray::try_new(entries, offsets, pairs.map_err(failed)?, Some(valid), sorted).map_err(failed)?,
            ))
        }
        SqlType::Array(element) => {
            for value in values {
                let before = inner.len();
                if !value.is_none() {
                    for item in value.try_iter()? {
                        inner.push(item?);
                    }
                }
                lengths.push(inner.len() - before);
            }
            let DataType::List(field) = data_type.to_arrow() else { unreachable!("ARRAY is stored as a list") };
            let offsets = OffsetBuffer::from_lengths(lengths);
            Ok(Arc::new(ListArray::try_new(field, offsets, build(&inner, element)?, Some(valid)).map_err(failed)?))
        }
        other => Err(PyTypeError::new_err(format!("{other} is not nested"))),
    }
}

/// The parameters of a script: `None`, a sequence or a mapping.
pub(crate) fn parameters(object: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(object) = object else { return Ok(Parameters::Positional(vec![])) };
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let items = mapping.items()?.iter().map(|item| {
            let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
            Ok((name, parameter(&value, 0)?))
        });
        return Ok(Parameters::Named(items.collect::<PyResult<BTreeMap<_, _>>>()?));
    }
    let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    let Ok(sequence) = object.cast::<PySequence>().map_err(drop).and_then(|s| if is_text { Err(()) } else { Ok(s) })
    else {
        return Err(PyTypeError::new_err("parameters are a sequence of values or a mapping of names to values"));
    };
    let values = sequence.try_iter()?.map(|value| parameter(&value?, 0));
    Ok(Parameters::Positional(values.collect::<PyResult<_>>()?))
}

/// Lists may be nested this deep.
const MAX_NESTING: usize = 32;

fn parameter(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<ParameterValue> {
    let py = value.py();
    let is = |class: &Imported| value.is_instance(class.get(py)?);
    let text = || -> PyResult<String> { value.call_method1("isoformat", ())?.extract() };
    if depth > MAX_NESTING {
        return Err(PyValueError::new_err(format!("a parameter is nested more than {MAX_NESTING} deep")));
    }
    // What is not equal to itself is no value: NaT of pandas and NumPy. A float has NaN.
    let is_missing = || value.ne(value);
    Ok(if value.is_none() {
        ParameterValue::Null
    } else if value.is_instance_of::<PyBool>() {
        ParameterValue::Boolean(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        // By the class: a subclass may show something else.
        ParameterValue::Number(py.get_type::<PyInt>().call_method1("__repr__", (value,))?.extract()?)
    } else if value.is_instance_of::<PyFloat>() {
        ParameterValue::Double(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        ParameterValue::String(value.extract()?)
    } else if value.is_instance_of::<PyBytes>() {
        ParameterValue::Bytes(value.extract()?)
    } else if is(&DECIMAL)? {
        let class = DECIMAL.get(py)?;
        if !class.call_method1("is_finite", (value,))?.is_truthy()? {
            return Err(PyValueError::new_err(format!("the parameter {value} is not a finite number")));
        }
        ParameterValue::Number(class.call_method1("__format__", (value, "f"))?.extract()?)
    } else if is(&DATETIME)? {
        if is_missing()? { ParameterValue::Null } else { datetime(value, text()?)? }
    } else if is(&DATE)? {
        ParameterValue::Date(text()?)
    } else if is(&TIME)? {
        if value.getattr("microsecond")?.extract::<u32>()? % 1_000 != 0 {
            return Err(PyValueError::new_err("a TIME has whole milliseconds: round the parameter"));
        }
        ParameterValue::Time(text()?)
    } else if is(&TIMEDELTA)? {
        if is_missing()? {
            return Ok(ParameterValue::Null);
        }
        let millis = TIMEDELTA.get(py)?.call1((0, 0, 0, 1))?;
        let (whole, rest): (i64, Bound<'_, PyAny>) = value.call_method1("__divmod__", (millis,))?.extract()?;
        if rest.is_truthy()? {
            return Err(PyValueError::new_err("an INTERVAL has whole milliseconds: round the parameter"));
        }
        ParameterValue::Interval(whole)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|item| parameter(&item?, depth + 1));
        ParameterValue::List(values.collect::<PyResult<_>>()?)
    } else {
        let kind = value.get_type().fully_qualified_name()?;
        let refused = || PyTypeError::new_err(format!("a {kind} cannot be a parameter"));
        let item = scalar_of_numpy(value).map_err(|_| refused())?;
        if item.get_type().is(value.get_type()) {
            return Err(refused());
        }
        parameter(&item, depth + 1)?
    })
}

/// The value of a scalar of NumPy. Times come in microseconds, which Python has; finer ones are refused.
fn scalar_of_numpy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let kind: String = value.getattr("dtype")?.getattr("kind")?.extract()?;
    let unit = match kind.as_str() {
        "M" => "datetime64[us]",
        "m" => "timedelta64[us]",
        _ => return value.call_method0("item"),
    };
    let coarse = value.call_method1("astype", (unit,))?;
    let item = coarse.call_method0("item")?;
    if !item.is_none() && coarse.ne(value)? {
        return Err(PyValueError::new_err("a time finer than microseconds"));
    }
    Ok(item)
}

fn datetime(value: &Bound<'_, PyAny>, text: String) -> PyResult<ParameterValue> {
    if value.getattr("tzinfo")?.is_none() {
        return Ok(ParameterValue::Timestamp(text.replace('T', " ")));
    }
    let py = value.py();
    let utc = TIMEZONE.get(py)?.getattr("utc")?;
    let since = value.sub(DATETIME.get(py)?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?)?;
    let (days, seconds, micros): (i64, i64, i64) = (
        since.getattr("days")?.extract()?,
        since.getattr("seconds")?.extract()?,
        since.getattr("microseconds")?.extract()?,
    );
    if micros % 1_000 != 0 {
        return Err(PyValueError::new_err("a parameter with a time zone has whole milliseconds: round it"));
    }
    Ok(ParameterValue::Instant(days * 86_400_000 + seconds * 1_000 + micros / 1_000))
}
