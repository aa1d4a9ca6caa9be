//! The checkpoints that a job has written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The manifests of a job's directory, none where there is no directory yet. One that is being written has another ending.
pub fn manifests(job: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(job).into_iter().flatten();
    let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("checkpoint-") && name.ends_with(".json")).collect()
}
