"""Runs a script on the machines of a Ray cluster.

Ray places the processes and says which of them have died; what they do together is the engine's (docs/how-to/cluster.md). Each actor has one
``millstream node``. The first node, which writes the output and completes the checkpoints, is a process beside the program that calls
:func:`run`, or beside an actor of its own for a job that is detached. It finds the others in a file, which is written anew when one of them
has been replaced.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

try:
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
except ImportError as _absent:
    raise ImportError("millstream.ray needs Ray: pip install 'millstream[ray]'") from _absent

from millstream import errors
from millstream._leash import Leashed
from millstream._logging import logger

__all__ = ["NodeActor", "run", "status", "stop"]

#: Between two looks at the nodes, in seconds.
LOOK = 0.5
#: How long a node may take to be placed and started, in seconds.
START = 120.0
#: Before a node that could not be started is started again, in seconds.
PAUSE = 5.0
#: Where the actors of all jobs are found.
NAMESPACE = "millstream"
#: What the environment has for the nodes, besides what they are started with.
SECURITY = ("MILLSTREAM_CLUSTER_CA", "MILLSTREAM_CLUSTER_CERT", "MILLSTREAM_CLUSTER_KEY", "MILLSTREAM_INSECURE_CLUSTER")
TOKEN = "MILLSTREAM_CLUSTER_TOKEN"
#: How a node says where it is reached.
WAITING = "waiting for runs at "
#: Lines that are kept of what a process says.
KEPT = 20


def _error(code: str, message: str, advice: str) -> errors.Error:
    return errors.of(f"error[{code}]: {message}\n  = help: {advice}", code=code, message=message, place=None, advice=advice)


@dataclasses.dataclass(frozen=True)
class _Order:
    """What is to run, and on what: all that the actors of a job are told."""

    job: str
    #: What the first node is started with, after ``run``. ``{script}`` stands for the file that has ``text``.
    words: list[str]
    text: str | None
    #: Nodes, the first one included.
    nodes: int
    #: CPUs that Ray keeps for each.
    workers: int
    nodes_per_host: int
    token: str
    insecure: bool
    #: Options and variables of the environment that say how nodes trust each other.
    security: list[str]
    environment: dict[str, str]
    #: Relative paths of the script begin here, where there is such a folder.
    folder: str
    #: Whether there is one machine only, so that nodes are reached through its loopback.
    is_local: bool

    def listen(self) -> str:
        host = "127.0.0.1" if self.is_local else ray.util.get_node_ip_address()
        return f"[{host}]:0" if ":" in host else f"{host}:0"

    def process(self, words: Sequence[str], unset: Sequence[str] = (), **options: Any) -> Leashed:
        """A process of this job: without these variables in its environment."""
        environment = {**os.environ, **self.environment, TOKEN: self.token}
        for name in ("MILLSTREAM_CLUSTER", "MILLSTREAM_CLUSTER_TOKEN_FILE", *unset):
            environment.pop(name, None)
        folder = self.folder if os.path.isdir(self.folder) else None
        return Leashed([*words, *self.security], env=environment, cwd=folder, **options)


class _Lines:
    """Reads what a process says, so that it never waits for a reader, and hands it on."""

    def __init__(self, process: subprocess.Popen[str], say: Callable[[str], None]) -> None:
        self.kept: collections.deque[str] = collections.deque(maxlen=KEPT)
        self._process, self._say = process, say
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.kept.append(line.rstrip("\n"))
            with contextlib.suppress(OSError, ValueError):
                self._say(line)

    def text(self) -> str:
        """The last of what it has said, once it has ended."""
        self._thread.join(timeout=5)
        return "\n".join(self.kept)


@ray.remote(max_restarts=0, concurrency_groups={"watch": 1})
class NodeActor:
    """A node of a job: a process of its own, which ends with this actor.

    It is never restarted by Ray: the program that watches it makes another one, and says where that one is.
    """

    def __init__(self, number: int, order: _Order) -> None:
        self._number, self._order = number, order
        self._address: str | None = None
        self._began = time.monotonic()

    def __repr__(self) -> str:
        return f"node {self._number}: {self._order.job}"

    def start(self) -> str:
        """Start the process. Where it is reached."""
        order = self._order
        if not order.insecure and not order.is_local and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
            raise RuntimeError("the Ray of this machine runs without RAY_AUTH_MODE=token")
        # No configuration file: what counts is that of the first node, which sends it.
        words = ["node", "--listen", order.listen(), "--config", os.devnull]
        unset = ("MILLSTREAM_QUIET", "MILLSTREAM_LOG_FORMAT")
        self._leashed = order.process(words, unset, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        process = self._leashed.process
        assert process.stderr is not None
        first = process.stderr.readline()
        if WAITING not in first:
            self._leashed.let_go()
            raise RuntimeError((first + process.stderr.read()).strip() or "it has ended without a word")
        self._address = first.split(WAITING)[1].split()[0]
        self._lines = _Lines(process, lambda line: print(f"node {self._number}: {line}", end="", file=sys.stderr, flush=True))
        return self._address

    def address(self) -> str | None:
        """Where it is reached, once it has been started."""
        return self._address

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._address is not None and self._leashed.process.poll() is None

    def stats(self) -> dict[str, Any]:
        """What is known of it: its number, address, machine, process, the time it has run in seconds, and what it has said last."""
        return {
            "node": self._number,
            "job": self._order.job,
            "address": self._address,
            "host": ray.util.get_node_ip_address(),
            "pid": self._leashed.process.pid if self._address is not None else None,
            "alive": self.is_alive(),
            "seconds": round(time.monotonic() - self._began, 1),
            "said": list(self._lines.kept) if self._address is not None else [],
        }

    @ray.method(concurrency_group="watch")
    def ended(self) -> str:
        """Wait until the process has ended. Its exit code, and what it has said last."""
        code = self._leashed.process.wait()
        said = self._lines.text()
        return f"it has ended with code {code}" + (f": {said.splitlines()[-1]}" if said else "")

    def stop(self) -> None:
        """End the process. It has nothing that has to be kept."""
        if self._address is not None:
            self._leashed.let_go()


class _Slot:
    """The place of one node: its actor of now, and what that one is waited for."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.actors = 0
        self.actor: Any = None
        #: Its address, then its end.
        self.asked: Any = None
        self.address: str | None = None
        self.is_started = False
        self.not_before = 0.0


