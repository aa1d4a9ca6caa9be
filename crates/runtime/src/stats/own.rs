//! What this node has counted, at one moment.

use super::nodes::{NodeReport, shown};
use super::*;
use millstream_storage::Damaged;

/// Most splits that a report lists, over all sources.
const MOST_LISTED: usize = 500;

impl QueryStats {
    /// The numbers of now without what takes long to put together: splits, programs, code and events.
    pub fn counters(&self) -> StatsSnapshot {
        let own = self.own(0);
        let workers = self.workers(own.stats.elapsed);
        StatsSnapshot { workers, ..self.reports.sum(own, self.ended.get().is_some()) }
    }

    /// Whether all sources have been opened, on this node or, as far as it has been told, on others.
    pub fn has_begun(&self) -> bool {
        let is_open = |source: &SourceStats| source.splits.get().is_some_and(|splits| !splits.is_empty());
        self.sources.iter().all(is_open) || self.counters().sources.iter().all(|source| source.split_count > 0)
    }

    fn workers(&self, elapsed: Duration) -> Vec<WorkerSnapshot> {
        self.workers.get().iter().flat_map(|w| w.iter()).map(|w| w.snapshot(elapsed)).collect()
    }

    /// The numbers of now: on the first of several nodes those of all, as far as they have been told. What cannot be added up is of this node:
    /// programs, events, workers, what the hardware has counted.
    pub fn snapshot(&self) -> StatsSnapshot {
        let cycles_per_nano = self.clock.per_nano();
        let own = self.own(usize::MAX);
        let elapsed = own.stats.elapsed;
        StatsSnapshot {
            compilations: self.compilations.lock().clone(),
            events: self.events.all(),
            programs: self.programs.snapshot(cycles_per_nano),
            cycles_per_nano,
            hardware: self.hardware.per_row(),
            workers: self.workers(elapsed),
            ..self.reports.sum(own, self.ended.get().is_some())
        }
    }

    /// What another node than the first tells that one of itself; its length is bounded by the plan.
    pub(crate) fn report(&self, is_last: bool) -> NodeReport {
        let listed = (MOST_LISTED / self.sources.len().max(1)).max(1);
        self.own(listed).told(is_last)
    }

    /// Notes what another node has told.
    ///
    /// # Errors
    /// When no node of this run tells that.
    pub(crate) fn note_report(&self, node: usize, report: NodeReport) -> Result<(), Damaged> {
        match self.fits(&report) {
            true => self.reports.note(node, report),
            false => Err(Damaged("statistics of another node are of another plan".into())),
        }
    }

    /// Whether a report is of the plan of this run.
    fn fits(&self, report: &NodeReport) -> bool {
        let StatsSnapshot { sources, pipelines, aggregations, operators, sinks, .. } = &report.stats;
        let (of_sources, of_pipelines) = (self.sources.len(), self.pipelines.len());
        let is_one_each = [sources.len(), report.sources.len()] == [of_sources; 2]
            && [pipelines.len(), report.pipelines.len()] == [of_pipelines; 2]
            && aggregations.len() == self.aggregations.len()
            && operators.len() == self.operators.len()
            && sinks.len() == self.sinks.len();
        let are = |of: &[TriggerSnapshot], is_so: fn(&Begun) -> bool| of.iter().all(|trigger| is_so(&trigger.begun));
        is_one_each
            && are(aggregations, |begun| matches!(begun, Begun::Windows(_)))
            && are(operators, |begun| matches!(begun, Begun::Jobs(_)))
    }

    /// Notes how far this node has come, for its rate.
    pub(crate) fn note_pace(&self) {
        let rows = self.sources.iter().flat_map(|source| source.splits.get().into_iter().flatten());
        self.reports.note_pace(0, self.elapsed(), rows.map(|split| split.rows.load(Relaxed)).sum());
    }

