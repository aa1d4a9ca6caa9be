//! Runs `python/tests` against the extension module of this build. `MILLSTREAM_PYTHON` names a Python that has the packages of
//! `python/tests/requirements.txt` (`scripts/python.sh` makes one); without it nothing is tested.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn the_tests_in_python_pass() {
    let Some(python) = std::env::var_os("MILLSTREAM_PYTHON") else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python").canonicalize().unwrap();
    let library = format!("{}_core{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = std::env::current_exe().unwrap().with_file_name(library);
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("millstream");
    std::fs::create_dir(&package).unwrap();
    for entry in std::fs::read_dir(sources.join("millstream")).unwrap() {
        let path = entry.unwrap().path();
        symlink(&path, package.join(path.file_name().unwrap())).unwrap();
    }
    symlink(built, package.join("_core.abi3.so")).unwrap();
    let status = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(sources.join("tests"))
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status();
    assert!(status.unwrap().success());
}
