//! The rows of a lookup table by key, when they are there: nothing changes any more, and all workers read.

use crate::columns::{bytes_of, compact};
use crate::executable_plan::PipelineCode;
use crate::groups::{self, ByGroup};
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_buffer::ScalarBuffer;
use millstream_abi::Phys;
use millstream_codegen::program::{Op, Statement};
use millstream_functions::FunctionContext;
use millstream_state::GroupTable;
use millstream_types::{DataType, Diagnostic, Field, code};
use std::sync::{Arc, OnceLock};

/// Columns and their rows.
pub(super) type LookupPiece = (Vec<ArrayRef>, usize);

/// The place of a lookup table: pipelines have it before the rows are there.
pub(crate) type LookupTable = OnceLock<LookupRows>;

/// Rows by key.
pub(crate) struct LookupRows {
    /// Columns of all rows.
    pub(crate) columns: Vec<ArrayRef>,
    groups: GroupTable,
    by_group: ByGroup,
    /// For each group its row, or `NONE` where the key is NULL; if no key is there twice.
    only: Option<Vec<u32>>,
    /// The same by the key itself, where that is an integer and they lie close together.
    dense: Option<Dense>,
}

/// The row of the table that is none.
pub(crate) const NONE: u32 = u32::MAX;

impl LookupRows {
    pub(super) fn new(
        fields: &[Field],
        pieces: Vec<LookupPiece>,
        code: &PipelineCode,
        functions: &mut FunctionContext,
    ) -> Result<LookupRows, Diagnostic> {
        let rows: usize = pieces.iter().map(|(_, rows)| rows).sum();
        if rows >= NONE as usize {
            let message = format!("a lookup table has {rows} rows, more than the {} that it can have", NONE - 1);
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
        let by_group = ByGroup::new(&group_of, groups.len());
        let row = |(group, &row): (usize, &u32)| if groups.is_null(group as u64) { NONE } else { row };
        let only: Option<Vec<u32>> = by_group.only_rows().map(|only| only.iter().enumerate().map(row).collect());
        let dense = only.as_ref().and_then(|only| Dense::new(&groups, only));
        Ok(LookupRows { columns, groups, by_group, only, dense })
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.columns)
            + self.groups.bytes()
            + self.by_group.bytes()
            + (self.only.as_ref().map_or(0, Vec::len) + self.dense.as_ref().map_or(0, |dense| dense.rows.len()))
                * size_of::<u32>()
    }

    /// Whether no key is there twice.
    pub(crate) fn is_unique(&self) -> bool {
        self.only.is_some()
    }

    /// For each row of `keys` the row of the table that has the same, or `NONE`, also where a key is NULL. For tables in which no key is
    /// there twice.
    pub(crate) fn only_partners(
        &self,
        code: &PipelineCode,
        keys: &[ArrayRef],
        rows: usize,
        functions: &mut FunctionContext,
    ) -> Result<Vec<u32>, Diagnostic> {
        if let (Some(dense), [key]) = (&self.dense, keys)
            && is_plain_key(code)
            && let Some(partners) = dense.partners(key)
        {
            return Ok(partners);
        }
        let only = self.only.as_deref().unwrap_or_default();
        let groups = groups::look_up(&self.groups, code, keys, rows, functions)?;
        Ok(groups.into_iter().map(|group| only.get(group as usize).copied().unwrap_or(NONE)).collect())
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
        let is_found = |group| group < self.groups.len() as u64 && !self.groups.is_null(group);
        let partners = |group| if is_found(group) { self.by_group.rows(group) } else { &[] };
        Ok(groups.into_iter().map(partners).collect())
    }
}

/// Rows by an integer key: an array over the range of the keys.
struct Dense {
    phys: Phys,
    first: i64,
    /// `NONE` where no row has the key.
    rows: Vec<u32>,
}

/// A range of this size is dense in any case.
const SMALL_RANGE: u64 = 1 << 12;
/// Otherwise it is if it has at most so many places for a key.
const PLACES_PER_KEY: u64 = 4;

impl Dense {
    /// For groups of an integer key, each with its only row.
    fn new(groups: &GroupTable, only: &[u32]) -> Option<Dense> {
        let layout = groups.layout();
        let [key] = layout.keys.as_slice() else { return None };
        let data_type = match key.phys {
            Phys::I32 => DataType::Int,
            Phys::I64 => DataType::BigInt,
            _ => return None,
        };
        let numbers: Vec<u64> = (0..only.len() as u64).collect();
        let keys = groups.columns(&numbers, &[data_type]).pop()?;
        let keys = Integers::of(&keys, key.phys)?.to_vec();
        let pairs = || keys.iter().zip(only).filter(|(_, row)| **row != NONE);
        let (least, most) =
            pairs().fold((i64::MAX, i64::MIN), |(least, most), (&key, _)| (least.min(key), most.max(key)));
        let range = most.checked_sub(least).map_or(u64::MAX, |range| range as u64);
        if least > most || range >= SMALL_RANGE.max(PLACES_PER_KEY * only.len() as u64) {
            return None;
        }
        let mut rows = vec![NONE; range as usize + 1];
        pairs().for_each(|(key, row)| rows[(key - least) as usize] = *row);
        Some(Dense { phys: key.phys, first: least, rows })
    }

    /// The row for each key, or `NONE`, also for NULL; `None` if the keys are of another type.
    fn partners(&self, keys: &ArrayRef) -> Option<Vec<u32>> {
        let row = |key: i64| {
            let place = (key as u64).wrapping_sub(self.first as u64) as usize;
            self.rows.get(place).copied().unwrap_or(NONE)
        };
        let mut partners: Vec<u32> = match Integers::of(keys, self.phys)? {
            Integers::Of32(keys) => keys.iter().map(|&key| row(key.into())).collect(),
            Integers::Of64(keys) => keys.iter().map(|&key| row(key)).collect(),
        };
        if let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
            (0..keys.len()).filter(|&row| nulls.is_null(row)).for_each(|row| partners[row] = NONE);
        }
        Some(partners)
    }
}

/// The values of a column that is stored as integers.
enum Integers {
    Of32(ScalarBuffer<i32>),
    Of64(ScalarBuffer<i64>),
}

impl Integers {
    /// `None` for a column of another type than `phys`.
    fn of(column: &ArrayRef, phys: Phys) -> Option<Integers> {
        let data = column.to_data();
        if column.data_type().primitive_width() != Some(phys.size()) || data.buffers().len() != 1 {
            return None;
        }
        let (values, offset, rows) = (data.buffers()[0].clone(), data.offset(), data.len());
        Some(match phys {
            Phys::I32 => Integers::Of32(ScalarBuffer::new(values, offset, rows)),
            _ => Integers::Of64(ScalarBuffer::new(values, offset, rows)),
        })
    }

    fn to_vec(&self) -> Vec<i64> {
        match self {
            Integers::Of32(values) => values.iter().map(|&value| value.into()).collect(),
            Integers::Of64(values) => values.to_vec(),
        }
    }
}

/// Whether a program groups rows by their only column as it is.
fn is_plain_key(code: &PipelineCode) -> bool {
    let program = &code.lowered.program;
    let only_loads = |statement: &Statement| matches!(statement, Statement::Let(_, Op::Load(_) | Op::IsValid(_)));
    program.inputs.len() == 1 && code.lowered.vectors.is_empty() && program.body.iter().all(only_loads)
}
