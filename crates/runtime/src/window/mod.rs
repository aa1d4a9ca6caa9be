//! Windowed aggregations: rows go into tables of their slices, complete tables become windows, windows become rows.
//!
//! ```text
//! take ─► tables of open slices ─► trigger: a watermark completes windows ─► seal, merge or combine ─► output stream
//!    └──► lanes, where rows are exchanged by key first ─► fold ─┘
//! ```
//!
//! - `tables`, `task_tables`: the tables of open slices, and what the callbacks of generated code work on.
//! - `strategy`: whether workers share tables, and whether they append rows.
//! - `trigger`: from complete tables to windows (`firing`) and their rows.
//! - `overlap`, `sweep`, `combining`, `overlapping`: windows that share slices.
//! - `block_merges`: windows whose tables are in files, or large.
//! - `lanes`, `partitioned`: rows that are exchanged by key before they meet a table.
//! - `keeping`: cuts, checkpoints and spilling.

mod aggregation;
mod block_merges;
pub(crate) mod combining;
mod distributed;
mod exchange;
mod firing;
mod keeping;
mod lanes;
mod ordered;
mod overlap;
mod overlap_firing;
pub(crate) mod strategy;
mod sweep;
mod table_ids;
mod tables;
mod task_tables;
mod trigger;

use crate::adaptive::decisions::sharing::Sharing;
use crate::adaptive::slice_facts::SliceFacts;
use crate::config::{MergeStrategy, When};
use crate::durable::restored::Restored;
use crate::exchange::{Links, StationMessage};
use crate::host::Host;
use crate::ids::{Port, StationId, StreamId};
use crate::pipeline::{Arrived, WorkerContext};
use crate::pipeline_stages::{Staged, Tools};
use crate::station::progress::Progress;
use crate::station::{Consequences, Job, Spillable, Station, Unconsumed};
use crate::stats::TriggerStats;
use crate::stream::Stream;
use aggregation::Aggregation;
use block_merges::{MergeQueue, StoredMerge};
use distributed::{DistributedSlices, SentSlice};
use firing::Firing;
use lanes::LANES;
use millstream_abi::EntryLayout;
use millstream_codegen::execute::update;
use millstream_connectors::drop_columns;
use millstream_plan::pipeline::{Aggregation as Planned, ComponentOutput};
use millstream_plan::window::WindowAssigner;
use millstream_state::{Output, OutputTypes};
use millstream_storage::Manifest;
use millstream_sync::epoch_ring::Release;
use millstream_types::Diagnostic;
use overlap::OverlappingWindows;
use parking_lot::{Mutex, MutexGuard};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;
use strategy::{Strategy, merge_strategy};
use tables::{OpenTables, Owners};
use task_tables::TaskTables;

/// A windowed aggregation of a running query.
pub(crate) struct WindowStation {
    /// Position in the plan.
    number: usize,
    id: StationId,
    host: Arc<Host>,
    stats: Arc<TriggerStats>,
    /// The stream of its output.
    output: Arc<Stream>,
    windows: Aggregation,
    /// Where the query runs on several nodes.
    distributed: Option<DistributedSlices>,
    /// Windows that are merged block by block.
    merges: Mutex<MergeQueue>,
}

/// What a worker does for windows.
enum WindowJob {
    /// Puts the rows that wait in a lane into its tables.
    Fold(usize),
    /// Seals a table of a fired window.
    Seal(Arc<Firing>),
    /// Sends what a slice of this node has become to the owners of its keys.
    Send(Box<SentSlice>),
    /// Merges one range of partitions of a fired window.
    Merge(Arc<Firing>, usize),
    /// Resumes merging one range of partitions of a fired window with tables in files, after what it has put out.
    MergeStored(Box<StoredMerge>, Unconsumed),
    /// Makes overlapping windows in a range of partitions. After the first one, with what has been put out.
    Combine(usize, Option<Unconsumed>),
}

