//! Everything that the state crate keeps against brute-force models.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod append;
mod combine;
mod input;
mod merge;
mod saved;
mod slots;
