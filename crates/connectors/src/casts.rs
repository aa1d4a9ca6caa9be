//! Casts between Arrow types, of which there are thousands: built with the feature `columnar` only. Tables of text need none.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType as ArrowType;

/// The values in another type. One that does not fit is NULL with `or_null`; without it the cast fails.
#[cfg(feature = "columnar")]
pub(crate) fn cast(array: &dyn Array, target: &ArrowType, or_null: bool) -> Result<ArrayRef, String> {
    let options = arrow_cast::CastOptions { safe: or_null, ..Default::default() };
    arrow_cast::cast_with_options(array, target, &options).map_err(|e| e.to_string())
}

/// Fails: there are none.
#[cfg(not(feature = "columnar"))]
pub(crate) fn cast(_: &dyn Array, _: &ArrowType, _: bool) -> Result<ArrayRef, String> {
    Err("this program was built without casts of Arrow types; `make release` builds it with them".into())
}

/// A value as text; `None` if it has none.
#[cfg(feature = "columnar")]
pub(crate) fn text(array: &dyn Array, row: usize) -> Option<String> {
    arrow_cast::display::array_value_to_string(array, row).ok()
}

/// Without casts no value has a text.
#[cfg(not(feature = "columnar"))]
pub(crate) fn text(_: &dyn Array, _: usize) -> Option<String> {
    None
}
