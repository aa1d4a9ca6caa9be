//! The jobs of a state directory: which of them a statement is.

use millstream_plan::shape::PlanShape;
use millstream_runtime::kept_shape;
use millstream_storage::{StatePlace, store_failed};
use millstream_types::{Diagnostic, Place, code};
use std::io;
use std::sync::{Arc, Weak};

/// The jobs that were there when they were looked at, and those that statements have become since.
#[derive(Debug)]
pub(crate) struct KnownJobs {
    pub(crate) place: StatePlace,
    jobs: Vec<KnownJob>,
}

/// A job of a state directory.
#[derive(Debug)]
struct KnownJob {
    number: usize,
    /// What its user calls it.
    name: Option<String>,
    /// What its newest checkpoint keeps; `None`: it has none that can be read.
    kept: Option<PlanShape>,
    /// Whether a statement of this session is it: lives as long as that runs.
    taken: Option<Weak<()>>,
}

/// The job that a statement is.
pub(crate) struct TakenJob {
    pub(crate) number: usize,
    /// What its user calls it.
    pub(crate) name: Option<String>,
    /// What is worth telling of the choice.
    pub(crate) note: Option<String>,
    /// Kept as long as the job runs.
    pub(crate) running: Arc<()>,
}

impl KnownJobs {
    /// Looks at a state directory, which nobody has to hold for that.
    pub(crate) fn of(place: StatePlace) -> Result<KnownJobs, Diagnostic> {
        let jobs = known_jobs(&place).map_err(|e| unusable(&place.to_string(), &e))?;
        Ok(KnownJobs { place, jobs })
    }

    /// Whether there are jobs that no statement has taken.
    pub(crate) fn has_jobs(&self) -> bool {
        self.jobs.iter().any(|job| job.kept.is_some() && job.taken.is_none())
    }

    /// Whether a job keeps what a statement of this shape does.
    pub(crate) fn keeps(&self, shape: &PlanShape) -> bool {
        self.jobs.iter().any(|job| job.likeness(shape).is_some_and(|likeness| likeness < Likeness::Writes))
    }

    /// The job that a statement of this shape is: the one of its name; if it has none, the one that writes its tables and keeps what it
    /// does; or a new one. `to_come` are the tables of the statements behind it.
    pub(crate) fn take(
        &mut self,
        shape: &PlanShape,
        to_come: &[Vec<String>],
        name: Option<&str>,
    ) -> Result<TakenJob, Diagnostic> {
        let chosen = match name {
            Some(name) => self.named(name, shape)?,
            None => self.alike(shape, to_come)?,
        };
        let mut note = None;
        let at = chosen.unwrap_or_else(|| {
            let is_used = |number: &usize| {
                self.jobs.iter().any(|job| job.number == *number && (job.taken.is_some() || job.kept.is_some()))
            };
            let number = (1..).find(|number| !is_used(number)).unwrap_or(usize::MAX);
            let others = self.jobs.iter().filter(|job| job.kept.is_some() && job.taken.is_none());
            let others: Vec<String> = others.map(KnownJob::title).collect();
            if !others.is_empty() {
                let (others, place) = (others.join(", "), &self.place);
                let is_new = written(shape);
                note = Some(format!("{is_new} is new in {place}, and begins from the start; there is {others}"));
            }
            self.jobs.retain(|job| job.number != number);
            self.jobs.push(KnownJob { number, name: None, kept: None, taken: None });
            self.jobs.len() - 1
        });
        let running = Arc::new(());
        let job = &mut self.jobs[at];
        if let (Some(name), None, Some(_)) = (name, &job.name, &job.kept) {
            note = Some(format!("{} is called '{name}' from now on", job.title()));
        }
        job.taken = Some(Arc::downgrade(&running));
        // One whose statement has lost its name keeps it.
        job.name = name.map(str::to_owned).or(job.name.take());
        Ok(TakenJob { number: job.number, name: job.name.clone(), note, running })
    }

    /// The job of this name; or one without a name that keeps what the statement does, so that it gets the name.
    fn named(&self, name: &str, shape: &PlanShape) -> Result<Option<usize>, Diagnostic> {
        let Some(at) = self.jobs.iter().position(|job| job.name.as_deref() == Some(name)) else {
            let unnamed = |at: &usize| self.jobs[*at].name.is_none();
            let fits =
                |at: usize| Some((self.jobs[at].likeness(shape).filter(|&likeness| likeness < Likeness::Writes)?, at));
            let alike: Vec<(Likeness, usize)> = (0..self.jobs.len()).filter(unnamed).filter_map(fits).collect();
            return Ok(alike
                .iter()
                .min()
                .filter(|(likeness, _)| *likeness == Likeness::Same || alike.len() == 1)
                .map(|&(_, at)| at));
        };
        if self.jobs[at].taken.is_some() {
            let message =
                format!("the job '{name}' in {} is that of an INSERT in front of {}", self.place, written(shape));
            return Err(Diagnostic::new(code::INVALID_OPTION, message)
                .at(Place::Option("pipeline.name".into()))
                .advise("set another name before each INSERT, or put them into one set (EXECUTE STATEMENT SET)"));
        }
        Ok(Some(at))
    }

