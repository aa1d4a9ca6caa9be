//! The text of a job: what it may say, what of it is kept with the state, and whether the state fits.
//!
//! Beside the checkpoints of a job are
//!
//! - `accepted.json`: the text that it runs by, which is not the file's when that is broken or does not fit. So the job keeps it after
//!   the process was killed, too.
//! - `outputs.json`: which files and directories that text writes ([`Outputs`]).
//! - `stopped.json`: when the file had been written whose job somebody has stopped: as long as that is the same it stays stopped.

use super::folder::COMMON;
use super::outputs::Outputs;
use crate::config::Config;
use crate::context::session;
use crate::failure::{Failure, Text};
use millstream::sql::{self, ParsedStatement, Statement};
use millstream::storage::{StatePlace, make_private};
use millstream::{Diagnostic, Discarded, Place, PreparedRun, RunMonitor, Session, code};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

const ACCEPTED: &str = "accepted.json";
const STOPPED: &str = "stopped.json";
const OUTPUTS: &str = "outputs.json";

/// The statements of a job, before variables are substituted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobScript {
    /// Those in front of the scripts of all jobs.
    pub(super) common: Option<String>,
    pub(super) own: String,
}

/// When its files were written: nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) own: u64,
    pub(super) common: Option<u64>,
}

/// What the session of a job begins with.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) config: Arc<Config>,
    /// What it is called.
    pub(super) job: Arc<str>,
    /// Of its script.
    pub(super) path: PathBuf,
    /// Of its state directory.
    pub(super) address: String,
    /// What the jobs of the service write.
    pub(super) outputs: Arc<Outputs>,
}

/// A script that can be run.
pub(super) struct Checked {
    pub(super) statements: Vec<Statement>,
    /// The local files and directories that its inserts write.
    pub(super) outputs: Vec<PathBuf>,
}

impl Setting {
    pub(super) fn session(&self) -> Result<Session, Failure> {
        let mut session = session(&self.config)?;
        session.set("execution.checkpointing.dir", &self.address).map_err(Failure::usage)?;
        Ok(session)
    }

    /// The texts in the order in which they are executed.
    pub(super) fn texts(&self, script: &JobScript) -> Result<Vec<Text>, Failure> {
        let common = self.path.with_file_name(COMMON);
        let parts = script.common.iter().map(|sql| (sql, common.as_path())).chain([(&script.own, self.path.as_path())]);
        parts.map(|(sql, path)| self.config.substituted(sql.clone(), path.display().to_string())).collect()
    }

    /// What a script consists of.
    pub(super) fn statements(&self, script: &JobScript) -> Result<Vec<Statement>, Failure> {
        let parsed = |text: Text| sql::parse_script(&text.sql).map_err(|error| Failure::statement(error, &text));
        let parsed = self.texts(script)?.into_iter().map(parsed).collect::<Result<Vec<_>, Failure>>()?;
        Ok(parsed.into_iter().flatten().map(|statement| statement.statement).collect())
    }

    /// Plans a script, and looks whether it could resume from the state that there is, and whether another job writes what it writes. Nothing is opened
    /// but what tells the columns of tables.
    pub(super) fn check(&self, script: &JobScript) -> Result<Checked, Failure> {
        let mut session = self.session()?;
        let texts = self.texts(script)?;
        let (mut all, mut inserts) = (Vec::new(), Vec::new());
        for (at, text) in texts.iter().enumerate() {
            let failed = |diagnostic| Failure::statement(diagnostic, text);
            let is_common = at + 1 < texts.len();
            for statement in session.parse(&text.sql).map_err(failed)? {
                inserts.extend(self.plan(&mut session, &statement, is_common).map_err(failed)?);
                all.push(statement.statement);
            }
        }
        let own = texts.last().ok_or_else(|| Failure::failed(Diagnostic::bug("a job has no text")))?;
        let failed = |diagnostic| Failure::statement(diagnostic, own);
        if inserts.is_empty() {
            let error = Diagnostic::new(code::USAGE, "the script has no INSERT, so there is nothing to run");
            return Err(failed(
                error.advise("write INSERT INTO … SELECT …; definitions for several jobs are for _common.sql"),
            ));
        }
        let outputs: Vec<PathBuf> = inserts.iter().flat_map(|(run, _)| run.written_paths()).collect();
        self.outputs.may_write(&self.job, &outputs).map_err(failed)?;
        session.would_resume(inserts).map_err(failed)?;
        Ok(Checked { statements: all, outputs })
    }

