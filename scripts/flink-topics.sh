#!/usr/bin/env bash
# Millstream and Apache Flink 2.2 read each other's topics of results that change: upsert-kafka and debezium-json. Starts a broker
# (Java 17 and Maven; some 190 MB from Maven Central, once). The same SQL runs on both; what each reads of its own
# topics and of the other's has to be the answer that Millstream gives to the query over the file.
#   scripts/flink-topics.sh [MILLSTREAM]   the program; target/release/millstream without
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/release/millstream}")
[ -x "$program" ] || { echo "error: there is no $program; make release builds it" >&2; exit 1; }
dir=$(mktemp -d)
port=$((20000 + RANDOM % 10000))
trap 'scripts/kafka.sh stop "$dir/kafka" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
scripts/kafka.sh jars
scripts/kafka.sh start "$dir/kafka" "$port" $$

# Names with what JSON escapes, NULL in every column that may be, and numbers that a double would not hold.
awk 'BEGIN {
    for (i = 0; i < 20000; i++) {
        name = (i * 7919) % 97; text = name % 10 == 3 ? "" : (name % 10 == 4 ? "\"n\t\"\"ä€😀\"\" " name "\\\"" : "name " name)
        printf "%d,%d,%s,%s,%d.%02d,%s\n", i, name, text, i % 13 == 0 ? "" : (i * 31) % 1000 / 8, i % 10 * 90071992547 + i, i % 100, \
            i % 17 == 0 ? "" : sprintf("2024-01-%02d %02d:%02d:%02d.%03d", i % 28 + 1, i % 24, i % 60, i * 7 % 60, i % 1000)
    }
}' >"$dir/rows.csv"

# Groups come, change, and go: HAVING takes some back again and again.
columns="k BIGINT, name STRING, n BIGINT, most DOUBLE, total DECIMAL(38, 2), latest TIMESTAMP(3), odd BOOLEAN"
query="SELECT k, MAX(name) AS name, COUNT(*) AS n, MAX(v) AS most, SUM(amount) AS total, MAX(ts) AS latest, MOD(COUNT(*), 2) = 1 AS odd
FROM numbers GROUP BY k HAVING MOD(COUNT(*), 7) <> 5 AND MOD(COUNT(*), 103) <> MOD(k, 5)"
shown="k, name, n, CAST(most AS STRING) AS most, CAST(total AS STRING) AS total, CAST(latest AS STRING) AS latest, CAST(odd AS STRING) AS odd"
# The tables of WRITER.
tables() {
    local servers="'properties.bootstrap.servers' = '127.0.0.1:$port'"
    cat <<SQL
CREATE TABLE numbers (id BIGINT, k BIGINT, name STRING, v DOUBLE, amount DECIMAL(20, 2), ts TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '$dir/rows.csv', 'format' = 'csv', 'csv.null-literal' = '');
CREATE TABLE upserts ($columns, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '$1-upserts', $servers, 'key.format' = 'json', 'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset');
CREATE TABLE changes ($columns, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '$1-changes', $servers, 'format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'k', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
SQL
}
millstream() { "$program" run "$1" --quiet --output csv; }
flink() {
    scripts/flink-diff.sh --show "$1" >"$dir/answer"
    ! grep -m 1 ': refused: ' "$dir/answer" >&2 || exit 1
    sed '/^==> .* <==$/d; /^[a-z]*: [0-9]* rows$/d; /^$/d' "$dir/answer"
}
same() {
    if ! diff <(sort "$dir/expected") <(sort "$2") >"$dir/diff"; then
        echo "error: $1 differ (< expected, > found):" >&2
        head -n 20 "$dir/diff" >&2
        exit 1
    fi
    echo "$1: $(($(wc -l <"$2") - 1)) rows, as expected"
}

{ tables none; echo "SET 'execution.runtime-mode' = 'batch';"; echo "SELECT $shown FROM ($query);"; } >"$dir/expected.sql"
millstream "$dir/expected.sql" >"$dir/expected"
for writer in millstream flink; do
    for topic in upserts changes; do
        scripts/kafka.sh topic "$port" "$writer-$topic" 2 >/dev/null
        {
            tables "$writer"
            # Many beats.
            [ "$writer" = flink ] || echo "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.beat-rows' = '200';"
            echo "INSERT INTO $topic $query;"
        } >"$dir/write.sql"
        $writer "$dir/write.sql" >"$dir/written"
        for reader in millstream flink; do
            {
                tables "$writer"
                [ "$reader" = flink ] || echo "SET 'execution.runtime-mode' = 'batch';"
                echo "SELECT $shown FROM $topic;"
            } >"$dir/read.sql"
            $reader "$dir/read.sql" >"$dir/read"
            same "$topic of $writer, read by $reader" "$dir/read"
        done
    done
done
