#!/usr/bin/env bash
# scripts/beside.sh NAME COMMAND… -- COMMAND…: runs two commands at once, and shows the output of the first behind that of the second. Fails
# if either does. For commands that wait for something, or use one core, beside one that keeps all busy.
set -uo pipefail
cd "$(dirname "$0")/.."
name=$1
shift
first=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do first+=("$1"); shift; done
[ $# -gt 1 ] && [ ${#first[@]} -gt 0 ] || { echo "error: two commands with -- between them" >&2; exit 2; }
shift
mkdir -p target
log=target/$name.log
"${first[@]}" >"$log" 2>&1 &
beside=$!
# One that is interrupted ends the other, too.
trap 'kill "$beside" 2>/dev/null; exit 130' INT TERM
"$@"
status=$?
wait "$beside"
other=$?
echo "--- $name, which ran beside it:"
cat "$log"
[ "$status" = 0 ] && exit "$other"
exit "$status"
