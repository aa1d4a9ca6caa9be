"""Nodes that take part in jobs of a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from millstream import _core, errors
from millstream._jobs import Job

#: Where the token of a cluster is, if it is not given.
TOKEN = "MILLSTREAM_CLUSTER_TOKEN"


class Joined(Protocol):
    """A cluster that is there for a job or a session."""

    @property
    def core(self) -> _core.Cluster:
        """As the engine has it."""
        ...

    def follow(self, has_ended: Callable[[], bool]) -> None:
        """Look after the nodes until that says so, and let go of them then; without waiting for it."""
        ...

    def close(self) -> None:
        """Let go of the nodes."""
        ...


class ClusterLike(Protocol):
    """:class:`Cluster`, or ``millstream.ray.RayCluster``."""

    def _join(self) -> Joined: ...


class Cluster:
    """Nodes that run beside this process (``python -m millstream node --listen HOST:PORT``), for :meth:`Session.submit` and
    :meth:`Relation.insert_into`. This process is the first node of every job.

    - ``nodes``: their addresses (``["10.0.0.11:7420", "10.0.0.12:7420"]``), or a text as for ``--cluster``: ``static://…``,
      ``static+dns://…``, ``static+file://…``
    - ``listen``: where this process listens for them; they must be able to reach it
    - ``token``: what all processes of the cluster know; without, that of the environment (``MILLSTREAM_CLUSTER_TOKEN``)
    - ``tls``: paths of the CA, the certificate and the key; ``server_name``: the name in the certificates of the nodes, if it is not their address
    - ``insecure``: speak to other machines without TLS
    - ``replacement_timeout``: how many seconds a job waits for nodes that are gone
    - ``most``: how many nodes take part at most, this process included

    Whoever has the token can run code on the nodes.
    """

    def __init__(
        self,
        nodes: str | Sequence[str],
        *,
        listen: str = "127.0.0.1:0",
        token: str | None = None,
        tls: tuple[str, str, str] | None = None,
        server_name: str | None = None,
        insecure: bool = False,
        replacement_timeout: float = 60.0,
        most: int | None = None,
    ) -> None:
        token = token if token is not None else os.environ.get(TOKEN)
        if token is None:
            message = "the cluster has no token"
            advice = f"make one for all processes of the cluster, such as by `openssl rand -hex 32`, and put it into {TOKEN}"
            raise errors.of(f"error[MS1003]: {message}\n  = help: {advice}", code="MS1003", message=message, place=None, advice=advice)
        text = nodes if isinstance(nodes, str) else "static://" + ",".join(nodes)
        self._core = _core.Cluster(text, listen, token, tls, server_name, insecure, replacement_timeout, most)

    @property
    def members(self) -> list[str]:
        """Where the nodes of the job are that has begun last, this process first."""
        return self._core.members()

    def _join(self) -> Joined:
        return _Static(self._core)


class _Static:
    """Nodes that nobody has to look after."""

    def __init__(self, core: _core.Cluster) -> None:
        self.core = core

    def follow(self, has_ended: Callable[[], bool]) -> None:
        pass

    def close(self) -> None:
        pass


def joined(cluster: ClusterLike | str) -> Joined:
    """The cluster, for a job or a session."""
    if isinstance(cluster, str):
        if cluster == "ray" or cluster.startswith("ray://"):
            raise ValueError("Ray needs to know how many nodes take part: cluster=millstream.ray.RayCluster(nodes=4)")
        cluster = Cluster(cluster)
    return cluster._join()


def begun(cluster: ClusterLike | str | None, begin: Callable[[_core.Cluster | None], _core.Job]) -> Job:
    """The job that begins on a cluster, or where its session is."""
    if cluster is None:
        return Job(begin(None))
    there = joined(cluster)
    try:
        job = begin(there.core)
    except BaseException:
        there.close()
        raise
    there.follow(lambda: job.wait_within(0.0))
    return Job(job)
