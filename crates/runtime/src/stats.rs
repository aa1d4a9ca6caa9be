//! Counters of a running query, for the status line, the summary and tests.
//!
//! All counters are relaxed atomics, each written by any worker at most a few times a buffer; a snapshot is not a
//! consistent cut, but every number in it only grows (watermarks too).

use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counters of a run; shared by the engine's callers and the workers.
#[derive(Debug)]
pub struct QueryStats {
    started: Instant,
    pub(crate) rows_out: AtomicU64,
    pub(crate) late_rows: AtomicU64,
    pub(crate) skipped_rows: AtomicU64,
    pub(crate) error_rows: AtomicU64,
    pub(crate) windows_fired: AtomicU64,
    first_error: Mutex<Option<Diagnostic>>,
    pub(crate) sources: Vec<SourceStats>,
    pub(crate) pipelines: Vec<PipelineStats>,
}

/// Counters of a source.
#[derive(Debug)]
pub(crate) struct SourceStats {
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) chunks: AtomicU64,
    pub(crate) decode_nanos: AtomicU64,
    pub(crate) watermark_ms: AtomicI64,
}

/// Counters of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct PipelineStats {
    pub(crate) rows_in: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    pub(crate) buffers: AtomicU64,
    pub(crate) nanos: AtomicU64,
}

impl QueryStats {
    /// Zeroes for a plan of so many sources and pipelines.
    pub fn new(sources: usize, pipelines: usize) -> QueryStats {
        let source = || SourceStats {
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            decode_nanos: AtomicU64::new(0),
            watermark_ms: AtomicI64::new(i64::MIN),
        };
        QueryStats {
            started: Instant::now(),
            rows_out: AtomicU64::new(0),
            late_rows: AtomicU64::new(0),
            skipped_rows: AtomicU64::new(0),
            error_rows: AtomicU64::new(0),
            windows_fired: AtomicU64::new(0),
            first_error: Mutex::new(None),
            sources: (0..sources).map(|_| source()).collect(),
            pipelines: (0..pipelines).map(|_| PipelineStats::default()).collect(),
        }
    }

    /// Counts rows that were dropped for an error and keeps the first error as a sample.
    pub(crate) fn skip_errors(&self, rows: u64, sample: Option<&Diagnostic>) {
        self.error_rows.fetch_add(rows, Relaxed);
        if let Some(sample) = sample {
            self.first_error.lock().get_or_insert_with(|| sample.clone());
        }
    }

    /// The numbers of now.
    pub fn snapshot(&self) -> StatsSnapshot {
        let sources: Vec<SourceSnapshot> = self
            .sources
            .iter()
            .map(|s| SourceSnapshot {
                rows: s.rows.load(Relaxed),
                bytes: s.bytes.load(Relaxed),
                chunks: s.chunks.load(Relaxed),
                decode_nanos: s.decode_nanos.load(Relaxed),
                watermark_ms: Some(s.watermark_ms.load(Relaxed)).filter(|&w| w != i64::MIN && w != i64::MAX),
            })
            .collect();
        let pipelines: Vec<PipelineSnapshot> = self
            .pipelines
            .iter()
            .map(|p| PipelineSnapshot {
                rows_in: p.rows_in.load(Relaxed),
                rows_out: p.rows_out.load(Relaxed),
                buffers: p.buffers.load(Relaxed),
                nanos: p.nanos.load(Relaxed),
            })
            .collect();
        StatsSnapshot {
            elapsed: self.started.elapsed(),
            rows_in: sources.iter().map(|s| s.rows).sum(),
            bytes_in: sources.iter().map(|s| s.bytes).sum(),
            buffers: pipelines.iter().map(|p| p.buffers).sum(),
            rows_out: self.rows_out.load(Relaxed),
            late_rows: self.late_rows.load(Relaxed),
            skipped_rows: self.skipped_rows.load(Relaxed),
            error_rows: self.error_rows.load(Relaxed),
            windows_fired: self.windows_fired.load(Relaxed),
            watermark_ms: sources.iter().filter_map(|s| s.watermark_ms).min(),
            first_error: self.first_error.lock().clone(),
            sources,
            pipelines,
        }
    }
}

/// The counters at one moment.
#[derive(Debug, Clone)]
pub struct StatsSnapshot {
    /// Since the statistics were made.
    pub elapsed: Duration,
    /// Rows decoded from all sources.
    pub rows_in: u64,
    /// Bytes read from all sources, after decompression.
    pub bytes_in: u64,
    /// Rows written to all sinks.
    pub rows_out: u64,
    /// Rows dropped because their window was complete.
    pub late_rows: u64,
    /// Malformed records that the format's options skipped.
    pub skipped_rows: u64,
    /// Rows dropped by [`crate::ErrorPolicy::Skip`].
    pub error_rows: u64,
    /// Windows written (a window without rows is none).
    pub windows_fired: u64,
    /// Buffers processed by all pipelines.
    pub buffers: u64,
    /// The lowest source watermark in milliseconds; `None` before the first and after the end of input.
    pub watermark_ms: Option<i64>,
    /// The error of one of the rows in `error_rows`.
    pub first_error: Option<Diagnostic>,
    /// One for each source of the plan.
    pub sources: Vec<SourceSnapshot>,
    /// One for each pipeline of the plan.
    pub pipelines: Vec<PipelineSnapshot>,
}

/// Counters of a source at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceSnapshot {
    /// Rows decoded.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Chunks decoded.
    pub chunks: u64,
    /// Time that workers spent decoding.
    pub decode_nanos: u64,
    /// The source watermark in milliseconds: the minimum over its active splits.
    pub watermark_ms: Option<i64>,
}

/// Counters of a pipeline at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineSnapshot {
    /// Rows that came in.
    pub rows_in: u64,
    /// Rows that reached a sink; 0 for pipelines that end in an aggregation.
    pub rows_out: u64,
    /// Buffers processed.
    pub buffers: u64,
    /// Time that workers spent processing.
    pub nanos: u64,
}
