//! The files that a share has read to their end, as checkpoints remember them: all of them, so in few bytes each.
//!
//! ```text
//! file:  bytes that its name has in common with the one before │ bytes of the rest │ rest │ kind │ fingerprint
//! kind:  0 nothing is known of its contents; 1 another file took its place, 2 inode, bytes, time and hashes of samples
//! ```
//! Numbers are of seven bits a byte, the lowest first; times and hashes have eight bytes.

use super::fingerprint::PackedFingerprint;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

const UNKNOWN: u64 = 0;
const REPLACED: u64 = 1;
const READ: u64 = 2;

/// See the module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct FinishedFiles {
    bytes: Vec<u8>,
    last: String,
}

/// A file and what is known of it.
pub(super) type Finished = (String, Option<PackedFingerprint>);

impl FinishedFiles {
    /// Adds a file, with what its witness says of it.
    pub(super) fn push(&mut self, name: &str, described: Option<&Value>) {
        let common = self.last.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let rest = &name.as_bytes()[common..];
        self.number(common as u64);
        self.number(rest.len() as u64);
        self.bytes.extend_from_slice(rest);
        self.last = name.to_string();
        let Some(PackedFingerprint { inode, bytes, modified, hashes }) = described.and_then(PackedFingerprint::of)
        else {
            return self.number(UNKNOWN);
        };
        self.number(if hashes.is_some() { READ } else { REPLACED });
        self.number(inode);
        self.number(bytes);
        self.bytes.extend_from_slice(&modified.to_le_bytes());
        for hash in hashes.into_iter().flatten() {
            self.bytes.extend_from_slice(&hash.to_le_bytes());
        }
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// For a checkpoint.
    pub(super) fn to_text(&self) -> String {
        STANDARD_NO_PAD.encode(&self.bytes)
    }

    /// What a checkpoint says, and each of its files; `None` if it is damaged.
    pub(super) fn of_text(text: &str) -> Option<(FinishedFiles, Vec<Finished>)> {
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (mut rest, mut files, mut last) = (&bytes[..], Vec::new(), Vec::new());
        while !rest.is_empty() {
            let common = length(&mut rest)?;
            let added = length(&mut rest)?;
            last.truncate(Some(common).filter(|common| *common <= last.len())?);
            last.extend_from_slice(rest.split_off(..added)?);
            let name = String::from_utf8(last.clone()).ok()?;
            files.push((name, fingerprint(&mut rest)?));
        }
        Some((FinishedFiles { last: String::from_utf8(last).ok()?, bytes }, files))
    }
}

fn fingerprint(rest: &mut &[u8]) -> Option<Option<PackedFingerprint>> {
    let kind = number(rest)?;
    if kind == UNKNOWN {
        return Some(None);
    }
    let (inode, bytes) = (number(rest)?, number(rest)?);
    let modified = i64::from_le_bytes(eight(rest)?);
    let hashes = match kind {
        REPLACED => None,
        READ => {
            let count = PackedFingerprint::hashes_of(bytes);
            Some((0..count).map(|_| eight(rest).map(u64::from_le_bytes)).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(Some(PackedFingerprint { inode, bytes, modified, hashes }))
}

fn eight(rest: &mut &[u8]) -> Option<[u8; 8]> {
    rest.split_off(..8)?.try_into().ok()
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    number(rest).and_then(|number| usize::try_from(number).ok())
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7F).checked_shl(shift).filter(|bits| bits >> shift == u64::from(byte & 0x7F))?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: u64) -> PackedFingerprint {
        let hashes = (0..PackedFingerprint::hashes_of(bytes) as u64).map(|hash| hash << 40).collect();
        PackedFingerprint { inode: u64::MAX, bytes, modified: -1, hashes: Some(hashes) }
    }

    fn files() -> Vec<Finished> {
        let replaced = PackedFingerprint { inode: 0, bytes: 0, modified: 0, hashes: None };
        [
            ("/in/a-1.csv", Some(read(0))),
            ("/in/a-2.csv", Some(read(1 << 40))),
            ("/in/é.csv", None),
            ("/in/è.csv", Some(replaced)),
            ("", None),
            ("b", Some(read(7))),
        ]
        .map(|(name, known)| (name.to_string(), known))
        .to_vec()
    }

    #[test]
    fn all_files_come_back() {
        let mut finished = FinishedFiles::default();
        for (name, known) in files() {
            finished.push(&name, known.as_ref().map(PackedFingerprint::described).as_ref());
            // Each is added to what an earlier process has left.
            let again = FinishedFiles::of_text(&finished.to_text()).unwrap();
            assert_eq!(again.0, finished);
            finished = again.0;
        }
        assert_eq!(FinishedFiles::of_text(&finished.to_text()).unwrap().1, files());
    }

    #[test]
    fn a_file_takes_some_sixty_bytes() {
        let mut finished = FinishedFiles::default();
        let count = 10_000;
        for i in 0..count {
            let known = PackedFingerprint { inode: 20_000_000 + i, modified: 1 << 60, ..read(100_000_000) };
            finished.push(&format!("/data/in/2026-11-30/part-{i:06}.json"), Some(&known.described()));
        }
        let each = finished.to_text().len() as u64 / count;
        assert!((40..70).contains(&each), "{each} bytes");
    }

    #[test]
    fn damage_is_noticed() {
        let mut finished = FinishedFiles::default();
        files().iter().for_each(|(name, known)| {
            finished.push(name, known.as_ref().map(PackedFingerprint::described).as_ref());
        });
        let whole = finished.bytes;
        for end in 0..whole.len() {
            let text = STANDARD_NO_PAD.encode(&whole[..end]);
            assert!(FinishedFiles::of_text(&text).is_none_or(|(_, found)| files().starts_with(&found)), "{end} bytes");
        }
        for text in ["?", "////////////////", "AAAABA", "BQAA"] {
            assert_eq!(FinishedFiles::of_text(text), None, "{text}");
        }
    }
}
