//! Views of Arrow arrays, and of packed records, as input columns of a kernel.

use crate::program::{InRecord, Input, Layout};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, downcast_primitive_array};
use arrow_buffer::Buffer;
use arrow_schema::{DataType as Arrow, IntervalUnit};
use millstream_abi::{ColumnView, Phys, Zone};
use millstream_types::{Diagnostic, Spare, code};
use std::ptr;

/// Views of the columns of one buffer. Holds the arrays' memory alive.
#[derive(Debug)]
pub struct InputColumns {
    views: Vec<ColumnView>,
    /// The arrays viewed.
    _arrays: Vec<ArrayRef>,
    /// Addresses of data buffers, one list for each Str column.
    _addresses: Vec<Vec<*const u8>>,
    /// The records that columns are fields of.
    records: Option<*const u8>,
    /// Validity bitmaps that the arrays do not have themselves.
    _bitmaps: Vec<Buffer>,
}

thread_local! {
    static VIEWS: Spare<Vec<ColumnView>> = const { Spare::new() };
    static ARRAYS: Spare<Vec<ArrayRef>> = const { Spare::new() };
}

impl Drop for InputColumns {
    fn drop(&mut self) {
        VIEWS.with(|spare| spare.give(std::mem::take(&mut self.views)));
        ARRAYS.with(|spare| spare.give(std::mem::take(&mut self._arrays)));
    }
}

impl InputColumns {
    /// Views `columns` as the inputs of a program, after checking that they have the right types, `rows` rows, and no
    /// NULL where the program expects none.
    pub fn new(inputs: &[Input], columns: &[ArrayRef], rows: usize) -> Result<InputColumns, Diagnostic> {
        if inputs.len() != columns.len() {
            let message = format!("a program of {} inputs was given {} columns", inputs.len(), columns.len());
            return Err(Diagnostic::bug(message));
        }
        let mut arrays = ARRAYS.with(Spare::take);
        arrays.extend_from_slice(columns);
        let mut result = InputColumns {
            views: VIEWS.with(Spare::take),
            _arrays: arrays,
            _addresses: Vec::new(),
            records: None,
            _bitmaps: Vec::new(),
        };
        for (input, column) in inputs.iter().zip(columns) {
            let view = result.view(input, column, rows)?;
            result.views.push(view);
        }
        Ok(result)
    }

    /// For `ExecContext::columns`; valid as long as `self` lives.
    pub fn as_ptr(&self) -> *const ColumnView {
        self.views.as_ptr()
    }

    /// Tells programs the bounds of a column; whoever calls keeps them alive as long as `self`, and there is one for each
    /// [`ZONE_ROWS`](millstream_abi::ZONE_ROWS) rows.
    pub(crate) fn set_zones(&mut self, column: usize, zones: &[Zone]) {
        self.views[column].zones = zones.as_ptr();
    }

    /// The view of an input.
    pub(crate) fn view_of(&self, input: usize) -> &ColumnView {
        &self.views[input]
    }

    fn view(&mut self, input: &Input, column: &ArrayRef, rows: usize) -> Result<ColumnView, Diagnostic> {
        let name = &input.name;
        if column.len() != rows {
            return Err(Diagnostic::bug(format!("column {name} has {} rows instead of {rows}", column.len())));
        }
        if input.layout == Layout::Array && !fits(column.data_type(), input.phys) {
            let message =
                format!("column {name} of type {} was given for an input of {}", column.data_type(), input.phys);
            return Err(Diagnostic::bug(message));
        }
        if !input.nullable && column.logical_null_count() > 0 {
            return Err(Diagnostic::new(code::NULL_IN_NOT_NULL, format!("NULL in the NOT NULL column {name}")));
        }
        let mut view = ColumnView {
            values: ptr::NonNull::<u128>::dangling().as_ptr().cast(),
            validity: ptr::null(),
            validity_offset: 0,
            values_offset: 0,
            buffers: ptr::null(),
            zones: ptr::null(),
        };
        if *column.data_type() == Arrow::Null {
            let bitmap = Buffer::from_vec(vec![0u8; rows.div_ceil(8)]);
            (view.values, view.validity) = (bitmap.as_ptr(), bitmap.as_ptr());
            self._bitmaps.push(bitmap);
            return Ok(view);
        }
        if let Layout::Record(place) = input.layout {
            view.values = self.records(name, place, column)?;
            return Ok(view);
        }
        if let Some(nulls) = column.nulls().filter(|n| n.null_count() > 0) {
            view.validity = nulls.validity().as_ptr();
            view.validity_offset = nulls.offset() as u64;
        }
        if !nested(column.data_type()) {
            self.view_values(input.phys, column, &mut view)
                .ok_or_else(|| Diagnostic::bug(format!("column {name} has no values")))?;
        }
        Ok(view)
    }

