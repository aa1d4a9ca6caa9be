#!/usr/bin/env bash
# Builds the dashboard of crates/dashboard/web in target/web; does nothing when it is newer than its sources. With test it also runs the
# dashboard's tests, in Debian's chromium or the one of MILLSTREAM_CHROMIUM; where MILLSTREAM_BINARY names a millstream, also against that.
# Node and npm come through apt-get on Debian and Ubuntu; on other systems it says what to install.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
web=crates/dashboard/web
built=target/web
# Beside the built files and not among them: all that is in target/web is embedded in the program.
stamp=target/web-lock.json

need_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        say "error: '$*' needs root; run it as root and start again"
        exit 1
    fi
}

install() {
    if ! command -v apt-get >/dev/null; then
        say "error: missing: $* (names of the Debian packages)."
        say "  Fedora:  dnf install nodejs npm chromium"
        say "  Arch:    pacman -S nodejs npm chromium"
        say "  macOS:   brew install node; for tests export MILLSTREAM_CHROMIUM to a Chromium"
        exit 1
    fi
    say "installing: $*"
    need_root apt-get update -qq
    need_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

needs_node() {
    local missing=()
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    [ ${#missing[@]} = 0 ] || install "${missing[@]}"
    local major
    major=$(node -p 'process.versions.node.split(".")[0]')
    if [ "$major" -lt 18 ]; then
        say "error: Node $(node --version) is too old; the dashboard needs 18 or newer: https://nodejs.org"
        exit 1
    fi
}

needs_packages() {
    if [ ! -d "$web/node_modules" ] || ! cmp -s "$web/package-lock.json" "$stamp"; then
        needs_node
        # No package has to run anything when it is installed.
        (cd "$web" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
        mkdir -p target
        cp "$web/package-lock.json" "$stamp"
    fi
}

is_current() {
    [ -f "$built/index.html" ] && [ -f "$built/app.js" ] && [ -f "$built/app.css" ] && [ -f "$built/icon.svg" ] &&
        [ -z "$(find "$web/src" "$web/build.mjs" "$web/package-lock.json" -newer "$built/app.js" -print -quit)" ]
}

case "${1:-}" in
    '' | test) ;;
    *) say "error: '$1' is not known: scripts/web.sh builds the dashboard, scripts/web.sh test also tests it"; exit 1 ;;
esac
if ! is_current; then
    needs_packages
    needs_node
    node "$web/build.mjs" "$built" >&2
fi
if [ "${1:-}" = test ]; then
    needs_packages
    needs_node
    chromium=${MILLSTREAM_CHROMIUM:-/usr/bin/chromium}
    [ -x "$chromium" ] || install chromium
    if [ -n "${MILLSTREAM_BINARY:-}" ]; then
        MILLSTREAM_BINARY=$(realpath -e "$MILLSTREAM_BINARY")
        export MILLSTREAM_BINARY
    else
        say "the tests against the real program are left out: MILLSTREAM_BINARY does not name one"
    fi
    cd "$web"
    exec node --test test/*.test.mjs
fi
