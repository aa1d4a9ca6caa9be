"""Jobs of this program on nodes that Ray places."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import threading
from collections.abc import Callable

import ray

from millstream import _core
from millstream._logging import logger
from millstream._ray_connection import SERVER_NAME, connected, is_insecure, order_of, security_options, tls_of
from millstream._ray_nodes import Nodes, error_as


class RayCluster:
    """Nodes that Ray places for a job of this program: ``relation.insert_into("t", cluster=RayCluster(nodes=4))``.

    This process is the first node. The others are placed when a job begins, replaced when they die, and gone when it has ended; those of
    ``connect(cluster=…)`` stay until the session is closed. Functions, sources and data frames of the program are sent to them; modules that
    they import must be there.

    - ``nodes``: how many nodes take part, this process included
    - ``address``, ``nodes_per_host``, ``insecure``, ``tls``: as for :func:`run`
    - ``workers``: CPUs that Ray keeps for each node. How many threads a node has is a setting of the session (``parallelism.default``)
    - ``job``: what the actors are called
    """

    def __init__(
        self,
        nodes: int,
        *,
        address: str | None = None,
        workers: int = 1,
        nodes_per_host: int | None = None,
        job: str = "python",
        insecure: bool = False,
        tls: tuple[str, str, str] | None = None,
    ) -> None:
        if nodes < 2 or workers < 1 or (nodes_per_host is not None and nodes_per_host < 1):
            raise ValueError("a cluster has two nodes or more, and workers and nodes on a machine are counted from 1")
        if (address or "").startswith("ray://"):
            raise error_as(
                "MS1001",
                "the nodes of a job of this program have to reach it, which is outside of the Ray cluster",
                "run the program on a machine of the cluster (ray job submit), or hand a script over: millstream.ray.run(…, detached=True)",
            )
        self._nodes, self._address, self._workers, self._nodes_per_host, self._job = nodes, address, workers, nodes_per_host, job
        self._insecure, self._tls = insecure, tls

    def _join(self) -> _OnRay:
        insecure, tls = is_insecure(self._insecure), tls_of(self._tls)
        with contextlib.ExitStack() as stack:
            where = stack.enter_context(connected(self._address, self._workers * (self._nodes - 1), insecure))
            job, security = f"{self._job}-{secrets.token_hex(3)}", security_options(insecure, self._tls)
            order = order_of(job, self._nodes, self._workers, self._nodes_per_host, where, insecure=insecure, security=security)
            nodes = stack.enter_context(Nodes(order))
            core = _core.Cluster(f"static+file://{nodes.file}", order.listen(), order.token, tls, os.environ.get(SERVER_NAME), insecure, 60.0, None)
            return _OnRay(core, nodes, stack.pop_all())


class _OnRay:
    """The nodes of a job or session."""

    def __init__(self, core: _core.Cluster, nodes: Nodes, held: contextlib.ExitStack) -> None:
        self.core, self._nodes, self._held = core, nodes, held
        self._is_wanted, self._thread = True, threading.Thread(target=self._watch, name="millstream nodes", daemon=True)
        # After the jobs, which `threading` ends, and before Ray, which was imported earlier.
        atexit.register(self.close)

    def follow(self, has_ended: Callable[[], bool]) -> None:
        self._has_ended = has_ended
        self._thread.start()

    def _watch(self) -> None:
        try:
            while self._is_wanted and not self._has_ended():
                self._nodes.look()
        except ray.exceptions.RayError as error:
            logger().warning("nodes are not looked after any more: %s", error)
        finally:
            self._held.close()
            atexit.unregister(self.close)

    def close(self) -> None:
        self._is_wanted = False
        if self._thread.ident is None:
            self._held.close()
            atexit.unregister(self.close)
        else:
            self._thread.join()
