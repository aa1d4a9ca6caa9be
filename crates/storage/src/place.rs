//! State directories: local ones, and prefixes of object stores.
//!
//! One in an object store has a local companion in the system's temporary directory, which every process on the machine that is
//! given the same address finds. It is for the lock that goes with its process, and for what is local by nature.

use crate::checkpoints::Checkpoints;
use crate::local::{DirectoryLock, LocalStore};
use crate::objects::{ObjectDirectory, endpoint};
use crate::private::{make_private, user_directory};
use crate::run::{Heartbeat, Run};
use crate::store::Store;
use millstream_types::{Diagnostic, Place, code};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use xxhash_rust::xxh3::xxh3_128;

/// Where the state of jobs is.
#[derive(Debug, Clone)]
pub struct StatePlace {
    /// The directory itself; or the local companion of `objects`.
    local: PathBuf,
    objects: Option<ObjectDirectory>,
}

/// Held by the one process that uses a state directory.
#[derive(Debug)]
pub struct PlaceLock {
    run: Arc<Run>,
    /// Ends before the lock is released.
    _heartbeat: Option<Heartbeat>,
    _directory: DirectoryLock,
}

impl PlaceLock {
    /// Number of this process among those that have taken the place, from 1: a later one has a higher number.
    pub fn run(&self) -> u64 {
        self.run.number()
    }
}

impl StatePlace {
    /// The place that is meant: a path, `file:///path`, or `s3://bucket/prefix`. Nothing is made or asked.
    ///
    /// # Errors
    /// When the address makes no sense.
    pub fn parse(text: &str) -> Result<StatePlace, Diagnostic> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(StatePlace { local: PathBuf::from(text), objects: None });
        };
        let refused = |what: String| {
            let diagnostic = Diagnostic::new(code::INVALID_OPTION, format!("the state directory '{text}' {what}"));
            let diagnostic = diagnostic.at(Place::Option("execution.checkpointing.dir".into()));
            Err(diagnostic.advise("give a path, file:///path, or s3://bucket/prefix"))
        };
        match (scheme, rest.trim_end_matches('/')) {
            ("file", path) => Ok(StatePlace { local: PathBuf::from(path), objects: None }),
            ("s3", path) => {
                let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
                if bucket.is_empty() {
                    return refused("names no bucket".into());
                }
                match ObjectDirectory::s3(bucket, prefix) {
                    Ok(objects) => {
                        // The same bucket of another store is another place.
                        let endpoint = endpoint().unwrap_or_default();
                        let name = xxh3_128(format!("{endpoint} {}", objects.place()).as_bytes());
                        let local = user_directory().join(format!("{name:032x}"));
                        Ok(StatePlace { local, objects: Some(objects) })
                    }
                    Err(e) => refused(format!("cannot be used: {e}")),
                }
            }
            (scheme, _) => refused(format!("has the scheme '{scheme}', which is not known")),
        }
    }

    /// A local directory: the place itself, or, for one in an object store, what every process of this user on this machine finds
    /// by its address. It may not be there yet.
    pub fn local(&self) -> &Path {
        &self.local
    }

    /// Whether it is in an object store.
    pub fn is_remote(&self) -> bool {
        self.objects.is_some()
    }

    /// Whether anything is there.
    pub fn exists(&self) -> io::Result<bool> {
        match &self.objects {
            None => Ok(self.local.is_dir()),
            Some(objects) => {
                objects.entries().map(|entries| !(entries.files.is_empty() && entries.directories.is_empty()))
            }
        }
    }

    /// Takes the place for this process; it is made if it is not there. `Err` inside says who has it. If a process on another
    /// machine had it and has given no sign of life, it takes a quarter of a minute to be sure.
    pub fn lock(&self) -> io::Result<Result<PlaceLock, String>> {
        if self.is_remote() {
            make_private(&self.local)?;
        }
        let Some(directory) = DirectoryLock::take(&self.local)? else {
            let holder = DirectoryLock::holder(&self.local);
            return Ok(Err(holder.map_or_else(|| "another process".into(), |id| format!("another process ({id})"))));
        };
        let run = match &self.objects {
            None => Run::begin_here(&self.local)?.map(|run| (run, None)),
            Some(objects) => {
                let run = Run::begin(objects.clone(), &identity(&self.local)?)?;
                run.map(|(run, heartbeat)| (run, Some(heartbeat)))
            }
        };
        Ok(run.map(|(run, _heartbeat)| PlaceLock { run: Arc::new(run), _heartbeat, _directory: directory }))
    }

    /// The numbers of the jobs that have state, in order.
    pub fn jobs(&self) -> io::Result<Vec<usize>> {
        let names = match &self.objects {
            None => LocalStore::existing(&self.local).names()?,
            Some(objects) => objects.entries()?.directories,
        };
        let mut jobs: Vec<usize> = names.iter().filter_map(|name| name.strip_prefix("job-")?.parse().ok()).collect();
        jobs.sort_unstable();
        Ok(jobs)
    }

    /// The checkpoints of a job, to be looked at.
    pub fn checkpoints(&self, job: usize) -> Checkpoints {
        Checkpoints::new(match self.job(job) {
            Ok(objects) => Arc::new(objects),
            Err(directory) => Arc::new(LocalStore::existing(&directory)),
        })
    }

    /// The checkpoints of a job, to be written by who holds the place. Unfinished files are removed.
    pub fn own_checkpoints(&self, job: usize, lock: &PlaceLock) -> io::Result<Checkpoints> {
        let store: Arc<dyn Store> = match self.job(job) {
            Ok(objects) => Arc::new(objects),
            Err(directory) => Arc::new(LocalStore::open(&directory)?),
        };
        Ok(Checkpoints::of_run(store, Arc::clone(&lock.run)))
    }

    /// The checkpoints of a job, for a process that has a part in them: the one that holds the place has this run's number.
    pub fn shared_checkpoints(&self, job: usize, run: u64) -> Checkpoints {
        let root: Arc<dyn Store> = match &self.objects {
            None => Arc::new(LocalStore::existing(&self.local)),
            Some(objects) => Arc::new(objects.clone()),
        };
        let store = Arc::clone(self.checkpoints(job).store());
        Checkpoints::of_run(store, Arc::new(Run::of_another(root, run)))
    }

    /// What sinks of a job keep beside its checkpoints; `None` if that is a local directory.
    pub fn sinks(&self, job: usize) -> Option<Arc<dyn Store>> {
        self.job(job).ok().map(|objects| Arc::new(objects.directory("sinks")) as Arc<dyn Store>)
    }

    /// Where a job is in the object store, or which local directory is that.
    fn job(&self, job: usize) -> Result<ObjectDirectory, PathBuf> {
        let name = format!("job-{job}");
        self.objects.as_ref().map(|objects| objects.directory(&name)).ok_or_else(|| self.local.join(name))
    }
}

