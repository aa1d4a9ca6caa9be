#!/usr/bin/env python3
"""Keeps what benchmarks have measured, and compares two records.

    scripts/bench.sh ysb nyt --json | scripts/bench_record.py keep docs/benchmarks/NAME.jsonl
    scripts/bench_record.py compare BEFORE.jsonl AFTER.jsonl

A record is JSON lines: first the machine, the commit and the day, then a line for each case, system and number of threads with the median of the
repetitions. `compare` shows Millstream over the best loop by hand, before and after, and ends with 1 when it has fallen by more than `--bound`.
A case in which that loop is slower per row than before by 3 % proves nothing: the machine was busy. It is marked as void.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

#: A loop by hand that is slower by more makes a case void.
NOISE = 0.03
#: Systems that are no loops by hand over columns or records.
NO_BASELINE = ("millstream", "limit", "iterator", "duckdb", "polars", "flink", "rocksdb", "rdkafka")

Case = tuple[str, str, int]


def medians(lines: Iterable[str]) -> list[dict[str, object]]:
    """A line for each case, system and number of threads, in the order in which they come first."""
    seconds: dict[tuple[str, str, str, int, int], list[float]] = defaultdict(list)
    for line in lines:
        if not line.startswith("{"):
            continue
        record = json.loads(line)
        key = (record["benchmark"], record["case"], record["system"], record["threads"], record["rows"])
        seconds[key].append(record["seconds"])
    names = ("benchmark", "case", "system", "threads", "rows")
    return [
        dict(zip(names, key), seconds=statistics.median(times), repetitions=len(times)) for key, times in seconds.items()
    ]


def machine() -> dict[str, object]:
    """What the figures are of."""
    cpu = Path("/proc/cpuinfo")
    models = [line.split(":", 1)[1].strip() for line in cpu.read_text().splitlines() if line.startswith("model name")] if cpu.exists() else []
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "machine": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "commit": commit or "unknown",
        "date": datetime.date.today().isoformat(),
    }


def keep(path: Path, commit: str | None) -> int:
    """Writes the record of what standard input has."""
    cases = medians(sys.stdin)
    if not cases:
        print("error: there are no records in the input: run the benchmark with --json", file=sys.stderr)
        return 2
    path.parent.mkdir(parents=True, exist_ok=True)
    about = machine() | ({"commit": commit} if commit else {})
    path.write_text("".join(json.dumps(line) + "\n" for line in [about, *cases]))
    print(f"{len(cases)} medians in {path}", file=sys.stderr)
    return 0


def read(path: Path) -> tuple[dict[str, object], dict[Case, dict[str, float]]]:
    """The first line of a record, and of each case the seconds per row of each system."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        sys.exit(f"error: {path} is no record: {error}")
    if not lines or "commit" not in lines[0]:
        sys.exit(f"error: {path} is no record: its first line does not name a machine and a commit")
    cases: dict[Case, dict[str, float]] = defaultdict(dict)
    for line in lines[1:]:
        cases[line["benchmark"], line["case"], line["threads"]][line["system"]] = line["seconds"] / line["rows"]
    return lines[0], cases


def best(systems: dict[str, float]) -> str | None:
    """The fastest loop by hand."""
    by_hand = [system for system in systems if not system.startswith(NO_BASELINE)]
    return min(by_hand, key=lambda system: systems[system], default=None)


def compare(before_path: Path, after_path: Path, bound: float) -> int:
    """Prints the cases that both records have; 1 if Millstream has become slower beside a loop, 2 if nothing could be compared."""
    (old, before), (new, after) = read(before_path), read(after_path)
    print(f"{old['commit']} ({old['date']}, {old['machine']}) beside {new['commit']} ({new['date']}, {new['machine']})")
    print(f"{'case':<58} {'thr':>3} {'before':>7} {'after':>7} {'change':>7}")
    compared, void, slower = 0, 0, 0
    for case, systems in after.items():
        loop = best(systems)
        known = before.get(case, {})
        if loop is None or not {"millstream", loop} <= known.keys() or "millstream" not in systems:
            continue
        was, now = known[loop] / known["millstream"], systems[loop] / systems["millstream"]
        change = now / was - 1
        is_void = systems[loop] > known[loop] * (1 + NOISE)
        is_slower = not is_void and change < -bound
        compared, void, slower = compared + 1, void + is_void, slower + is_slower
        note = "  void: the loop by hand is slower" if is_void else "  slower" if is_slower else ""
        print(f"{case[0] + ' ' + case[1]:<58.58} {case[2]:>3} {was:>7.2f} {now:>7.2f} {change:>+7.1%}{note}")
    print(f"{compared} cases, {void} of them void, {slower} slower by more than {bound:.0%}")
    return 2 if compared == void else int(slower > 0)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="write the record of the JSON lines in standard input")
    keeping.add_argument("path", type=Path)
    keeping.add_argument("--commit", help="of the build that was measured, if it is not that of the source tree")
    comparing = commands.add_parser("compare", help="show what has become faster or slower")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--bound", type=float, default=0.05, help="a share of the ratio; default 0.05")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        return keep(arguments.path, arguments.commit)
    return compare(arguments.before, arguments.after, arguments.bound)


if __name__ == "__main__":
    sys.exit(main())
