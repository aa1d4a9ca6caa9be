//! How the workers share the tables of an aggregation.

use crate::config::{MergeStrategy, RunConfig};
use millstream_abi::EntryLayout;
use millstream_codegen::partition::can_partition;

/// How the tables of an aggregation with entries of this layout are merged: as was asked for, if that is possible.
pub fn merge_strategy(config: &RunConfig, layout: &EntryLayout) -> MergeStrategy {
    match config.merge {
        MergeStrategy::Partition if can_partition(layout) => MergeStrategy::Partition,
        _ => MergeStrategy::Local,
    }
}
