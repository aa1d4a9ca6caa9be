//! Checksums of output files, which tell a recovery that they are as they were left.
//!
//! The checksum of a file is the sum of those of its blocks of [`BLOCK`] bytes (xxh3, with the block's number as its seed, modulo
//! 2⁶⁴). So it grows with the file, and resuming a file needs only the bytes of its last block.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a block.
const BLOCK: u64 = 1 << 20;

/// The checksum of what has been written of a file.
pub(super) struct Checksum {
    /// That of the complete blocks.
    complete: u64,
    /// Bytes so far.
    bytes: u64,
    /// Of the block that is not complete; half a kilobyte.
    last: Box<Xxh3>,
}

fn block(number: u64) -> Box<Xxh3> {
    Box::new(Xxh3::with_seed(number))
}

impl Checksum {
    /// Of an empty file.
    pub(super) fn new() -> Checksum {
        Checksum { complete: 0, bytes: 0, last: block(0) }
    }

    /// Of the first `bytes` bytes of a file.
    ///
    /// # Errors
    /// When it has fewer, or cannot be read.
    pub(super) fn of_file(file: &File, bytes: u64) -> io::Result<Checksum> {
        let mut checksum = Checksum::new();
        checksum.read(file, bytes)?;
        Ok(checksum)
    }

    /// Of the first `bytes` bytes of a file that are known to have the checksum `value`: only the last block is read.
    pub(super) fn resumed(file: &File, bytes: u64, value: u64) -> io::Result<Checksum> {
        let number = bytes / BLOCK;
        let mut checksum = Checksum { complete: 0, bytes: number * BLOCK, last: block(number) };
        checksum.read(file, bytes)?;
        checksum.complete = value.wrapping_sub(checksum.of_last());
        Ok(checksum)
    }

    fn read(&mut self, mut file: &File, until: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut buffer = vec![0; (until - self.bytes).min(BLOCK) as usize];
        while self.bytes < until {
            let most = (until - self.bytes).min(BLOCK) as usize;
            file.read_exact(&mut buffer[..most])?;
            self.update(&buffer[..most]);
        }
        Ok(())
    }

    /// Takes in what was written behind it.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (BLOCK - self.bytes % BLOCK) as usize;
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.last.update(now);
            self.bytes += now.len() as u64;
            bytes = rest;
            if now.len() == room {
                self.complete = self.complete.wrapping_add(self.last.digest());
                self.last = block(self.bytes / BLOCK);
            }
        }
    }

    fn of_last(&self) -> u64 {
        if self.bytes.is_multiple_of(BLOCK) { 0 } else { self.last.digest() }
    }

    /// Its value.
    pub(super) fn value(&self) -> u64 {
        self.complete.wrapping_add(self.of_last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn it_is_that_of_the_bytes_however_they_come() {
        let bytes: Vec<u8> = (0..2 * BLOCK + 12_345).map(|at| (at * at / 7) as u8).collect();
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 12_345] {
            let bytes = &bytes[..length as usize];
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file.write_all(b"more").unwrap();
            let expected = Checksum::of_file(&file, length).unwrap().value();
            for piece in [7_777, 65_536, 3 << 20] {
                let mut checksum = Checksum::new();
                bytes.chunks(piece).for_each(|piece| checksum.update(piece));
                assert_eq!(checksum.value(), expected, "{length} bytes in pieces of {piece}");
            }
            // Resuming the file is the same as never having stopped.
            let mut resumed = Checksum::resumed(&file, length, expected).unwrap();
            assert_eq!(resumed.value(), expected);
            resumed.update(b"more");
            assert_eq!(resumed.value(), Checksum::of_file(&file, length + 4).unwrap().value());
        }
    }

    #[test]
    fn other_bytes_or_places_have_another() {
        let value = |bytes: &[u8]| {
            let mut checksum = Checksum::new();
            checksum.update(bytes);
            checksum.value()
        };
        let (mut bytes, block) = (vec![0; 3 << 20], 1 << 20);
        bytes[..block].fill(1);
        let of = value(&bytes);
        for at in [0, block - 1, block, 2 * block + 5] {
            bytes[at] ^= 4;
            assert_ne!(value(&bytes), of, "byte {at}");
            bytes[at] ^= 4;
        }
        bytes.rotate_right(block);
        assert_ne!(value(&bytes), of, "blocks are exchanged");
    }
}
