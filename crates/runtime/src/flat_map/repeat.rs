//! A row several times: inputs of a UNION ALL that are made of the same rows.

use super::Expansion;
use crate::staged::{Arrive, Tools};
use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use millstream_types::Diagnostic;
use std::ops::ControlFlow;
use std::sync::Arc;

impl<'a> Expansion<'_, 'a> {
    pub(super) fn repeat(
        &self,
        times: u64,
        numbered: bool,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Result<ControlFlow<()>, Diagnostic> {
        let most = self.most;
        let (mut row, mut number) = (0, 0);
        while row < self.rows.rows {
            let (mut of, mut numbers) = (Vec::with_capacity(most), Vec::new());
            while row < self.rows.rows && of.len() < most {
                of.push(row as u32);
                if numbered {
                    numbers.push(number as i64);
                }
                number += 1;
                if number == times {
                    (row, number) = (row + 1, 0);
                }
            }
            let of = UInt32Array::from(of);
            let mut columns = self.rows.take(self.kept(), &of)?;
            if numbered {
                let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
                columns.push(numbers);
            }
            if let ControlFlow::Break(()) = arrive(tools, self.rows.made(columns, of.values()))? {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
