//! Buffers that a kernel writes emitted rows to, and the Arrow arrays that they become.

use crate::program::{Emit, Program};
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, NullArray, StringViewArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use millstream_abi::{OutputColumn, Phys, Str};
use millstream_types::DataType;
use std::sync::Arc;

/// Output columns of one run, each with room for every input row.
#[derive(Debug)]
pub struct OutputBuffers {
    columns: Vec<OutputBuffer>,
    selection: Vec<u32>,
}

/// One output column.
#[derive(Debug)]
struct OutputBuffer {
    phys: Phys,
    /// The values, in their natural size; 16-byte elements for the alignment.
    values: Vec<i128>,
    /// A byte a row, when the column can be NULL.
    valid: Option<Vec<u8>>,
}

impl OutputBuffers {
    /// Zeroed buffers for up to `rows` rows of the emitted columns of `program`.
    pub fn new(program: &Program, emits: &[Emit], rows: usize) -> OutputBuffers {
        let columns = emits
            .iter()
            .map(|emit| {
                let phys = program.type_of(emit.value);
                OutputBuffer {
                    phys,
                    values: vec![0; (rows * phys.size()).div_ceil(16)],
                    valid: emit.valid.map(|_| vec![0; rows]),
                }
            })
            .collect();
        OutputBuffers { columns, selection: vec![0; rows] }
    }

    /// For `ExecContext::outputs`; valid until the buffers are used in another way.
    pub fn columns(&mut self) -> Vec<OutputColumn> {
        self.columns
            .iter_mut()
            .map(|column| OutputColumn {
                values: column.values.as_mut_ptr().cast(),
                valid: column.valid.as_mut().map_or(std::ptr::null_mut(), |v| v.as_mut_ptr()),
            })
            .collect()
    }

    /// For `ExecContext::out_selection`; valid until the buffers are used in another way.
    pub fn selection_ptr(&mut self) -> *mut u32 {
        self.selection.as_mut_ptr()
    }

    /// Input rows of the first `rows` output rows. Call once.
    pub fn selection(&mut self, rows: usize) -> Vec<u32> {
        self.selection.truncate(rows);
        std::mem::take(&mut self.selection)
    }

    /// The first `rows` rows as arrays of the types given; a column without a type gives none. The strings that were
    /// written must still be alive.
    pub fn into_arrays(self, types: &[Option<&DataType>], rows: usize) -> Vec<Option<ArrayRef>> {
        self.columns.into_iter().zip(types).map(|(column, ty)| ty.map(|t| column.into_array(t, rows))).collect()
    }
}

impl OutputBuffer {
    fn into_array(self, data_type: &DataType, rows: usize) -> ArrayRef {
        let nulls =
            self.valid.as_ref().map(|valid| NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| valid[row] != 0)));
        let nulls = nulls.filter(|n| n.null_count() > 0);
        match data_type {
            DataType::Null => Arc::new(NullArray::new(rows)),
            DataType::Boolean => {
                let buffer = self.into_buffer(rows);
                let bytes = buffer.as_slice();
                Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(rows, |row| bytes[row] != 0), nulls))
            }
            DataType::Char(_) | DataType::Varchar(_) => {
                let (views, buffers) = self.views(rows);
                // SAFETY: `views` made them of the buffers; strings of these types are UTF-8 where they enter the
                // engine, and every function keeps it.
                Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
            }
            DataType::Binary(_) | DataType::Varbinary(_) => {
                let (views, buffers) = self.views(rows);
                // SAFETY: `views` made them of the buffers.
                Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
            }
            DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => {
                unreachable!("lowering passes nested columns through")
            }
            _ => {
                // The builder of any array makes one of another type.
                let data = NullArray::new(rows).to_data().into_builder().data_type(data_type.to_arrow());
                let data = data.add_buffer(self.into_buffer(rows)).nulls(nulls).build();
                make_array(data.expect("lowering emits values of the column's type"))
            }
        }
    }

    /// The values of the first `rows` rows, copied when most of the memory would be kept for nothing.
    fn into_buffer(self, rows: usize) -> Buffer {
        let used = rows * self.phys.size();
        let sparse = used * 4 < self.values.len() * 16;
        let buffer = Buffer::from_vec(self.values).slice_with_length(0, used);
        if sparse { Buffer::from_slice_ref(buffer.as_slice()) } else { buffer }
    }

    /// Arrow views of the strings, the long ones copied.
    fn views(self, rows: usize) -> (ScalarBuffer<u128>, Vec<Buffer>) {
        let mut full: Vec<Buffer> = Vec::new();
        let mut current: Vec<u8> = Vec::new();
        let views: Vec<u128> = (0..rows)
            .map(|row| {
                if self.valid.as_ref().is_some_and(|valid| valid[row] == 0) {
                    return 0;
                }
                let s = Str::from_bits(self.values[row] as u128);
                if s.is_inline() {
                    return s.bits();
                }
                // SAFETY: the caller keeps the strings alive, and this one is not NULL.
                let bytes = unsafe { s.as_bytes() };
                if current.len() + bytes.len() > i32::MAX as usize {
                    full.push(Buffer::from_vec(std::mem::take(&mut current)));
                }
                let place = (current.len() as u64) << 32 | full.len() as u64;
                current.extend_from_slice(bytes);
                (place as u128) << 64 | s.low as u128
            })
            .collect();
        if !current.is_empty() {
            full.push(Buffer::from_vec(current));
        }
        (ScalarBuffer::from(views), full)
    }
}
