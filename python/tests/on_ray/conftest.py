"""A Ray cluster of three machines that are one: `make test-ray` runs these tests in a network that has the loopback only."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = [] if os.environ.get("MILLSTREAM_RAY") == "start" else ["test_*.py"]

# Python leaves SIGINT ignored where it was: in a shell's background.
signal.signal(signal.SIGINT, signal.default_int_handler)

SCRIPT = """
SET 'execution.checkpointing.interval' = '100 ms';
CREATE TABLE readings (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'csv', 'scan.rate-limit.rows-per-second' = '{rate}');
CREATE TABLE windows (k BIGINT, ws TIMESTAMP(3), n BIGINT, s BIGINT, m BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{folder}/{out}', 'format' = 'csv');
INSERT INTO windows SELECT k, window_start, COUNT(*), SUM(v), MAX(v)
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
"""
FILES, ROWS = 6, 2000


class Job:
    """Files of rows, a script that sums them up by windows, and what has to come of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        self.expected: list[str] = []
        windows: dict[tuple[int, int], list[int]] = {}
        for file in range(FILES):
            lines = []
            for i in range(ROWS):
                k, v, ms = i * 7 % 13, i * 31 % 1000 + file, i * 25 + i * 17 % 400
                windows.setdefault((ms // 10_000, k), []).append(v)
                lines.append(f"{k},{v},2026-01-01 00:{ms // 60_000:02}:{ms // 1000 % 60:02}.{ms % 1000:03}\n")
            (folder / f"in/{file}.csv").write_text("".join(lines))
        for (window, k), values in windows.items():
            start = f"2026-01-01 00:{window // 6:02}:{window % 6 * 10:02}"
            self.expected.append(f"{k},{start},{len(values)},{sum(values)},{max(values)}")
        self.expected.sort()

    def script(self, rate: int, out: str = "out") -> str:
        path = self.folder / f"{out}.sql"
        path.write_text(SCRIPT.format(folder=self.folder, rate=rate, out=out))
        return str(path)

    def state(self, name: str = "state") -> str:
        return str(self.folder / name)

    def rows(self, out: str = "out") -> list[str]:
        files = [path for path in (self.folder / out).iterdir() if not path.name.startswith(".")]
        lines = sorted(line for path in files for line in path.read_text().splitlines())
        return [line.replace('"', "").replace(".000", "") for line in lines]

    def has_checkpoint(self, name: str = "state") -> bool:
        return any((self.folder / name).glob("job-*/job"))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def until(holds: Callable[[], Any], seconds: float = 30) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Three raylets with a CPU each; this process has joined them."""
    import ray
    from ray.cluster_utils import Cluster

    room: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    # It has no types.
    cluster: Any = Cluster(initialize_head=True, head_node_args=room)
    for _ in range(2):
        cluster.add_node(**room)
    ray.init(address=cluster.address, namespace="millstream", log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
