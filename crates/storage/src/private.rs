//! Directories for what only this user may read and write: spilled state, compiled code, copies of what an object store holds.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directory of this user below the system's temporary one. Nothing is made.
pub fn user_directory() -> PathBuf {
    std::env::temp_dir().join(format!("millstream-{}", rustix::process::geteuid().as_raw()))
}

/// Makes a directory, and those above it that are missing, for this user alone (mode 0700), unless it is there. Below the
/// system's temporary directory, where everybody may put a directory or link of any name, each directory on the way is checked
/// before anything is made in it.
///
/// # Errors
/// Those of the file system, and [`io::ErrorKind::PermissionDenied`] when the directory, or the link that leads to it, belongs to another
/// user, or when others may put something there.
pub fn make_private(directory: &Path) -> io::Result<()> {
    let shared = std::env::temp_dir();
    let within = directory.strip_prefix(&shared).unwrap_or(Path::new(""));
    let mut path = shared;
    for part in within.iter() {
        path.push(part);
        make(&path)?;
    }
    make(directory)
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    check_own(directory)
}

/// Refuses a file or directory that another user may have put there or may change.
///
/// # Errors
/// As for [`make_private`].
pub fn check_own(path: &Path) -> io::Result<()> {
    let (link, target) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let user = rustix::process::geteuid().as_raw();
    // Root may do everything anyway, such as make a directory that everybody shares.
    let is_foreign = |owner: u32| owner != user && owner != 0;
    // In a sticky directory only the owner of a file may replace it.
    let is_open = target.mode() & 0o022 != 0 && target.mode() & 0o1000 == 0;
    let what = match () {
        () if is_foreign(link.uid()) || is_foreign(target.uid()) => "belongs to another user",
        () if is_open => "can be written by others",
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("'{}' {what}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn what_is_made_is_for_this_user() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("a/b");
        make_private(&made).unwrap();
        for path in [folder.path().join("a"), made.clone()] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700);
        }
        make_private(&made).unwrap();
        fs::set_permissions(&made, Permissions::from_mode(0o777)).unwrap();
        let error = make_private(&made.join("c")).unwrap_err();
        assert!(error.to_string().ends_with("a/b' can be written by others"), "{error}");
        assert!(!made.join("c").exists());
        fs::set_permissions(&made, Permissions::from_mode(0o1777)).unwrap();
        make_private(&made.join("c")).unwrap();
    }

    #[test]
    fn what_others_have_planted_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        const NOBODY: u32 = 65_534;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        make_private(&link.join("ours")).unwrap();
        std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
        let error = make_private(&link.join("theirs")).unwrap_err();
        assert!(error.to_string().ends_with("link' belongs to another user"), "{error}");
        assert!(!target.join("theirs").exists());
        chown(&target, Some(NOBODY), None).unwrap();
        assert_eq!(make_private(&target).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
