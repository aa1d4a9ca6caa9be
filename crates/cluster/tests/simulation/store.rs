//! A store in memory, for the real manifests and the real numbers of processes.

use millstream_storage::{Store, StoreWriter, StoredFile};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

#[derive(Debug, Clone, Default)]
pub struct Memory(Files);

struct Writer {
    files: Files,
    name: String,
    bytes: Vec<u8>,
}

impl Memory {
    /// Makes a file that must not be there.
    pub fn make(&self, name: &str) -> io::Result<()> {
        match self.0.lock().unwrap().insert(name.into(), vec![]) {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(()),
        }
    }
}

impl Store for Memory {
    fn create(&self, name: &str) -> io::Result<Box<dyn StoreWriter>> {
        Ok(Box::new(Writer { files: Arc::clone(&self.0), name: name.into(), bytes: vec![] }))
    }

    fn read(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let files = self.0.lock().unwrap();
        let bytes = files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(bytes[range.start as usize..range.end as usize].to_vec())
    }

    fn list(&self) -> io::Result<Vec<StoredFile>> {
        let file = |(name, bytes): (&String, &Vec<u8>)| StoredFile { name: name.clone(), bytes: bytes.len() as u64 };
        Ok(self.0.lock().unwrap().iter().map(file).collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }

    fn place(&self) -> String {
        "memory".into()
    }
}

impl StoreWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.files.lock().unwrap().insert(self.name, self.bytes);
        Ok(())
    }
}
