#!/usr/bin/env bash
# Tests what scripts/dist.sh has put into target/dist, in systems that have nothing else: `scripts/test_dist.sh`
#
# A minimal Debian 12 and a minimal Debian 11 (glibc 2.31) are made once by debootstrap in target/dist-systems (500 MB; root). In each the
# .deb is installed with dpkg, the archive with install.sh, and both run queries, checkpoints and completions; the .deb also what its unit
# starts. Sizes, checksums and what the program needs of a system are checked as well. Debian and Ubuntu only.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
if [ "$(id -u)" = 0 ]; then root=(); elif command -v sudo >/dev/null; then root=(sudo); else
    say "error: chroots need root; run it as root"
    exit 1
fi
command -v debootstrap >/dev/null || { say "error: debootstrap is missing: apt-get install debootstrap"; exit 1; }

failures=0
fail() {
    say "FAILED: $*"
    failures=$((failures + 1))
}

most_bytes=25000000
most_seconds_to_a_result=60
dist=$PWD/target/dist
systems=$PWD/target/dist-systems
archive=$(echo "$dist"/millstream-*.tar.xz)
deb=$(echo "$dist"/millstream_*.deb)
[ -e "$archive" ] && [ -e "$deb" ] || { say "error: there are no packages in $dist: run \`make dist\`"; exit 1; }
mkdir -p "$systems"

