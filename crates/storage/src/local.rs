//! A directory as a store.

use crate::store::{Store, StoreWriter, StoredFile};
use millstream_disk::{Caching, Reading, Writer};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Files in a directory. What a process that crashed has left unfinished is removed when the store is opened.
#[derive(Debug)]
pub struct LocalStore {
    directory: PathBuf,
    /// Whether files survive a power failure once they are finished.
    is_durable: bool,
    caching: Caching,
}

/// End of the names of unfinished files.
const UNFINISHED: &str = ".part";

impl LocalStore {
    /// Opens a directory for writing; it is made if it is not there.
    pub fn open(directory: &Path) -> io::Result<LocalStore> {
        fs::create_dir_all(directory)?;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(LocalStore { directory: directory.to_path_buf(), is_durable: true, caching: Caching::Direct })
    }

    /// Opens a directory for looking at it: nothing is made or removed.
    pub fn existing(directory: &Path) -> LocalStore {
        LocalStore { directory: directory.to_path_buf(), is_durable: true, caching: Caching::Direct }
    }

    /// A directory for files that need not outlive the process: finishing one does not wait for the disk.
    pub fn scratch(directory: &Path, caching: Caching) -> LocalStore {
        LocalStore { directory: directory.to_path_buf(), is_durable: false, caching }
    }

    fn reading(&self, name: &str, range: Range<u64>) -> io::Result<Reading> {
        Reading::begin(&self.directory.join(name), range, self.caching)
    }
}

struct LocalWriter {
    writer: Writer,
    unfinished: Unfinished,
    path: PathBuf,
    is_durable: bool,
}

/// A file that goes unless it is finished.
struct Unfinished(PathBuf);

impl Unfinished {
    /// Gives the file its name.
    fn finish(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed now is when the directory is opened the next time.
        let _ = fs::remove_file(&self.0);
    }
}

impl Store for LocalStore {
    fn create(&self, name: &str) -> io::Result<Box<dyn StoreWriter>> {
        let unfinished = self.directory.join(format!("{name}{UNFINISHED}"));
        let writer = Writer::create(&unfinished, self.caching)?;
        let (path, is_durable) = (self.directory.join(name), self.is_durable);
        Ok(Box::new(LocalWriter { writer, unfinished: Unfinished(unfinished), path, is_durable }))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.reading(name, range)?.finish()
    }

    fn begin_read(&self, name: &str, range: Range<u64>) -> Option<Reading> {
        // Whoever wants the bytes reads them again, and sees what is wrong.
        self.reading(name, range).ok()
    }

    fn list(&self) -> io::Result<Vec<StoredFile>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() && !name.ends_with(UNFINISHED) => {
                    files.push(StoredFile { name, bytes: metadata.len() });
                }
                // One of another process that has removed it, or given it its name.
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.directory.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn place(&self) -> String {
        self.directory.display().to_string()
    }
}

impl StoreWriter for LocalWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let file = self.writer.finish()?;
        if !self.is_durable {
            return self.unfinished.finish(&self.path);
        }
        file.sync_all()?;
        drop(file);
        self.unfinished.finish(&self.path)?;
        // The name must survive a power failure, too.
        match self.path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// Held by the one process that uses a directory; gone with the process, however that ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
    /// The directory itself, where the file system can lock it: its lock cannot be removed, as the file `lock` can.
    _directory: Option<File>,
}

impl DirectoryLock {
    /// Takes the lock of a directory, which is made if it is not there; `None` if another process has it.
    pub fn take(directory: &Path) -> io::Result<Option<DirectoryLock>> {
        fs::create_dir_all(directory)?;
        let itself = File::open(directory)?;
        let itself = match itself.try_lock() {
            Ok(()) => Some(itself),
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Network file systems lock files only.
            Err(TryLockError::Error(_)) => None,
        };
        let file = File::options().create(true).truncate(false).write(true).open(directory.join("lock"))?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                (&file).write_all(format!("{}\n", std::process::id()).as_bytes())?;
                Ok(Some(DirectoryLock { _file: file, _directory: itself }))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// Whether a process has taken the directory.
    pub fn is_held(directory: &Path) -> bool {
        let is_locked = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        [directory, &directory.join("lock")].into_iter().any(|path| File::open(path).is_ok_and(is_locked))
    }

    /// The process that holds the lock of a directory, as it says itself.
    pub fn holder(directory: &Path) -> Option<u32> {
        let file = File::options().read(true).write(true).open(directory.join("lock")).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => fs::read_to_string(directory.join("lock")).ok()?.trim().parse().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_when_they_are_finished() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path()).unwrap();
        let mut writer = store.create("b").unwrap();
        writer.write(b"hello ").unwrap();
        writer.write(b"world").unwrap();
        drop(store.create("a").unwrap());
        assert_eq!(store.list().unwrap(), []);
        writer.finish().unwrap();
        assert_eq!(store.list().unwrap(), [StoredFile { name: "b".into(), bytes: 11 }]);
        assert_eq!(store.read("b", 6..11).unwrap(), b"world");
        assert!(store.read("b", 6..12).is_err() && store.read("c", 0..1).is_err());
        // A process that crashed leaves unfinished files behind.
        std::mem::forget(store.create("c").unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        let store = LocalStore::open(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        store.delete("b").unwrap();
        store.delete("b").unwrap();
        assert_eq!(store.list().unwrap(), []);
    }

    #[test]
    fn one_process_holds_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(directory.path()).unwrap();
        assert!(lock.is_some() && DirectoryLock::take(directory.path()).unwrap().is_none());
        assert_eq!(DirectoryLock::holder(directory.path()), Some(std::process::id()));
        fs::remove_file(directory.path().join("lock")).unwrap();
        assert!(DirectoryLock::is_held(directory.path()) && DirectoryLock::holder(directory.path()).is_none());
        assert!(DirectoryLock::take(directory.path()).unwrap().is_none(), "the directory is locked, too");
        drop(lock);
        assert!(!DirectoryLock::is_held(directory.path()));
        assert!(DirectoryLock::take(directory.path()).unwrap().is_some());
    }
}
