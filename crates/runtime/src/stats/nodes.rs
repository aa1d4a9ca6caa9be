//! What the nodes of a run tell the first of them about themselves, and what that makes of it.
//!
//! Every other node sends a report about once a second, and one when the first node is about to end. Reports hold sums, so a
//! newer one takes the place of the one before, and nothing is lost with one that is not sent.

use super::snapshot::{LaneSnapshot, NodeSnapshot, StatsSnapshot};
use millstream_storage::Damaged;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Longest text of an error that is told, in bytes.
const MOST_TEXT: usize = 4 << 10;

/// What one of several nodes has done so far.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeReport {
    /// Whether the first node has asked for it.
    is_last: bool,
    pub(super) stats: StatsSnapshot,
    /// By source: up to where all rows of splits that are not idle have been processed, from `i64::MIN` to `i64::MAX`. What people see
    /// does not tell a split without a watermark from one that has ended.
    pub(super) sources: Vec<i64>,
    /// The same by pipeline.
    pub(super) pipelines: Vec<i64>,
    /// Its lanes to the other nodes.
    lanes: Vec<LaneSnapshot>,
}

/// The lanes of a node to the others.
pub(crate) trait NodeLanes: Send + Sync {
    /// What is under way in each.
    fn now(&self) -> Vec<LaneSnapshot>;
}

/// What the first of several nodes knows of all; empty on others, and where there is one.
#[derive(Debug, Default)]
pub(crate) struct NodeReports(Mutex<Vec<HeardReport>>);

/// What is known of a node.
#[derive(Debug, Default)]
struct HeardReport {
    /// Its last report, and when it came; of the first node there are none.
    report: Option<(NodeReport, Instant)>,
    /// Its time and the rows that it had read, of the last two moments.
    pace: [(Duration, u64); 2],
    has_told_last: bool,
    /// What processes have done that were this node before.
    before: Option<StatsSnapshot>,
    /// How many there were.
    replaced: u64,
    /// Why it is gone, as long as no other process is in its place.
    lost: Option<String>,
}

impl NodeReport {
    /// Of what a node has counted, the watermarks of its sources and pipelines, and its lanes.
    pub(super) fn new(
        stats: StatsSnapshot,
        sources: Vec<i64>,
        pipelines: Vec<i64>,
        lanes: Vec<LaneSnapshot>,
    ) -> NodeReport {
        let mut report = NodeReport { is_last: false, stats, sources, pipelines, lanes };
        report.show_watermarks();
        report
    }

    /// To be sent.
    pub(super) fn told(mut self, is_last: bool) -> NodeReport {
        self.is_last = is_last;
        if let Some(text) = &mut self.stats.first_error {
            text.truncate(text.floor_char_boundary(MOST_TEXT));
        }
        self
    }

    /// Writes down the watermarks that people see.
    fn show_watermarks(&mut self) {
        let StatsSnapshot { sources, pipelines, watermark_ms, .. } = &mut self.stats;
        sources.iter_mut().zip(&self.sources).for_each(|(source, &at)| source.watermark_ms = shown(at));
        pipelines.iter_mut().zip(&self.pipelines).for_each(|(pipeline, &at)| pipeline.watermark_ms = shown(at));
        *watermark_ms = sources.iter().filter_map(|source| source.watermark_ms).min();
    }

    /// Adds that of another node; `None`: it has not told anything, so no watermark of all nodes is known.
    fn add(&mut self, node: usize, other: Option<&NodeReport>) {
        let lower = |all: &mut Vec<i64>, of: Option<&Vec<i64>>| {
            for (number, at) in all.iter_mut().enumerate() {
                *at = (*at).min(of.map_or(i64::MIN, |of| of[number]));
            }
        };
        lower(&mut self.sources, other.map(|other| &other.sources));
        lower(&mut self.pipelines, other.map(|other| &other.pipelines));
        if let Some(other) = other {
            self.stats.add(&other.stats, node);
        }
    }

    /// What is shown of one node.
    fn of_node(&self, node: usize, age: Duration, rows_per_second: f64) -> NodeSnapshot {
        let stats = &self.stats;
        let triggers = stats.aggregations.iter().chain(&stats.operators).map(|trigger| trigger.sent.bytes);
        let sent = triggers.chain(stats.sinks.iter().map(|sink| sink.sent.bytes));
        NodeSnapshot {
            node,
            age: Some(age),
            elapsed: stats.elapsed,
            replaced: 0,
            rows_in: stats.rows_in,
            rows_per_second,
            rows_out: stats.rows_out,
            watermark_ms: stats.watermark_ms,
            state_bytes: stats.memory.state().saturating_add(stats.spill.bytes_held),
            sent_bytes: sent.fold(0, u64::saturating_add),
            lanes: self.lanes.clone(),
            lost: None,
        }
    }
}

