//! `millstream serve`: the scripts of a directory run as jobs, each in its own state directory, with the workers and the memory of one query
//! among them.
//!
//! - `folder`: which files there are, and what has changed.
//! - `script`: what a file may say, and what of it is kept with the state.
//! - `job`: the life of a job; `running`: the text that it runs; `shown`: how it is shown.
//! - `outputs`: which job writes which files.
//! - `submitted`: scripts that come in over HTTP.
//!
//! Nothing but the directory says what is run. Over HTTP jobs can be looked at, stopped, and asked for checkpoints. With `--allow-submit`, which
//! wants a token, scripts can be written into the directory as well.

mod folder;
mod job;
mod outputs;
mod running;
mod script;
mod shown;
#[cfg(feature = "http")]
mod submitted;

use crate::arguments::{Common, LogArgument};
use crate::config::Config;
use crate::context::session;
use crate::failure::Failure;
use crate::interrupt::at_signal;
use crate::log;
use crate::watch::{Serving, send, serve as serve_http};
use folder::{Folder, Found};
use job::{Desk, ServedJob, Want};
use millstream::storage::{DirectoryLock, StatePlace, make_private};
use millstream::{Diagnostic, Place, SharedResources, code, counted};
use outputs::Outputs;
use script::{JobFiles, Setting};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the directory is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// What holds the lock of all states; no job is called so.
const LOCK: &str = ".service";
/// How soon the end of jobs is seen.
const MOMENT: Duration = Duration::from_millis(20);
/// How long the end of jobs is waited for that have not begun: they may wait for a server that does not answer.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often a state directory is tried that cannot be used.
const RETRY: Duration = Duration::from_secs(5);

/// The jobs that there are, by their names.
#[derive(Default)]
pub(crate) struct Entries {
    all: Mutex<BTreeMap<String, Entry>>,
    /// Takes scripts that come in over HTTP, if any may.
    #[cfg(feature = "http")]
    scripts: Option<submitted::Submissions>,
}

struct Entry {
    desk: Arc<Desk>,
    found: Found,
    /// Of its state directory.
    #[cfg_attr(not(feature = "http"), allow(dead_code))]
    address: String,
    thread: JoinHandle<()>,
    /// Its file has gone, or the service ends.
    is_leaving: bool,
}

impl Entries {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all jobs have together.
struct Service {
    config: Arc<Config>,
    /// Where the state directories of jobs are.
    state: String,
    resources: Arc<SharedResources>,
    outputs: Arc<Outputs>,
    entries: Arc<Entries>,
    is_shown: bool,
}

/// `millstream serve`: until a signal ends it.
pub(crate) fn serve(directory: &Path, takes_scripts: bool, common: &Common) -> Result<(), Failure> {
    let (ends, main) = (Arc::new(AtomicBool::new(false)), thread::current());
    let ended = Arc::clone(&ends);
    let at_first = move || {
        ended.store(true, Relaxed);
        main.unpark();
    };
    at_signal(at_first).map_err(Failure::usage)?;
    let of_directory = directory.join("millstream.toml");
    let default = if of_directory.is_file() { of_directory.as_path() } else { Path::new("millstream.toml") };
    let config = Arc::new(Config::load_with(common, default)?);
    let form = if stderr().is_terminal() { LogArgument::Text } else { LogArgument::Json };
    log::set_form(config.log_format.unwrap_or(form));
    if !directory.is_dir() {
        let place = Place::Data { resource: directory.display().to_string(), offset: None, line: None, column: None };
        let error = Diagnostic::new(code::FILE_NOT_FOUND, "there is no such directory").at(place);
        return Err(Failure::usage(error.advise("give the directory with the scripts: millstream serve DIR")));
    }
    let session = session(&config)?;
    let in_directory = || directory.join(".state").display().to_string();
    let state = session.state_address().map_or_else(in_directory, |address| address.trim_end_matches('/').to_string());
    let place = StatePlace::parse(&state).map_err(Failure::usage)?;
    let _lock = lock(&place)?;
    let outputs = Arc::<Outputs>::default();
    let entries = Arc::new(entries(&config, takes_scripts.then_some(directory), (&state, &outputs))?);
    let server = serve_http(&config, Arc::clone(&entries))?;
    server.iter().filter(|_| !config.quiet).for_each(Serving::tell);
    let _telemetry = send(&config, Arc::clone(&entries))?;
    let resources = Arc::new(SharedResources::of(&session));
    let service = Service { config, state, resources, outputs, entries, is_shown: server.is_some() };
    service.run(directory, &ends);
    Ok(())
}

/// No jobs yet; with a directory for scripts those are taken that come in over HTTP.
#[cfg_attr(not(feature = "http"), allow(unused_variables))]
fn entries(
    config: &Arc<Config>,
    scripts: Option<&Path>,
    (state, outputs): (&str, &Arc<Outputs>),
) -> Result<Entries, Failure> {
    if scripts.is_some() && config.http.address.is_none() {
        let error = Diagnostic::new(
            code::USAGE,
            "--allow-submit without --http: there is no address that scripts could come in by",
        );
        return Err(Failure::usage(
            error.advise("give --http and --http-token-file as well, such as --http 9464 --http-token-file token"),
        ));
    }
    Ok(Entries {
        #[cfg(feature = "http")]
        scripts: scripts.map(|directory| submitted::Submissions::new(config, directory, (state, outputs))),
        ..Entries::default()
    })
}

/// Two services would run each job twice.
fn lock(place: &StatePlace) -> Result<DirectoryLock, Failure> {
    let path = place.local().join(LOCK);
    let unusable = |e: std::io::Error| {
        let message = format!("the state directory {place} cannot be used: {e}");
        Failure::usage(Diagnostic::new(code::CHECKPOINT_FAILED, message))
    };
    if place.is_remote() {
        make_private(place.local()).map_err(unusable)?;
    }
    DirectoryLock::take(&path).map_err(unusable)?.ok_or_else(|| {
        let holder = DirectoryLock::holder(&path).map_or_else(String::new, |id| format!(" (process {id})"));
        let message = format!("another millstream serve{holder} has its jobs in {place}");
        Failure::usage(Diagnostic::new(code::STATE_IN_USE, message).advise("stop it, or give another --state-dir"))
    })
}

impl Service {
    /// Has the jobs follow the directory until the end is asked for, and then stops them.
    fn run(&self, directory: &Path, ends: &AtomicBool) {
        let (mut folder, mut is_readable) = (Folder::new(directory), true);
        self.tell(&format!(
            "serving {}: its jobs share {} MiB of memory, and have their state in {}",
            directory.display(),
            self.resources.memory_bytes() >> 20,
            self.state
        ));
        let mut next = Instant::now();
        while !ends.load(Relaxed) {
            if Instant::now() >= next {
                match folder.look() {
                    Ok(files) => {
                        is_readable = true;
                        self.follow(files);
                    }
                    Err(e) => {
                        if std::mem::replace(&mut is_readable, false) {
                            log::note(&format!("{} cannot be read: {e}; jobs stay as they are", directory.display()));
                        }
                    }
                }
                next = Instant::now() + LOOK;
            }
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
        }
        self.end();
    }

