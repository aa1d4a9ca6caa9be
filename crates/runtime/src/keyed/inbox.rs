//! The inbox of a partition: rows and jobs that wait for it.
//!
//! Rows wait in memory, in files of the run when that is short (`spilling`), or in those of the checkpoint that the query was
//! recovered from. Of those in files the inbox still knows how many they are and when they are needed, so that they are read
//! once, by the job that consumes the first of them.

use super::batch::Batch;
use crate::durable::blobs::{Place, StateBlob};
use crate::ids::Generation;
use crate::schedule::flow::Permit;
use millstream_state::{Charge, MemoryBudget, MemoryClass};
use millstream_storage::{PartitionState, SpilledBlob, WaitingRows};
use millstream_types::{Diagnostic, Schema};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// This many waiting rows are consumed as soon as the watermark allows, although nothing is due.
const MANY_ROWS: usize = 16 << 10;
/// State in files is read when one byte of rows waits per this many bytes of it, so that a byte of input costs a
/// bounded number of bytes read and written.
pub(super) const WORTH_READING: u64 = 2;

/// Rows and jobs that wait for a partition.
pub(super) struct Inbox {
    /// The rows that wait, by input; not those that are held.
    pub(super) batches: Vec<Vec<Waiting>>,
    /// Where rows are consumed as they come: those from behind a cut that has not passed yet, with their input.
    held: Vec<(usize, Generation, Batch)>,
    /// Of an operator that consumes rows as they come: the generation that it has come to.
    pub(super) generation: Generation,
    /// Of one that ends beats: whether something may have changed since the last one ended.
    pub(super) is_beat_open: bool,
    /// Whether the state has changed since the last checkpoint.
    pub(super) is_state_changed: bool,
    /// Whether the rows that wait are others than at the last checkpoint.
    pub(super) are_rows_changed: bool,
    /// Bytes of the partition's state if that is in files of the run, else 0.
    pub(super) spilled_state: u64,
    /// Bytes of the partition's state if that is in files of a checkpoint, else 0. It is read once, however much of it there is.
    restored_state: u64,
    /// All rows that wait but those that are held, wherever they are.
    pub(super) all: WaitingRows,
    /// For those in memory.
    charge: Charge,
    /// `State::due` after the last job.
    pub(super) state_due: i64,
    pub(super) jobs: VecDeque<PartitionJob>,
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
    pub(super) content: Place<Batch>,
    /// Tells it from the others of its partition.
    number: u64,
    /// What they are; their bytes are of memory, if they are there.
    pub(super) about: WaitingRows,
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
pub(super) enum PartitionJob {
    /// Up to a watermark, known since a moment. The output goes window by window, and in each partition by partition, however many
    /// windows an advance of the watermark completes; operators without windows have one unit.
    Advance {
        watermark: i64,
        /// Windows that are complete, in order; or only the watermark.
        marks: Arc<[i64]>,
        /// The unit of the first.
        first: u64,
        /// From one to the next.
        step: u64,
        completed: Instant,
    },
    /// Whatever has come, of an operator that consumes rows as they come; the unit is numbered at the end.
    Arrived,
    /// The same at the end of a beat: what has changed is put out.
    Beat,
    /// A cut to a generation: what is kept is saved for the checkpoint, and, where rows are consumed as they come, what is held can
    /// come.
    Cut(Generation),
    /// The last one where rows are consumed as they come.
    Last,
}

/// No rows.
const NOTHING: WaitingRows = WaitingRows { input: 0, rows: 0, bytes: 0, earliest: i64::MAX, due: i64::MAX };

/// What rows are together.
pub(super) fn together(one: WaitingRows, other: WaitingRows) -> WaitingRows {
    WaitingRows {
        input: one.input,
        rows: one.rows + other.rows,
        bytes: one.bytes + other.bytes,
        earliest: one.earliest.min(other.earliest),
        due: one.due.min(other.due),
    }
}

impl Waiting {
    /// The rows, read if need be.
    pub(super) fn batches(self, schema: &Schema) -> Result<Vec<Batch>, Diagnostic> {
        let blob = match self.content {
            Place::Memory(batch) => return Ok(vec![batch]),
            Place::File(blob) => blob,
        };
        Batch::restore_all(schema, &blob.read()?).map_err(|what| blob.invalid(what))
    }

    /// Whether a job up to a watermark consumes some of them.
    fn is_needed(&self, watermark: i64) -> bool {
        self.about.earliest < watermark || watermark == i64::MAX
    }

