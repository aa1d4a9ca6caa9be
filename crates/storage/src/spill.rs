//! Spilled state: files that belong to one run of a query and that nobody needs after it.
//!
//! ```text
//! <spill directory>/query-<process>-<number>/lock          held as long as the run lasts
//!                                            spill-17-0.bin  blobs that were spilled together
//! ```
//!
//! Files are written once, without waiting for the disk: a crash makes them worthless in any case. What a process has left
//! behind that is gone is removed by the next run that spills to the same directory.

use crate::bytes::Damaged;
use crate::local::{DirectoryLock, LocalStore};
use crate::manifest::BlobRef;
use crate::pack::{PackWriter, PendingBlob};
use crate::private::{check_own, make_private};
use crate::store::Store;
use millstream_disk::Caching;
use millstream_types::memory_text;
use std::borrow::Cow;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs of this process that have spilled: each has its own directory.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Beginning of the names of the directories of runs.
const RUN: &str = "query-";

/// How spilled blobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Uncompressed: on a fast disk that costs least.
    #[default]
    None,
    /// By zstd at its fastest level, each by itself.
    Zstd,
}

impl Compression {
    /// Level of zstd.
    const LEVEL: i32 = 1;

    /// What is written for a blob.
    fn encode(self, blob: &[u8]) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Compression::None => Ok(Cow::Borrowed(blob)),
            Compression::Zstd => zstd::bulk::compress(blob, Compression::LEVEL).map(Cow::Owned),
        }
    }

    /// The blob that was written.
    fn decode(self, written: Vec<u8>) -> Result<Vec<u8>, Damaged> {
        match self {
            Compression::None => Ok(written),
            Compression::Zstd => {
                zstd::stream::decode_all(written.as_slice()).map_err(|e| Damaged(format!("zstd data is damaged: {e}")))
            }
        }
    }
}

/// How spilled state is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpillFormat {
    /// Whether it is compressed.
    pub compression: Compression,
    /// Bytes of files up to which new ones go through the page cache of the system; the others go past it, so that they
    /// take no memory.
    pub cached_bytes: u64,
}

/// What has been spilled and read back. All are relaxed: numbers for people.
#[derive(Debug, Default)]
pub struct SpillCounters {
    /// Bytes written.
    pub written: AtomicU64,
    /// Bytes read back.
    pub read: AtomicU64,
    /// Files written.
    pub files: AtomicU64,
    /// Bytes of the files that are there.
    pub held: AtomicU64,
}

/// The directory of a run.
#[derive(Debug)]
pub struct SpillDirectory {
    path: PathBuf,
    budget: u64,
    format: SpillFormat,
    counters: Arc<SpillCounters>,
    _lock: DirectoryLock,
}

impl SpillDirectory {
    /// Makes a directory for a run below `parent`, after removing those of processes that are gone. `budget` gives the bytes
    /// that its files may have, from the bytes that are free there.
    ///
    /// # Errors
    /// When the directory cannot be made or locked.
    pub fn create(
        parent: &Path,
        budget: impl FnOnce(u64) -> u64,
        format: SpillFormat,
        counters: Arc<SpillCounters>,
    ) -> io::Result<Arc<SpillDirectory>> {
        make_private(parent)?;
        remove_leftovers(parent)?;
        loop {
            let path = parent.join(format!("{RUN}{}-{}", std::process::id(), RUNS.fetch_add(1, Relaxed)));
            match DirBuilder::new().mode(0o700).create(&path) {
                // Of a process that had the same number, and of nobody whose files are used.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = match DirectoryLock::take(&path) {
                Ok(Some(lock)) => lock,
                // Somebody who looks for leftovers has been faster than the lock.
                Ok(None) => continue,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let free = rustix::fs::statvfs(&path)?;
            let budget = budget(free.f_bavail.saturating_mul(free.f_frsize));
            return Ok(Arc::new(SpillDirectory { path, budget, format, counters, _lock: lock }));
        }
    }

    /// Begins to spill something.
    pub fn writer(self: &Arc<SpillDirectory>) -> SpillWriter {
        let number = self.counters.files.fetch_add(1, Relaxed);
        let caching = match self.counters.held.load(Relaxed) < self.format.cached_bytes {
            true => Caching::PageCache,
            false => Caching::Direct,
        };
        let store = Arc::new(LocalStore::scratch(&self.path, caching));
        let pack = PackWriter::new(Arc::<LocalStore>::clone(&store), format!("spill-{number}"));
        SpillWriter { pack, files: SpillFiles { directory: Arc::clone(self), store, names: Vec::new(), bytes: 0 } }
    }

    /// Removes the directory with all that is in it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpillDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is when somebody spills to the same place again.
        let _ = self.remove();
    }
}

