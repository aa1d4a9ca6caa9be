"""Records of benchmarks are kept as medians, and compared beside loops by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/bench_record.py"


def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, words)], input=stdin, capture_output=True, text=True, check=False)


def lines(**seconds: list[float]) -> str:
    records = [
        {"benchmark": "ysb", "case": "count", "system": system, "threads": 1, "rows": 1000, "seconds": value}
        for system, values in seconds.items()
        for value in values
    ]
    return "a line for people\n" + "".join(json.dumps(record) + "\n" for record in records)


def kept(path: Path, **seconds: list[float]) -> Path:
    assert run("keep", path, stdin=lines(**seconds)).returncode == 0
    return path


def test_medians_are_kept_and_compared(tmp_path: Path) -> None:
    before = kept(tmp_path / "before.jsonl", millstream=[2.0, 9.0, 2.0], columnar=[1.0], row=[3.0], limit=[0.1])
    record = [json.loads(line) for line in before.read_text().splitlines()]
    assert record[0].keys() == {"machine", "cores", "commit", "date"}
    assert [(line["system"], line["seconds"]) for line in record[1:3]] == [("millstream", 2.0), ("columnar", 1.0)]
    faster = kept(tmp_path / "faster.jsonl", millstream=[1.25], columnar=[1.0])
    better = run("compare", before, faster)
    assert better.returncode == 0 and "0.50" in better.stdout and "0.80" in better.stdout
    worse = run("compare", faster, before)
    assert worse.returncode == 1 and "1 slower" in worse.stdout


def test_a_slower_loop_makes_a_case_void(tmp_path: Path) -> None:
    before = kept(tmp_path / "before.jsonl", millstream=[1.0], columnar=[1.0])
    busy = kept(tmp_path / "busy.jsonl", millstream=[9.0], columnar=[1.1])
    compared = run("compare", before, busy)
    assert compared.returncode == 2 and "void" in compared.stdout


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    assert run("keep", tmp_path / "none.jsonl", stdin="no JSON\n").returncode == 2
    other = tmp_path / "other.jsonl"
    other.write_text("{}\n")
    refused = run("compare", other, other)
    assert refused.returncode == 1 and "is no record" in refused.stderr
