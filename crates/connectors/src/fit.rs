//! Columns of columnar input (Parquet, Arrow) → the columns of a query, of the table's types.

use crate::casts::cast;
use crate::list_of_columns;
use crate::unfit::{null_remedy, typed_remedy};
use crate::{ColumnRequest, Decoded, RequestOrigin, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, StructArray, make_array, new_null_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType as ArrowType, Fields};
use millstream_types::{DataType, Diagnostic, Place, code};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Arc;
use std::sync::Once;

/// A wanted column by the names on its path.
pub(crate) struct Wanted {
    /// Names on the path; never empty.
    pub names: Vec<String>,
    /// Its place among the requested columns.
    pub position: usize,
    /// Dotted name, for messages.
    pub name: String,
    /// Whether it may be NULL.
    pub nullable: bool,
    data_type: DataType,
}

impl Wanted {
    /// The columns of a request that have a path, in its order.
    pub(crate) fn of(request: &SourceRequest) -> Result<Vec<Wanted>, Diagnostic> {
        let mut wanted = Vec::new();
        for (position, column) in request.columns.iter().enumerate() {
            let RequestOrigin::Path(path) = &column.origin else { continue };
            let mut names = Vec::new();
            let mut fields = &request.schema.fields[..];
            for &position in path {
                let unknown = || Diagnostic::bug(format!("path {path:?} of column {} leaves the schema", column.name));
                let field = fields.get(position).ok_or_else(unknown)?;
                names.push(field.name.clone());
                fields = if let DataType::Row(nested) = &field.data_type { nested } else { &[] };
            }
            let ColumnRequest { name, data_type, nullable, .. } = column.clone();
            wanted.push(Wanted { names, position, name, data_type, nullable });
        }
        Ok(wanted)
    }

    /// The type of the column's arrays.
    pub(crate) fn arrow_type(&self) -> ArrowType {
        self.data_type.to_arrow()
    }

    /// Whether the column of a file with these columns is there and fits whatever its values are, provided that they are what
    /// their Arrow type says.
    pub(crate) fn always_fits(&self, fields: &Fields) -> bool {
        let (mut below, mut may_be_null, mut found) = (Some(fields), false, None);
        for name in &self.names {
            let Some((_, field)) = below.and_then(|fields| fields.find(name)) else { return false };
            may_be_null |= field.is_nullable();
            below = if let ArrowType::Struct(fields) = field.data_type() { Some(fields) } else { None };
            found = Some(field);
        }
        let fits = found.is_some_and(|field| always_fits(field.data_type(), &self.data_type));
        fits && (self.nullable || !may_be_null)
    }

    fn column(&self, batch: Option<&RecordBatch>, rows: usize) -> Result<ArrayRef, Unfit> {
        let absent = || new_null_array(&self.data_type.to_arrow(), rows);
        let Some((first, rest)) = self.names.split_first() else { return Ok(absent()) };
        let Some(top) = batch.and_then(|batch| batch.column_by_name(first)) else { return Ok(absent()) };
        let cut = (top.len() != rows).then(|| top.slice(0, rows));
        match field_below(cut.as_ref().unwrap_or(top), rest)? {
            Some(array) => fit(&array, &self.data_type).map_err(|message| {
                let (found, wanted) = (sql_name(array.data_type()), self.data_type.to_string());
                Unfit { message, advice: Some(typed_remedy(&found, &wanted, &self.name)) }
            }),
            None => Ok(absent()),
        }
    }
}

/// Why a column cannot be read, and what to declare if it is of another type.
struct Unfit {
    message: String,
    advice: Option<String>,
}

impl From<String> for Unfit {
    fn from(message: String) -> Unfit {
        Unfit { message, advice: None }
    }
}