class _Nodes:
    """All nodes but the first, and the file that lists them."""

    def __init__(self, order: _Order) -> None:
        self._order = order
        self._slots = [_Slot(number) for number in range(1, order.nodes)]
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="millstream-ray-"))
        self.file = self._folder / "nodes"
        self._group: Any = None

    def __enter__(self) -> _Nodes:
        try:
            self._place()
            for slot in self._slots:
                self._start(slot)
            until = time.monotonic() + START
            for slot in self._slots:
                self._await_address(slot, until)
            self._write()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self) -> None:
        """Keeps CPUs: a bundle for each machine, on machines of their own."""
        order = self._order
        others = order.nodes - 1
        per_host = min(order.nodes_per_host, others)
        bundles = [min(per_host, others - at) for at in range(0, others, per_host)]
        wanted = [{"CPU": float(order.workers * nodes)} for nodes in bundles]
        self._group = placement_group(wanted, strategy="STRICT_SPREAD", name=f"millstream:{order.job}")
        if not self._group.wait(START / 4):
            machines = [node for node in ray.nodes() if node["Alive"]]
            cpus = ", ".join(f"{node['Resources'].get('CPU', 0):g}" for node in machines)
            raise _error(
                "MS5013",
                f"Ray has no place for {others} nodes of {order.workers} CPUs, {per_host} to a machine: its machines have {cpus} CPUs",
                "ask for fewer nodes or workers, or for several nodes on a machine (nodes_per_host=, --nodes-per-host)",
            )

    def _start(self, slot: _Slot) -> None:
        order = self._order
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=(slot.number - 1) // order.nodes_per_host)
        slot.actor = None
        while slot.actor is None:
            name = f"millstream:{order.job}:node-{slot.number}" + (f".{slot.actors}" if slot.actors else "")
            slot.actors += 1
            options = NodeActor.options(num_cpus=order.workers, name=name, namespace=NAMESPACE, scheduling_strategy=strategy)
            # The one before has the name until Ray has seen its end.
            with contextlib.suppress(ValueError):
                slot.actor = options.remote(slot.number, order)
        slot.asked, slot.is_started = slot.actor.start.remote(), False

    def _await_address(self, slot: _Slot, until: float) -> None:
        try:
            slot.address = ray.get(slot.asked, timeout=max(until - time.monotonic(), 0))
        except ray.exceptions.RayTaskError as error:
            raise _error_of(str(error.cause), f"node {slot.number} could not be started: ") from None
        except ray.exceptions.RayError as error:
            advice = "see Ray's logs; Millstream has to be installed on all machines of the cluster"
            raise _error("MS5013", f"node {slot.number} could not be started: {str(error).splitlines()[0]}", advice) from error
        slot.asked, slot.is_started = slot.actor.ended.remote(), True

    def _write(self) -> None:
        """The list of now, at once: who reads it sees the old one or the new one, whole."""
        text = "".join(f"{slot.address}\n" for slot in self._slots)
        written = self._folder / "nodes.new"
        with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        os.replace(written, self.file)

    def look(self) -> None:
        """Replaces nodes that have gone. Takes LOOK seconds at most."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.asked is None and now >= slot.not_before:
                self._start(slot)
        asked = [slot.asked for slot in self._slots if slot.asked is not None]
        ready = ray.wait(asked, num_returns=1, timeout=LOOK)[0] if asked else time.sleep(LOOK)
        for slot in [slot for slot in self._slots if slot.asked is not None and slot.asked in (ready or ())]:
            try:
                said = ray.get(slot.asked)
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                said, is_started = str(cause or error).strip().splitlines()[0], False
            else:
                is_started = not slot.is_started
            if is_started:
                # The old address was in the list until now: who looks for nodes waits for those that are listed.
                slot.address, slot.is_started, slot.asked = said, True, slot.actor.ended.remote()
                self._write()
                logger().warning("node %d is replaced: it is at %s", slot.number, said)
            else:
                logger().warning("node %d is gone: %s", slot.number, said)
                slot.not_before = 0.0 if slot.is_started else time.monotonic() + PAUSE
                ray.kill(slot.actor, no_restart=True)
                slot.actor = slot.asked = None

    def stats(self) -> list[dict[str, Any]]:
        asked = [slot.actor.stats.remote() for slot in self._slots if slot.actor is not None and slot.is_started]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=2) if asked else ([], [])
        found = []
        for each in ready:
            with contextlib.suppress(ray.exceptions.RayError):
                found.append(ray.get(each))
        return found

    def close(self) -> None:
        """Leaves no actor, no placement group and no file behind."""
        for slot in self._slots:
            if slot.actor is not None:
                with contextlib.suppress(ray.exceptions.RayError):
                    ray.kill(slot.actor, no_restart=True)
                slot.actor = slot.asked = None
        if self._group is not None:
            remove_placement_group(self._group)
            self._group = None
        shutil.rmtree(self._folder, ignore_errors=True)


class _FirstNode:
    """The process that runs the script, and the nodes that take part."""

    def __init__(self, order: _Order, nodes: _Nodes, **options: Any) -> None:
        words = [word.replace("{script}", self._script(order, nodes)) if order.text is not None else word for word in order.words]
        words = ["run", *words, "--cluster", f"static+file://{nodes.file}"]
        if not any(word.split("=")[0] == "--cluster-listen" for word in words):
            words += ["--cluster-listen", order.listen()]
        self._nodes = nodes
        self._leashed = order.process(words, **options)
        self.process = self._leashed.process

    @staticmethod
    def _script(order: _Order, nodes: _Nodes) -> str:
        path = nodes.file.with_name("script.sql")
        path.write_text(order.text or "")
        return str(path)

    def watch(self) -> int:
        """Until it has ended: its exit code."""
        try:
            while self.process.poll() is None:
                try:
                    self._nodes.look()
                except KeyboardInterrupt:
                    # The first one stops the job with a checkpoint, a second one at once.
                    self.process.send_signal(signal.SIGINT)
            return self.process.returncode
        finally:
            self._leashed.let_go()


def _error_of(text: str, what: str = "") -> errors.Error:
    """The error that a process has ended with, from what it has said."""
    told = list(re.finditer(r"error\[(MS\d{4})\]: (.*)", text))
    if not told:
        code = "MS5013"
        return errors.of(f"error[{code}]: {what}{text}", code=code, message=f"{what}{text}", place=None, advice=None)
    code, message = told[-1].groups()
    advice = re.search(r"= help: (.*)", text[told[-1].end() :])
    return errors.of(what + text[told[-1].start() :], code=code, message=what + message, place=None, advice=advice and advice[1])


def _refuse_open(hosts: Sequence[str], mode: str | None, insecure: bool) -> None:
    """Whoever reaches a Ray without authentication runs code on all of its machines."""
    is_loopback = all(host == "::1" or host.startswith("127.") for host in hosts)
    if not is_loopback and not insecure and (mode or "").lower() != "token":
        raise _error(
            "MS5017",
            f"the Ray cluster at {hosts[0]} can be used without authentication: whoever reaches it can run code on all of its machines",
            "start Ray with RAY_AUTH_MODE=token, after `ray get-auth-token --generate`, and set it here, too; Ray's tokens are not encrypted "
            "unless Ray has TLS. Or say that the network is trusted: insecure=True, --insecure-cluster",
        )


@contextlib.contextmanager
def _connected(address: str | None, cpus: int, insecure: bool) -> Iterator[tuple[bool, bool]]:
    """Joins Ray, or starts it on this machine. Whether it was started, and whether there is one machine only."""
    is_started, is_joined = False, not ray.is_initialized()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": NAMESPACE}
    if is_joined and address is None:
        try:
            ray.init("auto", **quiet)
        except ConnectionError:
            ray.init(num_cpus=max(cpus, os.cpu_count() or 1), include_dashboard=False, **quiet)
            is_started = True
    elif is_joined:
        ray.init(address, **({"namespace": NAMESPACE} if address.startswith("ray://") else quiet))
    try:
        hosts = sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]})
        _refuse_open(hosts, os.environ.get("RAY_AUTH_MODE"), insecure)
        yield is_started, len(hosts) == 1
    finally:
        if is_joined:
            ray.shutdown()


@ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups={"control": 2})
class JobActor:
    """A job that goes on by itself: its first node is beside this actor. When this one dies, Ray starts it again, and the job resumes from its
    last checkpoint. It goes when the job has ended well; after a failure it stays to tell, until it is stopped."""

    def __init__(self, order: _Order) -> None:
        self._order = order
        self._state, self._said = "starting", ""
        self._first: _FirstNode | None = None
        self._nodes: _Nodes | None = None
        self._is_stopped = self._is_told = False
        threading.Thread(target=self._run, daemon=True).start()

    def __repr__(self) -> str:
        return f"millstream:{self._order.job}"

    def _run(self) -> None:
        # Of this actor before it was started again.
        with contextlib.suppress(ValueError):
            remove_placement_group(ray.util.get_placement_group(f"millstream:{self._order.job}"))
        try:
            with _Nodes(self._order) as self._nodes:
                if self._is_stopped:
                    return
                self._first = _FirstNode(self._order, self._nodes, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
                lines = _Lines(self._first.process, lambda line: print(line, end="", file=sys.stderr, flush=True))
                self._state = "running"
                code = self._first.watch()
            self._said = lines.text()
            self._state = "ended" if code == 0 else "failed"
        except Exception as error:
            self._state, self._said = "failed", str(error)
        finally:
            if self._state != "failed" or self._is_stopped:
                self._go()

    def _go(self) -> None:
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    @ray.method(concurrency_group="control")
    def status(self) -> dict[str, Any]:
        """The state of the job, what it has said last, and its nodes."""
        nodes = self._nodes.stats() if self._nodes is not None and self._state == "running" else []
        return {"job": self._order.job, "state": self._state, "said": self._said, "nodes": nodes}

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
    """Run a script on so many nodes of a Ray cluster, and wait for its end.

    This machine has the first node; Ray places the others, one on a machine. Ctrl-C stops the job with a checkpoint.

    :param script: the file of the script
    :param nodes: how many nodes take part, this one included
    :param state_dir: where the checkpoints are, seen by all machines: without, a job whose node has died begins anew
    :param address: that of the Ray cluster; without, the one of this machine is joined, or started
    :param workers: threads of each node, and CPUs that Ray keeps for it
    :param nodes_per_host: nodes on one machine: 1, or all of them where Ray is started for the run
    :param job: what the job is called in Ray: the name of the script
    :param detached: return once the job has been handed over; see :func:`status` and :func:`stop`
    :param insecure: speak to other machines without TLS, and use a Ray without authentication
    :param tls: paths of the CA, the certificate and the key, the same on all machines
    :param options: more of those of ``millstream run``
    """
    path = pathlib.Path(script)
    words = ["--workers", str(workers), *options]
    if state_dir is not None:
        words += ["--state-dir", state_dir]
    security = ["--insecure-cluster"] if insecure else []
    for option, file in zip(("--cluster-ca", "--cluster-cert", "--cluster-key"), tls or (), strict=tls is not None):
        security += [option, os.path.abspath(file)]
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
        security=security,
        is_command=False,
    )
    if code != 0:
        raise _error_of(said)


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
    is_command: bool,
) -> tuple[int, str]:
    """The exit code of the first node, and what it has said last, unless it speaks to the terminal itself."""
    if nodes < 2:
        raise _error("MS1001", f"{nodes} nodes were asked for", "a run on Ray has two nodes or more: nodes=, --nodes")
    if workers < 1 or (nodes_per_host is not None and nodes_per_host < 1):
        raise _error("MS1001", "workers and nodes on one machine are counted from 1", "leave them out, or give a larger number")
    insecure = insecure or os.environ.get("MILLSTREAM_INSECURE_CLUSTER", "").lower() in ("1", "true", "yes", "on", "y", "t")
    detached = detached or (address or "").startswith("ray://")
    if path is not None and detached:
        words = ["{script}", *words]
    elif path is not None:
        words = [str(path), *words]
    with _connected(address, workers * (nodes - 1), insecure) as (is_started, is_local):
        if detached and is_started:
            raise _error("MS1001", "there is no Ray cluster that a detached job could stay on", "start one with `ray start --head`, or give its address")
        name = job or (path.stem if path is not None and str(path) != "-" else "sql")
        order = _Order(
            job=name if detached or job else f"{name}-{secrets.token_hex(3)}",
            words=list(words),
            text=text if detached else None,
            nodes=nodes,
            workers=workers,
            nodes_per_host=nodes_per_host or (nodes - 1 if is_started else 1),
            token=os.environ.get(TOKEN) or secrets.token_hex(32),
            insecure=insecure,
            security=list(security),
            environment={key: os.environ[key] for key in SECURITY if key in os.environ},
            folder=os.getcwd(),
            is_local=is_local,
        )
        if detached:
            _hand_over(order)
            return 0, ""
        with _Nodes(order) as placed:
            if is_command:
                first = _FirstNode(order, placed)
                signal.signal(signal.SIGTERM, lambda *_: first.process.send_signal(signal.SIGTERM))
                # The terminal sends it to both.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                return first.watch(), ""
            first = _FirstNode(order, placed, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, process_group=0)
            lines = _Lines(first.process, sys.stderr.write)
            return first.watch(), lines.text()


def _hand_over(order: _Order) -> None:
    name = f"millstream:{order.job}"
    try:
        actor = JobActor.options(name=name, namespace=NAMESPACE, lifetime="detached").remote(order)
        ray.get(actor.status.remote(), timeout=START)
    except (ValueError, ray.exceptions.ActorAlreadyExistsError):
        advice = f"end it with `millstream cluster stop --job {order.job}`, or give this one another name"
        raise _error("MS1001", f"there is a job '{order.job}' on this Ray cluster", advice) from None


@contextlib.contextmanager
def _found(job: str, address: str | None) -> Iterator[Any]:
    is_joined = not ray.is_initialized()
    if is_joined:
        ray.init(address or "auto", namespace=NAMESPACE, **({} if (address or "").startswith("ray://") else {"log_to_driver": False, "logging_level": logging.ERROR}))
    try:
        try:
            yield ray.get_actor(f"millstream:{job}", namespace=NAMESPACE)
        except (ValueError, ray.exceptions.RayActorError):
            message = f"no job '{job}' runs on this Ray cluster"
            raise _error("MS3018", message, "a job that has ended well is gone; look at its output, and at the name") from None
    finally:
        if is_joined:
            ray.shutdown()


def status(job: str, *, address: str | None = None) -> Mapping[str, Any]:
    """The state of a detached job (``starting``, ``running``, ``failed``), what it has said last, and its nodes."""
    with _found(job, address) as actor:
        found: dict[str, Any] = ray.get(actor.status.remote(), timeout=START)
        return found


def stop(job: str, *, address: str | None = None) -> None:
    """Stop a detached job with a checkpoint, if it has a state directory, and wait for its end."""
    with _found(job, address) as actor:
        with contextlib.suppress(ray.exceptions.RayActorError):
            while True:
                ray.get(actor.stop.remote(), timeout=START)
                time.sleep(LOOK)
