//! `millstream checkpoint …` and `millstream stop`: looking at and after the state of jobs.

use crate::arguments::{CheckpointCommand, Common, Which};
use crate::config::Config;
use crate::control;
use crate::failure::Failure;
use crate::log;
use crate::output::print;
use crate::units::{amount, timestamp};
use millstream::storage::{
    Checkpoints, Damaged, DirectoryLock, JobPartitions, Listed, Manifest, PlaceLock, Savepoint, SplitState, StatePlace,
    is_savepoint_name, store_failed,
};
use millstream::{Diagnostic, PlanShape, code, counted};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A job of a state directory.
struct Job {
    number: usize,
    /// What its user calls it, or its number.
    name: String,
    checkpoints: Checkpoints,
    /// What it keeps: checkpoints, the newest first, and then savepoints.
    kept: Vec<Kept>,
}

/// A checkpoint or savepoint with its manifest, or what is wrong with that.
type Kept = (Which, Result<Manifest, Damaged>);

/// `millstream stop`
pub(crate) fn stop(savepoint: Option<&str>, common: &Common) -> Result<(), Failure> {
    let place = place(common)?;
    // Nothing is stopped for a name that cannot be given.
    savepoint.map_or(Ok(()), |name| unused(&place, name)).map_err(|what| not_saved(&place, what))?;
    control::request(&place, "stop")?;
    control::wait_for_end(&place)?;
    savepoint.map_or(Ok(()), |name| save_here(&place, name))
}

/// `millstream checkpoint`
pub(crate) fn run(command: &CheckpointCommand, common: &Common) -> Result<(), Failure> {
    let place = place(common)?;
    match command {
        CheckpointCommand::Create { name: None } => control::request(&place, "checkpoint").map(drop),
        CheckpointCommand::Create { name: Some(name) } => create(&place, name),
        CheckpointCommand::List => list(&place),
        CheckpointCommand::Show { checkpoint, job } => show(&place, checkpoint.as_ref(), job.as_deref()),
        CheckpointCommand::Verify { checkpoint } => verify(&place, checkpoint.as_ref()),
        CheckpointCommand::Restore { checkpoint, job } => restore(&place, checkpoint, job.as_deref()),
        CheckpointCommand::Delete { checkpoints, job } => delete(&place, checkpoints, job.as_deref()),
    }
}

pub(crate) fn place(common: &Common) -> Result<StatePlace, Failure> {
    let config = Config::load(common)?;
    let setting = config.settings.iter().rev().find(|(key, _)| key == "execution.checkpointing.dir");
    let Some((_, address)) = setting else {
        let diagnostic = Diagnostic::new(code::USAGE, "no state directory is given");
        return Err(Failure::usage(diagnostic.advise("add --state-dir DIR, the one that the job was run with")));
    };
    let place = StatePlace::parse(address).map_err(Failure::usage)?;
    match place.exists() {
        Ok(true) => Ok(place),
        Ok(false) => {
            let message = format!("there is no state directory {place}");
            Err(Failure::usage(Diagnostic::new(code::FILE_NOT_FOUND, message).advise(
                "check --state-dir: a path starts at the working directory, and a job makes it that is run with --state-dir",
            )))
        }
        Err(e) => Err(failed(&place, &e)),
    }
}

fn failed(place: &StatePlace, error: &std::io::Error) -> Failure {
    let what = format!("the state directory {place} cannot be read");
    Failure::usage(store_failed(code::READ_FAILED, &what, error))
}

