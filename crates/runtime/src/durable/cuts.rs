//! Cuts: where one generation of tables ends and the next begins (design section 9).
//!
//! A cut is a place in every split, between two units. Nothing stops for it: tasks of buffers before it write tables of
//! the old generation, tasks after it those of the new one, at the same time. When all buffers before the cut have been
//! processed, the old tables of an aggregation are frozen: nobody writes to them any more, though windows that they belong
//! to may still be open. A cut of an operator's inputs becomes one of its output (see `progress`), so it travels through
//! chains of operators to the sinks. What a checkpoint consists of is handed over where the cut passes (see `part`).
//! When the next cut may be made is in `schedule::cut_timing`.
//!
//! Where results change, a cut is the end of a beat (`schedule::beats`), but for one that is made for tables alone within a beat of
//! event time. Beats are short, and tables of windows are not cut for them:
//! [`TableGenerations`](super::generations::TableGenerations) counts the cuts that are.
//!
//! One cut at a time is on its way: the next one waits until it has passed every aggregation, keyed operator and sink.
//! So there are two generations at most that are written to.

use super::checkpointing::Handed;
use crate::exchange::NodeMessage;
use crate::ids::Generation;
use crate::query::Query;
use crate::schedule::beats::Beats;
use crate::schedule::cut_timing::Purpose;
use crate::source::SourceRuntime;
use crate::source::split::Split;
use crate::station::Awaited;
use millstream_storage::{SourceState, SplitState};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Begins a new generation in all splits, unless a cut is on its way; whether it has. On several nodes the first one makes it, for all.
pub(crate) fn make_cut(query: &Query, purpose: Purpose) -> bool {
    match &query.host().nodes {
        Some(nodes) if !nodes.is_first() => {
            nodes.send(0, NodeMessage::AskCut);
            false
        }
        Some(nodes) => nodes.may_cut().is_some_and(|mut may_cut| {
            let tell = |generation| {
                may_cut.note(generation, purpose);
                nodes.tell_others(|| NodeMessage::Cut(generation, purpose));
            };
            cut(query, purpose, tell).is_some()
        }),
        None => cut(query, purpose, |_| {}).is_some(),
    }
}

/// Makes the cut of this generation, as the first node says, unless one is on its way; whether it has.
pub(crate) fn follow_cut(query: &Query, generation: Generation, purpose: Purpose) -> Result<bool, Diagnostic> {
    let before = query.host().nodes.as_ref().map_or(0, |nodes| nodes.cuts_before);
    match cut(query, purpose, |_| {}) {
        Some(made) if u64::from(made.0) + u64::from(before) != u64::from(generation.0) => {
            Err(Diagnostic::bug("nodes count their cuts differently"))
        }
        made => Ok(made.is_some()),
    }
}

/// Makes a cut; which generation begins is told to `begun` before it does.
fn cut(query: &Query, purpose: Purpose, begun: impl FnOnce(Generation)) -> Option<Generation> {
    let is_checkpoint = purpose == Purpose::Checkpoint;
    let (generation, cut) = query.cuts().begin(is_checkpoint)?;
    let beats = query.host().beats.as_ref();
    // Those of event time end where all splits are, or where the query is stopped.
    let ended = beats.filter(|beats| !(beats.is_event_time() && purpose == Purpose::Tables));
    if let (Some(beats), None) = (beats, ended) {
        beats.leave_open(generation);
    }
    if let Some(beats) = ended {
        beats.begin(generation);
        let rows = |split: &Split| query.stream(split.stream).reached().rows;
        let of_source = |source: &SourceRuntime| match query.host().nodes {
            Some(_) => Vec::new(),
            None => source.splits.iter().map(rows).collect(),
        };
        query.host().stats.beats.end(query.sources().iter().map(of_source).collect());
    }
    let tables = (purpose != Purpose::Beat).then(|| query.host().tables.begin(generation));
    let checkpointing = query.host().checkpointing.as_ref().filter(|_| is_checkpoint);
    if let (Some(checkpointing), Some(tables)) = (checkpointing, tables) {
        checkpointing.begin(generation, tables);
    }
    begun(generation);
    let (mut parts, mut passed) = (0, Vec::new());
    for station in query.stations() {
        match station.await_cut(generation) {
            Awaited::No => continue,
            Awaited::Yes => cut.awaits(),
            Awaited::Passed => passed.push(Arc::clone(station)),
        }
        parts += 1;
    }
    let mut sources = Vec::with_capacity(query.sources().len());
    for (number, source) in query.sources().iter().enumerate() {
        let mut state = SourceState {
            table: query.plan().sources[number].name().to_string(),
            number: source.number,
            splits: Vec::new(),
        };
        for (place, split) in source.splits.iter().enumerate() {
            let stream = query.stream(split.stream);
            let (consequences, reached) = stream.cut(generation, is_checkpoint);
            if ended.is_some() {
                let nodes = query.host().nodes.as_ref();
                let split = nodes.map_or(place, |_| stream.number.split as usize);
                query.host().stats.beats.ends_behind(number, split, reached.rows);
                if let Some(nodes) = nodes.filter(|nodes| !nodes.is_first()) {
                    nodes.send(0, NodeMessage::BeatEnds(number, split, reached.rows));
                }
            }
            // One that has just been found has a position in its first unit, or will be found again.
            if !split.is_spare() && (reached.at.is_some() || !split.was_spare) {
                // What was read of it is described by whoever writes the checkpoint: that one has time to look.
                let (name, number) = (split.name().to_string(), stream.number.split);
                state.splits.push(SplitState { name, number, ..reached });
            }
            query.act(consequences);
        }
        sources.push(state);
    }
    if let Some(checkpointing) = checkpointing {
        checkpointing.hand_over(generation, || Handed::Sources(sources, parts));
        for station in passed {
            if let Err(diagnostic) = station.cut_passed(generation) {
                query.fail(diagnostic);
            }
        }
    }
    if ended.is_some_and(Beats::is_event_time) && !query.is_follower() {
        query.take_next_beat();
    }
    // If it has passed everything already, nobody else is going to say so.
    drop(cut);
    query.next_beat();
    Some(generation)
}
