//! The pages of `docs/`: the generated ones, and the generated module of Python, are those that the code would write today, and the examples of
//! others do what the page says.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod examples;
#[path = "../support/mod.rs"]
mod support;

use millstream::connectors::python_module;
use std::path::PathBuf;
use support::millstream;

#[test]
fn generated_pages_are_current() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let update = std::env::var_os("MILLSTREAM_UPDATE_DOCS").is_some();
    let folder = tempfile::tempdir().unwrap();
    let target = if update { docs.clone() } else { folder.path().to_path_buf() };
    let status = millstream(folder.path()).arg("docs").arg(&target).status().unwrap();
    assert!(status.success());
    if update {
        return;
    }
    let mut pages = 0;
    for entry in std::fs::read_dir(&target).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        let current = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        let same = current == std::fs::read_to_string(&path).unwrap();
        assert!(same, "docs/{} is out of date: run `make docs`", name.to_string_lossy());
        pages += 1;
    }
    assert_eq!(pages, 6);
}

#[test]
fn classes_of_connectors_are_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/millstream/connectors.py");
    if std::env::var_os("MILLSTREAM_UPDATE_DOCS").is_some() {
        return std::fs::write(path, python_module()).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(current == python_module(), "python/millstream/connectors.py is out of date: run `make docs`");
}
