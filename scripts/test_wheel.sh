#!/usr/bin/env bash
# Tests the wheel that scripts/wheel.sh has put into target/wheel/dist: `scripts/test_wheel.sh` does everything, with words only that:
#   contents      size, name, what the extension module needs and what it exports, licences
#   old-system    import and queries in a Debian 11 that has no compiler
#   certificates  which authorities TLS finds, by where several systems keep them
#   pythons       import and queries with each Python 3.11 to 3.14 that is here
#   suite         quickstart, gallery, SQL corpus and the other tests in Python, without a compiler, with each of these Pythons
#   neighbours    queries in one process with pyarrow, numba and polars
#   prepare       only fetches and builds what these need
# WHEEL=<file> names another wheel. Debian 11 and a Python 3.11 that is built in it are made once (110 MB of downloads, some five
# minutes; needs root), as are virtual environments with the neighbours (from PyPI, 900 MB) and for the suite (1.2 GB a Python), all
# in target/wheel. Without downloads and builds the tests take some three minutes, and the suite three more a Python. Debian and
# Ubuntu only.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
if [ "$(id -u)" = 0 ]; then root=(); elif command -v sudo >/dev/null; then root=(sudo); else
    say "error: chroots need root; run it as root"
    exit 1
fi

failures=0
fail() {
    say "FAILED: $*"
    failures=$((failures + 1))
}

release=bullseye
mirror=https://deb.debian.org/debian
source=python3.11_3.11.2.orig.tar.gz
source_sha256=2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849
most_bytes=45000000
most_bytes_unpacked=130000000
most_milliseconds_of_import=60

work=$PWD/target/wheel
base=$work/chroot/base
old=$work/chroot/old
python=$work/python-3.11
programs=$work/test/programs
tls=$work/test/tls
neighbours=$work/neighbours
mkdir -p "$work/chroot" "$work/packages" "$programs" "$tls"

# `"${enter[@]}" <chroot> [NAME=VALUE…] <command>…`: with these variables only, and with a /proc that nobody else sees and that goes
# with the process.
enter=("${root[@]}" unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
    PATH=/opt/venv/bin:/opt/python/bin:/usr/bin:/bin "$@"')

# --- What the tests need -----------------------------------------------------------------------------------------------------------

tools() {
    local missing=()
    command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ] || missing+=(debootstrap)
    command -v readelf >/dev/null || missing+=(binutils)
    command -v curl >/dev/null || missing+=(curl ca-certificates)
    command -v openssl >/dev/null || missing+=(openssl)
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || { say "error: missing: ${missing[*]} (names of the Debian packages)"; exit 1; }
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# debian <directory> <more packages>
debian() {
    [ -e "$1/.complete" ] && return
    say "fetching Debian $release into $1"
    "${root[@]}" rm -rf "$1"
    "${root[@]}" env PATH="$PATH:/usr/sbin" debootstrap --cache-dir="$work/packages" --variant=minbase --include="$2" \
        "$release" "$1" "$mirror" >"$1.log"
    "${root[@]}" touch "$1/.complete"
}

# Python 3.11, which Debian 11 does not have. It is built in another tree, so that no compiler comes into the one of the tests.
old_python() {
    [ -e "$python/.complete" ] && return
    local build=$work/chroot/build archive=$work/packages/$source
    if [ ! -e "$archive" ]; then
        curl --proto '=https' -fsSL -o "$archive.part" "$mirror/pool/main/p/python3.11/$source"
        mv "$archive.part" "$archive"
    fi
    echo "$source_sha256  $archive" | sha256sum --check --quiet || { rm "$archive"; say "error: $source is not what it was"; exit 1; }
    debian "$build" gcc,libc6-dev,libffi-dev,libssl-dev,make,zlib1g-dev
    say "building Python 3.11 in it; see $python.log"
    "${root[@]}" mkdir -p "$build/build"
    "${root[@]}" tar --extract --no-same-owner --strip-components=1 --file="$archive" --directory="$build/build"
    nice -n 10 "${enter[@]}" "$build" sh -c "cd /build && ./configure --prefix=/opt/python --with-ensurepip=no --disable-test-modules &&
        make -j$(nproc) && make install" >"$python.log" 2>&1 || { tail -20 "$python.log" >&2; exit 1; }
    "${root[@]}" rm -rf "$python"
    "${root[@]}" mv "$build/opt/python" "$python"
    "${root[@]}" touch "$python/.complete"
    "${root[@]}" rm -rf "$build"
}

# An authority with a certificate of this machine, and another authority.
authorities() {
    [ -e "$tls/complete" ] && return
    local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650) authority
    (
        cd "$tls"
        for authority in ca other; do
            openssl req -x509 "${key[@]}" -keyout $authority.key -out $authority.pem -subj "/CN=$authority of tests"
        done
        openssl req "${key[@]}" -keyout server.key -out server.csr -subj "/CN=localhost"
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -out server.pem \
            -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1")
    ) >"$tls/log" 2>&1 || { cat "$tls/log" >&2; exit 1; }
    touch "$tls/complete"
}

