"""Jobs of a program on nodes that are processes of this machine: what is code and data of the program is there, too."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import millstream as ms
import nodes_program as program
import polars
import pytest

FOLDER = pathlib.Path(__file__).parent
TOKEN = "0123456789abcdef" * 4


class Node:
    """A process of the cluster."""

    def __init__(self, folder: pathlib.Path = FOLDER) -> None:
        words = [sys.executable, "-m", "millstream", "node", "--listen", "127.0.0.1:0"]
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "MILLSTREAM_CLUSTER_TOKEN": TOKEN}
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert "waiting for runs at " in line, line + self.process.stderr.read()
        self.address = line.split("waiting for runs at ")[1].strip()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    started = [Node(), Node()]
    yield started
    for node in started:
        node.end()


@pytest.fixture
def cluster(nodes: list[Node]) -> ms.Cluster:
    return ms.Cluster([node.address for node in nodes], token=TOKEN)


def test_functions_sources_and_frames_are_on_all_nodes(con: ms.Session, cluster: ms.Cluster) -> None:
    functions: list[Any] = [program.shout, program.double, program.slowly, program.elsewhere, program.mean]
    for function in functions:
        con.register_function(function)
    con.set("execution.runtime-mode", "batch")
    con.register_source("events", program.rows, {"n": "BIGINT NOT NULL", "name": "STRING"}, splits=6, positions=True, bounded=True)
    con.register("users", polars.DataFrame({"name": [f"user-{i}" for i in range(7)], "weight": list(range(7))}))
    cities = polars.DataFrame({"weight": list(range(7)), "city": [f"city-{i % 3}" for i in range(7)]})
    # What is registered and not needed cannot be in the way.
    con.register_source("unused", (row for row in [(1,)]), {"x": "BIGINT"}, bounded=True)
    con.execute("CREATE VIEW heavy AS SELECT * FROM users WHERE weight > $least", {"least": 0})
    relation = con.sql(
        """SELECT shout(city) AS city, COUNT(*) AS n, SUM(double(n)) AS twice, SUM(slowly(n)) AS next, SUM(elsewhere(n)) AS tens, mean(n) AS middle
        FROM events JOIN heavy ON events.name = heavy.name JOIN cities ON heavy.weight = cities.weight WHERE n <> ? GROUP BY city""",
        [5],
    )
    expected = sorted(relation.fetchall())
    assert len(expected) == 3 and expected[0][0] == "CITY-0!"
    written: list[tuple[object, ...]] = []
    job = relation.write_to(lambda batch: written.extend(batch.rows()), cluster=cluster)
    job.wait(60)
    assert sorted(written) == expected
    assert len(cluster.members) == 3


def test_a_job_resumes_on_fewer_nodes(tmp_path: pathlib.Path, nodes: list[Node]) -> None:
    out = tmp_path / "out"

    def begun(con: ms.Session, others: list[Node]) -> ms.Job:
        con.register_function(program.shout)
        con.register_source("events", program.slow_rows, {"n": "BIGINT NOT NULL", "name": "STRING"}, splits=6, positions=True, bounded=True)
        con.execute(f"CREATE TABLE sink (n BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json')")
        cluster = ms.Cluster([node.address for node in others], token=TOKEN)
        return con.submit("INSERT INTO sink SELECT n, shout(name) FROM events", cluster=cluster)

    with ms.connect(state_dir=tmp_path / "state") as con:
        job = begun(con, nodes)
        job.checkpoint()
        job.stop()
        job.wait(60)
        assert job.state == "stopped"
    with ms.connect(state_dir=tmp_path / "state") as con:
        begun(con, nodes[:1]).wait(60)
    lines = [line for path in out.glob("*") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 600


def test_splits_move_from_a_node_that_had_too_many_rows(tmp_path: pathlib.Path, nodes: list[Node]) -> None:
    out = tmp_path / "out"

    def rows_of_nodes() -> list[int]:
        with ms.connect(state_dir=tmp_path / "state") as con:
            con.register_source("events", program.skewed, {"s": "BIGINT", "n": "BIGINT"}, splits=4, positions=True)
            con.execute(f"CREATE TABLE sink (s BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')")
            job = con.table("events").insert_into("sink", cluster=ms.Cluster([nodes[0].address], token=TOKEN))
            end = time.monotonic() + 30
            while sum(rows := [node["rows_in"] for node in job.stats().get("nodes", [])]) < 808:
                assert time.monotonic() < end and job.state == "running", rows
                time.sleep(0.05)
            job.checkpoint()
            job.stop()
            job.wait(60)
        return sorted(rows)

    assert rows_of_nodes() == [8, 800]
    assert rows_of_nodes() == [404, 404]
    lines = [line for path in out.glob("[!.]*") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 2 * 808


def test_a_job_resumes_when_a_node_dies(tmp_path: pathlib.Path, nodes: list[Node], caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "out"
    with ms.connect(state_dir=tmp_path / "state", settings={"execution.checkpointing.interval": "100 ms"}) as con:
        con.register_source("events", program.slow_rows, {"n": "BIGINT NOT NULL", "name": "STRING"}, splits=6, positions=True, bounded=True)
        con.execute(f"CREATE TABLE sink (n BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json')")
        cluster = ms.Cluster([node.address for node in nodes], token=TOKEN, replacement_timeout=0.5)
        job = con.table("events").insert_into("sink", cluster=cluster)
        job.checkpoint()
        nodes[1].end()
        job.wait(60)
        assert len(cluster.members) == 2
    assert "restart 1 in" in caplog.text and "MS5014" in caplog.text
    lines = [line for path in out.glob("[!.]*") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 600


def test_a_function_that_hangs_does_not_keep_a_node(con: ms.Session, cluster: ms.Cluster, tmp_path: pathlib.Path) -> None:
    begun = tmp_path / "begun"

    @ms.udf
    def hangs(n: int) -> int:
        (begun / str(os.getpid())).touch()
        while True:
            time.sleep(0.01)

    begun.mkdir()
    con.register_function(hangs)
    con.register_source("events", program.rows, {"n": "BIGINT NOT NULL", "name": "STRING"}, splits=6, positions=True, bounded=True)
    job = con.sql("SELECT hangs(n) FROM events").write_to(print, cluster=cluster)
    # All of them hang: this process and the two nodes.
    end = time.monotonic() + 30
    while len(list(begun.iterdir())) < 3:
        assert time.monotonic() < end, f"{list(begun.iterdir())}"
        time.sleep(0.02)
    job.cancel()
    began, rows = time.monotonic(), []
    con.table("events").write_to(lambda batch: rows.extend(batch.rows()), cluster=cluster).wait(60)
    assert len(rows) == 600 and time.monotonic() - began < 10


def test_jobs_of_one_session_have_clusters_of_their_own(tmp_path: pathlib.Path, nodes: list[Node]) -> None:
    out = tmp_path / "out"
    with ms.connect(state_dir=tmp_path / "state") as con:
        con.register_source("events", program.skewed, {"s": "BIGINT", "n": "BIGINT"}, splits=4, positions=True)
        con.execute(f"CREATE TABLE sink (s BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')")
        for _ in range(3):
            # The same job, which resumes, and nodes that know of the last time.
            job = con.table("events").insert_into("sink", cluster=ms.Cluster([nodes[0].address], token=TOKEN))
            job.checkpoint()
            job.stop()
            job.wait(60)
            assert job.state == "stopped"
    lines = [line for path in out.glob("[!.]*") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) > 0


def test_what_cannot_be_on_other_nodes_is_refused(con: ms.Session, cluster: ms.Cluster) -> None:
    con.register_source("once", (row for row in [(1,)]), {"x": "BIGINT"}, bounded=True)
    with pytest.raises(ms.errors.QueryError, match="MS2007.*`once` cannot be sent to other nodes"):
        con.table("once").write_to(print, cluster=cluster)
    reader = polars.DataFrame({"x": [1]}).to_arrow().to_reader()
    with pytest.raises(ms.errors.QueryError, match="the table `reader` cannot be on other nodes"):
        con.sql("SELECT * FROM reader").write_to(print, cluster=cluster)
    lock = threading.Lock()
    con.register_function(ms.udf(name="locked")(lambda_with(lock)))
    with pytest.raises(ms.errors.QueryError, match="`locked` cannot be sent to other nodes"):
        con.sql("SELECT locked(x) FROM (VALUES (1)) AS t (x)").write_to(print, cluster=cluster)


def lambda_with(lock: object) -> Callable[[int], int]:
    def function(x: int) -> int:
        return x if lock else 0

    return function


def test_a_module_that_a_node_lacks_is_named(con: ms.Session, tmp_path: pathlib.Path) -> None:
    node = Node(tmp_path)
    try:
        con.register_source("events", program.rows, {"n": "BIGINT NOT NULL", "name": "STRING"}, splits=6, positions=True, bounded=True)
        job = con.table("events").write_to(print, cluster=ms.Cluster([node.address], token=TOKEN))
        with pytest.raises(ms.errors.NetworkError, match="MS5011.*No module named 'nodes_program'"):
            job.wait(60)
    finally:
        node.end()


def test_functions_of_main_go_by_value(nodes: list[Node], tmp_path: pathlib.Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        f"""
import millstream as ms

factor = 3

@ms.udf
def scaled(x: int) -> int:
    return factor * x

ms.register_function(scaled)
rows = []
cluster = ms.Cluster({[node.address for node in nodes]!r})
ms.sql("SELECT scaled(x) AS x FROM (VALUES (1), (2)) AS t (x)").write_to(lambda batch: rows.extend(batch.rows()), cluster=cluster).wait(60)
print(sorted(rows))
"""
    )
    environment = {**os.environ, "MILLSTREAM_CLUSTER_TOKEN": TOKEN}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=120)
    assert ran.stdout == "[(3,), (6,)]\n", ran.stderr


def test_a_cluster_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLSTREAM_CLUSTER_TOKEN", raising=False)
    with pytest.raises(ms.errors.ConfigurationError, match="MS1003"):
        ms.Cluster(["127.0.0.1:1"])
    with pytest.raises(ValueError, match="how many nodes"):
        ms.sql("SELECT 1 AS x").write_to(print, cluster="ray")
