//! What a store can do: files that are written once, as a whole.

use millstream_disk::Reading;
use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// A place for files, local or not. Names have no directories. All methods may be called by several threads at once.
pub trait Store: Send + Sync + Debug {
    /// Begins a file, which appears under its name when it is finished; one of that name is replaced then.
    fn create(&self, name: &str) -> io::Result<Box<dyn StoreWriter>>;

    /// Bytes of a file; fails if it does not have all of them.
    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// Begins to read bytes of a file, and waits for nothing; `None` if this store cannot do that.
    fn begin_read(&self, _name: &str, _range: Range<u64>) -> Option<Reading> {
        None
    }

    /// All files, in order of their names.
    fn list(&self) -> io::Result<Vec<StoredFile>>;

    /// Names that are taken, in any order: those of files, and of what else is in a directory. Nothing but names is
    /// looked at, so one that is removed meanwhile is not an error.
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.list()?.into_iter().map(|file| file.name).collect())
    }

    /// Removes a file; one that is not there is not an error.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Where it is, for messages.
    fn place(&self) -> String;
}

/// A file that is being written. Dropped unfinished, it leaves nothing behind.
pub trait StoreWriter: Send {
    /// Appends bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file durable and visible, in this order.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// A file of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}
