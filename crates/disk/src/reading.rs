//! A range of a file that is being read.

use crate::buffer::Buffer;
use crate::request::{Direction, Request};
use crate::ring::Ring;
use crate::{ALIGNMENT, Caching, open};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are asked for at a time.
const REQUEST_BYTES: u64 = 512 << 10;

/// Requests on their way.
const ON_THEIR_WAY: usize = 4;

/// Reads a range of a file; the first bytes are on their way from the beginning on.
pub struct Reading {
    file: Arc<File>,
    ring: Option<&'static Ring>,
    range: Range<u64>,
    /// What has not been asked for, aligned.
    rest: Range<u64>,
    on_their_way: VecDeque<Request>,
}

impl Reading {
    /// Begins to read.
    ///
    /// # Errors
    /// When there is no such file, or it does not have all the bytes: no memory is taken for what is not there.
    pub fn begin(path: &Path, range: Range<u64>, caching: Caching) -> io::Result<Reading> {
        Reading::begin_with(path, range, caching, Ring::of_process())
    }

    /// The same, on a given ring.
    pub(crate) fn begin_with(
        path: &Path,
        range: Range<u64>,
        caching: Caching,
        ring: Option<&'static Ring>,
    ) -> io::Result<Reading> {
        let (file, is_direct) = open(path, OpenOptions::new().read(true), caching)?;
        let length = file.metadata()?.len();
        if range.start > range.end || range.end > length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let alignment = if is_direct { ALIGNMENT as u64 } else { 1 };
        let rest = range.start / alignment * alignment..range.end.next_multiple_of(alignment);
        let rest = if range.is_empty() { 0..0 } else { rest };
        let mut reading = Reading { file: Arc::new(file), ring, range, rest, on_their_way: VecDeque::new() };
        // Without a ring it would only take memory.
        if ring.is_some() {
            while reading.on_their_way.len() < ON_THEIR_WAY && reading.ask(None)? {}
        }
        Ok(reading)
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        let mut bytes =
            Vec::with_capacity(usize::try_from(self.range.end - self.range.start).map_err(io::Error::other)?);
        while !self.on_their_way.is_empty() || self.ask(None)? {
            let Some(request) = self.on_their_way.pop_front() else { break };
            let there = request.range().start;
            // The last request may go beyond the end of the file.
            let needed = request.range().end.min(self.range.end) - there;
            let from = (self.range.start.max(there) - there) as usize;
            let buffer = request.finish(needed as usize)?;
            bytes.extend_from_slice(&buffer.bytes()[from..needed as usize]);
            self.ask(Some(buffer))?;
        }
        Ok(bytes)
    }

    /// Asks for more; whether there was any.
    fn ask(&mut self, buffer: Option<Buffer>) -> io::Result<bool> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        let end = self.rest.end.min(self.rest.start + REQUEST_BYTES);
        let range = self.rest.start..end;
        let bytes = (range.end - range.start) as usize;
        let buffer = buffer.filter(|buffer| buffer.len() >= bytes).unwrap_or_else(|| Buffer::new(bytes));
        self.rest.start = end;
        self.on_their_way.push_back(Request::begin(self.ring, Direction::Read, &self.file, range, buffer)?);
        Ok(true)
    }
}