    /// What can be added up, with up to so many splits of each source.
    fn own(&self, listed: usize) -> NodeReport {
        let elapsed = self.ended.get().copied().unwrap_or_else(|| self.clock.started.elapsed());
        let is_over = self.ended.get().is_some();
        let sources: Vec<SourceSnapshot> =
            self.sources.iter().map(|s| s.snapshot((is_over, elapsed), listed)).collect();
        let mut pipelines: Vec<PipelineSnapshot> =
            self.pipelines.iter().enumerate().map(|(i, p)| p.snapshot(i, is_over)).collect();
        let asked = self.asked.lock();
        for stream in asked.iter().flat_map(|asked| &asked.streams) {
            for (channel, reached) in stream.channels.iter().enumerate() {
                pipelines[reached.pipeline].epochs_in_flight += stream.epochs_in_flight(channel);
            }
        }
        // Stations are numbered in this order, but for lookup tables in front of the sinks.
        let sent = |station: usize| self.sent.get(station).map_or_else(SentSnapshot::default, SentStats::snapshot);
        let triggers = |of: &[Arc<TriggerStats>], first: usize| {
            of.iter().zip(first..).map(|(t, station)| t.snapshot(is_over, sent(station))).collect()
        };
        let first_sink = self.sent.len().saturating_sub(self.sinks.len());
        let stats = StatsSnapshot {
            version: STATS_VERSION,
            checkpoints: self.checkpoints.snapshot(),
            spill: SpillSnapshot::of(&self.spill),
            beats: self.beats.snapshot(),
            elapsed,
            rows_in: sources.iter().map(|s| s.rows).sum(),
            bytes_in: sources.iter().map(|s| s.bytes).sum(),
            buffers: pipelines.iter().map(|p| p.buffers).sum(),
            queued: asked.as_ref().map_or(0, |asked| asked.scheduler.queues.queued() as u64),
            workers_idle: asked.as_ref().map_or(0, |asked| asked.scheduler.queues.idle() as u64),
            rows_out: self.rows_out.load(Relaxed),
            late_rows: self.late_rows.load(Relaxed),
            skipped_rows: self.skipped_rows.load(Relaxed),
            error_rows: self.error_rows.load(Relaxed),
            windows_fired: self.windows_fired.load(Relaxed),
            trigger_delay: Histogram::times_of(self.aggregations.iter().chain(&self.operators).map(|t| &t.delay)),
            first_error: self.first_error.lock().as_ref().map(ToString::to_string),
            samples: self.samples.all(),
            memory: self.memory.get().map_or_else(MemorySnapshot::default, |budget| budget.snapshot()),
            sources,
            pipelines,
            aggregations: triggers(&self.aggregations, 0),
            operators: triggers(&self.operators, self.aggregations.len()),
            sinks: self.sinks.iter().zip(first_sink..).map(|(s, station)| s.snapshot(sent(station))).collect(),
            ..StatsSnapshot::default()
        };
        let sources = self.sources.iter().map(SourceStats::watermark).collect();
        let pipelines = self.pipelines.iter().map(PipelineStats::watermark).collect();
        let lanes = asked.as_ref().and_then(|asked| asked.lanes.as_ref());
        NodeReport::new(stats, sources, pipelines, lanes.map(|lanes| lanes.now()).unwrap_or_default())
    }
}

/// What is left between two counters; nothing after the end, when what was left has been dropped.
fn left(before: u64, after: u64, is_over: bool) -> u64 {
    if is_over { 0 } else { before.saturating_sub(after) }
}

impl SourceStats {
    fn snapshot(&self, (is_over, elapsed): (bool, Duration), listed: usize) -> SourceSnapshot {
        let all = || self.splits.get().into_iter().flatten();
        let sum = |of: fn(&SplitStats) -> &AtomicU64| all().map(|split| of(split).load(Relaxed)).sum::<u64>();
        let mut shown: Vec<&SplitStats> = all().collect();
        let split_count = shown.len() as u64;
        if listed == 0 {
            shown.clear();
        } else if shown.len() > listed {
            // Those that may be waited for: open ones, the lowest watermarks first.
            shown.sort_by_cached_key(|s| (s.has_ended.load(Relaxed), s.watermark.0.load(Relaxed)));
            shown.truncate(listed);
        }
        // What is subtracted is read first: it cannot be more than what is read after it.
        let begun = sum(|split| &split.begun);
        let rows = sum(|split| &split.rows);
        let without_values = self.nullable.iter().filter(|column| rows > 0 && !column.is_filled.load(Relaxed));
        let lags = all().filter_map(SplitStats::lag);
        SourceSnapshot {
            name: self.name.clone(),
            empty_columns: without_values.map(|column| column.name.clone()).collect(),
            rows,
            bytes: sum(|split| &split.bytes),
            chunks: sum(|split| &split.chunks),
            queued: left(sum(|split| &split.read), begun, is_over),
            lag: lags.reduce(u64::saturating_add),
            decode_time: self.decode_time.times(),
            watermark_ms: None,
            split_count,
            waits: all().fold(WaitSnapshot::default(), |sum, split| sum.plus(&split.waits.snapshot())),
            idle_splits: all().filter(|split| split.is_idle.load(Relaxed)).count() as u64,
            splits: shown.into_iter().map(|split| split.snapshot(is_over, elapsed)).collect(),
        }
    }

