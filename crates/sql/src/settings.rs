//! The settings of a session: `SET 'key' = 'value'`, `--set key=value`, and the `[settings]` of `millstream.toml`.
//!
//! [`KNOWN`] is the only list: keys, defaults, checks and the documentation come from it. Keys of Flink that have no
//! counterpart here and cannot change rows are accepted and do nothing, so that Flink scripts run as they are. Each is listed by
//! itself, with the reason; every other key is an error, because what is ignored in silence gives other rows than were asked
//! for.

use crate::diagnostics::nearest;
use millstream_types::text::zone::Zone;
use millstream_types::{Diagnostic, MemorySize, Options, Place, code};
use std::path::PathBuf;
use std::time::Duration;

/// Which values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An IANA region or an offset from UTC.
    TimeZone,
    /// One of these words, in any case.
    OneOf(&'static [&'static str]),
    /// A whole number in this range.
    Integer(u64, u64),
    /// A time in Flink's notation: `10 s`, `1 h`; 0 is none.
    Duration,
    /// A size of memory: `4 GiB`, `500 MB`, or a share such as `60%`.
    Memory,
    /// The same, or `auto`.
    MemoryOrAuto,
    /// The path of a directory.
    Path,
    /// One of these words, in any case, or the path of a directory, which has a slash in it.
    Directory(&'static [&'static str]),
    /// Anything: the setting has no effect, for nothing that it could say changes rows.
    Ignored,
    /// One of these words, in any case, which say what happens anyway: other values would change rows, which nothing here does.
    Fixed(&'static [&'static str]),
}

/// A setting, for the documentation.
#[derive(Debug, Clone, Copy)]
pub struct SettingInfo {
    /// Key.
    pub key: &'static str,
    /// Default; empty when unset.
    pub default: &'static str,
    /// Values.
    pub kind: Kind,
    /// What it does.
    pub meaning: &'static str,
}

impl SettingInfo {
    /// Whether it is one of Flink's that change nothing.
    pub fn is_without_effect(&self) -> bool {
        matches!(self.kind, Kind::Ignored | Kind::Fixed(_))
    }
}

const fn setting(key: &'static str, default: &'static str, kind: Kind, meaning: &'static str) -> SettingInfo {
    SettingInfo { key, default, kind, meaning }
}

const fn ignored(key: &'static str, meaning: &'static str) -> SettingInfo {
    SettingInfo { key, default: "", kind: Kind::Ignored, meaning }
}

const fn fixed(key: &'static str, values: &'static [&'static str], meaning: &'static str) -> SettingInfo {
    SettingInfo { key, default: "", kind: Kind::Fixed(values), meaning }
}

/// Beginnings of keys of Flink that are refused because they change rows, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "table.exec.emit.",
        "windows give their results once, when they are complete, and rows that come later are late; leave it out",
    ),
    ("table.exec.source.idle-timeout", "say 'scan.watermark.idle-timeout' in the WITH of each table"),
    ("table.exec.source.cdc-events-duplicate", "remove duplicates in the query; leave it out"),
    ("table.exec.interval-join.min-cleanup-interval", "rows are forgotten when the watermark allows it; leave it out"),
    ("execution.savepoint.", "say in 'execution.checkpointing.dir' which state to go on from"),
    ("execution.state-recovery.", "say in 'execution.checkpointing.dir' which state to go on from"),
    ("table.column-expansion-strategy", "name the columns in SELECT; leave it out"),
];

/// Settings of Flink begin so.
const FLINKS: &[&str] = &[
    "table.",
    "execution.",
    "state.",
    "restart-strategy.",
    "jobmanager.",
    "taskmanager.",
    "rest.",
    "metrics.",
    "sql-client.",
    "cluster.",
    "high-availability",
    "security.",
    "env.",
    "client.",
];

const MAX_BUFFER_ROWS: u64 = 80 << 10;

