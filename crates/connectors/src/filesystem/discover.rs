//! Which files a `path` option means.

use crate::option_table::{nearest, option_fault};
use crate::text_chunk::{FileInfo, whole};
use millstream_types::{Diagnostic, Place, code};
use std::cmp::Ordering;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The name under which standard input appears in messages and metadata.
pub(super) const STDIN: &str = "stdin";

/// A file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputFile {
    /// `None` for standard input.
    pub path: Option<PathBuf>,
    /// Whether it is a pipe or a terminal, whose bytes are handed on as they come.
    pub stream: bool,
    /// What messages and metadata columns say.
    pub info: FileInfo,
}

/// Whether a path means standard input.
pub(super) fn is_standard_input(path: &str) -> bool {
    matches!(without_scheme(path), "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

fn without_scheme(path: &str) -> &str {
    path.strip_prefix("file://").or_else(|| path.strip_prefix("file:")).unwrap_or(path)
}

/// The path without `file://`.
pub(super) fn local_path(path: &str) -> Result<&str, Diagnostic> {
    let local = without_scheme(path);
    match local.split_once("://") {
        Some((scheme, _)) if !scheme.contains(['/', '*', '?', '[']) => {
            let message = format!("the path '{path}' is in a '{scheme}' store; only local files can be used");
            Err(option_fault(code::UNSUPPORTED, "path", message, "give a local path, with or without file://"))
        }
        _ if local.is_empty() => {
            Err(Diagnostic::new(code::INVALID_OPTION, "the path is empty").at(Place::Option("path".into())))
        }
        _ => Ok(local),
    }
}

/// All files that `path` means: a file, every file below a directory, or what a glob matches; sorted by name, numbers in names by what they are worth.
pub(super) fn discover(path: &str) -> Result<Vec<InputFile>, Diagnostic> {
    if is_standard_input(path) {
        let info = FileInfo { path: STDIN.into(), name: STDIN.into(), ..FileInfo::default() };
        return Ok(vec![InputFile { path: None, stream: true, info }]);
    }
    let local = local_path(path)?;
    let files = look(local)?;
    if files.is_empty() && is_pattern(local) && !fs::exists(local).unwrap_or(false) {
        let advice = format!("check the pattern: relative paths start at {}", working_directory());
        return Err(option_fault(code::FILE_NOT_FOUND, "path", format!("no file matches '{path}'"), advice));
    }
    Ok(files)
}

/// The files that a local path means now, in the same order; of a glob there may be none.
pub(super) fn look(local: &str) -> Result<Vec<InputFile>, Diagnostic> {
    let mut files = Vec::new();
    match fs::metadata(local) {
        Ok(metadata) => add(Path::new(local), &metadata, &mut files)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound && is_pattern(local) => add_glob(local, &mut files)?,
        Err(e) => return Err(read_error(local, &e)),
    }
    files.sort_by(|a, b| {
        let names = [a, b].map(|file| file.path.as_ref().map(|path| path.to_string_lossy()).unwrap_or_default());
        by_numbers(&names[0], &names[1]).then_with(|| a.path.cmp(&b.path))
    });
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

/// Whether a path means one file (or a pipe), not those of a directory or a glob.
pub(super) fn is_one_file(path: &str) -> Result<bool, Diagnostic> {
    let local = local_path(path)?;
    match fs::metadata(local) {
        Ok(metadata) => Ok(!metadata.is_dir()),
        Err(e) if e.kind() == io::ErrorKind::NotFound && is_pattern(local) => Ok(false),
        Err(e) => Err(read_error(local, &e)),
    }
}

/// The file of a path, if it is there.
pub(super) fn file_at(path: &str) -> Result<Option<InputFile>, Diagnostic> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(input_file(Path::new(path), &metadata))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(read_error(path, &e)),
    }
}

fn is_pattern(local: &str) -> bool {
    local.contains(['*', '?', '['])
}

/// The order of names in which numbers count by their values: `part-9` is before `part-10`, which was written behind it.
fn by_numbers(a: &str, b: &str) -> Ordering {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        if !(is_digit(x) && is_digit(y)) {
            match x.cmp(y) {
                Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                other => return other,
            }
            continue;
        }
        let number = |text: &[u8]| text.iter().take_while(|byte| is_digit(byte)).count();
        let ((x, rest_of_a), (y, rest_of_b)) = (a.split_at(number(a)), b.split_at(number(b)));
        let worth = |digits: &'_ [u8]| digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
        let (x, y) = (&x[worth(x)..], &y[worth(y)..]);
        match x.len().cmp(&y.len()).then_with(|| x.cmp(y)) {
            Ordering::Equal => (a, b) = (rest_of_a, rest_of_b),
            other => return other,
        }
    }
    a.len().cmp(&b.len())
}

