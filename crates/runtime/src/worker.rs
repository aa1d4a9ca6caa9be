//! A worker: one thread that takes tasks until the query ends.

use crate::adaptive::decisions::sharing::Sharing;
use crate::adaptive::signals::counters::HardwareCounters;
use crate::buffer::Piece;
use crate::columns::bytes_of;
use crate::input::PartitionedCode;
use crate::lanes::Scattered;
use crate::query::{Query, panicked};
use crate::row_errors::RowErrors;
use crate::sequencer::Unit;
use crate::staged::{Staged, Stages, Tools, emit_stage};
use crate::stream::{Channel, Origin};
use crate::tables::TaskTables;
use crate::task::{DecodeTask, ProcessTask, Task};
use arrow_array::{Array, ArrayRef};
use millstream_codegen::execute::update;
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::{PipelineEnd, PipelineInput, SourceColumn};
use millstream_state::{Ordinal, release_before_sleep};
use millstream_types::{Diagnostic, RecordPlace};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What a worker has of its own.
struct Worker<'a> {
    query: &'a Query,
    index: usize,
    functions: FunctionContext,
}

/// The body of worker `index`.
pub(crate) fn work(query: &Query, index: usize) {
    let mut worker = Worker { query, index, functions: FunctionContext::new(query.config.settings.clone()) };
    query.scheduler.enter(index);
    let (stats, mut counters) = (query.stats.worker(index), HardwareCounters::open());
    while let Some(task) = query.next_task(index) {
        let place = query.config.worker_set.as_ref().map(|set| set.take());
        let started = Instant::now();
        let (subject, rows) = (Subject::of(&task), task.rows());
        // After a panic the worker's own state may be inconsistent, but the query is over then.
        match catch_unwind(AssertUnwindSafe(|| worker.perform(task, started))) {
            Ok(Ok(())) => {
                query.spill_if_needed();
                query.flow.overrun().into_iter().for_each(|diagnostic| query.fail(diagnostic));
            }
            Ok(Err(diagnostic)) => query.fail(diagnostic),
            Err(panic) => query.fail(panicked("a worker", &*panic)),
        }
        drop(place);
        let time = started.elapsed();
        stats.count(time);
        counters.note(rows, &query.stats.hardware);
        match subject {
            Subject::Aggregation(index) => query.stats.aggregations[index].spent(time),
            Subject::Operator(index) => query.stats.operators[index].spent(time),
            Subject::Rows => {}
        }
    }
}

impl Query {
    /// The most urgent task, if there are any before the end. Who has to wait for it gives back what is free of its memory.
    fn next_task(&self, worker: usize) -> Option<Task> {
        if self.scheduler.queued() == 0 {
            release_before_sleep();
        }
        self.scheduler.next(worker)
    }
}

/// What the time of a task is counted for, besides the worker.
enum Subject {
    /// The windows of an aggregation.
    Aggregation(usize),
    /// The jobs of a keyed operator.
    Operator(usize),
    /// Chunks and buffers on their way, whose time is counted where they are decoded and processed.
    Rows,
}

impl Subject {
    fn of(task: &Task) -> Subject {
        match task {
            Task::Seal(firing) | Task::Merge(firing, _) => Subject::Aggregation(firing.aggregation()),
            Task::Combine { aggregation, .. } => Subject::Aggregation(*aggregation),
            Task::MergeStored(merge) => Subject::Aggregation(merge.aggregation()),
            Task::Keyed(task) => Subject::Operator(task.operator),
            Task::PutOut(output) => Subject::Operator(output.operator()),
            Task::Decode(_) | Task::Process(_) | Task::Fold(_) | Task::Build(_) => Subject::Rows,
        }
    }
}

