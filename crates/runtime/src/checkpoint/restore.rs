//! From a manifest to a query that goes on where the checkpoint was taken.

use super::{CheckpointConfig, CheckpointedBlob, Checkpointing, Restorable, StateBlob};
use crate::keyed;
use crate::overlap::Sweep;
use crate::query::Query;
use crate::source::Begin;
use crate::tables::{Frozen, FrozenByNumber, damaged};
use millstream_connectors::{Position, SplitReader};
use millstream_plan::pipeline::{PipelineInput, QueryPlan};
use millstream_state::PARTITIONS;
use millstream_storage::{BlobRef, Manifest, SplitState, Store, TableState};
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The checkpoint that a query is recovered from; checked to be of a plan with as many parts.
pub(crate) struct Restored<'a> {
    manifest: &'a Manifest,
    store: &'a Arc<dyn Store>,
    /// Sources that were read to their end before the first checkpoint, and are read anew.
    is_looked_up: Vec<bool>,
}

/// A split of a query that is recovered.
pub(crate) struct RestoredSplit {
    /// `None` if it had ended, and may be gone.
    pub(crate) reader: Option<Box<dyn SplitReader>>,
    /// Its name.
    pub(crate) name: String,
    /// Number of its stream, if it had one.
    pub(crate) stream: Option<u32>,
    /// How its reader begins.
    pub(crate) begin: Begin,
    /// How far it had come.
    pub(crate) position: Option<Position>,
    /// Rows before that.
    pub(crate) rows: u64,
    /// What a checkpoint says of what was read.
    pub(crate) input: Option<Value>,
}