/// Every key that `SET` takes.
pub const KNOWN: &[SettingInfo] = &[
    setting(
        "table.local-time-zone",
        "UTC",
        Kind::TimeZone,
        "The time zone of TIMESTAMP_LTZ in text, casts, date functions and windows. (Flink's default is the machine's zone.)",
    ),
    setting(
        "execution.runtime-mode",
        "streaming",
        Kind::OneOf(&["streaming", "batch"]),
        "In batch mode a bounded input is one window, so that GROUP BY without a window is allowed.",
    ),
    setting(
        "table.exec.state.ttl",
        "0 ms",
        Kind::Duration,
        "How long a regular join keeps a row, in processing time from its arrival ('1 h', '2 d'); 0 keeps rows for ever. \
         Windows and interval joins drop theirs as watermarks pass.",
    ),
    setting(
        "execution.checkpointing.dir",
        "",
        Kind::Path,
        "The state directory: every INSERT is checkpointed there, and goes on from its last checkpoint when the script is run \
         again. A path, or `s3://bucket/prefix` (see recovery.md). Unset, there are no checkpoints.",
    ),
    setting(
        "execution.checkpointing.interval",
        "10 s",
        Kind::Duration,
        "From one checkpoint to the next; 0 takes them only when the query is stopped or someone asks.",
    ),
    setting(
        "execution.checkpointing.num-retained",
        "2",
        Kind::Integer(1, 1000),
        "How many checkpoints are kept. If the last one is damaged, the one before it takes its place.",
    ),
    setting("parallelism.default", "", Kind::Integer(1, 1024), "Number of workers; unset, one for each core."),
    setting(
        "pipeline.error-policy",
        "fail",
        Kind::OneOf(&["fail", "skip"]),
        "What a bad row (failed cast, division by zero) does: fail the query, or be skipped and counted.",
    ),
    setting(
        "pipeline.buffer-rows",
        "0",
        Kind::Integer(0, MAX_BUFFER_ROWS),
        "Most rows in a buffer; 0 adapts it to the load: few when workers wait, many when rows do.",
    ),
    setting(
        "pipeline.memory",
        "auto",
        Kind::MemoryOrAuto,
        "What a query may hold in buffers, tables and other state: '4 GiB', '500 MB', a share of the memory of the machine or \
         container ('60%'), or (auto) 60 %, less in a small container, where 88 MiB stay free. Over 80 % of it sources are slowed; \
         a query whose state neither fits nor can be spilled fails.",
    ),
    setting(
        "pipeline.spill",
        "auto",
        Kind::OneOf(&["auto", "never", "always"]),
        "Whether state is written to disk when memory is short (auto) or never, so that a query whose state does not fit into \
         'pipeline.memory' fails. For tests (always): at once, tables whenever a generation of them ends.",
    ),
    setting(
        "pipeline.spill.directory",
        "",
        Kind::Path,
        "Where state is spilled to: a directory on a local disk; by default 'spill' in the state directory if there is a local one, \
         and 'millstream-<user id>/spill' in the system's temporary directory if not. Each running query has a directory of its own \
         there that only this user can read, and which goes with it; what a process that crashed has left is removed by the next one. \
         A directory that belongs to another user, or in which others may write, is refused.",
    ),
    setting(
        "pipeline.spill.compression",
        "none",
        Kind::OneOf(&["none", "zstd"]),
        "How spilled state is compressed: not at all, which costs least on a fast disk, or by zstd at its fastest level, for \
         a slow or a small one.",
    ),
    setting(
        "pipeline.spill.io",
        "auto",
        Kind::OneOf(&["auto", "direct", "buffered"]),
        "How spilled state is written and read: through the page cache of the system, which is faster while there is memory that \
         nobody else wants, or directly, so that it takes no memory; 'auto' gives a tenth of the machine's memory to the page cache, \
         and writes what is more directly. Either is asynchronous where the system has io_uring.",
    ),
    setting(
        "pipeline.spill.budget",
        "80%",
        Kind::Memory,
        "What the files of a query may take there: '100 GiB', or a share of what is free when it spills first. A query that \
         needs more fails.",
    ),
    setting(
        "pipeline.tier",
        "auto",
        Kind::OneOf(&["auto", "interpret", "compile", "interpreted", "compiled"]),
        "Run interpreted, compiled, or interpreted until the machine code is ready.",
    ),
    setting(
        "pipeline.merge",
        "auto",
        Kind::OneOf(&["auto", "local", "global", "partition"]),
        "How workers share the tables of an aggregation: a table for each worker, merged at the end of a window (local); \
         one lock-free table for each NUMA node (global); rows exchanged by key first (partition); or as it suits (auto).",
    ),
    setting(
        "pipeline.dense-tables",
        "auto",
        Kind::OneOf(&["auto", "never"]),
        "Whether tables may keep the entries of a dense range of integer keys in an array.",
    ),
    setting(
        "pipeline.adaptive",
        "auto",
        Kind::OneOf(&["auto", "never"]),
        "Whether a running query is adapted to its data: observed, and given code for what was seen (auto), or left as it was \
         planned (never). Each of the choices below can be forbidden or forced by itself.",
    ),
    setting(
        "pipeline.filter-order",
        "auto",
        Kind::OneOf(&["auto", "written"]),
        "The order in which the conditions of WHERE are looked at: cheap and selective ones first (auto), or as written. \
         Conditions that can fail keep their place.",
    ),
    setting(
        "pipeline.filter-shape",
        "auto",
        Kind::OneOf(&["auto", "branch", "mask", "selection"]),
        "How machine code drops rows: by a branch, by and-ing conditions without branches (mask), by writing down the numbers \
         of the rows that are left (selection), or as selectivities suggest (auto).",
    ),
    setting(
        "pipeline.key-range",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether code may assume that integer keys stay in the range that was seen, so that a table is an array: when that \
         pays (auto), wherever the array fits into memory (always), or not.",
    ),
    setting(
        "pipeline.pre-aggregate",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether the rows of a worker are aggregated in its table before tables are merged (always), appended to it without \
         a look at their keys where that is possible (never), or appended while nearly every row has a key of its own (auto).",
    ),
    setting(
        "pipeline.combine",
        "auto",
        Kind::OneOf(&["auto", "recompute", "subtract", "two-stacks"]),
        "How the windows of HOP and CUMULATE are made of the slices that they share: merged anew for each window (recompute), \
         by adding what enters and subtracting what leaves (subtract; two-stacks where that is not exact), with two stacks of \
         slices (two-stacks), or as planned at first, and then as the keys of slices and windows suggest (auto).",
    ),
    setting(
        "pipeline.assume-not-null",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether code may assume that a column in which no NULL was seen has none: when that pays (auto), always, or not.",
    ),
    setting(
        "pipeline.assume-constant",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether code may assume that a column in which one value was seen has no other: when that pays (auto), always, or not.",
    ),
    setting(
        "pipeline.few-values",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether functions of a column that mostly has one of a few short strings are answered by comparing it with these: when \
         that pays (auto), always, or not.",
    ),
    setting(
        "pipeline.active-workers",
        "auto",
        Kind::OneOf(&["auto", "all"]),
        "Whether workers rest while the others have time for their work too (auto), or all wait for tasks all the time.",
    ),
    setting(
        "pipeline.decode-skipping",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether columns that are only needed behind the first filters of a query are decoded for the rows that pass these only \
         (format 'parquet'): always, never, or when that costs less (auto).",
    ),
    setting(
        "pipeline.chaos-seed",
        "",
        Kind::Integer(0, u64::MAX),
        "For tests: instead of adapting, code variants are switched at random, within buffers too, as this seed says, and so \
         are pre-aggregation and the combination of windows. Rows stay the same.",
    ),
    setting(
        "pipeline.in-place",
        "auto",
        Kind::OneOf(&["auto", "always", "never"]),
        "Whether generated code reads the columns of packed records (format 'row') where they are: always, never (the decoder \
         gathers them into columns), or as it suits (auto).",
    ),
    setting(
        "pipeline.code-cache",
        "auto",
        Kind::Directory(&["auto", "off"]),
        "Where compiled code is kept on disk for later processes: a directory ('/var/cache/millstream'); nowhere (off); or \
         (auto) for the command line in '$XDG_CACHE_HOME/millstream/code' or '~/.cache/millstream/code', at most 64 MiB, and \
         for the library where the program says.",
    ),
    setting(
        "pipeline.shuffle-seed",
        "",
        Kind::Integer(0, u64::MAX),
        "For tests: workers take tasks in an order drawn from this seed instead of by urgency. Rows stay the same.",
    ),
    setting(
        "pipeline.numa-nodes",
        "0",
        Kind::Integer(0, 64),
        "For tests: how many NUMA nodes the workers are spread over; 0 is what the machine has.",
    ),
    setting(
        "pipeline.cut-every",
        "0",
        Kind::Integer(0, u64::MAX),
        "For tests: a new generation of tables begins with every so many buffers of a stream; 0 is never.",
    ),
    ignored(
        "table.dml-sync",
        "Inserts that read endless input run together, the others one after the other, each to its end, whatever this says.",
    ),
    ignored(
        "execution.attached",
        "A query runs where it is started, in the foreground: how Flink's client submits jobs does not touch rows.",
    ),
    ignored(
        "execution.target",
        "A query runs where it is started, in the foreground: how Flink's client submits jobs does not touch rows.",
    ),
    ignored(
        "execution.shutdown-on-attached-exit",
        "A query runs where it is started, in the foreground: how Flink's client submits jobs does not touch rows.",
    ),
    ignored(
        "execution.checkpointing.mode",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.timeout",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.min-pause",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.max-concurrent-checkpoints",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.unaligned",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.unaligned.enabled",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.aligned-checkpoint-timeout",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.tolerable-failed-checkpoints",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.externalized-checkpoint-retention",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.checkpoints-after-tasks-finish",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.storage",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.incremental",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.local-backup.enabled",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.checkpointing.snapshot-compression",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    ignored(
        "execution.buffer-timeout",
        "When Flink hands buffers on decides about delay, not about rows; here a buffer goes on as soon as a source has no more rows at hand.",
    ),
    ignored(
        "execution.buffer-timeout.enabled",
        "When Flink hands buffers on decides about delay, not about rows; here a buffer goes on as soon as a source has no more rows at hand.",
    ),
    ignored(
        "execution.buffer-timeout.interval",
        "When Flink hands buffers on decides about delay, not about rows; here a buffer goes on as soon as a source has no more rows at hand.",
    ),
    ignored("execution.batch-shuffle-mode", "How Flink moves rows between tasks of a batch job: rows stay the same."),
    ignored("table.exec.shuffle-mode", "How Flink moves rows between tasks of a batch job: rows stay the same."),
    ignored(
        "state.backend",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.type",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.incremental",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.local-recovery",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.rocksdb.localdir",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.rocksdb.memory.managed",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.rocksdb.memory.fixed-per-slot",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.rocksdb.predefined-options",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.backend.rocksdb.thread.num",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.checkpoint-storage",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.checkpoints.dir",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.checkpoints.num-retained",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "state.savepoints.dir",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    ignored(
        "restart-strategy",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.type",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.fixed-delay.attempts",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.fixed-delay.delay",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.failure-rate.max-failures-per-interval",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.failure-rate.failure-rate-interval",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.failure-rate.delay",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.exponential-delay.initial-backoff",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.exponential-delay.max-backoff",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "restart-strategy.exponential-delay.backoff-multiplier",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "jobmanager.execution.failover-strategy",
        "What Flink does after a failure. Here a failed query ends, and goes on from its last checkpoint when it is started again: with the same rows.",
    ),
    ignored(
        "jobmanager.rpc.address",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "jobmanager.rpc.port",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "jobmanager.memory.process.size",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "jobmanager.memory.flink.size",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.process.size",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.flink.size",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.task.heap.size",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.managed.size",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.managed.fraction",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.network.min",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.network.max",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.memory.network.fraction",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "taskmanager.numberOfTaskSlots",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "rest.address",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "rest.port",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "rest.bind-port",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "metrics.latency.interval",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    ignored(
        "pipeline.max-parallelism",
        "How many tasks Flink runs; rows do not depend on it, nor on the number of workers here.",
    ),
    ignored(
        "table.exec.resource.default-parallelism",
        "How many tasks Flink runs; rows do not depend on it, nor on the number of workers here.",
    ),
    ignored("pipeline.name", "A name for Flink's own pages."),
    ignored("pipeline.vertex-description-mode", "A name for Flink's own pages."),
    ignored("table.exec.simplify-operator-name-enabled", "A name for Flink's own pages."),
    ignored("table.exec.uid.generation", "A name for Flink's own pages."),
    ignored("table.exec.uid.format", "A name for Flink's own pages."),
    ignored(
        "pipeline.auto-watermark-interval",
        "Watermarks are those of every row, as in Flink with 0: no row is late because of the clock.",
    ),
    ignored(
        "pipeline.object-reuse",
        "How Flink's operators hand rows to one another in a process: rows stay the same.",
    ),
    ignored(
        "pipeline.operator-chaining",
        "How Flink's operators hand rows to one another in a process: rows stay the same.",
    ),
    ignored(
        "pipeline.operator-chaining.enabled",
        "How Flink's operators hand rows to one another in a process: rows stay the same.",
    ),
    ignored(
        "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
        "How Flink's operators hand rows to one another in a process: rows stay the same.",
    ),
    ignored("pipeline.jars", "There are no JAR files: a function that one would bring is an error where it is called."),
    ignored(
        "table.resources.download-dir",
        "There are no JAR files: a function that one would bring is an error where it is called.",
    ),
    ignored("sql-client.execution.result-mode", "How Flink's client shows results; --output says it here."),
    ignored("sql-client.execution.max-table-result.rows", "How Flink's client shows results; --output says it here."),
    ignored("sql-client.display.max-column-width", "How Flink's client shows results; --output says it here."),
    ignored("sql-client.display.color-schema", "How Flink's client shows results; --output says it here."),
    ignored("sql-client.display.print-time-cost", "How Flink's client shows results; --output says it here."),
    ignored("sql-client.verbose", "How Flink's client shows results; --output says it here."),
    ignored("table.display.max-column-width", "How Flink's client shows results; --output says it here."),
    ignored(
        "table.exec.mini-batch.enabled",
        "Mini-batches of Flink save work on results that are taken back later. Here results come once, as its last ones are.",
    ),
    ignored(
        "table.exec.mini-batch.allow-latency",
        "Mini-batches of Flink save work on results that are taken back later. Here results come once, as its last ones are.",
    ),
    ignored(
        "table.exec.mini-batch.size",
        "Mini-batches of Flink save work on results that are taken back later. Here results come once, as its last ones are.",
    ),
    ignored(
        "table.exec.async-lookup.buffer-capacity",
        "How Flink waits for lookups, and caches them: rows stay the same.",
    ),
    ignored("table.exec.async-lookup.timeout", "How Flink waits for lookups, and caches them: rows stay the same."),
    ignored("table.exec.async-lookup.output-mode", "How Flink waits for lookups, and caches them: rows stay the same."),
    ignored("table.exec.window-agg.buffer-size-limit", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.rank.topn-cache-size", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.sort.default-limit", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.sort.max-num-file-handles", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.sort.async-merge-enabled", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.spill-compression.enabled", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.spill-compression.block-size", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored(
        "table.exec.local-hash-agg.adaptive.enabled",
        "Sizes of buffers of Flink's operators, and what they spill.",
    ),
    ignored(
        "table.exec.operator-fusion-codegen.enabled",
        "Sizes of buffers of Flink's operators, and what they spill.",
    ),
    ignored("table.exec.disabled-operators", "Sizes of buffers of Flink's operators, and what they spill."),
    ignored("table.exec.sink.keyed-shuffle", "How Flink sends and keeps updates for a sink; there are none yet."),
    ignored("table.exec.sink.upsert-materialize", "How Flink sends and keeps updates for a sink; there are none yet."),
    ignored(
        "table.optimizer.agg-phase-strategy",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.distinct-agg.split.enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.distinct-agg.split.bucket-num",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.incremental-agg-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.join-reorder-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.join.broadcast-threshold",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.bushy-join-reorder-threshold",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.multiple-input-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.multi-join.enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.reuse-sub-plan-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.reuse-source-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.reuse-sink-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.reuse-optimize-block-with-digest-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.source.predicate-pushdown-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.source.aggregate-pushdown-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.source.report-statistics-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.dynamic-filtering.enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.runtime-filter.enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.union-all-as-breakpoint-enabled",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored(
        "table.optimizer.non-deterministic-update.strategy",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    ignored("table.plan.force-recompile", "What Flink does with plans in files, of which there are none."),
    ignored("table.plan.compile.catalog-objects", "What Flink does with plans in files, of which there are none."),
    ignored("table.plan.restore.catalog-objects", "What Flink does with plans in files, of which there are none."),
    ignored("table.generated-code.max-length", "How long Flink's generated methods may be."),
    ignored("table.generated-code.max-members", "How long Flink's generated methods may be."),
    fixed("table.planner", &["blink"], "There is one planner, which this is the name of."),
    fixed(
        "table.sql-dialect",
        &["default"],
        "The dialect is Flink's default one; in another one the same text means something else.",
    ),
    fixed("table.builtin-catalog-name", &["default_catalog"], "There is one catalog, of this name."),
    fixed("table.builtin-database-name", &["default_database"], "There is one database, of this name."),
    fixed(
        "table.exec.legacy-cast-behaviour",
        &["disabled"],
        "Casts are those of today's Flink; its former ones give other values.",
    ),
    fixed(
        "table.exec.sink.not-null-enforcer",
        &["error"],
        "NULL in a NOT NULL column is an error; dropping the row is what 'pipeline.error-policy' = 'skip' does.",
    ),
    fixed(
        "table.exec.sink.type-length-enforcer",
        &["ignore"],
        "Strings are cut and padded where the types of query and column differ, as Flink casts them; values that are longer than their type says are not.",
    ),
];

/// What a bad row does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// It fails the query.
    Fail,
    /// It is skipped and counted.
    Skip,
}

/// How pipelines run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Interpreted until the machine code is ready.
    Auto,
    /// Interpreted.
    Interpreted,
    /// Compiled before the first row.
    Compiled,
}

/// How workers share the tables of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// As it suits.
    Auto,
    /// A table for each worker.
    Local,
    /// A table for each NUMA node.
    Global,
    /// A table for each range of key hashes.
    Partition,
}

/// When state is spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spill {
    /// When memory is short.
    Auto,
    /// Never.
    Never,
    /// At once, for tests.
    Always,
}

