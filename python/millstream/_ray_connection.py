"""How a program joins Ray, and which Ray it refuses."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import ray

from millstream._ray_nodes import NAMESPACE, error_as, untyped

#: What the environment says of how nodes trust each other, besides the token.
SECURITY = (
    "MILLSTREAM_CLUSTER_CA",
    "MILLSTREAM_CLUSTER_CERT",
    "MILLSTREAM_CLUSTER_KEY",
    "MILLSTREAM_CLUSTER_SERVER_NAME",
    "MILLSTREAM_INSECURE_CLUSTER",
)


def refuse_open(hosts: Sequence[str], mode: str | None, insecure: bool) -> None:
    """Whoever reaches a Ray without authentication runs code on all of its machines."""
    is_loopback = all(host == "::1" or host.startswith("127.") for host in hosts)
    if not is_loopback and not insecure and (mode or "").lower() != "token":
        raise error_as(
            "MS5017",
            f"the Ray cluster at {hosts[0]} can be used without authentication: whoever reaches it can run code on all of its machines",
            "start Ray with RAY_AUTH_MODE=token, after `ray get-auth-token --generate`, and set it here, too; Ray's tokens are not encrypted "
            "unless Ray has TLS. Or say that the network is trusted: insecure=True, --insecure-cluster",
        )


def join(address: str | None, **options: Any) -> None:
    """Join this Ray cluster, or start one. One at ``ray://`` takes no options of logging."""
    if not (address or "").startswith("ray://"):
        options |= {"log_to_driver": False, "logging_level": logging.ERROR}
    ray.init(address, namespace=NAMESPACE, **options)


@contextlib.contextmanager
def connected(address: str | None, cpus: int, insecure: bool) -> Iterator[tuple[bool, bool]]:
    """Joins Ray, or starts it on this machine. Whether it was started, and whether there is one machine only."""
    is_started, is_joined = False, not ray.is_initialized()
    if is_joined:
        try:
            join(address or "auto")
        except ConnectionError as error:
            # What has a cause is a cluster that does not answer; else none was found.
            if address is not None or error.__cause__ is not None:
                raise error_as("MS5013", f"Ray cannot be reached: {error}", "check its address, that it runs, and that RAY_AUTH_MODE and the token are its own") from error
            join("local", num_cpus=max(cpus, os.cpu_count() or 1), include_dashboard=False)
            is_started = True
    try:
        hosts = sorted({node["NodeManagerAddress"] for node in untyped.nodes() if node["Alive"]})
        refuse_open(hosts, os.environ.get("RAY_AUTH_MODE"), insecure)
        yield is_started, len(hosts) == 1
    finally:
        if is_joined:
            ray.shutdown()
