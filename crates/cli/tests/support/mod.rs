//! What the tests of the command have in common.

use std::path::Path;
use std::process::{Command, Stdio};

/// The command in a folder, without the variables of whoever runs the tests.
pub fn millstream(folder: &Path) -> Command {
    program(env!("CARGO_BIN_EXE_millstream"), folder)
}

/// The same for a program that runs the command.
pub fn program(path: &str, folder: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_")) {
        command.env_remove(name);
    }
    // The code that the command keeps is shared by the tests, and not with those of the user.
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
