//! The checkpoint that a query is recovered from, as its sources and stations see it.

use super::blobs::{CheckpointedBlob, StateBlob};
use super::checkpointing::Checkpointing;
use crate::exchange::{NamedSplit, seen};
use crate::source::split::Begin;
use millstream_connectors::{Position, SplitReader};
use millstream_plan::pipeline::{QueryPlan, SourcePlan};
use millstream_storage::{BlobRef, Manifest, SplitState, Store};
use millstream_types::{Diagnostic, code};
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// See the module; checked to be of a plan with as many parts.
pub(crate) struct Restored<'a> {
    checkpointing: &'a Checkpointing,
    manifest: &'a Manifest,
    /// Sources that are read from their beginning: new ones, and those that were read to their end before the first checkpoint.
    is_fresh: Vec<bool>,
}

/// A split of a query that is recovered.
pub(crate) struct RestoredSplit {
    /// `None` if it had ended, and may be gone.
    pub(crate) reader: Option<Box<dyn SplitReader>>,
    /// Its name.
    pub(crate) name: String,
    /// Its number among those of the source.
    pub(crate) number: u32,
    /// How its reader begins.
    pub(crate) begin: Begin,
    /// How far it had come.
    pub(crate) position: Option<Position>,
    /// Rows before that.
    pub(crate) rows: u64,
    /// Rows behind it that are dropped.
    pub(crate) behind: u64,
    /// What a checkpoint says of what was read.
    pub(crate) input: Option<Value>,
    /// What the watermark is raised to when all that is there has been read.
    pub(crate) held: Option<i64>,
}

impl<'a> Restored<'a> {
    /// Of a checkpoint for a plan.
    pub(crate) fn new(checkpointing: &'a Checkpointing, plan: &QueryPlan) -> Result<Option<Restored<'a>>, Diagnostic> {
        let Some(recovered) = &checkpointing.config.restored else { return Ok(None) };
        let manifest = recovered.manifest();
        let saved = (manifest.sources.len(), manifest.aggregations.len(), manifest.operators.len());
        if saved != (plan.sources.len(), plan.aggregations.len(), plan.operators.len()) {
            return Err(Diagnostic::bug("a checkpoint was taken for a plan that it does not fit"));
        }
        let last = plan.sources.iter().map(|source| source.phase).max().unwrap_or(0);
        let is_fresh = |(i, source): (usize, &SourcePlan)| source.phase < last || recovered.is_new_source(i);
        let is_fresh = plan.sources.iter().enumerate().map(is_fresh).collect();
        Ok(Some(Restored { checkpointing, manifest, is_fresh }))
    }

    /// What it says of itself.
    pub(crate) fn manifest(&self) -> &'a Manifest {
        self.manifest
    }

