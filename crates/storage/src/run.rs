//! Who may write to a state directory.
//!
//! Each process that uses the directory is a *run* with its own number, which is taken by making the object or file
//! `run-<number>`: of several processes one succeeds. The highest number is the owner, and nobody else. In an object store nothing
//! else excludes other processes; in a local directory there is a lock that goes with its process, which somebody may have removed:
//!
//! - What a run writes has its number in its name ([`crate::Checkpoints`]), so that one that has been superseded without
//!   knowing it overwrites nothing.
//! - After a manifest, and before anything is committed because of it, a run looks whether it is still the newest. A later run
//!   takes its number before it looks for manifests. So either the later run resumes from that manifest, or the earlier
//!   one ends without committing. That holds for any clocks and pauses; the store must show at once what was written,
//!   as S3 does.
//! - In an object store a run says that it is alive by writing its object again, every [`BEAT`]. Whoever comes while it does is refused; whoever sees
//!   no change for [`SILENCE`] takes over. On the same machine nobody waits: the lock of a local directory says whether
//!   the process is there.

use crate::local::LocalStore;
use crate::objects::ObjectDirectory;
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// From one sign of life to the next.
const BEAT: Duration = Duration::from_secs(3);
/// A process on another machine that has given no sign of life for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(15);
/// How long the end of a process waits for the store to take note.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often signs of life are looked for.
const GLANCE: Duration = Duration::from_secs(1);

/// Beginning of the names of runs' objects.
const RUN: &str = "run-";

/// The number of this process.
#[derive(Debug)]
pub struct Run {
    /// Where numbers are taken.
    store: Arc<dyn Store>,
    number: u64,
}

/// Gives signs of life of a run, and says that it has ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// Dropped, it ends the thread.
    stop: Option<Sender<()>>,
    /// Disconnected when the thread has ended.
    stopped: Receiver<()>,
}

/// What the object of a run says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    host: String,
    process: u32,
    /// Identifies the local directory with the lock of the process.
    lock: String,
    /// Signs of life so far.
    beats: u64,
    has_ended: bool,
}

impl Run {
    /// Takes the next number; `Err` inside names the process that is at work. `lock` is held by this process.
    pub(crate) fn begin(directory: ObjectDirectory, lock: &str) -> io::Result<Result<(Run, Heartbeat), String>> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let holder = Holder { host, process: std::process::id(), lock: lock.into(), beats: 0, has_ended: false };
        let run = Run::take(
            Arc::new(directory.clone()),
            |name| directory.put(name, holder.encode(), true),
            |number| holder_at_work(&directory, number, lock),
        )?;
        Ok(run.map(|run| {
            let heartbeat = Heartbeat::begin(directory.clone(), run.number, holder);
            (run, heartbeat)
        }))
    }

    /// The run with a number, which another process has taken.
    pub(crate) fn of_another(store: Arc<dyn Store>, number: u64) -> Run {
        Run { store, number }
    }

    /// Takes the next number of a local directory, whose lock this process holds. It needs no sign of life: an earlier run that is
    /// still at work, because its lock was removed or the file system has none, finds that it is not the newest.
    pub(crate) fn begin_here(directory: &Path) -> io::Result<Result<Run, String>> {
        let make = |name: &str| File::create_new(directory.join(name))?.sync_all();
        Run::take(Arc::new(LocalStore::existing(directory)), make, |_| Ok(None))
    }

    /// Takes the next number by making the file of its name, which fails if it is there, and removes those before. `Err` inside is
    /// whoever is at work by the newest of those.
    ///
    /// # Errors
    /// Those of the store.
    pub fn take(
        store: Arc<dyn Store>,
        make: impl Fn(&str) -> io::Result<()>,
        at_work: impl Fn(u64) -> io::Result<Option<String>>,
    ) -> io::Result<Result<Run, String>> {
        loop {
            let taken = numbers(&*store)?;
            let newest = taken.last().copied();
            if let Some(other) = newest.map(&at_work).transpose()?.flatten() {
                return Ok(Err(other));
            }
            let number = newest.unwrap_or(0) + 1;
            match make(&name(number)) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            for number in taken {
                store.delete(&name(number))?;
            }
            return Ok(Ok(Run { store, number }));
        }
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether no other process has taken a number since.
    pub(crate) fn is_newest(&self) -> io::Result<bool> {
        Ok(numbers(&*self.store)?.last().is_none_or(|&newest| newest <= self.number))
    }
}