impl<'a> Restored<'a> {
    /// Of a checkpoint for a plan.
    pub(crate) fn new(config: &'a CheckpointConfig, plan: &QueryPlan) -> Result<Option<Restored<'a>>, Diagnostic> {
        let Some(manifest) = &config.restored else { return Ok(None) };
        let saved = (manifest.sources.len(), manifest.aggregations.len(), manifest.operators.len());
        if saved != (plan.sources.len(), plan.aggregations.len(), plan.operators.len()) {
            return Err(Diagnostic::bug("a checkpoint was taken for a plan that it does not fit"));
        }
        let last = plan.sources.iter().map(|source| source.phase).max().unwrap_or(0);
        let is_looked_up = plan.sources.iter().map(|source| source.phase < last).collect();
        Ok(Some(Restored { manifest, store: config.checkpoints.store(), is_looked_up }))
    }

    /// Splits of a source as they were, in their order, then those that are new.
    pub(crate) fn splits(
        &self,
        source: usize,
        readers: Vec<Box<dyn SplitReader>>,
    ) -> Result<Vec<RestoredSplit>, Diagnostic> {
        if self.is_looked_up[source] {
            return Ok(readers.into_iter().map(RestoredSplit::fresh).collect());
        }
        let state = &self.manifest.sources[source];
        let mut found: BTreeMap<String, Box<dyn SplitReader>> = BTreeMap::new();
        let mut order = Vec::new();
        for reader in readers {
            order.push(reader.name().to_string());
            found.insert(reader.name().to_string(), reader);
        }
        let mut splits = Vec::with_capacity(found.len());
        for split in &state.splits {
            let SplitState { name, stream, at, line, rows, ended, input, .. } = split.clone();
            let reader = found.remove(&name);
            if reader.is_none() && !ended && at.is_some() {
                let message = format!("'{name}' of table {} is gone, but had not been read to its end", state.table);
                return Err(Diagnostic::new(code::INPUT_CHANGED, message));
            }
            if reader.is_none() && !ended {
                // Nothing had been read of it.
                continue;
            }
            if let (Some(reader), Some(input)) = (&reader, &input) {
                reader.verify(input, ended)?;
            }
            let position = at.map(|at| Position { at, line });
            let begin = match (ended, position) {
                (true, _) => Begin::Ended,
                (false, Some(_)) => Begin::Resume(position),
                (false, None) => Begin::Fresh,
            };
            splits.push(RestoredSplit { reader, name, stream: Some(stream), begin, position, rows, input });
        }
        let new = order.into_iter().filter_map(|name| found.remove(&name));
        splits.extend(new.map(|reader| RestoredSplit { begin: Begin::Resume(None), ..RestoredSplit::fresh(reader) }));
        Ok(splits)
    }

    /// The number of a constant source's stream, if it had one.
    pub(crate) fn stream_of_constant(&self, source: usize) -> Option<u32> {
        let split = self.manifest.sources[source].splits.first()?;
        (!self.is_looked_up[source]).then_some(split.stream)
    }

    /// The number of the stream of an output, if it is one.
    pub(crate) fn stream_of_output(&self, input: PipelineInput) -> Option<u32> {
        match input {
            PipelineInput::Source(_) => None,
            PipelineInput::Aggregation(aggregation) => Some(self.manifest.aggregations[aggregation].stream),
            PipelineInput::Operator(operator) => Some(self.manifest.operators[operator].stream),
        }
    }

    /// The number of the first stream that had none.
    pub(crate) fn next_stream(&self) -> u32 {
        self.manifest.streams().max().map_or(0, |last| last + 1)
    }

    /// What a constant source begins with.
    pub(crate) fn constant(&self, source: usize) -> Begin {
        let has_ended = self.manifest.sources[source].splits.first().is_some_and(|split| split.ended);
        if has_ended && !self.is_looked_up[source] { Begin::Ended } else { Begin::Fresh }
    }

    /// Rows that the output of an operator counts from, so that rows from before come before those to come.
    pub(crate) fn rows_of_outputs(&self) -> u64 {
        self.manifest.checkpoint << 40
    }

    /// The bits of hashes that chose the partitions of an operator. One that had ended keeps nothing, so any serve.
    pub(crate) fn partition_bits(&self, operator: usize) -> Option<u32> {
        keyed::bits_of_partitions(self.manifest.operators[operator].partitions.len())
    }

    /// Puts state back where it was.
    pub(crate) fn restore(&self, query: &Query, checkpointing: &Checkpointing) -> Result<(), Diagnostic> {
        for (aggregation, state) in query.aggregations.iter().zip(&self.manifest.aggregations) {
            let tables = |states: &[TableState]| {
                let mut tables = FrozenByNumber::new();
                for state in states {
                    if state.partitions.len() != PARTITIONS {
                        return Err(damaged(millstream_storage::Damaged("a table lacks partitions".into())));
                    }
                    let bytes =
                        state.partitions.iter().flatten().fold(0, |sum: u64, blob| sum.saturating_add(blob.bytes));
                    if state.entries > bytes {
                        return Err(damaged(millstream_storage::Damaged("a table has more entries than bytes".into())));
                    }
                    let frozen = Frozen::restored(Arc::clone(self.store), state.clone(), aggregation.types.clone());
                    if let Some(stored) = frozen.stored() {
                        let stored: Weak<dyn Restorable> = Arc::downgrade(&(stored as Arc<dyn Restorable>));
                        checkpointing.note_restored(stored);
                    }
                    tables.entry(state.id).or_default().push(Arc::new(frozen));
                }
                Ok(tables)
            };
            aggregation.restore(state.watermark);
            aggregation.tables.restore(tables(&state.tables)?);
            if let (Some(overlap), Some((last, until))) = (&aggregation.overlap, state.swept) {
                // Windows between the two are looked at one by one.
                let windows = overlap.overlap;
                if until.saturating_sub(last) > windows.windows_per_slice().saturating_mul(windows.step_ms()) {
                    return Err(damaged(millstream_storage::Damaged("windows hold slices that are not theirs".into())));
                }
                // One of before would begin with windows that were fired, and all from there on would be looked at.
                if state.tables.iter().any(|table| windows.table(table.id).from_end <= last) {
                    return Err(damaged(millstream_storage::Damaged("a slice is of windows that were fired".into())));
                }
                *overlap.sweep.lock() = Sweep::restored(last, until);
                overlap.swept.lock().restore(tables(&state.slices)?);
            }
        }
        let blob = |blob: &BlobRef| {
            let stored = Arc::new(CheckpointedBlob { store: Arc::clone(self.store), blob: blob.clone() });
            checkpointing.note_restored(Arc::downgrade(&(Arc::clone(&stored) as Arc<dyn Restorable>)));
            StateBlob::Checkpointed(stored)
        };
        for (operator, state) in query.operators.iter().zip(&self.manifest.operators) {
            operator.restore(state.watermark, state.windows.iter().copied());
            if !state.partitions.is_empty() && state.partitions.len() != operator.partitions() {
                return Err(damaged(millstream_storage::Damaged("an operator lacks partitions".into())));
            }
            for (partition, state) in state.partitions.iter().enumerate() {
                operator.restore_partition(partition, state, blob)?;
            }
        }
        let watermarks = (self.manifest.sources.iter().enumerate()).filter(|(source, _)| !self.is_looked_up[*source]);
        let watermarks = watermarks.flat_map(|(source, state)| {
            query.sources[source].splits.iter().map(move |split| {
                let name = split.name();
                let before = state.splits.iter().find(|before| before.name == **name);
                (split.stream, before.map_or(i64::MIN, |before| before.watermark))
            })
        });
        *query.restored_watermarks.lock() = watermarks.collect();
        Ok(())
    }
}

impl RestoredSplit {
    /// A split that no checkpoint knows.
    pub(crate) fn fresh(reader: Box<dyn SplitReader>) -> RestoredSplit {
        let name = reader.name().to_string();
        RestoredSplit {
            reader: Some(reader),
            name,
            stream: None,
            begin: Begin::Fresh,
            position: None,
            rows: 0,
            input: None,
        }
    }
}

/// Watermarks that streams begin with, until the query starts.
pub(crate) type RestoredWatermarks = Mutex<Vec<(usize, i64)>>;

impl Query {
    /// Has all streams of a query that is recovered go on from the watermarks that they had.
    pub(crate) fn raise_restored(&self) {
        let watermarks = std::mem::take(&mut *self.restored_watermarks.lock());
        if watermarks.is_empty() {
            return;
        }
        for (stream, watermark) in watermarks {
            // A split that was silent, or is new, comes after what was decided without it.
            let decided = self.streams[stream].channels.iter().map(|&channel| self.decided(channel)).max();
            let floor = watermark.max(decided.unwrap_or(i64::MIN));
            let consequences = self.streams[stream].raise(floor);
            self.act_on(stream, consequences);
        }
        for (stream, state) in self.streams.iter().enumerate() {
            let watermark = match state.input {
                PipelineInput::Source(_) => continue,
                PipelineInput::Aggregation(aggregation) => self.aggregations[aggregation].progress().watermark(),
                PipelineInput::Operator(operator) => self.operators[operator].output_watermark(),
            };
            // The end of what has ended comes with its end.
            if watermark < i64::MAX {
                let consequences = self.streams[stream].raise(watermark);
                self.act_on(stream, consequences);
            }
        }
    }
}
