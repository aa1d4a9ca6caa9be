//! The lock-free structures of the runtime, without anything of ours: small enough that loom can try every interleaving of
//! a few threads (`make loom`) and miri can watch their memory (`make miri`).
//!
//! Each file states its protocol before its code: every atomic field, who writes it, who reads it, in which order.
//!
//! | file | structure | used for |
//! | --- | --- | --- |
//! | `shared_map` | insertion into an open-addressed array by compare-and-swap | the shared tables of the state crate |

mod primitives;
pub mod shared_map;
