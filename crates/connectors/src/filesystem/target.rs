//! Output files that appear whole or not at all.
//!
//! A file is written under a hidden name in the directory of its final one, forced to disk ([`Sealed`]), and renamed. If the
//! query is aborted, dropping the [`Target`] removes it. Standard output and devices are written as they are.

use super::checksum::Checksum;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file being written, a device, or standard output.
pub(crate) struct Output {
    pub(super) file: File,
    /// That of what it has, where a recovery asks for it.
    pub(super) checksum: Option<Checksum>,
}

impl Output {
    /// The output itself, from who only lends it and writes no more.
    pub(crate) fn take(&mut self) -> io::Result<Output> {
        Ok(Output { file: self.file.try_clone()?, checksum: self.checksum.take() })
    }

    /// Bytes, and their checksum.
    pub(super) fn contents(&self) -> io::Result<Contents> {
        let checksum = self.checksum.as_ref().map_or(0, Checksum::value);
        Ok(Contents { bytes: self.file.metadata()?.len(), checksum })
    }
}

/// What an output file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contents {
    /// Its size.
    pub bytes: u64,
    /// That of [`Checksum::value`]; 0 where nobody asks for it.
    #[serde(rename = "xxh3")]
    pub checksum: u64,
}

/// Bytes of a sink's files whose checksums a recovery compares: of more it looks at the sizes only.
pub(super) const VERIFIED_BYTES: u64 = 1 << 30;

impl Contents {
    /// Whether a file begins with them.
    pub(super) fn begin(self, file: &File) -> io::Result<bool> {
        Ok(Checksum::of_file(file, self.bytes)?.value() == self.checksum)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&bytes[..written]);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where an output becomes visible.
#[derive(Debug)]
pub(super) struct Target {
    /// For messages.
    pub name: String,
    pending: Option<(TempPath, PathBuf)>,
}

/// A complete file that is on disk under its hidden name; dropped, it is removed.
#[derive(Debug)]
pub(super) struct Sealed {
    temporary: TempPath,
    path: PathBuf,
    contents: Contents,
}

/// The hidden name of a file that has its final name already in it.
pub(super) fn hidden_name(name: &str) -> String {
    format!(".{name}")
}

impl Target {
    /// Standard output.
    pub(super) fn stdout() -> Result<(Target, Output), Diagnostic> {
        let file = io::stdout().as_fd().try_clone_to_owned().map_err(|e| stdout_error(&e))?;
        Ok((Target { name: STDOUT.into(), pending: None }, Output { file: file.into(), checksum: None }))
    }

    /// The file `path`, which is replaced if it exists, or a device.
    pub(super) fn file(path: &Path) -> Result<(Target, Output), Diagnostic> {
        let name = path.to_string_lossy().into_owned();
        let failed = |e: io::Error| write_error(&name, &e);
        let special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        if special {
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok((Target { name, pending: None }, Output { file, checksum: None }));
        }
        // A link stays a link: what it points to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&directory).map_err(failed)?;
        // One file has one name, whatever the way to it.
        let directory = fs::canonicalize(&directory).map_err(failed)?;
        let path = path.file_name().map_or_else(|| path.clone(), |file| directory.join(file));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".millstream-").suffix(".part");
        // What the umask leaves of this, as for any new file; the default would be private.
        builder.permissions(fs::Permissions::from_mode(0o666));
        let (file, temporary) = builder.tempfile_in(&directory).map_err(|e| failed(e.kind().into()))?.into_parts();
        Ok((Target { name, pending: Some((temporary, path)) }, Output { file, checksum: None }))
    }

    /// The file `name` of a directory, whose hidden name follows from it ([`hidden_name`]), so that it is found again. Its checksum is
    /// kept.
    pub(super) fn part(directory: &Path, name: &str) -> Result<(Target, Output), Diagnostic> {
        let (path, hidden) = (directory.join(name), directory.join(hidden_name(name)));
        let shown = path.to_string_lossy().into_owned();
        let file = File::create(&hidden).map_err(|e| write_error(&shown, &e))?;
        let temporary = TempPath::try_from_path(&hidden).map_err(|e| write_error(&shown, &e))?;
        Ok((Target { name: shown, pending: Some((temporary, path)) }, Output { file, checksum: Some(Checksum::new()) }))
    }

    /// The file that appears in the end; none of standard output and devices.
    pub(super) fn path(&self) -> Option<&Path> {
        self.pending.as_ref().map(|(_, path)| path.as_path())
    }

    /// Makes a completely written output visible under its name.
    pub(super) fn publish(self, mut output: Output) -> Result<(), Diagnostic> {
        if self.pending.is_none() {
            return output.flush().map_err(|e| write_error(&self.name, &e));
        }
        let name = self.name.clone();
        let Sealed { temporary, path, .. } = self.seal(output)?;
        temporary.persist(&path).map_err(|e| write_error(&name, &e.error))?;
        if let Some(directory) = path.parent() {
            sync_directory(directory);
        }
        Ok(())
    }

    /// Forces a completely written file to disk, without giving it its name.
    pub(super) fn seal(self, output: Output) -> Result<Sealed, Diagnostic> {
        let (temporary, path) = self.pending.ok_or_else(|| Diagnostic::bug("only files can be sealed"))?;
        let contents = output.file.sync_all().and_then(|()| output.contents());
        let contents = contents.map_err(|e| write_error(&self.name, &e))?;
        Ok(Sealed { temporary, path, contents })
    }
}

impl Sealed {
    /// Leaves the file under its hidden name. Returns the final name, without the directory, and what it holds.
    pub(super) fn keep(self) -> Result<(String, Contents), Diagnostic> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.temporary.keep().map_err(|e| write_error(&self.path, &e.error))?;
        Ok((name, self.contents))
    }
}

/// Lets new names survive a power failure, too; not every file system can promise that.
pub(crate) fn sync_directory(directory: &Path) {
    if let Ok(directory) = File::open(directory) {
        directory.sync_all().ok();
    }
}

/// What messages call standard output.
const STDOUT: &str = "stdout";

/// The error for standard output that cannot be written. That its reader went away has its own code, because it is not
/// a failure: `millstream … | head` is done then.
pub fn stdout_error(error: &io::Error) -> Diagnostic {
    write_error(STDOUT, error)
}

/// The error for a file that cannot be written.
pub(crate) fn write_error(path: impl AsRef<Path>, error: &io::Error) -> Diagnostic {
    let resource = path.as_ref().to_string_lossy();
    let closed = error.kind() == io::ErrorKind::BrokenPipe;
    let code = if closed && resource == STDOUT { code::OUTPUT_CLOSED } else { code::WRITE_FAILED };
    let diagnostic = Diagnostic::new(code, format!("writing '{resource}' failed: {error}")).at(whole(resource));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            diagnostic.advise("free some space; nothing half-written is visible")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            diagnostic.advise("give the user write permission, or write elsewhere")
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => match path.as_ref().parent() {
            Some(parent) if parent.is_file() => {
                diagnostic.advise(format!("'{}' is a file, not a directory: give another 'path'", parent.display()))
            }
            _ => diagnostic,
        },
        io::ErrorKind::BrokenPipe => diagnostic.advise("the reader of the output ended before the query"),
        _ => diagnostic,
    }
}
