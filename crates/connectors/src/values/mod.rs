//! Values on their way between text and columns: what JSON and CSV have in common.
//!
//! The text forms are those of `millstream_types::text`; here are the columns: [`ColumnBuilder`] collects decoded values
//! into an Arrow array, [`ColumnView`] gives an encoder the values of one.

mod builder;
mod column_view;
mod views;

pub(crate) use builder::{ColumnBuilder, Values};
pub(crate) use column_view::{ColumnView, Kind};