prepare() {
    debian "$base" ca-certificates,libffi7,libssl1.1,zlib1g
    old_python
    authorities
}

# --- Programs of the tests ---------------------------------------------------------------------------------------------------------

# query.py <command>…: two compiled queries through the command.
cat >"$programs/query.py" <<'PROGRAM'
import json
import subprocess
import sys

TABLE = """CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0',
    'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000');"""
QUERIES = [
    ("SELECT n, n * 2 AS twice FROM t WHERE n > 99998", [{"n": 99999, "twice": 199998}, {"n": 100000, "twice": 200000}]),
    (
        """SET 'execution.runtime-mode' = 'batch';
        SELECT n % 3 AS k, COUNT(*) AS c, SUM(n) AS s, MAX(UPPER(CONCAT('row ', CAST(n AS STRING)))) AS m FROM t GROUP BY n % 3""",
        [
            {"k": 0, "c": 33333, "s": 1666683333, "m": "ROW 99999"},
            {"k": 1, "c": 33334, "s": 1666716667, "m": "ROW 99997"},
            {"k": 2, "c": 33333, "s": 1666650000, "m": "ROW 99998"},
        ],
    ),
]


def words(query: str) -> list[str]:
    return ["sql", "-e", TABLE + query, "--output", "json", "--tier", "compile"]


