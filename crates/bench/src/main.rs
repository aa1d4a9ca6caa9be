//! `make bench`: Millstream beside DuckDB and beside hand-written loops, in one process run, as ratios. The names of
//! benchmarks as arguments (`scripts/bench.sh windows joins`) run only those; `make bench-runtime` runs those that take
//! minutes, and `soak` with a number of minutes is a test of endurance.
//!
//! Repetitions of the systems alternate, so that a change of the machine's speed meets all of them; medians are
//! printed, and every result is compared with the others' before a figure is.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "figures go to standard output")]

mod checksum;
mod columns;
mod joins;
mod keys;
mod latency;
mod measure;
mod ndjson;
mod order;
mod sessions;
mod skew;
mod soak;
mod watermarks;
mod windows;
mod ysb;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::time::Duration;

/// Runs with so many threads and prints its figures.
type Benchmark = fn(usize) -> Result<(), Box<dyn std::error::Error>>;

/// The minutes of `soak` without a number after it.
const SOAK_MINUTES: f64 = 10.0;

/// With whether it runs when no name is given.
const BENCHMARKS: [(&str, Benchmark, bool); 10] = [
    ("ndjson", ndjson::run, true),
    ("ysb", ysb::run, true),
    ("windows", windows::run, true),
    ("joins", joins::run, true),
    ("sessions", sessions::run, true),
    ("order", order::run, true),
    ("watermarks", watermarks::run, true),
    ("skew", skew::run, false),
    ("keys", keys::run, false),
    ("latency", latency::run, false),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = match std::env::var("MILLSTREAM_BENCH_THREADS") {
        Ok(threads) => threads.parse()?,
        Err(_) => std::thread::available_parallelism()?.get(),
    };
    println!("{threads} threads, {} {}", std::env::consts::ARCH, std::env::consts::OS);
    if arguments.first().is_some_and(|name| name == "soak") {
        let minutes = arguments.get(1).map_or(Ok(SOAK_MINUTES), |minutes| minutes.parse())?;
        return soak::run(threads, Duration::try_from_secs_f64(minutes * 60.0)?);
    }
    if let Some(unknown) = arguments.iter().find(|a| !BENCHMARKS.iter().any(|(name, ..)| name == a)) {
        let names = BENCHMARKS.map(|(name, ..)| name).join(", ");
        return Err(format!("no benchmark `{unknown}`: there are {names}, and soak").into());
    }
    for (name, run, is_default) in BENCHMARKS {
        if arguments.iter().any(|a| a == name) || (arguments.is_empty() && is_default) {
            run(threads)?;
        }
    }
    Ok(())
}
