//! What a run can be tuned with.

use crate::adaptive::decisions::buffer_rows::LEAST;
use crate::schedule::worker_set::WorkerSet;
use millstream_abi::Combination;
use millstream_codegen::program::FilterShape;
use millstream_functions::FunctionSettings;
use millstream_plan::beat::BeatClock;
use millstream_state::{MemoryShare, available_memory};
use millstream_storage::{Compression, JobPartitions, user_directory};
use millstream_types::MemorySize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What happens to a row that cannot be processed (division by zero, a failed cast, a NULL event time).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorPolicy {
    /// The query ends with the row's error.
    #[default]
    Fail,
    /// The row is dropped and counted ([`crate::StatsSnapshot::error_rows`]).
    Skip,
}

/// How workers share the tables of an aggregation (design section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MergeStrategy {
    /// As the numbers of keys, rows and workers suggest; may change during the run.
    #[default]
    Auto,
    /// A table for each worker, merged by the trigger (late merge).
    Local,
    /// One lock-free table for each NUMA node.
    Global,
    /// Rows are exchanged by key hash before they meet a table (upfront partitioning).
    Partition,
}

/// When something is done that rows do not depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum When {
    /// When it is expected to pay; may change during the run.
    #[default]
    Auto,
    /// Wherever it can be.
    Always,
    /// Not at all.
    Never,
}

/// What a query may adapt to its data while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adaptivity {
    /// Whether anything is observed and changed at all. Interpreters are replaced by machine code in any case.
    pub is_enabled: bool,
    /// The order of filters.
    pub filter_order: bool,
    /// How filters drop rows; `None`: that is chosen, too.
    pub filter_shape: Option<FilterShape>,
    /// Whether code may assume that columns without NULL so far have none. What code assumes is guarded, here and in the three that
    /// follow: when a trial shows that it pays, or whenever the rows seen so far allow it.
    pub not_null: When,
    /// The same of columns with one value.
    pub constants: When,
    /// The same of columns of strings that mostly have one of a few values.
    pub few_values: When,
    /// Whether rows are aggregated in the tables of workers, as the rows for each key suggest, or else appended where that is possible
    /// (where there are keys, in tables that are not shared) and aggregated when tables are merged.
    pub pre_aggregation: When,
    /// How overlapping windows are made of slices, where that is exact; `None`: that is chosen.
    pub combination: Option<Combination>,
    /// How many workers are at work; otherwise all are.
    pub active_workers: bool,
    /// Whether the cost of each filter is measured when the query has ended, for whoever wants to know.
    pub measures_operators: bool,
    /// Whether columns that are only needed behind the filters at the head of pipelines are decoded for the rows that these let
    /// through only, where a decoder can do that; otherwise all columns are decoded.
    pub decode_skipping: When,
    /// For tests: instead of all that, variants are switched at random, within buffers too, as this seed says, and so is
    /// what tables and windows do, unless it is set.
    pub chaos_seed: Option<u64>,
}

impl Adaptivity {
    /// Whether anything may be left out when chunks are decoded.
    pub fn skips_in_decoders(&self) -> bool {
        let is_asked = self.is_enabled || self.chaos_seed.is_some();
        self.decode_skipping == When::Always || (self.decode_skipping == When::Auto && is_asked)
    }
}

impl Default for Adaptivity {
    fn default() -> Adaptivity {
        Adaptivity {
            is_enabled: true,
            filter_order: true,
            filter_shape: None,
            not_null: When::Auto,
            constants: When::Auto,
            few_values: When::Auto,
            pre_aggregation: When::Auto,
            combination: None,
            active_workers: true,
            measures_operators: false,
            decode_skipping: When::Auto,
            chaos_seed: None,
        }
    }
}

/// Whether and where state is spilled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillConfig {
    /// When memory is short; for tests, whatever can be at once; or never: a query whose state does not fit ends.
    pub mode: When,
    /// Below which directory; it is made when something is spilled.
    pub directory: PathBuf,
    /// What all files of a query may take there: bytes, or a share of what is free when the first is written.
    pub budget: MemorySize,
    /// How it is compressed.
    pub compression: Compression,
    /// What the files may take of the system's page cache: bytes, or a share of the machine's memory. What is more is written
    /// and read past it.
    pub cached: MemorySize,
}

impl Default for SpillConfig {
    fn default() -> SpillConfig {
        let directory = user_directory().join("spill");
        SpillConfig {
            mode: When::Auto,
            directory,
            budget: MemorySize::Share(80),
            compression: Compression::None,
            cached: MemorySize::Share(10),
        }
    }
}

/// How long beats are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeatConfig {
    /// What ends them; what follows is of the clock of arrival.
    pub clock: BeatClock,
    /// Whether rows wait for others at all.
    pub waits: bool,
    /// If so, how long the first row of a beat waits for its end at most, unless that of the one before is on its way; `None`: not at all.
    pub latency: Option<Duration>,
    /// Rows of operators whose results change after which a beat ends; 0: however many.
    pub rows: u64,
    /// For tests: rows of a split behind which nothing comes before the beat has ended; 0: none are held back.
    pub rows_of_split: u64,
}

impl Default for BeatConfig {
    fn default() -> BeatConfig {
        BeatConfig {
            clock: BeatClock::Arrival,
            waits: true,
            latency: Some(Duration::from_millis(50)),
            rows: 0,
            rows_of_split: 0,
        }
    }
}

