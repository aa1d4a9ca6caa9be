//! Rows on their way to a partition of a keyed operator, and how those of several buffers are put in merged order.

use super::encoding::{restore_columns, save_columns};
use super::places;
use super::shared::Portion;
use crate::columns::{Parts, bytes_of, chained, compact, joined, selected, sliced, unselectable};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_select::interleave::interleave;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::ops::Range;
use std::sync::Arc;

/// Rows of one buffer for one partition, or rows in merged order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    /// Columns as in `KeyedInput::schema`; none where `parts` have the rows.
    pub(crate) columns: Vec<ArrayRef>,
    /// The rows, one part after the other, where they are shared: only operators that keep rows get such ones.
    parts: Vec<Portion>,
    /// The place of each row; none where `unordered` has their number.
    pub(crate) ordinals: Vec<Ordinal>,
    /// Number of rows whose order nobody asks for.
    unordered: Option<usize>,
}

/// Event times of a column without NULLs, in milliseconds.
pub(crate) fn times_of(column: &ArrayRef) -> Result<ScalarBuffer<i64>, Diagnostic> {
    match column.as_primitive_opt::<TimestampMillisecondType>() {
        Some(times) => Ok(times.values().clone()),
        None => Err(Diagnostic::bug(format!("event time of type {} is not in milliseconds", column.data_type()))),
    }
}

/// The rows of two inputs in merged order: of each the input, its number there, and how many of the other input come before it.
pub(crate) fn merged([left, right]: [&[Ordinal]; 2]) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut next = [0, 0];
    std::iter::from_fn(move || {
        let port = match (left.get(next[0]), right.get(next[1])) {
            (Some(left), Some(right)) => usize::from(right < left),
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (None, None) => return None,
        };
        next[port] += 1;
        Some((port, next[port] - 1, next[1 - port]))
    })
}

/// The places of rows that are in the order of their partitions.
struct PartPlaces {
    ordinals: Vec<Ordinal>,
    are_unordered: bool,
}

impl PartPlaces {
    fn new(ordinals: Vec<Ordinal>, are_unordered: bool, parts: &Parts) -> PartPlaces {
        let ordinals = if are_unordered { ordinals } else { parts.arranged_values(ordinals) };
        PartPlaces { ordinals, are_unordered }
    }

    /// A batch of some of the rows, without their columns.
    fn at(&self, places: Range<usize>) -> Batch {
        match self.are_unordered {
            true => Batch::unordered(Vec::new(), places.len()),
            false => Batch::new(Vec::new(), self.ordinals[places].to_vec()),
        }
    }
}

impl Batch {
    /// Rows of these columns, and their places.
    pub(crate) fn new(columns: Vec<ArrayRef>, ordinals: Vec<Ordinal>) -> Batch {
        Batch { columns, parts: Vec::new(), ordinals, unordered: None }
    }

    /// Rows that are consumed as they come: their places would be computed, moved and kept for nothing.
    pub(crate) fn unordered(columns: Vec<ArrayRef>, rows: usize) -> Batch {
        Batch { columns, parts: Vec::new(), ordinals: Vec::new(), unordered: Some(rows) }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.unordered.unwrap_or(self.ordinals.len())
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let rows = bytes_of(&self.columns) + self.parts.iter().map(Portion::bytes).sum::<usize>();
        rows + self.ordinals.len() * size_of::<Ordinal>()
    }

    /// A column of its rows.
    pub(crate) fn column(&self, column: usize) -> Result<ArrayRef, Diagnostic> {
        if self.parts.is_empty() {
            return Ok(Arc::clone(&self.columns[column]));
        }
        let parts = self.parts.iter().map(|part| part.column(column)).collect::<Result<Vec<_>, _>>()?;
        joined(&parts.iter().collect::<Vec<_>>())
    }

    /// The same with its rows in parts.
    pub(crate) fn in_parts(mut self) -> Batch {
        if self.parts.is_empty() && self.rows() > 0 {
            self.parts = vec![Portion::own(std::mem::take(&mut self.columns), self.rows())];
        }
        self
    }