    /// Executes a definition, or plans an insert.
    fn plan(
        &self,
        session: &mut Session,
        statement: &ParsedStatement,
        is_common: bool,
    ) -> Result<Option<(PreparedRun, Vec<String>)>, Diagnostic> {
        let refused = |message: &str, advice: &str| {
            let place = Place::Sql { line: statement.line, column: 1, length: 1 };
            Err(Diagnostic::new(code::USAGE, message).at(place).advise(advice))
        };
        if statement.changes_session() {
            session.execute(statement, &mut Discarded, &RunMonitor::new())?;
            return match session.state_address() == Some(&self.address) {
                true => Ok(None),
                false => refused(
                    "the state directory of a job of a service is not for its script to choose",
                    &format!("leave 'execution.checkpointing.dir' out: it is {}", self.address),
                ),
            };
        }
        match statement.is_insert() {
            true if is_common => refused("an INSERT would run with each job", "put it into the script of one job"),
            true => Ok(Some((session.plan_with(statement, &mut |_| Ok(None))?, statement.targets()))),
            false => refused(
                "nobody would see what this statement prints",
                "write INSERT INTO … SELECT …; to look at rows or plans, use millstream run or millstream explain",
            ),
        }
    }
}

/// The files beside the checkpoints of a job.
#[derive(Clone)]
pub(super) struct JobFiles(PathBuf);

impl JobFiles {
    /// Makes the state directory, if it is not there.
    pub(super) fn open(place: &StatePlace) -> io::Result<JobFiles> {
        match place.is_remote() {
            true => make_private(place.local())?,
            false => fs::create_dir_all(place.local())?,
        }
        Ok(JobFiles(place.local().to_path_buf()))
    }

    /// The text that was run by last.
    pub(super) fn accepted(&self) -> io::Result<Option<JobScript>> {
        self.read(ACCEPTED)
    }

    pub(super) fn accept(&self, script: &JobScript) -> io::Result<()> {
        self.write(ACCEPTED, script)
    }

    pub(super) fn set_outputs(&self, paths: &[PathBuf]) -> io::Result<()> {
        self.write(OUTPUTS, &paths)
    }

    /// What the text writes that a job with its state there was run by last, and since when; `None` where that is not known.
    pub(super) fn outputs_at(address: &str) -> Option<(SystemTime, JobFiles, Vec<PathBuf>)> {
        let kept = JobFiles(StatePlace::parse(address).ok()?.local().to_path_buf());
        let since = fs::metadata(kept.0.join(OUTPUTS)).and_then(|file| file.modified()).ok()?;
        let outputs = kept.read(OUTPUTS).ok()??;
        Some((since, kept, outputs))
    }

    /// When the file was written whose job somebody has stopped.
    pub(super) fn stopped(&self) -> io::Result<Option<u64>> {
        self.read(STOPPED)
    }

    pub(super) fn set_stopped(&self, written: Option<u64>) -> io::Result<()> {
        match written {
            Some(written) => self.write(STOPPED, &written),
            None => match fs::remove_file(self.0.join(STOPPED)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            },
        }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// All of it is there afterwards, or what was there before.
    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let unfinished = self.0.join(format!("{name}.new"));
        // A script may have passwords in it.
        let mut file = fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.0.join(name))?;
        sync_directory(&self.0)
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}
