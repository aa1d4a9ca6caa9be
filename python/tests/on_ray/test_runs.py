"""Runs on a Ray cluster give the rows of a run on one process, whatever dies meanwhile, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import ray
from .conftest import Job, until
from millstream import _ray_nodes, errors
from millstream import ray as on_ray
from millstream._ray_connection import refuse_open
from ray._private.state import actors
from ray.util import placement_group_table

FAST = 100_000_000
#: Rows of a file and second: a run takes some seconds.
SLOW = 400


def node_actors(job: str = "") -> list[dict[str, Any]]:
    """The actors that live."""
    return [actor for actor in actors().values() if actor["State"] in ("ALIVE", "PENDING_CREATION", "RESTARTING") and f"millstream:{job}" in actor["Name"]]


def groups() -> list[dict[str, Any]]:
    return [group for group in placement_group_table().values() if group["state"] != "REMOVED"]


def processes() -> list[int]:
    """The processes of the engine."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if b"millstream._leash" in file.read():
                    found.append(int(name))
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Any) -> Any:
    yield
    until(lambda: not node_actors() and not groups() and not processes(), 10)


def in_background(*arguments: Any, **options: Any) -> tuple[threading.Thread, list[BaseException]]:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            on_ray.run(*arguments, **options)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, failures


def test_rows_are_those_of_one_process(job: Job, cluster: Any) -> None:
    alone = [sys.executable, "-m", "millstream", "run", job.script(FAST, "alone"), "--quiet"]
    subprocess.run(alone, check=True, timeout=60)
    assert job.rows("alone") == job.expected
    on_ray.run(job.script(FAST), nodes=3, state_dir=job.state())
    assert job.rows() == job.expected


