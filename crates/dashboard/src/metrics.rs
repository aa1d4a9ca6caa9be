//! Metrics in the text format of Prometheus: one table says which there are.
//!
//! Labels are names of jobs, of sources and sinks of the plan, and of splits; those only of sources that have few, so that a directory of a
//! million files makes no million series.

use crate::jobs::JobSnapshot;
use millstream::{NodeSnapshot, SinkSnapshot, SourceSnapshot, SplitSnapshot, StatsSnapshot, Times, TriggerSnapshot};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Sources with more splits have no series for each of them.
const MOST_SPLITS: u64 = 100;

/// What kind of numbers a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Summary,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        }
    }
}

/// A metric without its prefix.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Besides `job`.
    labels: &'static str,
    pub(crate) help: &'static str,
    samples: fn(&JobSnapshot, &mut Samples<'_, '_>),
}

impl Metric {
    /// Gives the samples of a job.
    pub(crate) fn samples(&self, job: &JobSnapshot, put: &mut PutSample<'_>) {
        (self.samples)(job, &mut Samples { put });
    }
}

/// Takes a sample: which part of a summary (`_sum`, `_count`, or its quantiles), labels besides `job`, value.
pub(crate) type PutSample<'a> = dyn FnMut(&str, &[(&str, &str)], f64) + 'a;

/// Where the samples of a metric go.
struct Samples<'a, 'b> {
    put: &'a mut PutSample<'b>,
}

impl Samples<'_, '_> {
    fn put(&mut self, value: f64) {
        self.with(&[], value);
    }

    fn with(&mut self, labels: &[(&str, &str)], value: f64) {
        (self.put)("", labels, value);
    }

    fn times(&mut self, times: &Times) {
        for (quantile, value) in [("0.5", times.p50), ("0.99", times.p99)] {
            self.with(&[("quantile", quantile)], value.as_secs_f64());
        }
        (self.put)("_sum", &[], times.sum.as_secs_f64());
        (self.put)("_count", &[], times.count as f64);
    }
}

pub(crate) const PREFIX: &str = "millstream_";

/// A metric of a number that jobs have once they have begun.
macro_rules! of_stats {
    ($name:literal, $kind:ident, $help:literal, |$stats:ident| $value:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: "",
            help: $help,
            samples: |job, out| {
                if let Some($stats) = &job.stats {
                    out.put($value as f64);
                }
            },
        }
    };
}

/// A metric that jobs have once they have begun.
macro_rules! metric {
    ($name:literal, $kind:ident, $labels:literal, $help:literal, |$stats:ident, $out:ident| $body:expr) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            labels: $labels,
            help: $help,
            samples: |job, $out| {
                if let Some($stats) = &job.stats {
                    $body
                }
            },
        }
    };
}

