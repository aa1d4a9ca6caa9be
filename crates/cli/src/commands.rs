//! The commands: get SQL and have its statements executed.

use crate::arguments::{Common, Explain, RayArguments, Script, Shell};
use crate::context::Context;
use crate::failure::{Failure, Text};
use crate::output::print;
use crate::{cluster, docs, shell};
use millstream::connectors::take_standard_input;
use millstream::{Diagnostic, Place, code};
use std::io::{Read, Write, stdin, stdout};
use std::path::Path;

/// The texts of a script in order: the file, then each `-e`.
fn texts(context: &Context, script: &Script) -> Result<Vec<Text>, Failure> {
    let mut texts = Vec::new();
    if let Some(file) = &script.file {
        texts.push(context.text(read(file)?, file.display().to_string())?);
    }
    for (i, statement) in script.statements.iter().enumerate() {
        let origin = if script.statements.len() == 1 { "-e".to_string() } else { format!("-e #{}", i + 1) };
        texts.push(context.text(statement.clone(), origin)?);
    }
    Ok(texts)
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |code, message: String, offset: Option<usize>, advice: &str| {
        let (resource, offset) = (file.display().to_string(), offset.map(|offset| offset as u64));
        let place = Place::Data { resource, offset, line: None, column: None };
        Failure::usage(Diagnostic::new(code, message).at(place).advise(advice))
    };
    let unread = |code, message| {
        failed(code, message, None, "give the path of a SQL script, `-` for standard input, or -e 'SQL'")
    };
    let bytes = if file == Path::new("-") {
        take_standard_input("the script comes from it");
        let mut bytes = Vec::new();
        stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    let is_sql = || file.to_str().is_some_and(|text| text.trim().contains(' '));
    let bytes = bytes.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound if is_sql() => {
            let advice = format!("to run SQL itself, write millstream run -e \"{}\"", file.display());
            failed(code::FILE_NOT_FOUND, "there is no script of this name".into(), None, &advice)
        }
        std::io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let scripts = std::fs::read_dir(folder).into_iter().flatten().flatten().take(1000);
            let mut scripts: Vec<String> =
                scripts.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            scripts.retain(|name| name.ends_with(".sql"));
            scripts.sort_unstable();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let advice = match millstream::sql::diagnostics::nearest(&name, scripts.iter().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None if scripts.is_empty() => {
                    "give the path of a SQL script, `-` for standard input, or -e 'SQL'".into()
                }
                None => format!("scripts in this folder: {}", scripts.join(", ")),
            };
            failed(code::FILE_NOT_FOUND, "there is no script of this name".into(), None, &advice)
        }
        _ if file.is_dir() => {
            let advice = format!("give a script in it: millstream run {}/script.sql", file.display());
            failed(code::READ_FAILED, "that is a directory, not a script".into(), None, &advice)
        }
        _ => unread(code::READ_FAILED, format!("the script cannot be read: {e}")),
    })?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let (message, valid) = ("the script is not UTF-8 text".into(), e.utf8_error().valid_up_to());
        let advice = "save the script as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 old.sql > new.sql";
        failed(code::SYNTAX, message, Some(valid), advice)
    })?;
    // Editors on Windows put a byte order mark before the text.
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_string))
}

/// A session that has executed a script.
fn executed(script: &Script, common: &Common) -> Result<Context, Failure> {
    let mut context = Context::new(common)?;
    cluster::refuse_ray(&script.cluster, &script.ray)?;
    cluster::join(&mut context, &script.cluster)?;
    for text in texts(&context, script)? {
        context.execute(&text)?;
    }
    context.finish()?;
    Ok(context)
}

/// `millstream run`
pub(crate) fn run(script: &Script, common: &Common) -> Result<(), Failure> {
    executed(script, common).map(drop)
}

/// `millstream sql`
pub(crate) fn sql(arguments: &Shell, common: &Common) -> Result<(), Failure> {
    let Shell { file, statements, cluster } = arguments;
    let script = Script {
        file: file.clone(),
        statements: statements.clone(),
        cluster: cluster.clone(),
        ray: RayArguments::default(),
    };
    shell::run(&mut executed(&script, common)?)
}

/// `millstream explain`: definitions and settings are executed, queries and inserts explained, or run and analysed.
pub(crate) fn explain(arguments: &Explain, common: &Common) -> Result<(), Failure> {
    let mut context = Context::new(common)?;
    for text in texts(&context, &arguments.script)? {
        let fail = |d| Failure::statement(d, &text);
        for statement in &context.session.parse(&text.sql).map_err(fail)? {
            if arguments.analyze && (statement.is_query() || statement.is_insert()) {
                context.execute_one(&statement.analyzed()).map_err(fail)?;
            } else if statement.is_query() || statement.is_insert() {
                let plan = context.session.explain(statement, arguments.codegen).map_err(fail)?;
                print(&plan).map_err(fail)?;
            } else {
                context.execute_one(statement).map_err(fail)?;
            }
        }
    }
    Ok(())
}

/// `millstream schema`
pub(crate) fn schema(path: &str, name: Option<&str>, common: &Common) -> Result<(), Failure> {
    let context = Context::new(common)?;
    let statement = context.session.schema_statement(path, name).map_err(Failure::failed)?;
    print(&format!("{statement};\n")).map_err(Failure::failed)
}

/// `millstream docs`
pub(crate) fn docs(folder: &Path) -> Result<(), Failure> {
    docs::pages().into_iter().try_for_each(|(name, text)| write_into(folder, name, text.as_bytes()))
}

/// `millstream completions`
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut docs::visible_command(), "millstream", &mut script);
    stdout().write_all(&script).map_err(|e| unwritable("the completions", &e))
}

/// `millstream man`
pub(crate) fn manual(folder: &Path) -> Result<(), Failure> {
    docs::manual_pages().into_iter().try_for_each(|(name, text)| write_into(folder, &name, &text))
}

fn write_into(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(|e| unwritable(&path.display().to_string(), &e))
}

fn unwritable(what: &str, error: &std::io::Error) -> Failure {
    Failure::usage(Diagnostic::new(code::WRITE_FAILED, format!("{what} cannot be written: {error}")))
}
