//! EXPLAIN ANALYZE: the pipelines of a query that has run, each with what it has done, and why its code was changed.

use millstream_plan::explain::{Part, annotated_pipelines};
use millstream_plan::picture::picture;
use millstream_plan::pipeline::{Aggregation, Operator, QueryPlan};
use millstream_runtime::{
    Event, PipelineSnapshot, ProfileSnapshot, ProgramSnapshot, SentSnapshot, StatsSnapshot, TriggerSnapshot,
};
use millstream_types::counted;
use std::time::Duration;

/// What EXPLAIN ANALYZE prints; `merge` says how the tables of an aggregation are merged.
pub(crate) fn analysis(plan: &QueryPlan, merge: impl Fn(&Aggregation) -> String, stats: &StatsSnapshot) -> String {
    let analysis = Analysis { plan, stats };
    let mut out = String::from("== Pipelines ==\n");
    out += &annotated_pipelines(plan, merge, |part| analysis.notes(part));
    out += "\n== Run ==\n";
    lines(&mut out, &analysis.totals());
    out += "\n== Events ==\n";
    match stats.events.is_empty() {
        true => out += "none\n",
        false => lines(&mut out, &stats.events.iter().map(event).collect::<Vec<_>>()),
    }
    out
}

/// The pipelines as a picture, with the same notes.
pub(crate) fn picture_of(plan: &QueryPlan, merge: impl Fn(&Aggregation) -> String, stats: &StatsSnapshot) -> String {
    let analysis = Analysis { plan, stats };
    picture(plan, merge, |part| analysis.notes(part))
}

fn lines(out: &mut String, lines: &[String]) {
    lines.iter().for_each(|line| *out += &format!("{line}\n"));
}

/// What nodes have sent each other, if they have.
fn sent(sent: SentSnapshot, way: &str) -> String {
    match sent.frames {
        0 => String::new(),
        frames => {
            format!(", {} in {} sent {way} other nodes", counted(sent.bytes, "byte"), counted(frames, "frame"))
        }
    }
}

/// A plan and what has become of it.
struct Analysis<'a> {
    plan: &'a QueryPlan,
    stats: &'a StatsSnapshot,
}

