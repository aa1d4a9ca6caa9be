//! The hand-written loops: over columns with small numbers, over columns with texts, over packed records.

use super::data::{BATCH, CAMPAIGN_AT, Data, RECORD, TIME_AT, TYPE_AT, VALUE_AT};
use crate::by_hand::{BLOCK, Cell, Layout, Records, Target, one_window, read_i64, select};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use std::ops::Range;

/// What a row brings to a cell: nothing, or its value.
pub(super) trait Input: Copy + Send {
    fn of(value: impl FnOnce() -> i64) -> Self;
}

impl Input for () {
    #[inline(always)]
    fn of(_: impl FnOnce() -> i64) {}
}

impl Input for i64 {
    #[inline(always)]
    fn of(value: impl FnOnce() -> i64) -> i64 {
        value()
    }
}

/// Columns, of which the event type is a small number or a text.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, C> {
    pub(super) data: &'a Data,
    /// Where event types are texts.
    pub(super) texts: Option<&'a [RecordBatch]>,
    /// Length of the windows, or of the slices of which they consist.
    pub(super) slice_ms: i64,
    pub(super) cell: std::marker::PhantomData<fn() -> C>,
}

/// A text of at most 12 bytes as Arrow's views have it: its length, then its bytes.
fn short_text(text: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[0] = text.len() as u8;
    bytes[4..4 + text.len()].copy_from_slice(text);
    u128::from_le_bytes(bytes)
}

impl<C: Cell<Input: Input>> Columns<'_, C> {
    #[inline(always)]
    pub(super) fn blocks<V: Copy, T: Target<C>>(
        &self,
        batch: usize,
        (types, times): (&[V], &[i64]),
        is_view: impl Fn(V) -> bool,
        target: &mut T,
    ) {
        let campaigns = self.data.campaigns[batch].values();
        let values = self.data.values[batch].values();
        for from in (0..types.len()).step_by(BLOCK) {
            let rows = from..(from + BLOCK).min(types.len());
            let (types, times) = (&types[rows.clone()], &times[rows.clone()]);
            let (campaigns, values) = (&campaigns[rows.clone()], &values[rows]);
            let input = |row: usize| C::Input::of(|| values[row]);
            if let Some(window) = one_window(times, self.slice_ms) {
                target.window(window);
                select(types, &is_view, |row| target.add(campaigns[row] as usize, input(row)));
                continue;
            }
            for row in (0..types.len()).filter(|row| is_view(types[*row])) {
                target.window(times[row].div_euclid(self.slice_ms));
                target.add(campaigns[row] as usize, input(row));
            }
        }
    }
}

impl<C: Cell<Input: Input>> Layout for Columns<'_, C> {
    type Cell = C;

    fn chunks(&self) -> usize {
        self.data.times.len()
    }

    fn keys(&self) -> usize {
        self.data.shape.keys as usize
    }

    fn windows(&self) -> Range<i64> {
        0..self.data.end_ms().div_euclid(self.slice_ms) + 1
    }

    #[inline(always)]
    fn scan<T: Target<C>>(&self, chunk: usize, target: &mut T) {
        let times = &self.data.times[chunk].values()[..];
        match self.texts {
            None => self.blocks(chunk, (self.data.types(chunk), times), |number| number == 0, target),
            Some(batches) => {
                let view = short_text(b"view");
                let types = batches[chunk].column(0).as_string_view().views();
                self.blocks(chunk, (types, times), |text| text == view, target);
            }
        }
    }
}

/// Packed records, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, C> {
    pub(super) data: &'a Data,
    pub(super) records: &'a Records<RECORD>,
    pub(super) slice_ms: i64,
    pub(super) cell: std::marker::PhantomData<fn() -> C>,
}

impl<C: Cell<Input: Input>> Layout for Rows<'_, C> {
    type Cell = C;

    fn chunks(&self) -> usize {
        self.records.rows().div_ceil(BATCH)
    }

    fn keys(&self) -> usize {
        self.data.shape.keys as usize
    }

    fn windows(&self) -> Range<i64> {
        0..self.data.end_ms().div_euclid(self.slice_ms) + 1
    }

    #[inline(always)]
    fn scan<T: Target<C>>(&self, chunk: usize, target: &mut T) {
        let view = i64::from_le_bytes(*b"view\0\0\0\0");
        let mut end = i64::MIN;
        for record in self.records.chunk(chunk, BATCH) {
            if read_i64(record, TYPE_AT) != view {
                continue;
            }
            let time = read_i64(record, TIME_AT);
            // Times do not go back in this data.
            if time >= end {
                let window = time.div_euclid(self.slice_ms);
                end = (window + 1) * self.slice_ms;
                target.window(window);
            }
            target.add(read_i64(record, CAMPAIGN_AT) as usize, C::Input::of(|| read_i64(record, VALUE_AT)));
        }
    }
}
