"""``millstream run --cluster ray``: takes what Ray needs out of the command line. The rest is what the first node is started with."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence

#: Options of the command that take no value.
FLAGS = {"--pin", "--quiet", "-q", "--help", "-h", "--version", "-V", "--insecure-cluster", "--detached"}
#: Those that Ray is asked by, and those that every node has.
RAY = {"--cluster", "--nodes", "--nodes-per-host", "--job", "--detached"}
SECURITY = {"--cluster-ca", "--cluster-cert", "--cluster-key", "--insecure-cluster"}
HELP = """Look at the jobs that go on by themselves on a Ray cluster, and stop them

Usage: millstream cluster status|stop --job <NAME> [--address <ADDRESS>]

  --job <NAME>         What the job is called: --job of millstream run, or the name of its script
  --address <ADDRESS>  ray://HOST:10001 or HOST:6379 [default: the cluster of this machine]
"""


def _options(words: Sequence[str]) -> list[tuple[str | None, str | None, list[str]]]:
    """Each option with its value, and each word that is none (without a name); and the words that it is written in."""
    found: list[tuple[str | None, str | None, list[str]]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            found += [(None, each, [each]) for each in rest]
            break
        if not word.startswith("-") or word == "-":
            found.append((None, word, [word]))
        elif word.startswith("--") and "=" in word:
            name, value = word.split("=", 1)
            found.append((name, value, [word]))
        elif word in FLAGS or (len(word) > 2 and not word.startswith("--")):
            found.append((word, None, [word]))
        else:
            value = rest.pop(0) if rest else None
            found.append((word, value, [word] if value is None else [word, value]))
    return found


def is_for_ray(words: Sequence[str]) -> bool:
    """Whether these words, without the name of the program, are for this module."""
    if words[:1] == ["cluster"]:
        return True
    options = _options(words)
    cluster = next((value for name, value, _ in options if name == "--cluster"), os.environ.get("MILLSTREAM_CLUSTER")) or ""
    is_run = next((value for name, value, _ in options if name is None), None) == "run"
    is_asked = any(name in ("--help", "-h") for name, _, _ in options)
    return is_run and not is_asked and (cluster == "ray" or cluster.startswith("ray://"))


def main(words: Sequence[str]) -> int:
    """Run the command; its exit code."""
    from millstream import errors

    try:
        return _cluster(words) if words[:1] == ["cluster"] else _run(words)
    except errors.Error as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, errors.ConfigurationError) else 1


def _usage(message: str, advice: str = "see millstream run --help") -> Exception:
    from millstream import errors

    return errors.of(f"error[MS1006]: {message}\n  = help: {advice}", code="MS1006", message=message, place=None, advice=advice)


def _number(given: dict[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not given[name].isdecimal():
        raise _usage(f"{name} is a number, not '{given[name]}'")
    return int(given[name])


def _ray() -> None:
    try:
        import millstream.ray  # noqa: F401
    except ImportError as error:
        raise _usage(str(error).split(":")[0], "pip install 'millstream[ray]'") from None


def _run(words: Sequence[str]) -> int:
    given: dict[str, str] = {}
    security: list[str] = []
    rest: list[str] = []
    script: str | None = None
    is_behind_run = False
    for name, value, written in _options(words):
        if name in RAY:
            if value is None and name not in FLAGS:
                raise _usage(f"{name} has no value")
            given[name] = value or ""
        elif name in SECURITY:
            security += written
        elif name is None and not is_behind_run:
            is_behind_run = True
        elif name is None and script is None:
            script = value
        else:
            rest += written
            if name == "--workers":
                given[name] = value or ""
    if "--nodes" not in given:
        raise _usage("a run on Ray needs to know how many nodes take part", "add --nodes N; this process is one of them")
    _ray()
    from millstream import ray

    workers = _number(given, "--workers")
    if workers is None and not os.environ.get("MILLSTREAM_WORKERS", "").isdecimal():
        workers = 1
        rest += ["--workers", "1"]
    cluster = given.get("--cluster") or os.environ["MILLSTREAM_CLUSTER"]
    path = pathlib.Path(script) if script is not None else None
    is_detached = "--detached" in given or cluster != "ray"
    text = None
    if path is not None and is_detached:
        try:
            text = sys.stdin.read() if str(path) == "-" else path.read_text()
        except OSError as error:
            raise _usage(f"the script cannot be read from {path}: {error.strerror}") from None
    code, _ = ray._run(
        rest,
        path,
        text=text,
        nodes=_number(given, "--nodes") or 0,
        address=None if cluster == "ray" else cluster,
        workers=workers or int(os.environ["MILLSTREAM_WORKERS"]),
        nodes_per_host=_number(given, "--nodes-per-host"),
        job=given.get("--job"),
        detached=is_detached,
        insecure="--insecure-cluster" in security,
        security=security,
        is_command=True,
    )
    if is_detached:
        job = given.get("--job") or (path.stem if path is not None and str(path) != "-" else "sql")
        print(f"job '{job}' has been handed over: millstream cluster status --job {job}", file=sys.stderr)
    return code if code >= 0 else 128 - code


def _cluster(words: Sequence[str]) -> int:
    options = _options(words[1:])
    given = {name: value for name, value, _ in options if name is not None}
    actions = [value for name, value, _ in options if name is None]
    if "--help" in given or "-h" in given:
        print(HELP, end="")
        return 0
    if actions not in (["status"], ["stop"]) or not given.get("--job") or given.keys() - {"--job", "--address"}:
        print(HELP, end="", file=sys.stderr)
        return 2
    _ray()
    from millstream import ray

    job, address = str(given["--job"]), given.get("--address")
    if actions == ["stop"]:
        ray.stop(job, address=address)
        return 0
    found = ray.status(job, address=address)
    print(f"{found['job']}: {found['state']}, {len(found['nodes']) + 1} nodes" if found["state"] == "running" else f"{found['job']}: {found['state']}")
    for node in found["nodes"]:
        print(f"  node {node['node']} at {node['address']}, process {node['pid']} of {node['host']}, for {node['seconds']} s")
    if found["said"]:
        print(found["said"])
    return 0
