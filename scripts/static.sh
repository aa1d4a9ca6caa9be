# For the scripts that build what users get (wheel.sh, dist.sh), which source it in the project's folder: has cargo link against the C
# library of an older Debian, whose development files debootstrap fetches into target/wheel/root (300 MB, once; needs root), so that the
# result runs on systems older than this one. LLVM, the C++ library, OpenSSL, librdkafka, zlib and zstd go inside. Debian and Ubuntu
# only. Sets `target`, the triple, and `features` for cargo.
export PATH="$HOME/.cargo/bin:$PATH"

say() { printf '%s\n' "$*" >&2; }
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        say "error: '$*' needs root; run it as root and start again"
        exit 1
    fi
}

# Debian 11: glibc 2.31, the oldest release whose packages are still served.
release=bullseye
work=$PWD/target/wheel
root=$work/root
mkdir -p "$work"

scripts/setup.sh
scripts/web.sh
export LLVM_SYS_191_FFI_WORKAROUND=1
missing=()
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v objdump >/dev/null || missing+=(binutils)
[ -e "$(gcc -print-file-name=libffi.a)" ] || missing+=(libffi-dev)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || { say "error: missing: ${missing[*]} (names of the Debian packages)"; exit 1; }
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

if [ ! -e "$root/.complete" ]; then
    say "fetching Debian $release into $root"
    as_root rm -rf "$root"
    as_root debootstrap --variant=minbase --include=libc6-dev,linux-libc-dev "$release" "$root" https://deb.debian.org/debian >"$work/debootstrap.log"
    # An absolute link would lead out of the tree.
    find "$root/usr/lib" "$root/usr/lib64/" -type l -lname '/*' | while read -r link; do
        as_root ln -sfr "$root$(readlink "$link")" "$link"
    done
    as_root touch "$root/.complete"
fi

# Where the linker finds these libraries it finds archives only. LLVM's own list also names libraries that nothing here uses.
static=$work/static
rm -rf "$static" && mkdir -p "$static"
for library in stdc++ ffi z zstd; do
    archive=$(gcc -print-file-name="lib$library.a")
    [ -e "$archive" ] || { say "error: there is no lib$library.a"; exit 1; }
    ln -s "$archive" "$static/"
done
for unused in z3 xml2; do ar crs "$static/lib$unused.a"; done

target=$(rustc -vV | sed -n 's/^host: //p')
variable=${target//-/_}
export "CFLAGS_$variable=--sysroot=$root" "CXXFLAGS_$variable=--sysroot=$root"
# LLVM's build script has the linker look into this system's folder of libraries, where it would find this system's libc. LLVM never throws
# and nothing throws through it, so its unwind tables (a tenth of the program) stay out. Functions of the same code are kept once.
cat >"$work/linker" <<EOF
#!/usr/bin/env bash
set -e
llvm=\$(mktemp "$work/libllvm_sys-XXXXXX")
trap 'rm -f "\$llvm"' EXIT
words=()
for word in "\$@"; do
    case "\$word" in
    /usr/lib/*-linux-gnu | -L/usr/lib/*-linux-gnu) [ "\${words[-1]}" = -L ] && unset 'words[-1]' ;;
    */libllvm_sys-*.rlib)
        objcopy --remove-section=.eh_frame --remove-section=.rela.eh_frame "\$word" "\$llvm"
        words+=("\$llvm")
        ;;
    -fuse-ld=lld) words+=("\$word" -Wl,--icf=all) ;;
    *) words+=("\$word") ;;
    esac
done
libraries=$root/usr/lib/\$(gcc -print-multiarch)
gcc "--sysroot=$root" "-L$static" "-B\$libraries" "-L\$libraries" "\${words[@]}" "$work/shim.o" -Wl,--no-as-needed -lpthread -ldl
EOF
gcc "--sysroot=$root" -O2 -fPIC -fvisibility=hidden -c scripts/wheel_shim.c -o "$work/shim.o"
chmod +x "$work/linker"
export "CARGO_TARGET_$(tr a-z A-Z <<<"$variable")_LINKER=$work/linker"
# Across crates: an archive of 25.3 MB instead of 26.8, in the same time.
export CARGO_PROFILE_RELEASE_LTO=thin
export RUSTFLAGS="-L native=$static -C link-arg=--sysroot=$root -C link-arg=-Wl,--exclude-libs,ALL"
features=(--no-default-features --features static-libraries)
eval "$(scripts/build_info.sh)"
scripts/licences.py THIRD-PARTY.txt --target "$target" --sbom "$work/sbom.cdx.json"
