"""How a program joins Ray, which Ray it refuses, and what it orders there."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import ray

from millstream._ray_nodes import NAMESPACE, TOKEN, Order, error_as, untyped

#: What the environment says of how nodes trust each other, besides the token.
SERVER_NAME = "MILLSTREAM_CLUSTER_SERVER_NAME"
SECURITY = (
    "MILLSTREAM_CLUSTER_CA",
    "MILLSTREAM_CLUSTER_CERT",
    "MILLSTREAM_CLUSTER_KEY",
    SERVER_NAME,
    "MILLSTREAM_INSECURE_CLUSTER",
)


Tls = tuple[str, str, str]


def is_insecure(said: bool) -> bool:
    """Whether other machines are spoken to without TLS, by an argument or the environment."""
    return said or os.environ.get("MILLSTREAM_INSECURE_CLUSTER", "").lower() in ("1", "true", "yes", "on", "y", "t")


def tls_of(said: Tls | None) -> Tls | None:
    """Paths of the CA, the certificate and the key, by an argument or the environment."""
    ca, certificate, key = (os.environ.get(name) for name in SECURITY[:3])
    return said if said is not None or not (ca and certificate and key) else (ca, certificate, key)


def security_options(insecure: bool, tls: Tls | None) -> list[str]:
    """Options of a node that say how it trusts the others."""
    options = ["--insecure-cluster"] if insecure else []
    for option, file in zip(("--cluster-ca", "--cluster-cert", "--cluster-key"), tls or (), strict=tls is not None):
        options += [option, os.path.abspath(file)]
    return options


def order_of(
    job: str,
    nodes: int,
    workers: int,
    nodes_per_host: int | None,
    where: tuple[bool, bool],
    *,
    insecure: bool,
    security: Sequence[str],
    words: Sequence[str] = (),
    text: str | None = None,
    state: str | None = None,
) -> Order:
    """The order of this program, with its token, environment and folder; ``where`` is what :func:`connected` gives."""
    is_started, is_local = where
    return Order(
        job=job,
        words=list(words),
        text=text,
        nodes=nodes,
        workers=workers,
        nodes_per_host=nodes_per_host or (nodes - 1 if is_started else 1),
        token=os.environ.get(TOKEN) or secrets.token_hex(32),
        insecure=insecure,
        security=list(security),
        environment={key: os.environ[key] for key in SECURITY if key in os.environ},
        folder=os.getcwd(),
        is_local=is_local,
        state=state,
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
