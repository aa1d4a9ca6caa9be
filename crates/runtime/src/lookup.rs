//! Lookup tables: bounded inputs, read completely before the first row looks one up (see `phases`).
//!
//! Pipelines that end in a table bring columns, in any order of buffers. When the last of its lanes has ended, one task
//! puts the columns one after the other in the order of their streams, so that rows of a key come in the same order in
//! every run, numbers the keys, and lists the rows of each. From then on nothing changes, and all workers read.

use crate::columns::{bytes_of, compact};
use crate::groups;
use crate::input::PipelineCode;
use crate::query::Query;
use crate::task::Task;
use arrow_array::{Array, ArrayRef, new_empty_array};
use millstream_functions::FunctionContext;
use millstream_state::{Charge, GroupTable, MemoryBudget, MemoryClass};
use millstream_types::{Diagnostic, Field, code};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A lookup table on its way and when it is there.
pub(crate) struct Lookup {
    /// Groups of rows by key.
    code: PipelineCode,
    /// Phase of the last source that it is made of.
    phase: usize,
    collected: Mutex<Collected>,
    table: OnceLock<LookupRows>,
}

/// Columns and their rows.
type Piece = (Vec<ArrayRef>, usize);

/// What has come so far.
struct Collected {
    open_lanes: usize,
    scheduled: bool,
    /// By lane and by number of the buffer in it.
    pieces: BTreeMap<(usize, u64), Vec<Piece>>,
    charge: Charge,
}

/// Rows by key.
pub(crate) struct LookupRows {
    /// Columns of all rows.
    pub(crate) columns: Vec<ArrayRef>,
    groups: GroupTable,
    /// Rows `rows[starts[g]..starts[g + 1]]` are those of group *g*.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Lookup {
    /// With `lanes` channels that end in it.
    pub(crate) fn new(
        code: PipelineCode,
        phase: usize,
        lanes: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Lookup, Diagnostic> {
        if code.lowered.layout().is_none() {
            return Err(Diagnostic::bug("the program of a lookup table does not number keys"));
        }
        let charge = Charge::new(budget, MemoryClass::Lookups, 0);
        let collected = Collected { open_lanes: lanes, scheduled: false, pieces: BTreeMap::new(), charge };
        Ok(Lookup { code, phase, collected: Mutex::new(collected), table: OnceLock::new() })
    }

    /// The table; a bug when it is not there yet.
    pub(crate) fn table(&self) -> Result<&LookupRows, Diagnostic> {
        self.table.get().ok_or_else(|| Diagnostic::bug("a lookup table was used before it was complete"))
    }

    /// Takes rows of buffer `number` of a lane, in order within the buffer.
    pub(crate) fn collect(&self, lane: usize, number: u64, columns: Vec<ArrayRef>, rows: usize) {
        if rows > 0 {
            let bytes = bytes_of(&columns);
            let collected = &mut *self.collected.lock();
            collected.pieces.entry((lane, number)).or_default().push((columns, rows));
            collected.charge.set(collected.charge.bytes() + bytes);
        }
    }
}

impl Query {
    /// A lane of a lookup table has ended; its rows have been collected before.
    pub(crate) fn end_build(&self, lookup: usize) {
        self.lookups[lookup].collected.lock().open_lanes -= 1;
        self.build_if_ended(lookup);
    }

    /// Has a table made whose lanes have all ended.
    pub(crate) fn build_if_ended(&self, lookup: usize) {
        let mut collected = self.lookups[lookup].collected.lock();
        if collected.open_lanes == 0 && !std::mem::replace(&mut collected.scheduled, true) {
            drop(collected);
            self.scheduler.push(vec![Task::Build(lookup)]);
        }
    }

    /// Makes a table; opens the phases that have waited for it.
    pub(crate) fn build(&self, lookup: usize, functions: &mut FunctionContext) -> Result<(), Diagnostic> {
        let runtime = &self.lookups[lookup];
        let pieces = std::mem::take(&mut runtime.collected.lock().pieces);
        let pieces = pieces.into_values().flatten().collect();
        let table = LookupRows::new(&self.plan.lookups[lookup].schema.fields, pieces, &runtime.code, functions)?;
        runtime.collected.lock().charge.set(table.bytes());
        if runtime.table.set(table).is_err() {
            return Err(Diagnostic::bug("a lookup table was made twice"));
        }
        self.open_phases(self.phases.finish(runtime.phase));
        Ok(())
    }
}

impl LookupRows {
    fn new(
        fields: &[Field],
        pieces: Vec<Piece>,
        code: &PipelineCode,
        functions: &mut FunctionContext,
    ) -> Result<LookupRows, Diagnostic> {
        let rows: usize = pieces.iter().map(|(_, rows)| rows).sum();
        if u32::try_from(rows).is_err() {
            let message = format!("a lookup table has {rows} rows, more than the {} that it can have", u32::MAX);
            return Err(Diagnostic::new(code::UNSUPPORTED, message).advise("join the tables in a window instead"));
        }
        let column = |(i, field): (usize, &Field)| {
            let parts: Vec<&dyn Array> = pieces.iter().map(|(columns, _)| &*columns[i]).collect();
            match parts[..] {
                [] => Ok(new_empty_array(&field.data_type.to_arrow())),
                // Strings of many pieces go into one buffer: what is taken from a column refers to all that it has.
                _ => arrow_select::concat::concat(&parts)
                    .map(|column| compact(&column))
                    .map_err(|e| Diagnostic::bug(format!("the rows of a lookup table cannot be put together: {e}"))),
            }
        };
        let columns = fields.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
        drop(pieces);
        let layout = code.lowered.layout().ok_or_else(|| Diagnostic::bug("a program does not number keys"))?;
        let mut groups = GroupTable::new(Arc::new(layout.clone()));
        let group_of = groups::assign(&mut groups, code, &columns, rows, functions)?;
        let mut starts = vec![0u32; groups.len() + 1];
        group_of.iter().for_each(|&group| starts[group as usize + 1] += 1);
        for group in 0..groups.len() {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut by_group = vec![0u32; rows];
        for (row, &group) in group_of.iter().enumerate() {
            let place = &mut next[group as usize];
            by_group[*place as usize] = row as u32;
            *place += 1;
        }
        Ok(LookupRows { columns, groups, starts, rows: by_group })
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        bytes_of(&self.columns) + self.groups.bytes() + (self.starts.len() + self.rows.len()) * size_of::<u32>()
    }

    /// For each row of `keys` the rows of the table that have the same; none where a key is NULL.
    pub(crate) fn partners<'t>(
        &'t self,
        code: &PipelineCode,
        keys: &[ArrayRef],
        rows: usize,
        functions: &mut FunctionContext,
    ) -> Result<Vec<&'t [u32]>, Diagnostic> {
        let groups = groups::look_up(&self.groups, code, keys, rows, functions)?;
        let partners = |group: u64| match usize::try_from(group) {
            Ok(g) if g < self.groups.len() && !self.groups.is_null(group) => {
                &self.rows[self.starts[g] as usize..self.starts[g + 1] as usize]
            }
            _ => &[],
        };
        Ok(groups.into_iter().map(partners).collect())
    }
}