impl Analysis<'_> {
    /// What a part has done.
    fn notes(&self, part: Part) -> Vec<String> {
        let stats = self.stats;
        match part {
            Part::Source(index) => stats.sources.get(index).map_or_else(Vec::new, |source| {
                let time = self.per_row(source.decode_time.sum, source.rows);
                let bytes =
                    if source.bytes > 0 { format!(", {}", counted(source.bytes, "byte")) } else { String::new() };
                let splits = counted(source.split_count, "split");
                let chunks = counted(source.chunks, "chunk");
                vec![format!("{}{bytes} in {chunks} of {splits}{time}", counted(source.rows, "row"))]
            }),
            Part::Aggregation(index) => self.trigger(stats.aggregations.get(index), "window"),
            Part::Operator(index) => self.trigger(stats.operators.get(index), "job"),
            Part::Sort(index) => self.trigger(stats.operators.get(self.plan.operators.len() + index), "run"),
            Part::Pipeline(index) => stats.pipelines.get(index).map_or_else(Vec::new, |x| self.pipeline(x)),
            Part::Filter { pipeline, stage, filter } => self.filter(pipeline, stage, filter).into_iter().collect(),
            Part::End(pipeline) => self.end(pipeline).into_iter().collect(),
        }
    }

    fn trigger(&self, trigger: Option<&TriggerSnapshot>, what: &str) -> Vec<String> {
        let note = |x: &TriggerSnapshot| {
            let (begun, rows) = (counted(x.begun.count(), what), counted(x.rows_out, "row"));
            let cost = self.per_row(x.busy, x.rows_out);
            let sent = sent(x.sent, "to");
            format!("{begun}, delivered after {}, {rows} out{cost}{sent}", time(x.delay.mean))
        };
        trigger.map(note).into_iter().collect()
    }

    fn pipeline(&self, x: &PipelineSnapshot) -> Vec<String> {
        let out = if x.rows_out > 0 { format!(", {} out", x.rows_out) } else { String::new() };
        let (rows, buffers) = (counted(x.rows_in, "row"), counted(x.buffers, "buffer"));
        let mut notes = vec![format!("{rows} in{out}, {buffers}{}", self.per_row(x.task_time.sum, x.rows_in))];
        // The programs of its stages are named after it.
        let is_mine = |program: &&ProgramSnapshot| {
            program.name.strip_prefix(&x.name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        for program in self.stats.programs.iter().filter(is_mine) {
            let name = program.name[x.name.len()..].trim_start_matches([',', ':', ' ']);
            let of = if name.is_empty() { String::new() } else { format!("{name}: ") };
            notes.extend(program.profile.iter().flat_map(profile).map(|note| format!("{of}{note}")));
            for variant in &program.variants {
                let choices = match variant.choices.as_str() {
                    "" => "generic",
                    choices => choices,
                };
                let cost = variant.nanos_per_row.map_or(String::new(), |nanos| format!(", {}", self.cost(nanos)));
                let rows = counted(variant.rows, "row");
                let current = if variant.is_current { ", in use" } else { "" };
                notes.push(format!(
                    "{of}variant {} ({}, {choices}): {rows}{cost}{current}",
                    variant.number, variant.tier
                ));
            }
        }
        notes
    }

    /// The program of a stage of a pipeline: of those for tables of either kind, the one that has processed more rows.
    fn program(&self, pipeline: usize, stage: usize) -> Option<&ProgramSnapshot> {
        let name = match self.stages(pipeline) {
            1 => format!("pipeline {pipeline}"),
            _ => format!("pipeline {pipeline} stage {stage}"),
        };
        let shared = format!("{name}, shared tables");
        let programs = self.stats.programs.iter().filter(|p| p.name == name || p.name == shared);
        programs.max_by_key(|p| rows_of(p))
    }

    fn stages(&self, pipeline: usize) -> usize {
        let operators = self.plan.pipelines.get(pipeline).map_or(&[][..], |p| &p.operators);
        1 + operators.iter().filter(|operator| matches!(operator, Operator::FlatMap(_))).count()
    }

    /// Share of the rows that pass a filter, and what it costs where that was measured.
    fn filter(&self, pipeline: usize, stage: usize, filter: usize) -> Option<String> {
        let program = self.program(pipeline, stage)?;
        let share = *program.profile.as_ref()?.filters.get(filter)?;
        let cost = program.filter_nanos.get(filter).map_or(String::new(), |nanos| format!(", {}", self.cost(*nanos)));
        Some(format!("{:.1} % of rows pass{cost}", share * 100.0))
    }

    /// What is left of the cost of the last stage behind its filters, where these were measured.
    fn end(&self, pipeline: usize) -> Option<String> {
        let program = self.program(pipeline, self.stages(pipeline) - 1)?;
        let nanos: u64 = program.variants.iter().map(|variant| variant.nanos).sum();
        let filters: f64 = program.filter_nanos.iter().sum();
        let rows = rows_of(program);
        (rows > 0 && !program.filter_nanos.is_empty())
            .then(|| format!("the rest: {}", self.cost((nanos as f64 / rows as f64 - filters).max(0.0))))
    }

    fn totals(&self) -> Vec<String> {
        let s = self.stats;
        let (rows_in, rows_out) = (counted(s.rows_in, "row"), counted(s.rows_out, "row"));
        let mut totals = vec![format!("{rows_in} in, {rows_out} out in {}", time(s.elapsed))];
        for (count, what) in [(s.late_rows, "late"), (s.skipped_rows, "malformed"), (s.error_rows, "failed")] {
            if count > 0 {
                totals.push(format!("{} dropped because {what}", counted(count, "row")));
            }
        }
        for sink in &s.sinks {
            let cost = self.per_row(sink.busy, sink.rows);
            let sent = sent(sink.sent, "by");
            totals.push(format!("{}: {} written{cost}{sent}", sink.name, counted(sink.rows, "row")));
        }
        let busy: Duration = s.workers.iter().map(|w| w.busy).sum();
        for node in &s.nodes {
            let (read, sent) = (counted(node.rows_in, "row"), counted(node.sent_bytes, "byte"));
            let of_node = if node.node == 0 { "; workers, programs and events are its own" } else { "" };
            totals.push(format!("node {}: {read} in, {} out, {sent} sent{of_node}", node.node, node.rows_out));
        }
        totals.push(format!("{}, busy {} together", counted(s.workers.len() as u64, "worker"), time(busy)));
        if let Some(counted) = s.hardware {
            let (branches, caches) = (counted.mispredictions_per_row, counted.cache_misses_per_row);
            totals.push(format!("{branches:.3} mispredicted branches and {caches:.3} cache misses per row"));
        }
        totals.push(format!("at most {} bytes of memory", s.memory.peak));
        totals
    }

    fn per_row(&self, time: Duration, rows: u64) -> String {
        match rows {
            0 => String::new(),
            rows => format!(", {}", self.cost(time.as_nanos() as f64 / rows as f64)),
        }
    }

    /// Nanoseconds per row, and cycles where they can be told.
    fn cost(&self, nanos: f64) -> String {
        let cycles = self.stats.cycles_per_nano.map_or(String::new(), |c| format!(" ({:.1} cycles)", nanos * c));
        format!("{nanos:.1} ns{cycles} per row")
    }
}

fn rows_of(program: &ProgramSnapshot) -> u64 {
    program.variants.iter().map(|variant| variant.rows).sum()
}

/// What is known of the rows.
fn profile(profile: &ProfileSnapshot) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(keys) = profile.keys {
        let range = keys.range.map_or(String::new(), |(least, most)| format!(" from {least} to {most}"));
        let heaviest = keys.heaviest * 100.0;
        notes.push(format!(
            "about {}{range}, the most frequent has {heaviest:.1} % of the rows",
            counted(keys.distinct.round(), "key")
        ));
    }
    if let Some(share) = profile.out_of_order.filter(|&share| share > 0.0) {
        let by = profile.disorder_ms.map_or(String::new(), |ms| format!(", by {ms:.0} ms on average"));
        notes.push(format!("out of order: {:.1} % of the rows{by}", share * 100.0));
    }
    notes
}

fn event(event: &Event) -> String {
    let gain = event.gain.map_or(String::new(), |(before, after)| format!(" ({before:.2} to {after:.2} ns per row)"));
    format!("{:.3} s, {}: {}; {}{gain}", event.at.as_secs_f64(), event.subject, event.observed, event.decided)
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.3} s"),
        s => format!("{:.3} ms", s * 1e3),
    }
}
