//! What sinks of a job keep for good, where that is not a local directory.

use millstream_connectors::SinkFiles;
use millstream_storage::Store;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Files of sinks in the store of the job's checkpoints.
#[derive(Debug)]
pub(crate) struct StoredFiles {
    pub(crate) store: Arc<dyn Store>,
}

/// How much of a file is copied at once.
const PIECE: u64 = 8 << 20;

impl SinkFiles for StoredFiles {
    fn put(&self, name: &str, file: &Path) -> io::Result<()> {
        let (mut file, mut writer) = (File::open(file)?, self.store.create(name)?);
        let mut piece = Vec::new();
        while (&mut file).take(PIECE).read_to_end(&mut piece)? > 0 {
            writer.write(&piece)?;
            piece.clear();
        }
        writer.finish()
    }

    fn get(&self, name: &str, file: &Path) -> io::Result<()> {
        let files = self.store.list()?;
        let size = files.iter().find(|file| file.name == name).ok_or(io::ErrorKind::NotFound)?.bytes;
        let unfinished = file.with_extension("part");
        let mut copy = File::create(&unfinished)?;
        for start in (0..size).step_by(PIECE as usize) {
            copy.write_all(&self.store.read(name, start..size.min(start + PIECE))?)?;
        }
        fs::rename(unfinished, file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.store.list()?.into_iter().map(|file| file.name).collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.store.delete(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_storage::LocalStore;

    #[test]
    fn files_of_sinks_are_copied_whole() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = StoredFiles { store: Arc::new(LocalStore::open(there.path()).unwrap()) };
        let bytes: Vec<u8> = (0..PIECE + 5).map(|at| (at / 3) as u8).collect();
        for (name, bytes) in [("large", bytes.as_slice()), ("empty", &[])] {
            let (written, read) = (here.path().join("written"), here.path().join("read"));
            fs::write(&written, bytes).unwrap();
            files.put(name, &written).unwrap();
            files.get(name, &read).unwrap();
            assert!(fs::read(&read).unwrap() == bytes, "{name}");
        }
        assert_eq!(files.list().unwrap(), ["empty", "large"]);
        files.delete("large").unwrap();
        let lost = files.get("large", &here.path().join("lost")).unwrap_err();
        assert!(lost.kind() == io::ErrorKind::NotFound && !here.path().join("lost").exists());
    }
}
