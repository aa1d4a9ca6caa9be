//! The checkpointing thread: puts the parts of checkpoints into files and completes them.

use super::blobs::damaged;
use super::checkpointing::{Checkpointing, Handed, Message};
use super::collecting::{Collecting, Uncommitted};
use super::part::{Gathering, not_written};
use crate::adaptive::Decision;
use crate::exchange::{FinishedNode, NodeMessage, StoredByNode};
use crate::query::Query;
use crate::source::SourceRuntime;
use crate::stats::{CheckpointRecord, SinkStats};
use millstream_connectors::{Acknowledger, Commit, Position};
use millstream_plan::shape::PlanShape;
use millstream_storage::{FORMAT, Manifest, NodeFiles, NodeManifest, SourceState, SplitState};
use millstream_types::Diagnostic;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A checkpoint whose parts are coming.
struct Pending {
    begun: Instant,
    gathering: Gathering,
    collecting: Collecting<StoredByNode>,
}

/// A checkpoint that a node has stored and the first one has not completed.
struct AwaitingCompletion {
    number: u64,
    begun: Instant,
    sources: Vec<SourceState>,
    /// Of the spans of the node's sinks, which are prepared.
    commits: Vec<Option<Box<dyn Commit>>>,
}

/// What is kept from one checkpoint to the next.
struct Writer<'a> {
    query: &'a Query,
    checkpointing: &'a Checkpointing,
    /// What the plan keeps.
    shape: Value,
    acknowledgers: Vec<Option<Box<dyn Acknowledger>>>,
    /// On all of several nodes but the first.
    stored: Uncommitted<AwaitingCompletion>,
}

/// The body of the checkpointing thread. Ends when nobody can send parts any more, or with the error that ends the query. When
/// the input has come to its end, all parts of the checkpoint that is under way have been sent: the end comes to a sink behind
/// all that its cut has met, and the query ends with the last sink. So that one is completed, too, like any other.
pub(crate) fn write_checkpoints(query: &Query, messages: Receiver<Message>) -> Result<(), Diagnostic> {
    let Some(mut writer) = Writer::new(query) else { return Ok(()) };
    writer.acknowledgers = query.sources().iter().map(|source| source.acknowledger.lock().take()).collect();
    let mut pending: Option<Pending> = None;
    for (number, handed) in messages {
        if let Handed::Completed = handed {
            writer.is_completed(number)?;
            continue;
        }
        let mut current = match pending.take() {
            Some(current) if current.collecting.number() == number => current,
            _ => writer.begin(number),
        };
        current.take(handed)?;
        if current.collecting.is_complete() {
            writer.complete(current)?;
        } else {
            pending = Some(current);
        }
    }
    Ok(())
}

/// Ends the job: the last spans of the sinks are committed with a checkpoint that says so. All rows are written, and no thread
/// is at work any more.
pub(crate) fn finish_job(query: &Query) -> Result<(), Diagnostic> {
    let Some(writer) = Writer::new(query) else { return Ok(()) };
    let sources = writer.read_at_end();
    // All nodes have passed the same cuts.
    let number = writer.checkpointing.number(query.host().tables.next());
    let mut last = writer.begin(number).gathering;
    last.manifest.sources = sources;
    for station in query.stations() {
        if let Some(part) = station.last_part(number)? {
            part(&mut last)?;
        }
    }
    let nodes = query.host().nodes.as_ref();
    if let Some(nodes) = nodes.filter(|nodes| !nodes.is_first()) {
        let tokens = writer.prepare(&mut last.commits)?;
        nodes.send(0, NodeMessage::Finished(FinishedNode { sources: last.manifest.sources, tokens }));
        return Ok(());
    }
    let others = nodes.map(|nodes| nodes.ending.lock().take()).unwrap_or_default();
    for FinishedNode { sources, tokens } in others.into_values() {
        last.manifest.sources.iter_mut().zip(sources).for_each(|(all, other)| all.add(other));
        last.manifest.add_tokens(tokens).map_err(damaged)?;
    }
    let sinks = last.manifest.sinks.clone();
    writer.commit(last, BTreeMap::new(), (Instant::now(), true))?;
    // They have ended: what they have prepared is made visible here.
    query.stations().iter().try_for_each(|station| station.commit_of_others(&sinks))
}

impl Pending {
    /// Takes what was handed over, and writes what it has to keep.
    fn take(&mut self, handed: Handed) -> Result<(), Diagnostic> {
        match handed {
            Handed::Sources(sources, parts) => {
                self.gathering.manifest.sources = sources;
                self.collecting.begun(parts);
            }
            Handed::OfNode(node, stored) => {
                self.collecting.of_node(node, stored);
            }
            Handed::Completed => {}
            Handed::Part(part) => {
                if part(&mut self.gathering)? {
                    self.collecting.station();
                }
            }
        }
        Ok(())
    }
}

