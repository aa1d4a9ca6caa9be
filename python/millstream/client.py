"""Jobs of another process, by the REST interface that ``--http`` serves: ``millstream run --http 9464``, ``millstream serve --http 9464``.

>>> from millstream.client import Client
>>> client = Client("http://127.0.0.1:9464")  # doctest: +SKIP
>>> for job in client.jobs():  # doctest: +SKIP
...     print(job["name"], job["state"], job["rows_in_per_s"])
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

__all__ = ["Client", "ClientError"]


class ClientError(Exception):
    """The process has refused what was asked for, or does not answer."""

    #: The status of the answer; ``None`` if there was none.
    status: int | None
    #: What is wrong, in a sentence.
    message: str
    #: What to do, if it is known.
    advice: str | None

    def __init__(self, status: int | None, message: str, advice: str | None = None) -> None:
        super().__init__(message if advice is None else f"{message}\n{advice}")
        self.status, self.message, self.advice = status, message, advice


class Client:
    """Asks a process for its jobs, asks them for checkpoints or to stop, and gives a service scripts.

    :param url: Where it serves, such as ``http://127.0.0.1:9464``
    :param token: What ``--http-token-file`` has, where the process is on another machine or takes scripts
    :param ca: A file in PEM with the certificate that the server's is signed with, if that is none of the system's
    :param timeout: How many seconds an answer is waited for
    """

    def __init__(self, url: str = "http://127.0.0.1:9464", *, token: str | None = None, ca: str | None = None, timeout: float = 10.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the address of a process begins with http:// or https://, unlike {url!r}")
        self._url, self._timeout = url.rstrip("/"), timeout
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        handlers: list[urllib.request.BaseHandler] = []
        if urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
            # The proxy that the environment may name does not reach this machine.
            handlers.append(urllib.request.ProxyHandler({}))
        if ca is not None:
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def about(self) -> dict[str, Any]:
        """Version and mode of the process."""
        return self._object("")

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs at a glance: state, rates, watermark, and problems, the most severe first."""
        found: list[dict[str, Any]] = self._object("/jobs")["jobs"]
        return found

    def job(self, name: str) -> dict[str, Any]:
        """A job: what :meth:`jobs` says of it, with its statement and state directory."""
        return self._object(_path(name))

    def plan(self, name: str) -> dict[str, Any]:
        """The graph of a job's pipelines, and what EXPLAIN prints."""
        return self._object(_path(name, "plan"))

    def stats(self, name: str) -> dict[str, Any]:
        """All counters of a job (docs/statistics.md)."""
        return self._object(_path(name, "stats"))

    def checkpoints(self, name: str) -> dict[str, Any]:
        """How many checkpoints a job has taken, how long they took, and the last fifty with their phases."""
        return self._object(_path(name, "checkpoints"))

    def history(self, name: str) -> dict[str, list[Any]]:
        """Columns with a value for each second of the last quarter of an hour, which a frame can be made of."""
        return {column: values for column, values in self._object(_path(name, "history")).items() if isinstance(values, list)}

    def code(self, name: str) -> list[dict[str, Any]]:
        """Row program, LLVM IR and assembly of each program of a job: of generic code, and of the variant in use."""
        found: list[dict[str, Any]] = self._object(_path(name, "code"))["programs"]
        return found

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows that each sink has got since somebody looks; asking begins to look, for ten seconds."""
        found: list[dict[str, Any]] = self._object(_path(name, "rows"))["sinks"]
        return found

    def events(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """``("stats", …)`` and ``("summary", …)`` each second, until the job is gone."""
        with self._open(_path(name, "events")) as answer:
            kind = ""
            for line in answer:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    kind = value
                elif field == "data":
                    yield kind, json.loads(value)

    def checkpoint(self, name: str) -> str:
        """Have a job take a checkpoint. What is said of it."""
        return self._act(name, "checkpoint", None)

    def stop(self, name: str) -> str:
        """Have a job take a checkpoint, if it has a state directory, and end. What is said of it."""
        return self._act(name, "stop", None)

    def rescale(self, name: str, nodes: int | None = None) -> str:
        """Have a job resume on another number of nodes, or on all that are there. What is said of it."""
        return self._act(name, "rescale", {"nodes": nodes})

    def submit(self, name: str, sql: str, timeout: float = 120.0) -> str:
        """Write a script into the directory of a service (``millstream serve --allow-submit``), whose job has this name. What is said of it.

        It is checked before, which takes as long as servers take to tell the columns of tables. One that cannot be run is refused, with the
        error, and the script that is there stays as it is. After ``timeout`` seconds the answer is not waited for any more; the script may be
        written later all the same: ``jobs()`` tells.
        """
        return self._said("PUT", _script(name), sql.encode(), "application/sql", timeout)

    def remove(self, name: str) -> str:
        """Remove a script from the directory of a service: its job stops with a checkpoint, and its state stays. What is said of it."""
        return self._said("DELETE", _script(name), None)

    def _act(self, name: str, action: str, body: dict[str, Any] | None) -> str:
        return self._said("POST", _path(name, action), json.dumps(body or {}).encode())

    def _said(
        self, method: str, path: str, body: bytes | None, kind: str = "application/json", timeout: float | None = None
    ) -> str:
        headers = {"X-Millstream-Action": "1"} if body is None else {"X-Millstream-Action": "1", "Content-Type": kind}
        with self._open(path, method, body, headers, timeout) as answer:
            said: str = json.load(answer)["message"]
        return said

    def _object(self, path: str) -> dict[str, Any]:
        with self._open(path) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def _open(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        headers = self._headers | (headers or {})
        request = urllib.request.Request(f"{self._url}/api/v1{path}", data=body, headers=headers, method=method)
        try:
            return self._opener.open(request, timeout=timeout or self._timeout)
        except urllib.error.HTTPError as answer:
            raise _refused(answer) from None
        except (OSError, HTTPException) as error:
            advice = "see whether the process runs with --http, and at which address"
            raise ClientError(None, f"{self._url} does not answer: {error}", advice) from error


def _path(name: str, what: str | None = None) -> str:
    path = f"/jobs/{urllib.parse.quote(name, safe='')}"
    return path if what is None else f"{path}/{what}"


def _script(name: str) -> str:
    return f"/scripts/{urllib.parse.quote(name, safe='')}"


def _refused(answer: urllib.error.HTTPError) -> ClientError:
    try:
        error = json.load(answer)["error"]
        return ClientError(answer.code, error["message"], error["advice"])
    except (ValueError, KeyError, TypeError):
        return ClientError(answer.code, f"the answer has status {answer.code}, and is not of Millstream")
