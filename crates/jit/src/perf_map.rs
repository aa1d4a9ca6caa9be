//! Names of compiled pipelines for `perf`: a line a function in `/tmp/perf-<pid>.map`, which `perf report` looks for.
//!
//! Only when the environment variable `MILLSTREAM_PERF_MAP` is set. Failures are ignored: profiling is never worth a
//! failed query.

use std::io::Write;

/// Makes the `size` bytes of code at `address` known under a name.
pub(crate) fn register(name: &str, address: usize, size: usize) {
    if std::env::var_os("MILLSTREAM_PERF_MAP").is_none() {
        return;
    }
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let line = format!("{address:x} {size:x} millstream: {}\n", name.replace(['\n', '\r'], " "));
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}