    fn tell(&self, message: &str) {
        if !self.config.quiet {
            log::info(message);
        }
    }

    /// Has each job know what its file says now.
    fn follow(&self, files: &BTreeMap<String, Found>) {
        let mut entries = self.entries.lock();
        let gone =
            |(name, entry): (&String, &Entry)| (entry.is_leaving && entry.thread.is_finished()).then(|| name.clone());
        for name in entries.iter().filter_map(gone).collect::<Vec<_>>() {
            entries.remove(&name);
            self.outputs.forget(&name);
        }
        for (name, entry) in entries.iter_mut().filter(|(name, _)| !files.contains_key(*name)) {
            if !std::mem::replace(&mut entry.is_leaving, true) {
                self.tell(&format!("the file of {name} has gone: the job stops, and its state stays"));
                entry.desk.want(Want::End);
            }
        }
        // Of all, before one begins: a job that is new takes nothing from one that has written there before. Of two that have, it is that of
        // the later one.
        let new = files.keys().filter(|name| !entries.contains_key(*name));
        let mut written: Vec<_> =
            new.filter_map(|name| Some((JobFiles::outputs_at(&self.address(name))?, name))).collect();
        written.sort_by_key(|((since, ..), _)| Reverse(*since));
        for ((_, files, paths), name) in written {
            if let Some(fewer) = self.outputs.keep(name, paths)
                && let Err(e) = files.set_outputs(&fewer)
            {
                log::note(&format!("the state directory of {name} cannot be written: {e}"));
            }
        }
        for (name, found) in files {
            match entries.get_mut(name) {
                // When it has ended it begins again.
                Some(entry) if entry.is_leaving || entry.found == *found => {}
                Some(entry) => {
                    entry.found = found.clone();
                    entry.desk.want(wanted(found));
                }
                None => match self.begin(name, found) {
                    Ok(entry) => drop(entries.insert(name.clone(), entry)),
                    // It is tried again at the next look.
                    Err(failure) => failure.report(),
                },
            }
        }
    }

    /// Of the state directory of a job.
    fn address(&self, job: &str) -> String {
        format!("{}/{job}", self.state)
    }

    /// A job that is new.
    fn begin(&self, name: &str, found: &Found) -> Result<Entry, Failure> {
        let (job, desk) = (Arc::<str>::from(name), Desk::new(wanted(found)));
        let address = self.address(name);
        let setting = Setting {
            config: Arc::clone(&self.config),
            job: Arc::clone(&job),
            path: found.path.clone(),
            address: address.clone(),
            outputs: Arc::clone(&self.outputs),
        };
        let (resources, is_shown, own) = (Arc::clone(&self.resources), self.is_shown, Arc::clone(&desk));
        let body = move || {
            log::of_job(&job);
            loop {
                match ServedJob::new(&setting, &resources, is_shown, &own) {
                    Ok(job) => return job.live(),
                    Err(failure) if own.status.fail(failure.to_string()) => failure.report(),
                    Err(_) => {}
                }
                if own.is_to_end_within(RETRY) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("serve-job".into()).spawn(body).map_err(running::no_thread)?;
        Ok(Entry { desk, found: found.clone(), address, thread, is_leaving: false })
    }

    /// Stops all jobs with a checkpoint each, at the same time, and waits for them; but not for servers that do not answer.
    fn end(&self) {
        let since = Instant::now();
        let mut entries = std::mem::take(&mut *self.entries.lock());
        self.tell(&format!("stopping {}, each with a checkpoint", counted(entries.len(), "job")));
        entries.values().for_each(|entry| entry.desk.want(Want::End));
        while !entries.is_empty() {
            entries.retain(|name, entry| {
                let is_waited_for = since.elapsed() < FAREWELL || entry.desk.watched.has_begun();
                if !entry.thread.is_finished() && !is_waited_for {
                    log::note(&format!("{name} has not begun, and is not waited for"));
                }
                !entry.thread.is_finished() && is_waited_for
            });
            thread::sleep(MOMENT);
        }
    }
}

fn wanted(found: &Found) -> Want {
    Want::Run(found.stamp, found.script.clone())
}
