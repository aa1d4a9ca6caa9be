#!/usr/bin/env bash
# Tries packaging/monitoring with a real Prometheus, against jobs that run: the configuration, the rules and the metrics pass promtool, a
# process that is not there and a sink that is stuck bring about their alerts, what the Grafana dashboard asks for has an answer, and Grafana's
# own types (from PyPI: Debian has no Grafana) read the dashboard without loss.
# MILLSTREAM_BINARY names the program (target/release/millstream, or target/debug/millstream). Prometheus comes through apt-get on Debian
# and Ubuntu. Ten seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
need_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        say "error: '$*' needs root; run it as root and start again"
        exit 1
    fi
}

if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        say "error: missing: prometheus and promtool (https://prometheus.io/download)"
        exit 1
    fi
    say "installing: prometheus"
    need_root apt-get update -qq
    need_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus >&2
    # Its service is for those who want one.
    if [ -d /run/systemd/system ]; then need_root systemctl disable --now -q prometheus; fi
fi

binary=${MILLSTREAM_BINARY:-}
for built in target/release/millstream target/debug/millstream; do
    if [ -z "$binary" ] && [ -x "$built" ]; then binary=$built; fi
done
if [ -z "$binary" ]; then
    say "error: there is no millstream to be watched: make build, or MILLSTREAM_BINARY=…"
    exit 1
fi

promtool check rules packaging/monitoring/alerts.yml
promtool test rules packaging/monitoring/alerts_test.yml
scripts/setup.sh --python
venv=target/grafana-venv
types='grafana-foundation-sdk==1769699379!11.6.0'
if [ "$(cat "$venv/installed.txt" 2>/dev/null)" != "$types" ]; then
    mkdir -p target
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "$types"
    echo "$types" >"$venv/installed.txt"
fi
"$venv/bin/python" scripts/grafana.py
exec python3 scripts/monitoring.py "$(realpath -e "$binary")"
