//! Memory that the disk can read and write.

use crate::ALIGNMENT;

/// As much as direct requests are multiples of, at a place that they may begin at.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Block([u8; ALIGNMENT]);

const _: () = assert!(align_of::<Block>() == ALIGNMENT && size_of::<Block>() == ALIGNMENT);

/// Bytes at an aligned address, a multiple of [`ALIGNMENT`] of them.
pub(crate) struct Buffer(Vec<Block>);

impl Buffer {
    /// At least `bytes` zero bytes.
    pub(crate) fn new(bytes: usize) -> Buffer {
        Buffer(vec![Block([0; ALIGNMENT]); bytes.div_ceil(ALIGNMENT)])
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len() * ALIGNMENT
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: blocks are bytes without padding, one behind the other, and initialised.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.len()) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.len()) }
    }
}
