#!/usr/bin/env bash
# Builds Apache Flink's program from Maven Central (120 MB, once) and runs Millstream beside it: YSB and Nexmark, from
# memory and over files. About a quarter of an hour on two cores.
set -euo pipefail
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
version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
[ "${version:-0}" -ge 17 ] || missing "Java 17 (java is ${version:-of an unknown version})"
mvn --batch-mode --quiet -f crates/bench/flink/pom.xml package ||
    { echo "error: Maven could not build crates/bench/flink; it needs https://repo.maven.apache.org" >&2; exit 1; }
exec scripts/bench.sh flink --repetitions 3 "$@"
