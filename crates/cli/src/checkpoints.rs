//! `millstream checkpoint …` and `millstream stop`: looking at and after the state of jobs.

use crate::arguments::{CheckpointCommand, Common};
use crate::config::Config;
use crate::control;
use crate::failure::Failure;
use crate::output::print;
use crate::units::{amount, timestamp};
use millstream::storage::{Checkpoints, Damaged, Listed, Manifest, SplitState, StatePlace, store_failed};
use millstream::{Diagnostic, PlanShape, code, counted};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A job of a state directory.
struct Job {
    number: usize,
    name: String,
    checkpoints: Checkpoints,
}

/// `millstream stop`
pub(crate) fn stop(common: &Common) -> Result<(), Failure> {
    let place = place(common)?;
    control::request(&place, "stop")?;
    control::wait_for_end(&place)
}

/// `millstream checkpoint`
pub(crate) fn run(command: &CheckpointCommand, common: &Common) -> Result<(), Failure> {
    let place = place(common)?;
    match command {
        CheckpointCommand::Create => control::request(&place, "checkpoint"),
        CheckpointCommand::List => list(&place),
        CheckpointCommand::Show { checkpoint, job } => show(&place, *checkpoint, *job),
        CheckpointCommand::Verify { checkpoint } => verify(&place, *checkpoint),
        CheckpointCommand::Delete { checkpoints, job } => delete(&place, checkpoints, *job),
    }
}

fn place(common: &Common) -> Result<StatePlace, Failure> {
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
            Err(Failure::usage(Diagnostic::new(code::FILE_NOT_FOUND, message).advise("check --state-dir")))
        }
        Err(e) => Err(failed(&place, &e)),
    }
}

fn failed(place: &StatePlace, error: &std::io::Error) -> Failure {
    let what = format!("the state directory {place} cannot be read");
    Failure::usage(store_failed(code::READ_FAILED, &what, error))
}

/// The jobs of a state directory in their order, or the only one that is meant.
fn jobs(place: &StatePlace, only: Option<usize>) -> Result<Vec<Job>, Failure> {
    let job = |number| Job { number, name: format!("job-{number}"), checkpoints: place.checkpoints(number) };
    let numbers = place.jobs().map_err(|e| failed(place, &e))?.into_iter();
    Ok(numbers.filter(|&number| only.is_none_or(|only| only == number)).map(job).collect())
}

/// Whether everything that a checkpoint names is there; its blobs are read if they have at most `bytes` bytes.
fn verified(job: &Job, manifest: &Manifest, bytes: u64, place: &StatePlace) -> Result<Result<(), Damaged>, Failure> {
    job.checkpoints.verify(manifest, bytes).map_err(|e| failed(place, &e))
}

fn listed(job: &Job, place: &StatePlace) -> Result<Vec<Listed>, Failure> {
    job.checkpoints.list().map_err(|e| failed(place, &e))
}

fn list(place: &StatePlace) -> Result<(), Failure> {
    let mut rows = vec![["job", "checkpoint", "taken", "state", "written", "condition"].map(String::from)];
    for job in jobs(place, None)? {
        for Listed { checkpoint, manifest } in listed(&job, place)? {
            let (name, number) = (job.name.clone(), checkpoint.to_string());
            rows.push(match manifest {
                Ok(manifest) => {
                    let good = if manifest.is_finished { "finished" } else { "complete" };
                    let condition = condition(verified(&job, &manifest, 0, place)?, good);
                    let taken = timestamp(i64::try_from(manifest.written_ms).unwrap_or(i64::MAX));
                    let (state, written) = (bytes(manifest.state_bytes()), bytes(manifest.bytes_written));
                    [name, number, taken, state, written, condition]
                }
                Err(damaged) => {
                    let none = String::new;
                    [name, number, none(), none(), none(), condition(Err(damaged), "")]
                }
            });
        }
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

/// The checkpoint that is meant; the newest one if none is named.
fn find(place: &StatePlace, checkpoint: Option<u64>, job: Option<usize>) -> Result<(Job, Manifest), Failure> {
    for job in jobs(place, job)? {
        for listed in listed(&job, place)? {
            if checkpoint.is_none_or(|number| number == listed.checkpoint) {
                let damaged = |Damaged(what)| Failure::usage(Diagnostic::new(code::CHECKPOINT_DAMAGED, what));
                return listed.manifest.map(|manifest| (job, manifest)).map_err(damaged);
            }
        }
    }
    let which = checkpoint.map_or("no checkpoint".to_string(), |number| format!("no checkpoint {number}"));
    let message = format!("there is {which} in {place}");
    let advice = "'millstream checkpoint list' shows which there are";
    Err(Failure::usage(Diagnostic::new(code::FILE_NOT_FOUND, message).advise(advice)))
}

fn show(place: &StatePlace, checkpoint: Option<u64>, job: Option<usize>) -> Result<(), Failure> {
    let (job, manifest) = find(place, checkpoint, job)?;
    print(&description(&job.name, &manifest)).map_err(Failure::usage)
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
        let token = sink.token.as_ref().map_or("nothing to commit".to_string(), ToString::to_string);
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

fn verify(place: &StatePlace, checkpoint: Option<u64>) -> Result<(), Failure> {
    let (mut text, mut damaged, mut found) = (String::new(), 0, 0);
    for job in jobs(place, None)? {
        for listed in listed(&job, place)? {
            if checkpoint.is_some_and(|number| number != listed.checkpoint) {
                continue;
            }
            found += 1;
            let whole = match listed.manifest {
                Ok(manifest) => verified(&job, &manifest, u64::MAX, place)?,
                Err(damaged) => Err(damaged),
            };
            damaged += usize::from(whole.is_err());
            let _ = writeln!(text, "{} checkpoint {}: {}", job.name, listed.checkpoint, condition(whole, "whole"));
        }
    }
    print(&text).map_err(Failure::usage)?;
    match (damaged, found) {
        (0, 0) if checkpoint.is_some() => find(place, checkpoint, None).map(drop),
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

fn delete(place: &StatePlace, wanted: &[u64], job: Option<usize>) -> Result<(), Failure> {
    let lock = place.lock().map_err(|e| failed(place, &e))?.map_err(|holder| {
        let message = format!("a running job uses {place}: {holder}");
        Failure::usage(Diagnostic::new(code::STATE_IN_USE, message))
    })?;
    for &checkpoint in wanted {
        // Found also if its manifest is damaged.
        if let Err(failure) = find(place, Some(checkpoint), job)
            && failure.code() != code::CHECKPOINT_DAMAGED
        {
            return Err(failure);
        }
    }
    for job in jobs(place, job)? {
        let checkpoints = place.own_checkpoints(job.number, &lock).map_err(|e| failed(place, &e))?;
        let removed = checkpoints.delete(|checkpoint| wanted.contains(&checkpoint), BTreeSet::new());
        for checkpoint in removed.map_err(|e| failed(place, &e))? {
            print(&format!("{} checkpoint {checkpoint} deleted\n", job.name)).map_err(Failure::usage)?;
        }
    }
    Ok(())
}
