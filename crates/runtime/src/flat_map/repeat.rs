//! A row several times: inputs of a UNION ALL that are made of the same rows.

use super::Expansion;
use crate::pipeline_stages::{Arrive, Tools, Wanted};
use arrow_array::Int64Array;
use std::sync::Arc;

impl<'a> Expansion<'_, 'a> {
    pub(super) fn repeat(
        &self,
        times: u64,
        numbered: bool,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Wanted {
        let rows = 0..self.rows.rows as u32;
        if numbered {
            let made = rows.flat_map(|row| (0..times as i64).map(move |number| (row, number)));
            self.make(made, |numbers| Ok(vec![Arc::new(Int64Array::from(numbers))]), tools, arrive)
        } else {
            let made = rows.flat_map(|row| (0..times).map(move |_| (row, ())));
            self.make(made, |_| Ok(vec![]), tools, arrive)
        }
    }
}
