//! The PostgreSQL sink against a real server, which the tests start themselves: `make test-postgres`.
//!
//! - `queries`: SQL whose rows end up in tables of every kind, and what is refused;
//! - `spans`: spans under checkpoints, whatever step a process dies at;
//! - `changed`: jobs that are changed between two runs;
//! - `changing`: results that change, as readers see them;
//! - `kills`, `from_kafka`: jobs of the command that are killed at random moments;
//! - `encryption`: TLS, with every `sslmode`;
//! - `failures`: a server that goes away and comes back, and one that does not;
//! - `outages`: jobs of the command that wait for the server, or end.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "../../../engine/tests/kafka/broker.rs"]
#[allow(dead_code, reason = "what the tests of the connector need besides")]
mod broker;
mod changed;
mod changing;
#[path = "../support/draws.rs"]
mod draws;
mod encryption;
mod failures;
#[path = "../support/folded.rs"]
mod folded;
mod from_kafka;
#[path = "../support/how_often.rs"]
mod how_often;
mod kills;
#[path = "../support/manifests.rs"]
mod manifests;
#[path = "../support/nodes.rs"]
mod nodes;
mod outages;
mod queries;
mod server;
mod spans;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/watching.rs"]
#[allow(dead_code, reason = "what the other tests of the command need besides")]
mod watching;
