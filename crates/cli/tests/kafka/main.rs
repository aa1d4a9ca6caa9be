//! Jobs of the command that write to Kafka exactly once, killed at given moments; what is told of brokers and partitions. Needs a broker, see the tests of the connector
//! (`MILLSTREAM_KAFKA=start`); without one it does nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![cfg(unix)]

#[path = "../../../engine/tests/kafka/broker.rs"]
#[allow(dead_code, reason = "what the tests of the connector need besides")]
mod broker;
mod commits;
#[path = "../support/folded.rs"]
mod folded;
#[path = "../support/how_often.rs"]
mod how_often;
#[path = "../support/nodes.rs"]
mod nodes;
mod outages;
mod proxy;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/watching.rs"]
mod watching;
