//! `make bench`: Millstream beside DuckDB and beside hand-written loops, in one process run, as ratios. The names of
//! benchmarks as arguments (`scripts/bench.sh windows joins`) run only those.
//!
//! Repetitions of the systems alternate, so that a change of the machine's speed meets all of them; medians are
//! printed, and every result is compared with the others' before a figure is.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "figures go to standard output")]

mod columns;
mod joins;
mod measure;
mod ndjson;
mod sessions;
mod windows;
mod ysb;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs with so many threads and prints its figures.
type Benchmark = fn(usize) -> Result<(), Box<dyn std::error::Error>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|a| a == name);
    let threads = std::thread::available_parallelism()?.get();
    println!("{threads} threads, {} {}", std::env::consts::ARCH, std::env::consts::OS);
    let benchmarks: [(&str, Benchmark); 5] = [
        ("ndjson", ndjson::run),
        ("ysb", ysb::run),
        ("windows", windows::run),
        ("joins", joins::run),
        ("sessions", sessions::run),
    ];
    if let Some(unknown) = arguments.iter().find(|a| !benchmarks.iter().any(|(name, _)| name == a)) {
        return Err(
            format!("no benchmark `{unknown}`: there are {}", benchmarks.map(|(name, _)| name).join(", ")).into()
        );
    }
    for (_, run) in benchmarks.iter().filter(|(name, _)| wanted(name)) {
        run(threads)?;
    }
    Ok(())
}
