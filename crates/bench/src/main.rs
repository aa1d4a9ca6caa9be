//! `make bench`: Millstream beside DuckDB and beside hand-written loops, in one process run, as ratios.
//!
//! Repetitions of the systems alternate, so that a change of the machine's speed meets all of them; medians are
//! printed, and every result is compared with the others' before a figure is.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "figures go to standard output")]

mod measure;
mod ndjson;
mod ysb;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|a| a == name);
    let threads = std::thread::available_parallelism()?.get();
    println!("{threads} threads, {} {}", std::env::consts::ARCH, std::env::consts::OS);
    if wanted("ndjson") {
        ndjson::run(threads)?;
    }
    if wanted("ysb") {
        ysb::run(threads)?;
    }
    Ok(())
}