/// What a long text, or the values that an aggregate collects, are taken to have.
const BYTES_OF_A_ROW: u64 = 16 << 10;

/// How a query is run. Rows do not depend on any of it, except on `error_policy` and `settings`.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Worker threads; at least 1.
    pub workers: usize,
    /// What queries that run beside this one share with it: their workers perform as many tasks at a time as the set has places.
    pub worker_set: Option<Arc<WorkerSet>>,
    /// Most rows of a buffer; 0 adapts it to the load. At most [`RunConfig::MAX_BUFFER_ROWS`] either way.
    pub buffer_rows: usize,
    /// What a bad row does.
    pub error_policy: ErrorPolicy,
    /// Whether each worker is pinned to a core.
    pub pin: bool,
    /// Settings of SQL functions.
    pub settings: FunctionSettings,
    /// Most reader threads of a bounded source, each reading one split; the other splits wait for their turn. An
    /// unbounded source has a thread for every split, because its splits never end.
    pub readers: usize,
    /// Most chunks that have been read and not yet fully processed, over all splits; readers wait beyond it. 0 chooses
    /// by the number of workers.
    pub chunks_in_flight: usize,
    /// How workers share tables.
    pub merge: MergeStrategy,
    /// Whether tables may keep the entries of a dense range of integer keys in an array.
    pub dense_tables: bool,
    /// Into how many partitions the tables of aggregations are cut, a power of two; `None`: as those that the query resumes from, or 16.
    pub table_partitions: Option<u32>,
    /// The same of keyed operators; `None`: as those that the query resumes from, or 64, or more where memory is little.
    pub key_partitions: Option<u32>,
    /// What is adapted to the data.
    pub adaptivity: Adaptivity,
    /// What may be held in buffers, tables and other state: a bound, or a share of the memory of the machine or container.
    pub memory: MemorySize,
    /// What the budget is a part of, which changes while the query runs; `memory` is then what it is expected to be.
    pub memory_share: Option<Arc<MemoryShare>>,
    /// Whether and where state is spilled that there is no memory for.
    pub spill: SpillConfig,
    /// For tests: workers take tasks in an order drawn from this seed instead of by urgency.
    pub shuffle_seed: Option<u64>,
    /// For tests: how many NUMA nodes the workers are spread over; 0 is what the machine has.
    pub numa_nodes: usize,
    /// For tests: nodes in this process that run the query together; at least 1.
    pub nodes: usize,
    /// For tests: a new generation of tables begins each time this many buffers of sources have come; 0 is never.
    pub cut_every: u64,
    /// How long the beats of a query are whose results change.
    pub beats: BeatConfig,
    /// Longest time that written rows wait in a sink before they are flushed.
    pub flush_interval_ms: u64,
}

impl RunConfig {
    /// Upper bound of a buffer's rows. So many come of tables in memory only, whose rows cost nothing to hold.
    pub const MAX_BUFFER_ROWS: usize = 320 << 10;
    /// Rows that operators make at once, unless the configuration says otherwise.
    const MADE_ROWS: usize = 80 << 10;

    /// Rows that operators make at once, with the default applied.
    pub(crate) fn rows_per_buffer(&self) -> usize {
        match self.buffer_rows {
            0 => RunConfig::MADE_ROWS,
            rows => rows.min(RunConfig::MAX_BUFFER_ROWS),
        }
    }

    /// Bytes of the memory budget.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.of(available_memory())
    }

    /// Most rows of a buffer that adapts, and of a chunk that a source makes: fewer with a small budget, as each row of a task may
    /// come to take 16 KiB before anything of it can be spilled.
    pub fn most_adapted_rows(&self) -> usize {
        let rows = self.memory_bytes() / BYTES_OF_A_ROW;
        usize::try_from(rows).unwrap_or(usize::MAX).clamp(LEAST, RunConfig::MAX_BUFFER_ROWS)
    }

    /// The partitions of a job that has been cut into these so far, if others are asked for.
    pub fn other_partitions(&self, before: JobPartitions) -> Option<JobPartitions> {
        let JobPartitions { tables, keys } = before;
        let (tables, keys) = (self.table_partitions.unwrap_or(tables), self.key_partitions.unwrap_or(keys));
        Some(JobPartitions { tables, keys }).filter(|asked| *asked != before)
    }

    /// Has state be cut into these partitions, whatever suits it.
    pub fn set_partitions(&mut self, partitions: JobPartitions) {
        (self.table_partitions, self.key_partitions) = (Some(partitions.tables), Some(partitions.keys));
    }

    /// Bound of the chunks in flight, with the default applied.
    pub(crate) fn chunk_permits(&self) -> usize {
        match self.chunks_in_flight {
            0 => (self.workers * 4).max(16),
            chunks => chunks,
        }
    }
}

impl Default for RunConfig {
    fn default() -> RunConfig {
        RunConfig {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            buffer_rows: 0,
            worker_set: None,
            error_policy: ErrorPolicy::Fail,
            pin: false,
            settings: FunctionSettings::default(),
            readers: 8,
            chunks_in_flight: 0,
            merge: MergeStrategy::Auto,
            dense_tables: true,
            table_partitions: None,
            key_partitions: None,
            adaptivity: Adaptivity::default(),
            memory: MemorySize::Auto,
            memory_share: None,
            spill: SpillConfig::default(),
            shuffle_seed: None,
            numa_nodes: 0,
            nodes: 1,
            cut_every: 0,
            beats: BeatConfig::default(),
            flush_interval_ms: 100,
        }
    }
}