/// The wanted columns of `rows` rows of a batch; `None` stands for one without any of them. `at` is the place of a column,
/// `row_name` what a row is called in messages.
pub(crate) fn columns<'a>(
    wanted: impl Iterator<Item = &'a Wanted>,
    batch: Option<&RecordBatch>,
    mut rows: usize,
    at: &dyn Fn(Option<String>) -> Place,
    row_name: &dyn Fn(usize) -> String,
) -> Result<Decoded, Diagnostic> {
    let mut columns = list_of_columns();
    let mut error = None;
    for column in wanted {
        let place = || at(Some(column.name.clone()));
        let array = guarded(|| column.column(batch, rows));
        let array = array.map_err(|unfit| {
            let diagnostic = Diagnostic::new(code::WRONG_TYPE, unfit.message).at(place());
            match unfit.advice {
                Some(advice) => diagnostic.advise(advice),
                None => diagnostic,
            }
        })?;
        let may_be_null = !column.nullable && array.is_nullable();
        if let Some(row) = may_be_null.then(|| (0..rows).find(|row| array.is_null(*row))).flatten() {
            // The rows before the first bad one are still good.
            rows = row;
            let message = format!("a NOT NULL column has no value in {}", row_name(row));
            error =
                Some(Diagnostic::new(code::NULL_IN_NOT_NULL, message).at(place()).advise(null_remedy(&column.name)));
        }
        columns.push(array);
    }
    let is_cut = |array: &ArrayRef| array.len() != rows;
    columns.iter_mut().filter(|array| is_cut(array)).for_each(|array| *array = array.slice(0, rows));
    Ok(Decoded { columns, rows, error, ..Decoded::default() })
}

thread_local! {
    /// Whether a panic of this thread is one of [`guarded`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs the library on bytes from outside; a panic of it is an error of the input, which is told as such and not as a panic.
pub(crate) fn guarded<T, E: From<String>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(outer);
    result.unwrap_or_else(|panic| {
        let text =
            panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
        // A line of it says what was found; lengths and the like may follow.
        let reason =
            text.as_deref().and_then(|text| text.lines().next()).map(|line| format!(" ({line})")).unwrap_or_default();
        Err(format!("its contents contradict each other{reason}").into())
    })
}

/// The field at a path of names below `array`; NULL where a row on the way is. `None` if there is no such field.
pub(crate) fn field_below(array: &ArrayRef, path: &[String]) -> Result<Option<ArrayRef>, String> {
    let Some((name, rest)) = path.split_first() else { return Ok(Some(array.clone())) };
    let Some(rows) = array.as_struct_opt() else {
        return Err(format!("{} has no fields", array.data_type()));
    };
    let Some(child) = rows.column_by_name(name) else { return Ok(None) };
    let child = match rows.nulls() {
        Some(nulls) if nulls.null_count() > 0 => masked(child, nulls)?,
        _ => child.clone(),
    };
    field_below(&child, rest)
}

fn masked(array: &ArrayRef, parent: &NullBuffer) -> Result<ArrayRef, String> {
    let absent = BooleanArray::new(!parent.inner(), None);
    arrow_select::nullif::nullif(array, &absent).map_err(|e| e.to_string())
}

/// The SQL type of what an Arrow type holds, or the type itself.
fn sql_name(arrow: &ArrowType) -> String {
    DataType::from_arrow(arrow).map_or_else(|| arrow.to_string(), |data_type| data_type.to_string())
}

/// The column in the Arrow type of `wanted`. Fails when the types have nothing to do with each other or a value does not
/// fit.
pub fn fit(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, String> {
    let target = wanted.to_arrow();
    if *array.data_type() == target {
        return Ok(array.clone());
    }
    let mismatch = || format!("{} cannot be read as {wanted}", sql_name(array.data_type()));
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let values = fit(dictionary.values(), wanted)?;
        let keys = cast(dictionary.keys(), &ArrowType::Int64, true)?;
        // Under a NULL of a row around it a key may be any number, and the library does not look.
        let is_key = |key: &i64| usize::try_from(*key).is_ok_and(|key| key < values.len());
        let keys: Int64Array = keys.as_primitive::<Int64Type>().iter().map(|key| key.filter(is_key)).collect();
        return arrow_select::take::take(&values, &keys, None).map_err(|e| e.to_string());
    }
    if let DataType::Row(fields) = wanted {
        let rows = array.as_struct_opt().ok_or_else(mismatch)?;
        let child = |field: &millstream_types::Field| match rows.column_by_name(&field.name) {
            Some(child) => fit(child, &field.data_type),
            None => Ok(new_null_array(&field.data_type.to_arrow(), rows.len())),
        };
        let children = fields.iter().map(child).collect::<Result<Vec<_>, _>>()?;
        let ArrowType::Struct(target) = target else { unreachable!("ROW is stored as a struct") };
        let rows = StructArray::try_new_with_length(target, children, rows.nulls().cloned(), rows.len());
        return Ok(Arc::new(rows.map_err(|e| e.to_string())?));
    }
    if kind(array.data_type()) != kind(&target) && *array.data_type() != ArrowType::Null {
        return Err(mismatch());
    }
    let cast =
        |array: &ArrayRef, target: &ArrowType| cast(array, target, false).map_err(|e| format!("{}: {e}", mismatch()));
    match (array.data_type(), &target) {
        (ArrowType::List(_), ArrowType::List(field)) => {
            let (DataType::Array(element), list) = (wanted, array.as_list::<i32>()) else { return Err(mismatch()) };
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let list = ListArray::try_new(field.clone(), offsets, fit(list.values(), element)?, nulls);
            Ok(Arc::new(list.map_err(|e| e.to_string())?))
        }
        // Parquet has instants and local times; both are stored as if in UTC, so that the zone is only a label.
        (ArrowType::Timestamp(..), ArrowType::Timestamp(unit, zone)) => {
            let plain = cast(&labelled(array, None), &ArrowType::Timestamp(*unit, None))?;
            Ok(labelled(&plain, zone.clone()))
        }
        _ => cast(array, &target),
    }
}

