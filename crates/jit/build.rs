//! The identity of the code generator: a hash of the sources that decide what code is generated and which memory it reads and
//! writes. Code kept by another build is used only if both agree, so a changed layout is never met by old code.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// Layouts and calls, row programs, their translation.
const SOURCES: [&str; 3] = ["../abi/src", "../codegen/src", "src"];

fn files(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut found = Vec::new();
    for directory in SOURCES {
        println!("cargo::rerun-if-changed={directory}");
        files(Path::new(directory), &mut found)?;
    }
    found.sort();
    let mut hasher = DefaultHasher::new();
    for path in found {
        path.hash(&mut hasher);
        fs::read(&path)?.hash(&mut hasher);
    }
    println!("cargo::rustc-env=MILLSTREAM_GENERATOR={:016x}", hasher.finish());
    Ok(())
}
