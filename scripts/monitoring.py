"""What scripts/monitoring.sh does once there is a Prometheus: `monitoring.py BINARY`."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "packaging/monitoring"
PATIENCE = 60.0

# Windows and checkpoints, whose series others do not have.
HEALTHY = """
SET 'execution.checkpointing.interval' = '1 s';
CREATE TABLE clicks (k BIGINT, ts AS TO_TIMESTAMP_LTZ(k, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
    'rows-per-second' = '2000', 'fields.k.kind' = 'sequence', 'fields.k.start' = '0', 'fields.k.end' = '1000000000');
CREATE TABLE counts (w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND))
    GROUP BY window_start, window_end;
"""

# Its reader takes nothing.
STUCK = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000');
CREATE TABLE stuck (n BIGINT, text STRING)
    WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = 'PORT', 'format' = 'json');
INSERT INTO stuck SELECT n, REPEAT('x', 1000) FROM numbers;
"""

# Panels of what neither of the jobs has: Kafka, several nodes.
ELSEWHERE = {"Lag", "Lag of splits", "Rows read by node", "State by node", "Sent by node", "Last report of a node"}


def until(what: str, condition: Callable[[], Any]) -> Any:
    """Asks until something is there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        time.sleep(0.1)
    sys.exit(f"error: {what} did not come within {PATIENCE:.0f} s")


def text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
    return body.decode()


@contextlib.contextmanager
def process(*words: str, log: Path) -> Iterator[Path]:
    with log.open("w") as file:
        child = subprocess.Popen(words, cwd=log.parent, stdout=file, stderr=file)
    try:
        yield log
    finally:
        child.kill()
        child.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def address(log: Path) -> str:
    return str(until(f"the address in {log}", lambda: re.search(r"metrics at http://(\S+)/metrics", log.read_text()))[1])


def check_metrics(page: str) -> None:
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True)
    if checked.returncode:
        sys.exit(f"error: promtool check metrics:\n{checked.stdout}{checked.stderr}")


def fast(text: str) -> str:
    """The same rules and configuration in the time of a test."""
    text = re.sub(r"(scrape|evaluation)_interval: \d+s", r"\1_interval: 1s", text)
    return re.sub(r"for: \w+", "for: 0s", text).replace("writing_seconds > 60", "writing_seconds > 3")


def main(binary: str) -> None:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-monitoring-")))
        deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        run = (binary, "run", "--http", "127.0.0.1:0", "-e")
        healthy = stack.enter_context(process(*run, HEALTHY, "--state-dir", "state", log=folder / "healthy.log"))
        stuck_sql = STUCK.replace("PORT", str(deaf.getsockname()[1]))
        stuck = stack.enter_context(process(*run, stuck_sql, log=folder / "stuck.log"))
        targets = [address(healthy), address(stuck)]
        # One that is not there.
        targets.append(f"127.0.0.1:{free_port()}")

        config = (FOLDER / "prometheus.yml").read_text()
        config = fast(config).replace('targets: ["127.0.0.1:9464"]', f"targets: {json.dumps(targets)}")
        (folder / "prometheus.yml").write_text(config)
        (folder / "alerts.yml").write_text(fast((FOLDER / "alerts.yml").read_text()))
        subprocess.run(["promtool", "check", "config", str(folder / "prometheus.yml")], check=True)
        port = free_port()
        listen = f"--web.listen-address=127.0.0.1:{port}"
        words = ("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", listen)
        stack.enter_context(process(*words, log=folder / "prometheus.log"))
        api = f"http://127.0.0.1:{port}/api/v1"

        def query(expression: str) -> list[dict[str, Any]]:
            answer = json.loads(text(f"{api}/query?{urllib.parse.urlencode({'query': expression})}"))
            found: list[dict[str, Any]] = answer["data"]["result"]
            return found

        until("two targets that are up", lambda: len(query('up{job="millstream"} == 1')) == 2)
        until("a checkpoint", lambda: query("millstream_checkpoints_total > 0"))
        for target in targets[:2]:
            check_metrics(text(f"http://{target}/metrics"))
        jobs = {found["metric"]["job"] for found in until("jobs", lambda: query("millstream_job_ready"))}
        assert jobs == {"counts", "stuck"}, f"the label job names {jobs}"

        asked = 0
        for panel in json.loads((FOLDER / "grafana.json").read_text())["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$job", ".*")
                if panel["title"] in ELSEWHERE:
                    query(expression)
                else:
                    until(f"an answer to {panel['title']}: {expression}", lambda: query(expression))
                asked += 1
        for variable in json.loads((FOLDER / "grafana.json").read_text())["templating"]["list"]:
            if found := re.fullmatch(r"label_values\((.*), (\w+)\)", variable.get("definition", "")):
                expression = found[1].replace("$instance", ".*")
                assert all(found[2] in one["metric"] for one in query(expression)), variable["name"]

        def firing() -> set[tuple[str, str]]:
            alerts = json.loads(text(f"{api}/alerts"))["data"]["alerts"]
            return {(alert["labels"]["alertname"], alert["labels"].get("job", "")) for alert in alerts if alert["state"] == "firing"}

        wanted = {("MillstreamDown", "millstream"), ("MillstreamSinkStuck", "stuck")}
        until(f"alerts {wanted}", lambda: wanted <= firing())
        others = {alert for alert in firing() if alert[1] == "counts" and alert[0] != "MillstreamWatermarkDelayed"}
        assert not others, f"a job that is well has {others}"
        for alert in json.loads(text(f"{api}/alerts"))["data"]["alerts"]:
            assert "{{" not in str(alert["annotations"]) and "<error" not in str(alert["annotations"]), alert
        print(f"{asked} queries of the dashboard are answered; {', '.join(sorted(name for name, _ in wanted))} fire")


main(sys.argv[1])
