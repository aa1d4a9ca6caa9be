"""What Ray is told of the nodes of a job."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from millstream import _ray_metrics

NODE = {"rows_in": 1_200_000, "rows_out": 7, "rows_per_second": 2500.4, "watermark_ms": None, "state_bytes": 9, "sent_bytes": 0, "age_s": 0.0}
ANSWERS: dict[str, Any] = {
    "/api/v1/jobs": {"jobs": [{"id": "ended"}, {"id": "runs"}, {"id": "waits"}]},
    "/api/v1/jobs/ended/stats": {"nodes": [{**NODE, "node": 0, "rows_in": 1}]},
    "/api/v1/jobs/runs/stats": {"nodes": [{**NODE, "node": 0}, {**NODE, "node": 1, "watermark_ms": 1_000}]},
}


def test_gauges_are_set_from_what_the_first_node_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[tuple[str, str], float] = {}

    class Gauge:
        def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
            self.name = name

        def set(self, value: float, tags: dict[str, str]) -> None:
            assert tags["job"] == "clicks"
            said[self.name, tags["node"]] = value

    class Served(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # One that has not begun has no statistics.
            self.send_response(200 if self.path in ANSWERS else 409)
            self.end_headers()
            self.wfile.write(json.dumps(ANSWERS.get(self.path)).encode())

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setattr(_ray_metrics, "Gauge", Gauge)
    # What the machine has for the internet is not asked.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server = HTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    metrics = _ray_metrics.Metrics("clicks", server.server_port)
    metrics.look()
    metrics.close()
    server.shutdown()
    assert said["millstream_node_rows_in", "0"] == said["millstream_node_rows_in", "1"] == 1_200_000
    assert ("millstream_node_watermark_delay_seconds", "0") not in said
    assert said["millstream_node_watermark_delay_seconds", "1"] > 1e9
    assert len(said) == 9
    assert [_ray_metrics.line(node).partition(", w")[0] for node in metrics.nodes] == ["1,200,000 rows read, 2,500 rows/s"] * 2
