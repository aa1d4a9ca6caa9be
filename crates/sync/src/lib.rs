//! The lock-free structures of the runtime, without anything of ours: small enough that loom can try every interleaving of
//! a few threads (`make loom`) and miri can watch their memory (`make miri`).
//!
//! Each file states its protocol before its code: every atomic field, who writes it, who reads it, in which order.
//!
//! | file | structure | used for |
//! | --- | --- | --- |
//! | `epoch_ring` | the ring of the epochs of a stream | what is finished, and which watermark is released |
//! | `slices` | the ring of open slices | where the tables of a slice are |
//! | `tasks` | the queues of tasks, with stealing and sleeping | the scheduler |
//! | `pool` | things that are used again | the memory of tables |
//! | `shared_map` | insertion into an open-addressed array by compare-and-swap | the shared tables of the state crate |

pub mod epoch_ring;
pub mod pool;
mod primitives;
pub mod shared_map;
pub mod slices;
pub mod tasks;
