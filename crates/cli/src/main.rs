//! The program `millstream`: see the library `millstream_cli`.

mod allocator;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    allocator::measure_memory();
    let code = millstream_cli::run(std::env::args_os(), None);
    millstream_cli::end_compiling();
    ExitCode::from(code)
}
