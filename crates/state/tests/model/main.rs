//! Everything that the state crate keeps against brute-force models.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod append;
mod combine;
mod dense;
mod input;
mod merge;
mod saved;
mod slots;
mod weights;
