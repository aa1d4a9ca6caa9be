"""Functions that run in other processes."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any

from millstream._core import Column, column_from_bytes, column_to_bytes
from millstream._functions import Arrow, By, Function, call_by_column
from millstream._jobs import end_all


class InProcesses:
    """Calls a function in other processes: columns go there and come back as Arrow, as bytes."""

    def __init__(self, function: Callable[..., Any], by: By, arrow: Arrow | None, returns: str, processes: int) -> None:
        if processes < 1:
            raise ValueError("processes is a number of processes, or 0")
        self._task = (function.__module__, function.__qualname__, by, arrow, returns)
        if function.__module__ == "__main__" or "<locals>" in function.__qualname__:
            raise ValueError(
                f"other processes cannot import {function.__qualname__} from {function.__module__}: put it at the top of a module"
            )
        self._processes = processes
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, *columns: Column) -> Column:
        if not columns:
            raise ValueError("a function without arguments cannot run in other processes")
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self._processes, mp_context=get_context("spawn"), initializer=_begin)
                _pools.add(self._pool)
            pool = self._pool
        try:
            future = pool.submit(_call, self._task, [column_to_bytes(column) for column in columns])
            # In slices: an exception that is raised in this thread does not end a wait.
            while not wait([future], timeout=0.05).done:
                pass
            result = future.result()
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, BrokenProcessPool):
                # What runs there does not end by itself; the next call has other processes.
                with self._lock:
                    if self._pool is pool:
                        self._pool = None
                _kill(pool)
            raise
        if isinstance(result, str):
            raise RuntimeError(result)
        return column_from_bytes(result)


def _begin() -> None:
    """In another process: Ctrl-C is for the one that has started it, and without that one there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


#: Those that may run something.
_pools: weakref.WeakSet[ProcessPoolExecutor] = weakref.WeakSet()


def _kill(pool: ProcessPoolExecutor, wait: bool = False) -> None:
    """Ends the processes of a pool, whatever they do."""
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.kill()
    pool.shutdown(wait=wait, cancel_futures=True)


def _kill_all() -> None:
    for pool in list(_pools):
        # `concurrent.futures` would wake the thread of the pool, and find that gone.
        _kill(pool, wait=True)


def _end() -> None:
    """Before `concurrent.futures` waits for what runs. Jobs come first: they may need these processes until they have ended."""
    end_all()
    _kill_all()


threading._register_atexit(_end)  # type: ignore[attr-defined]


def _call(task: tuple[str, str, By, Arrow | None, str], arguments: list[bytes]) -> bytes | str:
    """Calls a function, in the other process: its column, or what it has raised."""
    try:
        return _called(task, arguments)
    except Exception:
        # As a text: not every exception can travel.
        return traceback.format_exc(limit=-3).strip()


def _called(task: tuple[str, str, By, Arrow | None, str], arguments: list[bytes]) -> bytes:
    module, qualified, by, arrow, returns = task
    found: Any = importlib.import_module(module)
    for name in qualified.split("."):
        found = getattr(found, name)
    function = found._function if isinstance(found, Function) else found
    columns = [column_from_bytes(argument) for argument in arguments]
    if by == "row":
        result = [function(*row) for row in zip(*(column.to_list() for column in columns), strict=True)]
    else:
        result = call_by_column(function, arrow, *columns)
    return column_to_bytes(Column(result, returns))
