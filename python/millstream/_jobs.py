"""INSERTs that run in the background."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from millstream import _core, errors

#: How long jobs have at exit to end in good order.
PATIENCE = 60.0
#: How long one that was cancelled has: then it does not hold the process up.
LAST_PATIENCE = 5.0

_log = logging.getLogger("millstream")


class Job:
    """An INSERT, or a statement set, that runs in the background.

    It runs on when nobody keeps the object. At the exit of the process it is stopped, in good order. A failure that nobody waits for is
    told to the logger ``millstream``.
    """

    def __init__(self, job: _core.Job) -> None:
        self._job = job
        self._is_waited_for = False
        _keep(self)

    @property
    def state(self) -> Literal["running", "finished", "stopped", "cancelled", "failed"]:
        """``running``, ``finished`` (all input is read), ``stopped``, ``cancelled`` or ``failed``."""
        return self._job.state

    @property
    def error(self) -> errors.Error | None:
        """Why it has failed."""
        return self._job.error

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come, in UTC; ``None`` before the first watermark, after the end, and without event time."""
        stats = self.stats()
        millis = stats.get("watermark_ms")
        return None if millis is None else datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=millis)

    def stats(self) -> dict[str, Any]:
        """What it has done so far: the statistics of docs/statistics.md. Empty before it has begun."""
        text = self._job.stats()
        return {} if text is None else dict(json.loads(text))

    def checkpoint(self, *, timeout: float = 60.0) -> None:
        """Takes a checkpoint, and waits until it is complete."""
        if not self._job.keeps_checkpoints:
            raise errors.of(
                "error[MS1003]: the job has no state directory\n  = help: give connect() a state_dir",
                code="MS1003",
                message="the job has no state directory",
                place=None,
                advice="give connect() a state_dir",
            )
        before = self._checkpoints()
        self._job.checkpoint()
        deadline = time.monotonic() + timeout
        while self._checkpoints() <= before and not self._job.wait_within(0.02):
            if time.monotonic() > deadline:
                raise TimeoutError("the checkpoint is not complete yet")

    def _checkpoints(self) -> int:
        return int(self.stats().get("checkpoints", {}).get("complete", 0))

    def stop(self) -> None:
        """Asks it to end in good order: with a checkpoint if it has a state directory, otherwise with what was read. Does not wait."""
        self._job.stop()

    def cancel(self) -> None:
        """Ends it at once. A function of Python that hangs is interrupted; one that is within native code cannot be: then this raises."""
        self._job.cancel()

    def wait(self, timeout: float | None = None) -> None:
        """Waits for its end, and raises what it has failed with.

        After ``timeout`` seconds it raises ``TimeoutError``, and the job runs on. An interrupt (Ctrl-C) stops the job as
        :meth:`stop` does, a second one as :meth:`cancel`.
        """
        self._is_waited_for = True
        self._job.wait(timeout)

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        import asyncio

        self._is_waited_for = True
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="millstream") as thread:
            # In slices, so that a task that is cancelled ends soon.
            while not await loop.run_in_executor(thread, self._job.wait_within, 0.1):
                pass
        self._job.wait(None)

    def __repr__(self) -> str:
        first = " ".join(self._job.text.split())
        return f"<Job: {self.state}, {first if len(first) <= 60 else first[:57] + '…'}>"


_lock = threading.Lock()
_running: list[Job] = []
_process = os.getpid()


def _keep(job: Job) -> None:
    """Keeps a job until it has ended."""
    global _process
    with _lock:
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
        for job in jobs:
            if job.state == "running":
                continue
            if job.error is not None and not job._is_waited_for:
                _log.error("%s", job.error)
            with _lock:
                _running.remove(job)
        with _lock:
            if not _running:
                return
        jobs[0]._job.wait_within(0.25)


@atexit.register
def _end() -> None:
    """Ends all jobs before the interpreter goes: in good order, and those that do not end so at once."""
    with _lock:
        jobs = [job for job in _running if _process == os.getpid()]
    deadline = time.monotonic() + PATIENCE
    try:
        for job in jobs:
            job.stop()
        while any(job.state == "running" for job in jobs) and time.monotonic() < deadline:
            time.sleep(0.01)
    except KeyboardInterrupt:
        _log.warning("jobs are cancelled at exit")
    _core.end_all(LAST_PATIENCE)
