//! The directory of a service: its files, and what has changed in it.
//!
//! It is looked at every second: that needs nothing of the file system, and finds changes on network file systems and in volumes of containers,
//! too. A file that has been written within the last moments may be half of what it is going to be, so it is left alone until it stays as it
//! is; one that is missing may be on its way back under its name, so it has to be missing twice.

use super::script::{JobScript, Stamp};
use millstream::{Diagnostic, Place, code};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What each script has in front of its own statements.
pub(super) const COMMON: &str = "_common.sql";
/// A file that has not been written for so long is complete.
const SETTLED: Duration = Duration::from_millis(300);

/// A file that is a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    /// Or why it cannot be read.
    pub(super) script: Result<JobScript, Diagnostic>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Folder {
    path: PathBuf,
    /// By the names of the jobs.
    files: BTreeMap<String, Found>,
    /// What was there at the last look.
    last: BTreeMap<String, Found>,
    /// Jobs whose files were missing then.
    missing: BTreeSet<String>,
}

/// A file as it is now.
struct Contents {
    modified: SystemTime,
    text: Result<String, Diagnostic>,
}

impl Folder {
    pub(super) fn new(path: &Path) -> Folder {
        Folder { path: path.to_path_buf(), ..Folder::default() }
    }

    /// The files as they hold now. Fails when the directory cannot be read, which says nothing of its files.
    pub(super) fn look(&mut self) -> io::Result<&BTreeMap<String, Found>> {
        self.look_at(SystemTime::now())
    }

    /// The same as of a moment.
    fn look_at(&mut self, now: SystemTime) -> io::Result<&BTreeMap<String, Found>> {
        let is_settled = |modified: SystemTime| now.duration_since(modified).is_ok_and(|age| age >= SETTLED);
        let common = read_common(&self.path)?;
        let is_common_settled = common.as_ref().is_none_or(|common| is_settled(common.modified));
        let mut seen = BTreeMap::new();
        for entry in std::fs::read_dir(&self.path)? {
            let path = entry?.path();
            let Some(job) = job_of(&path) else { continue };
            let own = match read(&path) {
                Ok(own) => own,
                Err(e) if [io::ErrorKind::NotFound, io::ErrorKind::IsADirectory].contains(&e.kind()) => continue,
                // Nothing is known of it, so it is as it was.
                Err(_) => {
                    seen.extend(self.files.get(&job).cloned().map(|found| (job, found)));
                    continue;
                }
            };
            let is_settled = is_common_settled && is_settled(own.modified);
            let found = found(path, own, common.as_ref());
            if is_settled || self.last.get(&job) == Some(&found) {
                self.files.insert(job.clone(), found.clone());
            }
            seen.insert(job, found);
        }
        let missing: BTreeSet<String> = self.files.keys().filter(|job| !seen.contains_key(*job)).cloned().collect();
        let gone = missing.intersection(&self.missing);
        gone.for_each(|job| drop(self.files.remove(job)));
        (self.missing, self.last) = (missing, seen);
        Ok(&self.files)
    }
}

/// What the job of a file is called, if it is one.
fn job_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".sql").filter(|job| is_job(job)).map(str::to_string)
}

/// Whether a file of this name, with `.sql`, is a job.
pub(super) fn is_job(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(['.', '_'])
}

/// The statements in front of those of each script, if there are any; or why they cannot be read.
#[cfg(feature = "http")]
pub(super) fn common_of(directory: &Path) -> io::Result<Option<Result<String, Diagnostic>>> {
    Ok(read_common(directory)?.map(|common| common.text))
}

fn read_common(directory: &Path) -> io::Result<Option<Contents>> {
    match read(&directory.join(COMMON)) {
        Ok(contents) => Ok(Some(contents)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Editors on Windows put a byte order mark before the text.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn found(path: PathBuf, own: Contents, common: Option<&Contents>) -> Found {
    let stamp_of = |contents: &Contents| {
        let since = contents.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    };
    let stamp = Stamp { own: stamp_of(&own), common: common.map(stamp_of) };
    let common = common.map(|common| common.text.clone()).transpose();
    let script = common.and_then(|common| Ok(JobScript { common, own: own.text? }));
    Found { path, stamp, script }
}

/// Fails when there is no such file; that it cannot be read is for its job to say.
fn read(path: &Path) -> io::Result<Contents> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let at = || Place::Data { resource: path.display().to_string(), offset: None, line: None, column: None };
    let text = std::fs::read(path)
        .map_err(|e| Diagnostic::new(code::READ_FAILED, format!("the script cannot be read: {e}")).at(at()))
        .and_then(|bytes| {
            let text = String::from_utf8(bytes);
            text.map_err(|_| Diagnostic::new(code::SYNTAX, "the script is not UTF-8 text").at(at()))
        });
    let text = text.map(|text| without_mark(&text).to_string());
    Ok(Contents { modified: metadata.modified()?, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// Writes a file that was not touched for a while.
    fn write(folder: &Path, name: &str, text: &str, age: u64) {
        fs::write(folder.join(name), text).unwrap();
        let modified = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(folder.join(name)).unwrap().set_modified(modified).unwrap();
    }

    #[test]
    fn files_are_jobs_once_they_are_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut folder = Folder::new(path);
        // As if no time passed: what is written from here on is new.
        let now = SystemTime::now();
        write(path, "a.sql", "one", 100);
        write(path, ".b.sql", "hidden", 100);
        write(path, "_c.sql", "left out", 100);
        write(path, "d.txt", "no script", 100);
        let names = |folder: &mut Folder| folder.look_at(now).unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&mut folder), ["a"]);
        fs::write(path.join("e.sql"), "half").unwrap();
        assert_eq!(names(&mut folder), ["a"], "somebody may be writing it");
        assert_eq!(names(&mut folder), ["a", "e"]);
        let text = |folder: &mut Folder, job: &str| folder.look_at(now).unwrap()[job].script.clone().unwrap().own;
        fs::write(path.join("a.sql"), "two").unwrap();
        assert_eq!(text(&mut folder, "a"), "one");
        assert_eq!(text(&mut folder, "a"), "two");
        // An editor that writes another file and renames it.
        fs::remove_file(path.join("a.sql")).unwrap();
        assert_eq!(names(&mut folder), ["a", "e"]);
        write(path, "a.sql", "three", 100);
        assert_eq!(text(&mut folder, "a"), "three");
        fs::remove_file(path.join("a.sql")).unwrap();
        assert_eq!(names(&mut folder), ["a", "e"]);
        assert_eq!(names(&mut folder), ["e"]);
        write(path, COMMON, "common", 100);
        write(path, "e.sql", "whole", 100);
        let found = folder.look_at(now).unwrap()["e"].clone();
        assert_eq!(found.script.unwrap().common.as_deref(), Some("common"));
        fs::write(path.join("f.sql"), [0xff, 0xfe]).unwrap();
        folder.look_at(now).unwrap();
        assert_eq!(folder.look_at(now).unwrap()["f"].script.clone().unwrap_err().code, code::SYNTAX);
    }
}
