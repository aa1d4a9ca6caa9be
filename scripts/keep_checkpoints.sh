#!/usr/bin/env bash
# Keeps checkpoints of this build for the builds to come: `scripts/keep_checkpoints.sh [program]`
#
# Runs each job of tests/checkpoints/jobs for some two seconds of four, stops it with a checkpoint, and puts state and output into
# tests/checkpoints/format-<number>/<job>, with the rows of a run that nothing stopped in `expected`. Run it once for each number of the format,
# with the last build that writes it; the test `kept_checkpoints` resumes all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/millstream}")
kept=$PWD/tests/checkpoints
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for script in "$kept"/jobs/*.sql; do
    job=$(basename "$script" .sql)
    mkdir -p "$work/$job" "$work/whole-$job"
    cat "$kept/tables.sql" "$script" >"$work/job.sql"
    cp "$kept/categories.csv" "$work/$job/"
    cp "$kept/categories.csv" "$work/whole-$job/"
    (cd "$work/whole-$job" && "$program" run ../job.sql --var LIMITED=false >&2 && find . -path ./categories.csv -o -type f -exec cat {} + | LC_ALL=C sort >"$work/expected")
    cd "$work/$job"
    "$program" run ../job.sql --var LIMITED=true --state-dir state >&2 &
    sleep 2
    "$program" stop --state-dir state
    wait
    "$program" checkpoint list --state-dir state >&2
    format=$("$program" checkpoint show --state-dir state | sed -n 's/.*, format \([0-9]*\)$/\1/p')
    rm -f state/lock state/control categories.csv
    mv "$work/expected" .
    mkdir -p "$kept/format-$format"
    rm -rf "$kept/format-$format/$job"
    cp -r "$work/$job" "$kept/format-$format/$job"
done