    fn bytes_in_memory(&self) -> usize {
        match self.content {
            Place::Memory(_) => self.about.bytes,
            Place::File(_) => 0,
        }
    }
}

impl Inbox {
    /// Of a partition of an operator with `inputs` inputs.
    pub(super) fn new(inputs: usize, budget: &Arc<MemoryBudget>) -> Inbox {
        Inbox {
            batches: (0..inputs).map(|_| Vec::new()).collect(),
            held: Vec::new(),
            generation: Generation::default(),
            is_beat_open: false,
            is_state_changed: true,
            are_rows_changed: true,
            spilled_state: 0,
            restored_state: 0,
            all: NOTHING,
            charge: Charge::new(budget, MemoryClass::Operators, 0),
            state_due: i64::MAX,
            jobs: VecDeque::new(),
            is_busy: false,
            permits: Vec::new(),
            came: 0,
        }
    }

    /// Takes rows in, of which the first make a job necessary at the watermark `due`; their bytes.
    pub(super) fn put(&mut self, port: usize, generation: Generation, batch: Batch, due: i64) -> u64 {
        let (rows, bytes, earliest) = (batch.rows(), batch.bytes(), batch.earliest());
        (self.are_rows_changed, self.is_beat_open) = (true, true);
        self.charge.set(self.charge.bytes() + bytes);
        self.put_anywhere(generation, Place::Memory(batch), WaitingRows { input: port, rows, bytes, earliest, due })
    }

    /// Takes rows in, wherever they are; their bytes.
    pub(super) fn put_anywhere(&mut self, generation: Generation, content: Place<Batch>, about: WaitingRows) -> u64 {
        let number = self.came;
        self.came += 1;
        self.add_waiting(Waiting { generation, content, number, about });
        about.bytes as u64
    }

    fn add_waiting(&mut self, waiting: Waiting) {
        self.all = together(self.all, waiting.about);
        self.batches[waiting.about.input].push(waiting);
    }

    /// The partition is what it was when the query was stopped, and its state in files; when that is due.
    pub(super) fn restored(&mut self, saved: &PartitionState, due: i64) {
        (self.is_state_changed, self.are_rows_changed, self.is_beat_open) = (false, false, self.all.rows > 0);
        (self.restored_state, self.state_due) = (saved.state_bytes(), due);
    }

    /// Bytes of the partition's state if that is in files, else 0.
    pub(super) fn state_in_files(&self) -> u64 {
        self.spilled_state + self.restored_state
    }

    /// The state is going to be read and to change; the bytes of it that were in files of the run.
    pub(super) fn take_state(&mut self) -> u64 {
        (self.is_state_changed, self.restored_state) = (true, 0);
        std::mem::take(&mut self.spilled_state)
    }

    /// Bytes of memory that a job needs at most for the rows that wait: those in files are read, and all are put in order.
    pub(super) fn needs(&self) -> usize {
        self.all.bytes.saturating_mul(2)
    }

    /// Takes out what a job up to a watermark may consume, by input, and the bytes of it.
    pub(super) fn take(&mut self, watermark: i64) -> (Vec<Vec<Waiting>>, u64) {
        let before = std::mem::replace(&mut self.all, NOTHING);
        self.are_rows_changed = true;
        let mut taken = Vec::with_capacity(self.batches.len());
        for port in 0..self.batches.len() {
            let all = std::mem::take(&mut self.batches[port]);
            let (needed, left): (Vec<Waiting>, Vec<Waiting>) = all.into_iter().partition(|w| w.is_needed(watermark));
            left.into_iter().for_each(|waiting| self.add_waiting(waiting));
            let bytes: usize = needed.iter().map(Waiting::bytes_in_memory).sum();
            self.charge.set(self.charge.bytes().saturating_sub(bytes));
            taken.push(needed);
        }
        (taken, (before.bytes - self.all.bytes) as u64)
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
            let Place::Memory(batch) = &waiting.content else { continue };
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
        let with = |one: Waiting, other: Waiting| Waiting { about: together(one.about, other.about), ..one };
        if let Some(group) = group.into_iter().reduce(with) {
            self.charge.set(self.charge.bytes().saturating_sub(group.about.bytes));
            // Known by another number, because somebody else may have a copy of some of them, and come with that later.
            let number = self.came;
            self.came += 1;
            let content = Place::File(StateBlob::Spilled(blob));
            self.batches[port].push(Waiting { number, content, ..group });
        }
    }

    /// Whether it pays to read the partition's state for the rows that wait, if it is in files of the run.
    pub(super) fn is_worth_reading(&self) -> bool {
        (self.all.bytes as u64).saturating_mul(WORTH_READING) >= self.spilled_state
    }

    /// Whether the partition has something to do when the operator's watermark has advanced.
    pub(super) fn needs_job(&self, watermark: i64) -> bool {
        let is_full = self.all.rows >= MANY_ROWS && self.all.earliest < watermark && self.is_worth_reading();
        self.is_busy || is_full || self.all.due <= watermark || self.state_due <= watermark
    }

    /// Adds a job; whether a task has to be made for it.
    #[must_use]
    pub(super) fn add(&mut self, job: PartitionJob) -> bool {
        self.jobs.push_back(job);
        !std::mem::replace(&mut self.is_busy, true)
    }
}