impl WindowStation {
    /// With `inputs` channels that end in it, whose programs have entries of `layout`; component `count` counts all rows, if one
    /// does.
    pub(crate) fn new(
        (number, id): (usize, StationId),
        plan: &Planned,
        (layout, count): (Arc<EntryLayout>, Option<usize>),
        (host, output): (&Arc<Host>, &Arc<Stream>),
        (inputs, nodes): (usize, usize),
        facts: Arc<SliceFacts>,
        links: Option<Links>,
    ) -> Result<WindowStation, Diagnostic> {
        let (config, budget) = (&host.config, &host.stats.aggregations[number].part_of(&host.flow.budget));
        let output_of = |output: &ComponentOutput| {
            let ComponentOutput { component, finish, data_type, .. } = output.clone();
            Output { component, finish, data_type }
        };
        let types = OutputTypes {
            keys: plan.keys.iter().map(|k| k.data_type.clone()).collect(),
            outputs: plan.outputs.iter().map(output_of).collect(),
        };
        let is_shown = |output: &Output| output.component < layout.accumulators.len();
        if layout.keys.len() != types.keys.len() || !types.outputs.iter().all(is_shown) {
            return Err(Diagnostic::bug("the entries of an aggregation do not fit its output"));
        }
        let overlap = match plan.assigner {
            WindowAssigner::Overlap(overlap) => Some(OverlappingWindows::new(overlap, (&layout, plan), config, budget)),
            _ => None,
        };
        let strategy = || Strategy::new(config, &layout, count, Arc::clone(&facts));
        let (lanes, nodes) = match merge_strategy(config, &layout) {
            MergeStrategy::Local => (0, 0),
            MergeStrategy::Partition => (LANES, 0),
            MergeStrategy::Global | MergeStrategy::Auto => (0, nodes),
        };
        let owners = Owners { own: config.workers + lanes, nodes, workers: config.workers };
        let spills = config.spill.mode != When::Never;
        let tables = || {
            let shape = (Arc::clone(&layout), types.clone());
            OpenTables::new(shape, owners, (config.dense_tables, spills), budget, Arc::clone(&facts))
        };
        let windows = (plan.assigner, plan.timeline);
        let distributed = links.map(|links| {
            let slices = Aggregation::new(windows, inputs, None, tables(), strategy()).of_several_nodes();
            DistributedSlices::new(links, slices)
        });
        let inputs = distributed.as_ref().map_or(inputs, DistributedSlices::nodes);
        Ok(WindowStation {
            number,
            id,
            host: Arc::clone(host),
            stats: Arc::clone(&host.stats.aggregations[number]),
            output: Arc::clone(output),
            windows: Aggregation::new(windows, inputs, overlap, tables(), strategy()),
            distributed,
            merges: Mutex::default(),
        })
    }

    /// Rows into tables.
    fn update(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let (windows, Arrived { pipeline, buffer, .. }) = (self.of_rows(), arrived);
        let of = (self.host.tables.of(buffer.stamp.generation), arrived.origin);
        let mut tables = TaskTables::new(windows, context.index, of, self.host.follows_clock);
        let mut code = pipeline.last_stage();
        if let (Sharing::Global, Some(shared)) =
            (windows.strategy.sharing(windows.tables.is_spilling_near()), &pipeline.code.shared)
        {
            (tables.node, code) = (Some(context.node), shared);
        }
        for piece in windows.pieces(buffer, pipeline.reads_watermark) {
            let mut tools = Tools::new(&self.host, &mut context.functions);
            pipeline.run(&self.host, Staged::new(buffer, piece), &mut tools, &mut |tools, rows| {
                tables.begin(&rows);
                // SAFETY: the layout is that of the program (`build` has checked it); the tables are this worker's, or
                // shared, and so is the program.
                let hooks = unsafe { tables.hooks() };
                let Tools { functions, errors, stats } = tools;
                let (columns, watermarks) = ((&*rows.columns, rows.zones()), &rows.watermarks);
                let outcome = code.run(columns.0, rows.rows, |kernel| {
                    update(&code.lowered, kernel, columns, rows.rows, watermarks, hooks, functions, &mut |e| {
                        errors.take(e)
                    })
                })?;
                stats.note_late(outcome.late_rows, || self.stats.name.clone());
                drop_columns(rows.columns);
                errors.fatal().map_or(Ok(ControlFlow::Continue(())), Err)
            })?;
        }
        windows.strategy.note_task(buffer.rows);
        let awaited = tables.end()?;
        Ok(Consequences { awaited, ..Consequences::finished(arrived.place) })
    }
}

