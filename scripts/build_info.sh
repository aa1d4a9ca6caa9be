#!/usr/bin/env bash
# Prints what the program tells of its source, for `eval`: the commit and its date. Of a tree with changes, or without git, nothing is
# known, and `millstream --version` says "development build".
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --short=10 HEAD 2>/dev/null) || exit 0
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || exit 0
echo "export MILLSTREAM_BUILD_COMMIT=$commit MILLSTREAM_BUILD_DATE=$(git log -1 --format=%cs)"