/// Removes the directories of runs whose process is gone.
fn remove_leftovers(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_run = entry.file_name().to_string_lossy().starts_with(RUN) && entry.file_type()?.is_dir();
        // One that cannot be looked at is not ours, and one that cannot be removed is no reason not to run.
        if is_run
            && check_own(&entry.path()).is_ok()
            && let Ok(Some(_lock)) = DirectoryLock::take(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Writes blobs that are given up together.
pub struct SpillWriter {
    pack: PackWriter,
    files: SpillFiles,
}

impl SpillWriter {
    /// Writes a blob; it can be read when [`SpillWriter::finish`] has returned.
    ///
    /// # Errors
    /// Those of the file system, and when the files of the run would have more bytes than allowed.
    pub fn write(&mut self, blob: &[u8]) -> io::Result<BlobRef> {
        let directory = &self.files.directory;
        let blob = directory.format.compression.encode(blob)?;
        let bytes = blob.len() as u64;
        let held = directory.counters.held.fetch_add(bytes, Relaxed);
        self.files.bytes += bytes;
        if held + bytes > directory.budget {
            let message = format!(
                "{} holds {} of the {} that it may hold, and {} more are to be written",
                directory.path.display(),
                memory_text(held),
                memory_text(directory.budget),
                memory_text(bytes)
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, message));
        }
        let blob = self.pack.write(&blob)?;
        if self.files.names.last() != Some(&blob.file) {
            self.files.names.push(Arc::clone(&blob.file));
        }
        directory.counters.written.fetch_add(bytes, Relaxed);
        Ok(blob)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.files.bytes
    }

    /// Completes the files, which exist until the result is dropped.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(self) -> io::Result<Arc<SpillFiles>> {
        self.pack.finish()?;
        Ok(Arc::new(self.files))
    }
}

/// Files of blobs, removed when nobody has this any more.
#[derive(Debug)]
pub struct SpillFiles {
    directory: Arc<SpillDirectory>,
    store: Arc<LocalStore>,
    names: Vec<Arc<str>>,
    bytes: u64,
}

impl SpillFiles {
    /// Reads a blob and checks it.
    ///
    /// # Errors
    /// When it cannot be read, or is not what was written.
    pub fn read(&self, blob: &BlobRef) -> Result<Vec<u8>, Damaged> {
        self.finish(self.begin(blob))
    }

    /// Begins to read a blob.
    pub fn begin(&self, blob: &BlobRef) -> PendingBlob {
        blob.begin(&*self.store)
    }

    /// Waits for a blob that was begun here, and checks it.
    ///
    /// # Errors
    /// As for [`SpillFiles::read`].
    pub fn finish(&self, pending: PendingBlob) -> Result<Vec<u8>, Damaged> {
        self.directory.counters.read.fetch_add(pending.bytes(), Relaxed);
        self.directory.format.compression.decode(pending.finish(&*self.store)?)
    }
}

/// A blob in files of the run, which stay as long as somebody has one of them.
#[derive(Debug, Clone)]
pub struct SpilledBlob {
    files: Arc<SpillFiles>,
    blob: BlobRef,
}

impl SpilledBlob {
    /// A blob that was written to these files.
    pub fn new(files: &Arc<SpillFiles>, blob: BlobRef) -> SpilledBlob {
        SpilledBlob { files: Arc::clone(files), blob }
    }

    /// Bytes of the file that it takes.
    pub fn bytes(&self) -> u64 {
        self.blob.bytes
    }

