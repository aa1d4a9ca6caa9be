//! Scripts that come in over HTTP (`--allow-submit`).
//!
//! A script is checked as its job would check it, in a session of its own and on the thread of the request, so neither a server that does not
//! answer nor a large text holds up the service. Then it is written into the directory, where the service finds it like any other file.
//! A text that is refused leaves the file as it was, and so does a process that dies while it writes.

use super::folder::{COMMON, common_of, is_job, without_mark};
use super::outputs::Outputs;
use super::script::{JobScript, Setting};
use crate::config::Config;
use millstream::{Diagnostic, code, is_outage};
use millstream_dashboard::{ScriptRefused, Scripts};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of the name of a file, which is what file systems allow.
const NAME_BYTES: usize = 255;

/// What the names of files begin with that are being written.
const UNFINISHED: &str = ".submitted-";

/// Where scripts go, and what they are checked with.
pub(super) struct Submissions {
    config: Arc<Config>,
    /// That of the service.
    directory: PathBuf,
    /// Where the state directories of jobs are.
    state: String,
    outputs: Arc<Outputs>,
    /// Of the next file that is written.
    next: AtomicU64,
}

impl Submissions {
    pub(super) fn new(config: &Arc<Config>, directory: &Path, (state, outputs): (&str, &Arc<Outputs>)) -> Submissions {
        // A process that was killed while it wrote has left what it had.
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let is_left = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        entries.filter(is_left).for_each(|entry| _ = fs::remove_file(entry.path()));
        Submissions {
            config: Arc::clone(config),
            directory: directory.to_path_buf(),
            state: state.to_string(),
            outputs: Arc::clone(outputs),
            next: AtomicU64::new(0),
        }
    }

    /// The file of a script, whose name is none that leads elsewhere.
    fn path(&self, name: &str) -> Result<PathBuf, ScriptRefused> {
        let refused = |message: &str| {
            let error = Diagnostic::new(code::USAGE, message);
            Err(ScriptRefused::Name(
                error.advise("give a name such as clicks-by-hour, which begins with neither . nor _"),
            ))
        };
        if !is_job(name) || name.contains('/') || name.contains(char::is_control) {
            return refused("no job can have this name");
        }
        let file = format!("{name}.sql");
        if file.len() > NAME_BYTES {
            return refused(&format!("the name is longer than {} bytes", NAME_BYTES - ".sql".len()));
        }
        Ok(self.directory.join(file))
    }

    /// Whether a text could be run as the job of this name, beside what is there.
    fn check(&self, name: &str, path: &Path, sql: &str) -> Result<(), ScriptRefused> {
        let common = common_of(&self.directory).map_err(|e| self.failed(&self.directory.join(COMMON), &e))?;
        let common = common.transpose().map_err(ScriptRefused::Unknown)?;
        let script = JobScript { common, own: without_mark(sql).to_string() };
        let address = format!("{}/{name}", self.state);
        let setting = Setting {
            config: Arc::clone(&self.config),
            job: name.into(),
            path: path.to_path_buf(),
            address,
            outputs: Arc::clone(&self.outputs),
        };
        setting.check(&script).map(drop).map_err(|failure| match is_outage(failure.code()) {
            true => ScriptRefused::Unknown(failure.into_diagnostic()),
            false => ScriptRefused::Text(failure.into_diagnostic()),
        })
    }

    /// Has a file have this text; whether there was none. All of it is there afterwards, or what was there before.
    fn write(&self, path: &Path, sql: &str) -> io::Result<bool> {
        let present = fs::symlink_metadata(path).ok();
        // A script may have passwords in it. Who has given it to others has done so for the next text, too.
        let present_mode = present.as_ref().filter(|file| file.is_file()).map(|file| file.permissions().mode());
        let unfinished =
            self.directory.join(format!("{UNFINISHED}{}-{}", process::id(), self.next.fetch_add(1, Relaxed)));
        let written = (|| {
            let mut file = File::options().create_new(true).write(true).mode(0o600).open(&unfinished)?;
            file.set_permissions(Permissions::from_mode(present_mode.unwrap_or(0o600) & 0o777))?;
            file.write_all(sql.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, path)
        })();
        if written.is_err() {
            _ = fs::remove_file(&unfinished);
        }
        written?;
        self.sync()?;
        Ok(present.is_none())
    }

    /// Lets names survive a power failure.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn failed(&self, path: &Path, error: &io::Error) -> ScriptRefused {
        let message = format!("{} cannot be read or written: {error}", path.display());
        let error = Diagnostic::new(code::WRITE_FAILED, message);
        ScriptRefused::File(
            error.advise("let the user of the service write its directory, and look at the space that is left"),
        )
    }
}

impl Scripts for Submissions {
    fn submit(&self, name: &str, sql: &str) -> Result<String, ScriptRefused> {
        let path = self.path(name)?;
        self.check(name, &path, sql)?;
        let is_new = self.write(&path, sql).map_err(|e| self.failed(&path, &e))?;
        Ok(match is_new {
            true => "the script is written, and its job starts within seconds",
            false => "the script is written, and its job resumes with it within seconds",
        }
        .into())
    }

    fn remove(&self, name: &str) -> Result<String, ScriptRefused> {
        let path = self.path(name)?;
        match fs::remove_file(&path).and_then(|()| self.sync()) {
            Ok(()) => Ok("the script is removed: its job stops with a checkpoint, and its state stays".into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let error = Diagnostic::new(code::FILE_NOT_FOUND, format!("there is no script {name:?}"));
                Err(ScriptRefused::Missing(error.advise("GET /api/v1/jobs lists the jobs, each with its file")))
            }
            Err(e) => Err(self.failed(&path, &e)),
        }
    }
}
