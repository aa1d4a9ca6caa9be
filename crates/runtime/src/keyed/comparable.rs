//! Rows as bytes that are equal, and sort, as their values do; and rows that are compared where they are.

use crate::columns::unselectable;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType as Arrow;
use millstream_types::Diagnostic;

/// Rows of some columns; without columns all are equal.
pub(super) struct Comparable(Option<Rows>);

impl Comparable {
    /// The rows of each of these sets of columns, which have the same types.
    pub(super) fn of<const N: usize>(sets: [&[ArrayRef]; N]) -> Result<[Comparable; N], Diagnostic> {
        let types = sets[0].iter().map(|column| SortField::new(column.data_type().clone()));
        let converter = RowConverter::new(types.collect()).map_err(unselectable)?;
        let rows =
            sets.into_iter().map(|columns| Comparable::made(&converter, columns)).collect::<Result<Vec<_>, _>>()?;
        rows.try_into().map_err(|_| Diagnostic::bug("as many sets of rows as of columns"))
    }

    /// The rows of columns of the types that a converter is for.
    pub(super) fn made(converter: &RowConverter, columns: &[ArrayRef]) -> Result<Comparable, Diagnostic> {
        let rows = || converter.convert_columns(columns).map_err(unselectable);
        Ok(Comparable(if columns.is_empty() { None } else { Some(rows()?) }))
    }

    /// A row.
    pub(super) fn row(&self, row: usize) -> &[u8] {
        self.0.as_ref().map_or(&[], |rows| rows.row(row).data())
    }

    /// The numbers of the rows, of which there are so many, in the order of their bytes; equal ones in any.
    pub(super) fn order(&self, rows: usize) -> Vec<u32> {
        let mut heads: Vec<(Head, u32)> = (0..rows as u32).map(|row| (head(self.row(row as usize)), row)).collect();
        // Most are told apart by their heads, which lie next to each other. Two whole numbers fit.
        let whole = |row: u32| self.row(row as usize);
        heads.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| whole(a.1).cmp(whole(b.1))));
        heads.into_iter().map(|(_, row)| row).collect()
    }
}

/// The first bytes of a row as words that sort as these do.
type Head = [u64; 3];

fn head(row: &[u8]) -> Head {
    let mut bytes = [0; size_of::<Head>()];
    let length = row.len().min(bytes.len());
    bytes[..length].copy_from_slice(&row[..length]);
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_be_bytes(words[word]))
}

/// Compares rows of some columns in their place: cheaper than [`Comparable`] where few rows are compared with few others.
pub(super) struct Equality<'a>(Vec<OfColumn<'a>>);

struct OfColumn<'a> {
    column: &'a ArrayRef,
    values: Values,
}

enum Values {
    Strings,
    Binaries,
    Booleans,
    /// Of a fixed number of bytes, behind each other.
    Fixed(Buffer, usize),
    /// Without values.
    None,
}

impl<'a> Equality<'a> {
    /// `None` if there is a column of nested values.
    pub(super) fn of(columns: &'a [ArrayRef]) -> Option<Equality<'a>> {
        let of_column = |column: &'a ArrayRef| {
            let values = match column.data_type() {
                Arrow::Utf8View => Values::Strings,
                Arrow::BinaryView => Values::Binaries,
                Arrow::Boolean => Values::Booleans,
                Arrow::Null => Values::None,
                other => {
                    let (width, data) = (other.primitive_width()?, column.to_data());
                    Values::Fixed(data.buffers()[0].slice(data.offset() * width), width)
                }
            };
            Some(OfColumn { column, values })
        };
        columns.iter().map(of_column).collect::<Option<_>>().map(Equality)
    }

    /// Whether two rows are equal; NULL is equal to NULL, and doubles are by their bits.
    pub(super) fn is_equal(&self, a: usize, b: usize) -> bool {
        self.0.iter().all(|of| {
            let are_null = [a, b].map(|row| of.column.is_null(row));
            if are_null.contains(&true) {
                return are_null[0] == are_null[1];
            }
            match &of.values {
                Values::Strings => {
                    let strings = of.column.as_string_view();
                    strings.value(a) == strings.value(b)
                }
                Values::Binaries => {
                    let binaries = of.column.as_binary_view();
                    binaries.value(a) == binaries.value(b)
                }
                Values::Booleans => {
                    let booleans = of.column.as_boolean();
                    booleans.value(a) == booleans.value(b)
                }
                Values::Fixed(bytes, width) => {
                    let value = |row: usize| &bytes[row * width..][..*width];
                    value(a) == value(b)
                }
                Values::None => true,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, NullArray, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn rows_are_put_in_the_order_of_their_bytes() {
        let number = |i: i64| i * 7919 % 1009 - 500;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..1000).map(|i| (i % 7 > 0).then(|| number(i) % 10))));
        let ranks: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1000).map(|i| number(i + 5) % 9)));
        // Texts whose heads are equal, and one that is the beginning of another.
        let texts = (0..1000).map(|i| format!("{}{}", "a text that is long ".repeat(i % 3), "x".repeat(i * 7919 % 13)));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        for columns in [vec![], vec![Arc::clone(&numbers)], vec![numbers, Arc::clone(&ranks)], vec![texts, ranks]] {
            let [rows] = Comparable::of([&columns]).unwrap();
            let order = rows.order(1000);
            assert!(order.is_sorted_by_key(|&row| rows.row(row as usize)));
            let mut numbers = order;
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..1000));
        }
    }

    #[test]
    fn rows_are_equal_where_their_bytes_are() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(9), Some(1), Some(1), None, None, Some(2)])),
            Arc::new(StringViewArray::from(vec![
                "x",
                "a long text of many bytes",
                "a long text of many bytes",
                "b",
                "b",
                "b",
            ])),
            Arc::new(BooleanArray::from(vec![Some(true), None, None, Some(true), Some(true), Some(false)])),
            Arc::new(Float64Array::from(vec![1.0, f64::NAN, f64::NAN, 0.0, 0.0, -0.0])),
            Arc::new(Decimal128Array::from(vec![0, 5, 5, 7, 7, 7])),
            Arc::new(NullArray::new(6)),
        ];
        // What is sliced begins elsewhere.
        let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(1, 5)).collect();
        let equality = Equality::of(&columns).unwrap();
        let [comparable] = Comparable::of([&columns]).unwrap();
        for a in 0..5 {
            for b in 0..5 {
                assert_eq!(equality.is_equal(a, b), comparable.row(a) == comparable.row(b), "{a} {b}");
            }
        }
        assert!(equality.is_equal(0, 1) && equality.is_equal(2, 3) && !equality.is_equal(3, 4));
        let nested: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]));
        assert!(Equality::of(&[nested]).is_none() && Equality::of(&[]).unwrap().is_equal(0, 1));
    }
}