/// Whether rows are aggregated before tables are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreAggregate {
    /// As it suits.
    Auto,
    /// In all tables.
    Always,
    /// In none where that is possible.
    Never,
}

/// How overlapping windows are made of slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// As it suits.
    Auto,
    /// Merged anew.
    Recompute,
    /// By adding and subtracting, where that is exact.
    Subtract,
    /// With two stacks.
    TwoStacks,
}

/// Whether something is assumed of the data that has been true so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assume {
    /// When it pays.
    Auto,
    /// Whenever it can be.
    Always,
    /// Not at all.
    Never,
}

/// How the rows of a filter are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterShape {
    /// By a branch.
    Branch,
    /// And-ed with the next condition.
    Mask,
    /// By the numbers of the rows that are left.
    Selection,
}

/// Whether the columns of packed records are read where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    /// As it suits.
    Auto,
    /// All of them.
    Always,
    /// None.
    Never,
}

/// Whether columns behind filters are decoded for the rows that these let through only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeSkipping {
    /// When that costs less.
    Auto,
    /// Wherever it can be done.
    Always,
    /// Nowhere.
    Never,
}

/// Where compiled code is kept on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeCache {
    /// Where the program that the session belongs to says.
    Auto,
    /// Nowhere.
    Off,
    /// Here.
    Directory(PathBuf),
}