    /// Where its files are.
    pub(crate) fn store(&self) -> &'a Arc<dyn Store> {
        self.checkpointing.config.checkpoints.store()
    }

    /// Has the files of blobs stay as long as somebody has what is read from them when it is needed.
    pub(crate) fn keep<'b, T: Send + Sync + 'static>(
        &self,
        restored: &Arc<T>,
        blobs: impl IntoIterator<Item = &'b BlobRef>,
    ) {
        let files = blobs.into_iter().map(|blob| Arc::clone(&blob.file)).collect();
        let restored: Weak<dyn Any + Send + Sync> = Arc::<T>::downgrade(restored);
        self.checkpointing.restored.lock().push((restored, files));
    }

    /// A blob of it, to be read when it is needed.
    pub(crate) fn blob(&self, blob: &BlobRef) -> StateBlob {
        let stored = Arc::new(CheckpointedBlob { store: Arc::clone(self.store()), blob: blob.clone() });
        self.keep(&stored, [blob]);
        StateBlob::Checkpointed(stored)
    }

    /// The names of the splits of a source that is not read from the start.
    pub(crate) fn names(&self, source: usize) -> Vec<&'a str> {
        let state = self.manifest.sources.get(source).filter(|_| !self.is_fresh[source]);
        state.into_iter().flat_map(|state| &state.splits).map(|split| split.name.as_str()).collect()
    }

    /// The numbers of those of them that have not ended, with the rows that they had.
    pub(crate) fn rows_of_splits(&self, source: usize) -> impl Iterator<Item = (u32, u64)> + 'a {
        let state = self.manifest.sources.get(source).filter(|_| !self.is_fresh[source]);
        let splits = state.into_iter().flat_map(|state| &state.splits).filter(|split| !split.ended);
        splits.map(|split| (split.number, split.rows))
    }

    /// The watermark that a split of a source had; `None` for sources that are read from the start.
    pub(crate) fn watermark(&self, source: usize, split: &str) -> Option<i64> {
        let state = self.manifest.sources.get(source).filter(|_| !self.is_fresh[source])?;
        let before = state.splits.iter().find(|before| before.name == split);
        Some(before.map_or(i64::MIN, |before| before.watermark))
    }

    /// Splits of a source that are `read` here as they were, in their order, then those that are new.
    pub(crate) fn splits(
        &self,
        source: usize,
        readers: Vec<NamedSplit>,
        is_read: impl Fn(u32) -> bool,
    ) -> Result<Vec<RestoredSplit>, Diagnostic> {
        if self.is_fresh[source] {
            return RestoredSplit::all_fresh(readers, is_read);
        }
        let state = &self.manifest.sources[source];
        let order: Vec<String> = readers.iter().map(|(name, _)| name.clone()).collect();
        let mut found: BTreeMap<String, NamedSplit> =
            readers.into_iter().map(|split| (split.0.clone(), split)).collect();
        let mut splits = Vec::with_capacity(found.len());
        for split in &state.splits {
            let SplitState { name, number, at, line, rows, behind, held, ended, input, .. } = split.clone();
            let reader = found.remove(&name).and_then(|(_, reader)| reader);
            if !is_read(number) {
                continue;
            }
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
            let rows = rows - behind;
            splits.push(RestoredSplit { reader, name, number, begin, position, rows, behind, input, held });
        }
        let next = state.splits.iter().map(|split| split.number + 1).max().unwrap_or(0);
        let new = order.into_iter().filter_map(|name| found.remove(&name)).zip(next..);
        for (split, number) in new.filter(|(_, number)| is_read(*number)) {
            let new = RestoredSplit::fresh(seen(split)?, number);
            splits.push(RestoredSplit { begin: Begin::Resume(None), ..new });
        }
        Ok(splits)
    }

    /// What a constant source begins with.
    pub(crate) fn constant(&self, source: usize) -> Begin {
        let has_ended = self.manifest.sources[source].splits.first().is_some_and(|split| split.ended);
        if has_ended && !self.is_fresh[source] { Begin::Ended } else { Begin::Fresh }
    }
}

impl RestoredSplit {
    /// A split of which nothing has been read.
    pub(crate) fn of(name: String, number: u32, begin: Begin) -> RestoredSplit {
        RestoredSplit { reader: None, name, number, begin, position: None, rows: 0, behind: 0, input: None, held: None }
    }

    /// Splits that no checkpoint knows, as far as they are read here.
    pub(crate) fn all_fresh(
        splits: Vec<NamedSplit>,
        is_read: impl Fn(u32) -> bool,
    ) -> Result<Vec<RestoredSplit>, Diagnostic> {
        let read = splits.into_iter().zip(0..).filter(|(_, number)| is_read(*number));
        read.map(|(split, number)| Ok(RestoredSplit::fresh(seen(split)?, number))).collect()
    }

    /// A split that no checkpoint knows.
    pub(crate) fn fresh(reader: Box<dyn SplitReader>, number: u32) -> RestoredSplit {
        let name = reader.name().to_string();
        RestoredSplit { reader: Some(reader), ..RestoredSplit::of(name, number, Begin::Fresh) }
    }
}
