//! Which job writes which files: two that write the same would mix their rows, or replace each other's.
//!
//! A job has what the text writes that it runs, from before that begins, and what the text writes that it keeps, as long as its script is there: a
//! job that is stopped or has failed resumes where it has written. The second part lies beside its checkpoints (`outputs.json`), so that it is
//! known before any job begins when the service is started again.

use millstream::{Diagnostic, Place, code};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Default)]
pub(super) struct Outputs {
    /// By the names of jobs.
    written: Mutex<BTreeMap<String, Written>>,
    freed: AtomicU64,
}

/// Paths of one job, each under the one name that it has.
#[derive(Default)]
struct Written {
    kept: BTreeSet<PathBuf>,
    run: BTreeSet<PathBuf>,
}

impl Outputs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often something has become free: whoever was refused before it changed asks again.
    pub(super) fn freed(&self) -> u64 {
        self.freed.load(Acquire)
    }

    fn free(&self) {
        self.freed.fetch_add(1, Release);
    }

    /// A job has written these before. What another one writes by now is that one's; what is left, if that is less.
    pub(super) fn keep(&self, job: &str, paths: Vec<PathBuf>) -> Option<Vec<PathBuf>> {
        let (mut all, before) = (self.lock(), paths.len());
        let paths: Vec<PathBuf> = paths.into_iter().filter(|path| taken(&all, job, path).is_ok()).collect();
        all.entry(job.into()).or_default().kept.extend(paths.iter().cloned());
        (paths.len() < before).then_some(paths)
    }

    /// Whether a job may write these.
    pub(super) fn may_write(&self, job: &str, paths: &[PathBuf]) -> Result<(), Diagnostic> {
        let all = self.lock();
        paths.iter().try_for_each(|path| taken(&all, job, path))
    }

    /// The text that a job begins to run writes these.
    pub(super) fn take(&self, job: &str, paths: impl IntoIterator<Item = PathBuf>) -> Result<(), Diagnostic> {
        let (mut all, paths) = (self.lock(), paths.into_iter().collect::<Vec<_>>());
        paths.iter().try_for_each(|path| taken(&all, job, path))?;
        all.entry(job.into()).or_default().run.extend(paths);
        Ok(())
    }

    /// The text that a job runs is the one that it keeps, which writes `whole`; if that is not known, what it has taken, and what was kept before.
    /// What is kept from now on, if it is something else.
    pub(super) fn settle(&self, job: &str, whole: Option<&[PathBuf]>) -> Option<Vec<PathBuf>> {
        let mut all = self.lock();
        let written = all.get_mut(job)?;
        let now: BTreeSet<PathBuf> = match whole {
            Some(whole) => whole.iter().cloned().collect(),
            None => written.kept.union(&written.run).cloned().collect(),
        };
        if now == written.kept {
            return None;
        }
        let before = std::mem::replace(&mut written.kept, now);
        let is_less = !before.is_subset(&written.kept);
        let kept = written.kept.iter().cloned().collect();
        drop(all);
        if is_less {
            self.free();
        }
        Some(kept)
    }

    /// A job runs nothing; whether something has become free by that.
    pub(super) fn rest(&self, job: &str) -> bool {
        let mut all = self.lock();
        let Some(written) = all.get_mut(job) else { return false };
        let run = std::mem::take(&mut written.run);
        let is_less = !run.is_subset(&written.kept);
        drop(all);
        if is_less {
            self.free();
        }
        is_less
    }

    /// The script of a job has gone, and it has ended.
    pub(super) fn forget(&self, job: &str) {
        if self.lock().remove(job).is_some() {
            self.free();
        }
    }
}

