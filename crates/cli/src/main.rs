//! The `millstream` command: reads arguments, hands SQL to the engine, shows what comes back.
//!
//! Exit codes: 0 success, 1 a statement failed, 2 the command line or the configuration is unusable, 130 interrupted.
#![deny(unsafe_code)]

mod allocator;
mod arguments;
mod bench;
mod checkpoints;
mod commands;
mod config;
mod context;
mod control;
mod docs;
mod failure;
mod interrupt;
mod output;
mod shell;
mod silence;
mod status;
mod summary;
mod table;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Command::Run(run) => commands::run(run, &arguments.common),
        Command::Sql(sql) => commands::sql(sql, &arguments.common),
        Command::Explain(explain) => commands::explain(explain, &arguments.common),
        Command::Stop { .. } => checkpoints::stop(&arguments.common),
        Command::Checkpoint(command) => checkpoints::run(command, &arguments.common),
        Command::Bench { arguments } => return bench::run(arguments),
        Command::Docs { folder } => commands::docs(folder),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code)
        }
    }
}
