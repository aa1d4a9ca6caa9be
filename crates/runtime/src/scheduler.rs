//! The scheduler: which task a free worker takes (StreamBox section 6, "next externalisation moment first").
//!
//! 1. Trigger work: it makes output, and it frees tables.
//! 2. Buffers of the oldest epoch, by the watermark before them: they hold back the next output. The output of a fired
//!    window carries an older watermark than the source has by then, so it goes before new input.
//! 3. Decoding, in order of reading.
//!
//! One mutex guards the queues. Nothing is computed under it, so that it is held for well under a microsecond; workers
//! without work sleep on the condition variable.

use crate::task::{ProcessTask, Task};
use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The queues of a query.
pub(crate) struct Scheduler {
    queues: Mutex<Queues>,
    ready: Condvar,
}

#[derive(Default)]
struct Queues {
    trigger: VecDeque<Task>,
    process: BinaryHeap<Reverse<Ranked>>,
    decode: VecDeque<Task>,
    arrivals: u64,
    sleeping: usize,
    closed: bool,
}

/// A process task in order of urgency.
struct Ranked {
    watermark: i64,
    arrival: u64,
    task: ProcessTask,
}

impl Ranked {
    fn rank(&self) -> (i64, u64) {
        (self.watermark, self.arrival)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Scheduler {
    /// Empty queues.
    pub(crate) fn new() -> Scheduler {
        Scheduler { queues: Mutex::new(Queues::default()), ready: Condvar::new() }
    }

    /// Adds tasks. Dropped when the scheduler is closed.
    pub(crate) fn push(&self, tasks: Vec<Task>) {
        if tasks.is_empty() {
            return;
        }
        let mut queues = self.queues.lock();
        if queues.closed {
            // Tasks hold permits, whose release takes other locks.
            drop(queues);
            return;
        }
        let wake = tasks.len().min(queues.sleeping);
        for task in tasks {
            queues.add(task);
        }
        drop(queues);
        for _ in 0..wake {
            self.ready.notify_one();
        }
    }

    /// The most urgent task; waits for one. `None` when the scheduler is closed.
    pub(crate) fn next(&self) -> Option<Task> {
        let mut queues = self.queues.lock();
        loop {
            if queues.closed {
                return None;
            }
            if let Some(task) = queues.take() {
                return Some(task);
            }
            queues.sleeping += 1;
            self.ready.wait(&mut queues);
            queues.sleeping -= 1;
        }
    }

    /// Drops all tasks and sends the workers home.
    pub(crate) fn close(&self) {
        let mut queues = self.queues.lock();
        queues.closed = true;
        let dropped = (
            std::mem::take(&mut queues.trigger),
            std::mem::take(&mut queues.process),
            std::mem::take(&mut queues.decode),
        );
        drop(queues);
        self.ready.notify_all();
        drop(dropped);
    }
}

impl Queues {
    fn add(&mut self, task: Task) {
        match task {
            Task::Decode(_) => self.decode.push_back(task),
            Task::Seal(..) | Task::Merge(..) | Task::Combine(..) | Task::Build(_) | Task::Keyed(..) => {
                self.trigger.push_back(task)
            }
            Task::Process(task) => {
                self.arrivals += 1;
                let (watermark, arrival) = (task.buffer.stamp.watermark, self.arrivals);
                self.process.push(Reverse(Ranked { watermark, arrival, task }));
            }
        }
    }

    fn take(&mut self) -> Option<Task> {
        let trigger = self.trigger.pop_front();
        trigger
            .or_else(|| self.process.pop().map(|Reverse(ranked)| Task::Process(ranked.task)))
            .or_else(|| self.decode.pop_front())
    }
}
