//! Machine code on disk: a directory with a file for each program, for the next process that needs it.
//!
//! A file is loaded as code, so it is looked at closely before: directory and file must belong to the user of the process
//! and be writable by nobody else; the file must have the whole key that was asked for, the lengths that it says, and the
//! right checksum. Whatever is wrong with it, it is not used, the program is compiled, and the file replaced. Nothing
//! that happens here fails a query.
//!
//! Files appear whole under their name (they are written under another and renamed), so any number of processes may read
//! and write a directory. Its size is bounded: those that were not used for the longest time go first.
//!
//! ```text
//! magic, 8 bytes │ version, u32 │ length of the key, u64 │ length of the object, u64 │ key │ object │ XXH3 of all before, u128
//! ```

use super::key::CodeKey;
use millstream_storage::{check_own, make_private};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8; 8] = b"MSTRCODE";
/// Of the form above. What is in an object is part of its key.
const VERSION: u32 = 1;
const HEADER: usize = 28;
const CHECKSUM: usize = 16;
const SUFFIX: &str = ".code";
const TEMPORARY: &str = ".writing-";
/// Bytes of all files together.
const LIMIT: u64 = 64 << 20;
/// Longer files are not kept: a single program shall not push all others out.
const FILE_LIMIT: u64 = LIMIT / 8;
/// Looking at all files takes milliseconds when there are thousands, so only one write in this many does it.
const TRIMMED_EVERY: u128 = 16;
/// A file that is still being written after this time belongs to a process that is gone.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3600);

/// A directory for code. It is made when something is written.
#[derive(Debug, Clone)]
pub(crate) struct CodeDirectory {
    path: PathBuf,
    limit: u64,
}

/// Where programs of the user keep code: `$XDG_CACHE_HOME/millstream/code`, or `~/.cache/millstream/code`; `None` without a
/// home.
pub fn user_code_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("millstream/code"))
}

impl CodeDirectory {
    pub(crate) fn new(path: PathBuf) -> CodeDirectory {
        CodeDirectory { path, limit: LIMIT }
    }

    /// The object file that is kept for a key; `None` if there is none, or no directory. Fails, with the reason, when a file is not to
    /// be used.
    pub(super) fn read(&self, key: &CodeKey) -> Result<Option<Vec<u8>>, String> {
        let path = self.file(key);
        let file = match fs::symlink_metadata(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            file => file,
        };
        check_own(&self.path).map_err(|e| refused(&self.path, &e))?;
        let file = file.map_err(|e| refused(&path, &e))?;
        check_own(&path).map_err(|e| refused(&path, &e))?;
        if !file.is_file() || file.len() > FILE_LIMIT {
            return Err(format!("'{}' is not a file of machine code", path.display()));
        }
        let bytes = fs::read(&path).map_err(|e| failed(&path, &e))?;
        let object = unpack(&bytes, key).map_err(|what| format!("'{}' {what}", path.display()))?;
        note_use(&path);
        Ok(Some(object.to_vec()))
    }

    /// Keeps an object file. Fails, with the reason, when the directory or the disk does not allow it.
    pub(super) fn write(&self, key: &CodeKey, object: &[u8]) -> Result<(), String> {
        let bytes = pack(key, object);
        if bytes.len() as u64 > FILE_LIMIT.min(self.limit) {
            return Ok(());
        }
        let path = self.file(key);
        let write = || -> io::Result<()> {
            let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.path)?;
            file.write_all(&bytes)?;
            file.persist(&path)?;
            Ok(())
        };
        // Modes are those of the user alone: of directories by this, of temporary files anyway.
        make_private(&self.path).map_err(|e| refused(&self.path, &e))?;
        write().map_err(|e| failed(&path, &e))?;
        if key.is_one_of(TRIMMED_EVERY) { self.trim().map_err(|e| failed(&self.path, &e)) } else { Ok(()) }
    }

    fn file(&self, key: &CodeKey) -> PathBuf {
        self.path.join(key.digits() + SUFFIX)
    }

    /// Removes what was not used for the longest time until the rest is within the bound, and what others have left
    /// half written. Other files are not ours and stay.
    fn trim(&self) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Somebody else may remove the file meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            let used = metadata.modified()?;
            if name.ends_with(SUFFIX) {
                files.push((used, metadata.len(), entry.path()));
            } else if name.starts_with(TEMPORARY) && used.elapsed().is_ok_and(|age| age > WRITTEN_WITHIN) {
                let _ = fs::remove_file(entry.path());
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, length, path) in files {
            if bytes <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= length;
        }
        Ok(())
    }
}

/// Why a path cannot be used, which a refusal says by itself.
fn refused(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => error.to_string(),
        _ => failed(path, error),
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("'{}' cannot be used: {error}", path.display())
}

/// Makes the file the last used one. When that is not allowed, it is only forgotten earlier.
fn note_use(path: &Path) {
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

fn pack(key: &CodeKey, object: &[u8]) -> Vec<u8> {
    let text = key.text().as_bytes();
    let mut bytes = Vec::with_capacity(HEADER + text.len() + object.len() + CHECKSUM);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&(object.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text);
    bytes.extend_from_slice(object);
    let checksum = xxh3_128(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The object in a file for a key, or what is wrong with the file.
fn unpack<'a>(bytes: &'a [u8], key: &CodeKey) -> Result<&'a [u8], &'static str> {
    const DAMAGED: &str = "is damaged";
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(DAMAGED)?;
    if u128::from_le_bytes(*checksum) != xxh3_128(content) {
        return Err(DAMAGED);
    }
    let (magic, rest) = content.split_first_chunk::<8>().ok_or(DAMAGED)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(DAMAGED)?;
    if magic != MAGIC || u32::from_le_bytes(*version) != VERSION {
        return Err("has another form than this version's");
    }
    let (text, rest) = rest.split_first_chunk::<8>().ok_or(DAMAGED)?;
    let (object, rest) = rest.split_first_chunk::<8>().ok_or(DAMAGED)?;
    let (text, object) = (u64::from_le_bytes(*text), u64::from_le_bytes(*object));
    if text.checked_add(object) != Some(rest.len() as u64) {
        return Err(DAMAGED);
    }
    let (text, object) = rest.split_at(text as usize);
    if text == key.text().as_bytes() { Ok(object) } else { Err("is for another program or machine") }
}

#[cfg(test)]
mod tests;
