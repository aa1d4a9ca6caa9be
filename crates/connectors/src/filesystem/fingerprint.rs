//! Whether an input file is still the one that a checkpoint has read a part of.
//!
//! A fingerprint has the file's inode, size and time, and the xxh3 of its first [`SAMPLE`] bytes and of as many before the place up to
//! which it was read. If inode, size and time are the same, so is the file. Otherwise its bytes have to be: it may have been copied
//! back, or have got more rows at its end.

use super::discover::{input_replaced, read_error};
use crate::{Position, Witness, locked};
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes at the start of a file, and before the place up to which it was read.
const SAMPLE: u64 = 64 << 10;

/// Which part of a file a position stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The bytes before it.
    Bytes,
    /// Some bytes, which nobody knows: it is compressed.
    Compressed,
    /// All: the file is read by what is at its end.
    Whole,
}

/// Watches a file while it is read.
#[derive(Debug)]
pub(crate) struct FileWitness {
    path: PathBuf,
    extent: Extent,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Of the file that was opened.
    inode: Option<u64>,
    /// Its size, once it has been read to its end.
    end: Option<u64>,
    /// As it was read to its end.
    complete: Option<Value>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Fingerprint {
    inode: u64,
    /// Of a file that was read to its end, those that were read.
    bytes: u64,
    /// Nanoseconds since the epoch.
    modified: i64,
    /// `None`: while it was read, another file took its place.
    samples: Option<Vec<Sample>>,
}

/// Some bytes of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    start: u64,
    bytes: u64,
    xxh3: u64,
}

impl Fingerprint {
    /// Whether [`FileWitness::fingerprint`] can have made it: a checkpoint may be damaged.
    fn is_possible(&self) -> bool {
        let is_possible = |s: &Sample| s.bytes <= SAMPLE && s.start.checked_add(s.bytes).is_some();
        self.samples.iter().flatten().all(is_possible)
    }
}

/// Starts and lengths of the samples of a file of which so many bytes are known.
fn sampled(known: u64, has_tail: bool) -> Vec<(u64, u64)> {
    let head = known.min(SAMPLE);
    let mut samples = vec![(0, head)];
    if has_tail && known > head {
        let start = known.saturating_sub(SAMPLE).max(head);
        samples.push((start, known - start));
    }
    samples
}

/// The fingerprint of a file that was read to its end in few bytes: what [`FileWitness::verify`] understands, without what follows from its
/// length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackedFingerprint {
    pub(super) inode: u64,
    pub(super) bytes: u64,
    pub(super) modified: i64,
    /// Of its samples; `None`: another file took its place.
    pub(super) hashes: Option<Vec<u64>>,
}

impl PackedFingerprint {
    /// Hashes that a file of this length has.
    pub(super) fn hashes_of(bytes: u64) -> usize {
        sampled(bytes, true).len()
    }

    /// Of what a witness has said of a file that was read to its end.
    pub(super) fn of(described: &Value) -> Option<PackedFingerprint> {
        let Fingerprint { inode, bytes, modified, samples } = Fingerprint::deserialize(described).ok()?;
        let hashes = samples.map(|samples| samples.iter().map(|sample| sample.xxh3).collect::<Vec<u64>>());
        let is_whole = hashes.as_ref().is_none_or(|hashes| hashes.len() == PackedFingerprint::hashes_of(bytes));
        is_whole.then_some(PackedFingerprint { inode, bytes, modified, hashes })
    }

    /// What the witness had said.
    pub(super) fn described(&self) -> Value {
        let PackedFingerprint { inode, bytes, modified, ref hashes } = *self;
        let sample = |((start, bytes), xxh3): ((u64, u64), &u64)| Sample { start, bytes, xxh3: *xxh3 };
        let samples = hashes.as_ref().map(|hashes| sampled(bytes, true).into_iter().zip(hashes).map(sample).collect());
        serde_json::to_value(Fingerprint { inode, bytes, modified, samples }).unwrap_or_default()
    }
}

fn modified(metadata: &Metadata) -> i64 {
    metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec())
}

impl FileWitness {
    pub(crate) fn new(path: PathBuf, extent: Extent) -> Arc<FileWitness> {
        Arc::new(FileWitness { path, extent, seen: Mutex::default() })
    }

    /// The file has been opened.
    pub(crate) fn opened(&self, metadata: &Metadata) {
        locked(&self.seen).inode = Some(metadata.ino());
    }

    /// It has been read to its end; `bytes` if it is known how many that are.
    pub(crate) fn ended(&self, bytes: Option<u64>) {
        let bytes = bytes.or_else(|| fs::metadata(&self.path).ok().map(|metadata| metadata.len()));
        locked(&self.seen).end = bytes;
    }

