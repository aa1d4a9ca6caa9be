//! The benchmarks, one in each file.

mod adaptive;
mod ads;
mod builds;
mod flink;
mod ingestion;
mod joins;
mod kafka;
mod keys;
mod latency;
mod lrb;
mod ndjson;
mod nexmark;
mod nodes;
mod nyt;
mod operators;
mod order;
mod peers;
mod replay;
mod resources;
mod sessions;
mod skew;
mod soak;
mod state;
mod streambox;
mod sustainable;
mod watermarks;
mod windows;
mod ysb;
mod ysb_stream;

use crate::suite::Benchmark;
pub(crate) use builds::{BuildPair, OneWorkload};
pub(crate) use resources::once;
pub(crate) use state::Window;

/// All of them, in the order in which they run.
pub(crate) const BENCHMARKS: &[&Benchmark] = &[
    &ysb::BENCHMARK,
    &nyt::BENCHMARK,
    &lrb::BENCHMARK,
    &ads::BENCHMARK,
    &ingestion::BENCHMARK,
    &ndjson::BENCHMARK,
    &operators::BENCHMARK,
    &windows::BENCHMARK,
    &joins::BENCHMARK,
    &sessions::BENCHMARK,
    &order::BENCHMARK,
    &watermarks::BENCHMARK,
    &nodes::EXCHANGE,
    &skew::BENCHMARK,
    &keys::BENCHMARK,
    &latency::BENCHMARK,
    &adaptive::BENCHMARK,
    &resources::BENCHMARK,
    &nexmark::BENCHMARK,
    &streambox::BENCHMARK,
    &ysb::STEADY,
    &peers::BENCHMARK,
    &flink::BENCHMARK,
    &sustainable::BENCHMARK,
    &nodes::MODEL,
    &nodes::CURVE,
    &nodes::LIMITED,
    &nodes::SUSTAINED,
    &state::BENCHMARK,
    &kafka::BENCHMARK,
    &soak::BENCHMARK,
];
