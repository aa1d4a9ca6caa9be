"""INSERTs that run in the background."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from millstream import _core, _display, _functions, _progress, errors
from millstream._logging import logger

#: How long jobs have at exit to end in good order.
PATIENCE = 60.0
#: How long one that was cancelled has: then it does not hold the process up.
LAST_PATIENCE = 5.0


class Job:
    """An INSERT, or a statement set, that runs in the background. Made by :meth:`Session.submit` and :meth:`Relation.insert_into`.

    It runs on when nobody keeps the object. At the exit of the process it is stopped, in good order. A failure that nobody waits for is
    told to the logger ``millstream``.
    """

    def __init__(self, job: _core.Job) -> None:
        self._job = job
        # Whether somebody has been told how it ended.
        self._is_told = False
        self._is_stuck = False
        _keep(self)

    @property
    def state(self) -> Literal["running", "finished", "stopped", "cancelled", "failed"]:
        """``running``, ``finished`` (all input is read), ``stopped``, ``cancelled`` or ``failed``."""
        return self._job.state

    @property
    def error(self) -> errors.Error | None:
        """Why it has failed; ``None`` if it has not."""
        return self._job.error

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come, in UTC; ``None`` before the first watermark, after the end, and without event time."""
        stats = self.stats()
        millis = stats.get("watermark_ms")
        return None if millis is None else datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=millis)

    def stats(self) -> dict[str, Any]:
        """What it has done so far: the statistics of docs/statistics.md. Empty before it has begun."""
        import json

        text = self._job.stats()
        return {} if text is None else dict(json.loads(text))

    def checkpoint(self, *, timeout: float | None = 60.0) -> None:
        """Takes a checkpoint that begins now, and waits until it is complete.

        Raises ``TimeoutError`` after ``timeout`` seconds, what the job has failed with if it fails meanwhile, and :class:`ConfigurationError` without
        a state directory (MS1003).
        """
        self._job.checkpoint(timeout)

    def stop(self) -> None:
        """Asks it to end in good order: with a checkpoint if it has a state directory, otherwise with what was read. Does not wait."""
        self._job.stop()

    def cancel(self) -> None:
        """Ends it at once. A function of Python that hangs is interrupted; one that is within native code cannot be: then this raises
        :class:`RunError` (MS3019)."""
        try:
            self._job.cancel()
        except errors.RunError:
            self._is_stuck = True
            raise

    def wait(self, timeout: float | None = None) -> None:
        """Waits for its end, and raises what it has failed with.

        After ``timeout`` seconds it raises ``TimeoutError``, and the job runs on. An interrupt (Ctrl-C) stops the job as
        :meth:`stop` does, a second one as :meth:`cancel`.
        """
        try:
            self._job.wait(timeout)
        finally:
            self._is_told = self.state != "running"

    def progress(self, timeout: float | None = None) -> None:
        """Waits for its end as :meth:`wait` does, and meanwhile shows rows, rates, the watermark and the state, twice a second.

        A notebook shows a table, a terminal a line of standard error; where that is a file it gets a line every ten seconds. After
        ``timeout`` seconds it returns, and the job runs on.
        """
        _progress.follow(self, timeout)

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="millstream") as thread:
            # In slices, so that a task that is cancelled ends soon.
            while not await loop.run_in_executor(thread, self._job.wait_within, 0.1):
                pass
        self.wait()

    def __repr__(self) -> str:
        try:
            glance = _progress.Glance(self)
        except errors.Error as error:
            # It is one of a process that this one was forked from.
            return f"<Job: {error.message}>"
        return f"<Job: {glance!r}: {_display.cut(glance.text, 60)}>"

    def _repr_html_(self) -> str | None:
        try:
            return _progress.Glance(self)._repr_html_()
        except errors.Error:
            return None


_lock = threading.Lock()
_running: list[Job] = []
_process = os.getpid()
_is_before_pools = False


def _keep(job: Job) -> None:
    """Keeps a job until it has ended."""
    global _process, _is_before_pools
    with _lock:
        if not _is_before_pools:
            # Jobs end before `concurrent.futures` ends its threads, which their functions may need: what registers last is called first.
            import concurrent.futures.thread  # noqa: F401

            threading._register_atexit(end_all)  # type: ignore[attr-defined]
            _is_before_pools = True
        if os.getpid() != _process:
            # Those of the parent are not here.
            _running.clear()
            _process = os.getpid()
        _running.append(job)
        if len(_running) == 1:
            threading.Thread(target=_watch, name="millstream jobs", daemon=True).start()


def _watch() -> None:
    """Tells what jobs have to tell, until none runs."""
    while True:
        with _lock:
            jobs = list(_running)
        ended = [job for job in jobs if _has_ended(job)]
        with _lock:
            for job in ended:
                _running.remove(job)
            # Whoever adds one afterwards finds none, and starts another thread.
            if not _running:
                return
            first = _running[0]
        first._job.wait_within(0.25)


def _has_ended(job: Job) -> bool:
    """Whether a job has ended; how, if nobody else has been told."""
    try:
        if job.state == "running":
            return False
        # Somebody who waits is told first.
        time.sleep(0.05)
        if job.error is not None and not job._is_told:
            logger().error("%s", job.error)
    except Exception:
        # A handler of the program's logging: it is not to end the watch.
        pass
    return job._job.wait_within(0.0)


def end_all() -> None:
    """Ends all jobs before the interpreter goes: in good order, and those that do not end so at once. Failures are told. Once."""
    global _are_ended
    with _lock:
        if _are_ended:
            return
        _are_ended = True
        jobs = [job for job in _running if _process == os.getpid() and not job._is_stuck]
    deadline = time.monotonic() + PATIENCE
    try:
        for job in jobs:
            job.stop()
        while any(job.state == "running" for job in jobs) and time.monotonic() < deadline:
            time.sleep(0.01)
    except KeyboardInterrupt:
        logger().warning("jobs are cancelled at exit")
    _core.end_all(LAST_PATIENCE)
    for job in jobs:
        if job.state == "failed" and not job._is_told:
            logger().error("%s", job.error)


_are_ended = False

# Queries that are no jobs end here.
threading._register_atexit(end_all)  # type: ignore[attr-defined]
