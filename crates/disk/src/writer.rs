//! A file that is being written.

use crate::buffer::Buffer;
use crate::request::{Direction, Request};
use crate::ring::Ring;
use crate::{ALIGNMENT, Caching, open};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the first buffer: many files have few.
const FIRST_BYTES: usize = 64 << 10;

/// Bytes of the buffers behind it.
const BUFFER_BYTES: usize = 1 << 20;

/// Buffers on their way to the disk; one more is being filled.
const ON_THEIR_WAY: usize = 3;

/// Writes a new file from its beginning to its end. What it fails with may be about bytes that it was given before.
pub struct Writer {
    file: Arc<File>,
    is_direct: bool,
    ring: Option<&'static Ring>,
    /// The bytes behind `offset`, `filled` of them.
    buffer: Buffer,
    filled: usize,
    offset: u64,
    on_their_way: VecDeque<Request>,
}

impl Writer {
    /// Makes a file; one that is there is emptied.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path, caching: Caching) -> io::Result<Writer> {
        Writer::create_with(path, caching, Ring::of_process())
    }

    /// The same, on a given ring.
    pub(crate) fn create_with(path: &Path, caching: Caching, ring: Option<&'static Ring>) -> io::Result<Writer> {
        let (file, is_direct) = open(path, OpenOptions::new().write(true).create(true).truncate(true), caching)?;
        Ok(Writer {
            file: Arc::new(file),
            is_direct,
            ring,
            buffer: Buffer::new(FIRST_BYTES),
            filled: 0,
            offset: 0,
            on_their_way: VecDeque::new(),
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Those of the file system; nothing more is written then.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.filled == self.buffer.len() {
                let next = self.next_buffer()?;
                self.send(next, self.filled)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.buffer.len() - self.filled));
            self.buffer.bytes_mut()[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// Waits until all is written; the file, with exactly the bytes that were given.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(mut self) -> io::Result<File> {
        let length = self.offset + self.filled as u64;
        if self.filled > 0 {
            // The rest of the last sector is cut off below.
            let bytes = if self.is_direct { self.filled.next_multiple_of(ALIGNMENT) } else { self.filled };
            self.send(Buffer::new(0), bytes)?;
        }
        while let Some(request) = self.on_their_way.pop_front() {
            wait(request)?;
        }
        if self.is_direct {
            self.file.set_len(length)?;
        }
        Ok(Arc::into_inner(self.file).expect("no request has it any more"))
    }

    /// A buffer that is not on its way.
    fn next_buffer(&mut self) -> io::Result<Buffer> {
        while self.on_their_way.len() >= ON_THEIR_WAY {
            let buffer = self.on_their_way.pop_front().map(wait).transpose()?;
            if let Some(buffer) = buffer.filter(|buffer| buffer.len() == BUFFER_BYTES) {
                return Ok(buffer);
            }
        }
        Ok(Buffer::new(BUFFER_BYTES))
    }

    /// Sends `bytes` bytes of the buffer on their way, and continues with `next`.
    fn send(&mut self, next: Buffer, bytes: usize) -> io::Result<()> {
        let buffer = std::mem::replace(&mut self.buffer, next);
        let range = self.offset..self.offset + bytes as u64;
        let request = Request::begin(self.ring, Direction::Write, &self.file, range.clone(), buffer)?;
        self.on_their_way.push_back(request);
        (self.offset, self.filled) = (range.end, 0);
        Ok(())
    }
}

/// Waits until a buffer is written.
fn wait(request: Request) -> io::Result<Buffer> {
    let bytes = request.bytes();
    request.finish(bytes)
}
