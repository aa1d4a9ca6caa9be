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
SECURITY = {"--cluster-ca", "--cluster-cert", "--cluster-key", "--cluster-server-name", "--insecure-cluster"}


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
            name, _, text = word.partition("=")
            found.append((name, text, [word]))
        elif word in FLAGS or (len(word) > 2 and not word.startswith("--")):
            found.append((word, None, [word]))
        else:
            value = rest.pop(0) if rest else None
            found.append((word, value, [word] if value is None else [word, value]))
    return found


def is_for_ray(words: Sequence[str]) -> bool:
    """Whether these words, without the name of the program, are for this module. What is wrong or asks for help is for the engine's command."""
    options = _options(words)
    if any(name in ("--help", "-h") for name, _, _ in options):
        return False
    others = [value for name, value, _ in options if name is None]
    given = {name: value for name, value, _ in options if name is not None}
    if others[:1] == ["cluster"]:
        is_asked = others[1:] in (["status"], ["stop"]) or (others[1:] == ["rescale"] and "--nodes" in given)
        return is_asked and bool(given.get("--job")) and given.keys() <= {"--job", "--address", "--nodes"}
    cluster = given.get("--cluster", os.environ.get("MILLSTREAM_CLUSTER")) or ""
    return others[:1] == ["run"] and (cluster == "ray" or cluster.startswith("ray://"))


def main(words: Sequence[str]) -> int:
    """Run the command; its exit code."""
    from millstream import errors

    try:
        is_run = next(value for name, value, _ in _options(words) if name is None) == "run"
        return _run(words) if is_run else _cluster(words)
    except errors.Error as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, errors.ConfigurationError) else 1


def _usage(message: str, advice: str = "see millstream run --help") -> Exception:
    from millstream import errors

    return errors.of(f"error[MS1006]: {message}\n  = help: {advice}", code="MS1006", message=message, place=None, advice=advice)


def _text(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise _usage(f"{path} cannot be read: {error.strerror}") from None


def _number(given: dict[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not given[name].isdecimal():
        raise _usage(f"{name} is a number, not '{given[name]}'")
    return int(given[name])


def _ray() -> None:
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        raise _usage("millstream.ray needs Ray", "pip install 'millstream[ray]'")


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
        elif name == "--cluster-token-file":
            # The nodes have no such file: all are told what is in it.
            os.environ["MILLSTREAM_CLUSTER_TOKEN"] = _text(value or "").strip()
        elif name is None and not is_behind_run:
            is_behind_run = True
        elif name is None and script is None:
            script = value
        else:
            rest += written
            if name in ("--workers", "--state-dir"):
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
        text = sys.stdin.read() if str(path) == "-" else _text(str(path))
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
        state=given.get("--state-dir") or os.environ.get("MILLSTREAM_STATE_DIR"),
        is_command=True,
    )
    if is_detached:
        job = given.get("--job") or (path.stem if path is not None and str(path) != "-" else "sql")
        print(f"job '{job}' has been handed over: millstream cluster status --job {job}", file=sys.stderr)
    return code if code >= 0 else 128 - code


def _cluster(words: Sequence[str]) -> int:
    options = _options(words)
    given = {name: value or "" for name, value, _ in options if name is not None}
    action = [value for name, value, _ in options if name is None][1]
    _ray()
    from millstream import ray
    from millstream._ray_metrics import line

    job, address = given["--job"], given.get("--address")
    if action == "stop":
        ray.stop(job, address=address)
        return 0
    if action == "rescale":
        print(ray.rescale(job, _number(given, "--nodes") or 0, address=address), file=sys.stderr)
        return 0
    found = ray.status(job, address=address)
    print(f"{found['job']}: {found['state']}, {len(found['nodes']) + 1} nodes" if found["state"] == "running" else f"{found['job']}: {found['state']}")
    done = {node["node"]: f": {line(node)}" for node in found["done"]}
    if 0 in done:
        print(f"  node 0, the first{done[0]}")
    for node in found["nodes"]:
        place = f"{node['address']}, process {node['pid']} of {node['host']}"
        print(f"  node {node['node']} at {place}, for {node['seconds']} s{done.get(node['node'], '')}")
    if found["said"]:
        print(found["said"])
    return 0