impl fmt::Display for StatePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.objects {
            None => write!(f, "{}", self.local.display()),
            Some(objects) => f.write_str(&objects.place()),
        }
    }
}

/// Tells a local directory from those of other machines. It is locked.
fn identity(directory: &Path) -> io::Result<String> {
    let path = directory.join("identity");
    match fs::read_to_string(&path) {
        Ok(identity) if !identity.is_empty() => Ok(identity),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let identity = format!("{host}-{:x}-{:x}", since_epoch.as_nanos(), std::process::id());
            fs::write(&path, &identity)?;
            Ok(identity)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_urls() {
        for text in ["/a/b", "file:///a/b", "file:///a/b/"] {
            let place = StatePlace::parse(text).unwrap();
            assert_eq!((place.local(), place.is_remote()), (Path::new("/a/b"), false));
        }
        let place = StatePlace::parse("s3://bucket/some/prefix/").unwrap();
        assert_eq!((place.to_string().as_str(), place.is_remote()), ("s3://bucket/some/prefix", true));
        assert_eq!(place.local(), StatePlace::parse("s3://bucket/some/prefix").unwrap().local());
        assert_ne!(place.local(), StatePlace::parse("s3://bucket/some").unwrap().local());
        assert_eq!(StatePlace::parse("s3://bucket").unwrap().to_string(), "s3://bucket");
        for text in ["s3://", "s3:///prefix", "s3://bucket/a//b", "gs://bucket/prefix"] {
            let refused = StatePlace::parse(text).unwrap_err();
            assert_eq!(refused.code, code::INVALID_OPTION, "{refused:?}");
        }
    }
}
