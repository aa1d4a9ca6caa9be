//! Why nothing comes out of a query: what is told when no row has come out for ten seconds.

use crate::units::timestamp;
use millstream::{Awaited, SourceSnapshot, SplitSnapshot, StatsSnapshot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long nothing comes out before the reason is told, and how long a split sends nothing before it is one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows a query that runs.
pub(crate) struct Silence {
    /// When a row has come out last, and how many have until then.
    out: (Instant, u64),
    /// By source, when rows have come last of any split, and how many have until then.
    sources: BTreeMap<String, (Instant, u64)>,
    /// By source, split and node that reads it, the same.
    splits: BTreeMap<(String, String, usize), (Instant, u64)>,
    told: Option<String>,
}

impl Silence {
    pub(crate) fn new(now: Instant) -> Silence {
        Silence { out: (now, 0), sources: BTreeMap::new(), splits: BTreeMap::new(), told: None }
    }

    /// The reason for a silence, when it is time to tell it and it is another than the last one. `stats` is `None` as long as sources
    /// and sinks are being opened, or nodes waited for: `awaited` says for which.
    pub(crate) fn look(
        &mut self,
        stats: Option<&StatsSnapshot>,
        awaited: Option<&Awaited>,
        now: Instant,
    ) -> Option<String> {
        let reason = self.observe(stats, awaited, now);
        reason.filter(|reason| self.told.replace(reason.clone()).as_ref() != Some(reason))
    }

    fn observe(&mut self, stats: Option<&StatsSnapshot>, awaited: Option<&Awaited>, now: Instant) -> Option<String> {
        let is_silent = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let Some(stats) = stats else {
            let waits = awaited.map_or_else(|| "a source or a sink does not answer yet".into(), ToString::to_string);
            return is_silent(self.out.0).then(|| format!("the query has not begun after 10 s: {waits}"));
        };
        let comes_out = stats.rows_out != self.out.1;
        if comes_out {
            self.out = (now, stats.rows_out);
        }
        let note = |last: &mut (Instant, u64), rows: u64| {
            if last.1 != rows {
                *last = (now, rows);
            }
        };
        for source in &stats.sources {
            note(self.sources.entry(source.name.clone()).or_insert((now, source.rows)), source.rows);
            for split in &source.splits {
                note(self.splits.entry(key(source, split)).or_insert((now, split.rows)), split.rows);
            }
        }
        if let Some(reason) = self.outage(stats, is_silent) {
            return Some(reason);
        }
        if comes_out {
            self.told = None;
        }
        if !is_silent(self.out.0) {
            return None;
        }
        // What another node reads, and whether it does, is known from what it tells.
        if let Some(node) = stats.nodes.iter().find(|node| node.age.is_none_or(|age| age >= PATIENCE)) {
            return Some(format!("nothing has come out for 10 s: node {} has told nothing for as long", node.node));
        }
        if let Some(source) = stats.sources.iter().find(|source| source.split_count == 0) {
            return Some(format!("nothing has come out for 10 s: {} does not answer yet", source.name));
        }
        if let Some(sink) = stats.sinks.iter().find(|sink| sink.writing >= PATIENCE) {
            return Some(format!(
                "nothing has come out for 10 s: {} has been busy with one write for as long; does its reader or server still take rows?",
                sink.name
            ));
        }
        if stats.queued > 0 {
            return None;
        }
        let open: Vec<(&SourceSnapshot, &SplitSnapshot)> = stats
            .sources
            .iter()
            .flat_map(|source| source.splits.iter().map(move |split| (source, split)))
            .filter(|(_, split)| !split.has_ended)
            .collect();
        let silent =
            |(source, split): &(&SourceSnapshot, &SplitSnapshot)| self.heard(source, split).is_some_and(&is_silent);
        // Idle ones hold nothing back; among them are those in reserve, which are no partition yet.
        let (idle, awaited): (Vec<(&SourceSnapshot, &SplitSnapshot)>, Vec<_>) =
            open.iter().copied().partition(|(_, split)| split.is_idle);
        // Not all splits of other nodes are listed.
        let is_source_silent = |source: &SourceSnapshot| self.sources.get(&source.name).is_some_and(|l| is_silent(l.0));
        if !open.is_empty() && open.iter().all(silent) && stats.sources.iter().all(is_source_silent) {
            let named = if awaited.is_empty() { &idle } else { &awaited };
            let (source, split) = (&named[0].0.name, named[0].1);
            let split = format!("{}{}", split.name, on_node(stats, split));
            let others = if named.len() > 1 { format!(" and {} others", named.len() - 1) } else { String::new() };
            return Some(format!("nothing has come out for 10 s: {source} has sent no rows ({split}{others})"));
        }
        // The one that holds the watermark back furthest.
        let (source, split) = awaited.into_iter().filter(silent).min_by_key(|(_, split)| split.watermark_ms)?;
        let at = split
            .watermark_ms
            .map_or_else(|| "no watermark yet".into(), |ms| format!("its watermark is {}", timestamp(ms)));
        // Rows wait for a watermark where there are windows, joins or the like.
        (!stats.aggregations.is_empty() || !stats.operators.is_empty()).then(|| {
            format!(
                "nothing has come out for 10 s: windows, joins and beats of event time wait for '{}'{} of {}, which sends no rows ({at}); \
                 'scan.watermark.idle-timeout' = '10 s' in its WITH (…) has them continue without it",
                split.name, on_node(stats, split), source.name
            )
        })
    }

    /// When rows of a split have come last.
    fn heard(&self, source: &SourceSnapshot, split: &SplitSnapshot) -> Option<Instant> {
        self.splits.get(&key(source, split)).map(|(since, _)| *since)
    }

    /// Servers that do not answer a query that runs, also while rows of others, or rows that are not committed yet, come out.
    fn outage(&self, stats: &StatsSnapshot, is_silent: impl Fn(Instant) -> bool) -> Option<String> {
        if let Some(sink) = stats.sinks.iter().find(|sink| sink.committing >= PATIENCE) {
            return Some(format!(
                "the rows of a checkpoint have not been committed for 10 s: does the server of {} still take rows?",
                sink.name
            ));
        }
        stats.sources.iter().find_map(|source| {
            let is_long = |split: &SplitSnapshot| self.heard(source, split).is_some_and(&is_silent);
            let split = source.splits.iter().find(|split| split.trouble.is_some() && is_long(split))?;
            let (source, why, on_node) = (&source.name, split.trouble.as_deref()?, on_node(stats, split));
            let split = &split.name;
            Some(format!(
                "'{split}'{on_node} of {source} has sent no rows for 10 s: {why}; reading resumes when that is over"
            ))
        })
    }
}

/// Splits of several nodes may have the same names.
fn key(source: &SourceSnapshot, split: &SplitSnapshot) -> (String, String, usize) {
    (source.name.clone(), split.name.clone(), split.node)
}

/// Where there are several nodes: the one that reads a split, to be said behind its name.
fn on_node(stats: &StatsSnapshot, split: &SplitSnapshot) -> String {
    match stats.nodes.len() {
        0 | 1 => String::new(),
        _ => format!(" on node {}", split.node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{Begun, NodeSnapshot, SentSnapshot, SinkSnapshot, Times, TriggerSnapshot};

    fn split(name: &str, rows: u64, watermark_ms: Option<i64>) -> SplitSnapshot {
        let (bytes, chunks, queued) = (0, 0, 0);
        SplitSnapshot { name: name.into(), rows, bytes, chunks, queued, watermark_ms, ..SplitSnapshot::default() }
    }

    fn stats(rows_out: u64, splits: &[SplitSnapshot]) -> StatsSnapshot {
        let source = SourceSnapshot {
            name: "source 0: table t".into(),
            rows: splits.iter().map(|split| split.rows).sum(),
            split_count: splits.len() as u64,
            splits: splits.to_vec(),
            ..Default::default()
        };
        let (begun, delay) = (Begun::Windows(0), Times::default());
        let windows = TriggerSnapshot {
            name: "windows".into(),
            begun,
            in_flight: 0,
            rows_out: 0,
            busy: Duration::ZERO,
            delay,
            state_bytes: 0,
            sent: SentSnapshot::default(),
        };
        StatsSnapshot { rows_out, sources: vec![source], aggregations: vec![windows], ..Default::default() }
    }

    #[test]
    fn the_reason_is_told_after_ten_seconds() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut silence = Silence::new(start);
        assert_eq!(silence.observe(None, None, at(9)), None);
        assert!(
            silence
                .observe(None, Some(&Awaited::Table("out".into())), at(10))
                .unwrap()
                .contains("has not begun after 10 s: out does not")
        );
        assert!(silence.observe(Some(&stats(0, &[])), None, at(11)).unwrap().contains("table t does not answer"));
        // One of two splits is silent: windows wait for it.
        for second in 12..22 {
            let splits = [split("a", second, Some(5000)), split("b", 0, None)];
            assert_eq!(silence.observe(Some(&stats(0, &splits)), None, at(second)), None);
        }
        let splits = [split("a", 22, Some(5000)), split("b", 0, None)];
        let reason = silence.observe(Some(&stats(0, &splits)), None, at(22)).unwrap();
        assert!(
            reason.contains("wait for 'b'") && reason.contains("no watermark yet") && reason.contains("idle-timeout"),
            "{reason}"
        );
        // Nobody waits for it where there are no windows, or when rows come out.
        assert_eq!(
            silence.observe(Some(&StatsSnapshot { aggregations: vec![], ..stats(0, &splits) }), None, at(22)),
            None
        );
        assert_eq!(silence.observe(Some(&stats(7, &splits)), None, at(23)), None);
        let reason = silence.observe(Some(&stats(7, &splits)), None, at(33)).unwrap();
        assert!(reason.contains("table t has sent no rows (a and 1 others)"), "{reason}");
        // Those in reserve are not counted, and nobody waits for them.
        let spare = SplitSnapshot { is_idle: true, ..split("t in reserve #0", 0, None) };
        let splits = [split("a", 22, Some(5000)), spare];
        assert!(silence.observe(Some(&stats(7, &splits)), None, at(33)).unwrap().contains("wait for 'a'"));
        let reason = silence.observe(Some(&stats(7, &splits)), None, at(43)).unwrap();
        assert!(reason.contains("table t has sent no rows (a)"), "{reason}");
        // A server that is away is told whatever comes out.
        let away = SplitSnapshot { trouble: Some("the brokers do not answer".into()), ..splits[0].clone() };
        let reason = silence.observe(Some(&stats(8, &[away])), None, at(43)).unwrap();
        assert!(
            reason.contains("'a' of source 0: table t") && reason.contains("the brokers do not answer"),
            "{reason}"
        );
        let splits = [split("a", 22, Some(5000)), split("b", 0, None)];
        // What waits for a worker or a sink is not the source's fault.
        let waits = StatsSnapshot { queued: 1, ..stats(8, &splits) };
        assert_eq!(silence.observe(Some(&waits), None, at(54)), None);
        let (rows, busy, writing) = (7, Duration::ZERO, Duration::from_secs(12));
        let sinks = vec![SinkSnapshot {
            name: "sink 0: out".into(),
            rows,
            busy,
            writing,
            committing: Duration::ZERO,
            sent: SentSnapshot::default(),
        }];
        let reason = silence.observe(Some(&StatsSnapshot { sinks, ..waits }), None, at(55)).unwrap();
        assert!(reason.contains("sink 0: out has been busy with one write for as long"), "{reason}");
        // A commit that does not end is told, too: rows come out, but nobody sees them.
        let (writing, committing) = (Duration::ZERO, Duration::from_secs(10));
        let sinks = vec![SinkSnapshot {
            name: "sink 0: out".into(),
            rows,
            busy,
            writing,
            committing,
            sent: SentSnapshot::default(),
        }];
        let reason = silence.observe(Some(&StatsSnapshot { sinks, ..stats(9, &splits) }), None, at(56)).unwrap();
        assert!(reason.contains("not been committed for 10 s") && reason.contains("sink 0: out"), "{reason}");
    }
    #[test]
    fn other_nodes_are_taken_into_account() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let of_node = |node: usize, split: SplitSnapshot| SplitSnapshot { node, ..split };
        let told = |node: usize, age: u64| NodeSnapshot {
            node,
            age: Some(Duration::from_secs(age)),
            ..NodeSnapshot::default()
        };
        let on = |nodes: &[NodeSnapshot], splits: &[SplitSnapshot]| StatsSnapshot {
            nodes: nodes.to_vec(),
            ..stats(0, splits)
        };
        let mut silence = Silence::new(start);
        // This node reads nothing, and nobody knows what the other does.
        let untold = NodeSnapshot { node: 1, ..NodeSnapshot::default() };
        let reason = silence.observe(Some(&on(&[told(0, 0), untold], &[])), None, at(10)).unwrap();
        assert!(reason.contains("node 1 has told nothing"), "{reason}");
        // Rows come to the other: they are not missed, and neither is the source.
        for second in 11..30 {
            let splits = [of_node(1, split("a", second, Some(5000)))];
            let stats = on(&[told(0, 0), told(1, 1)], &splits);
            assert_eq!(silence.observe(Some(&stats), None, at(second)), None, "{second}");
        }
        // Of two splits of one name the silent one is named with its node.
        for second in 30..41 {
            let splits = [of_node(0, split("a", second, Some(5000))), of_node(1, split("a", 29, Some(4000)))];
            let reason = silence.observe(Some(&on(&[told(0, 0), told(1, 1)], &splits)), None, at(second));
            assert!(reason.is_none_or(|reason| reason.contains("wait for 'a' on node 1") && second >= 39));
        }
        // Rows of splits that are not listed are rows.
        let listed = [of_node(0, split("a", 40, Some(5000))), of_node(1, split("a", 29, Some(4000)))];
        for second in 41..60 {
            let mut stats = on(&[told(0, 0), told(1, 1)], &listed);
            (stats.sources[0].rows, stats.sources[0].split_count) = (second, 900);
            let reason = silence.observe(Some(&stats), None, at(second));
            assert!(reason.is_none_or(|reason| reason.contains("wait for 'a' on node 1")), "{second}");
        }
        let stale = on(&[told(0, 0), told(1, 12)], &listed);
        assert!(silence.observe(Some(&stale), None, at(61)).unwrap().contains("node 1 has told nothing"));
    }
}