impl Heartbeat {
    fn begin(directory: ObjectDirectory, number: u64, mut holder: Holder) -> Heartbeat {
        let ((stop, stops), (ended, stopped)) = (channel(), channel());
        std::thread::spawn(move || {
            let _ended: Sender<()> = ended;
            while stops.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                holder.beats += 1;
                // Whether the store answers is seen at the next checkpoint.
                let _ = directory.put(&name(number), holder.encode(), false);
            }
            holder.has_ended = true;
            let _ = directory.put(&name(number), holder.encode(), false);
        });
        Heartbeat { stop: Some(stop), stopped }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop = None;
        // If the store does not answer in time, the run is taken for one that has crashed.
        let _ = self.stopped.recv_timeout(FAREWELL);
    }
}

impl Holder {
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }
}

fn name(number: u64) -> String {
    format!("{RUN}{number:08}")
}

/// The numbers that are taken, in order.
fn numbers(store: &dyn Store) -> io::Result<Vec<u64>> {
    let number_of = |name: &str| name.strip_prefix(RUN)?.parse().ok();
    let mut numbers: Vec<u64> = store.names()?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Who is at work as a run; `None` if nobody is any more, which takes [`SILENCE`] to find out if it was on another machine.
fn holder_at_work(directory: &ObjectDirectory, number: u64, lock: &str) -> io::Result<Option<String>> {
    let seen = || match directory.get(&name(number)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    };
    let (first, since) = (seen()?, Instant::now());
    let holder: Option<Holder> = serde_json::from_slice(&first).ok();
    if holder.as_ref().is_some_and(|holder| holder.has_ended || holder.lock == lock) {
        return Ok(None);
    }
    while since.elapsed() < SILENCE {
        std::thread::sleep(GLANCE);
        if seen()? != first {
            let text = |holder: Holder| format!("process {} on the machine {}", holder.process, holder.host);
            return Ok(Some(holder.map_or_else(|| "a process on another machine".into(), text)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_run_owns_a_local_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = Run::begin_here(directory.path()).unwrap().unwrap();
        assert_eq!((first.number(), first.is_newest().unwrap()), (1, true));
        let second = Run::begin_here(directory.path()).unwrap().unwrap();
        assert_eq!((second.number(), second.is_newest().unwrap(), first.is_newest().unwrap()), (2, true, false));
        let names: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["run-00000002"]);
        // Of several that come at once each has its own number.
        let many: Vec<u64> = std::thread::scope(|scope| {
            let begin = || Run::begin_here(directory.path()).unwrap().unwrap().number();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(many.iter().collect::<std::collections::BTreeSet<_>>().len(), 8, "{many:?}");
    }

    #[test]
    fn the_newest_run_is_the_owner() {
        let directory = ObjectDirectory::in_memory();
        let (first, first_beats) = Run::begin(directory.clone(), "here").unwrap().unwrap();
        assert_eq!((first.number(), first.is_newest().unwrap()), (1, true));
        // The lock of the machine says that the first one is dead, although it is not.
        let (second, second_beats) = Run::begin(directory.clone(), "here").unwrap().unwrap();
        assert_eq!((second.number(), second.is_newest().unwrap()), (2, true));
        assert!(!first.is_newest().unwrap());
        drop(first_beats);
        assert!(second.is_newest().unwrap(), "the end of a run that was superseded changes nothing");
        let other = Run::begin(directory.clone(), "there").unwrap().unwrap_err();
        assert!(other.contains(&format!("process {}", std::process::id())), "{other}");
        drop(second_beats);
        assert_eq!(Run::begin(directory, "there").unwrap().unwrap().0.number(), 3, "it has said that it has ended");
    }
}
