//! `millstream.toml`: defaults for the options of the command line, and session settings.

use crate::arguments::{Common, LogArgument, OutputArgument, Scalar, StatsArgument};
use crate::failure::{Failure, Text};
use millstream::{Diagnostic, Place, code, sql};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Scalar::Text(text) => text,
            Scalar::Integer(number) => number.to_string(),
            Scalar::Float(number) => number.to_string(),
            Scalar::Boolean(value) => value.to_string(),
        }
    }
}

/// What holds after flags, environment and file are put together.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) output: Option<OutputArgument>,
    pub(crate) quiet: bool,
    pub(crate) stats: Option<StatsArgument>,
    pub(crate) stats_every: Option<Duration>,
    pub(crate) pin: bool,
    /// Where jobs are shown.
    pub(crate) http: HttpOptions,
    /// Where metrics and traces are sent.
    pub(crate) otlp: Option<String>,
    pub(crate) log_format: Option<LogArgument>,
    /// Session options in the order in which they are set: those of the file first, so that flags win.
    pub(crate) settings: Vec<(String, String)>,
    variables: BTreeMap<String, String>,
}

/// The options `--http…`.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "http"), allow(dead_code))]
pub(crate) struct HttpOptions {
    pub(crate) address: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) names: Vec<String>,
}

impl Config {
    /// Puts the three sources together.
    pub(crate) fn load(common: &Common) -> Result<Config, Failure> {
        Config::load_with(common, Path::new("millstream.toml"))
    }

    /// The same with another file, if there is one and the arguments name none.
    pub(crate) fn load_with(common: &Common, default: &Path) -> Result<Config, Failure> {
        let file = read(common.config.as_deref(), default)?;
        let mut settings: Vec<(String, String)> =
            file.set.into_iter().map(|(key, value)| (key, value.into_text())).collect();
        let mut set = |key: &str, value: Option<String>| settings.extend(value.map(|value| (key.to_string(), value)));
        set("parallelism.default", common.workers.or(file.workers).map(text));
        set("pipeline.buffer-rows", common.buffer_rows.or(file.buffer_rows).map(text));
        set("pipeline.tier", common.tier.or(file.tier).map(text));
        set("pipeline.merge", common.merge.or(file.merge).map(text));
        set("pipeline.memory", common.memory.clone().or(file.memory));
        set("execution.checkpointing.dir", common.state_dir.clone().or(file.state_dir));
        for pair in &common.settings {
            settings.push(split_pair(pair, "--set KEY=VALUE")?);
        }
        let mut variables: BTreeMap<String, String> =
            file.var.into_iter().map(|(name, value)| (name, value.into_text())).collect();
        for pair in &common.variables {
            let (name, value) = split_pair(pair, "--var NAME=VALUE")?;
            variables.insert(name, value);
        }
        Ok(Config {
            output: common.output.or(file.output),
            quiet: common.quiet || file.quiet,
            stats: common.stats.or(file.stats),
            stats_every: common.stats_every.or(file.stats_every).map(|seconds| Duration::from_secs(seconds.get())),
            pin: common.pin || file.pin,
            http: HttpOptions {
                address: common.http.clone().or(file.http),
                token_file: common.http_token_file.clone().or(file.http_token_file),
                certificate: common.http_certificate.clone().or(file.http_certificate),
                key: common.http_key.clone().or(file.http_key),
                names: if common.http_names.is_empty() { file.http_names } else { common.http_names.clone() },
            },
            otlp: common.otlp.clone().or(file.otlp),
            log_format: common.log_format.or(file.log_format),
            settings,
            variables,
        })
    }

    /// Value of `${name}`: of `--var` and the file, else of the environment.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned().or_else(|| std::env::var(name).ok())
    }

    /// A text with its variables substituted.
    pub(crate) fn substituted(&self, sql: String, origin: String) -> Result<Text, Failure> {
        match sql::substitute_variables(&sql, &|name| self.variable(name)) {
            Ok(sql) => Ok(Text { sql, origin }),
            Err(diagnostic) => Err(Failure::statement(diagnostic, &Text { sql, origin })),
        }
    }
}

/// A number or a word as an option has it.
pub(crate) fn text(value: impl Serialize) -> String {
    match json!(value) {
        Value::String(word) => word,
        number => number.to_string(),
    }
}

fn split_pair(pair: &str, form: &str) -> Result<(String, String), Failure> {
    match pair.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            // Quotes as in SQL's SET are accepted, because people copy them.
            let bare = |s: &str| s.trim().trim_matches('\'').to_string();
            Ok((bare(key), bare(value)))
        }
        _ => Err(Failure::usage(Diagnostic::new(code::USAGE, format!("'{pair}' is not of the form {form}")).advise(
            match form.contains("--var") {
                true => format!("write --var {pair}=value, in quotes if the value has blanks or a semicolon"),
                false => format!("write --set {pair}=value, in quotes if the value has blanks or a semicolon"),
            },
        ))),
    }
}

/// A message of the parser in our words, for a line of the file, and what to do.
fn explained(message: &str, line: &str) -> (String, String) {
    let line = line.trim();
    if let Some((key, known)) = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
        let keys: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let advice = match sql::diagnostics::nearest(key, keys.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if key.contains('.') || key.contains('-') => {
                format!(
                    "settings of SQL stand in the table [set]: '{key}' = '…' below a line [set]; keys are {}",
                    keys.join(", ")
                )
            }
            None => format!("keys are {}", keys.join(", ")),
        };
        return (format!("there is no key `{key}`"), advice);
    }
    if let Some((found, wanted)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    {
        let (wanted, example) = match wanted {
            "usize" | "u64" | "a nonzero u64" => ("a whole number", "4"),
            "a boolean" => ("true or false", "true"),
            "a string" => ("a text in quotes", "\"…\""),
            other => (other, "…"),
        };
        let key = line.split('=').next().unwrap_or_default().trim();
        return (format!("`{key}` is {found}, not {wanted}"), format!("write {key} = {example}"));
    }
    if let Some((found, known)) =
        message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        let key = line.split('=').next().unwrap_or_default().trim();
        return (format!("`{key}` cannot be \"{found}\""), format!("it can be {}", known.replace('`', "\"")));
    }
    (format!("`{line}` is not TOML: {message}"), "write key = value, such as workers = 4 or output = \"json\"".into())
}

fn read(named: Option<&Path>, default: &Path) -> Result<Common, Failure> {
    let path = match named {
        Some(path) => path,
        None if default.is_file() => default,
        None => return Ok(Common::default()),
    };
    let invalid = |message: String, line: Option<u64>, advice: &str| {
        Failure::usage(
            Diagnostic::new(code::INVALID_CONFIG, message)
                .at(Place::Data { resource: path.display().to_string(), offset: None, line, column: None })
                .advise(advice),
        )
    };
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => invalid(
            "the configuration file does not exist".into(),
            None,
            "check --config and MILLSTREAM_CONFIG; without them millstream.toml is read, if there is one",
        ),
        _ => invalid(format!("the configuration file cannot be read: {e}"), None, "check its permissions"),
    })?;
    toml::from_str(&text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text[..at].matches('\n').count() as u64;
        let (message, advice) = explained(e.message(), text.lines().nth(line as usize - 1).unwrap_or_default());
        invalid(message, Some(line), &advice)
    })
}