    /// Reads it and checks it.
    ///
    /// # Errors
    /// As for [`SpillFiles::read`].
    pub fn read(&self) -> Result<Vec<u8>, Damaged> {
        self.files.read(&self.blob)
    }
}

impl Drop for SpillFiles {
    fn drop(&mut self) {
        for name in &self.names {
            // The whole directory goes at the end of the run.
            let _ = self.store.delete(name);
        }
        self.directory.counters.held.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn files_go_with_what_they_are_for_and_the_directory_with_the_run() {
        let parent = tempfile::tempdir().unwrap();
        let counters = Arc::new(SpillCounters::default());
        let directory =
            SpillDirectory::create(parent.path(), |free| free, SpillFormat::default(), Arc::clone(&counters)).unwrap();
        let mut writer = directory.writer();
        let (one, two) = (writer.write(b"one").unwrap(), writer.write(b"three").unwrap());
        let files = writer.finish().unwrap();
        assert_eq!((files.read(&one).unwrap(), files.read(&two).unwrap()), (b"one".to_vec(), b"three".to_vec()));
        assert_eq!(entries(directory.path()), 2, "the lock and a file");
        drop(files);
        assert_eq!(entries(directory.path()), 1);
        drop(directory.writer());
        let numbers = [&counters.written, &counters.read, &counters.held].map(|n| n.load(Relaxed));
        assert_eq!(numbers, [8, 8, 0]);
        drop(directory);
        assert_eq!(entries(parent.path()), 0);
    }

    #[test]
    fn leftovers_are_removed_but_not_what_is_in_use() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("query-1-1");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("lock"), "1\n").unwrap();
        fs::write(left.join("spill-0-0.bin"), "old").unwrap();
        fs::write(parent.path().join("query-file"), "not ours").unwrap();
        let first = SpillDirectory::create(parent.path(), |_| 1, SpillFormat::default(), Arc::default()).unwrap();
        let second = SpillDirectory::create(parent.path(), |_| 1, SpillFormat::default(), Arc::default()).unwrap();
        assert!(!left.exists() && first.path().exists() && second.path().exists());
        assert_eq!(entries(parent.path()), 3);
    }

    #[test]
    fn blobs_are_compressed_if_that_is_wanted() {
        let parent = tempfile::tempdir().unwrap();
        let counters = Arc::new(SpillCounters::default());
        let format = SpillFormat { compression: Compression::Zstd, cached_bytes: u64::MAX };
        let made = SpillDirectory::create(parent.path(), |free| free, format, Arc::clone(&counters)).unwrap();
        let blobs = [Vec::new(), b"x".to_vec(), vec![7; 100_000], (0..100_000u32).map(|i| (i % 251) as u8).collect()];
        let mut writer = made.writer();
        let written: Vec<BlobRef> = blobs.iter().map(|blob| writer.write(blob).unwrap()).collect();
        let files = writer.finish().unwrap();
        let begun: Vec<PendingBlob> = written.iter().map(|written| files.begin(written)).collect();
        for ((blob, written), begun) in blobs.iter().zip(&written).zip(begun) {
            assert_eq!(files.read(written).unwrap(), *blob);
            assert_eq!(files.finish(begun).unwrap(), *blob);
        }
        assert!(counters.held.load(Relaxed) < 5000, "{counters:?}");
    }

    #[test]
    fn more_than_allowed_is_refused_with_sizes() {
        let parent = tempfile::tempdir().unwrap();
        let counters = Arc::new(SpillCounters::default());
        let directory =
            SpillDirectory::create(parent.path(), |_| 10, SpillFormat::default(), Arc::clone(&counters)).unwrap();
        let mut writer = directory.writer();
        writer.write(b"1234567").unwrap();
        let error = writer.write(b"1234").unwrap_err().to_string();
        assert!(error.ends_with("holds 7 B of the 10 B that it may hold, and 4 B more are to be written"), "{error}");
        drop(writer);
        assert_eq!((counters.held.load(Relaxed), entries(directory.path())), (0, 1));
    }
}