impl HeardReport {
    /// With what processes have done that were this node before.
    fn with_past(&self, now: NodeSnapshot) -> NodeSnapshot {
        let mut all = NodeSnapshot { replaced: self.replaced, lost: self.lost.clone(), ..now };
        // What a process that is gone had under way says nothing of now.
        if all.lost.is_some() {
            all.lanes.clear();
        }
        if let Some(before) = &self.before {
            all.rows_in = all.rows_in.saturating_add(before.rows_in);
            all.rows_out = all.rows_out.saturating_add(before.rows_out);
        }
        all
    }

    /// Rows per second between the last two moments.
    fn rows_per_second(&self) -> f64 {
        let [(before, from), (last, to)] = self.pace;
        let seconds = last.saturating_sub(before).as_secs_f64();
        if seconds > 0.0 { to.saturating_sub(from) as f64 / seconds } else { 0.0 }
    }
}

impl NodeReports {
    /// Of so many nodes, of which this is the first.
    pub(crate) fn open(&self, nodes: usize) {
        *self.0.lock() = (0..nodes).map(|_| HeardReport::default()).collect();
    }

    /// A node has read so many rows in that time.
    pub(super) fn note_pace(&self, node: usize, elapsed: Duration, rows: u64) {
        if let Some(heard) = self.0.lock().get_mut(node) {
            heard.pace = [heard.pace[1], (elapsed, rows)];
        }
    }

    /// A node has told what it has done.
    ///
    /// # Errors
    /// When there is no such node, or it is this one.
    pub(super) fn note(&self, node: usize, report: NodeReport) -> Result<(), Damaged> {
        self.note_pace(node, report.stats.elapsed, report.stats.rows_in);
        let mut all = self.0.lock();
        let heard = all.get_mut(node).filter(|_| node > 0);
        let heard =
            heard.ok_or_else(|| Damaged(format!("statistics of node {node} come to a node that adds up none")))?;
        heard.has_told_last |= report.is_last;
        heard.report = Some((report, Instant::now()));
        Ok(())
    }

    /// Nothing more comes from a node, for that reason.
    pub(crate) fn lost(&self, node: usize, why: &str) {
        if let Some(heard) = self.0.lock().get_mut(node) {
            heard.lost = Some(why.into());
        }
    }

    /// Another process takes the place of a node. Rows that it reads once more count again.
    pub(crate) fn replaced(&self, node: usize) {
        let mut all = self.0.lock();
        let Some(heard) = all.get_mut(node) else { return };
        let HeardReport { report, before, replaced, .. } = std::mem::take(heard);
        let last = report.map(|(report, _)| report.stats.of_the_past());
        let before = match (before, last) {
            (Some(mut before), Some(last)) => {
                before.add(&last, node);
                Some(before)
            }
            (before, last) => before.or(last),
        };
        *heard = HeardReport { before, replaced: replaced + 1, ..HeardReport::default() };
    }

    /// Whether each other node has told what it was asked for.
    pub(crate) fn are_last(&self) -> bool {
        self.0.lock().iter().skip(1).all(|heard| heard.has_told_last)
    }

    /// What all nodes have done, this one included.
    pub(super) fn sum(&self, own: NodeReport, is_over: bool) -> StatsSnapshot {
        let all = self.0.lock();
        if all.is_empty() {
            return own.stats;
        }
        let row = |node: usize, heard: &HeardReport, report: &NodeReport, age: Duration| {
            let average = report.stats.rows_in as f64 / report.stats.elapsed.as_secs_f64().max(1e-9);
            heard.with_past(report.of_node(node, age, if is_over { average } else { heard.rows_per_second() }))
        };
        let mut nodes = vec![row(0, &all[0], &own, Duration::ZERO)];
        let mut sum = own;
        for (node, heard) in all.iter().enumerate().skip(1) {
            let report = heard.report.as_ref();
            let untold = heard.with_past(NodeSnapshot { node, ..NodeSnapshot::default() });
            heard.before.iter().for_each(|before| sum.stats.add(before, node));
            nodes.push(report.map_or(untold, |(report, at)| row(node, heard, report, at.elapsed())));
            sum.add(node, report.map(|(report, _)| report));
        }
        sum.show_watermarks();
        StatsSnapshot { nodes, ..sum.stats }
    }
}

