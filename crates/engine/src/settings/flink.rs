//! Keys of Flink that have no counterpart here: those that cannot change rows are accepted and do nothing, so that Flink scripts run
//! as they are. Each is listed by itself, with the reason; every other key is an error, because what is silently
//! ignored gives other rows than were asked for.

use super::Read;

/// Keys of which any value is accepted, separated by blanks, and why rows cannot depend on them.
const IGNORED: &[(&str, &str)] = &[
    (
        "table.dml-sync",
        "Inserts that read endless input run together, the others one after the other, each to its end, whatever this says.",
    ),
    (
        "execution.attached execution.target execution.shutdown-on-attached-exit",
        "A query runs where it is started, in the foreground: how Flink's client submits jobs does not touch rows.",
    ),
    (
        "execution.checkpointing.mode execution.checkpointing.timeout execution.checkpointing.min-pause \
         execution.checkpointing.max-concurrent-checkpoints execution.checkpointing.unaligned \
         execution.checkpointing.unaligned.enabled execution.checkpointing.aligned-checkpoint-timeout \
         execution.checkpointing.tolerable-failed-checkpoints \
         execution.checkpointing.externalized-checkpoint-retention \
         execution.checkpointing.checkpoints-after-tasks-finish execution.checkpointing.storage \
         execution.checkpointing.incremental execution.checkpointing.local-backup.enabled \
         execution.checkpointing.snapshot-compression",
        "Checkpoints are always exactly-once, unaligned and incremental: how Flink takes them touches what a checkpoint costs, not rows.",
    ),
    (
        "execution.buffer-timeout execution.buffer-timeout.enabled execution.buffer-timeout.interval",
        "When Flink hands buffers on decides about delay, not about rows; here a buffer is processed as soon as a source has no more rows at hand.",
    ),
    (
        "execution.batch-shuffle-mode table.exec.shuffle-mode",
        "How Flink moves rows between tasks of a batch job: rows stay the same.",
    ),
    (
        "state.backend state.backend.type state.backend.incremental state.backend.local-recovery \
         state.backend.rocksdb.localdir state.backend.rocksdb.memory.managed \
         state.backend.rocksdb.memory.fixed-per-slot state.backend.rocksdb.predefined-options \
         state.backend.rocksdb.thread.num state.checkpoint-storage state.checkpoints.dir \
         state.checkpoints.num-retained state.savepoints.dir",
        "Which backend keeps Flink's state, and where: state is Millstream's own, and 'execution.checkpointing.dir' says where checkpoints are.",
    ),
    (
        "jobmanager.execution.failover-strategy restart-strategy.exponential-delay.jitter-factor",
        "How much of a job Flink starts again, and how far apart: here it is the whole job, or on a cluster the lost node alone where nodes send each other nothing.",
    ),
    (
        "jobmanager.rpc.address jobmanager.rpc.port jobmanager.memory.process.size \
         jobmanager.memory.flink.size taskmanager.memory.process.size taskmanager.memory.flink.size \
         taskmanager.memory.task.heap.size taskmanager.memory.managed.size \
         taskmanager.memory.managed.fraction taskmanager.memory.network.min taskmanager.memory.network.max \
         taskmanager.memory.network.fraction taskmanager.numberOfTaskSlots rest.address rest.port \
         rest.bind-port metrics.latency.interval",
        "Sizes and addresses of Flink's processes, of which there are none: 'pipeline.memory' and 'parallelism.default' say what a query may use.",
    ),
    (
        "pipeline.max-parallelism table.exec.resource.default-parallelism",
        "How many tasks Flink runs; rows do not depend on it, nor on the number of workers here.",
    ),
    (
        "pipeline.vertex-description-mode table.exec.simplify-operator-name-enabled \
         table.exec.uid.generation table.exec.uid.format",
        "A name for Flink's own pages.",
    ),
    (
        "pipeline.auto-watermark-interval",
        "Watermarks are those of every row, as in Flink with 0: no row is late because of the clock.",
    ),
    (
        "pipeline.object-reuse pipeline.operator-chaining pipeline.operator-chaining.enabled \
         pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
        "How Flink's operators hand rows to one another in a process: rows stay the same.",
    ),
    (
        "pipeline.jars table.resources.download-dir",
        "There are no JAR files: a function that one would bring is an error where it is called.",
    ),
    (
        "sql-client.execution.max-table-result.rows \
         sql-client.display.max-column-width sql-client.display.color-schema \
         sql-client.display.print-time-cost sql-client.verbose table.display.max-column-width",
        "How Flink's client shows results; --output says it here.",
    ),
    (
        "table.exec.async-lookup.buffer-capacity table.exec.async-lookup.timeout \
         table.exec.async-lookup.output-mode",
        "How Flink waits for lookups, and caches them: rows stay the same.",
    ),
    (
        "table.exec.window-agg.buffer-size-limit table.exec.rank.topn-cache-size \
         table.exec.sort.default-limit table.exec.sort.max-num-file-handles \
         table.exec.sort.async-merge-enabled table.exec.spill-compression.enabled \
         table.exec.spill-compression.block-size table.exec.local-hash-agg.adaptive.enabled \
         table.exec.operator-fusion-codegen.enabled table.exec.disabled-operators",
        "Sizes of buffers of Flink's operators, and what they spill.",
    ),
    (
        "table.exec.sink.keyed-shuffle table.exec.sink.upsert-materialize",
        "How Flink puts the changes of a key in order for a sink; here a key changes once in a beat.",
    ),
    (
        "table.optimizer.agg-phase-strategy table.optimizer.distinct-agg.split.enabled \
         table.optimizer.distinct-agg.split.bucket-num table.optimizer.incremental-agg-enabled \
         table.optimizer.join-reorder-enabled table.optimizer.join.broadcast-threshold \
         table.optimizer.bushy-join-reorder-threshold table.optimizer.multiple-input-enabled \
         table.optimizer.multi-join.enabled table.optimizer.reuse-sub-plan-enabled \
         table.optimizer.reuse-source-enabled table.optimizer.reuse-sink-enabled \
         table.optimizer.reuse-optimize-block-with-digest-enabled \
         table.optimizer.source.predicate-pushdown-enabled table.optimizer.source.aggregate-pushdown-enabled \
         table.optimizer.source.report-statistics-enabled table.optimizer.dynamic-filtering.enabled \
         table.optimizer.runtime-filter.enabled table.optimizer.union-all-as-breakpoint-enabled \
         table.optimizer.non-deterministic-update.strategy",
        "Choices of Flink's optimiser between plans that give the same rows.",
    ),
    (
        "table.plan.force-recompile table.plan.compile.catalog-objects table.plan.restore.catalog-objects",
        "What Flink does with plans in files, of which there are none.",
    ),
    ("table.generated-code.max-length table.generated-code.max-members", "How long Flink's generated methods may be."),
];