/// The jobs of a state directory in their order, or the only one that is meant: by its name or number.
fn jobs(place: &StatePlace, only: Option<&str>) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for number in place.jobs().map_err(|e| failed(place, &e))? {
        let checkpoints = place.checkpoints(number);
        let (listed, savepoints) = (checkpoints.list(), checkpoints.savepoints());
        let listed = listed.map_err(|e| failed(place, &e))?.into_iter().map(numbered);
        let savepoints = savepoints.map_err(|e| failed(place, &e))?.into_iter();
        let named = savepoints.map(|Savepoint { name, manifest }| (Which::Name(name), manifest));
        let kept: Vec<Kept> = listed.chain(named).collect();
        let newest = kept.iter().find_map(|(_, manifest)| manifest.as_ref().ok());
        let name = newest.and_then(|manifest| manifest.name.clone()).unwrap_or_else(|| format!("job-{number}"));
        jobs.push(Job { number, name, checkpoints, kept });
    }
    let Some(only) = only else { return Ok(jobs) };
    let is_meant =
        |job: &Job| job.name == only || [job.number.to_string(), format!("job-{}", job.number)].contains(&only.into());
    let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
    jobs.retain(is_meant);
    if jobs.is_empty() {
        let message = format!("there is no job '{only}' in {place}");
        let error = Diagnostic::new(code::FILE_NOT_FOUND, message).advise(format!("there is {}", names.join(", ")));
        return Err(Failure::usage(error));
    }
    Ok(jobs)
}

fn numbered(Listed { checkpoint, manifest }: Listed) -> Kept {
    (Which::Number(checkpoint), manifest)
}

/// Takes a state directory that no job runs with.
fn lock(place: &StatePlace) -> Result<PlaceLock, Failure> {
    place.lock().map_err(|e| failed(place, &e))?.map_err(|holder| {
        let message = format!("a running job uses {place}: {holder}");
        let advice = format!("stop it first: millstream stop --state-dir {place}");
        Failure::usage(Diagnostic::new(code::STATE_IN_USE, message).advise(advice))
    })
}

/// Fails if no savepoint can get this name.
fn unused(place: &StatePlace, name: &str) -> Result<(), String> {
    if !is_savepoint_name(name) {
        return Err(format!("'{name}' is no name: a letter, then letters, digits, '.', '_' and '-', at most 64"));
    }
    let text = |e: std::io::Error| e.to_string();
    for number in place.jobs().map_err(text)? {
        if place.checkpoints(number).savepoints().map_err(text)?.iter().any(|savepoint| savepoint.name == name) {
            return Err(format!("there is a savepoint '{name}'; delete it, or take another name"));
        }
    }
    Ok(())
}

/// Keeps the newest checkpoint of each job under a name. Only for the process that holds the state directory.
pub(crate) fn save(place: &StatePlace, name: &str) -> Result<(), String> {
    unused(place, name)?;
    let mut is_any = false;
    for number in place.jobs().map_err(|e| e.to_string())? {
        let saved = place.checkpoints(number).save(name).map_err(|e| format!("job-{number}: {e}"))?;
        is_any |= saved.is_some();
    }
    if is_any { Ok(()) } else { Err("there is no checkpoint yet".into()) }
}

fn not_saved(place: &StatePlace, what: String) -> Failure {
    Failure::usage(Diagnostic::new(code::CHECKPOINT_FAILED, format!("there is no savepoint in {place}: {what}")))
}

/// The same of jobs that do not run.
fn save_here(place: &StatePlace, name: &str) -> Result<(), Failure> {
    let _lock = lock(place)?;
    save(place, name).map_err(|what| not_saved(place, what))?;
    tell_savepoint(place, name)
}

fn tell_savepoint(place: &StatePlace, name: &str) -> Result<(), Failure> {
    let mut text = String::new();
    let which = Which::Name(name.into());
    for job in jobs(place, None)? {
        for (_, manifest) in job.kept.into_iter().filter(|(this, _)| *this == which) {
            let number = manifest.map_or(0, |manifest| manifest.checkpoint);
            let _ = writeln!(text, "savepoint {name}: checkpoint {number} of {}", job.name);
        }
    }
    print(&text).map_err(Failure::usage)
}

