//! The state directory of a session: which job a statement is, and the checkpoint that it resumes from.
//!
//! Each INSERT (or STATEMENT SET) of a session is a separate job: `job-1`, `job-2`, … in the order of their first run.
//! A script that is run again finds each by its name (`pipeline.name`); one without a name by the tables that it writes and by what it
//! keeps, wherever it stands now.
//! Jobs that have ended are not run again.

use crate::cluster::StateOfJob;
use crate::fitting::{of_another_version, recovered};
use crate::job_name::{is_job_name, job_name};
use crate::monitor::RunMonitor;
use crate::stored_files::StoredFiles;
use millstream_connectors::{Committed, Delivery, RestoredSink, Sink, SinkFiles, SinkJob, SinkWriter, Source};
use millstream_plan::pipeline::QueryPlan;
use millstream_plan::shape::PlanShape;
use millstream_runtime::{CheckpointConfig, Recovered, kept_shape};
use millstream_storage::{
    Checkpoints, Damaged, Listed, Manifest, PlaceLock, SplitState, StatePlace, Store, store_failed,
};
use millstream_types::{Diagnostic, Place, code};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// State of up to this many bytes is read before a query resumes from it, so that damage is found while an older
/// checkpoint can take its place. Larger state is only checked to be there.
const VERIFIED_BYTES: u64 = 1 << 30;

/// Holds the name of a job.
pub(crate) const JOB_FILE: &str = "job";

/// A state directory, which no other process uses meanwhile.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    place: StatePlace,
    lock: PlaceLock,
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

/// How a session's jobs are checkpointed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checkpointed {
    /// From one checkpoint to the next.
    pub(crate) interval: Option<Duration>,
    /// Checkpoints that are kept.
    pub(crate) retained: usize,
}

/// A job with the place of its checkpoints.
#[derive(Clone)]
pub(crate) struct JobState {
    checkpoints: Checkpoints,
    /// What its user calls it.
    name: Option<String>,
    /// Of this process, among those of the place.
    run: u64,
    place: StatePlace,
    /// Among the jobs of the place.
    number: usize,
    /// For files that sinks keep, or for copies of those in `remote`.
    directory: PathBuf,
    remote: Option<Arc<dyn SinkFiles>>,
    settings: Checkpointed,
    /// What is worth telling of the choice of the job.
    note: Option<String>,
    /// Kept as long as the job runs.
    pub(crate) running: Arc<()>,
}

/// How a job begins.
pub(crate) enum Beginning {
    /// At its start or at a checkpoint.
    Run(Box<CheckpointConfig>),
    /// It had ended before.
    Finished(Box<Recovered>),
}

