#!/usr/bin/env python3
"""Runs queries whose state is larger than a container's memory in control groups of several sizes, without --memory.

    scripts/memory.py MILLSTREAM [MIB,MIB,…] [QUERY…]

Needs root and a memory controller (cgroup version 1 or 2), as in a container with --privileged. For each query and size it prints
the private memory (RssAnon) that the process had at most, and the time; it fails when one was killed, gave other rows, or held more
than its budget and 64 MiB. Half a gigabyte of spilled state is written to the system's temporary directory.
"""
import os, pathlib, subprocess, sys, threading, time

MIB = 1 << 20


def numbers(name, rows):
    """Rows with keys of their own, a thousand of them each millisecond."""
    return f"""CREATE TABLE {name} (id BIGINT, k AS MOD(id * 7919, 10000000), v AS MOD(id, CAST(1000 AS BIGINT)),
        ts AS TO_TIMESTAMP_LTZ(id / 1000, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
        WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'number-of-rows' = '{rows}',
        'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{rows}');"""


def windowed(aggregate, group, windows, rows):
    inner = f"SELECT {aggregate} AS n FROM TABLE({windows}) GROUP BY {group}window_start, window_end"
    return rows, f"SELECT COUNT(*), SUM(n) FROM ({inner})"


HOUR = "DESCRIPTOR(ts), INTERVAL '1' HOUR"
JOIN = f"""SELECT COUNT(*), SUM(v) FROM (SELECT b.v FROM (SELECT * FROM TABLE(TUMBLE(TABLE s, {HOUR}))) a
    JOIN (SELECT * FROM TABLE(TUMBLE(TABLE t, {HOUR}))) b
    ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end)"""
OVER = """SELECT COUNT(*), SUM(n) FROM (SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 10 PRECEDING
    AND CURRENT ROW) AS n FROM s)"""
QUERIES = {
    "tumble": (*windowed("COUNT(*)", "k, ", f"TUMBLE(TABLE s, {HOUR})", 10_000_000), "10000000,10000000"),
    "hop": (
        *windowed("COUNT(*)", "k, ", "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)", 10_000_000),
        "20000000,20000000",
    ),
    "session": (
        *windowed("COUNT(*)", "k, ", "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' HOUR)", 10_000_000),
        "10000000,10000000",
    ),
    "join": (5_000_000, JOIN, "5000000,2497500000"),
    "over": (5_000_000, OVER, "5000000,2497500000"),
    "distinct": (*windowed("COUNT(DISTINCT id)", "v, ", f"TUMBLE(TABLE s, {HOUR})", 20_000_000), "1000,20000000"),
}


def group(size):
    """A control group of so many bytes, and the file that takes processes."""
    root = pathlib.Path("/sys/fs/cgroup")
    if (root / "memory").is_dir():
        path, limit = root / "memory" / f"millstream-{size // MIB}", "memory.limit_in_bytes"
    else:
        (root / "cgroup.subtree_control").write_text("+memory")
        path, limit = root / f"millstream-{size // MIB}", "memory.max"
    path.mkdir(exist_ok=True)
    (path / limit).write_text(str(size))
    return path / "cgroup.procs"


def budget(size):
    """What a query has by default of a container of so many bytes: see docs/memory.md."""
    return max(min(size * 60 // 100, size - 88 * MIB), min(24 * MIB, size // 4))


def run(binary, size, rows, query):
    procs = group(size)
    sql = "SET 'execution.runtime-mode' = 'batch';" + numbers("s", rows) + numbers("t", rows) + query + ";"
    start = time.time()
    process = subprocess.Popen(
        [binary, "run", "-", "--quiet", "--output", "csv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: procs.write_text(str(os.getpid())),
    )
    most = 0

    def watch():
        nonlocal most
        while process.poll() is None:
            try:
                lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except OSError:
                return
            most = max([most] + [int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")])
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, errors = process.communicate(sql, timeout=1800)
    watcher.join()
    return process.returncode, out.splitlines()[1:2], errors.strip(), most, time.time() - start


def main():
    binary = sys.argv[1]
    sizes = [int(s) for s in (sys.argv[2].split(",") if len(sys.argv) > 2 else "128,192,256,512,1024".split(","))]
    chosen = sys.argv[3:] or list(QUERIES)
    missed = 0
    print(f"{'MiB':>5} {'budget':>7} {'query':<9} {'private':>8} {'seconds':>8}")
    for size in sizes:
        for name in chosen:
            rows, query, expected = QUERIES[name]
            code, out, errors, most, seconds = run(binary, size * MIB, rows, query)
            allowed = budget(size * MIB)
            fault = "killed" if code < 0 else errors if code else "" if out == [expected] else f"{out}, not {expected}"
            if not fault and most > allowed + 64 * MIB:
                fault = "more than the budget and 64 MiB"
            missed += bool(fault)
            print(f"{size:>5} {allowed // MIB:>7} {name:<9} {most // MIB:>8} {seconds:>8.1f} {fault}", flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
