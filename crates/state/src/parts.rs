//! The two parts in which tables have their entries: a hash part, and a dense region, which is indexed by integer keys.

use crate::array::Region;
use crate::directory::Directory;
use crate::memory::EntryMemory;
use millstream_abi::{KeyRange, TableHeader};

/// Entries that a header shows to generated code.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Parts {
    /// First, so that a pointer to the header is one to whatever begins with the parts.
    pub(crate) header: TableHeader,
    /// Bytes of an entry.
    stride: usize,
    /// The hash part.
    memory: EntryMemory,
    dense: Dense,
    directory: Directory,
}

/// What a dense region has for each key.
#[derive(Debug)]
enum Dense {
    /// An entry, perhaps an empty one.
    Entries(EntryMemory),
    /// Accumulators.
    Array(Region),
}

impl Parts {
    /// A hash part of `places` places, a power of two, and perhaps a region of entries; all empty.
    pub(crate) fn new(stride: usize, places: usize, region: Option<KeyRange>) -> Parts {
        let KeyRange { first, len } = region.unwrap_or(KeyRange { first: 0, len: 0 });
        let (memory, dense_memory) = (EntryMemory::zeroed(places * stride), EntryMemory::zeroed(len as usize * stride));
        let header = TableHeader {
            entries: memory.start(),
            mask: places as u64 - 1,
            dense: dense_memory.start(),
            dense_first: first,
            dense_len: len,
            ..TableHeader::EMPTY
        };
        Parts { header, stride, memory, dense: Dense::Entries(dense_memory), directory: Directory::default() }
    }

    /// Gives it another array, or none; the one that it had. There are no entries in the region.
    pub(crate) fn set_array(&mut self, region: Option<Region>) -> Option<Region> {
        let range = region.as_ref().map(Region::range);
        let KeyRange { first, len } = range.unwrap_or(KeyRange { first: 0, len: 0 });
        let dense = region.map_or_else(|| Dense::Entries(EntryMemory::zeroed(0)), Dense::Array);
        let before = std::mem::replace(&mut self.dense, dense);
        self.header.dense = match &self.dense {
            Dense::Entries(memory) => memory.start(),
            Dense::Array(region) => region.start(),
        };
        (self.header.dense_first, self.header.dense_len) = (first, len);
        match before {
            Dense::Entries(_) => None,
            Dense::Array(region) => Some(region),
        }
    }

    /// Takes the array out, if there is one.
    pub(crate) fn take_array(&mut self) -> Option<Region> {
        self.array().is_some().then(|| self.set_array(None))?
    }

    /// The array, if there is one.
    pub(crate) fn array(&self) -> Option<&Region> {
        match &self.dense {
            Dense::Entries(_) => None,
            Dense::Array(region) => Some(region),
        }
    }

    /// The entry of a key in a region of entries, if that covers it.
    pub(crate) fn dense_entry(&self, key: i64) -> Option<*mut u8> {
        match &self.dense {
            Dense::Entries(_) => self.header.dense_entry(key, self.stride),
            Dense::Array(_) => None,
        }
    }

    /// Gives the hash part new memory of `places` places, all empty, and returns the old one.
    pub(crate) fn set_places(&mut self, places: usize) -> EntryMemory {
        let old = std::mem::replace(&mut self.memory, EntryMemory::zeroed(places * self.stride));
        (self.header.entries, self.header.mask) = (self.memory.start(), places as u64 - 1);
        old
    }

    /// Gives it a directory, which knows nothing yet, or none.
    pub(crate) fn set_directory(&mut self, directory: Directory) {
        (self.header.directory, self.header.directory_len) = directory.places();
        self.header.packing = directory.packing();
        self.directory = directory;
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Entries have moved, or gone.
    pub(crate) fn forget_places(&mut self) {
        self.directory.forget();
    }

    /// Number of places of the hash part.
    pub(crate) fn hashed_places(&self) -> usize {
        self.header.mask as usize + 1
    }

    /// Number of all places of entries.
    pub(crate) fn places(&self) -> usize {
        self.hashed_places() + self.dense_places()
    }

    fn dense_places(&self) -> usize {
        match &self.dense {
            Dense::Entries(_) => self.header.dense_len as usize,
            Dense::Array(_) => 0,
        }
    }

    /// The keys of the region.
    pub(crate) fn region(&self) -> Option<KeyRange> {
        let TableHeader { dense_first: first, dense_len: len, .. } = self.header;
        (len > 0).then_some(KeyRange { first, len })
    }

    /// Entry number `place` of the hash part.
    pub(crate) fn entry(&self, place: usize) -> *mut u8 {
        debug_assert!(place as u64 <= self.header.mask);
        // SAFETY: the hash part has `mask + 1` entries.
        unsafe { self.header.entries.add(place * self.stride) }
    }

    /// The entries of the hash part, also empty ones.
    pub(crate) fn hashed(&self) -> impl Iterator<Item = *mut u8> + use<> {
        let (first, stride) = (self.header.entries, self.stride);
        // SAFETY: the part is as large as the header says.
        (0..self.hashed_places()).map(move |i| unsafe { first.add(i * stride) })
    }

    /// All entries, also empty ones, but those of arrays.
    pub(crate) fn entries(&self) -> impl Iterator<Item = *mut u8> + use<> {
        let (first, stride) = (self.header.dense, self.stride);
        // SAFETY: as above.
        let dense = (0..self.dense_places()).map(move |i| unsafe { first.add(i * stride) });
        self.hashed().chain(dense)
    }

    /// Whether an entry is in the region, and not in an array.
    pub(crate) fn is_dense(&self, entry: *const u8) -> bool {
        match &self.dense {
            Dense::Entries(memory) => memory.contains(entry),
            Dense::Array(_) => false,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let dense = match &self.dense {
            Dense::Entries(memory) => memory.bytes(),
            Dense::Array(region) => region.bytes(),
        };
        self.memory.bytes() + dense + self.directory.bytes()
    }
}