impl StateDirectory {
    /// Takes a directory, which is made if it is not there.
    pub(crate) fn open(place: StatePlace) -> Result<StateDirectory, Diagnostic> {
        let unusable = |e| unusable(&place.to_string(), &e);
        let lock = place.lock().map_err(unusable)?.map_err(|holder| {
            let message = format!("{holder} uses the state directory {place}");
            Diagnostic::new(code::STATE_IN_USE, message).at(Place::Option("execution.checkpointing.dir".into()))
        })?;
        let jobs = known_jobs(&place).map_err(unusable)?;
        Ok(StateDirectory { place, lock, jobs })
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &StatePlace {
        &self.place
    }

    /// Whether there are jobs that no statement has taken.
    pub(crate) fn has_jobs(&self) -> bool {
        self.jobs.iter().any(|job| job.kept.is_some() && job.taken.is_none())
    }

    /// Whether a job keeps what a statement of this shape does.
    pub(crate) fn keeps(&self, shape: &PlanShape) -> bool {
        self.jobs.iter().any(|job| job.likeness(shape).is_some_and(|likeness| likeness < Likeness::Writes))
    }

    /// The job that a statement with this plan is: the one of its name; if it has none, the one that writes its tables and keeps what it
    /// does; or a new one. `to_come` are the tables of the statements behind it.
    pub(crate) fn job(
        &mut self,
        plan: &QueryPlan,
        to_come: &[Vec<String>],
        name: Option<&str>,
        settings: Checkpointed,
    ) -> Result<JobState, Diagnostic> {
        let shape = PlanShape::of(plan);
        let chosen = match name {
            Some(name) => self.named(name, &shape)?,
            None => self.alike(&shape, to_come)?,
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
                let is_new = written(&shape);
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
        let (number, name) = (job.number, job.name.clone());
        let checkpoints = self.place.own_checkpoints(number, &self.lock);
        let checkpoints = checkpoints.map_err(|e| unusable(&self.place.to_string(), &e))?;
        let (directory, remote) = sink_files(&self.place, number);
        let place = self.place.clone();
        Ok(JobState {
            checkpoints,
            name,
            run: self.lock.run(),
            place,
            number,
            directory,
            remote,
            settings,
            note,
            running,
        })
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

/// Where sinks of a job keep files: in a local directory, or copies of what is in a store.
pub(crate) fn sink_files(place: &StatePlace, number: usize) -> (PathBuf, Option<Arc<dyn SinkFiles>>) {
    let directory = place.local().join(format!("job-{number}")).join("sinks");
    let remote = place.sinks(number).map(|store| Arc::new(StoredFiles { store }) as Arc<dyn SinkFiles>);
    (directory, remote)
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

impl JobState {
    /// What another node has to know of where its checkpoints are.
    pub(crate) fn of_nodes(&self, config: &CheckpointConfig) -> StateOfJob {
        StateOfJob {
            place: self.place.to_string(),
            number: self.number,
            job: config.job.clone(),
            run: self.run,
            base: config.base,
            restored: config.restored.as_ref().map(|restored| restored.manifest().checkpoint),
        }
    }

    /// What a sink of another node in this process belongs to, by its number.
    pub(crate) fn sink_job(&self, config: &CheckpointConfig, sink: usize, node: usize) -> SinkJob {
        self.of_nodes(config).sink_job(&self.place, sink, (node, 0))
    }

    /// Finds the checkpoint to resume from and has the sinks begin there. What is worth telling goes to `monitor`.
    ///
    /// # Errors
    /// When there are checkpoints, but the query cannot resume from one of them: a job never starts over silently.
    pub(crate) fn begin(
        &self,
        plan: &QueryPlan,
        sinks: &mut [Box<dyn Sink>],
        is_distributed: bool,
        monitor: &RunMonitor,
    ) -> Result<Beginning, Diagnostic> {
        let checkpoints = self.checkpoints.clone();
        let listed = checkpoints.list().map_err(|e| self.unusable(&e))?;
        if let Some(error) = of_another_version(&listed) {
            return Err(error);
        }
        let job = self.identity(&**checkpoints.store())?;
        let newest = listed.first().map_or(0, |listed| listed.checkpoint);
        // Under another name sinks would not find what this job has written.
        if let Some(manifest) = listed.iter().filter_map(|listed| listed.manifest.as_ref().ok()).find(|m| m.job != job)
        {
            let message = format!(
                "the file 'job' in {} is damaged: it names the job {job}, and checkpoint {} is one of {}",
                checkpoints.store().place(),
                manifest.checkpoint,
                manifest.job
            );
            return Err(Diagnostic::new(code::CHECKPOINT_DAMAGED, message));
        }
        let recovered = |manifest: Manifest| recovered(plan, manifest);
        // What sinks there were, and with what numbers, is known before one is asked how far it has come.
        let known = listed.iter().find_map(|listed| listed.manifest.as_ref().ok()).cloned();
        let known = known.map(recovered).transpose()?;
        let number_of = |sink: usize| known.as_ref().map_or(sink, |known| known.manifest().sinks[sink].number);
        let mut order: Vec<usize> = (0..sinks.len()).collect();
        order.sort_by_key(|&sink| number_of(sink));
        let shared = Arc::default();
        let sink_job = |sink: usize, resumes: Option<u64>| {
            let (directory, remote, shared) = (self.directory.clone(), self.remote.clone(), Arc::clone(&shared));
            let writer = SinkWriter::first(self.run);
            SinkJob {
                job: job.clone(),
                sink: number_of(sink),
                writer,
                is_distributed,
                resumes,
                directory,
                remote,
                shared,
            }
        };
        let asks = |sink: usize| plan.sinks[sink].table.iter().for_each(|table| monitor.opens(&table.name));
        let mut committed = Committed::Resumable;
        let was_there = |sink: &&usize| known.as_ref().is_none_or(|known| !known.is_new_sink(**sink));
        for &sink in order.iter().filter(was_there) {
            asks(sink);
            committed = together(
                committed,
                sinks[sink].committed(&sink_job(sink, known.as_ref().map(|known| known.manifest().checkpoint)))?,
            )?;
        }
        let restored = choose(&checkpoints, listed, committed, monitor)?.map(recovered).transpose()?;
        let restored = match (restored, &known) {
            (Some(restored), Some(known)) => Some(restored.numbered_as(known)),
            (restored, _) => restored,
        };
        let from = restored.as_ref().map_or(0, |restored| restored.manifest().checkpoint);
        checkpoints.go_on_from(from).map_err(|e| self.unusable(&e))?;
        let begun = order.iter().try_for_each(|&sink| {
            let was_there = restored.as_ref().filter(|restored| !restored.is_new_sink(sink));
            let span = was_there.map(|restored| {
                let Manifest { checkpoint, sinks, .. } = restored.manifest();
                RestoredSink { checkpoint: *checkpoint, tokens: sinks[sink].tokens().cloned().collect() }
            });
            if let Some(RestoredSink { checkpoint, tokens }) = &span
                && !tokens.is_empty()
                && sinks[sink].delivery() != Delivery::ExactlyOnce
            {
                return Err(not_exactly_once_any_more(*checkpoint));
            }
            asks(sink);
            sinks[sink]
                .begin(&sink_job(sink, restored.as_ref().map(|restored| restored.manifest().checkpoint)), span.as_ref())
        });
        if let Err(diagnostic) = begun {
            // Why the sinks refuse is what counts.
            let _ = checkpoints.give_up(from);
            return Err(diagnostic);
        }
        checkpoints.delete(|checkpoint| checkpoint > from, BTreeSet::new()).map_err(|e| self.unusable(&e))?;
        let restored = match restored {
            Some(restored) if restored.manifest().is_finished => return Ok(Beginning::Finished(Box::new(restored))),
            other => other,
        };
        self.note.iter().for_each(|note| monitor.notice(note.clone()));
        if let Some(restored) = &restored {
            monitor.notice(format!("resuming from checkpoint {from} of {}", checkpoints.store().place()));
            for table in restored.new_sinks() {
                let begins = "of what was read before it has only what it keeps together with other INSERTs";
                monitor.notice(format!("INSERT INTO {table} is new: it begins behind checkpoint {from}, {begins}"));
            }
        }
        let Checkpointed { interval, retained } = self.settings;
        let base = newest.max(from);
        let name = self.name.clone();
        Ok(Beginning::Run(Box::new(CheckpointConfig { checkpoints, job, name, interval, retained, base, restored })))
    }

    /// What tells the job from all others, which it keeps forever.
    fn identity(&self, store: &dyn Store) -> Result<String, Diagnostic> {
        let files = store.list().map_err(|e| self.unusable(&e))?;
        if let Some(file) = files.iter().find(|file| file.name == JOB_FILE) {
            let name = store.read(JOB_FILE, 0..file.bytes).map_err(|e| self.unusable(&e))?;
            return String::from_utf8(name).ok().filter(|name| is_job_name(name)).ok_or_else(|| {
                let message = format!("the file 'job' in {} is damaged: it has no name of a job", store.place());
                Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
            });
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = job_name(since_epoch.as_nanos(), std::process::id());
        let write = || -> io::Result<()> {
            let mut file = store.create(JOB_FILE)?;
            file.write(name.as_bytes())?;
            file.finish()
        };
        write().map_err(|e| self.unusable(&e))?;
        Ok(name)
    }

    fn unusable(&self, error: &io::Error) -> Diagnostic {
        unusable(&self.checkpoints.store().place(), error)
    }
}

/// The span before a checkpoint is prepared, and the sink that could commit it is another now.
fn not_exactly_once_any_more(checkpoint: u64) -> Diagnostic {
    let message = format!(
        "the rows before checkpoint {checkpoint} were to be written exactly once, and may not be visible yet; the sink does not write \
         so any more"
    );
    Diagnostic::new(code::NOT_RECOVERABLE, message)
        .at(Place::Option("sink.delivery-guarantee".into()))
        .advise("set it to what it was, or start the job from the beginning with another state directory")
}

/// What several sinks ask for together.
fn together(a: Committed, b: Committed) -> Result<Committed, Diagnostic> {
    match (a, b) {
        (Committed::Resumable, other) | (other, Committed::Resumable) => Ok(other),
        (a, b) if a == b => Ok(a),
        (a, b) => {
            let text = |committed| match committed {
                Committed::Checkpoint(number) => format!("checkpoint {number}"),
                _ => "no checkpoint".to_string(),
            };
            let message = format!("a process ended between two commits: one sink has {}, another {}", text(a), text(b));
            Err(Diagnostic::new(code::NOT_RECOVERABLE, message)
                .advise("write exactly once into one transactional system per job; the others can be files"))
        }
    }
}

/// What of the sources of a job has changed since it came to its end: nobody reads it.
pub(crate) fn unread_inputs(manifest: &Manifest, sources: Vec<(usize, Box<dyn Source>)>) -> Vec<String> {
    let mut notes = Vec::new();
    for (number, mut source) in sources {
        let (Some(state), Ok(splits)) = (manifest.sources.get(number), source.splits()) else { continue };
        let before: BTreeMap<&str, &SplitState> =
            state.splits.iter().map(|split| (split.name.as_str(), split)).collect();
        for split in splits {
            match before.get(split.name()) {
                None if source.is_replayable() && source.is_bounded() => {
                    notes.push(format!("'{}' of table {} is new", split.name(), state.table));
                }
                Some(SplitState { input: Some(input), ended, .. }) => {
                    notes.extend(split.verify(input, *ended).err().map(|changed| changed.to_string()));
                }
                _ => {}
            }
        }
    }
    notes
}

/// The checkpoint that a job resumes from; `None`: it starts from the beginning.
fn choose(
    checkpoints: &Checkpoints,
    listed: Vec<Listed>,
    committed: Committed,
    monitor: &RunMonitor,
) -> Result<Option<Manifest>, Diagnostic> {
    let earlier = listed.iter().filter_map(|listed| listed.manifest.as_ref().ok()).find(|manifest| manifest.is_later);
    if let (Committed::Nothing, Some(manifest)) = (committed, earlier) {
        let message = format!(
            "the job has committed rows before checkpoint {}, and its sink knows of none, so resuming from there or from the start \
             could lose rows or write them twice",
            manifest.checkpoint
        );
        return Err(Diagnostic::new(code::NOT_RECOVERABLE, message).advise(
            "set the sink's delivery guarantee, servers, and prefix of transactional ids to what they were, or start the job from the beginning \
             with another state directory",
        ));
    }
    let (mut is_any, mut last_damage) = (false, None);
    for Listed { checkpoint, manifest } in listed {
        let wanted = match committed {
            Committed::Resumable => true,
            Committed::Nothing => false,
            Committed::Checkpoint(number) => number == checkpoint,
        };
        if !wanted {
            continue;
        }
        is_any = true;
        let verify = |manifest: &Manifest| checkpoints.verify(manifest, VERIFIED_BYTES);
        let whole = match manifest {
            Ok(manifest) => {
                let verified = verify(&manifest).map_err(|e| unusable(&checkpoints.store().place(), &e))?;
                verified.map(|()| manifest)
            }
            Err(damaged) => Err(damaged),
        };
        match whole {
            Ok(manifest) => return Ok(Some(manifest)),
            Err(Damaged(what)) => {
                monitor.notice(format!("checkpoint {checkpoint} cannot be used: {what}"));
                last_damage = Some(what);
            }
        }
    }
    let place = checkpoints.store().place();
    match (committed, is_any) {
        (Committed::Checkpoint(number), _) => {
            let why = last_damage.unwrap_or_else(|| "it is not there".into());
            let message = format!(
                "the rows up to checkpoint {number} are committed, so the job can only resume from there, but: {why}"
            );
            Err(Diagnostic::new(code::NOT_RECOVERABLE, message))
        }
        (_, true) => {
            let message = format!("none of the checkpoints in {place} is whole");
            Err(Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
                .advise("restore the directory, or start the job from the beginning with another one"))
        }
        _ => Ok(None),
    }
}

fn unusable(place: &str, error: &io::Error) -> Diagnostic {
    let failure = store_failed(code::CHECKPOINT_FAILED, &format!("the state directory {place} cannot be used"), error);
    match std::path::Path::new(place).is_file() {
        true => failure.advise(format!("{place} is a file: give a directory, which is made if there is none")),
        false => failure,
    }
    .at(Place::Option("execution.checkpointing.dir".into()))
}
