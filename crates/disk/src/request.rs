//! A part of a file on its way from or to a buffer.

use crate::buffer::Buffer;
use crate::ring::{Ring, is_for_later};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What is to be done with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// It is filled from the file.
    Read,
    /// It goes to the file.
    Write,
}

/// See the module.
pub(crate) struct Request {
    direction: Direction,
    file: Arc<File>,
    /// The part of the file.
    range: Range<u64>,
    /// Absent when the request is given up.
    buffer: Option<Buffer>,
    /// Its number, unless it is done by the thread that waits for it.
    submitted: Option<(&'static Ring, u64)>,
}

impl Request {
    /// Begins a request for a range of a file and as much of the beginning of a buffer, which has as many bytes at least; without
    /// a ring, or when that is full, nothing is done yet.
    pub(crate) fn begin(
        ring: Option<&'static Ring>,
        direction: Direction,
        file: &Arc<File>,
        range: Range<u64>,
        mut buffer: Buffer,
    ) -> io::Result<Request> {
        let bytes = u32::try_from(range.end - range.start).map_err(io::Error::other)?;
        assert!(bytes as usize <= buffer.len(), "the buffer has as many bytes as the range");
        let (offset, address) = (range.start, buffer.bytes_mut().as_mut_ptr());
        let mut request = Request { direction, file: Arc::clone(file), range, buffer: Some(buffer), submitted: None };
        let Some(ring) = ring else { return Ok(request) };
        // SAFETY: the request has the file and the buffer, whose bytes do not move with it; only `finish` and `drop`
        // give them up, after waiting for the kernel. Forgotten, they stay forever.
        match unsafe { ring.begin(direction, file, offset, address, bytes) } {
            Ok(number) => request.submitted = number.map(|number| (ring, number)),
            Err(error) => {
                std::mem::forget(request);
                return Err(error);
            }
        }
        Ok(request)
    }

    /// The part of the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Number of its bytes.
    pub(crate) fn bytes(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Waits until at least `needed` bytes have been read or written; returns the buffer.
    ///
    /// # Errors
    /// Those of the file, among them that it ends before.
    pub(crate) fn finish(mut self, needed: usize) -> io::Result<Buffer> {
        let mut done = match self.submitted.take().map(|(ring, number)| ring.wait(number)) {
            None => 0,
            Some(Ok(bytes)) => bytes,
            Some(Err(e)) if is_for_later(&e) => 0,
            Some(Err(e)) => return Err(e),
        };
        let mut buffer = self.buffer.take().expect("only this takes it");
        while done < needed {
            match self.go_on(&mut buffer, done) {
                Ok(0) if self.direction == Direction::Read => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => done += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(buffer)
    }

    /// Does more of it at once, after the first `done` bytes.
    fn go_on(&self, buffer: &mut Buffer, done: usize) -> io::Result<usize> {
        let offset = self.range.start + done as u64;
        let bytes = self.bytes();
        match self.direction {
            Direction::Read => self.file.read_at(&mut buffer.bytes_mut()[done..bytes], offset),
            Direction::Write => self.file.write_at(&buffer.bytes()[done..bytes], offset),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some((ring, number)) = self.submitted.take() {
            // Nobody wants to know.
            let _ = ring.wait(number);
        }
    }
}
