//! Who does what next: tasks and their order, what may be in flight, timers, and the machine.

pub(crate) mod beats;
pub(crate) mod buffer_size;
pub(crate) mod cut_timing;
pub(crate) mod flow;
pub(crate) mod parking;
pub(crate) mod scheduler;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod topology;
pub(crate) mod unpulled;
pub(crate) mod worker_set;
