//! The queries and inserts of the process, for whom `--http` shows them to.

use crate::config::Config;
#[cfg(feature = "http")]
use crate::config::HttpOptions;
use crate::control::Subject;
use crate::failure::Failure;
use crate::log;
use millstream::{CancelState, Diagnostic, RunDescription, RunMonitor, code};
use std::any::Any;
use std::net::SocketAddr;
#[cfg(feature = "http")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "otel")]
use std::time::Duration;
use std::time::SystemTime;

/// A server that runs as long as it lives.
pub(crate) struct Serving {
    /// What its address begins with.
    pub(crate) scheme: &'static str,
    pub(crate) address: SocketAddr,
    /// Whether it serves more than metrics and probes.
    pub(crate) has_dashboard: bool,
    _server: Box<dyn Any>,
}

impl Serving {
    /// Says where.
    pub(crate) fn tell(&self) {
        let Serving { scheme, address, has_dashboard, .. } = self;
        let dashboard = if *has_dashboard { format!("dashboard at {scheme}://{address}, ") } else { String::new() };
        log::info(&format!("{dashboard}metrics at {scheme}://{address}/metrics"));
    }
}

/// Serves jobs as the configuration says; `None` if it does not say that.
#[cfg(feature = "http")]
pub(crate) fn serve<J: millstream_dashboard::Jobs + 'static>(
    config: &Config,
    jobs: Arc<J>,
) -> Result<Option<Serving>, Failure> {
    let Some(config) = server_config(&config.http).map_err(Failure::usage)? else { return Ok(None) };
    let server = millstream_dashboard::Server::start(&config, jobs).map_err(Failure::usage)?;
    let (scheme, address, has_dashboard) = (server.scheme, server.address, server.has_dashboard);
    Ok(Some(Serving { scheme, address, has_dashboard, _server: Box::new(server) }))
}

/// Where to listen, and for whom; `None`: nowhere.
#[cfg(feature = "http")]
fn server_config(options: &HttpOptions) -> Result<Option<millstream_dashboard::ServerConfig>, Diagnostic> {
    let usage = |message: String, advice: &str| Diagnostic::new(code::USAGE, message).advise(advice);
    let HttpOptions { address, token_file, certificate, key, names } = options;
    let Some(address) = address.clone() else {
        let is_asked = token_file.is_some() || certificate.is_some() || key.is_some() || !names.is_empty();
        return match is_asked {
            true => Err(usage(
                "options of --http without --http".into(),
                "give the address as well, such as --http 0.0.0.0:9464",
            )),
            false => Ok(None),
        };
    };
    let read = |path: &PathBuf| -> Result<String, Diagnostic> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            usage(format!("--http-token-file {}: {e}", path.display()), "it is a file with the token in its first line")
        })?;
        let token = text.lines().next().unwrap_or_default().trim().to_string();
        millstream::secret::remember(&token);
        Ok(token)
    };
    let token = token_file.as_ref().map(read).transpose()?;
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Some(millstream_dashboard::Certificate { certificate: certificate.clone(), key: key.clone() })
        }
        (None, None) => None,
        _ => return Err(usage("TLS needs --http-certificate and --http-key".into(), "give both, as files in PEM")),
    };
    Ok(Some(millstream_dashboard::ServerConfig { address, token, certificate, names: names.clone() }))
}

/// There is no server in this program.
#[cfg(not(feature = "http"))]
pub(crate) fn serve<J>(config: &Config, _: Arc<J>) -> Result<Option<Serving>, Failure> {
    if config.http.address.is_none() {
        return Ok(None);
    }
    let error = Diagnostic::new(code::USAGE, "this program was built without --http");
    Err(Failure::usage(error.advise("build it with all it can: make release")))
}

/// Between two exports of metrics.
#[cfg(feature = "otel")]
const TELEMETRY_EVERY: Duration = Duration::from_secs(10);

