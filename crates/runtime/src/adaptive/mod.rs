//! Adapting a running query to its data (Grizzly section 6; design section 8).
//!
//! ```text
//! workers ──samples──► watch ──► signals ──► choosing ──► codegen::specialise ──► compiler ──► variant on trial ──► variant
//!    ▲   └──cost of each buffer──► meter ──────┘ └ decisions                                                        │
//!    └──────────────────────────────── slot: one atomic store, looked at once a buffer ◄────────────────────────────┘
//! ```
//!
//! - `signals`: what is known of the rows, from samples, and of the cost of processing them.
//! - `choice`: the form that choices outside of programs have, too: of tables, windows and decoders (`window`, `source`).
//! - `decisions`: what follows from it: pure functions with a cost model each, which can be tested without a query.
//! - `adviser`: the thread that looks, chooses, compiles and replaces; a `unit` for each program that can be specialised.
//! - `load`: what is adapted for the query as a whole: workers at work.
//! - `events`: what was seen, decided and gained.
//!
//! Invariant: nothing here changes rows. What a variant assumes is guarded by the variant itself.

mod adapted_program;
mod adviser;
mod chaos;
mod choosing;
pub(crate) mod decisions;
mod events;
mod facts;
mod load;
mod policy;
pub(crate) mod signals;
pub(crate) mod slice_facts;
mod variant_switch;
mod watch;

pub(crate) use adviser::Adviser;
pub(crate) use events::EventLog;
pub use events::{Event, EventKind};
#[cfg(test)]
pub(crate) use policy::Dice;
pub(crate) use policy::{Decision, Policy};
pub(crate) use variant_switch::{Variant, VariantSlot};
