//! What several nodes of a query decide, apart from the threads, clocks, bytes and rows that a run has around it.
//!
//! | what | who decides by it |
//! | --- | --- |
//! | [`Progress`] | a station: how far its inputs have come together |
//! | [`LocalInputs`], [`Heard`], [`Mark`] | a node: what it says of its inputs, and what it makes of what others say |
//! | [`InTurn`] | a node: which messages wait until it has made a cut |
//! | [`Cuts`], [`TableGenerations`] | a node: whether a cut may be made, and which generation begins |
//! | [`CheckpointSchedule`] | the first node: when a checkpoint begins |
//! | [`Collecting`], [`Uncommitted`] | a node: when all parts of a checkpoint are there, and what may be made visible |
//! | [`Ending`] | the first node: when the others end |
//!
//! The runtime drives these; so does the simulation of the crate `cluster`, with a thousand nodes.

pub use crate::durable::collecting::{Collecting, Uncommitted};
pub use crate::durable::generations::TableGenerations;
pub use crate::durable::schedule::{CheckpointDue, CheckpointSchedule};
pub use crate::exchange::ending::Ending;
pub use crate::exchange::in_turn::{InTurn, MessageKind};
pub use crate::exchange::marks::{Heard, Linger, LocalInputs, Mark};
pub use crate::ids::{Generation, Port};
pub use crate::schedule::cut_timing::{BeginningCut, Cuts, Purpose};
pub use crate::station::progress::{Forward, Progress};
pub use millstream_sync::epoch_ring::{End, Release};
