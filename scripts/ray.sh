#!/usr/bin/env bash
# scripts/ray.sh …: runs python/tests/on_ray with the Ray of target/python (scripts/python.sh) and the extension module of this build. Words
# are arguments for pytest: `make test` leaves the corpus out, `make test-ray` runs all.
# Ray takes the outer address of a machine and listens on all interfaces, so it runs in a network namespace that has the loopback only.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
place=$root/target/python

namespace=(unshare --net)
status=0
"${namespace[@]}" true 2>/dev/null || namespace=(unshare --map-root-user --net)
if ! "${namespace[@]}" ip link set lo up 2>/dev/null; then
    echo "test-ray is skipped: it needs a network namespace of its own (unshare --net, and ip of iproute2), which is not permitted here" >&2
    exit 0
fi
# Short, because sockets are in it.
folder=$(mktemp -d /tmp/msray.XXXXXX)
mkdir -p "$folder/package/millstream" "$folder/home"
ln -s "$root"/python/millstream/*.py* "$folder/package/millstream"
ln -s "${MILLSTREAM_EXTENSION:-$root/target/debug/deps/lib_core.so}" "$folder/package/millstream/_core.abi3.so"
# shellcheck disable=SC2016
env -u RAY_ADDRESS MILLSTREAM_RAY=start PYTHONPATH="$folder/package" PYTHONDONTWRITEBYTECODE=1 HOME="$folder/home" RAY_TMPDIR="$folder" \
    RAY_AUTH_MODE=token RAY_AUTH_TOKEN="$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" RAY_USAGE_STATS_ENABLED=0 \
    "${namespace[@]}" bash -c 'ip link set lo up && exec "$@"' - \
    "$place/bin/python" -m pytest -q -p no:cacheprovider --confcutdir "$root/python/tests/on_ray" "$root/python/tests/on_ray" "$@" || status=$?
[ -n "${MILLSTREAM_KEEP:-}" ] || rm -rf "$folder"
exit "$status"
