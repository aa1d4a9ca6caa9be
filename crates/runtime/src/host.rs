//! What a run offers to its stations and sources: configuration, counters, memory, files, and the checkpoint under way.
//!
//! Nothing here holds a stream or a station, so whoever has it can change nothing of another part of the query.

use crate::buffer::Rows;
use crate::columns::bytes_of;
use crate::config::RunConfig;
use crate::durable::checkpointing::{Checkpointing, Handed};
use crate::durable::generations::TableGenerations;
use crate::durable::part::Gathering;
use crate::durable::spilling::{Spilling, UNCONSUMED};
use crate::exchange::Nodes;
use crate::ids::Generation;
use crate::row_errors::RowErrors;
use crate::schedule::beats::Beats;
use crate::schedule::buffer_size::BufferSize;
use crate::schedule::flow::Flow;
use crate::station::Unconsumed;
use crate::stats::QueryStats;
use crate::stream::Stream;
use millstream_storage::JobPartitions;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Most rows of a buffer where beats are of event time.
const ROWS_IN_BEATS: usize = 8 << 10;

/// See the module.
pub(crate) struct Host {
    pub(crate) config: RunConfig,
    /// Where the query runs on several nodes.
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// Into how many partitions state is cut.
    pub(crate) partitions: JobPartitions,
    pub(crate) stats: Arc<QueryStats>,
    pub(crate) flow: Arc<Flow>,
    pub(crate) spilling: Spilling,
    pub(crate) buffer_size: BufferSize,
    pub(crate) checkpointing: Option<Arc<Checkpointing>>,
    /// Where results change.
    pub(crate) beats: Option<Beats>,
    pub(crate) tables: TableGenerations,
    /// Whether time is that of processing for some source, so that stations say what watermarks they wait for.
    pub(crate) follows_clock: bool,
}

impl Host {
    /// Collects bad rows as the run's policy says.
    pub(crate) fn row_errors(&self) -> RowErrors<'_> {
        RowErrors::new(self.config.error_policy, &self.stats)
    }

    /// Most rows of a buffer of a source: a beat of event time may end in any, and what is behind its end is looked through again.
    pub(crate) fn most_rows_in_beats(&self) -> usize {
        if self.beats.as_ref().is_some_and(Beats::is_event_time) { ROWS_IN_BEATS } else { usize::MAX }
    }

    /// Whether a beat ends before a generation.
    pub(crate) fn ends_beat(&self, generation: Generation) -> bool {
        self.beats.as_ref().is_some_and(|beats| beats.ends_before(generation))
    }

    /// The checkpoint that ends before a generation, if there is one.
    pub(crate) fn checkpoint_before(&self, generation: Generation) -> Option<u64> {
        self.checkpointing.as_ref()?.before(generation)
    }

    /// Hands a part of the checkpoint over that ends before a generation, if there is one. It never waits, so it happens under the
    /// lock of whatever the part is of: a checkpoint that a station says it has passed is one that it has handed its part of.
    pub(crate) fn hand_over(
        &self,
        generation: Generation,
        part: impl FnOnce(&mut Gathering) -> Result<bool, Diagnostic> + Send + 'static,
    ) {
        if let Some(checkpointing) = &self.checkpointing {
            checkpointing.hand_over(generation, || Handed::Part(Box::new(part)));
        }
    }

    /// Whether a task may put out a unit of a stream now. That of the next unit always may: nothing in its stream comes before it,
    /// so its rows are consumed by what reads the stream, whose tasks may run by the same rule, down to the sinks. So nobody
    /// waits forever.
    pub(crate) fn may_put_out(&self, stream: &Stream, unit: u64) -> bool {
        let is_little = match (self.spilling.may_spill(), self.spilling.is_eager()) {
            (false, _) => true,
            // For tests: whatever can wait does.
            (true, true) => false,
            (true, false) => self.flow.budget.in_flight() <= self.flow.budget.limit() / UNCONSUMED,
        };
        is_little || unit <= stream.next_unit()
    }

    /// Rows with a permit that tells when they are consumed.
    pub(crate) fn held(&self, mut rows: Rows, output: &mut Unconsumed) -> Rows {
        let bytes = bytes_of(&rows.columns);
        let permit = Arc::new(self.flow.hold(bytes));
        output.note(&permit, bytes as u64);
        rows.permit = Some(permit);
        rows
    }
}
