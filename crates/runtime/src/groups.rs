//! Running the programs that find the groups of rows by their keys, over tables of the state crate.

use crate::columns::sliced;
use crate::config::RunConfig;
use crate::executable_plan::PipelineCode;
use arrow_array::ArrayRef;
use millstream_abi::{ExecContext, Slot, Str};
use millstream_codegen::execute::{TableHooks, assign_groups};
use millstream_functions::FunctionContext;
use millstream_state::{GroupLookup, GroupTable};
use millstream_types::Diagnostic;

/// The rows of each group, one group after the other.
pub(crate) struct ByGroup {
    /// Rows `rows[starts[g]..starts[g + 1]]` are those of group *g*.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl ByGroup {
    /// Lists rows by their group, of which there are `count`, in order within each.
    pub(crate) fn new(groups: &[u64], count: usize) -> ByGroup {
        ByGroup::in_order(groups, 0..groups.len() as u32, count)
    }

    /// Lists rows by their group, of which there are `count`, within each in the order in which `order` names them.
    pub(crate) fn in_order(groups: &[u64], order: impl Iterator<Item = u32>, count: usize) -> ByGroup {
        // First where the group before begins, and one place more, which the rows move on to where it ends.
        let mut starts = vec![0u32; count + 2];
        groups.iter().for_each(|&group| starts[group as usize + 2] += 1);
        for group in 0..count {
            starts[group + 2] += starts[group + 1];
        }
        let mut rows = vec![0; groups.len()];
        for row in order {
            let place = &mut starts[groups[row as usize] as usize + 1];
            rows[*place as usize] = row;
            *place += 1;
        }
        starts.truncate(count + 1);
        ByGroup { starts, rows }
    }

    /// The rows of a group.
    #[inline]
    pub(crate) fn rows(&self, group: u64) -> &[u32] {
        let group = group as usize;
        &self.rows[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    /// The row of each group, if each has only one.
    pub(crate) fn only_rows(&self) -> Option<&[u32]> {
        // No group is without a row.
        (self.rows.len() + 1 == self.starts.len()).then_some(&self.rows)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        (self.starts.len() + self.rows.len()) * size_of::<u32>()
    }
}

/// The groups of rows; keys that the table does not have are added to it.
pub(crate) fn assign(
    table: &mut GroupTable,
    code: &PipelineCode,
    columns: &[ArrayRef],
    rows: usize,
    functions: &mut FunctionContext,
) -> Result<Vec<u64>, Diagnostic> {
    check(table, code)?;
    let host = (&raw mut *table).cast();
    // SAFETY: the callbacks keep the contracts of their types with a group table of the program's layout as their host,
    // which nothing else uses while it is borrowed here.
    let hooks = unsafe { TableHooks::new(find_table, insert_group, keep_string, update_object, host) };
    in_slices(code, columns, rows, hooks, functions)
}

/// The groups of rows; `u64::MAX` for keys that the table does not have.
pub(crate) fn look_up(
    table: &GroupTable,
    code: &PipelineCode,
    columns: &[ArrayRef],
    rows: usize,
    functions: &mut FunctionContext,
) -> Result<Vec<u64>, Diagnostic> {
    check(table, code)?;
    let mut view = table.lookup();
    let host = (&raw mut view).cast();
    // SAFETY: as above, with a view that is this function's.
    let hooks = unsafe { TableHooks::new(find_view, miss_group, keep_string, update_object, host) };
    in_slices(code, columns, rows, hooks, functions)
}

fn check(table: &GroupTable, code: &PipelineCode) -> Result<(), Diagnostic> {
    match code.lowered.layout() == Some(table.layout().as_ref()) {
        true => Ok(()),
        false => Err(Diagnostic::bug("a program that finds groups does not fit their table")),
    }
}

fn in_slices(
    code: &PipelineCode,
    columns: &[ArrayRef],
    rows: usize,
    hooks: TableHooks,
    functions: &mut FunctionContext,
) -> Result<Vec<u64>, Diagnostic> {
    let kernel = code.kernel();
    let mut groups = Vec::with_capacity(rows);
    for start in (0..rows).step_by(RunConfig::MAX_BUFFER_ROWS) {
        let length = RunConfig::MAX_BUFFER_ROWS.min(rows - start);
        let slice = sliced(columns, start, length);
        groups.extend(assign_groups(&code.lowered, &*kernel, &slice, length, hooks, functions)?);
    }
    Ok(groups)
}

/// # Safety
/// As for `FindSlice`, in a run whose host is a [`GroupTable`] that nothing else uses.
unsafe extern "C" fn find_table(context: *mut ExecContext, slice: i64) {
    // SAFETY: promised by the caller.
    unsafe {
        (*context).table = GroupTable::header_of((*context).host.cast());
        (*context).slice_start = slice;
    }
}

/// # Safety
/// As for `FindSlice`, in a run whose host is a [`GroupLookup`] that nothing else uses.
unsafe extern "C" fn find_view(context: *mut ExecContext, slice: i64) {
    // SAFETY: promised by the caller.
    unsafe {
        (*context).table = GroupLookup::header_of((*context).host.cast());
        (*context).slice_start = slice;
    }
}

/// # Safety
/// As for `InsertKey`, in a run whose host is a [`GroupTable`] of the program's layout that nothing else uses.
unsafe extern "C" fn insert_group(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8 {
    // SAFETY: promised by the caller; the program passes one slot for each key of the layout.
    unsafe {
        let table = &mut *(*context).host.cast::<GroupTable>();
        let count = table.layout().keys.len();
        let keys: &[Slot] = if count == 0 { &[] } else { std::slice::from_raw_parts(keys, count) };
        table.insert(hash, null_mask, keys)
    }
}

/// # Safety
/// As for `InsertKey`, in a run whose host is a [`GroupLookup`] that nothing else uses.
unsafe extern "C" fn miss_group(context: *mut ExecContext, _: u64, _: u64, _: *const Slot) -> *mut u8 {
    // SAFETY: promised by the caller.
    unsafe { (*(*context).host.cast::<GroupLookup<'_>>()).missing() }
}

/// Groups keep no strings besides their keys.
unsafe extern "C" fn keep_string(_: *mut ExecContext, _: *mut Str) {}

/// Groups have no objects.
unsafe extern "C" fn update_object(_: *mut ExecContext, _: *mut u8, _: u32, _: *const Slot, _: u64) {}
