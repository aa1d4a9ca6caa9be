#!/usr/bin/env bash
# Runs the queries and expressions of tests/flink on Apache Flink 2.2, as a small Maven project (120 MB from Maven Central,
# once), and compares their rows with Millstream's.
#   scripts/flink-diff.sh [NAME…]         those whose names contain one of these; all without any
#   scripts/flink-diff.sh --keep [NAME…]  writes Flink's rows to tests/flink/rows instead: `make test` compares with these
#   scripts/flink-diff.sh --show FILE…    prints what Flink answers to files of the same form
set -euo pipefail
shopt -s nullglob
here=$PWD
cd "$(dirname "$0")/.."
missing() {
    echo "error: $1 is missing. Install a JDK 17 and Maven:" >&2
    echo "  Debian, Ubuntu: apt-get install openjdk-17-jdk-headless maven" >&2
    echo "  Fedora:         dnf install java-17-openjdk-devel maven" >&2
    echo "  macOS:          brew install openjdk@17 maven" >&2
    exit 1
}
for program in javac java mvn; do
    command -v "$program" >/dev/null || missing "$program"
done
project=$PWD/tests/flink build=$PWD/target/flink-diff
newest=$(find "$project/pom.xml" "$project/src" -type f -newer "$build/built" 2>/dev/null || echo none)
if [ ! -e "$build/built" ] || [ -n "$newest" ]; then
    mvn --batch-mode --quiet -f "$project/pom.xml" package >&2 ||
        { echo "error: Maven could not build tests/flink; it needs https://repo.maven.apache.org" >&2; exit 1; }
    touch "$build/built"
fi
flink() { java -cp "$build/classes:$build/lib/*" millstream.diff.Main "$project/data" "$@"; }

case "${1:-}" in
--show)
    shift
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    files=()
    for file in "$@"; do files+=("$(cd "$here" && realpath "$file")"); done
    flink "$out" "${files[@]}"
    tail -n +1 "$out"/*
    exit
    ;;
--keep) shift; rows=$project/rows ;;
*) rows=$build/rows; rm -rf "$rows" ;;
esac
files=()
for file in "$project"/queries/*.sql "$project"/queries/*.txt; do
    name=$(basename "$file")
    [ "$name" != ddl.sql ] || continue
    chosen=$([ $# -eq 0 ] && echo yes || true)
    for part in "$@"; do case "$name" in *"$part"*) chosen=yes ;; esac; done
    [ -z "$chosen" ] || files+=("$file")
done
flink "$rows" "${files[@]}"
[ "$rows" = "$project/rows" ] || MILLSTREAM_FLINK_ROWS=$rows cargo test --workspace --quiet --test suite flink::
