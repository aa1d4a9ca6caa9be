//! The inbox of a partition: rows and jobs that wait for it.
//!
//! Rows wait in memory or, when that is short, in files of the run (`spilling`). Of those in files the inbox still knows how
//! many they are and when they are needed, so that they are read once, by the job that consumes the first of them.

use super::batch::Batch;
use super::driver::KeyedTask;
use crate::buffer::Generation;
use crate::flow::Permit;
use crate::spill::unreadable;
use crate::task::Task;
use millstream_state::{Charge, MemoryBudget, MemoryClass};
use millstream_storage::{ByteReader, SpilledBlob};
use millstream_types::{Diagnostic, Schema};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// So many waiting rows are consumed as soon as the watermark allows, although nothing is due.
const MANY_ROWS: usize = 16 << 10;
/// State in files is read when the rows that wait for it are one byte for so many of it: so reading and writing it costs each
/// byte of input a bounded number of bytes.
pub(super) const WORTH_READING: u64 = 2;

/// Rows and jobs that wait for a partition.
pub(super) struct Inbox {
    /// By input.
    batches: Vec<Vec<Waiting>>,
    /// Rows from behind a cut that has not come by, of a regular join, with their input.
    held: Vec<(usize, Generation, Batch)>,
    /// Of a regular join: the generation that it has come to.
    pub(super) generation: Generation,
    /// Whether state or rows have changed since the last checkpoint.
    pub(super) is_changed: bool,
    /// Bytes of the partition's state if that is in files, else 0.
    pub(super) spilled_state: u64,
    rows: usize,
    /// Of all rows that wait but those that are held, wherever they are.
    bytes: u64,
    /// For those in memory.
    charge: Charge,
    /// Smallest watermark before a row.
    earliest: i64,
    /// Smallest watermark at which a row makes a job necessary.
    pub(super) rows_due: i64,
    /// `State::due` after the last job.
    pub(super) state_due: i64,
    pub(super) jobs: VecDeque<Job>,
    /// Whether somebody works on the partition, or is going to.
    pub(super) is_busy: bool,
    /// Chunks whose rows came while the partition was busy: they stay in flight until it has done a job, so that a slow
    /// partition slows the readers down.
    pub(super) permits: Vec<Arc<Permit>>,
    /// Batches that have come so far.
    came: u64,
}

/// Rows that wait, with the generation of the buffer that they come from.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) generation: Generation,
    pub(super) content: Content,
    /// Tells it from the others of its partition.
    number: u64,
    rows: usize,
    /// Of memory, if they are there.
    bytes: usize,
    earliest: i64,
    due: i64,
}

/// Where rows wait.
#[derive(Clone)]
pub(super) enum Content {
    Memory(Batch),
    Spilled(SpilledBlob),
}

/// Rows that wait and can be spilled together.
pub(super) struct WaitingGroup {
    /// Their input.
    pub(super) port: usize,
    /// What they are known by in their inbox.
    pub(super) numbers: Vec<u64>,
    /// The rows.
    pub(super) batches: Vec<Batch>,
}

#[derive(Clone)]
pub(super) enum Job {
    /// Up to a watermark, known since a moment; the output goes to these units.
    Advance { watermark: i64, units: Units, completed: Instant },
    /// Whatever has come, of a regular join; the unit is numbered at the end.
    Arrived,
    /// A cut to a generation: what is kept is saved for the checkpoint, and, of a regular join, what is held can come.
    Cut(Generation),
    /// The last one of a regular join.
    Last,
}

/// Where the output of a job goes: window by window, and in each partition by partition, however many windows an advance
/// of the watermark completes. Operators without windows have one unit.
#[derive(Clone)]
pub(super) struct Units {
    /// Windows that are complete, in order; or only the watermark.
    pub(super) marks: Arc<[i64]>,
    /// The unit of the first.
    pub(super) first: u64,
    /// From one to the next.
    pub(super) step: u64,
}

impl Waiting {
    /// The rows, read if need be.
    pub(super) fn batch(self, schema: &Schema) -> Result<Batch, Diagnostic> {
        match self.content {
            Content::Memory(batch) => Ok(batch),
            Content::Spilled(blob) => {
                let bytes = blob.read().map_err(unreadable)?;
                Batch::restore(schema, &mut ByteReader::new(&bytes)).map_err(unreadable)
            }
        }
    }

    /// Whether a job up to a watermark consumes some of them.
    fn is_needed(&self, watermark: i64) -> bool {
        self.earliest < watermark || watermark == i64::MAX
    }

    fn bytes_in_memory(&self) -> usize {
        match self.content {
            Content::Memory(_) => self.bytes,
            Content::Spilled(_) => 0,
        }
    }
}

impl Inbox {
    /// Of a partition of an operator with so many inputs.
    pub(super) fn new(inputs: usize, budget: &Arc<MemoryBudget>) -> Inbox {
        Inbox {
            batches: (0..inputs).map(|_| Vec::new()).collect(),
            held: Vec::new(),
            generation: Generation::default(),
            is_changed: true,
            spilled_state: 0,
            rows: 0,
            bytes: 0,
            charge: Charge::new(budget, MemoryClass::Operators, 0),
            earliest: i64::MAX,
            rows_due: i64::MAX,
            state_due: i64::MAX,
            jobs: VecDeque::new(),
            is_busy: false,
            permits: Vec::new(),
            came: 0,
        }
    }

