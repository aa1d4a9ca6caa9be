#!/usr/bin/env bash
# Runs python/benchmarks/frames.py with the wheel in target/wheel/dist, in a virtual environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=(target/wheel/dist/*.whl)
[ -e "${wheel[0]}" ] || { echo "error: there is no wheel: run make wheel" >&2; exit 1; }
scripts/setup.sh --python
venv=target/wheel/bench
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q 'duckdb>=2,<3' numpy 'polars>=2,<3' 'pyarrow>=26,<27'
fi
"$venv/bin/pip" install -q --force-reinstall --no-deps "${wheel[0]}"
exec "$venv/bin/python" python/benchmarks/frames.py "$@"