pub(crate) const METRICS: &[Metric] = &[
    Metric {
        name: "job_ready",
        kind: Kind::Gauge,
        labels: "",
        help: "1 once all sources and sinks of the job have answered, else 0",
        samples: |job, out| out.put(if job.waits_for().is_none() { 1.0 } else { 0.0 }),
    },
    Metric {
        name: "job_restarts_total",
        kind: Kind::Counter,
        labels: "",
        help: "How often the job was started again after a failure (restart-strategy)",
        samples: |job, out| out.put(job.view.restarts as f64),
    },
    of_stats!("job_running_seconds", Gauge, "Time since the job has begun, or was started again", |s| s
        .elapsed
        .as_secs_f64()),
    of_stats!("rows_in_total", Counter, "Rows decoded from all sources", |s| s.rows_in),
    of_stats!("bytes_in_total", Counter, "Bytes read from all sources, after decompression", |s| s.bytes_in),
    of_stats!("rows_out_total", Counter, "Rows written to all sinks", |s| s.rows_out),
    of_stats!("records_late_total", Counter, "Rows that came too late", |s| s.late_rows),
    of_stats!("records_malformed_total", Counter, "Malformed records that were skipped", |s| s.skipped_rows),
    of_stats!("records_failed_total", Counter, "Rows that were skipped because an expression failed", |s| s.error_rows),
    of_stats!("windows_total", Counter, "Windows written", |s| s.windows_fired),
    of_stats!("tasks_queued", Gauge, "Tasks that wait for a worker", |s| s.queued),
    of_stats!("workers", Gauge, "Worker threads", |s| s.workers.len()),
    of_stats!("workers_busy_seconds_total", Counter, "Time that workers have spent on tasks", |s| {
        s.workers.iter().map(|worker| worker.busy.as_secs_f64()).sum::<f64>()
    }),
    metric!(
        "watermark_timestamp_seconds",
        Gauge,
        "",
        "The lowest source watermark, in seconds since 1970",
        |s, out| {
            if let Some(ms) = s.watermark_ms {
                out.put(ms as f64 / 1e3);
            }
        }
    ),
    metric!(
        "watermark_delay_seconds",
        Gauge,
        "",
        "How far the lowest source watermark is behind the clock",
        |s, out| {
            if let Some(ms) = s.watermark_ms {
                out.put(behind(ms));
            }
        }
    ),
    metric!(
        "trigger_delay_seconds",
        Summary,
        "quantile",
        "From the watermark that completes a window until its rows are out",
        |s, out| out.times(&s.trigger_delay)
    ),
    of_stats!("checkpoints_total", Counter, "Checkpoints that are complete", |s| s.checkpoints.complete),
    of_stats!("checkpoints_begun_total", Counter, "Checkpoints that have begun", |s| s.checkpoints.begun),
    metric!("checkpoint_age_seconds", Gauge, "", "Time since the last checkpoint was complete", |s, out| {
        if let Some(age) = s.checkpoints.age {
            out.put(age.as_secs_f64());
        }
    }),
    metric!(
        "checkpoint_duration_seconds",
        Summary,
        "quantile",
        "From the cut of a checkpoint to the commit of its sinks",
        |s, out| out.times(&s.checkpoints.duration)
    ),
    of_stats!("checkpoint_written_bytes_total", Counter, "Bytes that checkpoints have written", |s| s
        .checkpoints
        .bytes_written),
    of_stats!("checkpoint_state_bytes", Gauge, "Bytes that the last checkpoint consists of", |s| s
        .checkpoints
        .state_bytes),
    of_stats!("memory_limit_bytes", Gauge, "The job's memory budget", |s| s.memory.limit),
    of_stats!("memory_used_bytes", Gauge, "What the job holds of it", |s| s.memory.used),
    of_stats!("memory_peak_bytes", Gauge, "The most that it has held", |s| s.memory.peak),
    metric!("memory_class_bytes", Gauge, "class", "What each kind of data holds", |s, out| {
        s.memory.by_class.iter().for_each(|(class, bytes)| out.with(&[("class", class.name())], *bytes as f64));
    }),
    of_stats!("spill_written_bytes_total", Counter, "Bytes of state that were spilled", |s| s.spill.bytes_written),
    of_stats!("spill_read_bytes_total", Counter, "Bytes of spilled state that were read back", |s| s.spill.bytes_read),
    of_stats!("spill_held_bytes", Gauge, "Bytes of the spilled files that are there", |s| s.spill.bytes_held),
    metric!("source_rows_total", Counter, "source", "Rows decoded", |s, out| {
        each_source(s, out, |source| Some(source.rows as f64));
    }),
    metric!("source_bytes_total", Counter, "source", "Bytes read", |s, out| {
        each_source(s, out, |source| Some(source.bytes as f64));
    }),
    metric!("source_splits", Gauge, "source", "Splits: files, partitions, connections", |s, out| {
        each_source(s, out, |source| Some(source.split_count as f64));
    }),
    metric!(
        "source_splits_idle",
        Gauge,
        "source",
        "Splits that were silent for so long that they do not hold the watermark back",
        |s, out| {
            each_source(s, out, |source| Some(source.idle_splits as f64));
        }
    ),
    metric!(
        "source_watermark_delay_seconds",
        Gauge,
        "source",
        "How far the source's watermark is behind the clock",
        |s, out| {
            each_source(s, out, |source| source.watermark_ms.map(behind));
        }
    ),
    metric!(
        "source_wait_seconds_total",
        Counter,
        "source, cause",
        "Backpressure: how long readers were kept from their next chunk, all splits together. in-flight: workers or sinks are busy; \
         memory: what is in flight takes too much; behind: state does, and the split is ahead of others",
        |s, out| {
            for source in &s.sources {
                let waits = &source.waits;
                for (cause, waited) in
                    [("in-flight", waits.in_flight), ("memory", waits.memory), ("behind", waits.behind)]
                {
                    out.with(&[("source", &source.name), ("cause", cause)], waited.as_secs_f64());
                }
            }
        }
    ),
    metric!(
        "source_lag_records",
        Gauge,
        "source",
        "Records that are there and have not been read, of sources that know it (Kafka)",
        |s, out| {
            each_source(s, out, |source| source.lag.map(|lag| lag as f64));
        }
    ),
    metric!(
        "split_rows_total",
        Counter,
        "source, split; node of several",
        "Rows decoded, of sources with at most 100 splits",
        |s, out| each_split(s, out, |split| Some(split.rows as f64))
    ),
    metric!(
        "split_silent_seconds",
        Gauge,
        "source, split; node of several",
        "Time since the split has sent its last row, or since the job has begun",
        |s, out| each_split(s, out, |split| (!split.has_ended).then_some(split.silent.as_secs_f64()))
    ),
    metric!(
        "split_watermark_delay_seconds",
        Gauge,
        "source, split; node of several",
        "How far the split's watermark is behind the clock",
        |s, out| each_split(s, out, |split| split.watermark_ms.map(behind))
    ),
    metric!(
        "split_lag_records",
        Gauge,
        "source, split; node of several",
        "Records that are there and have not been read",
        |s, out| each_split(s, out, |split| split.lag.map(|lag| lag as f64))
    ),
    metric!(
        "split_unreachable",
        Gauge,
        "source, split; node of several",
        "1 while the split's server does not answer, else 0; of sources that wait for it to come back (Kafka)",
        |s, out| {
            let unreachable = |split: &SplitSnapshot| if split.trouble.is_some() { 1.0 } else { 0.0 };
            each_split(s, out, |split| (!split.has_ended).then(|| unreachable(split)));
        }
    ),
    metric!("node_rows_in_total", Counter, "node", "Rows that a node of a cluster has decoded", |s, out| {
        each_node(s, out, |node| Some(node.rows_in as f64));
    }),
    metric!("node_rows_out_total", Counter, "node", "Rows that a node has written to sinks", |s, out| {
        each_node(s, out, |node| Some(node.rows_out as f64));
    }),
    metric!(
        "node_replaced_total",
        Counter,
        "node",
        "How often another process has taken the place of a node while the run went on",
        |s, out| each_node(s, out, |node| Some(node.replaced as f64))
    ),
    metric!("node_sent_bytes_total", Counter, "node", "Bytes that a node has sent to others", |s, out| {
        each_node(s, out, |node| Some(node.sent_bytes as f64));
    }),
    metric!("node_state_bytes", Gauge, "node", "State of a node, in memory and in spilled files", |s, out| {
        each_node(s, out, |node| Some(node.state_bytes as f64));
    }),
    metric!(
        "node_watermark_delay_seconds",
        Gauge,
        "node",
        "How far the lowest watermark of a node's splits is behind the clock",
        |s, out| each_node(s, out, |node| node.watermark_ms.map(behind))
    ),
    metric!(
        "node_report_age_seconds",
        Gauge,
        "node",
        "Time since a node has told the first one what it has done; about a second at most",
        |s, out| each_node(s, out, |node| node.age.map(|age| age.as_secs_f64()))
    ),
    metric!("operator_state_bytes", Gauge, "operator", "State of an aggregation or operator in memory", |s, out| {
        each_operator(s, out, |part| part.state_bytes as f64);
    }),
    metric!(
        "operator_busy_seconds_total",
        Counter,
        "operator",
        "Time that workers have spent on it beside pipelines",
        |s, out| {
            each_operator(s, out, |part| part.busy.as_secs_f64());
        }
    ),
    metric!("operator_rows_out_total", Counter, "operator", "Rows that it has put out", |s, out| {
        each_operator(s, out, |part| part.rows_out as f64);
    }),
    metric!("pipeline_rows_in_total", Counter, "pipeline", "Rows that came into a pipeline", |s, out| {
        s.pipelines.iter().for_each(|pipeline| out.with(&[("pipeline", &pipeline.name)], pipeline.rows_in as f64));
    }),
    metric!("sink_rows_total", Counter, "sink", "Rows written", |s, out| {
        each_sink(s, out, |sink| sink.rows as f64);
    }),
    metric!("sink_busy_seconds_total", Counter, "sink", "Time spent on writing", |s, out| {
        each_sink(s, out, |sink| sink.busy.as_secs_f64());
    }),
    metric!(
        "sink_writing_seconds",
        Gauge,
        "sink",
        "How long the write that is under way has taken; 0 between writes",
        |s, out| {
            each_sink(s, out, |sink| sink.writing.as_secs_f64());
        }
    ),
    metric!(
        "sink_committing_seconds",
        Gauge,
        "sink",
        "How long the commit of a checkpoint's rows that is under way has taken; 0 between commits",
        |s, out| {
            each_sink(s, out, |sink| sink.committing.as_secs_f64());
        }
    ),
];

