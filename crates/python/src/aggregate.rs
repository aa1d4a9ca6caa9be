//! Aggregate functions of Python in SQL.

use crate::calls;
use crate::function::{Column, Style};
use crate::rows;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use millstream::{AggregateFunction, AggregateState, DataType, Diagnostic, Group, code};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Has Python evaluate something for a run; what it raises is kept.
fn evaluated<T>(run: u64, evaluate: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
    calls::evaluated(run, |py| {
        evaluate(py).map_err(|raised| {
            let message = raised.to_string();
            calls::keep(&message, raised);
            message
        })
    })
}

/// A function over all values of a group: with a list for each parameter, or a column.
pub(crate) fn of_values(
    name: &str,
    callable: Py<PyAny>,
    style: Style,
    takes: Vec<DataType>,
    returns: DataType,
) -> AggregateFunction {
    let result = returns.clone();
    let evaluate = move |lists: &[ArrayRef], groups: usize, run: u64| {
        evaluated(run, |py| {
            let one = |group: usize| {
                if lists.iter().any(|list| list.is_null(group)) {
                    // There are no rows.
                    return Ok(py.None().into_bound(py));
                }
                let argument = |list: &ArrayRef| {
                    let values = list.as_list::<i32>().value(group);
                    match style {
                        Style::Columns => Ok(Bound::new(py, Column(values))?.into_any()),
                        Style::Rows => Ok(PyList::new(py, rows::values(py, &values)?)?.into_any()),
                    }
                };
                let arguments = lists.iter().map(argument).collect::<PyResult<Vec<_>>>()?;
                callable.bind(py).call1(PyTuple::new(py, arguments)?)
            };
            rows::build(&(0..groups).map(one).collect::<PyResult<Vec<_>>>()?, &result)
        })
    };
    AggregateFunction::of_values(name, takes, returns, evaluate).with_cancellation(calls::is_cancelled)
}

/// A function with a state of a SQL type: an object with `create`, `accumulate`, `merge` and `finish`.
pub(crate) fn with_state(
    name: &str,
    object: Py<PyAny>,
    style: Style,
    takes: Vec<DataType>,
    state: DataType,
    returns: DataType,
) -> Result<AggregateFunction, Diagnostic> {
    let converter = RowConverter::new(vec![SortField::new(state.to_arrow())]);
    let converter = converter.map_err(|e| {
        Diagnostic::new(code::TYPE_MISMATCH, format!("a state cannot be {state}: {e}"))
            .advise("use a ROW of plain types")
    })?;
    let shown = state.to_string();
    let function = Stateful { object, style, state, converter, returns: returns.clone() };
    let function = AggregateFunction::with_state(name, takes, returns, function).with_state_type(shown);
    Ok(function.with_cancellation(calls::is_cancelled))
}

struct Stateful {
    object: Py<PyAny>,
    style: Style,
    state: DataType,
    converter: RowConverter,
    returns: DataType,
}

impl Stateful {
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        arguments: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.object.bind(py).call_method1(method, PyTuple::new(py, arguments)?)
    }

    /// What a method makes of a state: one that changes it in its place returns nothing.
    fn changed<'py>(
        &self,
        method: &str,
        state: &Bound<'py, PyAny>,
        arguments: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = [vec![state.clone()], arguments].concat();
        let changed = self.call(state.py(), method, arguments)?;
        Ok(if changed.is_none() { state.clone() } else { changed })
    }

    fn decoded<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let parser = self.converter.parser();
        let columns = self.converter.convert_rows([parser.parse(bytes)]);
        let columns = columns.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let values = columns.first().map(|column| rows::values(py, column)).transpose()?;
        values.into_iter().flatten().next().ok_or_else(|| PyValueError::new_err("a state is missing"))
    }

    fn encoded(&self, state: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        if state.is_none() {
            return Err(PyTypeError::new_err(format!("create() returned None; a state is a {}", self.state)));
        }
        let column = rows::build(std::slice::from_ref(state), &self.state)
            .map_err(|e| PyTypeError::new_err(format!("the state is no {}: {e}", self.state)))?;
        let rows = self.converter.convert_columns(&[column]).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(rows.row(0).data().to_vec())
    }

    fn state<'py>(&self, py: Python<'py>, group: &Group<'_>) -> PyResult<Bound<'py, PyAny>> {
        let mut states = group.states.iter();
        let mut state = match states.next() {
            Some(first) => self.decoded(py, first)?,
            None => self.call(py, "create", vec![])?,
        };
        for other in states {
            state = self.changed("merge", &state, vec![self.decoded(py, other)?])?;
        }
        if group.rows == 0 {
            return Ok(state);
        }
        match self.style {
            Style::Columns => {
                let columns = group.columns.iter().map(|column| Ok(Bound::new(py, Column(column.clone()))?.into_any()));
                self.changed("accumulate", &state, columns.collect::<PyResult<_>>()?)
            }
            Style::Rows => {
                let columns =
                    group.columns.iter().map(|column| rows::values(py, column)).collect::<PyResult<Vec<_>>>()?;
                for row in 0..group.rows {
                    let values = columns.iter().map(|column| column[row].clone()).collect();
                    state = self.changed("accumulate", &state, values)?;
                }
                Ok(state)
            }
        }
    }
}

impl AggregateState for Stateful {
    fn fold(&self, group: &Group<'_>, run: u64) -> Result<Vec<u8>, String> {
        evaluated(run, |py| self.encoded(&self.state(py, group)?))
    }

    fn finish(&self, groups: &[Group<'_>], run: u64) -> Result<ArrayRef, String> {
        evaluated(run, |py| {
            let result = |group| {
                let state = self.state(py, group)?;
                // One that is of another type would be noticed in large groups only.
                self.encoded(&state)?;
                self.call(py, "finish", vec![state])
            };
            rows::build(&groups.iter().map(result).collect::<PyResult<Vec<_>>>()?, &self.returns)
        })
    }
}
