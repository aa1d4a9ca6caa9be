//! Manifests of nodes: what each node of a job has to say of a checkpoint, and how that becomes one whole.
//!
//! A node writes its manifest behind its state, as the last blob of its files. The manifest of the checkpoint names those of all nodes
//! ([`NodeFiles`]) and has no sources, aggregations and operators of its own. Whoever reads it gets what one process would have written:
//! splits of all nodes, tables of all nodes, the partitions of an operator in their order. So a job resumes on any number of nodes.

use crate::bytes::Damaged;
use crate::manifest::{AggregationState, BlobRef, Manifest, OperatorState, SourceState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a node keeps of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeManifest {
    /// That of the manifest of the checkpoint.
    pub format: u32,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The number of the node.
    pub node: usize,
    /// Sources of the plan, with the splits that the node reads.
    pub sources: Vec<SourceState>,
    /// Windowed aggregations of the plan: tables of the node's own rows, whoever owns their keys, and those that it owns.
    pub aggregations: Vec<AggregationState>,
    /// Keyed operators of the plan, with the partitions that the node owns.
    pub operators: Vec<OperatorState>,
    /// By sink of the plan: the token of the span that the node has written. None of the first node, whose tokens are in the manifest of the
    /// checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Option<Value>>,
}

/// Where a node has put what it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFiles {
    /// Its manifest.
    pub manifest: BlobRef,
    /// The files that this names.
    pub files: BTreeSet<Arc<str>>,
    /// Bytes of all blobs that it names.
    pub state_bytes: u64,
}

impl NodeManifest {
    /// The bytes of the blob.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest has no maps with keys that are not texts")
    }

    /// From the bytes of the blob: that of this checkpoint, in the format of its manifest, and of this node.
    pub fn decode(bytes: &[u8], format: u32, checkpoint: u64, node: usize) -> Result<NodeManifest, Damaged> {
        let manifest: NodeManifest = serde_json::from_slice(bytes).map_err(|e| Damaged(e.to_string()))?;
        let said = (manifest.format, manifest.checkpoint, manifest.node);
        let what = "the manifest of a node is not that of the checkpoint that names it";
        Damaged::unless(said == (format, checkpoint, node), what)?;
        Ok(manifest)
    }

    /// All blobs that it names.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        self.aggregations
            .iter()
            .flat_map(AggregationState::blobs)
            .chain(self.operators.iter().flat_map(OperatorState::blobs))
    }
}

impl Manifest {
    /// The same with what nodes keep, in the order of their numbers, as if one process kept it.
    ///
    /// # Errors
    /// When they do not fit each other.
    pub fn with_nodes(mut self, nodes: Vec<NodeManifest>) -> Result<Manifest, Damaged> {
        let mut nodes = nodes.into_iter();
        if let Some(first) = nodes.next() {
            (self.sources, self.aggregations, self.operators) = (first.sources, first.aggregations, first.operators);
        }
        for node in nodes {
            self.add_tokens(node.tokens)?;
            let (here, there) = (self.parts(), (node.sources.len(), node.aggregations.len(), node.operators.len()));
            Damaged::unless(here == there, "its nodes keep different things")?;
            self.sources.iter_mut().zip(node.sources).for_each(|(all, source)| all.add(source));
            self.aggregations.iter_mut().zip(node.aggregations).for_each(|(all, of_node)| all.add(of_node));
            self.operators.iter_mut().zip(node.operators).for_each(|(all, of_node)| all.add(of_node));
        }
        self.sources.iter_mut().for_each(|source| source.splits.sort_by_key(|split| split.number));
        Damaged::unless(self.is_possible(), "it has numbers that no checkpoint has")?;
        Ok(self)
    }

    /// Adds the tokens of the spans that another node has written, by sink.
    ///
    /// # Errors
    /// When there are more than sinks.
    pub fn add_tokens(&mut self, tokens: Vec<Option<Value>>) -> Result<(), Damaged> {
        Damaged::unless(tokens.len() <= self.sinks.len(), "a node has written for a sink that is not there")?;
        for (sink, token) in self.sinks.iter_mut().zip(tokens) {
            sink.others.extend(token);
        }
        Ok(())
    }

    fn parts(&self) -> (usize, usize, usize) {
        (self.sources.len(), self.aggregations.len(), self.operators.len())
    }
}

impl SourceState {
    /// Adds the splits that another node reads. Those of a source that is looked up are read by every node.
    pub fn add(&mut self, other: SourceState) {
        let own: BTreeSet<u32> = self.splits.iter().map(|split| split.number).collect();
        self.splits.extend(other.splits.into_iter().filter(|split| !own.contains(&split.number)));
    }
}

impl AggregationState {
    fn blobs(&self) -> impl Iterator<Item = &BlobRef> {
        self.tables.iter().chain(&self.slices).flat_map(|table| table.partitions.iter().flatten())
    }

    /// Adds what another node has. Windows have been fired up to the same watermark everywhere; one without rows may not have had to look.
    fn add(&mut self, other: AggregationState) {
        self.watermark = self.watermark.min(other.watermark);
        self.tables.extend(other.tables);
        self.slices.extend(other.slices);
        let both = self.swept.zip(other.swept).map(|(a, b)| (a.0.max(b.0), a.1.max(b.1)));
        self.swept = both.or(self.swept).or(other.swept);
    }
}

impl OperatorState {
    /// Adds the partitions of the next node.
    fn add(&mut self, other: OperatorState) {
        self.watermark = self.watermark.min(other.watermark);
        self.partitions.extend(other.partitions);
        let windows: BTreeSet<i64> = self.windows.iter().chain(&other.windows).copied().collect();
        self.windows = windows.into_iter().collect();
    }
}
