//! `millstream bench`: starts the program `millstream-bench` that lies beside `millstream`, so that the baselines are
//! not part of the command.

use crate::failure::{EXIT_USAGE, Failure};
use millstream::{Diagnostic, code};
use std::ffi::OsString;
use std::process::Command;

/// Runs the benchmarks with these arguments; the exit code is theirs.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    let name = format!("millstream-bench{}", std::env::consts::EXE_SUFFIX);
    let program = std::env::current_exe().map(|path| path.with_file_name(&name));
    let status = program.and_then(|program| Command::new(program).args(arguments).status());
    match status {
        // A signal leaves no code.
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        Err(error) => {
            let advice = format!("`make release` builds it; {name} must lie in the folder of the command millstream");
            let message = format!("{name} cannot be started: {error}");
            Failure::usage(Diagnostic::new(code::FILE_NOT_FOUND, message).advise(advice)).report();
            EXIT_USAGE
        }
    }
}
