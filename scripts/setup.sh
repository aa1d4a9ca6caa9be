#!/usr/bin/env bash
# Installs what Millstream needs to build: development files of LLVM 19 and OpenSSL, a C linker and compiler, and Rust;
# with --kafka also what the tests of the connector kafka need: Java and Maven; with --s3 and --python what scripts/s3.sh and
# scripts/python.sh need; with --rocksdb what the benchmark that has RocksDB beside it needs: libclang. Debian and Ubuntu are served through
# apt-get; on other systems it says what to install. Safe to run again: it does nothing when everything is there.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
rust_version=1.95.0

need_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        say "error: '$*' needs root; run it as root and start again"
        exit 1
    fi
}

missing=()
command -v cc >/dev/null || missing+=(build-essential)
command -v make >/dev/null || missing+=(make)
command -v curl >/dev/null || missing+=(curl ca-certificates)
command -v llvm-config-19 >/dev/null || missing+=(llvm-19-dev)
# LLVM's development files link against these; llvm-19-dev brings them on Debian, not on every Ubuntu.
[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
[ -e /usr/include/zstd.h ] || missing+=(libzstd-dev)
# For connections to Kafka and schema registries under TLS; librdkafka itself is built with its crate.
command -v pkg-config >/dev/null || missing+=(pkg-config)
[ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
if [ "${1:-}" = --kafka ]; then
    command -v java >/dev/null || missing+=(openjdk-17-jre-headless)
    command -v mvn >/dev/null || missing+=(maven)
    command -v openssl >/dev/null || missing+=(openssl)
fi
if [ "${1:-}" = --rocksdb ]; then
    ls /usr/lib/llvm-19/lib/libclang.so >/dev/null 2>&1 || missing+=(libclang-19-dev)
fi
if [ "${1:-}" = --s3 ] || [ "${1:-}" = --python ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
fi
{ [ -d /usr/include/polly ] || ls /usr/lib/llvm-19/lib/libPolly* >/dev/null 2>&1; } || missing+=(libpolly-19-dev)

if [ ${#missing[@]} -gt 0 ]; then
    if command -v apt-get >/dev/null; then
        say "installing: ${missing[*]}"
        need_root apt-get update -qq
        if ! apt-cache show llvm-19-dev >/dev/null 2>&1; then
            say "error: this release has no package llvm-19-dev (Debian 12 and Ubuntu 24.04 have it)."
            say "Add the repository of https://apt.llvm.org for LLVM 19, then run this again."
            exit 1
        fi
        need_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
    else
        say "error: missing: ${missing[*]} (names of the Debian packages)."
        say "  Fedora:  dnf install gcc gcc-c++ make llvm19-devel libzstd-devel zlib-devel openssl-devel pkgconf"
        say "  Arch:    pacman -S base-devel llvm19 openssl"
        say "  macOS:   brew install llvm@19 openssl@3 pkgconf, and export LLVM_SYS_191_PREFIX=\$(brew --prefix llvm@19)"
        exit 1
    fi
fi

if ! command -v cargo >/dev/null && [ ! -x "$HOME/.cargo/bin/cargo" ]; then
    say "installing Rust $rust_version with rustup"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y --profile minimal --default-toolchain "$rust_version" -c rustfmt -c clippy >&2
fi
export PATH="$HOME/.cargo/bin:$PATH"

have=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$rust_version" "$have" | sort -V | head -1)" != "$rust_version" ]; then
    say "error: Rust $have is too old; Millstream needs $rust_version or newer: rustup update stable"
    exit 1
fi
for tool in cargo-fmt cargo-clippy; do
    command -v "$tool" >/dev/null || rustup component add rustfmt clippy >&2
done