    /// Takes rows in, of which the first make a job necessary at the watermark `due`; their bytes.
    pub(super) fn put(&mut self, port: usize, generation: Generation, batch: Batch, due: i64) -> u64 {
        let (rows, bytes, earliest, number) = (batch.rows(), batch.bytes(), batch.earliest(), self.came);
        self.came += 1;
        self.is_changed = true;
        let content = Content::Memory(batch);
        self.charge.set(self.charge.bytes() + bytes);
        self.add_waiting(port, Waiting { generation, content, number, rows, bytes, earliest, due });
        bytes as u64
    }

    fn add_waiting(&mut self, port: usize, waiting: Waiting) {
        self.rows += waiting.rows;
        self.bytes += waiting.bytes as u64;
        self.earliest = self.earliest.min(waiting.earliest);
        self.rows_due = self.rows_due.min(waiting.due);
        self.batches[port].push(waiting);
    }

    /// Takes out what a job up to a watermark may consume, by input, and the bytes of it.
    pub(super) fn take(&mut self, watermark: i64) -> (Vec<Vec<Waiting>>, u64) {
        let before = self.bytes;
        (self.rows, self.bytes, self.earliest, self.rows_due) = (0, 0, i64::MAX, i64::MAX);
        self.is_changed = true;
        let mut taken = Vec::with_capacity(self.batches.len());
        for port in 0..self.batches.len() {
            let all = std::mem::take(&mut self.batches[port]);
            let (needed, left): (Vec<Waiting>, Vec<Waiting>) = all.into_iter().partition(|w| w.is_needed(watermark));
            left.into_iter().for_each(|waiting| self.add_waiting(port, waiting));
            let bytes: usize = needed.iter().map(Waiting::bytes_in_memory).sum();
            self.charge.set(self.charge.bytes().saturating_sub(bytes));
            taken.push(needed);
        }
        (taken, before - self.bytes)
    }

    /// Keeps rows from behind a cut apart.
    pub(super) fn hold(&mut self, port: usize, generation: Generation, batch: Batch, permit: &Option<Arc<Permit>>) {
        self.charge.set(self.charge.bytes() + batch.bytes());
        self.held.push((port, generation, batch));
        self.permits.extend(permit.clone());
    }

    /// Takes out what has been held, to be put in.
    pub(super) fn take_held(&mut self) -> Vec<(usize, Generation, Batch)> {
        let held = std::mem::take(&mut self.held);
        let bytes: usize = held.iter().map(|(.., batch)| batch.bytes()).sum();
        self.charge.set(self.charge.bytes().saturating_sub(bytes));
        held
    }

    /// The rows that wait, by input; not those that are held.
    pub(super) fn waiting(&self) -> &[Vec<Waiting>] {
        &self.batches
    }

    /// Bytes of memory of rows that wait or are held.
    pub(super) fn bytes_in_memory(&self) -> usize {
        self.charge.bytes()
    }

    /// The rows that wait in memory, those of an input and a generation together. Copies, which share the rows.
    pub(super) fn groups_in_memory(&self) -> Vec<WaitingGroup> {
        let mut groups: BTreeMap<(usize, Generation), WaitingGroup> = BTreeMap::new();
        for (port, waiting) in
            self.batches.iter().enumerate().flat_map(|(port, all)| all.iter().map(move |w| (port, w)))
        {
            let Content::Memory(batch) = &waiting.content else { continue };
            let fresh = || WaitingGroup { port, numbers: Vec::new(), batches: Vec::new() };
            let group = groups.entry((port, waiting.generation)).or_insert_with(fresh);
            group.numbers.push(waiting.number);
            group.batches.push(batch.clone());
        }
        groups.into_values().collect()
    }

    /// A group of rows is in a file from now on, unless some of them have been consumed meanwhile.
    pub(super) fn spilled(&mut self, port: usize, numbers: &[u64], blob: SpilledBlob) {
        let is_of_group = |waiting: &mut Waiting| numbers.contains(&waiting.number);
        let mut group = self.batches[port].extract_if(.., is_of_group).collect::<Vec<_>>();
        if group.len() < numbers.len() {
            self.batches[port].append(&mut group);
            return;
        }
        let together = |one: Waiting, other: Waiting| Waiting {
            rows: one.rows + other.rows,
            bytes: one.bytes + other.bytes,
            earliest: one.earliest.min(other.earliest),
            due: one.due.min(other.due),
            ..one
        };
        if let Some(group) = group.into_iter().reduce(together) {
            self.charge.set(self.charge.bytes().saturating_sub(group.bytes));
            // Known by another number, because somebody else may have a copy of some of them, and come with that later.
            let number = self.came;
            self.came += 1;
            self.batches[port].push(Waiting { number, content: Content::Spilled(blob), ..group });
        }
    }

    /// Whether any rows wait.
    pub(super) fn has_rows(&self) -> bool {
        self.rows > 0
    }

    /// Whether it pays to read the partition's state for the rows that wait, if it is in files.
    pub(super) fn is_worth_reading(&self) -> bool {
        self.bytes.saturating_mul(WORTH_READING) >= self.spilled_state
    }

    /// Whether the partition has something to do when the operator's watermark has advanced.
    pub(super) fn needs_job(&self, watermark: i64) -> bool {
        let is_full = self.rows >= MANY_ROWS && self.earliest < watermark && self.is_worth_reading();
        self.is_busy || is_full || self.rows_due <= watermark || self.state_due <= watermark
    }

    /// Adds a job; the task, unless there is one already.
    pub(super) fn add(&mut self, job: Job, task: KeyedTask) -> Option<Task> {
        self.jobs.push_back(job);
        (!std::mem::replace(&mut self.is_busy, true)).then_some(Task::Keyed(task))
    }
}
