//! The files that pages for developers name exist: a renamed file would leave a how-to that cannot be followed.

use std::path::{Path, PathBuf};

/// All files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// What stands between backticks on a page and looks like a file.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        is_plain && [".rs", ".slt"].iter().any(|end| word.ends_with(end))
    };
    text.split('`').skip(1).step_by(2).filter(is_path)
}

#[test]
fn the_files_that_pages_name_exist() {
    let root = crate::tests_dir().join("..").canonicalize().unwrap();
    let mut all = Vec::new();
    ["crates", "tests"].iter().for_each(|folder| files(&root.join(folder), &mut all));
    let mut pages = vec![root.join("ARCHITECTURE.md"), root.join("CONTRIBUTING.md")];
    files(&root.join("docs/how-to"), &mut pages);
    let mut missing = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let gone = named(&text).filter(|name| !all.iter().any(|file| file.ends_with(name)));
        missing.extend(gone.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
