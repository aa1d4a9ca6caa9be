//! Files of blobs: what a checkpoint writes, or what is spilled at once, one blob after the other.
//!
//! ```text
//! "MSSTATE1" | blob | blob | …
//! ```
//!
//! Where a blob is, how long it is, and its checksum stands where it is referred to ([`BlobRef`]).

use crate::bytes::Damaged;
use crate::manifest::BlobRef;
use crate::objects::is_unavailable;
use crate::store::{Store, StoreWriter};
use millstream_disk::Reading;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// What every file of blobs begins with.
const MAGIC: &[u8; 8] = b"MSSTATE1";

/// Writes blobs to files of bounded size, which are begun when they are needed.
pub struct PackWriter {
    store: Arc<dyn Store>,
    /// Names of the files begin with it.
    prefix: String,
    files: u64,
    open: Option<Open>,
    /// Bytes of all files.
    bytes: u64,
}

struct Open {
    name: Arc<str>,
    writer: Box<dyn StoreWriter>,
    bytes: u64,
}

/// A file is finished when it has this many bytes.
const FILE_BYTES: u64 = 1 << 30;

impl PackWriter {
    /// No files yet.
    pub fn new(store: Arc<dyn Store>, prefix: impl Into<String>) -> PackWriter {
        PackWriter { store, prefix: prefix.into(), files: 0, open: None, bytes: 0 }
    }

    /// Writes a blob. It can be read when [`PackWriter::finish`] has returned.
    pub fn write(&mut self, blob: &[u8]) -> io::Result<BlobRef> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= FILE_BYTES) {
            self.close()?;
        }
        if self.open.is_none() {
            let name = format!("{}-{}.bin", self.prefix, self.files);
            self.files += 1;
            let mut writer = self.store.create(&name)?;
            writer.write(MAGIC)?;
            self.open = Some(Open { name: name.into(), writer, bytes: MAGIC.len() as u64 });
        }
        let open = self.open.as_mut().expect("opened above");
        open.writer.write(blob)?;
        let file = Arc::clone(&open.name);
        let reference = BlobRef { file, offset: open.bytes, bytes: blob.len() as u64, checksum: xxh3_64(blob) };
        open.bytes += blob.len() as u64;
        self.bytes += blob.len() as u64;
        Ok(reference)
    }

    /// Finishes the last file; the bytes of all blobs.
    pub fn finish(mut self) -> io::Result<u64> {
        self.close()?;
        Ok(self.bytes)
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |open| open.writer.finish())
    }
}

impl BlobRef {
    /// Reads the blob and checks it.
    pub fn read(&self, store: &dyn Store) -> Result<Vec<u8>, Damaged> {
        self.begin(store).finish(store)
    }

    /// Begins to read the blob, if the store can do that.
    pub fn begin(&self, store: &dyn Store) -> PendingBlob {
        PendingBlob { blob: self.clone(), pending: store.begin_read(&self.file, self.range()) }
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.bytes)
    }

    fn place(&self, store: &dyn Store) -> String {
        format!("{}/{}, {} bytes at {}", store.place(), self.file, self.bytes, self.offset)
    }

    fn unread(&self, store: &dyn Store, error: &io::Error) -> Damaged {
        Damaged(format!("{} cannot be read: {error}", self.place(store)))
    }
}

/// A blob that is on its way, if its store can do that.
pub struct PendingBlob {
    blob: BlobRef,
    pending: Option<Reading>,
}

impl PendingBlob {
    /// Bytes of the blob.
    pub fn bytes(&self) -> u64 {
        self.blob.bytes
    }

    /// Waits for the blob from that store, and checks it.
    ///
    /// # Errors
    /// As for [`BlobRef::read`].
    pub fn finish(self, store: &dyn Store) -> Result<Vec<u8>, Damaged> {
        let blob = self.blob.clone();
        self.try_finish(store).unwrap_or_else(|e| Err(blob.unread(store, &e)))
    }

    /// The same, with an error outside when the store cannot be asked, which says nothing about the blob.
    ///
    /// # Errors
    /// Those of stores that are elsewhere: they are not reached, or refuse.
    pub fn try_finish(self, store: &dyn Store) -> io::Result<Result<Vec<u8>, Damaged>> {
        let PendingBlob { blob, pending } = self;
        let read = match pending {
            Some(pending) => pending.finish(),
            None => store.read(&blob.file, blob.range()),
        };
        Ok(match read {
            Err(e) if is_unavailable(&e) => return Err(e),
            Err(e) => Err(blob.unread(store, &e)),
            Ok(bytes) if xxh3_64(&bytes) == blob.checksum => Ok(bytes),
            Ok(_) => {
                let place = blob.place(store);
                Err(Damaged(format!("{place} do not have the checksum that they were written with")))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStore;

    #[test]
    fn a_blob_is_read_back_or_found_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(directory.path()).unwrap());
        let mut pack = PackWriter::new(Arc::clone(&store), "state-7");
        let (first, empty, last) =
            (pack.write(b"one").unwrap(), pack.write(b"").unwrap(), pack.write(b"three").unwrap());
        assert!(first.read(&*store).is_err(), "not there before it is finished");
        assert_eq!(pack.finish().unwrap(), 8);
        let read = |blob: &BlobRef| blob.read(&*store);
        assert_eq!(
            (read(&first).unwrap(), read(&empty).unwrap(), read(&last).unwrap()),
            (b"one".to_vec(), vec![], b"three".to_vec())
        );
        let pending = [&first, &empty, &last].map(|blob| blob.begin(&*store));
        assert_eq!(
            pending.map(|pending| pending.finish(&*store).unwrap()),
            [b"one".to_vec(), vec![], b"three".to_vec()]
        );
        let path = directory.path().join("state-7-0.bin");
        let good = std::fs::read(&path).unwrap();
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[first.offset as usize] ^= 1 << bit;
            std::fs::write(&path, &bad).unwrap();
            assert!(read(&first).is_err() && read(&last).is_ok());
        }
        std::fs::write(&path, &good[..good.len() - 1]).unwrap();
        assert!(read(&last).is_err() && read(&first).is_ok());
        assert!(last.begin(&*store).finish(&*store).is_err() && first.begin(&*store).finish(&*store).is_ok());
        let far = BlobRef { offset: u64::MAX, ..last };
        assert!(read(&far).is_err());
        // Nothing was written, so there is no file.
        assert_eq!(PackWriter::new(Arc::clone(&store), "state-8").finish().unwrap(), 0);
        assert_eq!(store.list().unwrap().len(), 1);
    }
}
