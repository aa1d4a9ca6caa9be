//! Systems without `io_uring`: requests are done when somebody waits for them.

use crate::request::Direction;
use std::fs::File;
use std::io;

/// There is none.
pub(crate) enum Ring {}

impl Ring {
    /// None.
    pub(crate) fn of_process() -> Option<&'static Ring> {
        None
    }

    /// # Safety
    ///
    /// Nobody can call it.
    pub(crate) unsafe fn begin(
        &self,
        _direction: Direction,
        _file: &File,
        _offset: u64,
        _address: *mut u8,
        _bytes: u32,
    ) -> io::Result<Option<u64>> {
        match *self {}
    }

    /// Nobody can call it.
    pub(crate) fn wait(&self, _request: u64) -> io::Result<usize> {
        match *self {}
    }
}

/// Whether a request has not been tried, so that it can be made again.
pub(crate) fn is_for_later(_error: &io::Error) -> bool {
    false
}
