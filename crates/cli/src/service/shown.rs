//! Where the jobs of a service are in their lives, for whoever looks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its text is planned, or it waits for memory.
    Starting,
    /// Its text is run: how far each insert is, is known where that is watched.
    Running,
    Stopping,
    Finished,
    /// Somebody has stopped it.
    Stopped,
    Failed,
}

#[derive(Debug, Clone)]
pub(super) struct Now {
    pub(super) phase: Phase,
    pub(super) since: SystemTime,
    /// Why it does not run.
    pub(super) error: Option<String>,
    /// What it waits for before it can be begun.
    pub(super) waits: Option<String>,
    /// Why it does not run what the file has.
    pub(super) refused: Option<String>,
}

/// See the module.
pub(super) struct Status(Mutex<Now>);

impl Default for Status {
    fn default() -> Status {
        let now = Now { phase: Phase::Starting, since: SystemTime::now(), error: None, waits: None, refused: None };
        Status(Mutex::new(now))
    }
}

impl Status {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "http")]
    fn now(&self) -> Now {
        self.lock().clone()
    }

    /// What it has failed with before stays to be seen while it is tried again.
    pub(super) fn set(&self, phase: Phase) {
        let mut now = self.lock();
        (now.phase, now.since, now.waits) = (phase, SystemTime::now(), None);
        if matches!(phase, Phase::Finished | Phase::Stopped) {
            (now.error, now.refused) = (None, None);
        }
    }

    /// Why it does not run; whether that was not known.
    pub(super) fn fail(&self, error: String) -> bool {
        let mut now = self.lock();
        let is_new = now.phase != Phase::Failed || now.error.as_ref() != Some(&error);
        (now.phase, now.since, now.waits) = (Phase::Failed, SystemTime::now(), None);
        now.error = Some(error);
        is_new
    }

    /// Says what a job waits for; whether that was not known.
    pub(super) fn wait(&self, reason: &str) -> bool {
        let mut now = self.lock();
        let is_new = now.waits.as_deref() != Some(reason);
        if is_new {
            (now.phase, now.since, now.waits) = (Phase::Starting, SystemTime::now(), Some(reason.into()));
        }
        is_new
    }

    /// It runs another text than that of its file.
    pub(super) fn refuse(&self, reason: String) {
        self.lock().refused = Some(reason);
    }

    /// The file is another one, of which nothing is known.
    pub(super) fn renew(&self) {
        let mut now = self.lock();
        (now.error, now.waits, now.refused) = (None, None, None);
    }
}

#[cfg(feature = "http")]
mod served {
    use super::super::job::Desk;
    use super::super::{Entries, Entry};
    use super::{Now, Phase};
    use crate::log;
    use millstream_dashboard::{Action, JobState, JobView, Jobs, Mode, Refused, Scripts};
    use std::sync::Arc;

    impl Jobs for Entries {
        fn mode(&self) -> Mode {
            Mode::Serve
        }

        fn views(&self) -> Vec<JobView> {
            self.shown().into_iter().map(|shown| shown.view).collect()
        }

        fn act(&self, job: &str, action: Action) -> Result<String, Refused> {
            let found = self.shown().into_iter().find(|shown| shown.view.name == job);
            let ShownEntry { own, desk, .. } =
                found.ok_or_else(|| Refused::new("there is no such job", "GET /api/v1/jobs lists them"))?;
            match (action, desk.status.now().phase) {
                (_, Phase::Stopped | Phase::Finished) => {
                    Err(Refused::new("the job has ended", "change or touch its file: then it is run again"))
                }
                (Action::Stop, _) => {
                    desk.stop();
                    Ok("the job takes a checkpoint and stops; it stays stopped until its file changes or is touched"
                        .into())
                }
                (_, Phase::Running) => desk.watched.act(&own, action),
                _ => Err(Refused::new("the job does not run now", "ask again when it does")),
            }
        }

        fn audit(&self, line: &str) {
            log::info(line);
        }

        fn scripts(&self) -> Option<&dyn Scripts> {
            self.scripts.as_ref().map(|scripts| scripts as &dyn Scripts)
        }
    }

    /// A job, or an insert of it.
    struct ShownEntry {
        view: JobView,
        /// What it is called among those of its file.
        own: String,
        desk: Arc<Desk>,
    }

    impl Entries {
        fn shown(&self) -> Vec<ShownEntry> {
            let mut all: Vec<ShownEntry> = Vec::new();
            for (name, entry) in &*self.lock() {
                for mut view in views_of(name, entry) {
                    let own = view.name.clone();
                    // `a.b` can be the file of that name, or an insert of the file `a`.
                    while all.iter().any(|other| other.view.name == view.name) {
                        view.name += "'";
                    }
                    all.push(ShownEntry { view, own, desk: Arc::clone(&entry.desk) });
                }
            }
            all
        }
    }

    /// The inserts of a job, or itself as long as none has been planned.
    fn views_of(name: &str, entry: &Entry) -> Vec<JobView> {
        let Now { phase, since, error, waits, refused } = entry.desk.status.now();
        let error = waits.or(error);
        let of_phase = match phase {
            Phase::Starting | Phase::Running => JobState::Starting,
            Phase::Stopping => JobState::Stopping,
            Phase::Finished => JobState::Finished,
            Phase::Stopped => JobState::Stopped,
            Phase::Failed => JobState::Failed,
        };
        let mut views = entry.desk.watched.views();
        for view in &mut views {
            // Those that are there have ended when the next text is begun.
            let is_of_before = matches!(view.state, JobState::Stopped | JobState::Failed);
            if phase != Phase::Running || is_of_before {
                (view.state, view.since) = (of_phase, since);
                view.error = error.clone();
            } else {
                view.error = view.error.take().or_else(|| error.clone());
            }
            view.error = refused.clone().or(view.error.take());
        }
        if views.is_empty() {
            views.push(JobView {
                name: name.to_string(),
                file: Some(entry.found.path.display().to_string()),
                state: of_phase,
                since,
                restarts: 0,
                error: refused.or(error),
                monitor: None,
                description: None,
                statement: String::new(),
                state_dir: Some(entry.address.clone()),
                can_rescale: false,
            });
        }
        views
    }
}
