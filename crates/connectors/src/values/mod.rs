//! Values on their way between text and columns: what JSON and CSV have in common.
//!
//! [`parse`] reads the text form of a value as Flink's formats define it (which is stricter than a cast), [`print`]
//! writes it, and [`ColumnBuilder`] collects decoded values into an Arrow array.

mod builder;
mod column_view;
pub(crate) mod parse;
pub(crate) mod print;
mod views;

pub(crate) use builder::{ColumnBuilder, TextRules, Values};
pub(crate) use column_view::{ColumnView, Kind};
