#!/usr/bin/env python3
"""What the dashboard costs a job: `scripts/bench_dashboard.py [BINARY] [RUNS]` runs Nexmark's query 5 over generated events by turns without
--http, with --http and nobody who looks, and with a viewer who asks each second for what a page asks for. It prints the medians of the paired ratios
of the times that the job itself gives; below 1 the dashboard costs something."""

import json
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


def rate(mode: str, events: int) -> float:
    """Rows per second."""
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
    if process.wait() != 0 or stats is None:
        sys.exit(f"the job has failed with {mode}")
    if mode == "viewed" and len(answers) < 2 * len(PATHS):
        sys.exit(f"nobody has looked: {len(answers)} answers; give it more events")
    return stats["rows_in"] / stats["elapsed_s"]


def main() -> None:
    events = 1_000_000
    # Long enough for a viewer to look several times.
    while (seconds := events / rate("alone", events)) < 5:
        events = int(events * max(1.5, 6 / seconds))
    ratios: dict[str, list[float]] = {"served": [], "viewed": []}
    for run in range(RUNS):
        modes = ["alone", "served", "viewed"]
        modes = modes[run % 3 :] + modes[: run % 3]
        rates = {mode: rate(mode, events) for mode in modes}
        for mode, found in ratios.items():
            found.append(rates[mode] / rates["alone"])
        print(f"{run + 1:2}: {rates['alone'] / 1e6:.2f} M rows/s, " + ", ".join(f"{mode} {found[-1]:.3f}" for mode, found in ratios.items()), flush=True)
    for mode, found in ratios.items():
        print(f"{mode}: {statistics.median(found):.4f} of the rate alone ({min(found):.3f} to {max(found):.3f}, {RUNS} runs)")


main()
