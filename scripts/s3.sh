#!/usr/bin/env bash
# A local S3 server (moto, from PyPI) for `make test-s3`. Python 3 with venv is needed, scripts/setup.sh --s3 installs it.
#   s3.sh install       puts the server into target/s3, once: 140 MB with the libraries that it needs
#   s3.sh serve PORT    runs it on 127.0.0.1, in place of the shell; its buckets are in memory
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
place=$root/target/s3

install() {
    cmp -s "$root/scripts/s3.txt" "$place/installed" && return
    rm -rf "$place"
    python3 -m venv "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check --requirement "$root/scripts/s3.txt" >&2
    cp "$root/scripts/s3.txt" "$place/installed"
}

case ${1:-} in
    install) install ;;
    serve)
        install
        exec "$place/bin/moto_server" -H 127.0.0.1 -p "${2:?a port is needed}"
        ;;
    *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
