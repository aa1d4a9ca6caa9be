//! The scheduler: which task a free worker takes (StreamBox section 6, "next externalisation moment first").
//!
//! 1. Jobs of stations, that of the oldest window first: they make output, and free tables. With them what is left of tasks
//!    whose rows wait in lanes: it holds back an epoch that has been begun.
//! 2. Buffers of the oldest epoch, by the watermark before them: they hold back the next output. The output of a fired
//!    window carries an older watermark than the source has by then, so it goes before new input.
//! 3. Decoding, and reading of splits that workers read, by turns: no source waits for the backlog of another.
//!
//! The queues, stealing between workers and their sleep are in `millstream_sync::tasks`.

use crate::adaptive::decisions::workers::is_rush;
use crate::config::RunConfig;
use crate::schedule::topology::Topology;
use crate::station::Task;
use millstream_sync::tasks::{Choice, TaskQueues, Urgency};
use std::cell::Cell;
use std::time::Instant;

/// The queues of a query.
pub(crate) struct Scheduler {
    /// Tasks that wait for a worker, and who takes them.
    pub(crate) queues: TaskQueues<Task>,
    workers: usize,
    is_shuffled: bool,
}

thread_local! {
    /// The number of the worker that this thread is, so that what its tasks lead to goes to its own queue; and the address of the queues that it
    /// takes tasks from. It may push to those of another query, which it takes none from: where nodes are threads of one process.
    static WORKER: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

impl Scheduler {
    /// Empty queues for the workers of a topology.
    pub(crate) fn new(config: &RunConfig, topology: &Topology) -> Scheduler {
        let choice = config.shuffle_seed.map_or(Choice::Urgent, Choice::Shuffled);
        let is_shuffled = config.shuffle_seed.is_some();
        Scheduler { queues: TaskQueues::new(&topology.nodes, choice), workers: topology.nodes.len(), is_shuffled }
    }

    /// Adds the tasks of a list, which is empty then. Dropped when the scheduler is closed.
    pub(crate) fn push(&self, tasks: &mut Vec<Task>) {
        if !tasks.is_empty() {
            self.queues.push(self.worker(), tasks.drain(..).map(|task| (urgency(&task), task)));
            let (active, waiting) = (self.queues.active(), self.queues.queued());
            if active < self.workers && is_rush(active, waiting) {
                self.queues.set_active(active + waiting);
            }
        }
    }

    /// Adds a task that another worker may take while this one is at the task that it is at.
    pub(crate) fn offer(&self, task: Task) {
        self.queues.offer(self.worker(), urgency(&task), task);
    }

    /// Adds a task from a moment on.
    pub(crate) fn push_later(&self, at: Instant, task: Task) {
        self.queues.push_later(at, urgency(&task), task);
    }

    /// Whether what makes output waits for a worker, which comes before all else.
    pub(crate) fn has_urgent(&self) -> bool {
        self.queues.has_urgent()
    }

    /// Whether tasks are to be done in any order.
    pub(crate) fn is_shuffled(&self) -> bool {
        self.is_shuffled
    }

    /// Makes the calling thread a worker.
    pub(crate) fn enter(&self, worker: usize) {
        WORKER.set(Some((self.address(), worker)));
    }

    /// The number of the calling thread, if it is one of the workers.
    fn worker(&self) -> Option<usize> {
        WORKER.get().filter(|(of, _)| *of == self.address()).map(|(_, worker)| worker)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.queues).addr()
    }

    /// Whether no worker has anything to do.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.queues.queued() == 0 && self.queues.idle() == self.workers
    }
}

fn urgency(task: &Task) -> Urgency {
    match task {
        Task::Perform(_, urgency, _) => *urgency,
        Task::Process(task) => Urgency { class: 1, time: task.buffer.stamp.watermark },
        Task::Decode(_) | Task::Read(_) => Urgency { class: 2, time: 0 },
    }
}