# `"${enter[@]}" <chroot> <command>…`: with a /proc that goes with the process, and no variables but these.
enter=("${root[@]}" unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
    PATH=/root/.local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"')

contents() {
    (cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail "checksums"
    for file in "$archive" "$deb"; do
        local bytes
        bytes=$(stat -c %s "$file")
        say "  $(basename "$file"): $bytes bytes"
    done
    [ "$(stat -c %s "$archive")" -le "$most_bytes" ] || fail "$(basename "$archive") has more than $most_bytes bytes"
    local listed
    listed=$(tar -tJf "$archive")
    for file in bin/millstream share/man/man1/millstream.1 share/man/man1/millstream-run.1 share/completions/millstream.bash \
        share/completions/millstream.zsh share/completions/millstream.fish share/doc/LICENSE share/doc/THIRD-PARTY.txt share/doc/sbom.cdx.json \
        share/examples/bids.sql; do
        grep -q "/$file\$" <<<"$listed" || fail "$file is not in the archive"
    done
    tar -xJf "$archive" -O --wildcards '*/share/doc/sbom.cdx.json' |
        python3 -c 'import json, sys; s = json.load(sys.stdin); assert s["bomFormat"] == "CycloneDX" and len(s["components"]) > 200' || fail "SBOM"
}

system() { # <release>: makes it; its folder is <systems>/<release>
    local tree=$systems/$1
    if [ ! -e "$tree/.complete" ]; then
        say "  fetching Debian $1"
        "${root[@]}" rm -rf "$tree"
        "${root[@]}" debootstrap --variant=minbase --include=xz-utils,man-db,bash-completion "$1" "$tree" https://deb.debian.org/debian >"$systems/$1.log"
        "${root[@]}" touch "$tree/.complete"
    fi
}

# What a newcomer does: a query over a file of his own, a job with checkpoints that is run again.
cat >"$systems/first.sh" <<'EOF'
set -eu
mkdir -p /tmp/first && cd /tmp/first
for second in 1 2 3 4 5 6; do echo "{\"at\": \"2026-01-01 00:00:0$second\", \"level\": \"ERROR\"}"; done >log.jsonl
cat >job.sql <<'SQL'
CREATE TABLE log (at TIMESTAMP(3), level STRING, WATERMARK FOR at AS at) WITH ('connector' = 'filesystem', 'path' = 'log.jsonl', 'format' = 'json');
CREATE TABLE counts (start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'counts', 'format' = 'csv');
INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE log, DESCRIPTOR(at), INTERVAL '4' SECOND)) GROUP BY window_start, window_end;
SQL
rm -rf state counts
millstream run job.sql --state-dir state
cat counts/* | sort
millstream run job.sql --state-dir state
millstream checkpoint --state-dir state list
EOF

# What the unit starts, as it starts it: a job of the directory, the dashboard, an end with a checkpoint.
cat >"$systems/service.sh" <<'EOF'
set -eu
mkdir -p /var/lib/millstream && cd /var/lib/millstream && rm -rf ./*
cat >/etc/millstream/jobs/ticks.sql <<'SQL'
SET 'execution.checkpointing.interval' = '200 ms';
CREATE TABLE clock (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '100000000');
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'ticks', 'format' = 'csv');
INSERT INTO ticks SELECT n FROM clock;
SQL
$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/millstream.service) 2>service.log &
for _ in $(seq 150); do cat ticks/* >rows 2>/dev/null && [ -s rows ] && break; sleep 0.2; done
exec 3<>/dev/tcp/127.0.0.1/9464
printf 'GET / HTTP/1.0\r\nHost: 127.0.0.1:9464\r\n\r\n' >&3
cat <&3 | grep -o 'src="app.js"'
kill $!
wait $! && echo "ended with $?"
sort -n ticks/* | head -1
tail -5 service.log
EOF

runs() { # <release> <how it was installed>
    local tree=$systems/$1 output
    "${root[@]}" cp "$systems/first.sh" "$tree/tmp/first.sh"
    "${enter[@]}" "$tree" millstream --version >&2 || fail "$1, $2: the program does not start"
    output=$("${enter[@]}" "$tree" sh /tmp/first.sh 2>&1) || fail "$1, $2: a first job: $output"
    grep -q '^2026-01-01 00:00:00,3$' <<<"$output" && grep -q '^2026-01-01 00:00:04,3$' <<<"$output" || fail "$1, $2: rows of a first job: $output"
    output=$("${enter[@]}" "$tree" millstream run -e 'SELEC 1' 2>&1) && fail "$1, $2: a wrong statement is accepted"
    grep -q 'MS2001' <<<"$output" || fail "$1, $2: no error code: $output"
}

in_system() { # <release>
    local tree=$systems/$1 output began
    system "$1"
    say "  Debian $1: $("${enter[@]}" "$tree" ldd --version | head -1)"
    "${enter[@]}" "$tree" sh -c 'for tool in cc gcc clang python3; do ! command -v $tool || exit 1; done' >&2 || fail "$1 is not empty"

    "${enter[@]}" "$tree" sh -c 'dpkg -r millstream; rm -rf /root/.local /tmp/packages; mkdir /tmp/packages' >/dev/null 2>&1
    "${root[@]}" cp "$archive" "$deb" "$dist/SHA256SUMS" "$dist/install.sh" "$tree/tmp/packages/"
    began=$(date +%s)
    output=$("${enter[@]}" "$tree" MILLSTREAM_RELEASES=/tmp/packages sh /tmp/packages/install.sh 2>&1) || fail "$1: install.sh: $output"
    runs "$1" "install.sh"
    "${enter[@]}" "$tree" sh -c 'cd /root/.local/share/doc/millstream && millstream run examples/bids.sql --output csv' >"$systems/rows.csv" || fail "$1: the example"
    [ "$(wc -l <"$systems/rows.csv")" -gt 3 ] || fail "$1: rows of the example"
    say "  from the archive to results: $(($(date +%s) - began)) s"
    [ $(($(date +%s) - began)) -le $most_seconds_to_a_result ] || fail "$1: the first results take more than $most_seconds_to_a_result s"
    "${enter[@]}" "$tree" sh -c 'echo >>/tmp/packages/$(ls /tmp/packages | grep tar.xz)'
    output=$("${enter[@]}" "$tree" MILLSTREAM_RELEASES=/tmp/packages sh /tmp/packages/install.sh 2>&1) && fail "$1: a damaged archive is installed"
    grep -q 'is damaged' <<<"$output" || fail "$1: a damaged archive: $output"
    output=$("${enter[@]}" "$tree" MILLSTREAM_RELEASES=/tmp MILLSTREAM_VERSION=9 sh /tmp/packages/install.sh 2>&1) && fail "$1: nothing is installed"
    grep -q '^error: ' <<<"$output" || fail "$1: no archive: $output"
    "${enter[@]}" "$tree" rm -rf /root/.local

    "${enter[@]}" "$tree" sh -c 'dpkg -i /tmp/packages/*.deb' >"$systems/dpkg.log" 2>&1 || fail "$1: dpkg -i: $(cat "$systems/dpkg.log")"
    runs "$1" ".deb"
    "${root[@]}" cp "$systems/service.sh" "$tree/tmp/service.sh"
    output=$("${enter[@]}" "$tree" bash /tmp/service.sh 2>&1) || fail "$1: the service: $output"
    for expected in '^src=' '^ended with 0$' '^0$' 'has all that it needs to resume'; do
        grep -q "$expected" <<<"$output" || fail "$1: '$expected' of the service: $output"
    done
    "${enter[@]}" "$tree" sh -c 'test -s /usr/share/man/man1/millstream-run.1.gz' || fail "$1: the manual page"
    output=$("${enter[@]}" "$tree" bash -c 'source /usr/share/bash-completion/completions/millstream; COMP_WORDS=(millstream ch); COMP_CWORD=1
        _millstream millstream ch millstream; echo "${COMPREPLY[*]}"' 2>&1)
    [ "$output" = checkpoint ] || fail "$1: completion of 'ch' is '$output'"
    "${enter[@]}" "$tree" dpkg -r millstream >/dev/null || fail "$1: dpkg -r"
    ! "${enter[@]}" "$tree" sh -c 'command -v millstream' >/dev/null || fail "$1: the program is there when it was removed"
}

say "contents"
contents
for release in bookworm bullseye; do
    say "$release"
    in_system "$release"
done
[ $failures -eq 0 ] || { say "$failures failures"; exit 1; }
say "the packages are fine"
