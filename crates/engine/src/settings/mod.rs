//! The settings of a session: `SET 'key' = 'value'`, `--set key=value`, and the `[settings]` of `millstream.toml`.
//!
//! [`SETTINGS`] is the only list: keys, defaults, checks, what a value becomes, and the documentation come from it.

mod flink;

use crate::recovery::Checkpointed;
use crate::restart::{RestartKind, RestartStrategy};
use millstream_codegen::kernel::Tier;
use millstream_codegen::program::FilterShape;
use millstream_plan::beat::BeatClock;
use millstream_plan::pipeline::Combination;
use millstream_runtime::{ErrorPolicy, MergeStrategy, RunConfig, When};
use millstream_sql::diagnostics::nearest;
use millstream_sql::{BindSettings, ResultMode, RuntimeMode};
use millstream_storage::{Compression, JobPartitions};
use millstream_types::text::zone::Zone;
use millstream_types::{Diagnostic, MemorySize, Options, Place, code};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What the settings are, each as who needs it wants it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    /// For the binder.
    pub(crate) bind: BindSettings,
    /// For the runtime.
    pub(crate) run: RunConfig,
    /// Whether columns of packed records are read where they are.
    pub(crate) in_place: When,
    /// How pipelines run; `None`: interpreted until there is machine code.
    pub(crate) tier: Option<Tier>,
    /// The directory for compiled code, `auto` or `off`.
    pub(crate) code_cache: String,
    /// What becomes of jobs after an outage.
    pub(crate) restart: RestartStrategy,
    /// What the next jobs are called.
    pub(crate) job_name: Option<String>,
    /// The state directory: a path or the address of a place in an object store.
    pub(crate) state: Option<String>,
    /// How jobs are checkpointed there.
    pub(crate) checkpoints: Checkpointed,
    /// Where state is spilled to; `None`: in the state directory, or else where the runtime says.
    pub(crate) spill_directory: Option<String>,
}

/// What a value is as it is stored, or which ones could be given.
type Read = Result<String, String>;

/// A setting.
struct Setting {
    key: &'static str,
    /// Empty when unset.
    default: &'static str,
    /// Checks a value and puts it where it belongs.
    read: fn(&mut Values, &str) -> Read,
    /// What it does.
    meaning: &'static str,
}

/// A row is `key = default, how a value is read(its place in Values, what is allowed), meaning`.
macro_rules! settings {
    ($($key:literal = $default:literal, $read:ident($($place:ident).+ $(, $allowed:expr)?), $meaning:literal;)*) => {
        /// Every setting that does something.
        const SETTINGS: &[Setting] = &[$(Setting {
            key: $key,
            default: $default,
            read: |values, text| $read(&mut values.$($place).+, text $(, $allowed)?),
            meaning: $meaning,
        }),*];
    };
}

const WHEN: &[(&str, When)] = &[("auto", When::Auto), ("always", When::Always), ("never", When::Never)];
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