/// A sample for each split that has one. Splits of several nodes may have the same names.
fn each_split(stats: &StatsSnapshot, out: &mut Samples<'_, '_>, value: impl Fn(&SplitSnapshot) -> Option<f64>) {
    for source in stats.sources.iter().filter(|source| source.split_count <= MOST_SPLITS) {
        for split in &source.splits {
            let node = split.node.to_string();
            let mut labels = vec![("source", source.name.as_str()), ("split", split.name.as_str())];
            labels.extend((!stats.nodes.is_empty()).then_some(("node", node.as_str())));
            value(split).into_iter().for_each(|value| out.with(&labels, value));
        }
    }
}

/// A sample for each aggregation and operator.
fn each_operator(stats: &StatsSnapshot, out: &mut Samples<'_, '_>, value: impl Fn(&TriggerSnapshot) -> f64) {
    let parts = stats.aggregations.iter().chain(&stats.operators);
    parts.for_each(|part| out.with(&[("operator", &part.name)], value(part)));
}

/// A sample for each source that has one.
fn each_source(stats: &StatsSnapshot, out: &mut Samples<'_, '_>, value: impl Fn(&SourceSnapshot) -> Option<f64>) {
    for source in &stats.sources {
        value(source).into_iter().for_each(|value| out.with(&[("source", &source.name)], value));
    }
}

