//! What outlives a process or does not fit into memory: cuts, checkpoints, recovery and spilling (design section 9).
//!
//! Where a cut passes, stations hand over what they keep ([`part`]), and write nothing. The *checkpointing thread*
//! ([`writer`]) puts parts into files; when it has all of them, it prepares the spans of the sinks, writes the manifest,
//! commits the spans, tells sources, and removes what is not needed any more. One checkpoint at a time is under way. Its
//! number is that of the last one before the process began, plus the number of its generation.
//!
//! When memory is short, the *spilling thread* ([`spill_thread`]) has stations write state to files of the run.

pub(crate) mod blobs;
pub(crate) mod checkpointing;
pub(crate) mod collecting;
mod config;
pub(crate) mod cuts;
pub(crate) mod generations;
pub(crate) mod part;
pub(crate) mod restored;
pub(crate) mod schedule;
pub(crate) mod spill_thread;
pub(crate) mod spilling;
pub(crate) mod writer;

pub use config::{CheckpointConfig, Recovered, Unfit, kept_shape};