def disturbed(job: Job, disturb: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
    """The run of a job that is disturbed after a checkpoint."""
    began = time.monotonic()
    thread, failures = in_background(job.script(SLOW), nodes=3, state_dir=job.state(), job="disturbed")
    until(job.has_checkpoint)
    time.sleep(1)
    assert thread.is_alive(), failures
    disturb()
    disturbed_at = time.monotonic()
    thread.join(timeout=60)
    assert not thread.is_alive() and not failures, failures
    assert job.rows() == job.expected
    print(f"{disturbed_at - began:.1f} s before, {time.monotonic() - disturbed_at:.1f} s after")
    assert time.monotonic() - disturbed_at < 15 + FILES_SECONDS
    assert "is gone" in caplog.text and "is replaced" in caplog.text


#: What a run takes that is not disturbed, at most: a node reads its files one after another.
FILES_SECONDS = 2 * 2000 / SLOW


def test_an_actor_that_is_killed_is_replaced(job: Job, cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    def kill() -> None:
        ray.kill(ray.get_actor("millstream:disturbed:node-2", namespace=_ray_nodes.NAMESPACE))

    disturbed(job, kill, caplog)


def test_a_process_that_is_killed_is_replaced(job: Job, cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    def kill() -> None:
        actor: Any = ray.get_actor("millstream:disturbed:node-1", namespace=_ray_nodes.NAMESPACE)
        stats = ray.get(actor.stats.remote())
        assert stats["alive"] and stats["node"] == 1 and stats["address"] == ray.get(actor.address.remote())
        os.kill(stats["pid"], signal.SIGKILL)

    disturbed(job, kill, caplog)


def test_a_machine_that_goes_is_replaced(job: Job, cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    extra: list[Any] = []

    def remove() -> None:
        # The head stays, and of the others one that has a node.
        used = {actor["Address"]["NodeID"] for actor in node_actors("disturbed")}
        machine = next(node for node in cluster.worker_nodes if node.node_id in used)
        cluster.remove_node(machine)
        extra.append(machine)

    disturbed(job, remove, caplog)
    assert extra
    cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    until(lambda: _ray_nodes.untyped.cluster_resources().get("CPU") == 3)


def test_failures_are_told_and_leave_nothing(job: Job, cluster: Any, tmp_path: Any) -> None:
    wrong = tmp_path / "wrong.sql"
    wrong.write_text("SELECT nothing FROM nowhere;")
    with pytest.raises(errors.QueryError, match="nowhere"):
        on_ray.run(wrong, nodes=2)
    with pytest.raises(errors.ConfigurationError, match="two nodes or more"):
        on_ray.run(wrong, nodes=1)
    with pytest.raises(errors.ConfigurationError, match="node 1 could not be started: '/no/ca' cannot be used for TLS"):
        on_ray.run(wrong, nodes=2, tls=("/no/ca", "/no/cert", "/no/key"))


def test_nodes_that_have_no_place_are_told(cluster: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ray_nodes, "START", 4.0)
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;")
    with pytest.raises(errors.NetworkError, match="nodes_per_host"):
        on_ray.run(script, nodes=9)


def test_a_ray_without_authentication_is_refused(cluster: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "one.sql"
    script.write_text("SELECT 1;")
    machines = [{"Alive": True, "NodeManagerAddress": "10.0.0.7"}]
    monkeypatch.setattr(ray, "nodes", lambda: machines)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(errors.NetworkError, match="RAY_AUTH_MODE=token"):
        on_ray.run(script, nodes=2)
    for hosts, mode, insecure in (["127.0.0.1", "::1"], None, False), (["10.0.0.7"], "token", False), (["10.0.0.7"], None, True):
        refuse_open(hosts, mode, insecure)
    with pytest.raises(errors.NetworkError):
        refuse_open(["127.0.0.1", "10.0.0.7"], "", False)


def command(cluster: Any, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    return subprocess.run([sys.executable, "-m", "millstream", *words], env=environment, capture_output=True, text=True, timeout=60)


def test_the_command_prints_rows(job: Job, cluster: Any) -> None:
    sql = f"""CREATE TABLE t (k BIGINT, v BIGINT, ts STRING) WITH ('connector' = 'filesystem', 'path' = '{job.folder}/in', 'format' = 'csv');
        SELECT COUNT(*) AS n FROM t"""
    token = job.folder / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    done = command(cluster, "run", "-e", sql, "--cluster", "ray", "--nodes", "3", "--output", "csv", "--cluster-token-file", str(token))
    assert done.returncode == 0 and done.stdout == "n\n12000\n", done
    failed = command(cluster, "run", "-e", "SELECT x FROM y", "--cluster=ray", "--nodes=2")
    assert failed.returncode == 1 and "MS2" in failed.stderr, failed
    wrong = command(cluster, "run", "-e", sql, "--cluster", "ray")
    assert wrong.returncode == 2 and "--nodes" in wrong.stderr, wrong


def test_a_detached_job_is_rescaled(job: Job, cluster: Any) -> None:
    begun = command(cluster, "run", job.script(SLOW // 4), "--cluster", "ray", "--nodes", "3", "--detached", "--job", "sized", "--state-dir", job.state())
    assert begun.returncode == 0, begun
    until(lambda: on_ray.status("sized")["state"] == "running")
    until(job.has_checkpoint)
    until(lambda: len(on_ray.status("sized")["done"]) == 3)
    told = command(cluster, "cluster", "status", "--job", "sized")
    assert told.stdout.count(" rows read, ") == 3 and "node 0, the first: " in told.stdout, told
    fewer = command(cluster, "cluster", "rescale", "--job", "sized", "--nodes", "2")
    assert fewer.returncode == 0 and "resumed on 2 nodes instead of 3" in fewer.stderr, fewer
    until(lambda: len(node_actors("sized")) == 2)
    assert "4 nodes" in on_ray.rescale("sized", 4)
    assert len(node_actors("sized")) == 4
    with pytest.raises(errors.ConfigurationError, match="0 nodes"):
        on_ray.rescale("sized", 0)
    on_ray.stop("sized")
    on_ray.run(job.script(FAST), nodes=3, state_dir=job.state())
    assert job.rows() == job.expected


def test_a_detached_job_goes_on_by_itself(job: Job, cluster: Any) -> None:
    begun = command(cluster, "run", job.script(SLOW), "--cluster", "ray", "--nodes", "3", "--detached", "--job", "own", "--state-dir", job.state())
    assert begun.returncode == 0 and "--job own" in begun.stderr, begun
    until(lambda: on_ray.status("own")["state"] == "running")
    again = command(cluster, "run", job.script(SLOW), "--cluster", "ray", "--nodes", "3", "--detached", "--job", "own")
    assert again.returncode == 2 and "there is a job 'own'" in again.stderr, again
    until(job.has_checkpoint)
    # Its machine fails.
    os.kill(next(actor["Pid"] for actor in node_actors("own") if actor["Name"] == "millstream:own"), signal.SIGKILL)
    until(lambda: len(node_actors("own")) == 3)
    until(lambda: on_ray.status("own")["state"] == "running")
    told = command(cluster, "cluster", "status", "--job", "own")
    assert told.returncode == 0 and "own: running, 3 nodes" in told.stdout and "node 2 at 127.0.0.1:" in told.stdout, told
    assert command(cluster, "cluster", "stop", "--job", "own").returncode == 0
    assert command(cluster, "cluster", "status", "--job", "own").returncode == 1
    # Resumed with its state.
    on_ray.run(job.script(FAST), nodes=3, state_dir=job.state())
    assert job.rows() == job.expected