/// A sample for each sink.
fn each_sink(stats: &StatsSnapshot, out: &mut Samples<'_, '_>, value: impl Fn(&SinkSnapshot) -> f64) {
    stats.sinks.iter().for_each(|sink| out.with(&[("sink", &sink.name)], value(sink)));
}

/// A sample for each node that has told something.
fn each_node(stats: &StatsSnapshot, out: &mut Samples<'_, '_>, value: impl Fn(&NodeSnapshot) -> Option<f64>) {
    for node in stats.nodes.iter().filter(|node| node.age.is_some()) {
        value(node).into_iter().for_each(|value| out.with(&[("node", &node.node.to_string())], value));
    }
}

/// Seconds from a time in milliseconds to now.
fn behind(ms: i64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs_f64() - ms as f64 / 1e3
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All metrics of these jobs.
pub(crate) fn page(jobs: &[JobSnapshot]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let commit = option_env!("MILLSTREAM_BUILD_COMMIT").unwrap_or("");
    let _ = writeln!(out, "# HELP {PREFIX}build_info What runs; always 1\n# TYPE {PREFIX}build_info gauge");
    let _ = writeln!(
        out,
        "{PREFIX}build_info{{version=\"{}\",commit=\"{}\"}} 1",
        env!("CARGO_PKG_VERSION"),
        escaped(commit)
    );
    for metric in METRICS {
        let _ = writeln!(
            out,
            "# HELP {PREFIX}{} {}\n# TYPE {PREFIX}{} {}",
            metric.name,
            metric.help,
            metric.name,
            metric.kind.name()
        );
        for job in jobs {
            metric.samples(job, &mut |part, labels, value| {
                let _ = write!(out, "{PREFIX}{}{part}{{job=\"{}\"", metric.name, escaped(&job.view.name));
                for (name, value) in labels {
                    let _ = write!(out, ",{name}=\"{}\"", escaped(value));
                }
                let _ = writeln!(out, "}} {value}");
            });
        }
    }
    out
}

/// The inventory, for the documentation.
pub fn reference_markdown() -> String {
    let mut out = String::from("| metric | kind | labels besides `job` | meaning |\n| --- | --- | --- | --- |\n");
    let _ = writeln!(out, "| `{PREFIX}build_info` | gauge | version, commit (no job) | What runs; always 1 |");
    for metric in METRICS {
        let _ = writeln!(
            out,
            "| `{PREFIX}{}` | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            metric.labels,
            metric.help
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JobView;
    use millstream::SentSnapshot;
    use std::collections::HashSet;
    use std::time::Duration;

    fn split(name: &str) -> SplitSnapshot {
        SplitSnapshot { name: name.into(), lag: Some(5), watermark_ms: Some(1_000), ..SplitSnapshot::default() }
    }

    fn job(count: u64) -> JobSnapshot {
        let splits: Vec<SplitSnapshot> = (0..count).map(|i| split(&format!("topic-{i}"))).collect();
        let source = SourceSnapshot {
            name: "source 0: table \"t\"".into(),
            split_count: count,
            lag: splits.iter().filter_map(|split| split.lag).reduce(|a, b| a + b),
            splits,
            rows: 7,
            watermark_ms: Some(1_000),
            ..Default::default()
        };
        let (busy, writing, committing) = (Duration::ZERO, Duration::from_secs(2), Duration::from_secs(3));
        let sink =
            SinkSnapshot { name: "sink 0".into(), rows: 3, busy, writing, committing, sent: SentSnapshot::default() };
        let stats = StatsSnapshot {
            sources: vec![source],
            sinks: vec![sink],
            watermark_ms: Some(1_000),
            rows_in: 7,
            ..Default::default()
        };
        JobSnapshot { view: view("a\\b", 1), stats: Some(stats) }
    }

    fn view(name: &str, restarts: u64) -> JobView {
        JobView { restarts, ..JobView::running(name) }
    }

    /// What a reader of the text format demands: each sample behind the TYPE of its metric, no metric and no series twice.
    fn parsed(page: &str) -> Vec<(String, f64)> {
        let (mut types, mut current, mut series) = (HashSet::new(), String::new(), HashSet::new());
        let mut samples = Vec::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                current = rest.split(' ').next().unwrap().to_string();
                assert!(types.insert(current.clone()), "{line}");
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            let metric = name.split('{').next().unwrap();
            assert!(
                metric == current
                    || [format!("{current}_sum"), format!("{current}_count")].contains(&metric.to_string()),
                "{line}"
            );
            assert!(series.insert(name.to_string()), "{line}");
            samples.push((name.to_string(), value.parse().unwrap()));
        }
        samples
    }

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let samples = parsed(&page(&[job(2), JobSnapshot { view: view("waits", 0), stats: None }]));
        let value = |series: &str| samples.iter().find(|(name, _)| name == series).map(|(_, value)| *value);
        assert_eq!(value("millstream_rows_in_total{job=\"a\\\\b\"}"), Some(7.0));
        assert_eq!(value("millstream_job_ready{job=\"a\\\\b\"}"), Some(1.0));
        assert_eq!(value("millstream_job_ready{job=\"waits\"}"), Some(0.0));
        assert_eq!(value("millstream_job_restarts_total{job=\"a\\\\b\"}"), Some(1.0));
        assert_eq!(
            value("millstream_source_lag_records{job=\"a\\\\b\",source=\"source 0: table \\\"t\\\"\"}"),
            Some(10.0)
        );
        assert_eq!(value("millstream_sink_writing_seconds{job=\"a\\\\b\",sink=\"sink 0\"}"), Some(2.0));
        assert_eq!(value("millstream_sink_committing_seconds{job=\"a\\\\b\",sink=\"sink 0\"}"), Some(3.0));
        assert!(value("millstream_watermark_delay_seconds{job=\"a\\\\b\"}").unwrap() > 1.7e9);
    }

    #[test]
    fn nodes_have_series_of_their_own() {
        let mut job = job(1);
        let stats = job.stats.as_mut().unwrap();
        // A bounded table is read by every node, under the same name.
        stats.sources[0].splits.push(SplitSnapshot { node: 1, ..split("topic-0") });
        let told = |node: usize, rows_in: u64| NodeSnapshot {
            node,
            rows_in,
            age: Some(Duration::ZERO),
            watermark_ms: (node == 0).then_some(1_000),
            ..NodeSnapshot::default()
        };
        stats.nodes = vec![told(0, 4), told(1, 3), NodeSnapshot { node: 2, ..NodeSnapshot::default() }];
        let samples = parsed(&page(&[job]));
        let value = |series: &str| samples.iter().find(|(name, _)| name == series).map(|(_, value)| *value);
        let rows = |node: usize| value(&format!("millstream_node_rows_in_total{{job=\"a\\\\b\",node=\"{node}\"}}"));
        assert_eq!([rows(0), rows(1), rows(2)], [Some(4.0), Some(3.0), None], "one has told nothing so far");
        let of = |metric: &str| samples.iter().filter(|(name, _)| name.contains(metric)).count();
        assert_eq!((of("node_watermark_delay"), of("split_lag_records"), of("node_state_bytes")), (1, 2, 2));
    }

    #[test]
    fn many_splits_are_not_many_series() {
        let count = |splits| parsed(&page(&[job(splits)])).iter().filter(|(name, _)| name.contains("split=")).count();
        assert_eq!(count(MOST_SPLITS), 5 * MOST_SPLITS as usize);
        assert_eq!(count(MOST_SPLITS + 1), 0);
    }
}