fn create(place: &StatePlace, name: &str) -> Result<(), Failure> {
    unused(place, name).map_err(|what| not_saved(place, what))?;
    if !DirectoryLock::is_held(place.local()) {
        return save_here(place, name);
    }
    control::request(place, &format!("savepoint {name}"))?;
    tell_savepoint(place, name)
}

/// Whether everything is there that a checkpoint names; its blobs are read if they have at most `bytes` bytes.
fn verified(
    checkpoints: &Checkpoints,
    manifest: &Manifest,
    bytes: u64,
    place: &StatePlace,
) -> Result<Result<(), Damaged>, Failure> {
    checkpoints.verify(manifest, bytes).map_err(|e| failed(place, &e))
}

/// A manifest, if it and everything that it names is whole.
fn whole(
    checkpoints: &Checkpoints,
    manifest: Result<Manifest, Damaged>,
    place: &StatePlace,
) -> Result<Result<Manifest, Damaged>, Failure> {
    let Ok(manifest) = manifest else { return Ok(manifest) };
    Ok(verified(checkpoints, &manifest, u64::MAX, place)?.map(|()| manifest))
}

fn list(place: &StatePlace) -> Result<(), Failure> {
    let mut rows = vec![["job", "checkpoint", "taken", "state", "written", "condition"].map(String::from)];
    for Job { name, checkpoints, kept, .. } in jobs(place, None)? {
        for (which, manifest) in kept {
            let name = name.clone();
            let (shown, is_savepoint) = match which {
                Which::Number(number) => (number.to_string(), false),
                Which::Name(savepoint) => (savepoint, true),
            };
            rows.push(match manifest {
                Ok(manifest) => {
                    let good = if manifest.is_finished { "finished" } else { "complete" };
                    let mut condition = condition(verified(&checkpoints, &manifest, 0, place)?, good);
                    if is_savepoint {
                        condition += &format!(", savepoint of checkpoint {}", manifest.checkpoint);
                    }
                    let taken = timestamp(i64::try_from(manifest.written_ms).unwrap_or(i64::MAX));
                    let (state, written) = (bytes(manifest.state_bytes()), bytes(manifest.bytes_written));
                    [name, shown, taken, state, written, condition]
                }
                Err(damaged) => {
                    let none = String::new;
                    [name, shown, none(), none(), none(), condition(Err(damaged), "")]
                }
            });
        }
    }
    if rows.len() == 1 {
        note_none(place);
    }
    let mut text = String::new();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    print(&text).map_err(Failure::usage)
}

fn condition(whole: Result<(), Damaged>, good: &str) -> String {
    whole.map_or_else(|Damaged(what)| format!("damaged: {what}"), |()| good.into())
}

fn bytes(count: u64) -> String {
    format!("{}B", amount(count as f64))
}

fn note_none(place: &StatePlace) {
    log::note(&format!("there is no checkpoint in {place} yet: an INSERT that runs with it makes them"));
}

fn not_there(place: &StatePlace, which: Option<&Which>) -> Failure {
    let what = which.map_or("checkpoint".to_string(), ToString::to_string);
    let message = format!("there is no {what} in {place}");
    let advice = match which {
        Some(Which::Name(name)) => format!(
            "'millstream checkpoint list --state-dir {place}' shows which there are; while the job runs, 'millstream checkpoint create \
             --name {name} --state-dir {place}' makes it"
        ),
        _ => format!(
            "'millstream checkpoint list --state-dir {place}' shows which there are; an INSERT that runs with it makes them"
        ),
    };
    Failure::usage(Diagnostic::new(code::FILE_NOT_FOUND, message).advise(advice))
}

