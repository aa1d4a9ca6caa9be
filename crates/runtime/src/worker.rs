//! A worker: one thread that takes tasks until the query ends.

use crate::query::{Query, panicked};
use crate::row_errors::RowErrors;
use crate::tables::TaskTables;
use crate::task::{DecodeTask, ProcessTask, Task};
use arrow_array::{Array, ArrayRef};
use millstream_codegen::execute::{emit, update};
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::{PipelineEnd, PipelineInput};
use millstream_types::Diagnostic;
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
    while let Some(task) = query.scheduler.next() {
        // After a panic the worker's own state may be inconsistent, but the query is over then.
        match catch_unwind(AssertUnwindSafe(|| worker.perform(task))) {
            Ok(Ok(())) => {}
            Ok(Err(diagnostic)) => query.fail(diagnostic),
            Err(panic) => query.fail(panicked("a worker", &*panic)),
        }
    }
}

impl Worker<'_> {
    fn perform(&mut self, task: Task) -> Result<(), Diagnostic> {
        match task {
            Task::Decode(task) => self.decode(task),
            Task::Process(task) => self.process(task),
            Task::Seal(firing) => {
                self.query.seal(firing);
                Ok(())
            }
            Task::Merge(firing, group) => {
                self.query.merge(&firing, group);
                Ok(())
            }
        }
    }

    fn decode(&mut self, task: DecodeTask) -> Result<(), Diagnostic> {
        let query = self.query;
        let PipelineInput::Source(source) = query.streams[task.stream].input else {
            return Err(Diagnostic::bug("a chunk arrived at a stream that is not a split"));
        };
        let runtime = &query.sources[source];
        let decoder = runtime.decoder.as_ref().ok_or_else(|| Diagnostic::bug("constant rows have no decoder"))?;
        let started = Instant::now();
        let mut decoded = decoder.decode(task.chunk);
        let columns = &query.plan.sources[source].columns;
        let expected = columns.len();
        if decoded.error.is_some() && decoded.rows == 0 && decoded.columns.is_empty() {
            // A decoder that could not even begin has no columns; its error is what counts.
            decoded.columns = columns.iter().map(|c| arrow_array::new_empty_array(&c.data_type.to_arrow())).collect();
        }
        if decoded.columns.len() != expected || decoded.columns.iter().any(|c| c.len() != decoded.rows) {
            return Err(Diagnostic::bug(format!(
                "a decoder did not deliver {expected} columns of {} rows",
                decoded.rows
            )));
        }
        let stats = &query.stats.sources[source];
        stats.rows.fetch_add(decoded.rows as u64, Relaxed);
        query.stats.skipped_rows.fetch_add(decoded.skipped, Relaxed);
        let mut errors = RowErrors::new(query.config.error_policy, &query.stats);
        let (most, permit) = (query.config.rows_per_buffer(), Some(Arc::new(task.permit)));
        let unit = runtime.unit(decoded, most, permit, &mut self.functions, &mut errors)?;
        stats.chunks.fetch_add(1, Relaxed);
        stats.decode_nanos.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        query.deliver(task.stream, task.unit, unit);
        Ok(())
    }

    fn process(&mut self, task: ProcessTask) -> Result<(), Diagnostic> {
        let query = self.query;
        let channel = query.streams[task.stream].channels[task.channel];
        let started = Instant::now();
        let stats = &query.stats.pipelines[channel.pipeline];
        stats.buffers.fetch_add(1, Relaxed);
        stats.rows_in.fetch_add(task.buffer.rows as u64, Relaxed);
        match query.plan.pipelines[channel.pipeline].end {
            PipelineEnd::Aggregate { aggregation, .. } => self.update(&task, channel.pipeline, aggregation)?,
            PipelineEnd::Sink(sink) => {
                let number = task.buffer.stamp.sequence;
                let piece = match query.sinks[sink].is_done() {
                    true => None,
                    false => {
                        let (columns, rows) = self.emit(&task, channel.pipeline)?;
                        stats.rows_out.fetch_add(rows as u64, Relaxed);
                        query.sinks[sink].piece(columns, rows, task.buffer.permit.clone())?
                    }
                };
                query.write(sink, channel.port, number, piece)?;
            }
            PipelineEnd::Exchange { .. } | PipelineEnd::Build { .. } => {
                return Err(Diagnostic::bug("this end of a pipeline is not executed yet"));
            }
        }
        stats.nanos.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        let release = query.streams[task.stream].finish(task.channel, task.epoch);
        if let Some(release) = release {
            query.release(task.stream, task.channel, release)?;
        }
        Ok(())
    }

    /// Rows into tables.
    fn update(&mut self, task: &ProcessTask, pipeline: usize, aggregation: usize) -> Result<(), Diagnostic> {
        let (query, buffer) = (self.query, &*task.buffer);
        let (code, runtime) = (&query.pipelines[pipeline].stages[0], &query.aggregations[aggregation]);
        let fired_before = runtime.fired_before();
        let (owner, generation) = (&query.tables[self.index], buffer.stamp.generation);
        let mut tables = TaskTables::new(owner, &runtime.layout, aggregation, generation, fired_before);
        // SAFETY: the layout is that of the program (`Query::new` has checked it); the tables are this worker's.
        let hooks = unsafe { tables.hooks() };
        let watermarks = buffer.watermarks(runtime.assigner.slicing());
        let mut errors = RowErrors::new(query.config.error_policy, &query.stats);
        let outcome = update(
            &code.lowered,
            &*code.kernel.load(),
            &buffer.columns,
            buffer.rows,
            &watermarks,
            hooks,
            &mut self.functions,
            &mut |e| errors.take(e),
        )?;
        query.stats.late_rows.fetch_add(outcome.late_rows, Relaxed);
        if let Some(slice) = tables.met_fired() {
            return Err(Diagnostic::bug(format!("a row came to the window at {slice} ms, which had been fired")));
        }
        errors.fatal().map_or(Ok(()), Err)
    }

    /// Rows for a sink. The program itself checks the sink's NOT NULL columns.
    fn emit(&mut self, task: &ProcessTask, pipeline: usize) -> Result<(Vec<ArrayRef>, usize), Diagnostic> {
        let (query, buffer) = (self.query, &*task.buffer);
        let code = &query.pipelines[pipeline].stages[0];
        let mut errors = RowErrors::new(query.config.error_policy, &query.stats);
        let emitted = emit(
            &code.lowered,
            &*code.kernel.load(),
            &buffer.columns,
            buffer.rows,
            &buffer.watermarks(None),
            &mut self.functions,
            &mut |e| errors.take(e),
        )?;
        if let Some(fatal) = errors.fatal() {
            return Err(fatal);
        }
        Ok((emitted.columns, emitted.rows))
    }
}