impl<'a> Writer<'a> {
    /// `None` for a query without checkpoints.
    fn new(query: &'a Query) -> Option<Writer<'a>> {
        let checkpointing = query.host().checkpointing.as_ref()?;
        let shape = serde_json::to_value(PlanShape::of(query.plan())).expect("shapes are texts, numbers and lists");
        Some(Writer { query, checkpointing, shape, acknowledgers: Vec::new(), stored: Uncommitted::default() })
    }

    /// How many other nodes say what they have stored.
    fn others(&self) -> usize {
        self.query.host().nodes.as_ref().filter(|nodes| nodes.is_first()).map_or(0, |nodes| nodes.count - 1)
    }

    /// How far sources have been read in the end, with what was read.
    fn read_at_end(&self) -> Vec<SourceState> {
        let query = self.query;
        let state = |(number, source): (usize, &SourceRuntime)| {
            let rows = |split| query.host().stats.sources[number].split(split).rows.load(Relaxed);
            let splits = source.splits.iter().enumerate();
            let splits =
                splits.filter_map(|(i, split)| split.as_read(query.stream(split.stream).number.split, rows(i)));
            let table = query.plan().sources[number].name().to_string();
            SourceState { table, number: source.number, splits: splits.collect() }
        };
        let mut sources: Vec<SourceState> = query.sources().iter().enumerate().map(state).collect();
        self.describe_inputs(&mut sources);
        sources
    }

    fn begin(&self, number: u64) -> Pending {
        let mut manifest = Manifest {
            format: FORMAT,
            checkpoint: number,
            job: self.checkpointing.config.job.clone(),
            name: self.checkpointing.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            is_later: self.checkpointing.has_completed(),
            shape: self.shape.clone(),
            partitions: self.query.host().partitions,
            ..Manifest::default()
        };
        self.query.stations().iter().for_each(|station| station.describe(&mut manifest));
        let commits = self.query.plan().sinks.iter().map(|_| None).collect();
        let checkpoints = &self.checkpointing.config.checkpoints;
        let (pack, place) = (checkpoints.pack(number), checkpoints.store().place());
        let gathering = Gathering { pack, place, manifest, commits };
        Pending { begun: Instant::now(), gathering, collecting: Collecting::new(number, self.others()) }
    }

    /// All parts are there.
    fn complete(&mut self, current: Pending) -> Result<(), Diagnostic> {
        let Pending { begun, mut gathering, collecting } = current;
        let (number, others) = (collecting.number(), collecting.into_others());
        self.describe_inputs(&mut gathering.manifest.sources);
        let sources = gathering.manifest.sources.clone();
        let mut stored = AwaitingCompletion { number, begun, sources, commits: Vec::new() };
        match &self.query.host().nodes {
            Some(nodes) if !nodes.is_first() => {
                let tokens = self.prepare(&mut gathering.commits)?;
                let files = write_node(&mut gathering, nodes.me, tokens)?;
                let Gathering { pack, place, commits, .. } = gathering;
                stored.commits = commits;
                let bytes_written = pack.finish().map_err(|e| not_written(number, &place, &e))?;
                let reads = self.checkpointing.files_read();
                // Noted first: the first node completes it when it hears of this.
                self.stored.store(number, stored);
                nodes.send(0, NodeMessage::Stored(number, StoredByNode { files, bytes_written, reads }));
                return Ok(());
            }
            Some(nodes) => {
                let files = write_node(&mut gathering, nodes.me, Vec::new())?;
                gathering.manifest.nodes.push(files);
                self.commit(gathering, others, (begun, false))?;
                // Before the next one can begin: the others must not hear of its cut first.
                nodes.tell_others(|| NodeMessage::Completed(number));
                let under_way = self.checkpointing.under_way();
                self.checkpointing.complete(number);
                under_way.into_iter().for_each(|(generation, _)| nodes.has_completed(generation));
            }
            None => {
                self.commit(gathering, others, (begun, false))?;
                self.checkpointing.complete(number);
            }
        }
        self.acknowledge(&stored);
        self.query.cancel().wake();
        Ok(())
    }

    /// The first node has completed a checkpoint: the spans that this one has prepared for it can be seen.
    fn is_completed(&mut self, number: u64) -> Result<(), Diagnostic> {
        if let Some(mut stored) = self.stored.completed(number) {
            self.make_visible(std::mem::take(&mut stored.commits))?;
            self.acknowledge(&stored);
        }
        Ok(())
    }

    /// Prepares spans, by sink of the plan; their tokens.
    fn prepare(&self, commits: &mut [Option<Box<dyn Commit>>]) -> Result<Vec<Option<Value>>, Diagnostic> {
        let stats = &self.query.host().stats.sinks;
        let prepare = |(commit, stats): (&mut Option<Box<dyn Commit>>, &Arc<SinkStats>)| {
            commit.as_mut().map(|commit| stats.commits(|| commit.prepare())).transpose()
        };
        commits.iter_mut().zip(stats).map(prepare).collect()
    }

    /// Commits spans that are prepared, by sink of the plan.
    fn make_visible(&self, commits: Vec<Option<Box<dyn Commit>>>) -> Result<(), Diagnostic> {
        let stats = &self.query.host().stats.sinks;
        let mut commits: Vec<(Box<dyn Commit>, &SinkStats)> =
            std::iter::zip(commits, stats).filter_map(|(commit, stats)| Some((commit?, &**stats))).collect();
        commits.sort_by_key(|(commit, _)| !commit.dies_with_process());
        commits.into_iter().try_for_each(|(commit, stats)| stats.commits(|| commit.commit()))
    }

    /// Tells sources how far they have been read before a checkpoint that is complete.
    fn acknowledge(&mut self, AwaitingCompletion { number, begun, sources, .. }: &AwaitingCompletion) {
        let stats = &self.query.host().stats;
        for (acknowledger, source) in self.acknowledgers.iter_mut().zip(sources) {
            let Some(acknowledger) = acknowledger else { continue };
            let position = |split: &SplitState| {
                let position = |at| Position { at, line: split.line };
                split.at.map(|at| (split.name.clone(), position(at)))
            };
            let positions: Vec<(String, Position)> = source.splits.iter().filter_map(position).collect();
            if let Err(diagnostic) = acknowledger.acknowledge(&positions) {
                let decided = "positions of the checkpoint are not told to the outside";
                stats.note_event(format!("source {}", source.table), Decision::new(diagnostic.to_string(), decided));
            }
        }
        stats.checkpoints.note(*number, begun.elapsed());
    }

    /// Adds what was read to how far it was read.
    fn describe_inputs(&self, sources: &mut [SourceState]) {
        for (runtime, state) in self.query.sources().iter().zip(sources) {
            // Both are in the same order, but for splits that have nothing yet.
            let mut splits = runtime.splits.iter();
            for split in &mut state.splits {
                let at = split.at.map(|at| Position { at, line: split.line });
                let found = splits.find(|runtime| *runtime.name() == split.name);
                split.input = found.and_then(|runtime| runtime.describe(at, split.ended));
            }
        }
    }

    /// Prepares the spans, writes the manifest, commits the spans, and removes older checkpoints. `others`: what other nodes have stored,
    /// by their numbers; `begun`: when it was cut, and whether it is the one of the end.
    fn commit(
        &self,
        gathering: Gathering,
        others: BTreeMap<usize, StoredByNode>,
        (begun, is_finished): (Instant, bool),
    ) -> Result<(), Diagnostic> {
        let cut = begun.elapsed();
        let Gathering { pack, place, mut manifest, mut commits } = gathering;
        let number = manifest.checkpoint;
        let failed = |e: io::Error| not_written(number, &place, &e);
        manifest.bytes_written = pack.finish().map_err(failed)?;
        let mut read = self.checkpointing.files_read();
        for StoredByNode { files, bytes_written, reads } in others.into_values() {
            manifest.bytes_written += bytes_written;
            manifest.nodes.push(files);
            read.extend(reads);
        }
        let (prepared, tokens) = timed(|| self.prepare(&mut commits));
        for (sink, token) in manifest.sinks.iter_mut().zip(tokens?) {
            sink.token = token;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        manifest.written_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        manifest.is_finished = is_finished;
        self.checkpointing.config.checkpoints.write(&manifest).map_err(failed)?;
        let (seen, visible) = timed(|| self.make_visible(commits));
        visible?;
        // Numbers have gaps where a process has ended: those that are there count.
        let kept = self.checkpointing.config.checkpoints.numbers().map_err(failed)?;
        let oldest = kept.get(self.checkpointing.config.retained.max(1) - 1).copied().unwrap_or(0);
        self.checkpointing.config.checkpoints.delete(|checkpoint| checkpoint < oldest, read).map_err(failed)?;
        let (duration, commit) = (begun.elapsed(), prepared + seen);
        self.query.host().stats.note_checkpoint(CheckpointRecord {
            number,
            at_ms: 0,
            duration,
            cut,
            write: duration.saturating_sub(cut + commit),
            commit,
            written_bytes: manifest.bytes_written,
            state_bytes: manifest.state_bytes(),
        });
        Ok(())
    }
}

/// How long something takes, and what it gives.
fn timed<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let done = what();
    (begun.elapsed(), done)
}

/// Writes the manifest of a node, one of several, behind its state: what it keeps is named there, and no longer by the checkpoint itself.
fn write_node(gathering: &mut Gathering, node: usize, tokens: Vec<Option<Value>>) -> Result<NodeFiles, Diagnostic> {
    let manifest = &mut gathering.manifest;
    let of_node = NodeManifest {
        format: FORMAT,
        checkpoint: manifest.checkpoint,
        node,
        sources: std::mem::take(&mut manifest.sources),
        aggregations: std::mem::take(&mut manifest.aggregations),
        operators: std::mem::take(&mut manifest.operators),
        tokens,
    };
    let files = of_node.blobs().map(|blob| Arc::clone(&blob.file)).collect();
    let state_bytes = of_node.blobs().map(|blob| blob.bytes).sum();
    Ok(NodeFiles { manifest: gathering.write(&of_node.encode())?, files, state_bytes })
}