impl Worker<'_> {
    fn perform(&mut self, task: Task, started: Instant) -> Result<(), Diagnostic> {
        match task {
            Task::Decode(task) => self.decode(task, started),
            Task::Process(task) => self.process(task, started),
            Task::Fold(task) => self.query.fold(task, &mut self.functions),
            Task::Seal(firing) => self.query.seal(firing),
            Task::MergeStored(merge) => self.query.merge_stored(merge),
            Task::Merge(..) | Task::Combine { .. } => self.query.put_out(task),
            Task::Build(lookup) => self.query.build(lookup, &mut self.functions),
            Task::Keyed(task) => self.query.work_on(task, &mut self.functions),
            Task::PutOut(output) => self.query.deliver_spooled(output),
        }
    }

    fn decode(&mut self, task: DecodeTask, started: Instant) -> Result<(), Diagnostic> {
        let query = self.query;
        let PipelineInput::Source(source) = query.streams[task.stream].input else {
            return Err(Diagnostic::bug("a chunk arrived at a stream that is not a split"));
        };
        let runtime = &query.sources[source];
        let decoder = runtime.decoder.as_ref().ok_or_else(|| Diagnostic::bug("constant rows have no decoder"))?;
        let stats = query.stats.sources[source].split(task.stream - runtime.first_stream());
        stats.begun.fetch_add(1, Relaxed);
        let after = task.chunk.after;
        let mut decoded = match &runtime.skipping {
            Some(skipping) => skipping.decode(&**decoder, task.chunk, &mut self.functions, &query.stats),
            None => decoder.decode(task.chunk),
        };
        let columns = &query.plan.sources[source].columns;
        let expected = columns.len();
        if decoded.error.is_some() && decoded.rows == 0 && decoded.columns.is_empty() {
            // A decoder that could not even begin has no columns; its error is what counts.
            let data_type =
                |c: &SourceColumn| c.in_record.map_or_else(|| c.data_type.to_arrow(), RecordPlace::to_arrow);
            decoded.columns = columns.iter().map(|c| arrow_array::new_empty_array(&data_type(c))).collect();
        }
        if decoded.columns.len() != expected || decoded.columns.iter().any(|c| c.len() != decoded.rows) {
            return Err(Diagnostic::bug(format!(
                "a decoder did not deliver {expected} columns of {} rows",
                decoded.rows
            )));
        }
        stats.rows.fetch_add(decoded.rows as u64, Relaxed);
        if decoded.rows > 0 {
            let whole = runtime.skipping.as_ref().map(|skipping| skipping.whole_columns());
            query.stats.sources[source].look_for_values(&decoded.columns, whole);
        }
        query.stats.skipped_rows.fetch_add(decoded.skipped, Relaxed);
        let mut errors = RowErrors::new(query.config.error_policy, &query.stats);
        let mut permit = task.permit;
        permit.decoded(bytes_of(&decoded.columns));
        query.buffer_size.observe(query.scheduler.queued(), query.config.workers);
        let (most, permit) = (query.buffer_size.rows(), Some(Arc::new(permit)));
        let unit = runtime.unit(decoded, most, permit, &mut self.functions, &mut errors)?;
        stats.chunks.fetch_add(1, Relaxed);
        let buffers = unit.rows.len() as u64;
        query.deliver(task.stream, task.unit, Unit { after, ..unit });
        query.count_buffers(buffers);
        query.stats.sources[source].decode_time.record(started.elapsed());
        Ok(())
    }

    fn process(&mut self, task: ProcessTask, started: Instant) -> Result<(), Diagnostic> {
        let query = self.query;
        let channel = query.streams[task.stream].channels[task.channel];
        let stats = &query.stats.pipelines[channel.pipeline];
        stats.buffers.fetch_add(1, Relaxed);
        stats.rows_in.fetch_add(task.buffer.rows as u64, Relaxed);
        let mut scattered = None;
        match query.plan.pipelines[channel.pipeline].end {
            PipelineEnd::Aggregate { aggregation, .. } => match &query.pipelines[channel.pipeline].partitioned {
                Some(halves) => scattered = Some(self.scatter(&task, channel.pipeline, aggregation, halves)?),
                None => self.update(&task, channel.pipeline, aggregation)?,
            },
            PipelineEnd::Sink(sink) => self.write(&task, channel, sink)?,
            PipelineEnd::Build { lookup } => self.collect(&task, channel, lookup)?,
            PipelineEnd::Exchange { operator, port } => self.exchange(&task, channel.pipeline, operator, port)?,
        }
        stats.task_time.record(started.elapsed());
        match scattered {
            Some(scattered) => query.folded(&scattered),
            None => query.finish_task(task.stream, task.channel, task.epoch),
        }
    }

    /// Rows into tables.
    fn update(&mut self, task: &ProcessTask, pipeline: usize, aggregation: usize) -> Result<(), Diagnostic> {
        let (query, buffer) = (self.query, &*task.buffer);
        let runtime = &query.aggregations[aggregation];
        let stages = Stages::new(query, pipeline);
        let (mut tables, mut code) = (
            TaskTables::new(runtime, self.index, buffer.stamp.generation, query.origin(task.stream, pipeline)),
            stages.last_stage(),
        );
        if let (Sharing::Global, Some(shared)) =
            (runtime.strategy.sharing(runtime.tables.is_spilling_near()), &query.pipelines[pipeline].shared)
        {
            (tables, code) = (tables.shared(query.topology.node(self.index)), shared);
        }
        if query.timers.follow_clock() {
            tables.collect_dues();
        }
        for piece in runtime.pieces(buffer, stages.reads_watermarks()) {
            let mut stages = Stages::new(query, pipeline);
            stages.run(Staged::new(buffer, piece), &mut self.tools(), &mut |tools, rows| {
                tables.begin(&rows);
                // SAFETY: the layout is that of the program (`plan_graph` has checked it); the tables are this worker's, or
                // shared, and so is the program.
                let hooks = unsafe { tables.hooks() };
                let Tools { functions, errors } = tools;
                let (columns, watermarks) = (&rows.columns, &rows.watermarks);
                let outcome = code.run(&rows, |kernel| {
                    update(&code.lowered, kernel, columns, rows.rows, watermarks, hooks, functions, &mut |e| {
                        errors.take(e)
                    })
                })?;
                query.stats.late_rows.fetch_add(outcome.late_rows, Relaxed);
                errors.fatal().map_or(Ok(ControlFlow::Continue(())), Err)
            })?;
        }
        runtime.strategy.note_task(buffer.rows);
        tables.settle();
        tables.dues().iter().for_each(|&due| query.due_at_watermark(due));
        match tables.met_fired() {
            Some(table) => Err(Diagnostic::bug(format!("a row came to table {table}, which had been fired"))),
            None => Ok(()),
        }
    }

    /// Rows into lanes.
    fn scatter(
        &mut self,
        task: &ProcessTask,
        pipeline: usize,
        aggregation: usize,
        halves: &PartitionedCode,
    ) -> Result<Arc<Scattered>, Diagnostic> {
        let (query, buffer) = (self.query, &*task.buffer);
        let (runtime, scattered) = (&query.aggregations[aggregation], Scattered::new(task, pipeline));
        for piece in runtime.pieces(buffer, Stages::new(query, pipeline).reads_watermarks()) {
            let mut stages = Stages::new(query, pipeline);
            stages.run(Staged::new(buffer, piece), &mut self.tools(), &mut |tools, rows| {
                emit_stage(query, &halves.scatter, rows, tools, &mut |_, _, emitted| {
                    query.scatter(aggregation, emitted, &scattered)?;
                    Ok(ControlFlow::Continue(()))
                })
            })?;
        }
        Ok(scattered)
    }

    /// Rows for a sink. The program itself checks the sink's NOT NULL columns.
    fn write(&mut self, task: &ProcessTask, channel: Channel, sink: usize) -> Result<(), Diagnostic> {
        let (query, stamp) = (self.query, task.buffer.stamp);
        let number = (stamp.sequence, stamp.generation);
        let egress = &query.sinks[sink];
        if !egress.is_done() {
            let mut is_first = true;
            self.emit(task, channel.pipeline, &mut |columns, rows| {
                if !std::mem::take(&mut is_first) {
                    egress.wait_for_others(channel.port, number.0);
                }
                let piece = egress.piece(columns, rows, task.buffer.permit.clone())?;
                query.write(sink, channel.port, number, piece, false)?;
                Ok(if egress.is_done() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        }
        query.write(sink, channel.port, number, None, true)
    }

    /// Rows for a lookup table. They do not hold back the reading of what they were made of: all of it is kept.
    fn collect(&mut self, task: &ProcessTask, channel: Channel, lookup: usize) -> Result<(), Diagnostic> {
        let (lookup, number) = (&self.query.lookups[lookup], task.buffer.stamp.sequence);
        self.emit(task, channel.pipeline, &mut |columns, rows| {
            lookup.collect(channel.port, number, columns, rows);
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Rows for the partitions of a keyed operator.
    fn exchange(
        &mut self,
        task: &ProcessTask,
        pipeline: usize,
        operator: usize,
        port: usize,
    ) -> Result<(), Diagnostic> {
        let (query, buffer) = (self.query, &*task.buffer);
        let mut stages = Stages::new(query, pipeline);
        let code = stages.last_stage();
        let origin = query.origin(task.stream, pipeline);
        let mut rows_out = 0;
        let staged = Staged::new(buffer, buffer.whole());
        stages.run(staged, &mut self.tools(), &mut |tools, rows| {
            emit_stage(query, code, rows, tools, &mut |_, rows, emitted| {
                rows_out += emitted.rows as u64;
                let Origin { stream, pipeline } = origin;
                let place = |&row: &u32| {
                    let row = row as usize;
                    let watermark = rows.watermarks[if rows.watermarks.len() == 1 { 0 } else { row }];
                    Ordinal { watermark, stream, position: rows.position(row), pipeline }
                };
                let ordinals = emitted.selection.iter().map(place).collect();
                let place = (port, buffer.stamp.generation);
                query.exchange(operator, place, emitted.columns, ordinals, &buffer.permit)?;
                Ok(ControlFlow::Continue(()))
            })
        })?;
        query.stats.pipelines[pipeline].rows_out.fetch_add(rows_out, Relaxed);
        Ok(())
    }

    /// Runs a pipeline whose last program emits rows; `take` gets them in slices and says whether more are wanted.
    fn emit(
        &mut self,
        task: &ProcessTask,
        pipeline: usize,
        take: &mut dyn FnMut(Vec<ArrayRef>, usize) -> Result<ControlFlow<()>, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let (query, buffer) = (self.query, &*task.buffer);
        let mut stages = Stages::new(query, pipeline);
        let code = stages.last_stage();
        let piece = match stages.reads_watermarks() {
            true => buffer.whole(),
            false => Piece { first: 0, rows: buffer.rows, watermarks: Cow::Owned(vec![buffer.stamp.watermark]) },
        };
        let mut rows_out = 0;
        stages.run(Staged::new(buffer, piece), &mut self.tools(), &mut |tools, rows| {
            emit_stage(query, code, rows, tools, &mut |_, _, emitted| {
                rows_out += emitted.rows as u64;
                match emitted.rows {
                    0 => Ok(ControlFlow::Continue(())),
                    rows => take(emitted.columns, rows),
                }
            })
        })?;
        query.stats.pipelines[pipeline].rows_out.fetch_add(rows_out, Relaxed);
        Ok(())
    }

    /// What a task runs programs with.
    fn tools(&mut self) -> Tools<'_> {
        let query = self.query;
        Tools { functions: &mut self.functions, errors: RowErrors::new(query.config.error_policy, &query.stats) }
    }
}
