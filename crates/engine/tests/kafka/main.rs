//! The `kafka` connector against a real broker of Apache Kafka.
//!
//! The tests run when the environment variable `MILLSTREAM_KAFKA` says `start` (`make test-kafka`, `make test`): then one broker
//! is started by `scripts/kafka.sh` for all of them, and ends with them. Otherwise they do nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[allow(dead_code, reason = "what the tests of the command need besides")]
mod broker;
mod changes;
mod dead_letters;
mod endings;
mod faults;
mod formats;
mod metadata;
mod registry;
mod security;
mod sinks;
mod spans;
mod starts;
mod transactions;
mod windows;
