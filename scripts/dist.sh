#!/usr/bin/env bash
# Builds the packages of the program, linked as scripts/static.sh says, into target/dist: `scripts/dist.sh`
#
#   millstream-<version>-<system>.tar.xz   bin/, man pages, completions, licences, SBOM, examples
#   millstream_<version>_<arch>.deb        the same for Debian and Ubuntu
#   Containerfile, install.sh              what makes an image of the .deb, and what fetches and installs the archive
#   SHA256SUMS
#
# MILLSTREAM_REPOSITORY is the address of the project, such as https://github.com/<owner>/<name>: install.sh fetches from its releases, and
# the .deb names it. Archives are the same for the same commit and tools: dates in them are the commit's. Debian and Ubuntu only.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/static.sh

missing=()
command -v dpkg-deb >/dev/null || missing+=(dpkg)
command -v xz >/dev/null || missing+=(xz-utils)
command -v strip >/dev/null || missing+=(binutils)
[ ${#missing[@]} -eq 0 ] || { say "error: missing: ${missing[*]} (names of the Debian packages)"; exit 1; }

dist=target/dist
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=millstream-$version-$target
tree=$dist/$name
rm -rf "$dist"/millstream* "$dist/deb" "$dist/SHA256SUMS"
mkdir -p "$tree"/{bin,share/man/man1,share/completions,share/doc,share/examples,share/monitoring}

cargo build --release --target "$target" --package millstream-cli --bin millstream "${features[@]}"
strip -o "$tree/bin/millstream" "target/$target/release/millstream"

needed=$(readelf -d "$tree/bin/millstream" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
while read -r library; do
    case "$library" in libc.so.6 | libm.so.6 | libgcc_s.so.1 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-*) ;; *)
        say "error: the program needs $library"
        exit 1
        ;;
    esac
done <<<"$needed"
glibc=$(objdump -T "$tree/bin/millstream" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
say "the program needs ${needed//$'\n'/, } of ${glibc/_/ }"

# What it prints of itself is asked of the program that is shipped.
"$tree/bin/millstream" man "$tree/share/man/man1"
for shell in bash zsh fish; do "$tree/bin/millstream" completions "$shell" >"$tree/share/completions/millstream.$shell"; done
cp LICENSE THIRD-PARTY.txt README.md CHANGELOG.md "$tree/share/doc/"
cp "$work/sbom.cdx.json" "$tree/share/doc/"
cp examples/*.sql examples/*.jsonl "$tree/share/examples/"
cp packaging/monitoring/* "$tree/share/monitoring/"

epoch=$(git log -1 --format=%ct 2>/dev/null || echo 0)
fixed=(--sort=name --owner=0 --group=0 --numeric-owner "--mtime=@$epoch")
# The filter knows jumps and calls of x86, whose code has no alignment; other processors' xz reads it as well.
case "$target" in x86_64-*) filters=(--x86 --lzma2=preset=9e,dict=128MiB,lc=4,pb=0) ;; *) filters=(-9e) ;; esac
tar -C "$dist" "${fixed[@]}" -cf - "$name" | xz -T1 "${filters[@]}" >"$dist/$name.tar.xz"

deb=$dist/deb
mkdir -p "$deb"/{DEBIAN,etc/millstream/jobs,usr/lib/systemd/system,usr/bin,usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d,doc/millstream/examples}}
cp "$tree/bin/millstream" "$deb/usr/bin/"
# It is not enabled: who installs the command need not want a service.
cp packaging/systemd/millstream.service "$deb/usr/lib/systemd/system/"
for page in "$tree"/share/man/man1/*.1; do gzip -9n <"$page" >"$deb/usr/share/man/man1/$(basename "$page").gz"; done
cp "$tree/share/completions/millstream.bash" "$deb/usr/share/bash-completion/completions/millstream"
cp "$tree/share/completions/millstream.zsh" "$deb/usr/share/zsh/vendor-completions/_millstream"
cp "$tree/share/completions/millstream.fish" "$deb/usr/share/fish/vendor_completions.d/millstream.fish"
cp "$tree"/share/doc/{README.md,CHANGELOG.md,THIRD-PARTY.txt,sbom.cdx.json} "$deb/usr/share/doc/millstream/"
cp "$tree/share/doc/LICENSE" "$deb/usr/share/doc/millstream/copyright"
cp "$tree"/share/examples/* "$deb/usr/share/doc/millstream/examples/"
cp -r "$tree/share/monitoring" "$deb/usr/share/doc/millstream/"
architecture=$(dpkg --print-architecture)
cat >"$deb/DEBIAN/control" <<EOF
Package: millstream
Version: $version
Architecture: $architecture
Maintainer: The Millstream authors <${MILLSTREAM_MAINTAINER:-millstream@example.invalid}>
Installed-Size: $(du -sk "$deb/usr" | cut -f1)
Depends: libc6 (>= ${glibc#GLIBC_}), libgcc-s1
Recommends: ca-certificates
Section: database
Priority: optional
${MILLSTREAM_REPOSITORY:+Homepage: $MILLSTREAM_REPOSITORY
}Description: stream processing with SQL on one machine
 Millstream compiles streaming SQL in Flink's dialect to machine code, keeps
 state larger than memory, and recovers exactly once.
EOF
SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group -Zxz -z9 --build "$deb" "$dist/millstream_${version}_$architecture.deb" >&2
cp packaging/Containerfile "$dist/"
sed "s#^releases=.*#releases=\${MILLSTREAM_RELEASES:-${MILLSTREAM_REPOSITORY:+$MILLSTREAM_REPOSITORY/releases}}#" packaging/install.sh >"$dist/install.sh"
chmod +x "$dist/install.sh"
(cd "$dist" && sha256sum ./*.tar.xz ./*.deb install.sh Containerfile | sed 's#\./##' >SHA256SUMS && cat SHA256SUMS)
du -h "$dist"/*.tar.xz "$dist"/*.deb "$tree/bin/millstream" >&2
