//! The state directory of a session: which job a statement is, and the checkpoint that it resumes from.
//!
//! Each INSERT (or STATEMENT SET) of a session is a separate job: `job-1`, `job-2`, … in the order of their first run.
//! A script that is run again finds each by its name (`pipeline.name`); one without a name by the tables that it writes and by what it
//! keeps, wherever it stands now.
//! Jobs that have ended are not run again.

use crate::cluster::StateOfJob;
use crate::fitting::{of_another_version, recovered};
use crate::job_name::{is_job_name, job_name};
use crate::known_jobs::{KnownJobs, TakenJob, unusable};
use crate::monitor::RunMonitor;
use crate::stored_files::StoredFiles;
use millstream_connectors::{Committed, Delivery, RestoredSink, Sink, SinkFiles, SinkJob, SinkWriter, Source};
use millstream_plan::pipeline::QueryPlan;
use millstream_plan::shape::PlanShape;
use millstream_runtime::{CheckpointConfig, Recovered};
use millstream_storage::{Checkpoints, Damaged, Listed, Manifest, PlaceLock, SplitState, StatePlace, Store};
use millstream_types::{Diagnostic, Place, code};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// State of up to this many bytes is read before a query resumes from it, so that damage is found while an older
/// checkpoint can take its place. Larger state is only checked to be there.
const VERIFIED_BYTES: u64 = 1 << 30;

/// Holds the name of a job.
pub(crate) const JOB_FILE: &str = "job";

/// A state directory, which no other process uses meanwhile.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    pub(crate) known: KnownJobs,
    lock: PlaceLock,
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
        Ok(StateDirectory { known: KnownJobs::of(place)?, lock })
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &StatePlace {
        &self.known.place
    }

    /// The job that a statement with this plan is: see [`KnownJobs::take`].
    pub(crate) fn job(
        &mut self,
        plan: &QueryPlan,
        to_come: &[Vec<String>],
        name: Option<&str>,
        settings: Checkpointed,
    ) -> Result<JobState, Diagnostic> {
        let TakenJob { number, name, note, running } = self.known.take(&PlanShape::of(plan), to_come, name)?;
        let place = self.known.place.clone();
        let checkpoints = place.own_checkpoints(number, &self.lock);
        let checkpoints = checkpoints.map_err(|e| unusable(&place.to_string(), &e))?;
        let (directory, remote) = sink_files(&place, number);
        let run = self.lock.run();
        Ok(JobState { checkpoints, name, run, place, number, directory, remote, settings, note, running })
    }
}

/// Where sinks of a job keep files: in a local directory, or copies of what is in a store.
pub(crate) fn sink_files(place: &StatePlace, number: usize) -> (PathBuf, Option<Arc<dyn SinkFiles>>) {
    let directory = place.local().join(format!("job-{number}")).join("sinks");
    let remote = place.sinks(number).map(|store| Arc::new(StoredFiles { store }) as Arc<dyn SinkFiles>);
    (directory, remote)
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