    /// The job that writes the tables of the statement and keeps what it does.
    fn alike(&self, shape: &PlanShape, to_come: &[Vec<String>]) -> Result<Option<usize>, Diagnostic> {
        let alike: Vec<(Likeness, usize)> =
            self.jobs.iter().enumerate().filter_map(|(at, job)| Some((job.likeness(shape)?, at))).collect();
        // Of equally good ones the first.
        let chosen = alike.iter().min().copied();
        let writes = |tables: &&Vec<String>| shape.sinks.iter().any(|sink| tables.contains(&sink.table));
        let others = to_come.iter().filter(writes).count();
        // One that has changed is the only one of its table, or nobody can tell.
        if let Some((Likeness::Fits | Likeness::Writes, _)) = chosen
            && (others > 0 || alike.len() > 1)
        {
            let message = format!(
                "several INSERTs or jobs in {} write the table of {}: it cannot be told which of them it was, as it has changed or is new",
                self.place,
                written(shape),
            );
            return Err(Diagnostic::new(code::QUERY_CHANGED, message)
                .advise("write new INSERTs into a table behind those that were there, change none of them, or put them into one set (EXECUTE STATEMENT SET)"));
        }
        Ok(chosen.map(|(_, at)| at))
    }

    /// Has jobs that have ended be resumed by the next statements that are the same, as if this was a new process.
    pub(crate) fn forget_ended(&mut self) -> Result<(), Diagnostic> {
        for job in &mut self.jobs {
            if job.taken.as_ref().is_some_and(|taken| taken.strong_count() == 0) {
                *job = known_job(&self.place, job.number).map_err(|e| unusable(&self.place.to_string(), &e))?;
            }
        }
        Ok(())
    }
}

/// How well a job is that of a statement; the least is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// It is the same.
    Same,
    /// It keeps what the statement does, or a part of that.
    Fits,
    /// It writes the same tables.
    Writes,
}

impl KnownJob {
    /// What messages call it.
    fn title(&self) -> String {
        let written = self.kept.as_ref().map_or_else(String::new, |kept| format!(" ({})", written(kept)));
        let name = self.name.as_ref().map_or_else(|| format!("job-{}", self.number), |name| format!("'{name}'"));
        format!("{name}{written}")
    }

    /// `None` if it writes none of the tables of the statement, so it cannot be the statement's job.
    fn likeness(&self, statement: &PlanShape) -> Option<Likeness> {
        let kept = self.kept.as_ref().filter(|_| self.taken.is_none())?;
        let writes = |table: &str| statement.sinks.iter().any(|sink| sink.table == table);
        if !kept.sinks.iter().any(|sink| writes(&sink.table)) {
            return None;
        }
        Some(match statement.fit(kept) {
            Ok(_) if statement.is_same_query(kept) => Likeness::Same,
            Ok(_) => Likeness::Fits,
            Err(_) => Likeness::Writes,
        })
    }
}

/// The INSERTs of a shape.
fn written(shape: &PlanShape) -> String {
    let tables: Vec<&str> = shape.sinks.iter().map(|sink| sink.table.as_str()).collect();
    format!("INSERT INTO {}", tables.join(", "))
}

/// The jobs of a directory. One whose checkpoints cannot be read says so when its turn comes.
fn known_jobs(place: &StatePlace) -> io::Result<Vec<KnownJob>> {
    place.jobs()?.into_iter().map(|number| known_job(place, number)).collect()
}

fn known_job(place: &StatePlace, number: usize) -> io::Result<KnownJob> {
    let listed = place.checkpoints(number).list()?;
    let newest = listed.into_iter().find_map(|listed| listed.manifest.ok());
    let kept = newest.as_ref().and_then(kept_shape);
    Ok(KnownJob { number, name: newest.and_then(|manifest| manifest.name), kept, taken: None })
}

/// That a state directory cannot be used.
pub(crate) fn unusable(place: &str, error: &io::Error) -> Diagnostic {
    let failure = store_failed(code::CHECKPOINT_FAILED, &format!("the state directory {place} cannot be used"), error);
    match std::path::Path::new(place).is_file() {
        true => failure.advise(format!("{place} is a file: give a directory, which is made if there is none")),
        false => failure,
    }
    .at(Place::Option("execution.checkpointing.dir".into()))
}