/// Fails when a job other than this one writes a path, or one in it, or one that it is in.
fn taken(all: &BTreeMap<String, Written>, job: &str, path: &Path) -> Result<(), Diagnostic> {
    let paths = |written: &Written| written.kept.iter().chain(&written.run).cloned().collect::<Vec<_>>();
    let others = all.iter().filter(|(name, _)| *name != job);
    let mut others = others.flat_map(|(name, written)| paths(written).into_iter().map(move |other| (name, other)));
    let Some((name, other)) = others.find(|(_, other)| path.starts_with(other) || other.starts_with(path)) else {
        return Ok(());
    };
    let (shown, inside) = (path.display(), other.display());
    let message = match (path == other, path.starts_with(&other)) {
        (true, _) => format!("the job {name} writes '{shown}' as well"),
        (_, true) => format!("the output '{shown}' is in '{inside}', which the job {name} writes"),
        _ => format!("the output '{shown}' has '{inside}' in it, which the job {name} writes"),
    };
    let advice = "give another 'path', or remove the script of the other job: this one starts by itself then";
    Err(Diagnostic::new(code::OUTPUT_TAKEN, message).at(Place::Option("path".into())).advise(advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<PathBuf> {
        texts.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_path_is_that_of_one_job() {
        let outputs = Outputs::default();
        outputs.take("a", paths(&["/out/a", "/out/b.csv"])).unwrap();
        for (path, words) in [
            ("/out/a", "the job a writes '/out/a' as well"),
            ("/out/a/b", "'/out/a/b' is in '/out/a', which the job a writes"),
            ("/out", "'/out' has '/out/a' in it, which the job a writes"),
        ] {
            let error = outputs.may_write("b", &paths(&[path])).unwrap_err();
            assert!(error.code == code::OUTPUT_TAKEN && error.message.contains(words), "{error}");
            assert!(outputs.may_write("a", &paths(&[path])).is_ok());
        }
        outputs.take("b", paths(&["/out/ab", "/out/c.csv"])).unwrap();
        assert!(outputs.take("b", paths(&["/out/new", "/out/b.csv"])).is_err());
        assert!(outputs.may_write("c", &paths(&["/out/new"])).is_ok(), "all of it or nothing");
    }

    #[test]
    fn a_job_has_what_it_keeps_until_it_is_forgotten() {
        let outputs = Outputs::default();
        let is_free = |path: &str| outputs.may_write("b", &paths(&[path])).is_ok();
        outputs.take("a", paths(&["/one"])).unwrap();
        assert_eq!(outputs.settle("a", Some(&paths(&["/one"]))), Some(paths(&["/one"])));
        assert_eq!(outputs.settle("a", None), None);
        assert!(!outputs.rest("a"));
        assert!(!is_free("/one") && outputs.freed() == 0);
        // Another text that cannot be begun leaves it with what it had.
        outputs.take("a", paths(&["/two"])).unwrap();
        assert!(!is_free("/two"));
        assert!(outputs.rest("a"));
        assert!(!is_free("/one") && is_free("/two") && outputs.freed() == 1);
        outputs.take("a", paths(&["/two"])).unwrap();
        assert_eq!(outputs.settle("a", Some(&paths(&["/two"]))), Some(paths(&["/two"])));
        assert!(is_free("/one") && !is_free("/two") && outputs.freed() == 2);
        outputs.forget("a");
        assert!(is_free("/two") && outputs.freed() == 3);
    }

    /// Inserts of a script that are begun one after the other, of a text that was not looked at as a whole.
    #[test]
    fn what_is_known_in_parts_is_kept_in_all() {
        let outputs = Outputs::default();
        outputs.keep("a", paths(&["/one", "/two"]));
        outputs.take("a", paths(&["/one"])).unwrap();
        assert_eq!((outputs.settle("a", None), outputs.freed()), (None, 0));
        outputs.take("a", paths(&["/two", "/three"])).unwrap();
        assert_eq!(outputs.settle("a", None), Some(paths(&["/one", "/three", "/two"])));
    }

    #[test]
    fn what_was_written_before_is_not_taken_from_who_writes_now() {
        let outputs = Outputs::default();
        outputs.take("b", paths(&["/out"])).unwrap();
        assert_eq!(outputs.keep("a", paths(&["/out/x", "/other"])), Some(paths(&["/other"])));
        assert_eq!(outputs.keep("c", paths(&["/third"])), None);
        assert!(outputs.may_write("b", &paths(&["/out"])).is_ok());
        assert!(outputs.may_write("b", &paths(&["/other"])).is_err());
    }
}
