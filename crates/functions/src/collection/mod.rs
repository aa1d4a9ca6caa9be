//! Bodies of the functions on arrays, maps and rows, of aggregates that order what they gather, and of those that write JSON.
//!
//! Row programs pass nested values on but do not compute with them. So these bodies take whole Arrow columns, a buffer at a
//! time. A body gets an [`Input`] and gives the column of results. Its signature is in the SQL crate.

pub mod array;
pub mod json;
mod lists;
pub mod map;
pub mod ordered;
pub mod row;
pub mod write;

use arrow_array::ArrayRef;
use arrow_schema::DataType as Arrow;

/// What a body gets.
#[derive(Debug)]
pub struct Input<'a> {
    /// The arguments, of `rows` rows each.
    pub columns: &'a [ArrayRef],
    /// Rows.
    pub rows: usize,
    /// Type of the column to give.
    pub result: &'a Arrow,
}

/// The column, or why some row is bad.
pub type Output = Result<ArrayRef, String>;
