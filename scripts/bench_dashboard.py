#!/usr/bin/env python3
"""What the dashboard costs a job: `scripts/bench_dashboard.py [BINARY] [RUNS]` runs Nexmark's query 5 over generated events by turns without
--http, with --http and nobody who looks, and with a viewer who asks each second for what a page asks for. It prints the medians of the paired ratios
of rows per second, and of rows per second of processor time of the job's process; below 1 the dashboard costs something. The second is the steadier: the
viewer runs on the same cores."""

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import urllib.request

BINARY = sys.argv[1] if len(sys.argv) > 1 else "target/release/millstream"
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 15
SQL = """
    CREATE TABLE events (event_type INT, bid ROW<auction BIGINT, `dateTime` TIMESTAMP(3)>, ts AS bid.`dateTime`,
        WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH ('connector' = 'nexmark', 'rate.limited' = 'false', 'events.num' = '{events}');
    CREATE TABLE counts (auction BIGINT, num BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO counts SELECT bid.auction, COUNT(*) FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        WHERE event_type = 2 GROUP BY bid.auction, window_start, window_end
"""
PATHS = ["/api/v1/jobs", "/api/v1/jobs/counts", "/api/v1/jobs/counts/stats", "/api/v1/jobs/counts/history", "/api/v1/jobs/counts/rows"]


def view(address: str, ended: threading.Event, answers: list[int]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while not ended.wait(1.0):
        for path in PATHS:
            try:
                answers.append(len(opener.open(f"http://{address}{path}", timeout=5).read()))
            except OSError:
                return


def rate(mode: str, events: int) -> tuple[float, float]:
    """Rows per second, and per second of processor time."""
    http = [] if mode == "alone" else ["--http", "0"]
    words = [BINARY, "run", "--stats", "json", *http, "-e", SQL.format(events=events)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    ended, answers, stats = threading.Event(), list[int](), None
    for line in process.stderr:
        served = re.search(r"dashboard at http://([^,]*),", line)
        if served and mode == "viewed":
            threading.Thread(target=view, args=(served[1], ended, answers), daemon=True).start()
        if line.startswith("{"):
            stats = json.loads(line)
    ended.set()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or stats is None:
        sys.exit(f"the job has failed with {mode}")
    if mode == "viewed" and len(answers) < 2 * len(PATHS):
        sys.exit(f"nobody has looked: {len(answers)} answers; give it more events")
    rows = stats["rows_in"]
    return rows / stats["elapsed_s"], rows / (usage.ru_utime + usage.ru_stime)


def main() -> None:
    events = 1_000_000
    # Long enough for a viewer to look several times.
    while (seconds := events / rate("alone", events)[0]) < 5:
        events = int(events * max(1.5, 6 / seconds))
    ratios: dict[str, list[tuple[float, float]]] = {"served": [], "viewed": []}
    for run in range(RUNS):
        modes = ["alone", "served", "viewed"]
        modes = modes[run % 3 :] + modes[: run % 3]
        rates = {mode: rate(mode, events) for mode in modes}
        for mode, found in ratios.items():
            found.append((rates[mode][0] / rates["alone"][0], rates[mode][1] / rates["alone"][1]))
        shown = ", ".join(f"{mode} {found[-1][0]:.3f} / {found[-1][1]:.3f}" for mode, found in ratios.items())
        print(f"{run + 1:2}: {rates['alone'][0] / 1e6:.2f} M rows/s, {shown}", flush=True)
    for mode, found in ratios.items():
        by_time, by_processor = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{mode}: {by_time:.4f} of the rows/s alone, {by_processor:.4f} of the rows per second of processor time ({RUNS} runs)")


main()