/// Whether [`fit`] succeeds for every value of an Arrow type.
fn always_fits(from: &ArrowType, wanted: &DataType) -> bool {
    match (from, wanted) {
        (ArrowType::Struct(from), DataType::Row(fields)) => fields.iter().all(|field| match from.find(&field.name) {
            Some((_, child)) => {
                (field.nullable || !child.is_nullable()) && always_fits(child.data_type(), &field.data_type)
            }
            None => field.nullable,
        }),
        (ArrowType::List(from), DataType::Array(element)) => always_fits(from.data_type(), element),
        _ => is_widening(from, &wanted.to_arrow()),
    }
}

/// Whether a cast keeps the kind of a value and cannot fail.
fn is_widening(from: &ArrowType, to: &ArrowType) -> bool {
    use ArrowType as A;
    match (from, to) {
        (from, to) if from == to => true,
        (A::Utf8, A::Utf8View) | (A::Binary, A::BinaryView) => true,
        (A::Timestamp(from, _), A::Timestamp(to, _)) => from >= to,
        (A::Decimal128(digits, scale), A::Decimal128(more, same)) => digits <= more && scale == same,
        (from, A::Float64) => from.is_integer() || *from == A::Float32,
        (from, to) if from.is_signed_integer() && to.is_signed_integer() => {
            from.primitive_width() <= to.primitive_width()
        }
        (from, to) if from.is_unsigned_integer() && to.is_signed_integer() => {
            from.primitive_width() < to.primitive_width()
        }
        _ => false,
    }
}

/// A column of metadata in the type that a table has for it.
pub(crate) fn metadata(natural: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, String> {
    // Without a zone a timestamp is cast by its digits, with one by its instant; both are UTC here.
    let is_instant = matches!(wanted, DataType::TimestampLtz(_));
    let natural = if is_instant { labelled(natural, Some("UTC".into())) } else { natural.clone() };
    let target = wanted.to_arrow();
    if *natural.data_type() == target { Ok(natural) } else { cast(&natural, &target, true) }
}

/// The same timestamps with another zone.
fn labelled(array: &ArrayRef, zone: Option<Arc<str>>) -> ArrayRef {
    let ArrowType::Timestamp(unit, _) = array.data_type() else { return array.clone() };
    stored_as(array, ArrowType::Timestamp(*unit, zone))
}

/// The same values as another type that stores them alike.
pub(crate) fn stored_as(array: &dyn Array, data_type: ArrowType) -> ArrayRef {
    let same = array.to_data().into_builder().data_type(data_type).build();
    make_array(same.expect("both types store the same numbers"))
}

/// Types between which a cast keeps the meaning.
#[derive(PartialEq)]
enum TypeFamily {
    Boolean,
    Number,
    Text,
    Time,
    Timestamp,
    Date,
    Nested,
    Other,
}

fn kind(data_type: &ArrowType) -> TypeFamily {
    match data_type {
        ArrowType::Boolean => TypeFamily::Boolean,
        t if t.is_numeric() || matches!(t, ArrowType::Decimal128(..) | ArrowType::Decimal256(..)) => TypeFamily::Number,
        // Writers without logical types leave strings as bytes.
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => TypeFamily::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
            TypeFamily::Text
        }
        ArrowType::Dictionary(_, value) => kind(value),
        ArrowType::Time32(_) | ArrowType::Time64(_) => TypeFamily::Time,
        ArrowType::Timestamp(..) => TypeFamily::Timestamp,
        ArrowType::Date32 | ArrowType::Date64 => TypeFamily::Date,
        ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(..) | ArrowType::Map(..) => {
            TypeFamily::Nested
        }
        _ => TypeFamily::Other,
    }
}