fn add_glob(pattern: &str, files: &mut Vec<InputFile>) -> Result<(), Diagnostic> {
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::new()
    };
    let matches = glob::glob_with(pattern, options).map_err(|e| {
        Diagnostic::new(code::INVALID_OPTION, format!("the path '{pattern}' is not a pattern: {e}"))
            .at(Place::Option("path".into()))
    })?;
    for entry in matches {
        let path = entry.map_err(|e| read_error(&e.path().to_string_lossy(), e.error()))?;
        match fs::metadata(&path) {
            Ok(metadata) => add(&path, &metadata, files)?,
            // Gone since it was matched, or a link to nowhere.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(read_error(&path.to_string_lossy(), &e)),
        }
    }
    Ok(())
}

/// Adds a file, or all files below a directory except hidden ones and those that start with `_`.
fn add(path: &Path, metadata: &Metadata, files: &mut Vec<InputFile>) -> Result<(), Diagnostic> {
    if !metadata.is_dir() {
        files.push(input_file(path, metadata));
        return Ok(());
    }
    let failed = |e: io::Error| read_error(&path.to_string_lossy(), &e);
    let entries = match fs::read_dir(path) {
        // Gone since its own directory was listed.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if matches!(entry.file_name().as_encoded_bytes().first(), Some(b'.' | b'_')) {
            continue;
        }
        let below = entry.path();
        // A link to a directory is not followed, so that a loop of links cannot trap us.
        let is_link = entry.file_type().map_err(failed)?.is_symlink();
        match fs::metadata(&below) {
            Ok(metadata) if is_link && metadata.is_dir() => {}
            Ok(metadata) => add(&below, &metadata, files)?,
            // Gone since the directory was listed, or a link to nowhere.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(read_error(&below.to_string_lossy(), &e)),
        }
    }
    Ok(())
}

fn input_file(path: &Path, metadata: &Metadata) -> InputFile {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let info = FileInfo {
        path: path.to_string_lossy().into_owned(),
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        size: metadata.len(),
        modified_ms: modified.map_or(0, |since| since.as_millis() as i64),
    };
    InputFile { path: Some(path.to_path_buf()), stream: !metadata.is_file(), info }
}

/// The directory that relative paths start at, as a message names it.
fn working_directory() -> String {
    std::env::current_dir().map_or_else(|_| "the working directory".into(), |path| path.display().to_string())
}

/// The file beside a missing one whose name is like it, as a question.
fn meant(resource: &str) -> String {
    let path = Path::new(resource);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return String::new() };
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten().take(1000);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    match nearest(&name, names.iter().map(String::as_str)) {
        Some(near) => {
            format!("did you mean '{}'? ", folder.map_or_else(|| near.into(), |f| f.join(near).display().to_string()))
        }
        None => String::new(),
    }
}

/// The error for a file that cannot be opened or read.
pub(crate) fn read_error(resource: &str, error: &io::Error) -> Diagnostic {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let advice = format!("{}relative paths start at {}", meant(resource), working_directory());
            option_fault(code::FILE_NOT_FOUND, "path", format!("there is no file or directory '{resource}'"), advice)
        }
        io::ErrorKind::PermissionDenied => {
            Diagnostic::new(code::READ_FAILED, format!("'{resource}' must not be read: {error}"))
                .at(whole(resource))
                .advise("give the user read permission")
        }
        _ => Diagnostic::new(code::READ_FAILED, format!("reading '{resource}' failed: {error}")).at(whole(resource)),
    }
}

/// The error for a file that is not the one that was read before.
pub(super) fn input_replaced(resource: &str, what: &str) -> Diagnostic {
    let message = format!("the file is not as it was when the checkpoint was taken: {what}");
    Diagnostic::new(code::INPUT_CHANGED, message)
        .at(whole(resource))
        .advise("put the file back as it was, and new rows into new files; or start from the beginning with another state directory")
}

/// The error for a file that has less than what was read of it before: both in `unit`.
pub(crate) fn input_changed(resource: &str, has: u64, read: u64, unit: &str) -> Diagnostic {
    let message = format!("the file has {has} {unit}, but {read} had been read when the checkpoint was taken");
    Diagnostic::new(code::INPUT_CHANGED, message)
        .at(whole(resource))
        .advise("put the file back as it was; new data belong into new files or at the end of this one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_their_values() {
        let sorted = [
            "a",
            "a-1",
            "a-02",
            "a-2b",
            "a-9",
            "a-10",
            "a-010b",
            "a-99999999999999999999",
            "a-100000000000000000000",
            "b",
        ];
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(by_numbers(a, b), at.cmp(&other), "{a} {b}");
            }
        }
    }
}