settings! {
    "table.local-time-zone" = "UTC", time_zone(run.settings.time_zone),
        "The time zone of TIMESTAMP_LTZ in text, casts, date functions and windows. (Flink's default is the machine's zone.)";
    "execution.runtime-mode" = "automatic", one_of(bind.runtime_mode, &[
        ("streaming", RuntimeMode::Streaming), ("batch", RuntimeMode::Batch), ("automatic", RuntimeMode::Automatic)]),
        "Whether a bounded input is one window, so that GROUP BY without a window is allowed: if all tables that it reads are bounded \
         (`automatic`), always (`batch`: every input counts as bounded), or never (`streaming`). (Flink's default is `streaming`.)";
    "table.exec.state.ttl" = "0 ms", duration(bind.state_ttl),
        "How long what is kept of all rows is kept, in processing time ('1 h', '2 d'): a row of a regular join, a group, the rows of a \
         partition of a Top-N, each since it was written; 0 keeps all forever. What is forgotten begins again when rows come. \
         `/*+ STATE_TTL('t' = '1 d') */` says another for a table. Windows and interval joins drop theirs as watermarks pass.";
    "sql-client.execution.result-mode" = "auto", one_of(bind.result_mode, &[
        ("auto", ResultMode::Automatic), ("table", ResultMode::Table), ("changelog", ResultMode::Changelog),
        ("tableau", ResultMode::Changelog),
    ]),
        "What a SELECT shows whose result changes: its rows as they are at last (table), its changes with what each does in a column `op` \
         (changelog), or (auto) a table if the input has an end and a changelog if not. A table of endless input needs `--output live`. \
         (Flink's default is `table`.)";
    "table.exec.mini-batch.enabled" = "true", one_of(run.beats.waits, &[("true", true), ("false", false)]),
        "Whether changing results wait for more rows before they are written: a beat ends after 'table.exec.mini-batch.allow-latency' or \
         'table.exec.mini-batch.size', or else as soon as the one before has been written. (Flink's default is `false`.)";
    "table.exec.mini-batch.allow-latency" = "50 ms", duration(run.beats.latency),
        "How long a row waits at most until the beat ends in which it changes results; under load beats are longer, because one ends after the other. \
         (Flink's default is `0 ms`.)";
    "table.exec.mini-batch.size" = "0", integer(run.beats.rows, ANY),
        "After how many rows a beat ends at the latest; 0: however many. (Flink's default is `-1`.)";
    "pipeline.beat" = "arrival", beat(bind.beat),
        "What a beat of changing results is: what comes within 'table.exec.mini-batch.allow-latency' (arrival); so much event time, such as \
         '1 s', by the watermark of each split: then the changes of each beat are the same in every run, and every table needs a WATERMARK; \
         or the whole input (end), which must have an end: then each row is written once, and any sink takes it.";
    "pipeline.name" = "", name(job_name),
        "What the next INSERT or statement set is called: its job in the state directory and in metrics. A job with a name is found by it, \
         wherever its statement stands (see recovery.md). Two INSERTs of a script that have state need two names.";
    "execution.checkpointing.dir" = "", path(state),
        "The state directory: every INSERT is checkpointed there, and resumes from its last checkpoint when the script is run \
         again. A path, or `s3://bucket/prefix` (see recovery.md). Unset, there are no checkpoints.";
    "execution.checkpointing.interval" = "10 s", duration(checkpoints.interval),
        "From one checkpoint to the next; 0 takes them only when the query is stopped or someone asks.";
    "execution.checkpointing.num-retained" = "2", integer(checkpoints.retained, 1..=1000),
        "How many checkpoints are kept. If the last one is damaged, the one before it takes its place.";
    "restart-strategy.type" = "auto", one_of(restart.kind, &[
        ("auto", RestartKind::Auto), ("none", RestartKind::None), ("off", RestartKind::None), ("disable", RestartKind::None),
        ("fixed-delay", RestartKind::FixedDelay), ("failure-rate", RestartKind::FailureRate),
        ("exponential-delay", RestartKind::ExponentialDelay),
    ]),
        "What `millstream run` does with INSERTs when a server cannot be reached or a connection breaks: end them (none), or start them again, from their last \
         checkpoint if there is one; auto is exponential-delay with a state directory and none without. Other failures always end them.";
    "restart-strategy.exponential-delay.initial-backoff" = "1 s", duration(restart.initial_backoff), "How long the first restart waits.";
    "restart-strategy.exponential-delay.max-backoff" = "1 min", duration(restart.max_backoff), "How long a restart waits at most.";
    "restart-strategy.exponential-delay.backoff-multiplier" = "1.5", number(restart.multiplier, 1.0..=100.0),
        "How much longer each restart waits than the one before.";
    "restart-strategy.exponential-delay.reset-backoff-threshold" = "1 h", duration(restart.reset_threshold),
        "How long the job must have run for the next restart to count as the first.";
    "restart-strategy.exponential-delay.attempts-before-reset-backoff" = "0", integer(restart.attempts, ANY),
        "Restarts until the job ends; 0 for as many as are needed.";
    "restart-strategy.fixed-delay.attempts" = "1", integer(restart.fixed_attempts, ANY), "Restarts until the job ends.";
    "restart-strategy.fixed-delay.delay" = "1 s", duration(restart.fixed_delay), "How long each waits.";
    "restart-strategy.failure-rate.max-failures-per-interval" = "1", integer(restart.rate_failures, ANY),
        "Failures within the interval that are followed by a restart.";
    "restart-strategy.failure-rate.failure-rate-interval" = "1 min", duration(restart.rate_interval), "The interval.";
    "restart-strategy.failure-rate.delay" = "1 s", duration(restart.rate_delay), "How long each restart waits.";
    "parallelism.default" = "", integer(run.workers, 1..=1024),
        "Number of workers; unset, one for each core.";
    "pipeline.error-policy" = "fail", one_of(run.error_policy, &[("fail", ErrorPolicy::Fail), ("skip", ErrorPolicy::Skip)]),
        "What a bad row (failed cast, division by zero) does: fail the query, or be skipped and counted.";
    "pipeline.buffer-rows" = "0", integer(run.buffer_rows, 0..=RunConfig::MAX_BUFFER_ROWS as u64),
        "Most rows in a buffer; 0 adapts it to the load: few when workers wait, many when rows do.";
    "pipeline.memory" = "auto", memory(run.memory, &[("auto", MemorySize::Auto)]),
        "What a query may hold in buffers, tables and other state: '4 GiB', '500 MB', a share of the memory of the machine or \
         container ('60%'), or (auto) 60 %, less in a small container, where 88 MiB stay free. Over 80 % of it sources are slowed; \
         a query whose state neither fits nor can be spilled fails.";
    "pipeline.spill" = "auto", one_of(run.spill.mode, &[("auto", When::Auto), ("never", When::Never), ("always", When::Always)]),
        "Whether state is written to disk when memory is short (auto) or never, so that a query whose state does not fit into \
         'pipeline.memory' fails. For tests (always): at once, tables whenever a generation of them ends.";
    "pipeline.spill.directory" = "", path(spill_directory),
        "Where state is spilled to: a directory on a local disk; by default 'spill' in the state directory if there is a local one, \
         and 'millstream-<user id>/spill' in the system's temporary directory if not. Each running query has a directory of its own \
         there that only this user can read, and which goes with it; what a process that crashed has left is removed by the next one. \
         A directory that belongs to another user, or in which others may write, is refused.";
    "pipeline.spill.compression" = "none", one_of(run.spill.compression, &[("none", Compression::None), ("zstd", Compression::Zstd)]),
        "How spilled state is compressed: not at all, which costs least on a fast disk, or by zstd at its fastest level, for \
         a slow or a small one.";
    "pipeline.spill.io" = "auto", one_of(run.spill.cached, &[
        ("auto", MemorySize::Share(10)), ("direct", MemorySize::Bytes(0)), ("buffered", MemorySize::Bytes(u64::MAX)),
    ]),
        "How spilled state is written and read: through the page cache of the system, which is faster while there is memory that \
         nobody else wants, or directly, so that it takes no memory; 'auto' gives a tenth of the machine's memory to the page cache, \
         and writes what is more directly. Either is asynchronous where the system has io_uring.";
    "pipeline.spill.budget" = "80%", memory(run.spill.budget, &[]),
        "What the files of a query may take there: '100 GiB', or a share of what is free when it spills first. A query that \
         needs more fails.";
    "pipeline.tier" = "auto", one_of(tier, &[
        ("auto", None), ("interpret", Some(Tier::Interpreted)), ("compile", Some(Tier::Compiled)),
        ("interpreted", Some(Tier::Interpreted)), ("compiled", Some(Tier::Compiled)),
    ]),
        "Run interpreted, compiled, or interpreted until the machine code is ready.";
    "pipeline.merge" = "auto", one_of(run.merge, &[
        ("auto", MergeStrategy::Auto), ("local", MergeStrategy::Local), ("global", MergeStrategy::Global),
        ("partition", MergeStrategy::Partition),
    ]),
        "How workers share the tables of an aggregation: a table for each worker, merged at the end of a window (local); \
         one lock-free table for each NUMA node (global); rows exchanged by key first (partition); or as it suits (auto).";
    "pipeline.dense-tables" = "auto", one_of(run.dense_tables, &[("auto", true), ("never", false)]),
        "Whether tables may keep the entries of a dense range of integer keys in an array.";
    "pipeline.table-partitions" = "auto", partitions(run.table_partitions),
        "Into how many partitions the tables of windowed aggregations are cut: a power of two up to 4096, or (auto) 16. As many workers can merge them beside \
         each other. A job keeps its number; with another one its state is cut again when it resumes.";
    "pipeline.key-partitions" = "auto", partitions(run.key_partitions),
        "The same of joins, Top-N, OVER, sessions, count windows and changing groups; (auto) 64, or 256 with 32 to 512 MiB of memory. One partition must fit \
         into memory. The order of equal rows of such an operator (ROW_NUMBER over ties) can depend on it.";
    "pipeline.adaptive" = "auto", one_of(run.adaptivity.is_enabled, &[("auto", true), ("never", false)]),
        "Whether a running query is adapted to its data: observed, and given code for what was seen (auto), or left as it was \
         planned (never). Each of the choices below can be forbidden or forced by itself.";
    "pipeline.filter-order" = "auto", one_of(run.adaptivity.filter_order, &[("auto", true), ("written", false)]),
        "The order in which the conditions of WHERE are looked at: cheap and selective ones first (auto), or as written. \
         Conditions that can fail keep their place.";
    "pipeline.filter-shape" = "auto", one_of(run.adaptivity.filter_shape, &[
        ("auto", None), ("branch", Some(FilterShape::Branch)), ("mask", Some(FilterShape::Mask)),
        ("selection", Some(FilterShape::Selection)),
    ]),
        "How machine code drops rows: by a branch, by and-ing conditions without branches (mask), by writing down the numbers \
         of the rows that are left (selection), or as selectivities suggest (auto).";
    "pipeline.pre-aggregate" = "auto", one_of(run.adaptivity.pre_aggregation, WHEN),
        "Whether the rows of a worker are aggregated in its table before tables are merged (always), appended to it without \
         a look at their keys where that is possible (never), or appended while nearly every row has a key of its own (auto).";
    "pipeline.combine" = "auto", one_of(run.adaptivity.combination, &[
        ("auto", None), ("recompute", Some(Combination::Recompute)), ("subtract", Some(Combination::Subtract)),
        ("two-stacks", Some(Combination::TwoStacks)),
    ]),
        "How the windows of HOP and CUMULATE are made of the slices that they share: merged again for each window (recompute), \
         by adding what enters and subtracting what leaves (subtract; two-stacks where that is not exact), with two stacks of \
         slices (two-stacks), or as planned at first, and then as the keys of slices and windows suggest (auto).";
    "pipeline.assume-not-null" = "auto", one_of(run.adaptivity.not_null, WHEN),
        "Whether code may assume that a column in which no NULL was seen has none: when that pays (auto), always, or not.";
    "pipeline.assume-constant" = "auto", one_of(run.adaptivity.constants, WHEN),
        "Whether code may assume that a column in which one value was seen has no other: when that pays (auto), always, or not.";
    "pipeline.few-values" = "auto", one_of(run.adaptivity.few_values, WHEN),
        "Whether functions of a column that mostly has one of a few short strings are answered by comparing it with these: when \
         that pays (auto), always, or not.";
    "pipeline.active-workers" = "auto", one_of(run.adaptivity.active_workers, &[("auto", true), ("all", false)]),
        "Whether workers rest while the others have time for their work too (auto), or all wait for tasks all the time.";
    "pipeline.decode-skipping" = "auto", one_of(run.adaptivity.decode_skipping, WHEN),
        "Whether columns that are only needed behind the first filters of a query are decoded for the rows that pass these only \
         (format 'parquet'): always, never, or when that costs less (auto).";
    "pipeline.chaos-seed" = "", integer(run.adaptivity.chaos_seed, ANY),
        "For tests: instead of adapting, code variants are switched at random, within buffers too, as this seed says, and so \
         are pre-aggregation and the combination of windows. Rows stay the same.";
    "pipeline.in-place" = "auto", one_of(in_place, WHEN),
        "Whether generated code reads the columns of packed records (format 'row') where they are: always, never (the decoder \
         gathers them into columns), or as it suits (auto).";
    "pipeline.code-cache" = "auto", directory(code_cache, &["auto", "off"]),
        "Where compiled code is kept on disk for later processes: a directory ('/var/cache/millstream'); nowhere (off); or \
         (auto) for the command line in '$XDG_CACHE_HOME/millstream/code' or '~/.cache/millstream/code', at most 64 MiB, and \
         for the library where the program says.";
    "pipeline.shuffle-seed" = "", integer(run.shuffle_seed, ANY),
        "For tests: workers take tasks in an order drawn from this seed instead of by urgency. Rows stay the same.";
    "pipeline.numa-nodes" = "0", integer(run.numa_nodes, 0..=64),
        "For tests: how many NUMA nodes the workers are spread over; 0 is what the machine has.";
    "pipeline.nodes" = "1", integer(run.nodes, 1..=64),
        "For tests: how many nodes run a query together, all of them in this process. Rows stay the same.";
    "pipeline.cut-every" = "0", integer(run.cut_every, ANY),
        "For tests: a new generation of tables begins after this number of buffers of a stream; 0 is never.";
    "pipeline.beat-rows" = "0", integer(run.beats.rows_of_split, ANY),
        "For tests: a beat ends after exactly this number of rows of a split, for the first split that has as many; 0: rows do not decide.";
}

