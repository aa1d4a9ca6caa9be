"""Tables that code of Python writes."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable
from typing import Any, Literal, Protocol, cast

from millstream._core import Batch

As = Literal["polars", "pyarrow", "rows"]


class Sink(Protocol):
    """What takes rows. Only ``write`` must be there.

    With ``prepare`` and ``commit`` it is exactly once under checkpoints, by two-phase commit:

    - ``prepare(checkpoint)`` makes what was written since the last one durable, but not visible, and returns a token: anything that JSON
      has. Without a state directory it is called once, at the end, with 0.
    - ``commit(token)`` makes it visible. After a crash it may be called again for the last checkpoint, so that it must do no harm twice.
    - ``recover(token)`` is called first when there is a state directory: with the token of the checkpoint that the job resumes from, or
      ``None`` if it begins. It commits that, and removes what later writes have left. Without it ``commit`` is called with the token.

    ``flush()`` hands on what ``write`` has kept, ``abort()`` is called when the query fails or is cancelled, and ``close()`` at last in
    any case. Calls come from several threads, but one at a time.
    """

    def write(self, batch: Any, /) -> None: ...


#: An object, a class of which each run gets an object, or a function that is called with each batch.
SinkLike = Sink | type[Sink] | Callable[[Any], object]


def opening(sink: SinkLike, give: As | None) -> tuple[Callable[[], _Open], bool]:
    """What the engine calls to open a sink for a run, and whether it prepares and commits."""
    if give not in (None, "polars", "pyarrow", "rows"):
        raise ValueError(f"give is 'polars', 'pyarrow' or 'rows', not {give!r}")
    has = [hasattr(sink, method) for method in ("prepare", "commit")]
    if any(has) and not all(has):
        raise TypeError("a sink that has one of prepare() and commit() needs the other, too")
    writes = hasattr(sink, "write")
    if not writes and (isinstance(sink, type) or any(has)):
        raise TypeError("a sink has a method write()")
    if not writes and not callable(sink):
        raise TypeError(f"a {type(sink).__name__} is no sink: give a function, or an object with a method write()")
    write = getattr(sink, "write", sink)
    if inspect.iscoroutinefunction(write) or inspect.iscoroutinefunction(getattr(write, "__call__", None)):
        raise TypeError("a sink cannot be async: calls come one at a time")
    return lambda: _Open(sink, give), all(has)


class _Open:
    """A sink in a run, as the engine calls it: positions and tokens are JSON."""

    def __init__(self, sink: SinkLike, give: As | None) -> None:
        self._sink: Any = sink() if isinstance(sink, type) else sink
        self._write = cast(Callable[[Any], object], getattr(self._sink, "write", self._sink))
        self._give = give
        self._is_pending = False
        # A span is committed by another thread than the one that writes the next.
        self._lock = threading.RLock()

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
            known = None if token is None else json.loads(token)
            if hasattr(self._sink, "recover"):
                self._sink.recover(known)
            elif token is not None:
                self._sink.commit(known)

    def prepare(self, checkpoint: int) -> str:
        with self._lock:
            self._is_pending = False
            return json.dumps(self._sink.prepare(checkpoint))

    def commit(self, token: str) -> None:
        with self._lock:
            self._sink.commit(json.loads(token))

    def finish(self) -> None:
        with self._lock:
            if not hasattr(self._sink, "prepare"):
                self._call("flush")
            elif self._is_pending:
                # Without checkpoints everything is one span.
                self.commit(self.prepare(0))
            self._call("close")

    def abort(self) -> None:
        with self._lock:
            try:
                self._call("abort")
            finally:
                self._call("close")