/// A watermark, if it is one that people shall see.
pub(super) fn shown(watermark: i64) -> Option<i64> {
    Some(watermark).filter(|&watermark| watermark != i64::MIN && watermark != i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{Begun, PipelineStats, QueryStats, SentStats, SinkStats, SourceStats, SplitStats, TriggerStats};
    use super::*;
    use millstream_types::{Diagnostic, code};
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    /// Counters of a node that reads one split, which has come to a watermark.
    fn counters(rows: u64, watermark: i64) -> QueryStats {
        let source = SourceStats { name: "source 0: table t".into(), ..SourceStats::default() };
        let split = SplitStats { name: "a".into(), ..SplitStats::default() };
        split.rows.store(rows, Relaxed);
        split.note_lag(rows);
        split.watermark.raise(watermark);
        source.splits.set(vec![split]).unwrap();
        let pipeline = PipelineStats::default();
        pipeline.rows_in.store(rows, Relaxed);
        pipeline.task_time.record(Duration::from_micros(rows));
        let [windows, sessions] = [
            TriggerStats::new("aggregation 0".into(), Begun::Windows, &Arc::default()),
            TriggerStats::new("operator 0".into(), Begun::Jobs, &Arc::default()),
        ];
        windows.begun.store(rows / 10, Relaxed);
        sessions.begun.store(rows / 10, Relaxed);
        sessions.spent(Duration::from_millis(rows));
        let sent: Vec<SentStats> = (0..3).map(|_| SentStats::default()).collect();
        sent.iter().for_each(|sent| sent.count(rows as usize));
        let stats = QueryStats {
            sources: vec![source],
            pipelines: vec![pipeline],
            aggregations: vec![windows],
            operators: vec![sessions],
            sinks: vec![Arc::new(SinkStats { name: "sink 0: o".into(), ..SinkStats::default() })],
            sent,
            ..QueryStats::default()
        };
        stats.rows_out.store(rows / 2, Relaxed);
        stats.late_rows.store(1, Relaxed);
        // Windows, and one session.
        stats.windows_fired.store(rows / 10 + 1, Relaxed);
        stats
    }

    /// As it comes to the first node.
    fn sent(report: &NodeReport) -> NodeReport {
        serde_json::from_slice(&serde_json::to_vec(report).unwrap()).unwrap()
    }

    #[test]
    fn what_nodes_have_done_is_added_up() {
        let (first, second, third) = (counters(100, 5000), counters(30, 3000), counters(70, i64::MAX));
        first.reports.open(3);
        first.note_report(1, sent(&second.report(false))).unwrap();
        let untold = first.snapshot();
        assert_eq!((untold.rows_in, untold.nodes[2].age, untold.nodes[2].node), (130, None, 2));
        assert_eq!(untold.watermark_ms, None, "that of a node that has told nothing is not known");
        assert!(!first.reports.are_last());
        // A newer report takes the place of the one before.
        (1..3).zip([second, third]).for_each(|(node, of)| first.note_report(node, sent(&of.report(true))).unwrap());
        assert!(first.reports.are_last());
        let all = first.snapshot();
        assert_eq!((all.rows_in, all.rows_out, all.late_rows, all.buffers), (200, 100, 3, 0));
        assert_eq!((all.watermark_ms, all.sources[0].watermark_ms), (Some(3000), Some(3000)));
        assert_eq!((all.sources[0].split_count, all.sources[0].lag), (3, Some(200)));
        let splits: Vec<(usize, u64)> = all.sources[0].splits.iter().map(|split| (split.node, split.rows)).collect();
        assert_eq!(splits, [(0, 100), (1, 30), (2, 70)]);
        let (windows, sessions) = (&all.aggregations[0], &all.operators[0]);
        assert_eq!((windows.begun, sessions.begun), (Begun::Windows(10), Begun::Jobs(20)));
        assert_eq!(all.windows_fired, 13, "ten windows that all have a part of, and a session of each");
        assert_eq!((sessions.busy, sessions.sent.bytes), (Duration::from_millis(200), 200));
        let times = all.pipelines[0].task_time;
        assert_eq!((times.count, times.sum, times.max), (3, Duration::from_micros(200), Duration::from_micros(100)));
        assert!(times.mean == times.sum / 3 && times.p50 >= Duration::from_micros(70) && times.p99 <= times.max);
        let nodes: Vec<_> =
            all.nodes.iter().map(|n| (n.node, n.rows_in, n.rows_out, n.sent_bytes, n.watermark_ms)).collect();
        assert_eq!(nodes, [(0, 100, 50, 300, Some(5000)), (1, 30, 15, 90, Some(3000)), (2, 70, 35, 210, None)]);
        assert!(all.nodes.iter().all(|node| node.age.is_some()));
    }

    #[test]
    fn what_a_node_has_done_before_it_was_replaced_counts() {
        let first = counters(100, 5000);
        first.reports.open(2);
        first.note_report(1, sent(&counters(30, 3000).report(true))).unwrap();
        first.reports.replaced(1);
        assert!(!first.reports.are_last(), "the process in its place has told nothing");
        let untold = first.snapshot();
        assert_eq!((untold.rows_in, untold.rows_out, untold.watermark_ms), (130, 65, None));
        first.note_report(1, sent(&counters(20, 4000).report(false))).unwrap();
        let all = first.snapshot();
        assert_eq!((all.rows_in, all.rows_out, all.watermark_ms), (150, 75, Some(4000)));
        let source = &all.sources[0];
        assert_eq!((source.rows, source.split_count, source.lag, source.splits.len()), (150, 2, Some(120), 2));
        let node = &all.nodes[1];
        assert_eq!((node.rows_in, node.rows_out, node.replaced, all.nodes[0].replaced), (50, 25, 1, 0));
        // Once more, by one that has said nothing.
        first.reports.replaced(1);
        first.reports.replaced(1);
        assert_eq!((first.snapshot().rows_in, first.snapshot().nodes[1].replaced), (150, 3));
        first.reports.replaced(7);
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let (first, other) = (counters(0, 0), counters(500, 0));
        first.reports.open(2);
        first.reports.note_pace(0, Duration::from_secs(1), 1000);
        first.reports.note_pace(0, Duration::from_secs(3), 5000);
        first.reports.note_pace(1, Duration::from_secs(7), 400);
        let mut report = other.report(false);
        report.stats.elapsed = Duration::from_secs(8);
        first.note_report(1, report).unwrap();
        let rates: Vec<f64> = first.snapshot().nodes.iter().map(|node| node.rows_per_second).collect();
        assert_eq!(rates, [2000.0, 100.0]);
        first.end();
        let average = first.snapshot().nodes[1].rows_per_second;
        assert!((average - 62.5).abs() < 1e-9, "{average}");
    }

    #[test]
    fn statistics_that_no_node_sends_are_refused() {
        let first = counters(1, 1);
        assert!(first.note_report(1, counters(1, 1).report(true)).is_err(), "it is not the first of several");
        first.reports.open(2);
        for node in [0, 2, usize::MAX] {
            assert!(first.note_report(node, counters(1, 1).report(true)).is_err(), "{node}");
        }
        assert!(first.note_report(1, QueryStats::default().report(true)).is_err(), "of another plan");
        let mut mixed = counters(1, 1).report(true);
        mixed.stats.operators[0].begun = Begun::Windows(1);
        assert!(first.note_report(1, mixed).is_err());
        // Numbers that are too high stay numbers.
        let mut high = counters(1, 1).report(true);
        (high.stats.rows_in, high.stats.rows_out, high.stats.windows_fired) = (u64::MAX, u64::MAX, u64::MAX);
        (high.stats.operators[0].busy, high.stats.pipelines[0].task_time.count) = (Duration::MAX, u64::MAX);
        first.note_report(1, high).unwrap();
        let all = first.snapshot();
        assert_eq!((all.rows_in, all.operators[0].busy, all.nodes.len()), (u64::MAX, Duration::MAX, 2));
    }

    #[test]
    fn a_report_is_bounded() {
        let counters = counters(1, 1);
        let splits: Vec<SplitStats> = (0..5000)
            .map(|number| {
                let split = SplitStats { name: number.to_string(), ..SplitStats::default() };
                split.rows.store(2, Relaxed);
                split.has_ended.store(number % 2 == 0, Relaxed);
                split.watermark.raise(if number % 2 == 0 { i64::MAX } else { 10_000 - number });
                split
            })
            .collect();
        let source = SourceStats { name: counters.sources[0].name.clone(), ..SourceStats::default() };
        source.splits.set(splits).unwrap();
        let stats = QueryStats { sources: vec![source], ..counters };
        stats.skip_errors(1, Some(&Diagnostic::new(code::READ_FAILED, "ä".repeat(1 << 20))));
        let report = stats.report(false);
        let source = &report.stats.sources[0];
        assert_eq!((source.rows, source.split_count, source.splits.len()), (10_000, 5000, 500));
        assert!(source.splits[0].name == "4999" && source.splits.iter().all(|split| !split.has_ended));
        assert_eq!((report.sources[0], source.watermark_ms), (5001, Some(5001)));
        assert!(serde_json::to_vec(&report).unwrap().len() < 256 << 10);
    }
}