    /// The lowest watermark of splits that are not idle.
    fn watermark(&self) -> i64 {
        let active = self.splits.get().map(|splits| splits.iter().filter(|split| !split.is_idle.load(Relaxed)));
        Watermark::lowest(active.map(|active| active.map(|split| &split.watermark)))
    }
}

impl SplitStats {
    fn lag(&self) -> Option<u64> {
        self.lag.load(Relaxed).checked_sub(1)
    }

    fn snapshot(&self, is_over: bool, elapsed: Duration) -> SplitSnapshot {
        // What is subtracted is read first: it cannot be more than what is read after it.
        let begun = self.begun.load(Relaxed);
        SplitSnapshot {
            name: self.name.clone(),
            rows: self.rows.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            chunks: self.chunks.load(Relaxed),
            queued: left(self.read.load(Relaxed), begun, is_over),
            watermark_ms: shown(self.watermark.0.load(Relaxed)),
            is_idle: self.is_idle.load(Relaxed),
            has_ended: self.has_ended.load(Relaxed),
            lag: self.lag(),
            node: 0,
            trouble: self.trouble.lock().clone(),
            waits: self.waits.snapshot(),
            silent: elapsed.saturating_sub(Duration::from_millis(self.last_chunk_ms.load(Relaxed))),
        }
    }
}

impl PipelineStats {
    fn snapshot(&self, index: usize, is_over: bool) -> PipelineSnapshot {
        let buffers = self.buffers.load(Relaxed);
        PipelineSnapshot {
            name: format!("pipeline {index}"),
            rows_in: self.rows_in.load(Relaxed),
            rows_out: self.rows_out.load(Relaxed),
            buffers,
            queued: left(self.scheduled.load(Relaxed), buffers, is_over),
            queued_max: self.queued_max.load(Relaxed),
            epochs_in_flight: 0,
            watermark_ms: None,
            task_time: self.task_time.times(),
        }
    }

    /// The lowest watermark of its inputs.
    fn watermark(&self) -> i64 {
        Watermark::lowest(self.watermarks.get().map(|watermarks| watermarks.iter()))
    }
}

impl TriggerStats {
    fn snapshot(&self, is_over: bool, sent: SentSnapshot) -> TriggerSnapshot {
        let delay = self.delay.times();
        let begun = self.begun.load(Relaxed);
        TriggerSnapshot {
            name: self.name.clone(),
            begun: (self.unit)(begun),
            in_flight: left(begun, delay.count, is_over),
            rows_out: self.rows_out.load(Relaxed),
            busy: Duration::from_nanos(self.busy_nanos.load(Relaxed)),
            delay,
            state_bytes: self.holds.lock().iter().map(|part| part.held()).sum(),
            sent,
        }
    }
}

impl WorkerStats {
    fn snapshot(&self, elapsed: Duration) -> WorkerSnapshot {
        let busy = Duration::from_nanos(self.busy_nanos.load(Relaxed));
        WorkerSnapshot { tasks: self.tasks.load(Relaxed), busy, idle: elapsed.saturating_sub(busy) }
    }
}

impl SinkStats {
    fn snapshot(&self, sent: SentSnapshot) -> SinkSnapshot {
        let since = |begun: &Mutex<Option<Instant>>| begun.lock().map_or(Duration::ZERO, |since| since.elapsed());
        SinkSnapshot {
            name: self.name.clone(),
            rows: self.rows.load(Relaxed),
            busy: Duration::from_nanos(self.busy_nanos.load(Relaxed)),
            writing: since(&self.writing),
            committing: since(&self.committing),
            sent,
        }
    }
}