/// Keys with the word, in any case, that says what happens anyway, and why: other values would change rows, which nothing here does.
const FIXED: &[(&str, &str, &str)] = &[
    ("table.planner", "blink", "There is one planner, which this is the name of."),
    (
        "table.sql-dialect",
        "default",
        "The dialect is Flink's default one; in another one the same text means something else.",
    ),
    ("table.builtin-catalog-name", "default_catalog", "There is one catalog, of this name."),
    ("table.builtin-database-name", "default_database", "There is one database, of this name."),
    (
        "table.exec.legacy-cast-behaviour",
        "disabled",
        "Casts are those of today's Flink; its former ones give other values.",
    ),
    (
        "table.exec.sink.not-null-enforcer",
        "error",
        "NULL in a NOT NULL column is an error; dropping the row is what 'pipeline.error-policy' = 'skip' does.",
    ),
    (
        "table.exec.sink.type-length-enforcer",
        "ignore",
        "Strings are cut and padded where the types of query and column differ, as Flink casts them; values that are longer than their type says are not.",
    ),
];

/// What to do instead of naming state to resume from.
const RESTORE: &str = "a job resumes from its newest checkpoint in 'execution.checkpointing.dir'; for an earlier one run \
                       'millstream checkpoint restore NAME' first";

/// Beginnings of keys that are refused because they change rows, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "table.exec.emit.",
        "windows give their results once, when they are complete, and rows that come later are late; leave it out",
    ),
    ("table.exec.source.idle-timeout", "say 'scan.watermark.idle-timeout' in the WITH of each table"),
    ("table.exec.source.cdc-events-duplicate", "remove duplicates in the query; leave it out"),
    ("table.exec.interval-join.min-cleanup-interval", "rows are forgotten when the watermark allows it; leave it out"),
    ("execution.savepoint.", RESTORE),
    ("execution.state-recovery.", RESTORE),
    ("table.column-expansion-strategy", "name the columns in SELECT; leave it out"),
];

/// Settings of Flink begin so.
const BEGINNINGS: &str = "table. execution. state. restart-strategy. jobmanager. taskmanager. rest. metrics. sql-client. cluster. \
                          high-availability security. env. client.";

/// A key without effect.
pub(super) struct Ignored {
    pub(super) key: &'static str,
    /// The only value that it can have; `None`: it can have any.
    pub(super) word: Option<&'static str>,
    /// Why rows cannot depend on it.
    pub(super) why: &'static str,
}

/// Every key without effect.
pub(super) fn ignored() -> impl Iterator<Item = Ignored> {
    let keys = |&(keys, why): &(&'static str, _)| keys.split(' ').map(move |key| Ignored { key, word: None, why });
    let fixed = FIXED.iter().map(|&(key, word, why)| Ignored { key, word: Some(word), why });
    IGNORED.iter().flat_map(keys).chain(fixed)
}

/// A value as it is stored, or which one could be given; `None`: the key is not one of these.
pub(super) fn read(key: &str, value: &str) -> Option<Read> {
    let Ignored { word, why, .. } = ignored().find(|ignored| ignored.key == key)?;
    Some(match word.filter(|word| !value.eq_ignore_ascii_case(word)) {
        Some(word) => Err(format!("{word}: {why}")),
        None => Ok(value.to_owned()),
    })
}

/// What to do instead, if it is a key of Flink that changes rows.
pub(super) fn refused(key: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(start, _)| key.starts_with(start)).map(|(_, advice)| *advice)
}

/// Whether a key is one of Flink's by its beginning.
pub(super) fn is_of_flink(key: &str) -> bool {
    BEGINNINGS.split(' ').any(|start| key.starts_with(start))
}