    /// Where the values of a column are, of a type that [`fits`]; `None` if it has none. Not by `Array::to_data`: that
    /// allocates, and a keyed operator with small batches spends more on it than on their rows.
    fn view_values(&mut self, phys: Phys, column: &ArrayRef, view: &mut ColumnView) -> Option<()> {
        match phys {
            Phys::Bool => {
                let values = column.as_boolean_opt()?.values();
                (view.values, view.values_offset) = (values.inner().as_ptr(), values.offset() as u64);
            }
            Phys::Str => {
                let (views, buffers) = match column.data_type() {
                    Arrow::Utf8View => column.as_string_view_opt().map(|c| (c.views(), c.data_buffers()))?,
                    _ => column.as_binary_view_opt().map(|c| (c.views(), c.data_buffers()))?,
                };
                let addresses: Vec<*const u8> = buffers.iter().map(|b| b.as_ptr()).collect();
                (view.values, view.buffers) = (views.inner().as_ptr(), addresses.as_ptr());
                self._addresses.push(addresses);
            }
            _ => {
                view.values = downcast_primitive_array!(
                    column => column.values().inner().as_ptr(),
                    _ => return None
                );
            }
        }
        Some(())
    }

    /// The address of the records that a column consists of, after checking that they are those of the other columns.
    fn records(&mut self, name: &str, place: InRecord, column: &ArrayRef) -> Result<*const u8, Diagnostic> {
        let records = column.as_fixed_size_binary_opt().filter(|r| r.value_length() as usize == place.length);
        let Some(records) = records else {
            let message = format!("column {name} of type {} was given for a field of records", column.data_type());
            return Err(Diagnostic::bug(message));
        };
        let address = records.value_data().as_ptr();
        if *self.records.get_or_insert(address) != address {
            return Err(Diagnostic::bug(format!("column {name} is in other records than the columns before it")));
        }
        Ok(address)
    }
}

/// Types that programs only pass through.
fn nested(arrow: &Arrow) -> bool {
    matches!(arrow, Arrow::Struct(_) | Arrow::List(_) | Arrow::Map(..))
}

/// Whether an Arrow array is laid out as a column of `phys`.
fn fits(arrow: &Arrow, phys: Phys) -> bool {
    match phys {
        Phys::Bool => matches!(arrow, Arrow::Boolean | Arrow::Null) || nested(arrow),
        Phys::I8 => matches!(arrow, Arrow::Int8),
        Phys::I16 => matches!(arrow, Arrow::Int16),
        Phys::I32 => {
            matches!(arrow, Arrow::Int32 | Arrow::Date32 | Arrow::Time32(_) | Arrow::Interval(IntervalUnit::YearMonth))
        }
        Phys::I64 => matches!(arrow, Arrow::Int64 | Arrow::Timestamp(..) | Arrow::Duration(_)),
        Phys::I128 => matches!(arrow, Arrow::Decimal128(..)),
        Phys::F32 => matches!(arrow, Arrow::Float32),
        Phys::F64 => matches!(arrow, Arrow::Float64),
        Phys::Str => matches!(arrow, Arrow::Utf8View | Arrow::BinaryView),
    }
}
