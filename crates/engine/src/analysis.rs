//! EXPLAIN ANALYZE: the pipelines of a query that has run, each with what it has done, and why its code was changed.

use millstream_plan::explain::{Part, annotated_pipelines};
use millstream_plan::pipeline::{Aggregation, QueryPlan};
use millstream_runtime::{Event, PipelineSnapshot, ProfileSnapshot, ProgramSnapshot, StatsSnapshot, TriggerSnapshot};
use std::time::Duration;

/// What EXPLAIN ANALYZE prints; `merge` says how the tables of an aggregation are merged.
pub(crate) fn analysis(plan: &QueryPlan, merge: impl Fn(&Aggregation) -> String, stats: &StatsSnapshot) -> String {
    let mut out = String::from("== Pipelines ==\n");
    out += &annotated_pipelines(plan, merge, |part| notes(part, stats));
    out += "\n== Run ==\n";
    lines(&mut out, &totals(stats));
    out += "\n== Events ==\n";
    match stats.events.is_empty() {
        true => out += "none\n",
        false => lines(&mut out, &stats.events.iter().map(event).collect::<Vec<_>>()),
    }
    out
}

fn lines(out: &mut String, lines: &[String]) {
    lines.iter().for_each(|line| *out += &format!("{line}\n"));
}

/// What a part has done.
fn notes(part: Part, stats: &StatsSnapshot) -> Vec<String> {
    match part {
        Part::Source(index) => stats.sources.get(index).map_or_else(Vec::new, |source| {
            let time = per_row(source.decode_time.sum, source.rows);
            let bytes = if source.bytes > 0 { format!(", {} bytes", source.bytes) } else { String::new() };
            let splits = counted(source.splits.len() as u64, "split");
            let chunks = counted(source.chunks, "chunk");
            vec![format!("{}{bytes} in {chunks} of {splits}{time}", counted(source.rows, "row"))]
        }),
        Part::Aggregation(index) => trigger(stats.aggregations.get(index), "window"),
        Part::Operator(index) => trigger(stats.operators.get(index), "job"),
        Part::Pipeline(index) => stats.pipelines.get(index).map_or_else(Vec::new, |x| pipeline(x, stats)),
    }
}

fn trigger(trigger: Option<&TriggerSnapshot>, what: &str) -> Vec<String> {
    let note = |x: &TriggerSnapshot| format!("{}, delivered after {}", counted(x.begun, what), time(x.delay.mean()));
    trigger.map(note).into_iter().collect()
}

fn pipeline(x: &PipelineSnapshot, stats: &StatsSnapshot) -> Vec<String> {
    let out = if x.rows_out > 0 { format!(", {} out", x.rows_out) } else { String::new() };
    let buffers = counted(x.buffers, "buffer");
    let mut notes =
        vec![format!("{} in{out}, {buffers}{}", counted(x.rows_in, "row"), per_row(x.task_time.sum, x.rows_in))];
    // The programs of its stages are named after it.
    let is_mine = |program: &&ProgramSnapshot| {
        program.name.strip_prefix(&x.name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    for program in stats.programs.iter().filter(is_mine) {
        let name = program.name[x.name.len()..].trim_start_matches([',', ':', ' ']);
        let of = if name.is_empty() { String::new() } else { format!("{name}: ") };
        notes.extend(program.profile.iter().flat_map(profile).map(|note| format!("{of}{note}")));
        for variant in &program.variants {
            let choices = match variant.choices.as_str() {
                "" => "generic",
                choices => choices,
            };
            let cost = variant.nanos_per_row().map_or(String::new(), |nanos| format!(", {nanos:.1} ns per row"));
            let rows = counted(variant.rows, "row");
            let current = if variant.is_current { ", in use" } else { "" };
            notes.push(format!("{of}variant {} ({}, {choices}): {rows}{cost}{current}", variant.number, variant.tier));
        }
    }
    notes
}

/// What is known of the rows.
fn profile(profile: &ProfileSnapshot) -> Vec<String> {
    let mut notes = Vec::new();
    if !profile.filters.is_empty() {
        let shares = profile.filters.iter().enumerate().map(|(i, share)| format!("filter {i} {:.1} %", share * 100.0));
        notes.push(format!("rows that pass: {}", shares.collect::<Vec<_>>().join(", ")));
    }
    if let Some(keys) = profile.keys {
        let range = keys.range.map_or(String::new(), |(least, most)| format!(" from {least} to {most}"));
        let heaviest = keys.heaviest * 100.0;
        notes
            .push(format!("about {:.0} keys{range}, the most frequent has {heaviest:.1} % of the rows", keys.distinct));
    }
    if let Some(share) = profile.out_of_order.filter(|&share| share > 0.0) {
        notes.push(format!("out of order: {:.1} % of the rows", share * 100.0));
    }
    notes
}

fn totals(s: &StatsSnapshot) -> Vec<String> {
    let mut totals =
        vec![format!("{} in, {} out in {}", counted(s.rows_in, "row"), counted(s.rows_out, "row"), time(s.elapsed))];
    for (count, what) in [(s.late_rows, "late"), (s.skipped_rows, "malformed"), (s.error_rows, "failed")] {
        if count > 0 {
            totals.push(format!("{} dropped because {what}", counted(count, "row")));
        }
    }
    let busy: Duration = s.workers.iter().map(|w| w.busy).sum();
    totals.push(format!("{}, busy {} together", counted(s.workers.len() as u64, "worker"), time(busy)));
    totals.push(format!("at most {} bytes of memory", s.memory.peak));
    totals
}

fn event(event: &Event) -> String {
    let gain = event.gain.map_or(String::new(), |(before, after)| format!(" ({before:.2} to {after:.2} ns per row)"));
    format!("{:.3} s, {}: {}; {}{gain}", event.at.as_secs_f64(), event.subject, event.observed, event.decided)
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn per_row(time: Duration, rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => format!(", {:.1} ns per row", time.as_nanos() as f64 / rows as f64),
    }
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.3} s"),
        s => format!("{:.3} ms", s * 1e3),
    }
}
