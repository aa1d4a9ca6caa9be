#!/usr/bin/env bash
# Builds the benchmarks and runs them beside DuckDB and Polars, which it installs from PyPI into target/bench/venv.
# MILLSTREAM_BENCH_FEATURES are features of cargo to build them with.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"
venv=target/bench/venv
if [ ! -x "$venv/bin/python" ]; then
    mkdir -p target/bench
    python3 -m venv "$venv" || { echo "error: python3 with venv is missing: apt-get install python3-venv" >&2; exit 1; }
fi
"$venv/bin/python" -c 'import duckdb, polars, pyarrow, numpy' 2>/dev/null ||
    "$venv/bin/pip" install --quiet "duckdb>=2.0" "polars>=2.1" "pyarrow>=26" "numpy>=2.0"
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
# The same build as `make release`, so that nothing is compiled twice.
eval "$(scripts/build_info.sh)"
cargo build --release --quiet --bins --features "${MILLSTREAM_BENCH_FEATURES:-}"
MILLSTREAM_BENCH_PYTHON=$venv/bin/python target/release/millstream-bench "$@"
