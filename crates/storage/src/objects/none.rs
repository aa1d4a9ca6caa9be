//! What stands for object stores in a program that was built without them.

use super::Entries;
use crate::store::{Store, StoreWriter, StoredFile};
use std::convert::Infallible;
use std::io;
use std::ops::Range;

/// A prefix of an object store: there is none.
#[derive(Debug, Clone)]
pub(crate) struct NoObjects {
    never: Infallible,
}

impl NoObjects {
    pub(crate) fn s3(_bucket: &str, _prefix: &str) -> io::Result<NoObjects> {
        let text = "this program was built without object stores; `make release` builds it with them";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    pub(crate) fn directory(&self, _name: &str) -> NoObjects {
        match self.never {}
    }

    pub(crate) fn entries(&self) -> io::Result<Entries> {
        match self.never {}
    }

    pub(crate) fn put(&self, _name: &str, _bytes: Vec<u8>, _is_new: bool) -> io::Result<()> {
        match self.never {}
    }

    pub(crate) fn get(&self, _name: &str) -> io::Result<Vec<u8>> {
        match self.never {}
    }
}

impl Store for NoObjects {
    fn create(&self, _name: &str) -> io::Result<Box<dyn StoreWriter>> {
        match self.never {}
    }

    fn read(&self, _name: &str, _range: Range<u64>) -> io::Result<Vec<u8>> {
        match self.never {}
    }

    fn list(&self) -> io::Result<Vec<StoredFile>> {
        match self.never {}
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        match self.never {}
    }

    fn place(&self) -> String {
        match self.never {}
    }
}
