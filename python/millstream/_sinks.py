"""Tables that code of Python writes."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Protocol, cast

from millstream._core import Batch
from millstream._functions import is_coroutine_function
from millstream._sources import from_json, to_json

As = Literal["polars", "pyarrow", "rows"]


class Sink(Protocol):
    """What takes rows. Only ``write`` must be there.

    With ``prepare``, ``commit`` and ``recover`` it is exactly once under checkpoints, by two-phase commit:

    - ``prepare(span)`` makes what was written since the last one durable, but not visible, and returns a token: anything that JSON has but
      ``None``. ``span`` is a name that no other span of any job in the state directory has; letters, digits and ``-``. Without a state
      directory it is called once, at the end.
    - ``commit(token)`` makes it visible. After a crash it may be called again for the last checkpoint, so that it must do no harm twice.
    - ``recover(token)`` is called first when there is a state directory: with the token of the checkpoint that the job resumes from, or
      ``None`` if it begins. It commits that, and drops what later writes have left, also in the object itself.

    ``flush()`` hands on what ``write`` has kept. ``abort()`` is called when the query ends early: it failed, or was stopped or cancelled. It
    may drop what was written and not prepared, but nothing that was prepared: that may be in a checkpoint. ``close()`` comes at last in any
    case. Calls come from several threads, but one at a time for each run.
    """

    @abstractmethod
    def write(self, batch: Any, /) -> None: ...


#: An object, a class of which each run gets an object, or a function that is called with each batch.
SinkLike = Sink | type[Sink] | Callable[[Any], object]


def opening(sink: SinkLike, give: As | None) -> tuple[Callable[[], _Open], bool]:
    """What the engine calls to open a sink for a run, and whether it prepares and commits."""
    if give not in (None, "polars", "pyarrow", "rows"):
        raise ValueError(f"give is 'polars', 'pyarrow' or 'rows', not {give!r}")
    has = [hasattr(sink, method) for method in ("prepare", "commit", "recover")]
    if any(has) and not all(has):
        raise TypeError("a sink that commits in two phases has prepare(), commit() and recover()")
    writes = hasattr(sink, "write")
    if not writes and (isinstance(sink, type) or any(has)):
        raise TypeError("a sink has a method write()")
    if not writes and not callable(sink):
        raise TypeError(f"a {type(sink).__name__} is no sink: give a function, or an object with a method write()")
    write = getattr(sink, "write", sink)
    if is_coroutine_function(write) or is_coroutine_function(getattr(write, "__call__", None)):
        raise TypeError("a sink cannot be async: calls come one at a time")
    registered = _Registered(sink, give, all(has))
    return registered.open, registered.is_transactional


class _Registered:
    """A sink that runs can open."""

    def __init__(self, sink: SinkLike, give: As | None, is_transactional: bool) -> None:
        self.sink, self.is_transactional = sink, is_transactional
        self.give: As | None = give
        self._users = 0
        # A span is committed by another thread than the one that writes the next. Runs of one object wait for each other.
        self._lock = threading.RLock()

    def open(self) -> _Open:
        if isinstance(self.sink, type):
            return _Open(self.sink(), self.give, threading.RLock(), lambda: None)
        with self._lock:
            if self.is_transactional and self._users:
                raise ValueError("the sink is an object that another INSERT uses: register its class, so that each has its own")
            self._users += 1
        return _Open(self.sink, self.give, self._lock, self._closed)

    def _closed(self) -> None:
        self._users -= 1


class _Open:
    """A sink in a run, as the engine calls it: positions and tokens are JSON."""

    def __init__(self, sink: Any, give: As | None, lock: threading.RLock, closed: Callable[[], None]) -> None:
        self._sink = sink
        self._write = cast(Callable[[Any], object], getattr(self._sink, "write", self._sink))
        self._give = give
        self._is_pending = False
        self._is_closed = False
        self._lock = lock
        self._closed = closed

    def _call(self, method: str, *arguments: Any) -> Any:
        found = getattr(self._sink, method, None)
        return None if found is None else found(*arguments)

    def write(self, batch: Batch) -> None:
        with self._lock:
            self._is_pending = True
            if self._give is None:
                self._write(batch)
            elif self._give == "polars":
                import polars

                self._write(polars.DataFrame(batch))
            elif self._give == "pyarrow":
                import pyarrow

                self._write(pyarrow.record_batch(batch))
            else:
                self._write([dict(zip(batch.columns, row, strict=True)) for row in batch.rows()])

    def flush(self) -> None:
        with self._lock:
            self._call("flush")

    def recover(self, token: str | None) -> None:
        with self._lock:
            self._sink.recover(from_json(token))

    def prepare(self, span: str) -> str:
        with self._lock:
            token = self._sink.prepare(span)
            if token is None:
                raise ValueError("prepare() returned None, which stands for the start of a job: return a token")
            self._is_pending = False
            return to_json(token, "a token")

    def commit(self, token: str) -> None:
        with self._lock:
            self._sink.commit(from_json(token))

    def finish(self) -> None:
        with self._lock:
            if not hasattr(self._sink, "prepare"):
                self._call("flush")
            elif self._is_pending:
                # Without checkpoints everything is one span.
                import uuid

                self.commit(self.prepare(f"run-{uuid.uuid4().hex}"))
            self._close()

    def abort(self) -> None:
        with self._lock:
            if not self._is_closed:
                try:
                    self._call("abort")
                finally:
                    self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._closed()
        self._call("close")