/// Sends metrics and traces of jobs as the configuration says, as long as what is returned lives; `None` if it does not say that.
#[cfg(feature = "otel")]
pub(crate) fn send<J: millstream_dashboard::Jobs + 'static>(
    config: &Config,
    jobs: Arc<J>,
) -> Result<Option<Box<dyn Any>>, Failure> {
    let Some(endpoint) = &config.otlp else { return Ok(None) };
    let started = millstream_dashboard::Telemetry::start(endpoint, TELEMETRY_EVERY, jobs, |what| log::note(&what));
    Ok(Some(Box::new(started.map_err(Failure::usage)?)))
}

/// This program cannot.
#[cfg(not(feature = "otel"))]
pub(crate) fn send<J>(config: &Config, _: Arc<J>) -> Result<Option<Box<dyn Any>>, Failure> {
    if config.otlp.is_none() {
        return Ok(None);
    }
    let error = Diagnostic::new(code::USAGE, "this program was built without --otlp");
    Err(Failure::usage(error.advise("build it with all it can: make release")))
}

/// A job of the process.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "http"), allow(dead_code))]
pub(crate) struct WatchedJob {
    pub(crate) name: String,
    /// The file that it comes from.
    pub(crate) file: Option<String>,
    /// Its statement, with secrets masked.
    pub(crate) statement: String,
    pub(crate) monitor: Arc<RunMonitor>,
    pub(crate) description: Option<Arc<RunDescription>>,
    pub(crate) restarts: u64,
    pub(crate) state_dir: Option<String>,
}

/// What a run has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    Stopped,
    Failed,
    /// It is started again in a while.
    Restarting,
}

#[derive(Debug, Clone)]
struct ShownJob {
    job: WatchedJob,
    /// Since it has begun, or ended.
    since: SystemTime,
    end: Option<End>,
    error: Option<String>,
}

#[derive(Default)]
struct Everything {
    jobs: Vec<ShownJob>,
    /// Those that a request to stop is meant for.
    running: Vec<Arc<RunMonitor>>,
    /// How jobs with a state directory are asked for something.
    control: Option<Subject>,
}

/// The jobs of the process, as they are now.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Everything>);

impl Watched {
    fn all(&self) -> MutexGuard<'_, Everything> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of what ran before. What a job has failed with before it was started again stays to be seen.
    pub(crate) fn begin(&self, jobs: impl IntoIterator<Item = WatchedJob>) {
        let mut all = self.all();
        let before = std::mem::take(&mut all.jobs);
        let error = |job: &WatchedJob| before.iter().find(|shown| shown.job.name == job.name)?.error.clone();
        let shown = |job: WatchedJob| ShownJob {
            error: error(&job).filter(|_| job.restarts > 0),
            job,
            since: SystemTime::now(),
            end: None,
        };
        all.jobs = jobs.into_iter().map(shown).collect();
    }

    /// Names those that a request to stop is meant for.
    pub(crate) fn run(&self, monitors: &[Arc<RunMonitor>]) {
        self.all().running = monitors.to_vec();
    }

    /// From here on jobs can be asked for more than to stop.
    pub(crate) fn control(&self, subject: Subject) {
        self.all().control = Some(subject);
    }

    /// A run has ended, with a failure or without.
    pub(crate) fn end(&self, monitor: &Arc<RunMonitor>, failure: Option<&Diagnostic>) {
        let end = match failure.map(|failure| failure.code) {
            None => End::Finished,
            Some(code::SUSPENDED | code::CANCELLED) => End::Stopped,
            Some(_) => End::Failed,
        };
        let failure = failure.filter(|_| end == End::Failed).map(ToString::to_string);
        let mut all = self.all();
        for shown in all.jobs.iter_mut().filter(|shown| Arc::ptr_eq(&shown.job.monitor, monitor)) {
            (shown.end, shown.since) = (Some(end), SystemTime::now());
            shown.error = failure.clone().or(shown.error.take());
        }
    }

    /// Whether something runs that has rows to look after.
    pub(crate) fn has_begun(&self) -> bool {
        self.all().running.iter().any(|monitor| monitor.stats().is_some())
    }

    /// What was wrong is not wrong with what runs next.
    pub(crate) fn forget_failures(&self) {
        self.all().jobs.iter_mut().for_each(|shown| shown.error = None);
    }

