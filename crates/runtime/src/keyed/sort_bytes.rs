//! Rows as bytes that sort as the rows do in an order, and behind them bytes that decide between rows of equal order.

use super::comparable::Comparable;
use crate::columns::unselectable;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType as Arrow, SortOptions};
use millstream_plan::pipeline::{SortColumn, Ties};
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::sync::Arc;

/// Makes the bytes of rows of one schema.
pub(super) struct SortBytes {
    order: Vec<SortColumn>,
    of_order: RowConverter,
    ties: Ties,
    /// The columns whose values decide, and their converter.
    values: Option<(Vec<usize>, RowConverter)>,
}

/// The bytes of the rows of a batch. Those of ties are made when they are asked for.
pub(super) struct BatchBytes<'a> {
    /// Without columns all rows are of equal order.
    order: Comparable,
    ties: Ties,
    values: Option<Comparable>,
    ordinals: &'a [Ordinal],
}

impl SortBytes {
    /// For rows of a schema. Where values decide those of `weight` do not.
    pub(super) fn new(
        schema: &Schema,
        order: &[SortColumn],
        ties: Ties,
        weight: Option<usize>,
    ) -> Result<SortBytes, Diagnostic> {
        let arrow = |column: usize| schema.fields[column].data_type.to_arrow();
        let field = |sort: &SortColumn| {
            let options = SortOptions { descending: sort.descending, nulls_first: sort.nulls_first };
            SortField::new_with_options(arrow(sort.column), options)
        };
        let of_order = RowConverter::new(order.iter().map(field).collect()).map_err(unselectable)?;
        let columns: Vec<usize> = (0..schema.fields.len()).filter(|&column| Some(column) != weight).collect();
        let of_values = || RowConverter::new(columns.iter().map(|&column| SortField::new(arrow(column))).collect());
        let values = match ties {
            Ties::Values if !columns.is_empty() => {
                let converter = of_values().map_err(unselectable)?;
                Some((columns, converter))
            }
            _ => None,
        };
        Ok(SortBytes { order: order.to_vec(), of_order, ties, values })
    }

    /// Those of the rows of a batch, which have these places where places decide.
    pub(super) fn of<'a>(&self, columns: &[ArrayRef], ordinals: &'a [Ordinal]) -> Result<BatchBytes<'a>, Diagnostic> {
        let ordered: Vec<ArrayRef> = self.order.iter().map(|sort| comparable(&columns[sort.column])).collect();
        let order = Comparable::made(&self.of_order, &ordered)?;
        let values = match &self.values {
            None => None,
            Some((places, converter)) => {
                let columns: Vec<ArrayRef> = places.iter().map(|&place| Arc::clone(&columns[place])).collect();
                Some(Comparable::made(converter, &columns)?)
            }
        };
        Ok(BatchBytes { order, ties: self.ties, values, ordinals })
    }
}

impl BatchBytes<'_> {
    /// What a row is ordered by.
    pub(super) fn order(&self, row: usize) -> &[u8] {
        self.order.row(row)
    }

    /// Appends what decides between it and others of equal order.
    pub(super) fn tie(&self, row: usize, into: &mut Vec<u8>) {
        if let Some(values) = &self.values {
            return into.extend_from_slice(values.row(row));
        }
        let Some(ordinal) = self.ordinals.get(row) else { return };
        let first = into.len();
        into.extend_from_slice(&(ordinal.watermark as u64 ^ 1 << 63).to_be_bytes());
        into.extend_from_slice(&ordinal.input.to_be_bytes());
        into.extend_from_slice(&ordinal.split.to_be_bytes());
        into.extend_from_slice(&ordinal.position.to_be_bytes());
        into.extend_from_slice(&ordinal.pipeline.to_be_bytes());
        if self.ties == Ties::Last {
            into[first..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// A column whose values are equal where they are for SQL: there is one zero, and one NaN, above all others.
fn comparable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        Arrow::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one)) as Arc<Float32Array>
        }
        Arrow::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one)) as Arc<Float64Array>
        }
        _ => Arc::clone(column),
    }
}

/// The bytes of rows that are kept, by number.
#[derive(Default)]
pub(super) struct KeptBytes {
    bytes: Vec<u8>,
    places: Vec<BytesOfRow>,
}

/// Where the bytes of a row are.
#[derive(Clone, Copy)]
struct BytesOfRow {
    first: usize,
    /// Bytes of what it is ordered by.
    order: u32,
    /// All of them.
    length: u32,
}

impl KeptBytes {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds a row of a batch.
    pub(super) fn push(&mut self, of: &BatchBytes<'_>, row: usize) {
        let first = self.bytes.len();
        self.bytes.extend_from_slice(of.order(row));
        let order = (self.bytes.len() - first) as u32;
        of.tie(row, &mut self.bytes);
        self.places.push(BytesOfRow { first, order, length: (self.bytes.len() - first) as u32 });
    }

    /// Forgets the row that was added last.
    pub(super) fn pop(&mut self) {
        if let Some(place) = self.places.pop() {
            self.bytes.truncate(place.first);
        }
    }

    /// What a row is ordered by.
    pub(super) fn order(&self, row: u32) -> &[u8] {
        let BytesOfRow { first, order, .. } = self.places[row as usize];
        &self.bytes[first..first + order as usize]
    }

    /// All that decides about its place.
    pub(super) fn whole(&self, row: u32) -> &[u8] {
        let BytesOfRow { first, length, .. } = self.places[row as usize];
        &self.bytes[first..first + length as usize]
    }

    /// Keeps the rows of these ascending numbers only; the *i*-th of them is number *i* from now on.
    pub(super) fn keep(&mut self, rows: &[u32]) {
        let mut kept = KeptBytes::default();
        kept.absorb(self, rows);
        *self = kept;
    }

    /// Adds rows of others, by their numbers there.
    pub(super) fn absorb(&mut self, other: &KeptBytes, rows: &[u32]) {
        self.places.reserve(rows.len());
        for &row in rows {
            let first = self.bytes.len();
            self.bytes.extend_from_slice(other.whole(row));
            self.places.push(BytesOfRow { first, ..other.places[row as usize] });
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<BytesOfRow>()
    }

    /// Writes those of the rows from number `from` on.
    pub(super) fn save_from(&self, from: usize, out: &mut ByteWriter) {
        let places = &self.places[from..];
        out.u32s(&places.iter().map(|place| place.order).collect::<Vec<_>>());
        out.u32s(&places.iter().map(|place| place.length).collect::<Vec<_>>());
        out.bytes(&self.bytes[places.first().map_or(self.bytes.len(), |place| place.first)..]);
    }

    /// Adds those that [`KeptBytes::save_from`] has written.
    pub(super) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        let (orders, lengths, bytes) = (from.u32s()?, from.u32s()?, from.bytes()?);
        Damaged::unless(orders.len() == lengths.len(), "rows are ordered by something else than they have")?;
        let mut first = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        for (order, length) in orders.into_iter().zip(lengths) {
            Damaged::unless(order <= length, "a row is ordered by more than it has")?;
            self.places.push(BytesOfRow { first, order, length });
            first += length as usize;
        }
        Damaged::unless(first == self.bytes.len(), "what rows are ordered by is missing")
    }
}
