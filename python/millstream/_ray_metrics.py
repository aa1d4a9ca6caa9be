"""What the nodes of a detached job have done, as Ray shows it: gauges for its metrics, and the lines of ``millstream cluster status``."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from ray.util.metrics import Gauge

from millstream.client import Client, ClientError

#: Between two looks at the first node, in seconds.
PERIOD = 5.0

#: A field of ``nodes`` of the statistics, and what the gauge says.
FIELDS = {
    "rows_in": "Rows that the node has read.",
    "rows_out": "Rows that the node has written.",
    "sent_bytes": "Bytes of rows and partials that the node has sent to other nodes.",
    "state_bytes": "Bytes of state of the node, in memory and in spilled files.",
    "watermark_delay_seconds": "How far the watermark of the node is behind its clock.",
}


def free_port() -> int:
    """A port of the loopback that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def nodes_of(client: Client) -> list[dict[str, Any]]:
    """The nodes in what the first node serves: of the INSERT that runs, the last one that has begun."""
    for job in reversed(client.jobs()):
        try:
            found: list[dict[str, Any]] = client.stats(job["id"])["nodes"]
        except ClientError:
            # It has not begun.
            continue
        return found
    return []


def delay(node: dict[str, Any]) -> float | None:
    """How far the watermark of a node is behind the clock, in seconds."""
    millis = node["watermark_ms"]
    return None if millis is None else time.time() - millis / 1000


def line(node: dict[str, Any]) -> str:
    """What a node has done, for a terminal."""
    behind = delay(node)
    watermark = "" if behind is None else f", watermark {behind:,.0f} s behind"
    return f"{node['rows_in']:,} rows read, {node['rows_per_second']:,.0f} rows/s{watermark}"


class Metrics:
    """Asks the first node of a job, which serves its statistics at a port of this machine, until it is closed."""

    def __init__(self, job: str, port: int) -> None:
        self._job, self._client = job, Client(f"http://127.0.0.1:{port}", timeout=PERIOD)
        self._gauges = {field: Gauge(f"millstream_node_{field}", description=text, tag_keys=("job", "node")) for field, text in FIELDS.items()}
        self._closed = threading.Event()
        #: The nodes, as the statistics have them.
        self.nodes: list[dict[str, Any]] = []
        threading.Thread(target=self._watch, name="millstream metrics", daemon=True).start()

    def _watch(self) -> None:
        while not self._closed.wait(PERIOD):
            # Before it serves, and when it has ended, there is nobody.
            with contextlib.suppress(ClientError, OSError, ValueError, KeyError):
                self.look()

    def look(self) -> None:
        """Ask once."""
        self.nodes = nodes_of(self._client)
        for node in self.nodes:
            values = {**node, "watermark_delay_seconds": delay(node)}
            for field, gauge in self._gauges.items():
                if values.get(field) is not None:
                    gauge.set(values[field], tags={"job": self._job, "node": str(node["node"])})

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
