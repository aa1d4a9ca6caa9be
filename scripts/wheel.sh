#!/usr/bin/env bash
# Builds the wheel of the Python package: `scripts/wheel.sh` puts it into target/wheel/dist, linked as scripts/static.sh says, and checks
# what it needs of a system.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/static.sh

[ -x "$work/venv/bin/maturin" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q 'maturin>=1.9,<2'; }
rm -rf "$work/dist"
"$work/venv/bin/maturin" build --release --target "$target" "${features[@]}" --out "$work/dist" "$@"
