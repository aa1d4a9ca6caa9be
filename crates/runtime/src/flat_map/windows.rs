//! A row once for each of its windows.

use super::Expansion;
use crate::pipeline_stages::{Arrive, Tools, Wanted};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use millstream_plan::window::Overlap;
use millstream_types::Diagnostic;
use std::iter::successors;
use std::sync::Arc;

impl<'a> Expansion<'_, 'a> {
    pub(super) fn windows(&self, overlap: Overlap, tools: &mut Tools<'_>, arrive: &mut Arrive<'_, 'a>) -> Wanted {
        let column = &self.rows.columns[self.kept()];
        let times = column
            .as_primitive_opt::<TimestampMillisecondType>()
            .ok_or_else(|| Diagnostic::bug(format!("{} is not the time of a window", column.data_type())))?;
        if times.null_count() > 0 {
            return Err(Diagnostic::bug("a program has let a row without time pass to its windows"));
        }
        let (slicing, step) = (overlap.slicing(), overlap.step_ms());
        let windows = |row: usize| {
            let ends = overlap.ends(slicing.start_of(times.value(row))).into_iter().flat_map(move |(first, last)| {
                successors(Some(first), move |end| end.checked_add(step)).take_while(move |&end| end <= last)
            });
            ends.map(move |end| (row as u32, end))
        };
        let column = |values: Vec<i64>| -> ArrayRef {
            let times = PrimitiveArray::<TimestampMillisecondType>::new(values.into(), None);
            Arc::new(times.with_data_type(column.data_type().clone()))
        };
        let bounds = |ends: Vec<i64>| {
            let starts = ends.iter().map(|&end| overlap.start_of_window(end)).collect();
            let times = ends.iter().map(|end| end - 1).collect();
            Ok(vec![column(starts), column(ends), column(times)])
        };
        self.make((0..self.rows.rows).flat_map(windows), bounds, tools, arrive)
    }
}
