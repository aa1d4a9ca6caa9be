//! Large files of the local disk: written once from the beginning to the end, and read in ranges.
//!
//! Both go past the page cache (`O_DIRECT`), so that state that was spilled takes no memory, and nobody copies it but
//! once; and both are asynchronous (`io_uring`), with several requests on their way for each file. Where the file system or
//! the system has no such thing (some network file systems, containers that forbid `io_uring`), the same bytes go through
//! the page cache, or one request after the other: callers see no difference but in time.
//!
//! | file | what |
//! | --- | --- |
//! | `buffer` | memory that the disk can read and write |
//! | `request` | a part of a file on its way from or to a buffer |
//! | `ring` | requests of all threads, on one `io_uring` of the process |
//! | `writer` | a file that is being written |
//! | `reading` | a range of a file that is being read |
//!
//! Safety: the kernel reads and writes a buffer after the call that asked for it has returned. A buffer therefore belongs to
//! its `request::Request` until that is done; one that is dropped waits for it, one that is forgotten is leaked. All `unsafe` is in
//! `buffer`, `request` and `ring`.

mod buffer;
mod reading;
mod request;
#[cfg_attr(not(target_os = "linux"), path = "no_ring.rs")]
mod ring;
mod writer;

pub use reading::Reading;
pub use writer::Writer;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Whether bytes go through the page cache of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caching {
    /// Not if the file system can do without.
    #[default]
    Direct,
    /// They do: memory that is free holds what was written last.
    PageCache,
}

/// What offsets, lengths and addresses of direct requests are multiples of: no common disk has larger sectors.
const ALIGNMENT: usize = 4096;

/// Opens a file; whether its requests have to be aligned.
fn open(path: &Path, options: &mut OpenOptions, caching: Caching) -> io::Result<(File, bool)> {
    if caching == Caching::Direct
        && let Some(file) = open_direct(path, options)?
    {
        return Ok((file, true));
    }
    Ok((options.open(path)?, false))
}

/// Opens a file for direct requests; `None` if its file system has none.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path, options: &OpenOptions) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt;
    let flag = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    match options.clone().custom_flags(flag).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(e),
    }
}

/// Elsewhere there is no such flag.
#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path, _options: &OpenOptions) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(test)]
mod tests;