def check(command: list[str], query: str, expected: list[dict[str, object]]) -> None:
    result = subprocess.run([*command, *words(query)], capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ends with {result.returncode}: {result.stderr}")
    rows = sorted((json.loads(line) for line in result.stdout.splitlines()), key=lambda row: list(row.values()))
    if rows != expected:
        sys.exit(f"{query}: the rows are {rows}")


if __name__ == "__main__":
    for query, expected in QUERIES:
        check(sys.argv[1:], query, expected)
PROGRAM

# start.py <most milliseconds> <command>…: how long importing takes, and the first row of the command.
cat >"$programs/start.py" <<'PROGRAM'
import subprocess
import sys
import time


def milliseconds(*words: str) -> float:
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    process.stdout.readline()
    after = (time.perf_counter() - began) * 1000
    process.stdout.read()
    if process.wait() != 0:
        sys.exit(f"{words} ends with {process.returncode}")
    return after


script = "print(1)"
rounds = [
    (
        milliseconds(sys.executable, "-c", script),
        milliseconds(sys.executable, "-c", f"import millstream; {script}"),
        milliseconds(*sys.argv[2:], "sql", "-e", "SELECT 1"),
    )
    for _ in range(5)
]
empty, imported, first = (min(column) for column in zip(*rounds))
print(f"  start of Python {empty:.0f} ms, with import millstream {imported:.0f} ms, first row of SELECT 1 by the command {first:.0f} ms")
if imported - empty > float(sys.argv[1]):
    sys.exit(f"import millstream takes {imported - empty:.0f} ms, more than {sys.argv[1]}")
PROGRAM

# neighbours.py <modules>: a query in the process of these modules, which are imported before millstream, or behind it.
cat >"$programs/neighbours.py" <<'PROGRAM'
import json
import subprocess
import sys

from query import QUERIES, words


def use(name: str) -> None:
    if name == "pyarrow":
        import pyarrow
        import pyarrow.compute

        assert pyarrow.compute.sum(pyarrow.array(range(1000))).as_py() == 499500
    elif name == "polars":
        import polars

        assert polars.DataFrame({"n": range(1000)}).lazy().select(polars.col("n").sum()).collect().item() == 499500
    elif name == "numba":
        import numba

        # A new function each time, which is compiled by numba's own LLVM.
        @numba.njit
        def total(n: int) -> float:
            roots = 0.0
            for i in range(n):
                roots += i**0.5
            return roots

        assert 661 < total(100) < 662


def child(order: str, names: list[str], query: str) -> None:
    if order == "before":
        for name in names:
            use(name)
    from millstream import _core

    if order == "behind":
        for name in names:
            use(name)
    code = _core.run_command(["millstream", *words(query)])
    for name in [*names, "numba"]:
        use(name)
    sys.exit(code)


def parent(names: str) -> None:
    for order in ["before", "behind"]:
        for query, expected in QUERIES:
            process = [sys.executable, "-X", "faulthandler", __file__, order, names, query]
            result = subprocess.run(process, capture_output=True, text=True, timeout=300)
            rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
            if result.returncode != 0 or sorted(rows, key=lambda row: list(row.values())) != expected:
                sys.exit(f"with {names} imported {order} it: code {result.returncode}, rows {rows}\n{result.stderr}")


if len(sys.argv) > 2:
    child(sys.argv[1], sys.argv[2].split(","), sys.argv[3])
else:
    parent(sys.argv[1])
PROGRAM

# handshake.py <certificate> <key> <accepted|refused> <command>…: whether the command, in which {port} stands for a port, takes this
# certificate. PostgreSQL's clients ask whether there is TLS before they begin with it.
cat >"$programs/handshake.py" <<'PROGRAM'
import contextlib
import socket
import ssl
import subprocess
import sys
import tempfile

certificate, key, expected, *command = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
ASKS_FOR_TLS = bytes.fromhex("0000000804d2162f")


def verdict(connection: socket.socket) -> str:
    connection.settimeout(60)
    if connection.recv(8, socket.MSG_PEEK) == ASKS_FOR_TLS:
        connection.recv(8)
        connection.sendall(b"S")
    try:
        with context.wrap_socket(connection, server_side=True):
            return "accepted"
    except ssl.SSLError as error:
        # A client that refuses says so by an alert; without one it may be wrong with something else.
        return "refused" if "UNKNOWN_CA" in str(error).upper().replace(" ", "_") else f"lost ({error})"
    except OSError as error:
        return f"lost ({error})"


with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile("w+") as output:
    server.settimeout(1)
    port = str(server.getsockname()[1])
    words = [word.replace("{port}", port) for word in command]
    client = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    found = None
    while found is None:
        try:
            connection = server.accept()[0]
        except TimeoutError:
            if client.poll() is not None:
                found = "not asked for"
        else:
            found = verdict(connection)
    server.close()
    if found != expected:
        with contextlib.suppress(subprocess.TimeoutExpired):
            # What it says is wanted.
            client.wait(timeout=10)
    # The command takes the first signal for a request to come to a good end, and would connect again.
    for end in [client.terminate, client.terminate, client.terminate, client.kill]:
        try:
            client.wait(timeout=1)
            break
        except subprocess.TimeoutExpired:
            end()
    client.wait()
    output.seek(0)
    said = output.read()
if found != expected:
    sys.exit(f"the certificate was {found}; the command said: {said}")
PROGRAM

# --- Tests -------------------------------------------------------------------------------------------------------------------------

find_wheel() {
    local wheels=("$work"/dist/*.whl)
    [ -n "${WHEEL:-}" ] && wheels=("$WHEEL")
    [ -e "${wheels[0]}" ] || { say "error: there is no wheel; run \`make wheel\`, or name one: WHEEL=<file>"; exit 1; }
    [ ${#wheels[@]} = 1 ] || { say "error: there are several wheels in $work/dist; name one: WHEEL=<file>"; exit 1; }
    wheel=$(realpath "${wheels[0]}")
}

unpack() {
    rm -rf "$work/test/unpacked"
    python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' "$wheel" "$work/test/unpacked"
    extension=$work/test/unpacked/millstream/_core.abi3.so
    [ -e "$extension" ] || { say "error: $wheel has no millstream/_core.abi3.so"; exit 1; }
}

check_name() {
    [[ $(basename "$wheel") =~ ^millstream-[^-]+-cp311-abi3-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$ ]] ||
        fail "$(basename "$wheel") is not named millstream-<version>-cp311-abi3-manylinux_<glibc>_<machine>.whl"
}

check_size() {
    local bytes unpacked
    bytes=$(stat -c %s "$wheel")
    unpacked=$(find "$work/test/unpacked" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
    say "  $((bytes / 1000000)) MB, unpacked $((unpacked / 1000000)) MB"
    [ "$bytes" -le $most_bytes ] || fail "the wheel has $bytes bytes, more than $most_bytes"
    [ "$unpacked" -le $most_bytes_unpacked ] || fail "unpacked, the wheel has $unpacked bytes, more than $most_bytes_unpacked"
}

check_needed() {
    local library
    while read -r library; do
        case $library in
            libc.so.6 | libm.so.6 | libgcc_s.so.1 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux*) ;;
            *) fail "the extension module needs $library, which a system may not have" ;;
        esac
    done < <(readelf -dW "$extension" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    readelf -dW "$extension" | grep -E '\((RPATH|RUNPATH)\)' >&2 && fail "the extension module looks for libraries in the folders above"
    # New C libraries do not load such a thing.
    readelf -lW "$extension" | grep -E 'GNU_STACK.*RWE' >&2 && fail "the extension module wants a stack that can be executed"
    return 0
}

check_glibc() {
    local promised newest symbols young
    promised=$(sed -n 's/.*-manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/p' <<<"$wheel")
    # `<version> <name>`, the newest first.
    symbols=$(objdump -T "$extension" | sed -n 's/.*\*UND\*.*[( ]GLIBC_\([A-Z0-9.]*\))\{0,1\} \{1,\}\(.*\)/\1 \2/p' | sort -V -r)
    newest=$(sed -n '1s/ .*//p' <<<"$symbols")
    [ -n "$newest" ] || { fail "objdump names no symbol of the C library that the extension module needs"; return 0; }
    young=$(awk '{ split($1, v, "."); if (v[1] > 2 || v[2] > 28) printf "%s (%s) ", $2, $1 }' <<<"$symbols")
    say "  glibc $promised is promised, $newest needed; above 2.28: ${young:-nothing}"
    [ "$(printf '%s\n' "$promised" "$newest" | sort -V | tail -1)" = "$promised" ] ||
        fail "the extension module needs glibc $newest, but its name promises $promised"
}

# Whatever of a library inside is visible could be taken for the library of another module in the process, or be replaced by it.
check_exports() {
    local exported foreign
    exported=$(nm -D --defined-only "$extension" | awk '{ sub(/@.*/, "", $3); print $3 }')
    grep -qx PyInit__core <<<"$exported" || fail "the extension module has no PyInit__core"
    foreign=$(grep -E \
        -e '^(LLVM|lld|clang)|N4llvm|^_Z(n|d|na|da)|^_ZNK?S[tados]|^_ZT[ISV]S|^__(cxa|gxx)_' \
        -e '^_?mi_|^(malloc|calloc|realloc|free|posix_memalign|aligned_alloc)$' \
        -e '^(SSL|TLS|DTLS|OPENSSL|OSSL|CRYPTO|EVP|X509|BIO|ERR|RSA|EC|BN|ASN1|PEM|PKCS[0-9]*|HMAC|SHA[0-9]*|RAND)_' \
        -e '^rd_|^rk|^(inflate|deflate|adler32|crc32|compress|uncompress|zlib|gz)|^(ZSTD|HUF|FSE|HIST|ZDICT|LZ4|LZ4F|XXH|ffi|snappy)_' \
        <<<"$exported" || true)
    [ -z "$foreign" ] ||
        fail "the extension module exports $(wc -l <<<"$foreign") symbols of libraries inside: $(head -8 <<<"$foreign" | tr '\n' ' ')"
    say "  exported: $(wc -l <<<"$exported") symbols: $(head -8 <<<"$exported" | tr '\n' ' ')"
}

check_licences() {
    local file found
    for file in "licenses/*THIRD-PARTY.txt" "sboms/?*"; do
        found=$(find "$work/test/unpacked" -type f -size +0 -path "*.dist-info/$file" -printf '%P (%s bytes) ')
        if [ -n "$found" ]; then say "  $found"; else fail "the wheel has no dist-info/$file"; fi
    done
}

contents() {
    unpack
    check_name
    check_size
    check_needed
    check_glibc
    check_exports
    check_licences
}

# A new Debian 11 with Python and the wheel. Files are links to those of the first one: they may be replaced, but not written into.
old_is_fresh=
install_into_old() {
    [ -z "$old_is_fresh" ] || return 0
    old_is_fresh=yes
    prepare
    "${root[@]}" rm -rf "$old"
    "${root[@]}" cp -al "$base" "$old"
    "${root[@]}" rm -rf "$old/opt/python" "$old/etc/hosts"
    "${root[@]}" cp -al "$python" "$old/opt/python"
    printf '127.0.0.1 localhost\n' | "${root[@]}" tee "$old/etc/hosts" >/dev/null
    "${root[@]}" mkdir -p "$old/test"
    "${root[@]}" cp "$programs"/*.py "$wheel" "$old/test/"
    "${enter[@]}" "$old" /opt/python/bin/python3 -m venv /opt/venv
    "${enter[@]}" "$old" pip install --quiet --disable-pip-version-check --no-index "/test/$(basename "$wheel")" ||
        { say "FAILED: pip of Debian 11 does not install $(basename "$wheel")"; exit 1; }
}

old_system() {
    install_into_old
    say "  $("${enter[@]}" "$old" ldd --version | head -1), $("${enter[@]}" "$old" python --version)"
    "${enter[@]}" "$old" sh -c 'for tool in cc gcc clang c99 as ld make; do ! command -v $tool || exit 1; done' >&2 ||
        fail "the tree of the test has a compiler"
    "${enter[@]}" "$old" millstream --version >&2 || fail "the command does not start in Debian 11"
    "${enter[@]}" "$old" python /test/query.py millstream || fail "a compiled query in Debian 11"
    "${enter[@]}" "$old" python /test/query.py python -m millstream || fail "a compiled query in Debian 11, by python -m millstream"
    "${enter[@]}" "$old" python /test/start.py $most_milliseconds_of_import millstream >&2 || fail "start in Debian 11"
}

# lay <layout> <authority>: has the old system keep this authority, and no other, where the systems of the layout do.
lay() {
    local file authority=$2
    "${root[@]}" rm -rf "$old/etc/ssl" "$old/etc/pki" "$old/root/authority.pem"
    case $1 in
        debian) file=etc/ssl/certs/ca-certificates.crt ;;
        rhel) file=etc/pki/tls/certs/ca-bundle.crt ;;
        alpine) file=etc/ssl/cert.pem ;;
        directory) file= ;;
        none) file=root/authority.pem ;;
    esac
    [ -z "$file" ] || "${root[@]}" install -D -m 644 "$authority" "$old/$file"
    case $1 in debian | directory)
        "${root[@]}" install -D -m 644 "$authority" "$old/etc/ssl/certs/$(openssl x509 -noout -hash -in "$authority").0" ;;
    esac
}

# handshake <what> <accepted|refused> <[NAME=VALUE…] command>…
handshake() {
    local what=$1 expected=$2
    shift 2
    if python3 "$programs/handshake.py" "$tls/server.pem" "$tls/server.key" "$expected" "${enter[@]}" "$old" "$@"; then
        say "  $what: $expected"
    else
        fail "$what should have been $expected"
    fi
}

# Clients with an own way to authorities: librdkafka, native-tls as PostgreSQL's client sets it up, and as the HTTP client does.
# kafka <what> <accepted|refused> <more options> [NAME=VALUE…]
kafka() {
    local table="CREATE TABLE t (a STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'raw', 'connect.timeout' = '30 s',
        'scan.startup.mode' = 'earliest-offset', 'properties.bootstrap.servers' = 'localhost:{port}',
        'properties.security.protocol' = 'ssl' $3);"
    handshake "kafka, $1" "$2" "${@:4}" millstream sql -e "$table SELECT a FROM t"
}

postgres() {
    local table="CREATE TABLE t (n INT) WITH ('connector' = 'jdbc', 'table-name' = 't', 'username' = 'tester',
        'url' = 'jdbc:postgresql://localhost:{port}/test?sslmode=verify-full');"
    handshake "jdbc, $1" "$2" "${@:3}" millstream sql -e "$table INSERT INTO t SELECT 1"
}

s3() {
    handshake "s3, $1" "$2" "${@:3}" AWS_ENDPOINT_URL="https://localhost:{port}" AWS_ACCESS_KEY_ID=tester AWS_SECRET_ACCESS_KEY=secret \
        millstream checkpoint list --state-dir s3://bucket/prefix
}

certificates() {
    local layout variable=SSL_CERT_FILE=/root/authority.pem
    install_into_old
    for layout in debian rhel alpine directory; do
        lay $layout "$tls/ca.pem"
        kafka "authority as in layout $layout" accepted ""
        postgres "authority as in layout $layout" accepted
        s3 "authority as in layout $layout" accepted
        lay $layout "$tls/other.pem"
        kafka "another authority as in layout $layout" refused ""
        postgres "another authority as in layout $layout" refused
        s3 "another authority as in layout $layout" refused
    done
    lay none "$tls/ca.pem"
    kafka "no authority" refused ""
    postgres "no authority" refused
    s3 "no authority" refused
    kafka "authority of ssl.ca.location" accepted ", 'properties.ssl.ca.location' = '/root/authority.pem'"
    kafka "authority of ssl.ca.pem" accepted ", 'properties.ssl.ca.pem' = '$(cat "$tls/ca.pem")'"
    # What OpenSSL's variable names counts for more than what the system has, and what the table names for more than both.
    lay debian "$tls/other.pem"
    "${root[@]}" install -m 644 "$tls/ca.pem" "$old/root/authority.pem"
    kafka "authority of $variable" accepted "" $variable
    postgres "authority of $variable" accepted $variable
    s3 "authority of $variable" accepted $variable
    lay debian "$tls/ca.pem"
    "${root[@]}" install -m 644 "$tls/other.pem" "$old/root/authority.pem"
    kafka "another authority of ssl.ca.location" refused ", 'properties.ssl.ca.location' = '/root/authority.pem'"
    kafka "another authority of ssl.ca.pem" refused ", 'properties.ssl.ca.pem' = '$(cat "$tls/other.pem")'"
}

# Pythons 3.11 to 3.14 of this system, each once, the oldest first. Those without the global lock have another binary interface.
find_pythons() {
    local candidate
    for candidate in "$HOME"/.pyenv/versions/*/bin/python3 $(type -ap python3 python3.11 python3.12 python3.13 python3.14); do
        "$candidate" - <<'PROGRAM' 2>/dev/null || true
import ensurepip, os, sys, sysconfig, venv
if (3, 11) <= sys.version_info < (3, 15) and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("%d.%d.%d" % sys.version_info[:3], os.path.realpath(sys.executable))
PROGRAM
    done | sort -V -u
}

pythons() {
    local version interpreter place
    [ -n "$(find_pythons)" ] || fail "there is no Python 3.11 to 3.14 with ensurepip and venv here"
    while read -r version interpreter; do
        say "  $version: $interpreter"
        place=$work/test/python-$version
        rm -rf "$place"
        "$interpreter" -m venv "$place"
        if "$place/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel" </dev/null; then
            "$place/bin/python" "$programs/query.py" "$place/bin/millstream" </dev/null || fail "a compiled query with $interpreter"
        else
            fail "pip of $interpreter does not install $(basename "$wheel")"
        fi
        rm -rf "$place"
    done < <(find_pythons)
}

suite() {
    find_pythons | scripts/wheel_suite.py "$work/suite" "$wheel" || fail "the tests in Python with the installed wheel"
}

# The newest Python that there are wheels of the neighbours for.
prepare_neighbours() {
    local version interpreter
    [ -e "$neighbours/.complete" ] && return
    while read -r version interpreter; do
        rm -rf "$neighbours"
        "$interpreter" -m venv "$neighbours"
        say "fetching pyarrow, numba and polars for Python $version"
        if "$neighbours/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: pyarrow numba polars </dev/null; then
            touch "$neighbours/.complete"
            return
        fi
    done < <(find_pythons | sort -V -r)
    say "error: pip has found pyarrow, numba and polars for no Python that is here"
    exit 1
}

neighbours() {
    local names
    prepare_neighbours
    say "  $("$neighbours/bin/python" --version), $("$neighbours/bin/pip" list --format freeze --disable-pip-version-check |
        grep -E '^(numba|numpy|llvmlite|pyarrow|polars)=' | tr '\n' ' ')"
    "$neighbours/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel" ||
        { fail "pip does not install $(basename "$wheel") beside them"; return 0; }
    for names in pyarrow numba polars pyarrow,numba,polars polars,numba,pyarrow; do
        if "$neighbours/bin/python" "$programs/neighbours.py" $names; then say "  $names: works"; else fail "in a process with $names"; fi
    done
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(contents old-system certificates pythons suite neighbours)
for part in "${parts[@]}"; do
    case $part in contents | old-system | certificates | pythons | suite | neighbours | prepare) ;;
        *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
tools
for part in "${parts[@]}"; do
    say "$part"
    case $part in
        prepare) prepare; prepare_neighbours; find_pythons | scripts/wheel_suite.py "$work/suite" ;;
        *) find_wheel; "${part//-/_}" ;;
    esac
done
[ "$failures" = 0 ] || { say "$failures failures"; exit 1; }
[ "${parts[*]}" = prepare ] || say "the wheel is as it should be"
