//! Why nothing comes out of a query: what is told when no row has come out for ten seconds.

use crate::units::timestamp;
use millstream::{SplitSnapshot, StatsSnapshot};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long nothing comes out before the reason is told, and how long a split sends nothing before it is one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows a query that runs.
pub(crate) struct Silence {
    /// When a row has come out last, and how many have until then.
    out: (Instant, u64),
    /// By source and split, when rows have come last, and how many have until then.
    splits: BTreeMap<(String, String), (Instant, u64)>,
    told: Option<String>,
}

impl Silence {
    pub(crate) fn new(now: Instant) -> Silence {
        Silence { out: (now, 0), splits: BTreeMap::new(), told: None }
    }

    /// The reason for a silence, when it is time to tell it and it is another than the last one. `stats` is `None` as long as sources
    /// and sinks are being opened.
    pub(crate) fn look(&mut self, stats: Option<&StatsSnapshot>, now: Instant) -> Option<String> {
        self.observe(stats, now).filter(|reason| self.told.replace(reason.clone()).as_ref() != Some(reason))
    }

    fn observe(&mut self, stats: Option<&StatsSnapshot>, now: Instant) -> Option<String> {
        let is_silent = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        let Some(stats) = stats else {
            let waits = "the query has not begun after 10 s: a source or a sink does not answer yet";
            return is_silent(self.out.0).then(|| waits.to_string());
        };
        if stats.rows_out != self.out.1 {
            self.out = (now, stats.rows_out);
            self.told = None;
        }
        for source in &stats.sources {
            for split in &source.splits {
                let last = self.splits.entry((source.name.clone(), split.name.clone())).or_insert((now, split.rows));
                if last.1 != split.rows {
                    *last = (now, split.rows);
                }
            }
        }
        if !is_silent(self.out.0) {
            return None;
        }
        if let Some(source) = stats.sources.iter().find(|source| source.splits.is_empty()) {
            return Some(format!("nothing has come out for 10 s: {} does not answer yet", source.name));
        }
        if let Some(sink) = stats.sinks.iter().find(|sink| sink.writing >= PATIENCE) {
            let seconds = sink.writing.as_secs();
            return Some(format!(
                "nothing has come out for 10 s: {} has been busy with one write for {seconds} s; does its reader or server still take rows?",
                sink.name
            ));
        }
        if stats.queued > 0 {
            return None;
        }
        let silent = |(source, split): &(&str, &SplitSnapshot)| {
            let last = self.splits.get(&(source.to_string(), split.name.clone()));
            !split.has_ended && !split.is_idle && last.is_some_and(|(since, _)| is_silent(*since))
        };
        let open: Vec<(&str, &SplitSnapshot)> = stats
            .sources
            .iter()
            .flat_map(|source| source.splits.iter().map(|split| (source.name.as_str(), split)))
            .filter(|(_, split)| !split.has_ended)
            .collect();
        if !open.is_empty() && open.iter().all(silent) {
            let (source, split) = open[0];
            let others = if open.len() > 1 { format!(" and {} others", open.len() - 1) } else { String::new() };
            return Some(format!("nothing has come out for 10 s: {source} has sent no rows ({}{others})", split.name));
        }
        // The one that holds the watermark back furthest.
        let (source, split) = open.into_iter().filter(silent).min_by_key(|(_, split)| split.watermark_ms)?;
        let at = split
            .watermark_ms
            .map_or_else(|| "no watermark yet".into(), |ms| format!("its watermark is {}", timestamp(ms)));
        // Rows wait for a watermark where there are windows, joins or the like.
        (!stats.aggregations.is_empty() || !stats.operators.is_empty()).then(|| {
            format!(
                "nothing has come out for 10 s: windows and joins wait for '{}' of {source}, which sends no rows ({at}); \
                 'scan.watermark.idle-timeout' = '10 s' in its WITH (…) has them continue without it",
                split.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{Begun, SinkSnapshot, SourceSnapshot, Times, TriggerSnapshot};

    fn split(name: &str, rows: u64, watermark_ms: Option<i64>) -> SplitSnapshot {
        let (bytes, chunks, queued) = (0, 0, 0);
        SplitSnapshot { name: name.into(), rows, bytes, chunks, queued, watermark_ms, ..SplitSnapshot::default() }
    }

    fn stats(rows_out: u64, splits: &[SplitSnapshot]) -> StatsSnapshot {
        let source = SourceSnapshot { name: "source 0: table t".into(), splits: splits.to_vec(), ..Default::default() };
        let (begun, delay) = (Begun::Windows(0), Times::default());
        let windows =
            TriggerSnapshot { name: "windows".into(), begun, in_flight: 0, rows_out: 0, busy: Duration::ZERO, delay };
        StatsSnapshot { rows_out, sources: vec![source], aggregations: vec![windows], ..Default::default() }
    }

    #[test]
    fn the_reason_is_told_after_ten_seconds() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut silence = Silence::new(start);
        assert_eq!(silence.observe(None, at(9)), None);
        assert!(silence.observe(None, at(10)).unwrap().contains("has not begun"));
        assert!(silence.observe(Some(&stats(0, &[])), at(11)).unwrap().contains("table t does not answer"));
        // One of two splits is silent: windows wait for it.
        for second in 12..22 {
            let splits = [split("a", second, Some(5000)), split("b", 0, None)];
            assert_eq!(silence.observe(Some(&stats(0, &splits)), at(second)), None);
        }
        let splits = [split("a", 22, Some(5000)), split("b", 0, None)];
        let reason = silence.observe(Some(&stats(0, &splits)), at(22)).unwrap();
        assert!(
            reason.contains("wait for 'b'") && reason.contains("no watermark yet") && reason.contains("idle-timeout"),
            "{reason}"
        );
        // Nobody waits for it where there are no windows, or when rows come out.
        assert_eq!(silence.observe(Some(&StatsSnapshot { aggregations: vec![], ..stats(0, &splits) }), at(22)), None);
        assert_eq!(silence.observe(Some(&stats(7, &splits)), at(23)), None);
        let reason = silence.observe(Some(&stats(7, &splits)), at(33)).unwrap();
        assert!(reason.contains("table t has sent no rows (a and 1 others)"), "{reason}");
        // What waits for a worker or a sink is not the source's fault.
        let waits = StatsSnapshot { queued: 1, ..stats(7, &splits) };
        assert_eq!(silence.observe(Some(&waits), at(34)), None);
        let (rows, busy, writing) = (7, Duration::ZERO, Duration::from_secs(12));
        let sinks = vec![SinkSnapshot { name: "sink 0: out".into(), rows, busy, writing }];
        let reason = silence.observe(Some(&StatsSnapshot { sinks, ..waits }), at(35)).unwrap();
        assert!(reason.contains("sink 0: out has been busy with one write for 12 s"), "{reason}");
    }
}
