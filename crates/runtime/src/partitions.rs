//! Into how many partitions the state of a job is cut.

use crate::config::{RunConfig, When};
use millstream_storage::JobPartitions;

/// Partitions of keyed operators, usually.
const FEWER: u32 = 64;
/// The same where memory is little.
const MORE: u32 = 256;
/// Where memory is little: a budget of less than this many bytes.
const LITTLE: u64 = 512 << 20;
/// Where it is so little that of more partitions each would be a file of a few kilobytes.
const LEAST: u64 = 32 << 20;

impl RunConfig {
    /// The partitions of a job: those that its user asks for, or those of the checkpoint that it resumes from, or what suits it.
    pub fn partitions(&self, restored: Option<JobPartitions>) -> JobPartitions {
        let may_spill = self.spill.mode != When::Never;
        let suitable = || JobPartitions { keys: keys(self.memory_bytes(), may_spill), ..JobPartitions::default() };
        let before = restored.unwrap_or_else(suitable);
        self.other_partitions(before).unwrap_or(before)
    }
}

/// How many partitions suit the keyed operators of a query that has `limit` bytes and may spill, or not. One
/// partition has to fit into memory with what its jobs need, beside those that other workers are at, when all of them
/// together are many times as large as memory. So there are more where that is little, although routing rows costs more
/// then: of ten million sessions one of 64 partitions takes 44 MiB.
fn keys(limit: u64, may_spill: bool) -> u32 {
    if may_spill && (LEAST..LITTLE).contains(&limit) { MORE } else { FEWER }
}
