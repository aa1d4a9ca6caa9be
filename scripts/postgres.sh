#!/usr/bin/env bash
# Installs PostgreSQL's server programs for `make test-postgres`: nothing is started, the tests do that for themselves. Safe to
# run again: it does nothing when they are there.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

if [ -x "${MILLSTREAM_POSTGRES_BIN:-}/initdb" ] || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    say "error: the tests need PostgreSQL; install its server and set MILLSTREAM_POSTGRES_BIN to the directory of initdb"
    exit 1
fi
if [ "$(id -u)" = 0 ]; then root=(); elif command -v sudo >/dev/null; then root=(sudo); else
    say "error: installing the Debian package postgresql needs root"
    exit 1
fi
install() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}
say "installing: postgresql"
"${root[@]}" apt-get update -qq
# Without a server of the system, which the package would make and start.
install postgresql-common
"${root[@]}" sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
install postgresql
