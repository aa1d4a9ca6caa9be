//! What runs that take place at the same time share: workers and memory, so that together they use what one would.
//!
//! The inserts of a script begin and end together, so each has a fixed part. The jobs of a service come and go: what they share lives as long as
//! the service, and their parts change while they run.

use crate::planned::{PreparedRun, WrittenFiles};
use crate::session::Session;
use millstream_runtime::{MemoryShare, SharedMemory, WorkerSet};
use millstream_types::MemorySize;
use std::sync::Arc;

/// What the jobs of a service share.
#[derive(Debug)]
pub struct SharedResources {
    workers: Arc<WorkerSet>,
    memory: Arc<SharedMemory>,
}

/// What one of them has of it, until it is dropped.
#[derive(Debug, Clone)]
pub struct JobShare {
    workers: Arc<WorkerSet>,
    memory: Arc<MemoryShare>,
}

impl SharedResources {
    /// What a query of this session would have alone.
    pub fn of(session: &Session) -> SharedResources {
        let run = session.run_settings();
        SharedResources { workers: WorkerSet::new(run.workers), memory: SharedMemory::new(run.memory_bytes()) }
    }

    /// A share for one more job; `None` if there is too little memory for it.
    pub fn join(&self) -> Option<JobShare> {
        Some(JobShare { workers: Arc::clone(&self.workers), memory: self.memory.join()? })
    }

    /// Bytes of the memory of all jobs.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// How many jobs can run at a time.
    pub fn most_jobs(&self) -> u64 {
        self.memory.most_shares()
    }
}

impl JobShare {
    /// Bytes of memory that the job has now.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

/// Has runs take place concurrently: they share the workers and the memory of one, or of the job of a service whose runs they are; and no
/// two may write the same file.
pub fn share(runs: &mut [PreparedRun], of: Option<&JobShare>) {
    let (files, parts) = (Arc::<WrittenFiles>::default(), runs.len().max(1) as u64);
    let workers = match of {
        Some(share) => Some(Arc::clone(&share.workers)),
        None if parts > 1 => Some(WorkerSet::new(runs.iter().map(|run| run.config.workers).max().unwrap_or(1))),
        None => None,
    };
    for run in runs {
        run.config.worker_set = workers.clone();
        let bytes = of.map_or_else(|| run.config.memory_bytes(), JobShare::memory_bytes);
        run.config.memory = MemorySize::Bytes((bytes / parts).max(1));
        run.config.memory_share = of.map(|share| Arc::clone(&share.memory));
        run.files = Arc::clone(&files);
    }
}
