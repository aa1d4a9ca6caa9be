#!/usr/bin/env bash
# Makes target/python, a virtual environment with what the tests of the Python package need; a few seconds, once.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --python
needed=python/tests/requirements.txt
if ! cmp -s "$needed" target/python/installed.txt; then
    mkdir -p target
    python3 -m venv --clear target/python
    target/python/bin/pip install -q -r "$needed"
    cp "$needed" target/python/installed.txt
fi