    fn fingerprint(&self, inode: u64, at: Option<u64>, end: Option<u64>) -> Option<Fingerprint> {
        let replaced = Fingerprint { inode, bytes: 0, modified: 0, samples: None };
        let Ok(file) = File::open(&self.path) else { return Some(replaced) };
        let Ok(metadata) = file.metadata() else { return Some(replaced) };
        if metadata.ino() != inode {
            return Some(replaced);
        }
        let size = metadata.len();
        let (known, has_tail) = match (end, self.extent) {
            (Some(end), _) => (end, true),
            (None, Extent::Whole) => (size, true),
            (None, Extent::Bytes) => (at?, true),
            (None, Extent::Compressed) => (at.map(|_| size)?, false),
        };
        let samples: io::Result<Vec<Sample>> = sampled(known, has_tail)
            .into_iter()
            .map(|(start, bytes)| Ok(Sample { start, bytes, xxh3: hash_of(&file, start, bytes)? }))
            .collect();
        // What came behind the end while nobody looked is not known to have been there.
        let is_as_read = end.is_none_or(|end| end == size);
        let modified = if is_as_read { modified(&metadata) } else { 0 };
        Some(Fingerprint { inode, bytes: end.unwrap_or(size), modified, samples: samples.ok() })
    }

    /// Whether the file is the one that a fingerprint was made of, as far as it was read.
    pub(crate) fn verify(&self, described: &Value, has_ended: bool) -> Result<(), Diagnostic> {
        let name = self.path.to_string_lossy();
        let failed = |e: io::Error| read_error(&name, &e);
        let then = Fingerprint::deserialize(described).ok().filter(Fingerprint::is_possible);
        let Some(then) = then else {
            let message = format!("the checkpoint says '{described}' of the input '{name}', which makes no sense");
            return Err(Diagnostic::new(code::CHECKPOINT_DAMAGED, message));
        };
        let file = File::open(&self.path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if (metadata.ino(), metadata.len(), modified(&metadata)) == (then.inode, then.bytes, then.modified) {
            return Ok(());
        }
        let Some(samples) = then.samples else {
            return Err(input_replaced(&name, "another file took its place while it was read"));
        };
        for Sample { start, bytes, xxh3 } in samples {
            if hash_of(&file, start, bytes).map_err(failed)? != xxh3 {
                let end = start + bytes;
                return Err(input_replaced(&name, &format!("its bytes {start} to {end} were others when it was read")));
            }
        }
        let (size, before) = (metadata.len(), then.bytes);
        match self.extent {
            Extent::Whole if size != before => {
                Err(input_replaced(&name, &format!("it had {before} bytes and has {size}")))
            }
            _ if has_ended && size > before => {
                let what = format!(
                    "it had been read to its end at {before} bytes, and has {size} now, which nobody would read"
                );
                Err(input_replaced(&name, &what))
            }
            _ => Ok(()),
        }
    }
}

/// The xxh3 of some bytes; if the file has fewer, of those that are there.
fn hash_of(mut file: &File, start: u64, bytes: u64) -> io::Result<u64> {
    let mut buffer = Vec::with_capacity(bytes as usize);
    file.seek(SeekFrom::Start(start))?;
    file.take(bytes).read_to_end(&mut buffer)?;
    Ok(xxh3_64(&buffer))
}

impl Witness for FileWitness {
    fn describe(&self, at: Option<Position>, has_ended: bool) -> Option<Value> {
        let seen = locked(&self.seen);
        if let (true, Some(complete)) = (has_ended, &seen.complete) {
            return Some(complete.clone());
        }
        let (inode, end) = (seen.inode?, seen.end.filter(|_| has_ended));
        // The reader does not wait for the disk.
        drop(seen);
        let described = serde_json::to_value(self.fingerprint(inode, at.map(|at| at.at), end)?).ok()?;
        if end.is_some() {
            locked(&self.seen).complete = Some(described.clone());
        }
        Some(described)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Bytes of the file, of which `READ` have been read.
    const SIZE: usize = 300_000;
    const READ: u64 = 200_000;

    fn contents() -> Vec<u8> {
        (0..SIZE).map(|at| (at * 31 / 7) as u8).collect()
    }

    /// The fingerprint of a file, read up to `READ` or to its end.
    fn described(path: &std::path::Path, extent: Extent, has_ended: bool) -> Value {
        let witness = FileWitness::new(path.to_path_buf(), extent);
        let at = Some(Position { at: READ, line: 0 });
        assert_eq!(witness.describe(at, false), None, "nothing was read");
        witness.opened(&fs::metadata(path).unwrap());
        if has_ended {
            witness.ended(None);
        }
        witness.describe(at, has_ended).unwrap()
    }

    /// What is done to the file afterwards, and whether that is noticed of one that is read by bytes, compressed, and as a whole, and
    /// of one that had been read to its end.
    type Change = (&'static str, fn(&mut Vec<u8>), [bool; 4]);

    const CHANGES: &[Change] = &[
        ("nothing", |_| {}, [false; 4]),
        ("more", |bytes| bytes.extend([7; 1000]), [false, false, true, true]),
        ("the first byte", |bytes| bytes[0] ^= 1, [true; 4]),
        ("a byte before the place", |bytes| bytes[READ as usize - 1] ^= 1, [true, false, false, false]),
        ("a byte behind the place", |bytes| bytes[READ as usize] ^= 1, [false; 4]),
        ("the last byte", |bytes| bytes[SIZE - 1] ^= 1, [false, false, true, true]),
        ("a row that was put in", |bytes| bytes.insert(100_000, 5), [true, false, true, true]),
        ("less", |bytes| bytes.truncate(150_000), [true, false, true, true]),
    ];

    #[test]
    fn changes_of_what_was_read_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        let kinds =
            [(Extent::Bytes, false), (Extent::Compressed, false), (Extent::Whole, false), (Extent::Bytes, true)];
        for (what, change, noticed) in CHANGES {
            for ((extent, has_ended), noticed) in kinds.into_iter().zip(noticed) {
                fs::write(&path, contents()).unwrap();
                let then = described(&path, extent, has_ended);
                let mut bytes = contents();
                change(&mut bytes);
                // Another file of the same name, with another time.
                let copy = folder.path().join("copy");
                File::create(&copy).unwrap().write_all(&bytes).unwrap();
                fs::rename(&copy, &path).unwrap();
                let found = FileWitness::new(path.clone(), extent).verify(&then, has_ended);
                assert_eq!(found.is_err(), *noticed, "{what} of {extent:?}, at its end: {has_ended}: {found:?}");
                if let Err(error) = found {
                    assert_eq!(error.code, code::INPUT_CHANGED);
                    assert!(error.to_string().contains("in.csv"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_replaced_while_it_is_read_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        fs::write(&path, contents()).unwrap();
        let witness = FileWitness::new(path.clone(), Extent::Bytes);
        witness.opened(&fs::metadata(&path).unwrap());
        fs::write(folder.path().join("other"), contents()).unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        let then = witness.describe(Some(Position { at: READ, line: 0 }), false).unwrap();
        let error = FileWitness::new(path, Extent::Bytes).verify(&then, false).unwrap_err();
        assert!(error.message.contains("took its place"), "{error}");
    }

    #[test]
    fn a_packed_fingerprint_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        for size in [0, 1, SAMPLE as usize, SAMPLE as usize + 1, SIZE] {
            fs::write(&path, &contents()[..size]).unwrap();
            for extent in [Extent::Bytes, Extent::Compressed, Extent::Whole] {
                let then = described(&path, extent, true);
                assert_eq!(PackedFingerprint::of(&then).unwrap().described(), then, "{size} bytes of {extent:?}");
            }
        }
    }

    #[test]
    fn a_damaged_fingerprint_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        fs::write(&path, contents()).unwrap();
        let whole = described(&path, Extent::Bytes, false);
        for (place, value) in [("/samples/0/bytes", u64::MAX), ("/samples/1/start", u64::MAX), ("/samples", 7)] {
            let mut then = whole.clone();
            *then.pointer_mut("/modified").unwrap() = 0.into();
            *then.pointer_mut(place).unwrap() = value.into();
            let error = FileWitness::new(path.clone(), Extent::Bytes).verify(&then, false).unwrap_err();
            assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{error}");
        }
    }

    #[test]
    fn small_and_empty_files_have_fingerprints() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.csv");
        for size in [0, 1, SAMPLE as usize, SAMPLE as usize + 1] {
            fs::write(&path, vec![1; size]).unwrap();
            let witness = FileWitness::new(path.clone(), Extent::Bytes);
            witness.opened(&fs::metadata(&path).unwrap());
            witness.ended(Some(size as u64));
            let then = witness.describe(None, true).unwrap();
            fs::write(&path, vec![2; size]).unwrap();
            assert_eq!(witness.describe(None, true).unwrap(), then, "it is described once");
            let found = FileWitness::new(path.clone(), Extent::Bytes).verify(&then, true);
            assert_eq!(found.is_err(), size > 0, "{size}");
        }
    }
}
