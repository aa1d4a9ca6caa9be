#!/bin/sh
# Installs Millstream for this user: `sh install.sh`, or `curl -fsSL <its address> | sh`
#
# MILLSTREAM_VERSION   which version; without it the latest
# MILLSTREAM_PREFIX    where to: bin/, share/man and completions below it (default: ~/.local)
# MILLSTREAM_RELEASES  where archives come from: a URL or a folder
set -eu
# The folder of releases that this script was made for: scripts/dist.sh writes it here.
releases=${MILLSTREAM_RELEASES:-}
prefix=${MILLSTREAM_PREFIX:-$HOME/.local}

fail() {
    echo "error: $*" >&2
    exit 1
}
[ -n "$releases" ] || fail "MILLSTREAM_RELEASES must say where the archives are: a URL or a folder"
for tool in tar xz sha256sum; do
    command -v "$tool" >/dev/null || fail "$tool is missing: on Debian and Ubuntu apt-get install tar xz-utils coreutils"
done
[ "$(uname -s)" = Linux ] || fail "there are archives for Linux only: elsewhere pip install millstream, or build it (README.md)"
case "$(uname -m)" in x86_64 | aarch64) target=$(uname -m)-unknown-linux-gnu ;; *) fail "there is no archive for $(uname -m)" ;; esac
if ! ldd --version 2>&1 | grep -qi 'glibc\|gnu libc'; then
    fail "the program needs the GNU C library, which this system does not have: use the container image"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
case "$releases" in
/* | ./*) get() { cp "$releases/$1" "$folder/"; } ;;
*)
    place=latest/download
    [ -z "${MILLSTREAM_VERSION:-}" ] || place=download/v$MILLSTREAM_VERSION
    if command -v curl >/dev/null; then
        get() { curl -fsSL --retry 3 -o "$folder/$1" "$releases/$place/$1"; }
    elif command -v wget >/dev/null; then
        get() { wget -q -O "$folder/$1" "$releases/$place/$1"; }
    else
        fail "curl or wget is missing: on Debian and Ubuntu apt-get install curl"
    fi
    ;;
esac

get SHA256SUMS || fail "there is no SHA256SUMS in $releases"
archive=$(sed -n "s/^[0-9a-f]*  \(millstream-${MILLSTREAM_VERSION:-[0-9][^ ]*}-$target\.tar\.xz\)$/\1/p" "$folder/SHA256SUMS" | head -n 1)
[ -n "$archive" ] || fail "$releases has no archive${MILLSTREAM_VERSION:+ of version $MILLSTREAM_VERSION} for $target"
get "$archive" || fail "$archive cannot be fetched from $releases"
(cd "$folder" && grep "  $archive\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) || fail "$archive is damaged: its checksum is not that of SHA256SUMS"
tar -C "$folder" -xJf "$folder/$archive"
unpacked=$folder/${archive%.tar.xz}

mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/doc/millstream" "$prefix/share/bash-completion/completions"
# By another name first: a running program cannot be overwritten, but its name can be given to a new one.
cp "$unpacked/bin/millstream" "$prefix/bin/.millstream.new"
mv -f "$prefix/bin/.millstream.new" "$prefix/bin/millstream"
cp "$unpacked"/share/man/man1/*.1 "$prefix/share/man/man1/"
cp -r "$unpacked"/share/doc/* "$unpacked/share/examples" "$unpacked/share/monitoring" "$prefix/share/doc/millstream/"
cp "$unpacked/share/completions/millstream.bash" "$prefix/share/bash-completion/completions/millstream"
"$prefix/bin/millstream" --version
echo "installed in $prefix/bin/millstream; try: cd $prefix/share/doc/millstream && millstream run examples/bids.sql"
case ":$PATH:" in *":$prefix/bin:"*) ;; *) echo "$prefix/bin is not in PATH: export PATH=\"$prefix/bin:\$PATH\"" ;; esac
