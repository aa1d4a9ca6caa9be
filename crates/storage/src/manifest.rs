//! Manifests: what a checkpoint consists of, as JSON with a checksum behind it.
//!
//! ```text
//! {"format":14,"checkpoint":42,…}
//! xxh3:0123456789abcdef
//! ```

use crate::bytes::Damaged;
use crate::nodes::NodeFiles;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Version of manifests and of the state that they name.
pub const FORMAT: u32 = 14;

/// The oldest version that is read as well: jobs have no names in its manifests. Kept checkpoints of all versions that are read are in
/// `tests/checkpoints`.
const OLDEST_FORMAT: u32 = 7;

/// The first version whose manifests say into how many partitions the state is cut.
const FORMAT_OF_PARTITIONS: u32 = 12;

/// What the damage of a manifest of another version says.
const OTHER_FORMAT: &str = "it has the format";

/// Whether what is wrong with a manifest is its version.
pub fn is_of_other_format(damage: &str) -> bool {
    damage.contains(OTHER_FORMAT)
}

/// Rows, lines, bytes of inputs and checkpoints are fewer.
const MOST_COUNTED: u64 = 1 << 62;
/// Splits of a source are fewer.
const MOST_SPLITS: u32 = 1 << 31;
/// Sources, aggregations and keyed operators are fewer.
const MOST_INPUTS: u16 = 1 << 15;
/// Rows and bytes of a part of the state are fewer.
const MOST_STORED: u64 = 1 << 44;

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`], or the older one that it was written in.
    pub format: u32,
    /// Its number; those of later checkpoints of a job are higher.
    pub checkpoint: u64,
    /// What tells the job from all others; output has it in its names.
    pub job: String,
    /// What its user calls it (`pipeline.name`).
    #[serde(default)]
    pub name: Option<String>,
    /// When it was written, in milliseconds since the epoch.
    pub written_ms: u64,
    /// Version of the engine that has written it.
    pub version: String,
    /// Whether the job had come to its end.
    pub is_finished: bool,
    /// Whether an earlier checkpoint of the job was completed, and the spans of its sinks committed.
    pub is_later: bool,
    /// What the query keeps, as the plan describes it: a query that keeps something else cannot resume from it.
    pub shape: Value,
    /// Into how many partitions the state is cut.
    #[serde(default)]
    pub partitions: JobPartitions,
    /// Sources of the plan.
    pub sources: Vec<SourceState>,
    /// Windowed aggregations of the plan.
    pub aggregations: Vec<AggregationState>,
    /// Keyed operators of the plan.
    pub operators: Vec<OperatorState>,
    /// Sinks of the plan.
    pub sinks: Vec<SinkState>,
    /// Bytes of the files that the checkpoint itself has written.
    pub bytes_written: u64,
    /// Where several nodes have written it: what each has, in the order of their numbers. Then the file of the manifest has no sources,
    /// aggregations and operators: whoever reads it puts those of the nodes together ([`Manifest::with_nodes`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeFiles>,
}

/// Into how many partitions the state of a job is cut: powers of two, which stay the same until its user asks for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPartitions {
    /// The tables of windowed aggregations.
    pub tables: u32,
    /// Keyed operators.
    pub keys: u32,
}

impl JobPartitions {
    /// As many as there can be.
    pub const MOST: u32 = 1 << 12;
    /// Those of tables, unless their user says otherwise: as many workers can merge them beside each other, and tables of a handful of
    /// keys stay cheap.
    pub const TABLES: u32 = 16;
    /// Those of keyed operators in manifests without operators that keep something.
    const KEYS: u32 = 64;

    /// Bits of a hash that choose the partition of a table.
    pub fn table_bits(self) -> u32 {
        self.tables.trailing_zeros()
    }

    /// The same of a keyed operator.
    pub fn key_bits(self) -> u32 {
        self.keys.trailing_zeros()
    }

    /// Whether there can be so many.
    pub fn is_possible(count: u32) -> bool {
        count.is_power_of_two() && count <= JobPartitions::MOST
    }
}

impl Default for JobPartitions {
    fn default() -> JobPartitions {
        JobPartitions { tables: JobPartitions::TABLES, keys: JobPartitions::KEYS }
    }
}

/// Bytes in a file of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// Name of the file.
    pub file: Arc<str>,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
    /// Their xxh3.
    pub checksum: u64,
}

/// How far a source has been read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceState {
    /// Its table.
    pub table: String,
    /// Its number among the inputs of the job's pipelines, which rows that are kept have in their places.
    pub number: u16,
    /// In the order of their numbers.
    pub splits: Vec<SplitState>,
}

/// How far a split has been read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SplitState {
    /// Its name.
    pub name: String,
    /// Its number among those of the source, which rows that are kept have in their places.
    pub number: u32,
    /// Where reading resumes, in the connector's unit; `None` at the start, or where splits have no positions.
    pub at: Option<u64>,
    /// Number of the next line, in files of lines.
    pub line: u64,
    /// Rows so far.
    pub rows: u64,
    /// So many of them are behind where reading resumes: they come again, and are dropped.
    #[serde(default)]
    pub behind: u64,
    /// Watermark, in milliseconds.
    pub watermark: i64,
    /// What it is raised to when all that was there has been read, if that is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<i64>,
    /// Whether it has been read to its end.
    pub ended: bool,
    /// What the connector says of what it has read, so that it notices if that is not the same any more.
    pub input: Option<Value>,
}

impl SplitState {
    fn is_possible(&self) -> bool {
        self.number < MOST_SPLITS && self.behind <= self.rows
    }
}

/// What a windowed aggregation keeps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AggregationState {
    /// Its number among the inputs of the job's pipelines, as that of a source.
    pub number: u16,
    /// Watermark that its windows have been fired for, in milliseconds.
    pub watermark: i64,
    /// Tables of windows that are not complete.
    pub tables: Vec<TableState>,
    /// Of overlapping windows: slices of windows that are not complete, of which some have been fired.
    pub slices: Vec<TableState>,
    /// Of overlapping windows: end of the last one that was fired, and of the last one that holds a slice of `slices`.
    pub swept: Option<(i64, i64)>,
}

/// A part of the rows of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    /// Number of the slice's table.
    pub id: i64,
    /// Entries.
    pub entries: u64,
    /// The blocks of each partition.
    pub partitions: Vec<Vec<BlobRef>>,
}

/// What a keyed operator keeps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OperatorState {
    /// Its number among the inputs of the job's pipelines, as that of a source.
    pub number: u16,
    /// Watermark up to which rows have been consumed, in milliseconds.
    pub watermark: i64,
    /// What each partition keeps.
    pub partitions: Vec<PartitionState>,
    /// Ends of windows that have rows.
    pub windows: Vec<i64>,
}

/// What a partition of a keyed operator keeps, with what has to be known of it before it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionState {
    /// What it remembers of rows that were consumed: all of it when that was written.
    pub state: BlobRef,
    /// What has changed since, in the order in which it was written. Later runs replace what earlier ones say.
    #[serde(default)]
    pub runs: Vec<RunState>,
    /// Milliseconds from its last job to the checkpoint: so much older is what the last run, or `state`, says. 0 of operators that go by
    /// watermarks.
    #[serde(default)]
    pub aged_ms: i64,
    /// Smallest watermark, in milliseconds, at which it has something to do even if no row comes. Of regular joins: milliseconds
    /// after it has last worked.
    pub due: i64,
    /// Rows that wait for it.
    pub waiting: Vec<WaitingState>,
}

/// What has changed in a partition from one checkpoint to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// The changes.
    pub blob: BlobRef,
    /// Runs of lower levels before it were replaced by it.
    pub level: u8,
    /// Milliseconds from the last job before the run, or `state`, that is before it, to the last job before this one.
    pub after_ms: i64,
}

/// Rows that wait for a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingState {
    /// The rows.
    pub blob: BlobRef,
    /// What they are.
    pub about: WaitingRows,
}

/// What has to be known of rows that wait before they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingRows {
    /// Number of the operator's input that they came from.
    pub input: usize,
    /// How many they are.
    pub rows: usize,
    /// Bytes that they take in memory.
    pub bytes: usize,
    /// Smallest watermark before one of them, in milliseconds.
    pub earliest: i64,
    /// Smallest watermark at which one of them makes work necessary, in milliseconds.
    pub due: i64,
}

/// What a sink has to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SinkState {
    /// Its number in the job, which it keeps whatever other sinks come: output has it in its names.
    pub number: usize,
    /// Its table.
    pub table: String,
    /// What its prepared span is committed with.
    pub token: Option<Value>,
    /// The same of the spans that other nodes have written. In the file of the manifest only when the job had come to its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Value>,
}

impl SinkState {
    /// Of a sink that has written nothing.
    pub fn new(number: usize, table: String) -> SinkState {
        SinkState { number, table, token: None, others: Vec::new() }
    }

    /// What the spans of all nodes are committed with.
    pub fn tokens(&self) -> impl Iterator<Item = &Value> {
        self.token.iter().chain(&self.others)
    }
}

impl PartitionState {
    /// All blobs that it consists of.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        let runs = self.runs.iter().map(|run| &run.blob);
        self.waiting.iter().map(|rows| &rows.blob).chain([&self.state]).chain(runs)
    }

    /// Bytes of what it remembers, with those that later ones replace.
    pub fn state_bytes(&self) -> u64 {
        self.state.bytes + self.runs.iter().map(|run| run.blob.bytes).sum::<u64>()
    }
}

impl OperatorState {
    /// All blobs that it consists of.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        self.partitions.iter().flat_map(PartitionState::blobs)
    }
}

impl Manifest {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let without_parts = || {
            let (sources, aggregations, operators) = (Vec::new(), Vec::new(), Vec::new());
            Manifest { sources, aggregations, operators, ..self.clone() }
        };
        let written = if self.nodes.is_empty() { Cow::Borrowed(self) } else { Cow::Owned(without_parts()) };
        let mut bytes = serde_json::to_vec(&*written).expect("a manifest has no maps with keys that are not texts");
        let checksum = xxh3_64(&bytes);
        bytes.extend(format!("\nxxh3:{checksum:016x}\n").as_bytes());
        bytes
    }

    /// From the bytes of the file.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, Damaged> {
        let text = bytes.strip_suffix(b"\n").ok_or_else(|| Damaged("it is cut off".into()))?;
        let end = text.iter().rposition(|&byte| byte == b'\n').ok_or_else(|| Damaged("it is cut off".into()))?;
        let (body, line) = (&text[..end], &text[end + 1..]);
        let is_right = line == format!("xxh3:{:016x}", xxh3_64(body)).as_bytes();
        Damaged::unless(is_right, "it does not have the checksum that it was written with")?;
        let value: Value = serde_json::from_slice(body).map_err(|e| Damaged(e.to_string()))?;
        match value["format"].as_u64() {
            Some(format) if (OLDEST_FORMAT..=FORMAT).contains(&u32::try_from(format).unwrap_or(0)) => {}
            format => {
                let format = format.map_or("none".to_string(), |format| format.to_string());
                let read = format!("this version reads the formats {OLDEST_FORMAT} to {FORMAT}");
                return Err(Damaged(format!("{OTHER_FORMAT} {format}; {read}")));
            }
        }
        let mut manifest: Manifest = serde_json::from_value(value).map_err(|e| Damaged(e.to_string()))?;
        if manifest.format < FORMAT_OF_PARTITIONS {
            let keys = manifest.operators.iter().map(|operator| operator.partitions.len()).find(|&count| count > 0);
            let keys = keys.map_or(JobPartitions::KEYS, |count| u32::try_from(count).unwrap_or(0));
            manifest.partitions = JobPartitions { keys, ..JobPartitions::default() };
        }
        Damaged::unless(manifest.is_possible(), "it has numbers that no checkpoint has")?;
        Ok(manifest)
    }

    /// Whether numbers are such that counting on from them, and adding them up, stays in range. A checksum does not say who wrote them.
    pub(crate) fn is_possible(&self) -> bool {
        let mut counts = vec![self.checkpoint];
        for split in self.sources.iter().flat_map(|source| &source.splits) {
            counts.extend([split.at.unwrap_or(0), split.line, split.rows]);
        }
        let mut sizes: Vec<u64> = self.blobs().flat_map(|blob| [blob.offset, blob.bytes]).collect();
        sizes
            .extend(self.aggregations.iter().flat_map(|a| a.tables.iter().chain(&a.slices)).map(|table| table.entries));
        let waiting = self.operators.iter().flat_map(|o| &o.partitions).flat_map(|partition| &partition.waiting);
        sizes.extend(waiting.flat_map(|rows| [rows.about.rows as u64, rows.about.bytes as u64]));
        let partitions = self.operators.iter().flat_map(|operator| &operator.partitions);
        let ages = partitions.flat_map(|partition| {
            partition.runs.iter().map(|run| run.after_ms).chain(std::iter::once(partition.aged_ms))
        });
        counts.extend(ages.map(|age| u64::try_from(age).unwrap_or(u64::MAX)));
        let JobPartitions { tables, keys } = self.partitions;
        let mut of_tables = self.aggregations.iter().flat_map(|a| a.tables.iter().chain(&a.slices));
        let mut of_operators = self.operators.iter().map(|operator| operator.partitions.len());
        let are_as_said = [tables, keys].into_iter().all(JobPartitions::is_possible)
            && of_tables.all(|table| table.partitions.len() == tables as usize)
            && of_operators.all(|count| match self.format {
                FORMAT_OF_PARTITIONS.. => count == 0 || count == keys as usize,
                // An operator that was new had as many as suited it.
                _ => count == 0 || u32::try_from(count).is_ok_and(JobPartitions::is_possible),
            });
        are_as_said
            && counts.into_iter().all(|count| count < MOST_COUNTED)
            && sizes.into_iter().all(|size| size < MOST_STORED)
            && self.inputs().all(|input| input < MOST_INPUTS)
            && self.sources.iter().flat_map(|source| &source.splits).all(SplitState::is_possible)
    }

    /// The numbers of all inputs of pipelines.
    pub fn inputs(&self) -> impl Iterator<Item = u16> {
        let aggregations = self.aggregations.iter().map(|aggregation| aggregation.number);
        let operators = self.operators.iter().map(|operator| operator.number);
        aggregations.chain(operators).chain(self.sources.iter().map(|source| source.number))
    }

    /// All blobs that the checkpoint consists of.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        self.state_blobs().chain(self.nodes.iter().map(|node| &node.manifest))
    }

    fn state_blobs(&self) -> impl Iterator<Item = &BlobRef> {
        let tables = self.aggregations.iter().flat_map(|a| a.tables.iter().chain(&a.slices));
        let tables = tables.flat_map(|table| table.partitions.iter().flatten());
        tables.chain(self.operators.iter().flat_map(OperatorState::blobs))
    }

    /// The files that it consists of.
    pub fn files(&self) -> BTreeSet<Arc<str>> {
        let of_nodes = self.nodes.iter().flat_map(|node| node.files.iter().cloned());
        self.blobs().map(|blob| Arc::clone(&blob.file)).chain(of_nodes).collect()
    }

    /// Bytes of state.
    pub fn state_bytes(&self) -> u64 {
        match self.nodes.is_empty() {
            true => self.state_blobs().map(|blob| blob.bytes).sum(),
            false => self.nodes.iter().map(|node| node.state_bytes).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let blob = BlobRef { file: "state-1.bin".into(), offset: 16, bytes: 100, checksum: 7 };
        let split = SplitState { name: "a.csv".into(), at: Some(10), line: 3, rows: 2, ..SplitState::default() };
        let about = WaitingRows { input: 0, rows: 2, bytes: 64, earliest: 1, due: 2 };
        let partition = PartitionState {
            state: blob.clone(),
            runs: vec![RunState { blob: blob.clone(), level: 1, after_ms: 20 }],
            aged_ms: 7,
            due: 5,
            waiting: vec![WaitingState { blob: blob.clone(), about }],
        };
        let mut partitions = vec![vec![]; JobPartitions::TABLES as usize];
        partitions[0].push(blob);
        let table = TableState { id: 1, entries: 2, partitions };
        Manifest {
            format: FORMAT,
            checkpoint: 4,
            job: "job".into(),
            name: Some("clicks per minute".into()),
            written_ms: 1,
            version: "0".into(),
            is_finished: false,
            is_later: false,
            shape: Value::Null,
            partitions: JobPartitions { keys: 1, ..JobPartitions::default() },
            sources: vec![SourceState { table: "t".into(), number: 0, splits: vec![split] }],
            aggregations: vec![AggregationState {
                number: 1,
                watermark: 0,
                tables: vec![table],
                slices: vec![],
                swept: None,
            }],
            operators: vec![OperatorState { number: 2, watermark: 0, partitions: vec![partition], windows: vec![] }],
            sinks: vec![SinkState::new(0, "t".into())],
            bytes_written: 0,
            nodes: vec![],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Manifest::decode(&manifest().encode()).unwrap(), manifest());
    }

    #[test]
    fn formats_before_the_oldest_and_behind_this_one_are_refused() {
        for (format, is_read) in
            [(OLDEST_FORMAT - 1, false), (OLDEST_FORMAT, true), (FORMAT, true), (FORMAT + 1, false)]
        {
            let decoded = Manifest::decode(&Manifest { format, ..manifest() }.encode());
            assert_eq!(decoded.is_ok(), is_read, "{format}");
            if let Err(Damaged(what)) = decoded {
                let numbers = [format, OLDEST_FORMAT, FORMAT].map(|number| number.to_string());
                assert!(is_of_other_format(&what) && numbers.iter().all(|number| what.contains(number)), "{what}");
            }
        }
    }

    #[test]
    fn numbers_that_no_checkpoint_has_are_damage() {
        let places: [fn(&mut Manifest) -> &mut u64; 8] = [
            |m| &mut m.checkpoint,
            |m| m.sources[0].splits[0].at.as_mut().unwrap(),
            |m| &mut m.sources[0].splits[0].line,
            |m| &mut m.sources[0].splits[0].rows,
            |m| &mut m.aggregations[0].tables[0].entries,
            |m| &mut m.aggregations[0].tables[0].partitions[0][0].offset,
            |m| &mut m.operators[0].partitions[0].state.bytes,
            |m| &mut m.operators[0].partitions[0].runs[0].blob.offset,
        ];
        for (number, place) in places.into_iter().enumerate() {
            let mut damaged = manifest();
            *place(&mut damaged) = u64::MAX - 3;
            let error = Manifest::decode(&damaged.encode()).unwrap_err();
            assert!(error.0.contains("no checkpoint has"), "{number}: {error:?}");
        }
    }
}
