//! Messages between the nodes of a query, and calls between a coordinator and nodes.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`transport`] | the contract: lanes, credits, loss |
//! | [`credit`] | how much may be on its way, and why nobody waits for ever |
//! | [`frame`] | what messages are cut into on a network |
//! | [`local`] | nodes in one process |
//! | [`flight`] | nodes in processes, over Arrow Flight |
//! | [`attempts`] | which of two attempts of a job counts |
//! | [`coordinator`] | the first node of a run, and where the others are |
//! | `replacement` | processes in the place of lost nodes |
//! | [`node`] | a process that takes part in runs |
//! | [`delayed`] | any of them over a slow network that breaks, from a seed |
//!
//! Invariants: messages are bytes here, nothing knows rows, plans or stations. No function that an engine's thread calls to send waits for
//! another node. What comes from the network is checked before memory is taken for it.

#![forbid(unsafe_code)]

pub mod attempts;
pub mod coordinator;
pub mod credit;
pub mod delayed;
pub mod flight;
pub mod frame;
pub mod local;
pub mod node;
mod orders;
mod peers;
mod queue;
mod random;
#[cfg(test)]
mod recording;
mod replacement;
pub mod transport;

pub use bytes::Bytes;
pub use orders::Status;
pub use transport::{Credit, Held, Inbound, Sent, Transport};
