//! A row once for each of its windows.

use super::Expansion;
use crate::staged::{Arrive, Tools};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, PrimitiveArray, UInt32Array};
use millstream_plan::window::Overlap;
use millstream_types::Diagnostic;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows that have been made and not passed on.
#[derive(Default)]
struct Made {
    of: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl<'a> Expansion<'_, 'a> {
    pub(super) fn windows(
        &self,
        overlap: Overlap,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let column = &self.rows.columns[self.kept()];
        let times = column
            .as_primitive_opt::<TimestampMillisecondType>()
            .ok_or_else(|| Diagnostic::bug(format!("{} is not the time of a window", column.data_type())))?;
        let (slicing, step, most) = (overlap.slicing(), overlap.step_ms(), self.most);
        let mut made = Made::default();
        if times.null_count() > 0 {
            return Err(Diagnostic::bug("a program has let a row without time pass to its windows"));
        }
        for row in 0..self.rows.rows {
            let Some((first, last)) = overlap.ends(slicing.start_of(times.value(row))) else { continue };
            let mut next = Some(first);
            while let Some(end) = next.filter(|&end| end <= last) {
                made.of.push(row as u32);
                made.starts.push(overlap.start_of_window(end));
                made.ends.push(end);
                next = end.checked_add(step);
                if made.of.len() == most
                    && let ControlFlow::Break(()) = self.pass_windows(&mut made, tools, arrive)?
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.pass_windows(&mut made, tools, arrive)
    }

    fn pass_windows(
        &self,
        made: &mut Made,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let Made { of, starts, ends } = std::mem::take(made);
        if of.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let data_type = self.rows.columns[self.kept()].data_type();
        let column = |values: Vec<i64>| -> ArrayRef {
            let times = PrimitiveArray::<TimestampMillisecondType>::new(values.into(), None);
            Arc::new(times.with_data_type(data_type.clone()))
        };
        let times = ends.iter().map(|end| end - 1).collect();
        let of = UInt32Array::from(of);
        let mut columns = self.rows.take(self.kept(), &of)?;
        columns.extend([column(starts), column(ends), column(times)]);
        arrive(tools, self.rows.made(columns, of.values()))
    }
}