    /// Its parts, if its rows are in such.
    pub(crate) fn parts(&self) -> &[Portion] {
        &self.parts
    }

    /// All columns of its rows.
    fn all_columns(&self) -> Result<Vec<ArrayRef>, Diagnostic> {
        let width = self.parts.first().map_or(self.columns.len(), Portion::width);
        (0..width).map(|column| self.column(column)).collect()
    }

    /// Writes the rows. Those without order get places that nobody is going to ask for.
    pub(crate) fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        save_columns(&self.all_columns()?, self.rows(), out);
        self.ordinals.iter().for_each(|ordinal| ordinal.save(out));
        (0..self.unordered.unwrap_or(0)).for_each(|_| Ordinal::NOWHERE.save(out));
        Ok(())
    }

    /// Reads rows of the columns of a schema, or a batch without rows and columns.
    pub(crate) fn restore(schema: &Schema, from: &mut ByteReader<'_>) -> Result<Batch, Damaged> {
        let mut ahead = from.clone();
        if ahead.columns()?.0.is_empty() {
            *from = ahead;
            return Ok(Batch::default());
        }
        let types = schema.fields.iter().map(|field| field.data_type.to_arrow());
        let (columns, rows) = restore_columns(types, from)?;
        let ordinals = (0..rows).map(|_| Ordinal::restore(from)).collect::<Result<_, _>>()?;
        Ok(Batch::new(columns, ordinals))
    }

    /// Writes the rows for another node, which has them once more ([`Batch::receive`]).
    pub(super) fn send(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let places = self.unordered.is_none().then_some(&self.ordinals[..]);
        places::save(places, self.rows(), out);
        save_columns(&self.all_columns()?, self.rows(), out);
        Ok(())
    }

    /// Reads rows of another node, of the columns of a schema.
    pub(super) fn receive(schema: &Schema, from: &mut ByteReader<'_>) -> Result<Batch, Damaged> {
        let (places, of_places) = places::restore(from)?;
        let types = schema.fields.iter().map(|field| field.data_type.to_arrow());
        let (columns, rows) = restore_columns(types, from)?;
        Damaged::unless(rows == of_places, "rows have more places, or fewer")?;
        Ok(match places {
            Some(places) => Batch::new(columns, places),
            None => Batch::unordered(columns, rows),
        })
    }

    /// Rows next to each other, in the same memory.
    pub(super) fn range(&self, rows: Range<usize>) -> Batch {
        let columns = sliced(&self.columns, rows.start, rows.len());
        match self.unordered {
            Some(_) => Batch::unordered(columns, rows.len()),
            None => Batch::new(columns, self.ordinals[rows].to_vec()),
        }
    }

    /// Reads what several calls of [`Batch::save`] have written.
    pub(crate) fn restore_all(schema: &Schema, bytes: &[u8]) -> Result<Vec<Batch>, Damaged> {
        let (mut from, mut batches) = (ByteReader::new(bytes), Vec::new());
        while !from.is_empty() {
            batches.push(Batch::restore(schema, &mut from)?);
        }
        Ok(batches)
    }

    /// Routes rows to their partitions. These get rows of their own: strings are copied out of the input, unless the rows are only
    /// passed on.
    pub(crate) fn split(self, parts: &Parts, are_passed_on: bool) -> Result<Vec<(usize, Batch)>, Diagnostic> {
        let own = |column| if are_passed_on { column } else { compact(&column) };
        let columns = self.columns.iter().map(|c| parts.arranged(c).map(own));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let of_places = PartPlaces::new(self.ordinals, self.unordered.is_some(), parts);
        let part = |(partition, places): (usize, Range<usize>)| {
            let columns = sliced(&columns, places.start, places.len());
            (partition, Batch { columns, ..of_places.at(places) })
        };
        Ok(parts.places().map(part).collect())
    }

    /// The same without copies: the partitions share the columns. `are_of_table` as for [`Portion::to_share`].
    pub(crate) fn share(self, parts: &Parts, are_of_table: bool) -> Vec<(usize, Batch)> {
        let rows = self.rows();
        let all = Portion::to_share(self.columns, rows, are_of_table);
        let order = parts.numbers();
        let of_places = PartPlaces::new(self.ordinals, self.unordered.is_some(), parts);
        let part = |(partition, places): (usize, Range<usize>)| {
            let rows = match &order {
                Some(order) => all.of(order.slice(places.start, places.len())),
                None => all.clone(),
            };
            (partition, Batch { parts: vec![rows], ..of_places.at(places) })
        };
        parts.places().map(part).collect()
    }

    /// Smallest watermark before a row.
    pub(crate) fn earliest(&self) -> i64 {
        self.ordinals.iter().map(|o| o.watermark).min().unwrap_or(i64::MAX)
    }

    /// Rows whose watermark before them is below `watermark`, and the others.
    pub(crate) fn cut(self, watermark: i64) -> Result<(Option<Batch>, Option<Batch>), Diagnostic> {
        if watermark == i64::MAX && self.rows() > 0 {
            return Ok((Some(self), None));
        }
        debug_assert!(self.unordered.is_none_or(|rows| rows == 0), "rows without order are consumed as they come");
        let is_before = |o: &Ordinal| o.watermark < watermark;
        let before = self.ordinals.iter().filter(|o| is_before(o)).count();
        if before == 0 {
            return Ok((None, Some(self)));
        }
        if before == self.rows() {
            return Ok((Some(self), None));
        }
        if self.parts.is_empty() && self.ordinals[..before].iter().all(is_before) {
            return Ok((Some(self.range(0..before)), Some(self.range(before..self.rows()))));
        }
        let part = |wanted: bool| {
            let rows: Vec<u32> =
                (0..self.rows()).filter(|&i| is_before(&self.ordinals[i]) == wanted).map(|i| i as u32).collect();
            self.pick(rows)
        };
        Ok((Some(part(true)?), Some(part(false)?)))
    }

    /// The rows of these numbers, which ascend.
    pub(crate) fn pick(&self, rows: Vec<u32>) -> Result<Batch, Diagnostic> {
        debug_assert!(rows.is_sorted());
        let unordered = self.unordered.map(|_| rows.len());
        let ordinals = match unordered {
            None => rows.iter().map(|&i| self.ordinals[i as usize]).collect(),
            Some(_) => Vec::new(),
        };
        if self.parts.is_empty() {
            let rows = UInt32Array::from(rows);
            let columns = self.columns.iter().map(|c| selected(c, &rows)).collect::<Result<_, _>>()?;
            return Ok(Batch { columns, parts: Vec::new(), ordinals, unordered });
        }
        let (mut parts, mut rest, mut first) = (Vec::new(), &rows[..], 0);
        for part in &self.parts {
            let end = first + part.rows();
            let (here, after) = rest.split_at(rest.partition_point(|&row| (row as usize) < end));
            if !here.is_empty() {
                parts.push(part.pick(here.iter().map(|&row| row - first as u32)));
            }
            (rest, first) = (after, end);
        }
        Ok(Batch { columns: Vec::new(), parts, ordinals, unordered })
    }

    /// All rows of the batches, one batch after the other. If some have no order, all have none.
    fn chained(batches: Vec<Batch>) -> Result<Batch, Diagnostic> {
        Batch::put_together(batches, joined)
    }

    fn put_together(
        batches: Vec<Batch>,
        put_together: fn(&[&ArrayRef]) -> Result<ArrayRef, Diagnostic>,
    ) -> Result<Batch, Diagnostic> {
        let rows = batches.iter().map(Batch::rows).sum();
        let unordered = batches.iter().any(|b| b.unordered.is_some()).then_some(rows);
        let mut ordinals = Vec::new();
        if unordered.is_none() {
            ordinals.reserve(rows);
            batches.iter().for_each(|b| ordinals.extend_from_slice(&b.ordinals));
        }
        if batches.iter().any(|b| !b.parts.is_empty()) {
            let parts = batches.into_iter().flat_map(|batch| batch.in_parts().parts).collect();
            return Ok(Batch { columns: Vec::new(), parts, ordinals, unordered });
        }
        let width = batches.first().map_or(0, |b| b.columns.len());
        let column = |i: usize| put_together(&batches.iter().map(|b| &b.columns[i]).collect::<Vec<_>>());
        let columns = (0..width).map(column).collect::<Result<_, _>>()?;
        Ok(Batch { columns, parts: Vec::new(), ordinals, unordered })
    }

    /// All rows of the batches, in no order.
    pub(crate) fn gathered(mut batches: Vec<Batch>) -> Result<Batch, Diagnostic> {
        batches.retain(|b| b.rows() > 0);
        Batch::chained(batches)
    }

    /// The same of rows that are only passed on: strings stay in the buffers that they are in.
    pub(crate) fn gathered_to_pass_on(mut batches: Vec<Batch>) -> Result<Batch, Diagnostic> {
        batches.retain(|b| b.rows() > 0);
        Batch::put_together(batches, chained)
    }

    /// All rows of the batches in merged order, unless they have none.
    pub(crate) fn merge(mut batches: Vec<Batch>) -> Result<Batch, Diagnostic> {
        batches.retain(|b| b.rows() > 0);
        if batches.iter().any(|b| b.unordered.is_some()) {
            return Batch::chained(batches);
        }
        batches.sort_by_key(|b| b.ordinals[0]);
        let follow = |(before, after): (&Batch, &Batch)| before.ordinals.last() <= after.ordinals.first();
        let are_in_order =
            batches.iter().all(|b| b.ordinals.is_sorted()) && batches.iter().zip(batches.iter().skip(1)).all(follow);
        if are_in_order {
            return match batches.len() {
                1 => Ok(batches.pop().unwrap_or_default()),
                _ => Batch::chained(batches),
            };
        }
        let columns = batches.iter().map(Batch::all_columns).collect::<Result<Vec<_>, _>>()?;
        let ordinals = batches.iter().flat_map(|b| b.ordinals.iter().copied());
        let rows = |(i, b): (usize, &Batch)| (0..b.rows()).map(move |row| (i, row)).collect::<Vec<_>>();
        let places = batches.iter().enumerate().flat_map(rows);
        let mut order: Vec<(Ordinal, (usize, usize))> = ordinals.zip(places).collect();
        // Stable, because it finds the runs that are in order already.
        order.sort_by_key(|(ordinal, _)| *ordinal);
        let (ordinals, places): (Vec<Ordinal>, Vec<(usize, usize)>) = order.into_iter().unzip();
        let column = |i: usize| {
            let arrays: Vec<&dyn Array> = columns.iter().map(|columns| &*columns[i]).collect();
            interleave(&arrays, &places).map(|c| compact(&c)).map_err(unselectable)
        };
        Ok(Batch::new((0..columns[0].len()).map(column).collect::<Result<_, _>>()?, ordinals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::types::Int64Type;

    fn batch(rows: &[(i64, u16, u64)]) -> Batch {
        let ordinals: Vec<Ordinal> = rows
            .iter()
            .map(|&(watermark, input, position)| Ordinal { watermark, input, split: 0, position, pipeline: 0 })
            .collect();
        let column =
            Int64Array::from_iter_values(rows.iter().map(|r| r.0.wrapping_mul(10_000) + r.1 as i64 * 100 + r.2 as i64));
        Batch::new(vec![Arc::new(column)], ordinals)
    }

    fn values(batch: &Batch) -> Vec<i64> {
        batch.columns[0].as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn batches_of_several_streams_are_merged_by_watermark_stream_and_position() {
        let merged = Batch::merge(vec![
            batch(&[(2, 0, 3), (5, 0, 4)]),
            batch(&[(1, 1, 1), (2, 1, 2), (7, 1, 3)]),
            batch(&[(1, 0, 1), (1, 0, 2)]),
        ]);
        assert_eq!(values(&merged.unwrap()), [10001, 10002, 10101, 20003, 20102, 50004, 70103]);
        let merged = Batch::merge(vec![batch(&[(2, 0, 3)]), batch(&[(1, 0, 1), (1, 0, 2)])]);
        assert_eq!(values(&merged.unwrap()), [10001, 10002, 20003]);
        assert_eq!(Batch::merge(vec![]).unwrap().rows(), 0);
    }

    #[test]
    fn rows_without_order_stay_so() {
        let unordered = |rows: Range<i64>| {
            let count = rows.clone().count();
            Batch::unordered(vec![Arc::new(Int64Array::from_iter_values(rows))], count)
        };
        let is_unordered = |batch: &Batch, expected: &[i64]| {
            assert_eq!((batch.rows(), batch.ordinals.len()), (expected.len(), 0));
            let column = batch.column(0).unwrap();
            assert_eq!(column.as_primitive::<Int64Type>().values(), expected);
        };
        is_unordered(
            &Batch::merge(vec![unordered(0..2), batch(&[(2, 0, 3)]), unordered(5..6)]).unwrap(),
            &[0, 1, 20003, 5],
        );
        is_unordered(&Batch::gathered(vec![unordered(0..2).in_parts(), unordered(5..6)]).unwrap(), &[0, 1, 5]);
        is_unordered(&unordered(0..9).pick(vec![1, 8]).unwrap(), &[1, 8]);
        let (before, after) = unordered(0..3).cut(i64::MAX).unwrap();
        assert!(after.is_none());
        is_unordered(&before.unwrap(), &[0, 1, 2]);
        let parts = Parts::new(&[0, i64::MIN, 0, i64::MIN], 1);
        for parted in [unordered(0..4).split(&parts, false).unwrap(), unordered(0..4).share(&parts, false)] {
            let [(0, even), (1, odd)] = &parted[..] else { panic!("both partitions have rows") };
            is_unordered(even, &[0, 2]);
            is_unordered(odd, &[1, 3]);
        }
        // What is written has places, as rows with an order have.
        let mut out = ByteWriter::new();
        unordered(0..3).save(&mut out).unwrap();
        let schema = Schema::new(vec![millstream_types::Field::new("n", millstream_types::DataType::BigInt, false)]);
        let bytes = out.into_bytes();
        let mut from = ByteReader::new(&bytes);
        let restored = Batch::restore(&schema, &mut from).unwrap();
        from.end().unwrap();
        assert_eq!((restored.rows(), restored.ordinals.len(), values(&restored)), (3, 3, vec![0, 1, 2]));
    }

    #[test]
    fn a_cut_separates_rows_by_the_watermark_before_them() {
        let (before, after) = batch(&[(1, 0, 1), (2, 0, 2), (2, 0, 3)]).cut(2).unwrap();
        assert_eq!((values(&before.unwrap()), values(&after.unwrap())), (vec![10001], vec![20002, 20003]));
        let (before, after) = batch(&[(3, 0, 1), (1, 0, 2)]).cut(2).unwrap();
        assert_eq!((values(&before.unwrap()), values(&after.unwrap())), (vec![10002], vec![30001]));
        let (before, after) = batch(&[(i64::MAX, 0, 1)]).cut(i64::MAX).unwrap();
        assert!(before.is_some() && after.is_none());
    }

    #[test]
    fn a_split_keeps_the_order_within_partitions() {
        let rows: Vec<(i64, u16, u64)> = (0..100).map(|i| (i, 0, i as u64)).collect();
        let hashes: Vec<i64> = (0..100i64).map(|i| (i % 7) << 60 | i).collect();
        let mut seen = 0;
        for (partition, part) in batch(&rows).split(&Parts::new(&hashes, 6), false).unwrap() {
            assert!(part.ordinals.is_sorted());
            let at_home = |o: &Ordinal| (hashes[o.position as usize] as u64 >> (u64::BITS - 6)) as usize == partition;
            assert!(part.ordinals.iter().all(at_home));
            assert_eq!(
                values(&part),
                part.ordinals.iter().map(|o| o.watermark * 10_000 + o.position as i64).collect::<Vec<_>>()
            );
            seen += part.rows();
        }
        assert_eq!(seen, 100);
    }
}
