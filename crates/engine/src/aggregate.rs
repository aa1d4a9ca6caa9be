//! Aggregate functions that the program gives to SQL.

use crate::function::{Evaluate, Registered, check_name};
use crate::portable::Portable;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType as Arrow, Field};
use millstream_runtime::{Fold, FoldState, register_fold};
use millstream_sql::NativeAggregate;
use millstream_types::{DataType, Diagnostic, code};
use std::fmt;
use std::sync::Arc;

/// Rows of a group, and states of others of it.
#[derive(Debug)]
pub struct Group<'a> {
    /// As [`AggregateState::fold`] has made them, in any order.
    pub states: Vec<&'a [u8]>,
    /// A column for each parameter, in any order of the rows.
    pub columns: Vec<ArrayRef>,
    /// How many rows they have.
    pub rows: usize,
}

/// An aggregate function that keeps a state for each group instead of its values. Results must not depend on the order of rows and states.
pub trait AggregateState: Send + Sync {
    /// The state of a part of a group as bytes, which checkpoints keep. The last argument is the number of the run (0 if it is not known).
    fn fold(&self, group: &Group<'_>, run: u64) -> Result<Vec<u8>, String>;

    /// The results of whole groups, in the Arrow type of the function's result. A group of no rows has neither. An error is as for
    /// [`crate::ScalarFunction::new`].
    fn finish(&self, groups: &[Group<'_>], run: u64) -> Result<ArrayRef, String>;
}

/// An aggregate function.
///
/// ```
/// # use millstream::{AggregateFunction, DataType, Session, SessionConfig};
/// use arrow_array::{ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
/// use std::sync::Arc;
///
/// let mut session = Session::new(SessionConfig::default());
/// session.set("execution.runtime-mode", "batch")?;
/// let spread = |lists: &[ArrayRef], _rows: usize, _run: u64| -> Result<ArrayRef, String> {
///     let spread = |values: ArrayRef| {
///         let values = values.as_primitive::<Int64Type>();
///         Some(values.iter().flatten().max()? - values.iter().flatten().min()?)
///     };
///     Ok(Arc::new(lists[0].as_list::<i32>().iter().map(|list| list.and_then(spread)).collect::<Int64Array>()))
/// };
/// session.register_aggregate(AggregateFunction::of_values("spread", vec![DataType::BigInt], DataType::BigInt, spread))?;
/// let rows = session.query("SELECT spread(x) FROM (VALUES (3), (9), (4)) AS t (x)")?;
/// assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 6);
/// # Ok::<(), millstream::Diagnostic>(())
/// ```
pub struct AggregateFunction {
    name: String,
    version: Option<String>,
    state_type: Option<String>,
    parameters: Vec<DataType>,
    returns: DataType,
    is_deterministic: bool,
    is_cancelled: fn(u64) -> bool,
    portable: Option<Arc<dyn Portable>>,
    kind: Kind,
}

enum Kind {
    Values(Box<Evaluate>),
    State(Arc<dyn AggregateState>),
}

impl AggregateFunction {
    /// A function over all values of each group, in the order of the input. `evaluate` is as for [`crate::ScalarFunction::new`]: it gets
    /// a column of lists for each parameter, with a list for each group; that of a group without rows is NULL.
    pub fn of_values(
        name: impl Into<String>,
        parameters: Vec<DataType>,
        returns: DataType,
        evaluate: impl Fn(&[ArrayRef], usize, u64) -> Result<ArrayRef, String> + Send + Sync + 'static,
    ) -> AggregateFunction {
        AggregateFunction::new(name, parameters, returns, Kind::Values(Box::new(evaluate)))
    }

    /// A function that keeps a state for each group.
    pub fn with_state(
        name: impl Into<String>,
        parameters: Vec<DataType>,
        returns: DataType,
        state: impl AggregateState + 'static,
    ) -> AggregateFunction {
        AggregateFunction::new(name, parameters, returns, Kind::State(Arc::new(state)))
    }

    fn new(name: impl Into<String>, parameters: Vec<DataType>, returns: DataType, kind: Kind) -> AggregateFunction {
        let (name, is_cancelled): (String, fn(u64) -> bool) = (name.into(), |_| false);
        AggregateFunction {
            name,
            version: None,
            state_type: None,
            parameters,
            returns,
            is_deterministic: true,
            is_cancelled,
            portable: None,
            kind,
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What makes it on another node, if anything does.
    pub(crate) fn portable(&self) -> Option<Arc<dyn Portable>> {
        self.portable.clone()
    }

    /// As [`crate::ScalarFunction::with_portable`].
    #[must_use]
    pub fn with_portable(mut self, portable: Arc<dyn Portable>) -> AggregateFunction {
        self.portable = Some(portable);
        self
    }

    /// As [`crate::ScalarFunction::with_version`].
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> AggregateFunction {
        self.version = Some(version.into());
        self
    }

    /// Says of what type states are: a job does not resume with states of another one.
    #[must_use]
    pub fn with_state_type(mut self, state_type: impl Into<String>) -> AggregateFunction {
        self.state_type = Some(state_type.into());
        self
    }

    /// As [`crate::ScalarFunction::not_deterministic`].
    #[must_use]
    pub fn not_deterministic(mut self) -> AggregateFunction {
        self.is_deterministic = false;
        self
    }

    /// As [`crate::ScalarFunction::with_cancellation`].
    #[must_use]
    pub fn with_cancellation(mut self, is_cancelled: fn(u64) -> bool) -> AggregateFunction {
        self.is_cancelled = is_cancelled;
        self
    }

    /// Registers it: it is another function than all that were registered before.
    pub(crate) fn registered(self) -> Result<NativeAggregate, Diagnostic> {
        let AggregateFunction {
            name,
            version,
            state_type,
            parameters,
            returns,
            is_deterministic,
            is_cancelled,
            kind,
            ..
        } = self;
        check_name(&name)?;
        if parameters.is_empty() {
            let message = format!("the aggregate function '{name}' has no parameters");
            return Err(Diagnostic::new(code::INVALID_OPTION, message).advise("give it one: COUNT(*) counts rows"));
        }
        let (shown, registration) = (Registered::shown_name(&name, version), Registered::next());
        let rows = Arc::new(PackedRows::new(&parameters)?);
        let function = |name: String, evaluate: Box<Evaluate>| {
            Arc::new(Registered { name, registration, is_deterministic, is_cancelled, evaluate })
        };
        // What a state is of is in its argument.
        let packed = state_type.map_or_else(|| shown.clone(), |of| format!("{shown} in {of}"));
        let packing = Arc::clone(&rows);
        let pack = function(packed, Box::new(move |arguments, _, _| packing.pack(arguments)));
        let (state, finish): (_, Box<Evaluate>) = match kind {
            Kind::Values(evaluate) => {
                (None, Box::new(move |arguments, groups, run| evaluate(&rows.lists(&arguments[0])?, groups, run)))
            }
            Kind::State(function) => {
                let folding = Arc::new(Folding { rows, function });
                let fold: Arc<dyn Fold> = folding.clone();
                // It is known by its number as long as a plan has what makes the result.
                (Some(register_fold(&fold)), Box::new(move |arguments, _, run| folding.finish(&arguments[0], run)))
            }
        };
        Ok(NativeAggregate { name, parameters, returns, pack, state, finish: function(shown, finish) })
    }
}

/// Columns of these types as strings of bytes, one for each row, and back.
struct PackedRows {
    types: Vec<Arrow>,
    converter: RowConverter,
}

impl PackedRows {
    fn new(parameters: &[DataType]) -> Result<PackedRows, Diagnostic> {
        let types: Vec<Arrow> = parameters.iter().map(DataType::to_arrow).collect();
        let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect());
        let converter = converter.map_err(|e| {
            Diagnostic::new(code::TYPE_MISMATCH, format!("an aggregate function cannot have these parameters: {e}"))
        })?;
        Ok(PackedRows { types, converter })
    }

    fn pack(&self, columns: &[ArrayRef]) -> Result<ArrayRef, String> {
        let rows = self.converter.convert_columns(columns).and_then(arrow_row::Rows::try_into_binary);
        Ok(Arc::new(BinaryViewArray::from(&rows.map_err(|e| e.to_string())?)))
    }

    fn unpack<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, String> {
        let parser = self.converter.parser();
        let rows: Vec<_> = rows.into_iter().map(|row| parser.parse(row)).collect();
        let columns = self.converter.convert_rows(rows).map_err(|e| e.to_string())?;
        match columns.iter().map(|column| column.data_type()).eq(&self.types) {
            true => Ok(columns),
            false => Err("values came back as other types".into()),
        }
    }

    /// The columns of lists that a column of lists of packed rows is of.
    fn lists(&self, packed: &ArrayRef) -> Result<Vec<ArrayRef>, String> {
        let lists = packed.as_list::<i32>();
        let (offsets, nulls) = (lists.offsets(), lists.nulls());
        let packed = lists.values().as_binary_view();
        let range = offsets[0] as usize..offsets[offsets.len() - 1] as usize;
        let columns = self.unpack(range.clone().map(|row| packed.value(row)))?;
        let offsets = match offsets[0] {
            0 => offsets.clone(),
            start => OffsetBuffer::new(offsets.iter().map(|offset| offset - start).collect()),
        };
        let of_values = |values: ArrayRef| {
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            Arc::new(ListArray::new(field, offsets.clone(), values, nulls.cloned())) as ArrayRef
        };
        Ok(columns.into_iter().map(of_values).collect())
    }
}

/// Folds packed rows, and makes results of what is shown of objects.
struct Folding {
    rows: Arc<PackedRows>,
    function: Arc<dyn AggregateState>,
}

impl fmt::Debug for Folding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Folding")
    }
}

impl Fold for Folding {
    fn fold(&self, states: &[&[u8]], rows: &[&[u8]], run: u64) -> Result<Vec<u8>, String> {
        let columns = self.rows.unpack(rows.iter().copied())?;
        self.function.fold(&Group { states: states.to_vec(), columns, rows: rows.len() }, run)
    }
}

impl Folding {
    fn finish(&self, shown: &ArrayRef, run: u64) -> Result<ArrayRef, String> {
        let shown = shown.as_binary_view();
        let groups = (0..shown.len()).map(|i| self.group(shown.is_valid(i).then(|| shown.value(i))));
        self.function.finish(&groups.collect::<Result<Vec<_>, _>>()?, run)
    }

    /// The group of the bytes that a column shows: none for one without rows.
    fn group<'a>(&self, bytes: Option<&'a [u8]>) -> Result<Group<'a>, String> {
        let FoldState { states, rows } = match bytes {
            Some(bytes) => FoldState::read(bytes).map_err(|e| e.to_string())?,
            None => FoldState::default(),
        };
        Ok(Group { columns: self.rows.unpack(rows.iter().copied())?, rows: rows.len(), states })
    }
}
