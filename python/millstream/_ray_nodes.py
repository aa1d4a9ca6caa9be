"""The nodes of a run on a Ray cluster: an actor for each, and the file that lists them for the first node (``millstream.ray``)."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from millstream import errors
from millstream._leash import Leashed
from millstream._logging import logger

#: Ray's own types know neither actors with groups nor all of its functions.
untyped: Any = ray
#: Between two looks at the nodes, in seconds.
LOOK = 0.5
#: How long a node may take to be placed and started, in seconds.
START = 120.0
#: Before a node that could not be started is started again, in seconds.
PAUSE = 5.0
#: Where the actors of all jobs are found.
NAMESPACE = "millstream"
TOKEN = "MILLSTREAM_CLUSTER_TOKEN"
#: How a node says where it is reached.
WAITING = "waiting for runs at "
#: Lines that are kept of what a process says.
KEPT = 20


def error_as(code: str, message: str, advice: str) -> errors.Error:
    """The error with this code, which says so, and what to do."""
    return errors.of(f"error[{code}]: {message}\n  = help: {advice}", code=code, message=message, place=None, advice=advice)


@dataclasses.dataclass(frozen=True)
class Order:
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
    #: The state directory of the job, if it has one.
    state: str | None = None

    def listen(self) -> str:
        """Where a process of this machine is reached by the others: host, and any port."""
        host = "127.0.0.1" if self.is_local else untyped.util.get_node_ip_address()
        return f"[{host}]:0" if ":" in host else f"{host}:0"

    def process(self, words: Sequence[str], unset: Sequence[str] = (), security: bool = True, **options: Any) -> Leashed:
        """A process of this job: without these variables in its environment, and with the options of security if it takes part."""
        environment = {**os.environ, **self.environment, TOKEN: self.token}
        for name in ("MILLSTREAM_CLUSTER", "MILLSTREAM_CLUSTER_TOKEN_FILE", *unset):
            environment.pop(name, None)
        folder = self.folder if os.path.isdir(self.folder) else None
        return Leashed([*words, *(self.security if security else ())], env=environment, cwd=folder, **options)


class Lines:
    """Reads what a process says, so that it never waits for a reader, and hands it on."""

    def __init__(self, process: subprocess.Popen[str], say: Callable[[str], object]) -> None:
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


class NodeActor:
    """A node of a job: a process of its own, which ends with this actor.

    It is never restarted by Ray: the program that watches it makes another one, and says where that one is.
    """

    def __init__(self, number: int, order: Order) -> None:
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
        self._lines = Lines(process, lambda line: print(f"node {self._number}: {line}", end="", file=sys.stderr, flush=True))
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
            "host": untyped.util.get_node_ip_address(),
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


class Slot:
    """The place of one node: its actor of now, and what that one is waited for."""

    def __init__(self, number: int, group: Any, bundle: int) -> None:
        self.number = number
        #: Where Ray keeps CPUs for it.
        self.group, self.bundle = group, bundle
        self.actors = 0
        self.actor: Any = None
        #: Its address, then its end.
        self.asked: Any = None
        self.address: str | None = None
        self.is_started = False
        self.not_before = 0.0


class Nodes:
    """All nodes but the first, and the file that lists them."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._slots: list[Slot] = []
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="millstream-ray-"))
        self.file = self._folder / "nodes"
        self._groups: list[Any] = []
        #: Bundles of these that nodes have left: one more has a place in each.
        self._free: list[tuple[Any, int]] = []
        #: Of the slots: they are looked at, and their number changes.
        self._lock = threading.Lock()

    def __enter__(self) -> Nodes:
        try:
            self.grow(self._order.nodes)
        except BaseException:
            self.close()
            raise
        return self

    def __len__(self) -> int:
        """How many there are, the first one included."""
        return len(self._slots) + 1

    def grow(self, nodes: int) -> None:
        """Place and start more, until there are this many, the first one included."""
        placed = self._place(nodes - len(self))
        try:
            for slot in placed:
                self._start(slot)
            until = time.monotonic() + START
            for slot in placed:
                self._await_address(slot, until)
        except BaseException:
            self._leave(placed)
            raise
        with self._lock:
            self._slots += placed
            self._write()

    def shrink(self, nodes: int) -> None:
        """Take the last ones away, until there are this many, the first one included."""
        with self._lock:
            kept, gone = self._slots[: nodes - 1], self._slots[nodes - 1 :]
            self._slots = kept
            self._write()
        self._leave(gone)

    def _leave(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if slot.actor is not None:
                with contextlib.suppress(ray.exceptions.RayError):
                    ray.kill(slot.actor, no_restart=True)
                slot.actor = slot.asked = None
        used = [slot.group for slot in self._slots]
        for group in [group for group in self._groups if group not in used]:
            remove_placement_group(group)
            self._groups.remove(group)
        left = [*self._free, *((slot.group, slot.bundle) for slot in slots)]
        self._free = [(group, bundle) for group, bundle in left if group in used]

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, others: int) -> list[Slot]:
        """Keeps CPUs for more nodes: a bundle for each machine, on machines of their own."""
        order = self._order
        places = self._free[: max(others, 0)]
        del self._free[: len(places)]
        others -= len(places)
        if others <= 0:
            return [Slot(len(self) + at, *place) for at, place in enumerate(places)]
        per_host = min(order.nodes_per_host, others)
        bundles = [min(per_host, others - at) for at in range(0, others, per_host)]
        wanted = [{"CPU": float(order.workers * nodes)} for nodes in bundles]
        name = f"millstream:{order.job}" + (f".{len(self._slots)}" if self._slots else "")
        group = placement_group(wanted, strategy="STRICT_SPREAD", name=name)
        self._groups.append(group)
        if not group.wait(START / 4):
            self._free += places
            self._leave([])
            machines = [node for node in untyped.nodes() if node["Alive"]]
            cpus = ", ".join(f"{node['Resources'].get('CPU', 0):g}" for node in machines)
            raise error_as(
                "MS5013",
                f"Ray has no place for {others} nodes of {order.workers} CPUs, {per_host} to a machine: its machines have {cpus} CPUs",
                "ask for fewer nodes or workers, or for several nodes on a machine (nodes_per_host=, --nodes-per-host)",
            )
        places += [(group, at // per_host) for at in range(others)]
        return [Slot(len(self) + at, *place) for at, place in enumerate(places)]

    def _start(self, slot: Slot) -> None:
        order = self._order
        strategy = PlacementGroupSchedulingStrategy(slot.group, placement_group_bundle_index=slot.bundle)
        slot.actor = None
        while slot.actor is None:
            name = f"millstream:{order.job}:node-{slot.number}" + (f".{slot.actors}" if slot.actors else "")
            slot.actors += 1
            node_actor = untyped.remote(max_restarts=0, concurrency_groups={"watch": 1})(NodeActor)
            options = node_actor.options(num_cpus=order.workers, name=name, namespace=NAMESPACE, scheduling_strategy=strategy)
            # The one before has the name until Ray has seen its end.
            with contextlib.suppress(ray.exceptions.ActorAlreadyExistsError):
                slot.actor = options.remote(slot.number, order)
        slot.asked, slot.is_started = slot.actor.start.remote(), False

    def _await_address(self, slot: Slot, until: float) -> None:
        try:
            slot.address = ray.get(slot.asked, timeout=max(until - time.monotonic(), 0))
        except ray.exceptions.RayTaskError as error:
            raise error_of(str(error.cause), f"node {slot.number} could not be started: ") from None
        except ray.exceptions.RayError as error:
            advice = "see Ray's logs; Millstream has to be installed on all machines of the cluster"
            raise error_as("MS5013", f"node {slot.number} could not be started: {str(error).splitlines()[0]}", advice) from error
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
        with self._lock:
            self._look(time.monotonic())
        # Who changes their number gets a turn.
        time.sleep(0.01)

    def _look(self, now: float) -> None:
        for slot in self._slots:
            if slot.asked is None and now >= slot.not_before:
                self._start(slot)
        asked = [slot.asked for slot in self._slots if slot.asked is not None]
        if not asked:
            time.sleep(LOOK)
            return
        ready, _ = ray.wait(asked, num_returns=1, timeout=LOOK)
        for slot in [slot for slot in self._slots if slot.asked in ready]:
            try:
                said = ray.get(slot.asked)
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                said, is_started = str(cause or error).strip().partition("\n")[0], False
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
        """What the nodes that answer within two seconds say of themselves."""
        asked = [slot.actor.stats.remote() for slot in self._slots if slot.actor is not None and slot.is_started]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=2) if asked else ([], [])
        found = []
        for each in ready:
            with contextlib.suppress(ray.exceptions.RayError):
                found.append(ray.get(each))
        return found

    def close(self) -> None:
        """Leaves no actor, no placement group and no file behind."""
        slots, self._slots = self._slots, []
        self._leave(slots)
        shutil.rmtree(self._folder, ignore_errors=True)


class FirstNode:
    """The process that runs the script, and the nodes that take part."""

    def __init__(self, order: Order, nodes: Nodes, more: Sequence[str] = (), **options: Any) -> None:
        """``more``: options for the first node."""
        words = [word.replace("{script}", self._script(order, nodes)) if order.text is not None else word for word in order.words]
        words = ["run", *words, *more, "--cluster", f"static+file://{nodes.file}"]
        if not any(word.split("=")[0] == "--cluster-listen" for word in words):
            words += ["--cluster-listen", order.listen()]
        self._nodes = nodes
        self._leashed = order.process(words, **options)
        self.process = self._leashed.process

    @staticmethod
    def _script(order: Order, nodes: Nodes) -> str:
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


def error_of(text: str, what: str = "") -> errors.Error:
    """The error that a process has ended with, from what it has said."""
    told = list(re.finditer(r"error\[(MS\d{4})\]: (.*)", text))
    if not told:
        return errors.of(f"error[MS5013]: {what}{text}", code="MS5013", message=what + text, place=None, advice=None)
    code, message = told[-1].groups()
    rest = text[told[-1].end() :]
    advice = re.search(r"= help: (.*)", rest)
    return errors.of(f"error[{code}]: {what}{message}{rest}", code=code, message=what + message, place=None, advice=advice and advice[1])