/// The checkpoint that is meant, by default the newest one, and the first job that has it.
fn find(place: &StatePlace, which: Option<&Which>, job: Option<&str>) -> Result<(Job, Manifest), Failure> {
    let is_meant = |this: &Which| which.map_or(matches!(this, Which::Number(_)), |which| which == this);
    for mut job in jobs(place, job)? {
        if let Some(at) = job.kept.iter().position(|(this, _)| is_meant(this)) {
            let damaged = |Damaged(what)| Failure::usage(Diagnostic::new(code::CHECKPOINT_DAMAGED, what));
            return job.kept.swap_remove(at).1.map(|manifest| (job, manifest)).map_err(damaged);
        }
    }
    Err(not_there(place, which))
}

fn show(place: &StatePlace, which: Option<&Which>, job: Option<&str>) -> Result<(), Failure> {
    let (job, manifest) = find(place, which, job)?;
    print(&description(&job.name, &manifest)).map_err(Failure::usage)
}

fn restore(place: &StatePlace, which: &Which, job: Option<&str>) -> Result<(), Failure> {
    let lock = lock(place)?;
    let mut found = Vec::new();
    for mut job in jobs(place, job)? {
        // What was set aside when an earlier one was restored can be restored as well.
        let void = job.checkpoints.void().map_err(|e| failed(place, &e))?;
        job.kept.extend(void.into_iter().map(numbered));
        let Some(at) = job.kept.iter().position(|(this, _)| this == which) else { continue };
        let whole = whole(&job.checkpoints, job.kept.swap_remove(at).1, place)?;
        let damaged = |Damaged(what)| {
            let message = format!("{which} of {} cannot be restored: {what}", job.name);
            Failure::usage(Diagnostic::new(code::CHECKPOINT_DAMAGED, message))
        };
        found.push((whole.map_err(damaged)?, job));
    }
    match (found.len(), which) {
        (0, _) => return Err(not_there(place, Some(which))),
        // Numbers are those of one job.
        (2.., Which::Number(_)) => {
            let names: Vec<&str> = found.iter().map(|(_, job)| job.name.as_str()).collect();
            let message = format!("there is a {which} of {}", names.join(" and "));
            return Err(Failure::usage(Diagnostic::new(code::USAGE, message).advise("say which is meant, with --job")));
        }
        _ => {}
    }
    for (manifest, job) in found {
        let checkpoints = place.own_checkpoints(job.number, &lock).map_err(|e| failed(place, &e))?;
        checkpoints.restore(&manifest).map_err(|e| failed(place, &e))?;
        let text = format!("{} resumes from checkpoint {} when it is run again\n", job.name, manifest.checkpoint);
        print(&text).map_err(Failure::usage)?;
    }
    Ok(())
}

/// What a checkpoint consists of, for people.
fn description(job: &str, manifest: &Manifest) -> String {
    let mut text = String::new();
    let mut line = |indent: usize, what: String| {
        let _ = writeln!(text, "{}{what}", "  ".repeat(indent));
    };
    line(0, format!("checkpoint {} of {job} ({})", manifest.checkpoint, manifest.job));
    line(1, format!("taken {}", timestamp(i64::try_from(manifest.written_ms).unwrap_or(i64::MAX))));
    line(1, format!("by version {}, format {}", manifest.version, manifest.format));
    let (state, written) = (bytes(manifest.state_bytes()), bytes(manifest.bytes_written));
    line(1, format!("state {state} in {}, of which it has written {written}", counted(manifest.files().len(), "file")));
    let JobPartitions { tables, keys } = manifest.partitions;
    line(1, format!("cut into {tables} partitions of tables and {keys} of keyed operators"));
    if manifest.is_finished {
        line(1, "the job had come to its end".into());
    }
    for source in &manifest.sources {
        line(0, format!("source {}", source.table));
        for SplitState { name, at, rows, watermark, ended, .. } in &source.splits {
            let at = at.map_or("at its start".to_string(), |at| format!("at {at}"));
            let at = if *ended { "at its end".to_string() } else { at };
            line(1, format!("{name}: {at}, {}{}", counted(*rows, "row"), watermark_text(*watermark)));
        }
    }
    for (number, aggregation) in manifest.aggregations.iter().enumerate() {
        let tables = aggregation.tables.iter().chain(&aggregation.slices);
        let entries: u64 = tables.clone().map(|table| table.entries).sum();
        let what = format!("aggregation {number}: {}, {}", counted(tables.count(), "table"), counted(entries, "entry"));
        line(0, format!("{what}{}", watermark_text(aggregation.watermark)));
    }
    for (number, operator) in manifest.operators.iter().enumerate() {
        let size: u64 = operator.blobs().map(|blob| blob.bytes).sum();
        let what = format!("operator {number}: {}, {}", counted(operator.partitions.len(), "partition"), bytes(size));
        line(0, format!("{what}{}", watermark_text(operator.watermark)));
    }
    for sink in &manifest.sinks {
        let tokens: Vec<String> = sink.tokens().map(ToString::to_string).collect();
        let token = if tokens.is_empty() { "nothing to commit".to_string() } else { tokens.join(", ") };
        line(0, format!("sink {}: {token}", sink.table));
    }
    line(0, "keeps".into());
    let shape = serde_json::from_value::<PlanShape>(manifest.shape.clone());
    shape.iter().flat_map(PlanShape::lines).for_each(|of_shape| line(1, of_shape));
    text
}