/// One of these words, in any case.
fn one_of<T: Copy>(place: &mut T, text: &str, words: &[(&str, T)]) -> Read {
    // Flink writes some of these in capitals; the command line says `interpret` and `compile`.
    let lower = text.to_ascii_lowercase();
    let is_meant =
        |word: &str| word == lower || (lower.len() > 6 && word == format!("{lower}d")) || word == format!("{lower}ed");
    let expected = || format!("one of: {}", words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "));
    let (word, value) = words.iter().find(|(word, _)| is_meant(word)).ok_or_else(expected)?;
    *place = *value;
    Ok((*word).to_owned())
}

/// A whole number in this range.
fn integer<T: TryFrom<u64>>(place: &mut T, text: &str, allowed: RangeInclusive<u64>) -> Read {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    let expected = || format!("a whole number from {} to {}", allowed.start(), allowed.end());
    let number: u64 = number.ok_or_else(expected)?;
    *place = T::try_from(number).map_err(|_| expected())?;
    Ok(number.to_string())
}

/// A number of partitions, or `auto`.
fn partitions(place: &mut Option<u32>, text: &str) -> Read {
    if text.eq_ignore_ascii_case("auto") {
        *place = None;
        return Ok("auto".to_owned());
    }
    let count = text.parse().ok().filter(|&count| JobPartitions::is_possible(count));
    *place = Some(count.ok_or_else(|| format!("a power of two from 1 to {}, or auto", JobPartitions::MOST))?);
    Ok(text.to_owned())
}

/// An IANA region or an offset from UTC.
fn time_zone(place: &mut Zone, text: &str) -> Read {
    *place = Zone::parse(text).ok_or("a time zone such as 'UTC', 'Europe/Berlin' or 'GMT+08:00'")?;
    Ok(text.to_owned())
}

/// A time in Flink's notation: `10 s`, `1 h`; 0 is none.
fn duration(place: &mut Option<Duration>, text: &str) -> Read {
    let mut options = Options::new();
    options.set("duration", text);
    let duration = options.duration("duration", Duration::ZERO);
    let duration = duration.map_err(|_| "a duration such as '10 s', '90 min' or '1 h'")?;
    *place = Some(duration).filter(|duration| !duration.is_zero());
    Ok(text.to_owned())
}

/// What ends beats.
fn beat(place: &mut BeatClock, text: &str) -> Read {
    if one_of(place, text, &[("arrival", BeatClock::Arrival), ("end", BeatClock::End)]).is_err() {
        let mut length = None;
        duration(&mut length, text).map_err(|_| "arrival, end, or how much event time a beat is, such as '1 s'")?;
        let length = length.and_then(|length| u64::try_from(length.as_millis()).ok()).filter(|&ms| ms > 0);
        *place = BeatClock::EventTime(length.ok_or("at least '1 ms' of event time")?);
        return Ok(text.to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

/// A number within a range.
fn number(place: &mut f64, text: &str, range: RangeInclusive<f64>) -> Read {
    let number = text.parse().ok().filter(|number| range.contains(number));
    *place = number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))?;
    Ok(text.to_owned())
}

/// One of these words, or a size of memory: `4 GiB`, `500 MB`, or a share such as `60%`.
fn memory(place: &mut MemorySize, text: &str, words: &[(&str, MemorySize)]) -> Read {
    one_of(place, text, words).or_else(|_| {
        *place = MemorySize::parse(text).ok_or("a size such as '4 GiB' or '500 MB', or a share such as '60%'")?;
        Ok(text.to_owned())
    })
}

/// The path of a directory, or an address.
fn path(place: &mut Option<String>, text: &str) -> Read {
    let path = Some(text).filter(|text| !text.is_empty()).ok_or("the path of a directory")?;
    let path = path.strip_prefix("file://").unwrap_or(path).to_owned();
    *place = Some(path.clone()).filter(|path| !path.is_empty());
    Ok(path)
}

/// Longest name of a job, in characters.
const NAME_CHARACTERS: usize = 128;

/// A name that can stand in a line.
fn name(place: &mut Option<String>, text: &str) -> Read {
    let is_usable =
        !text.trim().is_empty() && text.chars().count() <= NAME_CHARACTERS && !text.contains(char::is_control);
    if !is_usable {
        return Err(format!("a name of at most {NAME_CHARACTERS} characters, all in one line"));
    }
    *place = Some(text.trim().to_owned());
    Ok(text.trim().to_owned())
}

/// One of these words, in any case, or the path of a directory, which has a slash in it.
fn directory(place: &mut String, text: &str, words: &[&str]) -> Read {
    let word = words.iter().copied().find(|word| text.eq_ignore_ascii_case(word));
    let expected = || format!("one of {}, or the path of a directory such as './code'", words.join(", "));
    let text = word.or(Some(text).filter(|text| text.contains('/'))).ok_or_else(expected)?;
    *place = text.to_owned();
    Ok(text.to_owned())
}

/// The settings of a session. Values are checked when they are set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What was set, as it is shown.
    texts: Options,
    /// The same and the defaults, as they are used.
    pub(crate) values: Values,
}

impl Settings {
    /// Defaults, but for what is set by texts that have been checked.
    pub(crate) fn new(texts: Options) -> Settings {
        let mut values = Values::default();
        for Setting { key, default, read, .. } in SETTINGS {
            // An empty text sets nothing.
            let _ = read(&mut values, texts.get(key).unwrap_or(default));
        }
        Settings { texts, values }
    }

    /// Sets `key` to `value`; fails for an unknown key or an unusable value.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Diagnostic> {
        let value = value.trim();
        // As Flink 1 has it.
        let key = if key == "restart-strategy" { "restart-strategy.type" } else { key };
        let read = match SETTINGS.iter().find(|setting| setting.key == key) {
            Some(setting) => (setting.read)(&mut self.values, value),
            None => flink::read(key, value).ok_or_else(|| unknown(key))?,
        };
        let text = read.map_err(|expected| {
            Diagnostic::new(code::INVALID_OPTION, format!("setting '{key}' cannot be '{value}'"))
                .at(Place::Option(key.to_owned()))
                .advise(format!("give {expected}"))
        })?;
        self.texts.set(key, text);
        Ok(())
    }

    /// Puts `key` back to its default, or all keys.
    pub(crate) fn reset(&mut self, key: Option<&str>) -> Result<(), Diagnostic> {
        let mut texts = Options::new();
        if let Some(key) = key {
            keys().find(|known| *known == key).ok_or_else(|| unknown(key))?;
            texts = std::mem::take(&mut self.texts);
            texts.remove(key);
        }
        *self = Settings::new(texts);
        Ok(())
    }

    /// What `SET` without arguments shows: every key with a value, in order of key.
    pub(crate) fn list(&self) -> BTreeMap<&str, &str> {
        let defaults = SETTINGS.iter().map(|setting| (setting.key, setting.default));
        defaults.filter(|(_, default)| !default.is_empty()).chain(self.texts.iter()).collect()
    }
}