/// The settings of a session. Values are checked when they are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: Options,
}

impl Settings {
    /// All defaults.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Sets `key` to `value`; fails for an unknown key or an unusable value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Diagnostic> {
        let info = find(key)?;
        let value = normalise(info, key, value.trim())?;
        self.values.set(key, value);
        Ok(())
    }

    /// Puts `key` back to its default, or all keys.
    pub fn reset(&mut self, key: Option<&str>) -> Result<(), Diagnostic> {
        match key {
            Some(key) => {
                find(key)?;
                self.values.remove(key);
            }
            None => self.values = Options::new(),
        }
        Ok(())
    }

    /// The value of `key` or its default; `None` for an unset key without one.
    pub fn get(&self, key: &str) -> Option<&str> {
        let default = || KNOWN.iter().find(|i| i.key == key).map(|i| i.default).filter(|d| !d.is_empty());
        self.values.get(key).or_else(default)
    }

    /// What `SET` without arguments shows: every key with a value, in order of key.
    pub fn list(&self) -> Vec<(String, String)> {
        let defaults = KNOWN.iter().filter(|i| !i.default.is_empty()).map(|i| (i.key, i.default));
        let all: std::collections::BTreeMap<&str, &str> = defaults.chain(self.values.iter()).collect();
        all.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    /// `table.local-time-zone` as written.
    pub fn local_time_zone(&self) -> &str {
        self.get("table.local-time-zone").unwrap_or("UTC")
    }

    /// `table.local-time-zone`.
    pub fn time_zone(&self) -> Zone {
        Zone::parse(self.local_time_zone()).unwrap_or(Zone::UTC)
    }

    /// Whether `execution.runtime-mode` is `batch`.
    pub fn is_batch(&self) -> bool {
        self.get("execution.runtime-mode") == Some("batch")
    }

    /// `table.exec.state.ttl` in milliseconds; `None` for ever.
    pub fn state_ttl_ms(&self) -> Option<u64> {
        let ttl = self.values.duration("table.exec.state.ttl", Duration::ZERO).unwrap_or_default();
        // The least time that there is counts as one: less than that is not "for ever".
        let ms = u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        (ms > 0).then_some(ms)
    }

    /// `parallelism.default`; `None` for one worker a core.
    pub fn parallelism(&self) -> Option<usize> {
        self.get("parallelism.default")?.parse().ok()
    }

    /// `pipeline.error-policy`.
    pub fn error_policy(&self) -> ErrorPolicy {
        match self.get("pipeline.error-policy") {
            Some("skip") => ErrorPolicy::Skip,
            _ => ErrorPolicy::Fail,
        }
    }

    /// `pipeline.buffer-rows`.
    pub fn buffer_rows(&self) -> usize {
        self.get("pipeline.buffer-rows").and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    /// `pipeline.memory`.
    pub fn memory(&self) -> MemorySize {
        self.get("pipeline.memory").and_then(MemorySize::parse).unwrap_or(MemorySize::Auto)
    }

    /// `pipeline.merge`.
    pub fn merge(&self) -> Merge {
        match self.get("pipeline.merge") {
            Some("local") => Merge::Local,
            Some("global") => Merge::Global,
            Some("partition") => Merge::Partition,
            _ => Merge::Auto,
        }
    }

    /// Whether `pipeline.dense-tables` is not `never`.
    pub fn dense_tables(&self) -> bool {
        self.get("pipeline.dense-tables") != Some("never")
    }

    /// Whether a setting of the kind `auto` or something else is `auto`.
    fn is_auto(&self, key: &str) -> bool {
        self.get(key) == Some("auto")
    }

    /// `pipeline.adaptive`.
    pub fn adaptive(&self) -> bool {
        self.is_auto("pipeline.adaptive")
    }

    /// Whether `pipeline.filter-order` is not `written`.
    pub fn orders_filters(&self) -> bool {
        self.is_auto("pipeline.filter-order")
    }

    /// `pipeline.filter-shape`; `None` where it is chosen.
    pub fn filter_shape(&self) -> Option<FilterShape> {
        match self.get("pipeline.filter-shape") {
            Some("branch") => Some(FilterShape::Branch),
            Some("mask") => Some(FilterShape::Mask),
            Some("selection") => Some(FilterShape::Selection),
            _ => None,
        }
    }

    /// `pipeline.key-range`.
    pub fn key_range(&self) -> Assume {
        self.assume("pipeline.key-range")
    }

    /// `pipeline.pre-aggregate`.
    pub fn pre_aggregate(&self) -> PreAggregate {
        match self.get("pipeline.pre-aggregate") {
            Some("always") => PreAggregate::Always,
            Some("never") => PreAggregate::Never,
            _ => PreAggregate::Auto,
        }
    }

    /// `pipeline.combine`.
    pub fn combine(&self) -> Combine {
        match self.get("pipeline.combine") {
            Some("recompute") => Combine::Recompute,
            Some("subtract") => Combine::Subtract,
            Some("two-stacks") => Combine::TwoStacks,
            _ => Combine::Auto,
        }
    }

    /// `pipeline.assume-not-null`.
    pub fn not_null(&self) -> Assume {
        self.assume("pipeline.assume-not-null")
    }

    /// `pipeline.assume-constant`.
    pub fn constants(&self) -> Assume {
        self.assume("pipeline.assume-constant")
    }

    /// `pipeline.few-values`.
    pub fn few_values(&self) -> Assume {
        self.assume("pipeline.few-values")
    }

    fn assume(&self, key: &str) -> Assume {
        match self.get(key) {
            Some("always") => Assume::Always,
            Some("never") => Assume::Never,
            _ => Assume::Auto,
        }
    }

    /// Whether `pipeline.active-workers` is not `all`.
    pub fn adapts_workers(&self) -> bool {
        self.is_auto("pipeline.active-workers")
    }

    /// `pipeline.decode-skipping`.
    pub fn decode_skipping(&self) -> DecodeSkipping {
        match self.get("pipeline.decode-skipping") {
            Some("always") => DecodeSkipping::Always,
            Some("never") => DecodeSkipping::Never,
            _ => DecodeSkipping::Auto,
        }
    }

    /// `pipeline.chaos-seed`; `None` when code is not switched at random.
    pub fn chaos_seed(&self) -> Option<u64> {
        self.get("pipeline.chaos-seed")?.parse().ok()
    }

    /// `pipeline.in-place`.
    pub fn in_place(&self) -> InPlace {
        match self.get("pipeline.in-place") {
            Some("always") => InPlace::Always,
            Some("never") => InPlace::Never,
            _ => InPlace::Auto,
        }
    }

    /// `pipeline.code-cache`.
    pub fn code_cache(&self) -> CodeCache {
        match self.get("pipeline.code-cache") {
            Some("off") => CodeCache::Off,
            Some(path) if path != "auto" => CodeCache::Directory(path.into()),
            _ => CodeCache::Auto,
        }
    }

    /// `pipeline.shuffle-seed`; `None` when tasks are taken by urgency.
    pub fn shuffle_seed(&self) -> Option<u64> {
        self.get("pipeline.shuffle-seed")?.parse().ok()
    }

    /// `pipeline.numa-nodes`; 0 is what the machine has.
    pub fn numa_nodes(&self) -> usize {
        self.get("pipeline.numa-nodes").and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    /// `pipeline.spill`.
    pub fn spill(&self) -> Spill {
        match self.get("pipeline.spill") {
            Some("never") => Spill::Never,
            Some("always") => Spill::Always,
            _ => Spill::Auto,
        }
    }

    /// `pipeline.spill.directory`; `None` where it is by default.
    pub fn spill_directory(&self) -> Option<PathBuf> {
        self.get("pipeline.spill.directory").filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// Whether `pipeline.spill.compression` says that spilled state is compressed.
    pub fn compresses_spilled(&self) -> bool {
        self.get("pipeline.spill.compression") == Some("zstd")
    }

    /// `pipeline.spill.io`: what of the files may be in the page cache, of the machine's memory.
    pub fn spill_cached(&self) -> MemorySize {
        match self.get("pipeline.spill.io") {
            Some("direct") => MemorySize::Bytes(0),
            Some("buffered") => MemorySize::Bytes(u64::MAX),
            _ => MemorySize::Share(10),
        }
    }

    /// `pipeline.spill.budget`.
    pub fn spill_budget(&self) -> MemorySize {
        self.get("pipeline.spill.budget").and_then(MemorySize::parse).unwrap_or(MemorySize::Share(80))
    }

    /// `pipeline.cut-every`; 0 is never.
    pub fn cut_every(&self) -> u64 {
        self.get("pipeline.cut-every").and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    /// `execution.checkpointing.dir`: a path or the address of a place in an object store.
    pub fn checkpoint_directory(&self) -> Option<&str> {
        self.get("execution.checkpointing.dir").filter(|path| !path.is_empty())
    }

    /// `execution.checkpointing.interval`; `None` is never.
    pub fn checkpoint_interval(&self) -> Option<Duration> {
        let default = Duration::from_secs(10);
        let interval = self.values.duration("execution.checkpointing.interval", default).unwrap_or(default);
        (!interval.is_zero()).then_some(interval)
    }

    /// `execution.checkpointing.num-retained`.
    pub fn checkpoints_retained(&self) -> usize {
        self.get("execution.checkpointing.num-retained").and_then(|v| v.parse().ok()).unwrap_or(2)
    }

    /// `pipeline.tier`.
    pub fn tier(&self) -> Tier {
        match self.get("pipeline.tier") {
            Some("interpret" | "interpreted") => Tier::Interpreted,
            Some("compile" | "compiled") => Tier::Compiled,
            _ => Tier::Auto,
        }
    }
}

/// The entry of the list for `key`.
fn find(key: &str) -> Result<&'static SettingInfo, Diagnostic> {
    KNOWN.iter().find(|i| i.key == key).ok_or_else(|| {
        let refused = REFUSED.iter().find(|(start, _)| key.starts_with(start));
        let message = match refused {
            Some(_) => format!("the setting '{key}' of Flink changes rows, and has no counterpart here"),
            None => format!("there is no setting '{key}'"),
        };
        let diagnostic = Diagnostic::new(code::UNKNOWN_OPTION, message).at(Place::Option(key.to_owned()));
        let own = || KNOWN.iter().filter(|i| !i.is_without_effect()).map(|i| i.key);
        match (refused, nearest(key, KNOWN.iter().map(|i| i.key))) {
            (Some((_, advice)), _) => diagnostic.advise(*advice),
            (None, Some(near)) => diagnostic.advise(format!("did you mean '{near}'?")),
            (None, None) if FLINKS.iter().any(|start| key.starts_with(start)) => diagnostic.advise(
                "if it is one of Flink's, leave it out: those that can be set without effect are listed in docs/settings.md",
            ),
            (None, None) => diagnostic.advise(format!("known settings: {}", own().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// The value as it is stored, after the check.
fn normalise(info: &SettingInfo, key: &str, value: &str) -> Result<String, Diagnostic> {
    let invalid = |expected: String| {
        Diagnostic::new(code::INVALID_OPTION, format!("setting '{key}' cannot be '{value}'"))
            .at(Place::Option(key.to_owned()))
            .advise(format!("give {expected}"))
    };
    match info.kind {
        Kind::Ignored => Ok(value.to_owned()),
        Kind::Fixed(words) => match words.iter().any(|word| value.eq_ignore_ascii_case(word)) {
            true => Ok(value.to_owned()),
            false => Err(invalid(format!("{}: {}", words.join(" or "), info.meaning))),
        },
        Kind::Path if value.is_empty() => Err(invalid("the path of a directory".into())),
        Kind::Path => Ok(value.strip_prefix("file://").unwrap_or(value).to_owned()),
        Kind::TimeZone => match Zone::parse(value) {
            Some(_) => Ok(value.to_owned()),
            None => Err(invalid("a time zone such as 'UTC', 'Europe/Berlin' or 'GMT+08:00'".into())),
        },
        Kind::Duration => {
            let mut options = Options::new();
            options.set(key, value);
            match options.duration(key, Duration::ZERO) {
                Ok(_) => Ok(value.to_owned()),
                Err(_) => Err(invalid("a duration such as '10 s', '90 min' or '1 h'".into())),
            }
        }
        Kind::MemoryOrAuto if value.eq_ignore_ascii_case("auto") => Ok("auto".to_owned()),
        Kind::Memory | Kind::MemoryOrAuto => match MemorySize::parse(value) {
            Some(_) => Ok(value.to_owned()),
            None => Err(invalid("a size such as '4 GiB' or '500 MB', or a share such as '60%'".into())),
        },
        Kind::Integer(least, most) => match value.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
            _ => Err(invalid(format!("a whole number from {least} to {most}"))),
        },
        Kind::Directory(words) => match words.iter().find(|word| value.eq_ignore_ascii_case(word)) {
            Some(word) => Ok((*word).to_owned()),
            None if value.contains('/') => Ok(value.to_owned()),
            None => Err(invalid(format!("one of {}, or the path of a directory such as './code'", words.join(", ")))),
        },
        Kind::OneOf(words) => {
            // Flink writes some of these in capitals; the command line says `interpret` and `compile`.
            let lower = value.to_ascii_lowercase();
            let found = words.iter().find(|w| {
                **w == lower || (lower.len() > 6 && **w == format!("{lower}d")) || **w == format!("{lower}ed")
            });
            found.map(|w| (*w).to_owned()).ok_or_else(|| invalid(format!("one of: {}", words.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_values() {
        let mut settings = Settings::new();
        assert_eq!((settings.buffer_rows(), settings.tier(), settings.parallelism()), (0, Tier::Auto, None));
        assert_eq!((settings.is_batch(), settings.error_policy()), (false, ErrorPolicy::Fail));
        settings.set("execution.runtime-mode", "BATCH").unwrap();
        settings.set("pipeline.tier", "interpret").unwrap();
        settings.set("pipeline.buffer-rows", " 1 ").unwrap();
        settings.set("table.local-time-zone", "Europe/Berlin").unwrap();
        settings.set("pipeline.error-policy", "skip").unwrap();
        assert!(settings.is_batch());
        assert_eq!((settings.tier(), settings.buffer_rows()), (Tier::Interpreted, 1));
        assert_eq!(settings.error_policy(), ErrorPolicy::Skip);
        settings.set("pipeline.tier", "compile").unwrap();
        assert_eq!(settings.tier(), Tier::Compiled);
        assert_eq!(settings.state_ttl_ms(), None);
        settings.set("table.exec.state.ttl", "1 h").unwrap();
        assert_eq!(settings.state_ttl_ms(), Some(3_600_000));
        settings.set("table.exec.state.ttl", "0").unwrap();
        assert_eq!(settings.state_ttl_ms(), None);
        assert_eq!(settings.memory(), MemorySize::Auto);
        settings.set("pipeline.memory", "64 mb").unwrap();
        assert_eq!(settings.memory(), MemorySize::Bytes(64 << 20));
        settings.reset(Some("pipeline.buffer-rows")).unwrap();
        assert_eq!(settings.buffer_rows(), 0);
        settings.reset(None).unwrap();
        assert_eq!(settings, Settings::new());
    }

    #[test]
    fn flink_keys_are_accepted_and_unknown_ones_are_not() {
        let mut settings = Settings::new();
        for key in
            ["table.exec.mini-batch.enabled", "sql-client.execution.result-mode", "table.dml-sync", "restart-strategy"]
        {
            settings.set(key, "whatever").unwrap();
        }
        settings.set("table.sql-dialect", "DEFAULT").unwrap();
        let refused = [
            ("table.exec.emit.early-fire.enabled", "once, when they are complete"),
            ("table.exec.source.idle-timeout", "scan.watermark.idle-timeout"),
            ("execution.savepoint.path", "execution.checkpointing.dir"),
            ("table.exec.something.new", "listed in docs/settings.md"),
            ("table.exec.mini-batch.size.of.it", "listed in docs/settings.md"),
        ];
        for (key, advice) in refused {
            let refused = settings.set(key, "1 s").unwrap_err();
            assert_eq!(refused.code, code::UNKNOWN_OPTION, "{key}");
            assert!(refused.advice.as_deref().is_some_and(|given| given.contains(advice)), "{refused}");
        }
        let other = settings.set("table.exec.sink.not-null-enforcer", "DROP").unwrap_err();
        assert_eq!(other.code, code::INVALID_OPTION);
        let unknown = settings.set("pipeline.buffer-row", "1").unwrap_err();
        assert_eq!(unknown.code, code::UNKNOWN_OPTION);
        assert_eq!(unknown.advice.as_deref(), Some("did you mean 'pipeline.buffer-rows'?"));
        for (key, value) in [
            ("pipeline.buffer-rows", "99999999"),
            ("pipeline.tier", "fast"),
            ("table.local-time-zone", "Mars"),
            ("parallelism.default", "-1"),
            ("table.exec.state.ttl", "soon"),
            ("pipeline.memory", "much"),
            ("pipeline.memory", "120%"),
            ("pipeline.code-cache", "on"),
            ("pipeline.code-cache", ""),
        ] {
            assert_eq!(settings.set(key, value).unwrap_err().code, code::INVALID_OPTION, "{key}");
        }
    }

    #[test]
    fn listing_shows_defaults_and_values() {
        let mut settings = Settings::new();
        settings.set("parallelism.default", "2").unwrap();
        let list = settings.list();
        assert!(list.contains(&("parallelism.default".into(), "2".into())));
        assert!(list.contains(&("pipeline.tier".into(), "auto".into())));
        assert!(list.is_sorted());
    }

    #[test]
    fn keys_are_listed_once_and_defaults_are_valid() {
        for (i, info) in KNOWN.iter().enumerate() {
            assert!(KNOWN[..i].iter().all(|other| other.key != info.key), "{}", info.key);
            assert!(!info.key.contains('*') && !info.meaning.is_empty(), "{} names one setting", info.key);
            assert!(info.default.is_empty() || normalise(info, info.key, info.default).is_ok(), "{}", info.key);
        }
    }
}
