//! Command lines that cannot be parsed: what the parser says, and what to write instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::path::Path;

/// Ends the process with the parser's message, or with the help that was asked for.
pub(crate) fn exit(error: &clap::Error, words: &[OsString]) -> ! {
    match cure(error, words) {
        Some(cure) if error.use_stderr() => {
            let text = error.render().to_string();
            let (message, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
            // The parser's own tip is for arguments that start with a hyphen, which none of ours do.
            let rest = rest.split("\n\n").filter(|part| !part.trim_start().starts_with("tip: to pass"));
            let rest: Vec<&str> = rest.collect();
            write_error(&format!("{message}\n\n  help: {cure}\n\n{}", rest.join("\n\n")));
            std::process::exit(error.exit_code())
        }
        _ => error.exit(),
    }
}

fn write_error(text: &str) {
    use std::io::Write;
    // Nobody is left to tell that standard error is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn cure(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            if error.get(ContextKind::SuggestedSubcommand).is_some() {
                return None;
            }
            Some(match word.contains(' ') {
                true => format!("to run SQL, write millstream run -e \"{word}\""),
                false if Path::new(&word).exists() || word.ends_with(".sql") => {
                    format!("to run a script, write millstream run {word}")
                }
                false => "write millstream run FILE, millstream run -e 'SQL', or millstream sql for a shell".into(),
            })
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            Some(match word.as_str() {
                "-c" | "--command" | "--sql" | "--query" => {
                    "SQL itself is given by -e: millstream run -e 'SELECT 1'".into()
                }
                "-f" | "--file" | "-i" | "--init" => {
                    "the script is given without a flag: millstream run script.sql".into()
                }
                "-p" | "--parallelism" | "--threads" | "-j" => "write --workers 4".into(),
                "-D" | "--define" => "write --set key=value for a setting, --var NAME=value for ${NAME}".into(),
                "--format" => "write --output json, or text, csv, arrow, parquet".into(),
                "--checkpoint-dir" | "--savepoint-dir" | "--state" => "write --state-dir DIR".into(),
                "-s" | "--from-savepoint" => {
                    "write millstream checkpoint restore NAME --state-dir DIR, and run the job again".into()
                }
                _ if error.get(ContextKind::SuggestedArg).is_some() => return None,
                _ => "millstream run --help lists the options".into(),
            })
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let (argument, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
            let name = argument.split([' ', '=']).next()?.trim_start_matches('-').to_owned();
            let variable = format!("MILLSTREAM_{}", name.to_uppercase().replace('-', "_"));
            let is_given = words.iter().any(|word| word.to_string_lossy().contains(&format!("--{name}")));
            if !is_given && std::env::var(&variable).is_ok_and(|set| set == value) {
                return Some(format!(
                    "the value comes from the environment variable {variable}: correct it, or unset {variable}"
                ));
            }
            match name.as_str() {
                "workers" | "buffer-rows" | "stats-every" => Some(format!("write a whole number: --{name} 4")),
                _ => None,
            }
        }
        _ => None,
    }
}
