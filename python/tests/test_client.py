"""The REST interface of a process that runs jobs, as the client asks for it; its answers are those that the description has."""

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import jsonschema  # type: ignore[import-untyped]
import pytest
from millstream.client import Client, ClientError

T = TypeVar("T")

SQL = """
    CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '20000',
        'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000');
    CREATE TABLE counts (w TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end
"""


def until(found: Callable[[], T | None]) -> T:
    """What comes by and by."""
    began = time.monotonic()
    while time.monotonic() - began < 60:
        value = found()
        if value is not None:
            return value
        time.sleep(0.05)
    raise AssertionError("it has not come within a minute")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A process with a job, and its client."""
    words = ["run", "--http", "0", "--state-dir", str(tmp_path / "state"), "-e", SQL]
    process = subprocess.Popen([sys.executable, "-m", "millstream", *words], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    address = process.stderr.readline().split("dashboard at ")[1].split(",")[0]
    # What it says must not fill the pipe.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    client = Client(address)
    until(lambda: True if client.jobs() and client.job("counts")["state"] == "running" else None)
    yield process, client
    process.kill()
    process.wait()


def test_jobs_are_seen_checkpointed_and_stopped(served: tuple[subprocess.Popen[str], Client]) -> None:
    process, client = served
    assert client.about()["mode"] == "run"
    assert [job["id"] for job in client.jobs()] == ["counts"]
    assert client.job("counts")["sql"].startswith("INSERT INTO counts")
    assert {node["id"] for node in client.plan("counts")["nodes"]} >= {"source 0", "aggregation 0", "sink 0"}
    assert all("define" in variant["ir"] for program in client.code("counts") for variant in program["variants"])
    rows = until(lambda: client.rows("counts")[0]["rows"] or None)
    assert rows[0][1] == "1000"
    kinds = [kind for kind, _ in zip(client.events("counts"), range(4), strict=False)]
    assert {kind for kind, _ in kinds} == {"stats", "summary"}
    history = until(lambda: found if len((found := client.history("counts"))["at_ms"]) > 1 else None)
    assert len({len(column) for column in history.values()}) == 1
    assert client.checkpoint("counts") == "a checkpoint is being taken"
    until(lambda: client.checkpoints("counts")["recent"] or None)
    with pytest.raises(ClientError, match="one process") as refused:
        client.rescale("counts", 2)
    assert refused.value.status == 409
    with pytest.raises(ClientError) as unknown:
        client.stop("a/b?c")
    assert unknown.value.status == 404 and "a/b?c" in unknown.value.message
    assert "takes a checkpoint and stops" in client.stop("counts")
    assert process.wait(timeout=60) == 0
    with pytest.raises(ClientError, match="does not answer") as gone:
        client.jobs()
    assert gone.value.status is None


def test_answers_are_as_described(served: tuple[subprocess.Popen[str], Client]) -> None:
    _, client = served
    address = repr(client).split("'")[1]
    with urllib.request.urlopen(f"{address}/api/v1/openapi.json") as answer:
        description: dict[str, Any] = json.load(answer)
    client.rows("counts")
    until(lambda: client.rows("counts")[0]["rows"] or None)
    checked = 0
    for path, methods in description["paths"].items():
        schema = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            continue
        with urllib.request.urlopen(address + path.replace("{job}", "counts")) as answer:
            value = json.load(answer)
        # References are to the description itself.
        jsonschema.validate(value, {**schema, "components": description["components"]}, cls=jsonschema.Draft202012Validator)
        checked += 1
    assert checked == 10
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{address}/api/v1/jobs/nobody")
    error = {"$ref": "#/components/schemas/Error", "components": description["components"]}
    jsonschema.validate(json.load(refused.value), error, cls=jsonschema.Draft202012Validator)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Client]:
    """A service that takes scripts."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "token").write_text("0123456789abcdef")
    words = ["serve", "jobs", "--http", "0", "--http-token-file", "token", "--allow-submit", "--log-format", "text"]
    process = subprocess.Popen([sys.executable, "-m", "millstream", *words], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    address = process.stderr.readline().split("dashboard at ")[1].split(",")[0]
    threading.Thread(target=process.stderr.read, daemon=True).start()
    yield Client(address, token="0123456789abcdef")
    process.kill()
    process.wait()


def test_scripts_are_submitted_and_removed(service: Client, tmp_path: Path) -> None:
    assert service.about()["mode"] == "serve"
    script = tmp_path / "jobs" / "a b.sql"
    assert "is written" in service.submit("a b", SQL)
    assert script.read_text() == SQL
    until(lambda: True if service.jobs() and service.job("a b")["state"] == "running" else None)
    with pytest.raises(ClientError, match="no INSERT") as refused:
        service.submit("a b", "SET 'pipeline.name' = 'ü'")
    assert refused.value.status == 422 and refused.value.advice is not None
    with pytest.raises(ClientError) as refused:
        service.submit("../up", SQL)
    assert refused.value.status == 400
    assert script.read_text() == SQL
    assert "its state stays" in service.remove("a b")
    until(lambda: True if not service.jobs() else None)
    with pytest.raises(ClientError) as gone:
        service.remove("a b")
    assert gone.value.status == 404 and not script.exists()
    stranger = Client(repr(service).split("'")[1])
    asks: list[Callable[[], str]] = [lambda: stranger.submit("a", SQL), lambda: stranger.remove("a")]
    for ask in asks:
        with pytest.raises(ClientError) as unknown:
            ask()
        assert unknown.value.status == 401


def test_a_run_takes_no_scripts(served: tuple[subprocess.Popen[str], Client]) -> None:
    _, client = served
    with pytest.raises(ClientError, match="--allow-submit") as refused:
        client.submit("a", SQL)
    assert refused.value.status == 403 and "its command line" in refused.value.message


def test_what_is_no_server_is_told() -> None:
    with pytest.raises(ValueError, match="http://"):
        Client("localhost:9464")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ClientError, match="does not answer"):
            Client(f"http://127.0.0.1:{taken.getsockname()[1]}").jobs()