    /// Whatever ran waits for being started again.
    pub(crate) fn pause(&self) {
        for shown in &mut self.all().jobs {
            shown.job.monitor = Arc::new(RunMonitor::new());
            (shown.end, shown.since) = (Some(End::Restarting), SystemTime::now());
        }
    }
}

#[cfg_attr(not(feature = "http"), allow(dead_code))]
impl ShownJob {
    /// Whether sources and sinks have answered.
    fn has_begun(&self) -> bool {
        self.job.monitor.stats().is_some_and(|stats| stats.has_begun())
    }

    fn is_stopping(&self) -> bool {
        self.job.monitor.cancel().state() != CancelState::Running
    }
}

#[cfg(feature = "http")]
mod served {
    use super::{End, ShownJob, Watched};
    use crate::{control, log};
    use millstream::RunMonitor;
    use millstream_dashboard::{Action, JobState, JobView, Jobs, Mode, Refused};
    use std::sync::Arc;

    impl Jobs for Watched {
        fn mode(&self) -> Mode {
            Mode::Run
        }

        fn views(&self) -> Vec<JobView> {
            let (jobs, can_rescale) = {
                let all = self.all();
                (all.jobs.clone(), all.control.as_ref().is_some_and(|control| control.has_cluster()))
            };
            jobs.into_iter().map(|shown| shown.view(can_rescale)).collect()
        }

        fn act(&self, job: &str, action: Action) -> Result<String, Refused> {
            let (shown, running, control) = {
                let all = self.all();
                let shown = all.jobs.iter().find(|shown| shown.job.name == job).cloned();
                (shown, all.running.clone(), all.control.clone())
            };
            let shown = shown.ok_or_else(|| Refused::new("there is no such job", "GET /api/v1/jobs lists them"))?;
            if matches!(shown.end, Some(End::Finished | End::Stopped | End::Failed)) {
                return Err(Refused::new("the job has ended", "run it again"));
            }
            let needs_state = || Refused::new("the job has no state directory", "run it with --state-dir DIR");
            match action {
                Action::Checkpoint if shown.end.is_some() => {
                    Err(Refused::new("the job does not run now", "ask again when it does"))
                }
                Action::Checkpoint => {
                    control.filter(|_| shown.job.state_dir.is_some()).ok_or_else(needs_state)?;
                    if control::takes_none(&shown.job.monitor) {
                        return Err(Refused::new(control::TAKES_NONE, "it is recovered by reading its input again"));
                    }
                    shown.job.monitor.cancel().checkpoint();
                    Ok("a checkpoint is being taken".into())
                }
                Action::Stop => Ok(stop(&running, shown.job.state_dir.is_some())),
                Action::Rescale(nodes) => {
                    let control = control.ok_or_else(needs_state)?;
                    control::rescale(&control, nodes).map_err(|message| Refused { message, advice: None })
                }
            }
        }

        fn audit(&self, line: &str) {
            log::info(line);
        }
    }

    /// Inserts of a script run and end together.
    fn stop(running: &[Arc<RunMonitor>], has_state: bool) -> String {
        running.iter().for_each(|monitor| monitor.cancel().stop());
        let who = match running.len() {
            0 | 1 => "the job".to_string(),
            jobs => format!("the {jobs} jobs of the script"),
        };
        let s = if running.len() > 1 { "" } else { "s" };
        match has_state {
            true => format!("{who} take{s} a checkpoint and stop{s}"),
            false => format!("{who} stop{s}"),
        }
    }

    impl ShownJob {
        fn view(self, can_rescale: bool) -> JobView {
            let state = match self.end {
                Some(End::Finished) => JobState::Finished,
                Some(End::Stopped) => JobState::Stopped,
                Some(End::Failed) => JobState::Failed,
                Some(End::Restarting) => JobState::Restarting,
                None if self.is_stopping() => JobState::Stopping,
                None if self.has_begun() => JobState::Running,
                None => JobState::Starting,
            };
            let job = self.job;
            JobView {
                name: job.name,
                file: job.file,
                state,
                since: self.since,
                restarts: job.restarts,
                error: self.error,
                monitor: Some(job.monitor),
                description: job.description,
                statement: job.statement,
                state_dir: job.state_dir,
                can_rescale,
            }
        }
    }
}
