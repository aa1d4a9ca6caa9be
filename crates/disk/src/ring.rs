//! Requests of all threads, on one `io_uring` of the process.
//!
//! Protocol. A thread that has a request pushes it and submits it under the lock `submitting`. Of the threads that wait for a
//! request one at a time, the one that has set `is_waited_for`, waits in the kernel and takes completions from the queue;
//! it puts them into `done`, clears the flag and wakes the others, which look for theirs, and one of which is the next.
//! There are never more requests on their way than the queue of completions has places.

use crate::request::Direction;
use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Places for requests; that for completions has twice as many.
const REQUESTS: u32 = 128;

/// How long somebody waits who was told to try again.
const PAUSE: Duration = Duration::from_millis(1);

/// See the module.
pub(crate) struct Ring {
    io: IoUring,
    submitting: Mutex<()>,
    completions: Mutex<Completions>,
    completed: Condvar,
    /// Requests that nobody has taken the result of. Relaxed: it only bounds their number.
    on_their_way: AtomicUsize,
    /// Number of the next request. Relaxed: numbers only differ.
    next: AtomicU64,
}

#[derive(Default)]
struct Completions {
    /// Results of requests by their numbers, as the kernel gives them: bytes, or the negative of an error.
    done: HashMap<u64, i32>,
    is_waited_for: bool,
}

impl Ring {
    /// The ring of this process; `None` where the system has none, or does not let us.
    pub(crate) fn of_process() -> Option<&'static Ring> {
        static RING: OnceLock<Option<Ring>> = OnceLock::new();
        RING.get_or_init(|| Ring::new().ok()).as_ref()
    }

    fn new() -> io::Result<Ring> {
        let io = IoUring::new(REQUESTS)?;
        Ok(Ring {
            io,
            submitting: Mutex::default(),
            completions: Mutex::default(),
            completed: Condvar::new(),
            on_their_way: AtomicUsize::new(0),
            next: AtomicU64::new(0),
        })
    }

    /// Begins a request for `bytes` bytes at an address; returns its number, or `None` if too many are on their way.
    ///
    /// # Safety
    ///
    /// The file stays open, and the bytes stay where they are and belong to the kernel, until [`Ring::wait`] has returned for
    /// the request. When this fails, they do so forever.
    pub(crate) unsafe fn begin(
        &self,
        direction: Direction,
        file: &File,
        offset: u64,
        address: *mut u8,
        bytes: u32,
    ) -> io::Result<Option<u64>> {
        if self.on_their_way.fetch_add(1, Relaxed) >= REQUESTS as usize {
            self.on_their_way.fetch_sub(1, Relaxed);
            return Ok(None);
        }
        let number = self.next.fetch_add(1, Relaxed);
        let file = types::Fd(file.as_raw_fd());
        let entry = match direction {
            Direction::Read => opcode::Read::new(file, address, bytes).offset(offset).build(),
            Direction::Write => opcode::Write::new(file, address, bytes).offset(offset).build(),
        };
        // SAFETY: as the caller promises.
        let submitted = unsafe { self.submit(&entry.user_data(number)) };
        match submitted {
            Ok(()) => Ok(Some(number)),
            Err(error) => {
                self.on_their_way.fetch_sub(1, Relaxed);
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Ring::begin`].
    unsafe fn submit(&self, entry: &squeue::Entry) -> io::Result<()> {
        let _only = self.submitting.lock();
        // SAFETY: the lock is held, so there is no other queue, and the caller sees to the request's memory.
        let pushed = unsafe { self.io.submission_shared().push(entry) };
        // Each submission empties the queue, so there is room.
        pushed.map_err(io::Error::other)?;
        loop {
            match self.io.submit() {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_for_later(&e) => std::thread::sleep(PAUSE),
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits until a request is done; how many bytes of it. Asked once for each request.
    ///
    /// # Errors
    /// Those of the file, and when the kernel has given the request up, as it may do when a thread ends that has begun one:
    /// see [`is_for_later`].
    pub(crate) fn wait(&self, request: u64) -> io::Result<usize> {
        let mut completions = self.completions.lock();
        loop {
            if let Some(result) = completions.done.remove(&request) {
                self.on_their_way.fetch_sub(1, Relaxed);
                return usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            }
            if completions.is_waited_for {
                self.completed.wait(&mut completions);
                continue;
            }
            completions.is_waited_for = true;
            drop(completions);
            if let Err(e) = self.io.submit_and_wait(1)
                && e.kind() != io::ErrorKind::Interrupted
            {
                std::thread::sleep(PAUSE);
            }
            completions = self.completions.lock();
            // SAFETY: only who has set `is_waited_for` takes completions, so there is no other queue.
            let queue = unsafe { self.io.completion_shared() };
            completions.done.extend(queue.map(|entry| (entry.user_data(), entry.result())));
            completions.is_waited_for = false;
            self.completed.notify_all();
        }
    }
}

/// Whether a request has not been tried, so that it can be made again.
pub(crate) fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy | io::ErrorKind::Interrupted)
        || error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error())
}
