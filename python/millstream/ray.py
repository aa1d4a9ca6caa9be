"""Runs a script, or a job of this program, on the machines of a Ray cluster.

Ray places the processes and says which of them have died; what they do together is the engine's (docs/how-to/cluster.md). Each actor has one
``millstream node``. The first node, which writes the output and completes the checkpoints, is a process beside the program that calls
:func:`run`, or beside an actor of its own for a job that is detached. It finds the others in a file, which is written anew when one of them
has been replaced.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

try:
    import ray
except ImportError as _absent:
    raise ImportError("millstream.ray needs Ray: pip install 'millstream[ray]'") from _absent
from ray.util.placement_group import remove_placement_group

from millstream._ray_cluster import RayCluster
from millstream._ray_connection import connected, is_insecure, join, order_of, security_options
from millstream._ray_metrics import Metrics, free_port
from millstream._ray_nodes import LOOK, NAMESPACE, START, FirstNode, Lines, NodeActor, Nodes, Order, error_as, error_of, untyped

__all__ = ["JobActor", "NodeActor", "RayCluster", "rescale", "run", "status", "stop"]

class JobActor:
    """A job that goes on by itself: its first node is beside this actor. When this one dies, Ray starts it again, and the job resumes from its
    last checkpoint. It goes when the job has ended well; after a failure it stays to tell, until it is stopped."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._state, self._said = "starting", ""
        self._first: FirstNode | None = None
        self._nodes: Nodes | None = None
        self._metrics: Metrics | None = None
        self._is_stopped = self._is_told = False
        threading.Thread(target=self._run, daemon=True).start()

    def __repr__(self) -> str:
        return f"millstream:{self._order.job}"

    def _run(self) -> None:
        # Of this actor before it was started again.
        for group in ray.util.placement_group_table().values():
            name = group["name"]
            if group["state"] != "REMOVED" and (name == f"millstream:{self._order.job}" or name.startswith(f"millstream:{self._order.job}.")):
                with contextlib.suppress(ValueError):
                    remove_placement_group(ray.util.get_placement_group(name))
        try:
            with Nodes(self._order) as self._nodes:
                if self._is_stopped:
                    return
                served = self._serve()
                self._first = FirstNode(self._order, self._nodes, served, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
                lines = Lines(self._first.process, lambda line: print(line, end="", file=sys.stderr, flush=True))
                self._state = "running"
                code = self._first.watch()
            self._said = lines.text()
            self._state = "ended" if code == 0 else "failed"
        except Exception as error:
            self._state, self._said = "failed", str(error)
        finally:
            if self._metrics is not None:
                self._metrics.close()
            if self._state != "failed" or self._is_stopped:
                self._go()

    def _serve(self) -> list[str]:
        """Options by which the first node serves its statistics, unless it is to serve them elsewhere."""
        if "MILLSTREAM_HTTP" in os.environ or any(word.split("=")[0] == "--http" for word in self._order.words):
            return []
        port = free_port()
        self._metrics = Metrics(self._order.job, port)
        return ["--http", f"127.0.0.1:{port}"]

    def _go(self) -> None:
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    @ray.method(concurrency_group="control")
    def status(self) -> dict[str, Any]:
        """The state of the job, what it has said last, its nodes, and what each has done as of some seconds ago (the first one included)."""
        nodes = self._nodes.stats() if self._nodes is not None and self._state == "running" else []
        done = self._metrics.nodes if self._metrics is not None else []
        return {"job": self._order.job, "state": self._state, "said": self._said, "nodes": nodes, "done": done}

    @ray.method(concurrency_group="control")
    def rescale(self, nodes: int) -> str:
        """Have the job resume on this many nodes, the first one included. What it says of that, or why it cannot."""
        running = self._nodes
        if running is None or self._state != "running":
            raise RuntimeError(f"the job is {self._state}")
        before = len(running)
        running.grow(nodes)
        words = ["cluster", "rescale", "--nodes", str(nodes)]
        if self._order.state is not None:
            words += ["--state-dir", self._order.state]
        asked = self._order.process(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, security=False)
        said = asked.process.communicate()[0]
        asked.let_go()
        if asked.process.returncode != 0:
            running.shrink(before)
            raise RuntimeError(said.strip())
        running.shrink(nodes)
        return said.strip()

    @ray.method(concurrency_group="control")
    def stop(self) -> None:
        """Stop the job with a checkpoint, if it has a state directory. This actor ends after it."""
        self._is_stopped = True
        if self._state == "failed":
            self._go()
        elif self._first is not None and not self._is_told:
            # Once: after a second one it would end without a checkpoint.
            self._is_told = True
            self._first.process.send_signal(signal.SIGTERM)


def run(
    script: str | os.PathLike[str],
    *,
    nodes: int,
    state_dir: str | None = None,
    address: str | None = None,
    workers: int = 1,
    nodes_per_host: int | None = None,
    job: str | None = None,
    detached: bool = False,
    insecure: bool = False,
    tls: tuple[str, str, str] | None = None,
    options: Sequence[str] = (),
) -> None:
    """Run a script on several nodes of a Ray cluster, and wait for its end.

    This machine has the first node; Ray places the others, one on a machine. Ctrl-C stops the job with a checkpoint.

    - ``script``: the file of the script
    - ``nodes``: how many nodes take part, this one included
    - ``state_dir``: where the checkpoints are, seen by all machines: without, a job whose node has died begins anew
    - ``address``: that of the Ray cluster; without, the one of this machine is joined, or started
    - ``workers``: threads of each node, and CPUs that Ray keeps for it
    - ``nodes_per_host``: nodes on one machine: 1, or all of them where Ray is started for the run
    - ``job``: what the job is called in Ray: the name of the script
    - ``detached``: return once the job has been handed over; see :func:`status` and :func:`stop`
    - ``insecure``: speak to other machines without TLS, and use a Ray without authentication
    - ``tls``: paths of the CA, the certificate and the key, the same on all machines
    - ``options``: more of those of ``millstream run``
    """
    path = pathlib.Path(script)
    words = ["--workers", str(workers), *options]
    if state_dir is not None:
        words += ["--state-dir", state_dir]
    code, said = _run(
        words,
        path,
        text=path.read_text() if detached else None,
        nodes=nodes,
        address=address,
        workers=workers,
        nodes_per_host=nodes_per_host,
        job=job,
        detached=detached,
        insecure=insecure,
        security=security_options(insecure, tls),
        state=state_dir,
        is_command=False,
    )
    if code != 0:
        raise error_of(said)


def _run(
    words: Sequence[str],
    path: pathlib.Path | None,
    *,
    text: str | None,
    nodes: int,
    address: str | None,
    workers: int,
    nodes_per_host: int | None,
    job: str | None,
    detached: bool,
    insecure: bool,
    security: Sequence[str],
    state: str | None,
    is_command: bool,
) -> tuple[int, str]:
    """The exit code of the first node, and what it has said last, unless it speaks to the terminal itself."""
    if nodes < 2:
        raise error_as("MS1001", f"{nodes} nodes were asked for", "a run on Ray has two nodes or more: nodes=, --nodes")
    if workers < 1 or (nodes_per_host is not None and nodes_per_host < 1):
        raise error_as("MS1001", "workers and nodes on one machine are counted from 1", "leave them out, or give a larger number")
    insecure = is_insecure(insecure)
    detached = detached or (address or "").startswith("ray://")
    if path is not None and detached:
        words = ["{script}", *words]
    elif path is not None:
        words = [str(path), *words]
    with connected(address, workers * (nodes - 1), insecure) as where:
        if detached and where[0]:
            raise error_as("MS1001", "there is no Ray cluster that a detached job could stay on", "start one with `ray start --head`, or give its address")
        name = job or (path.stem if path is not None and str(path) != "-" else "sql")
        order = order_of(
            name if detached or job else f"{name}-{secrets.token_hex(3)}",
            nodes,
            workers,
            nodes_per_host,
            where,
            insecure=insecure,
            security=security,
            words=words,
            text=text if detached else None,
            state=state,
        )
        if detached:
            _hand_over(order)
            return 0, ""
        with Nodes(order) as placed:
            if is_command:
                first = FirstNode(order, placed)
                signal.signal(signal.SIGTERM, lambda *_: first.process.send_signal(signal.SIGTERM))
                # The terminal sends it to both.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                return first.watch(), ""
            first = FirstNode(order, placed, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, process_group=0)
            lines = Lines(first.process, sys.stderr.write)
            return first.watch(), lines.text()


def _hand_over(order: Order) -> None:
    name = f"millstream:{order.job}"
    try:
        job_actor = untyped.remote(num_cpus=0, max_restarts=-1, concurrency_groups={"control": 2})(JobActor)
        actor = job_actor.options(name=name, namespace=NAMESPACE, lifetime="detached").remote(order)
        ray.get(actor.status.remote(), timeout=START)
    except (ValueError, ray.exceptions.ActorAlreadyExistsError):
        advice = f"end it with `millstream cluster stop --job {order.job}`, or give this one another name"
        raise error_as("MS1001", f"there is a job '{order.job}' on this Ray cluster", advice) from None


@contextlib.contextmanager
def _found(job: str, address: str | None) -> Iterator[Any]:
    is_joined = not ray.is_initialized()
    if is_joined:
        join(address or "auto")
    try:
        try:
            yield ray.get_actor(f"millstream:{job}", namespace=NAMESPACE)
        except (ValueError, ray.exceptions.ActorDiedError):
            message = f"no job '{job}' runs on this Ray cluster"
            raise error_as("MS3018", message, "a job that has ended well is gone; look at its output, and at the name") from None
    finally:
        if is_joined:
            ray.shutdown()


def status(job: str, *, address: str | None = None) -> Mapping[str, Any]:
    """The state of a detached job (``starting``, again if its machine has gone, ``running``, ``ended``, ``failed``), what it has said last, its nodes, and what each node
    has done (``done``: ``nodes`` of the statistics, as of some seconds ago)."""
    with _found(job, address) as actor:
        try:
            found: dict[str, Any] = ray.get(actor.status.remote(), timeout=START)
        except ray.exceptions.ActorUnavailableError:
            found = {"job": job, "state": "starting", "said": "", "nodes": [], "done": []}
        return found


def rescale(job: str, nodes: int, *, address: str | None = None) -> str:
    """Have a detached job take a checkpoint and resume from it on another number of nodes, the first one included. What it says of that.

    The job needs a state directory. When its own actor is started again, it has the number of nodes that it was begun with.
    """
    if nodes < 1:
        raise error_as("MS1001", f"{nodes} nodes were asked for", "the first one counts: 1 or more")
    with _found(job, address) as actor:
        try:
            said: str = ray.get(actor.rescale.remote(nodes))
        except ray.exceptions.RayTaskError as error:
            raise error_of(str(error.cause)) from None
        return said


def stop(job: str, *, address: str | None = None) -> None:
    """Stop a detached job with a checkpoint, if it has a state directory, and wait for its end."""
    with _found(job, address) as actor:
        while True:
            try:
                ray.get(actor.stop.remote(), timeout=START)
            except ray.exceptions.ActorUnavailableError:
                pass
            except ray.exceptions.ActorDiedError:
                return
            time.sleep(LOOK)
