//! Flat maps: what makes any number of rows of each, between two programs of a pipeline.
//!
//! The program before a flat map emits the columns that are kept, then the flat map's arguments. A flat map drops the
//! arguments, repeats the rows and appends its columns. It makes rows in slices of a buffer's size, in the order of the
//! rows that they are made of.

mod lookup;
mod repeat;
mod unnest;
mod windows;

use crate::executable_plan::FlatMapCode;
use crate::lookup::table::LookupTable;
use crate::pipeline_stages::{Arrive, Staged, Tools, Wanted};
use arrow_array::{ArrayRef, UInt32Array};
use millstream_plan::pipeline::FlatMap;
use millstream_types::Diagnostic;
use std::ops::ControlFlow;

/// A flat map of some rows.
pub(crate) struct Expansion<'e, 'a> {
    pub(crate) flat_map: &'e FlatMap,
    /// What a lookup probes.
    pub(crate) table: Option<&'e LookupTable>,
    pub(crate) code: &'e FlatMapCode,
    /// Most rows of a slice.
    pub(crate) most: usize,
    /// What the program before it has emitted.
    pub(crate) rows: &'e Staged<'a>,
}

impl<'a> Expansion<'_, 'a> {
    /// Makes the rows; says whether more are wanted.
    pub(crate) fn run(&self, tools: &mut Tools<'_>, arrive: &mut Arrive<'_, 'a>) -> Wanted {
        if self.rows.columns.len() < self.flat_map.arguments().len() {
            return Err(Diagnostic::bug("a program did not emit the arguments of the flat map behind it"));
        }
        match self.flat_map {
            FlatMap::Windows(windows) => self.windows(windows.windows, tools, arrive),
            FlatMap::Repeat(repeat) => self.repeat(repeat.times, repeat.numbered, tools, arrive),
            FlatMap::Unnest(unnest) => self.unnest(unnest, tools, arrive),
            FlatMap::Lookup(lookup) => self.look_up(lookup.kind, tools, arrive),
        }
    }

    /// Makes rows: each of a row, with something that `append` makes the appended columns of.
    fn make<T>(
        &self,
        made: impl IntoIterator<Item = (u32, T)>,
        append: impl Fn(Vec<T>) -> Result<Vec<ArrayRef>, Diagnostic>,
        tools: &mut Tools<'_>,
        arrive: &mut Arrive<'_, 'a>,
    ) -> Wanted {
        let mut made = made.into_iter();
        loop {
            let (of, appended): (Vec<u32>, Vec<T>) = made.by_ref().take(self.most).unzip();
            if of.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let of = UInt32Array::from(of);
            let mut columns = self.rows.take(self.kept(), &of)?;
            columns.extend(append(appended)?);
            if arrive(tools, self.rows.made(columns, of.values()))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// Columns that are kept.
    fn kept(&self) -> usize {
        self.rows.columns.len() - self.flat_map.arguments().len()
    }
}