fn watermark_text(watermark: i64) -> String {
    match watermark {
        i64::MIN => String::new(),
        i64::MAX => ", ended".into(),
        watermark => format!(", watermark {}", timestamp(watermark)),
    }
}

fn verify(place: &StatePlace, which: Option<&Which>) -> Result<(), Failure> {
    let (mut text, mut damaged, mut found) = (String::new(), 0, 0);
    for Job { name, checkpoints, kept, .. } in jobs(place, None)? {
        for (this, manifest) in kept.into_iter().filter(|(this, _)| which.is_none_or(|which| which == this)) {
            found += 1;
            let whole = whole(&checkpoints, manifest, place)?.map(drop);
            damaged += usize::from(whole.is_err());
            let _ = writeln!(text, "{name} {this}: {}", condition(whole, "whole"));
        }
    }
    print(&text).map_err(Failure::usage)?;
    match (damaged, found) {
        (0, 0) if which.is_some() => Err(not_there(place, which)),
        (0, 0) => {
            note_none(place);
            Ok(())
        }
        (0, _) => Ok(()),
        (damaged, found) => {
            let message = format!(
                "{damaged} of {} {} damaged",
                counted(found, "checkpoint"),
                if damaged == 1 { "is" } else { "are" }
            );
            Err(Failure::failed(Diagnostic::new(code::CHECKPOINT_DAMAGED, message)))
        }
    }
}

fn delete(place: &StatePlace, wanted: &[Which], job: Option<&str>) -> Result<(), Failure> {
    let lock = lock(place)?;
    for which in wanted {
        // Found also if its manifest is damaged.
        if let Err(failure) = find(place, Some(which), job)
            && failure.code() != code::CHECKPOINT_DAMAGED
        {
            return Err(failure);
        }
    }
    for job in jobs(place, job)? {
        let checkpoints = place.own_checkpoints(job.number, &lock).map_err(|e| failed(place, &e))?;
        for (which, _) in job.kept.iter().filter(|(which, _)| wanted.contains(which)) {
            if let Which::Name(name) = which {
                checkpoints.delete_savepoint(name).map_err(|e| failed(place, &e))?;
                print(&format!("{} {which} deleted\n", job.name)).map_err(Failure::usage)?;
            }
        }
        let removed = checkpoints.delete(|checkpoint| wanted.contains(&Which::Number(checkpoint)), BTreeSet::new());
        for checkpoint in removed.map_err(|e| failed(place, &e))? {
            print(&format!("{} checkpoint {checkpoint} deleted\n", job.name)).map_err(Failure::usage)?;
        }
    }
    Ok(())
}
