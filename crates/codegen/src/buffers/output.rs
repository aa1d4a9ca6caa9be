//! Buffers that a kernel writes emitted rows to, and the Arrow arrays that they become.

use crate::program::{Emit, Program};
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, NullArray, StringViewArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use millstream_abi::{OutputColumn, Phys, Str};
use millstream_types::DataType;
use std::sync::Arc;

/// Output columns of one run, each with room for every input row.
///
/// The room is not zeroed: where a filter keeps few rows, most of it is never touched, and no page of it is fetched.
#[derive(Debug)]
pub struct OutputBuffers {
    columns: Vec<OutputBuffer>,
    /// Numbers of the rows; `None` of a program that drops none.
    selection: Option<Vec<u32>>,
    /// Most rows that can be written.
    room: usize,
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
    /// Room for up to `rows` rows of the emitted columns of `program`.
    pub fn new(program: &Program, emits: &[Emit], rows: usize) -> OutputBuffers {
        let columns = emits
            .iter()
            .map(|emit| {
                let phys = program.type_of(emit.value);
                OutputBuffer {
                    phys,
                    values: Vec::with_capacity((rows * phys.size()).div_ceil(16)),
                    valid: emit.valid.map(|_| Vec::with_capacity(rows)),
                }
            })
            .collect();
        let selection = (!program.is_total()).then(|| Vec::with_capacity(rows));
        OutputBuffers { columns, selection, room: rows }
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

    /// For `ExecContext::out_selection`; valid until the buffers are used in another way. Null where it is not used.
    pub fn selection_ptr(&mut self) -> *mut u32 {
        self.selection.as_mut().map_or(std::ptr::null_mut(), |selection| selection.as_mut_ptr())
    }

    /// The input rows of the output rows, unless the program drops none, and these as arrays of the types given; a column without
    /// a type gives none.
    ///
    /// # Safety
    /// A kernel has written `rows` rows of every column, and their numbers. The strings among them are still alive.
    pub unsafe fn into_arrays(
        self,
        types: &[Option<&DataType>],
        rows: usize,
    ) -> (Option<Vec<u32>>, Vec<Option<ArrayRef>>) {
        assert!(rows <= self.room, "a kernel has written beyond the outputs");
        let mut selection = self.selection;
        // SAFETY: so many were written, says the caller, and there is room for them.
        selection.iter_mut().for_each(|selection| unsafe { selection.set_len(rows) });
        let array = |(mut column, ty): (OutputBuffer, &Option<&DataType>)| {
            // The last element may be written in part.
            let size = column.phys.size();
            let (written, all) = (rows * size, (rows * size).next_multiple_of(16));
            // SAFETY: within the capacity, and behind what was written.
            unsafe {
                column.values.as_mut_ptr().cast::<u8>().add(written).write_bytes(0, all - written);
                column.values.set_len(all / 16);
            }
            if let Some(valid) = &mut column.valid {
                // SAFETY: as for the selection.
                unsafe { valid.set_len(rows) };
            }
            ty.map(|t| column.into_array(t, rows))
        };
        let arrays = self.columns.into_iter().zip(types).map(array).collect();
        (selection, arrays)
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
        let sparse = used * 4 < self.values.capacity() * 16;
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