impl Station for WindowStation {
    fn take(&self, arrived: &Arrived<'_>, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        match &arrived.pipeline.code.partitioned {
            Some(halves) => self.scatter(arrived, halves, context),
            None => self.update(arrived, context),
        }
    }

    fn perform(&self, job: Job, context: &mut WorkerContext) -> Result<Consequences, Diagnostic> {
        let started = Instant::now();
        let consequences = match job.take()? {
            // Its time is that of the pipeline.
            WindowJob::Fold(lane) => return self.fold(lane, &mut context.functions),
            WindowJob::Seal(firing) => self.seal(firing),
            WindowJob::Send(slice) => self.send_slice(*slice),
            WindowJob::Merge(firing, group) => self.merge_in_turn(firing, group),
            WindowJob::MergeStored(merge, output) => self.merge_stored(merge, output),
            WindowJob::Combine(lane, output) => self.combine(lane, output),
        };
        self.stats.spent(started.elapsed());
        consequences
    }

    fn settle(&self) -> Consequences {
        let mut consequences = Consequences::default();
        if let Some(distributed) = &self.distributed {
            self.settle_here(distributed, &mut consequences);
        }
        self.settle_windows(&mut consequences);
        consequences
    }

    fn release(&self, port: Port, release: Release) -> Consequences {
        self.release_here(port, release);
        self.settle()
    }

    fn set_idle(&self, port: Port, is_idle: bool) -> (i64, Consequences) {
        let watermark = self.set_idle_here(port, is_idle);
        (watermark, self.settle())
    }

    fn receive(&self, from: usize, message: StationMessage) -> Result<Consequences, Diagnostic> {
        self.receive_message(from, message)
    }

    fn due(&self, now: Instant) -> Result<Consequences, Diagnostic> {
        self.distributed
            .as_ref()
            .map_or_else(|| Ok(Consequences::default()), |distributed| self.send_due(distributed, now))
    }

    fn progress(&self) -> Option<MutexGuard<'_, Progress>> {
        Some(self.windows.progress.lock())
    }

    fn output(&self) -> Option<(StreamId, i64)> {
        Some((self.output.id, self.watermark()))
    }

    fn describe(&self, manifest: &mut Manifest) {
        manifest.aggregations.push(self.ended());
    }

    fn restore(&self, from: &Restored<'_>) -> Result<(), Diagnostic> {
        self.restore_windows(from)
    }

    fn spill(&self, what: Spillable, enough: u64) -> Result<(usize, Consequences), Diagnostic> {
        let mut consequences = Consequences::default();
        let spilled = match what {
            Spillable::Reserve => {
                self.windows.tables.forget_free();
                0
            }
            Spillable::Tables => {
                let here = self.distributed.as_ref().map(|distributed| distributed.slices.tables.frozen());
                let tables = here.into_iter().chain([self.windows.tables.frozen()]);
                tables.map(|tables| self.spill_all(tables, enough)).sum::<Result<usize, _>>()?
            }
            Spillable::Slices if self.host.spilling.is_short() => {
                self.spill_all(self.slices_to_spill(&mut consequences), enough)?
            }
            Spillable::Slices | Spillable::Rows | Spillable::States => 0,
        };
        Ok((spilled, consequences))
    }
}
