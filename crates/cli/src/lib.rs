//! The `millstream` command: reads arguments, hands SQL to the engine, shows what comes back. It is a program of its own (`main.rs`),
//! and the command of the Python package.
//!
//! Exit codes: 0 success, 1 a statement failed, 2 the command line or the configuration is unusable, 130 interrupted.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod checkpoints;
mod cluster;
mod commands;
mod config;
mod context;
mod control;
mod current;
mod docs;
mod failure;
mod inserts;
mod interrupt;
mod live;
mod log;
mod output;
mod refused;
mod service;
mod shell;
mod silence;
mod status;
mod summary;
mod table;
mod units;
mod watch;

use arguments::{Arguments, Command};
use clap::Parser;
use millstream::cluster::Loader;
pub use millstream::end_compiling;
use std::ffi::OsString;
use std::sync::Arc;

/// Runs a command line, whose first word is the name of the command; the exit code. A
/// command line that cannot be parsed, and `--help`, end the process. `loader` makes what is code of a program on a node.
pub fn run(words: impl IntoIterator<Item = OsString>, loader: Option<Arc<dyn Loader>>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => refused::exit(&error, &words),
    };
    let result = match &arguments.command {
        Command::Run(run) => commands::run(run, &arguments.common),
        Command::Serve { directory, allow_submit } => service::serve(directory, *allow_submit, &arguments.common),
        Command::Node { listen, security } => cluster::node(listen, security, &arguments.common, loader),
        Command::Cluster { job: Some(_), .. } => Err(cluster::needs_python("millstream cluster …")),
        Command::Cluster { action, nodes, .. } => cluster::of_job(*action, *nodes, &arguments.common),
        Command::Sql(sql) => commands::sql(sql, &arguments.common),
        Command::Explain(explain) => commands::explain(explain, &arguments.common),
        Command::Schema { path, name } => commands::schema(path, name.as_deref(), &arguments.common),
        Command::Stop { savepoint } => checkpoints::stop(savepoint.as_deref(), &arguments.common),
        Command::Checkpoint(command) => checkpoints::run(command, &arguments.common),
        Command::Bench { arguments } => return bench::run(arguments),
        Command::Completions { shell } => commands::completions(*shell),
        Command::Man { folder } => commands::manual(folder),
        Command::Docs { folder } => commands::docs(folder),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            failure.report();
            failure.exit_code
        }
    }
}