fn keys() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.key).chain(flink::ignored().map(|ignored| ignored.key))
}

fn unknown(key: &str) -> Diagnostic {
    let refused = flink::refused(key);
    let message = match refused {
        Some(_) => format!("the setting '{key}' of Flink changes rows, and has no counterpart here"),
        None => format!("there is no setting '{key}'"),
    };
    let advice = match (refused, nearest(key, keys())) {
        (Some(advice), _) => advice.into(),
        (None, Some(near)) => format!("did you mean '{near}'?"),
        (None, None) if flink::is_of_flink(key) => {
            "leave it out: Millstream has no such setting, and SET; lists those that it has".into()
        }
        (None, None) => {
            "SET; lists the settings; options of a table, such as 'path' or 'connect.timeout', stand in its WITH (…)"
                .into()
        }
    };
    Diagnostic::new(code::UNKNOWN_OPTION, message).at(Place::Option(key.to_owned())).advise(advice)
}

/// The documentation of all settings: `docs/settings.md`.
pub fn settings_markdown() -> String {
    let own =
        SETTINGS.iter().map(|Setting { key, default, meaning, .. }| format!("| `{key}` | {default} | {meaning} |\n"));
    let ignored = flink::ignored()
        .map(|ignored| format!("| `{}` | {} | {} |\n", ignored.key, ignored.word.unwrap_or("any"), ignored.why));
    format!(
        "# Session options\n\n\
         `SET 'key' = 'value'`, `--set key=value`, or the table `[set]` of `millstream.toml`.\n\n\
         | key | default | meaning |\n| --- | --- | --- |\n{}\n\
         Keys of Flink that are accepted and change nothing, and why rows cannot depend on them. Every other key is refused.\n\n\
         | key | values | why |\n| --- | --- | --- |\n{}",
        own.collect::<String>(),
        ignored.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_values() {
        let mut settings = Settings::new(Options::new());
        let workers = settings.values.run.workers;
        assert_eq!((settings.values.run.buffer_rows, settings.values.tier), (0, None));
        assert_eq!(
            (settings.values.bind.runtime_mode, settings.values.run.error_policy),
            (RuntimeMode::Automatic, ErrorPolicy::Fail)
        );
        settings.set("execution.runtime-mode", "BATCH").unwrap();
        settings.set("pipeline.tier", "interpret").unwrap();
        settings.set("pipeline.buffer-rows", " 1 ").unwrap();
        settings.set("table.local-time-zone", "Europe/Berlin").unwrap();
        settings.set("pipeline.error-policy", "skip").unwrap();
        settings.set("parallelism.default", "7").unwrap();
        assert_eq!(settings.values.bind.runtime_mode, RuntimeMode::Batch);
        assert_eq!((settings.values.tier, settings.values.run.buffer_rows), (Some(Tier::Interpreted), 1));
        assert_eq!((settings.values.run.error_policy, settings.values.run.workers), (ErrorPolicy::Skip, 7));
        settings.set("pipeline.tier", "compile").unwrap();
        assert_eq!(settings.values.tier, Some(Tier::Compiled));
        assert_eq!(settings.values.bind.state_ttl, None);
        settings.set("table.exec.state.ttl", "1 h").unwrap();
        assert_eq!(settings.values.bind.state_ttl, Some(Duration::from_secs(3600)));
        settings.set("table.exec.state.ttl", "0").unwrap();
        assert_eq!(settings.values.bind.state_ttl, None);
        assert_eq!(settings.values.run.memory, MemorySize::Auto);
        settings.set("pipeline.memory", "64 mb").unwrap();
        assert_eq!(settings.values.run.memory, MemorySize::Bytes(64 << 20));
        settings.set("pipeline.name", " Clicks per minute ").unwrap();
        assert_eq!(settings.values.job_name.as_deref(), Some("Clicks per minute"));
        settings.reset(Some("pipeline.name")).unwrap();
        assert_eq!(settings.values.job_name, None);
        settings.reset(Some("pipeline.buffer-rows")).unwrap();
        assert_eq!((settings.values.run.buffer_rows, settings.values.run.workers), (0, 7));
        settings.reset(None).unwrap();
        assert_eq!((settings.list(), settings.values.run.workers), (Settings::new(Options::new()).list(), workers));
    }

    #[test]
    fn flink_keys_are_accepted_and_unknown_ones_are_not() {
        let mut settings = Settings::new(Options::new());
        for key in ["sql-client.verbose", "table.dml-sync"] {
            settings.set(key, "whatever").unwrap();
        }
        settings.set("restart-strategy", "fixed-delay").unwrap();
        assert_eq!(settings.values.restart.kind, RestartKind::FixedDelay);
        assert_eq!(settings.set("restart-strategy", "whatever").unwrap_err().code, code::INVALID_OPTION);
        settings.set("table.sql-dialect", "DEFAULT").unwrap();
        let refused = [
            ("table.exec.emit.early-fire.enabled", "once, when they are complete"),
            ("table.exec.source.idle-timeout", "scan.watermark.idle-timeout"),
            ("execution.savepoint.path", "millstream checkpoint restore"),
            ("table.exec.something.new", "SET; lists those that it has"),
            ("table.exec.mini-batch.size.of.it", "SET; lists those that it has"),
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
            ("pipeline.name", "  "),
            ("pipeline.name", "two\nlines"),
        ] {
            assert_eq!(settings.set(key, value).unwrap_err().code, code::INVALID_OPTION, "{key}");
        }
    }

    #[test]
    fn listing_shows_defaults_and_values() {
        let mut settings = Settings::new(Options::new());
        settings.set("parallelism.default", "2").unwrap();
        let list = settings.list();
        assert_eq!((list["parallelism.default"], list["pipeline.tier"]), ("2", "auto"));
        assert!(list.keys().is_sorted());
    }

    #[test]
    fn keys_are_listed_once_and_defaults_are_valid() {
        let all: Vec<&str> = keys().collect();
        for (i, key) in all.iter().enumerate() {
            assert!(!all[..i].contains(key) && !key.contains('*') && !key.is_empty(), "{key} names one setting");
        }
        for Setting { key, default, read, meaning } in SETTINGS {
            assert!(default.is_empty() || read(&mut Values::default(), default).is_ok(), "{key}");
            assert!(!meaning.is_empty(), "{key}");
        }
        assert!(flink::ignored().all(|ignored| !ignored.why.is_empty()));
    }

    /// Those who have no settings, tests of the runtime among them, run as sessions do.
    #[test]
    fn defaults_are_those_of_the_runtime() {
        let values = Settings::new(Options::new()).values;
        assert_eq!(format!("{:?}", values.run), format!("{:?}", RunConfig::default()));
    }
}
