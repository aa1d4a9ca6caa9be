"""Async functions in SQL: a worker waits while the rows of its buffer are under way together, on one event loop of the process.

The engine calls a function that has failed again, at once and in the same thread, for halves of the rows in their order, down to the bad ones.
Nothing outside is asked twice for that: what rows have given is kept until the last half.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from itertools import count
from types import TracebackType
from typing import Any

from millstream._core import Column
from millstream._durations import Duration, milliseconds

Row = tuple[Any, ...]

#: Options that a function does not give. The first two are those of Flink.
CAPACITY = 100
TIMEOUT = "3 min"
RETRY_DELAY = "100ms"
#: Seconds from one try to the next at most, unless the first delay is longer.
LONGEST_DELAY = 60.0
#: Seconds that a worker waits between looks for an interruption: an exception that is raised in its thread does not end a wait.
SLICE = 0.05
#: Seconds within which the engine calls again. Later it is another query: one that was cancelled does not come to its last half.
SOON = 3.0


class Asynchronous:
    """Calls an async function for the rows of a buffer, and gives their results in order."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        returns: str,
        shares: bool,
        capacity: int | None,
        timeout: Duration | None,
        retries: int | None,
        retry_delay: Duration | None,
        retry_on: tuple[type[Exception], ...] | None,
    ) -> None:
        """``shares``: rows of a buffer with equal arguments share a call."""
        self._function, self._name, self._returns, self._shares = function, name, returns, shares
        capacity = CAPACITY if capacity is None else _whole("capacity", capacity, 1)
        # Of all workers and sessions.
        self._slots = asyncio.Semaphore(capacity)
        self._timeout = milliseconds(TIMEOUT if timeout is None else timeout) / 1_000
        if self._timeout == 0:
            raise ValueError("timeout is longer than 0")
        self._tries = 1 + (0 if retries is None else _whole("retries", retries, 0))
        self._delay = milliseconds(RETRY_DELAY if retry_delay is None else retry_delay) / 1_000
        self._retry_on = (Exception,) if retry_on is None else retry_on
        if not isinstance(self._retry_on, tuple) or not all(isinstance(one, type) and issubclass(one, Exception) for one in self._retry_on):
            raise TypeError(f"retry_on is a tuple of classes of exceptions, such as (ConnectionError, TimeoutError), not {retry_on!r}")
        # By thread: `threading.local` loses what it holds when a thread of the engine lets the interpreter go.
        self._kept: dict[int, _Answers] = {}

    def __call__(self, *columns: Column) -> Column:
        if not columns:
            raise ValueError("an async function without arguments cannot be called by SQL: give it one")
        rows: list[Row] = list(zip(*(column.to_list() for column in columns), strict=True))
        thread = threading.get_ident()
        answers = self._kept.pop(thread, None)
        if answers is None or not answers.are_of(rows):
            self._forget()
            answers = _Answers(rows, self._ask(rows))
        begin = answers.begin
        end = begin + len(rows)
        try:
            column = self._column(answers.outcomes[begin:end])
            answers.begin = end
            return column
        except BaseException:
            if len(rows) == 1:
                answers.begin = end
            raise
        finally:
            if answers.begin < len(answers.outcomes):
                answers.until = time.monotonic() + SOON
                self._kept[thread] = answers

    def _forget(self) -> None:
        """Forgets what queries have left that were cancelled before their last half."""
        now = time.monotonic()
        for thread, answers in list(self._kept.items()):
            if answers.until < now:
                self._kept.pop(thread, None)

    def _column(self, outcomes: list[Any]) -> Column:
        for outcome in outcomes:
            if isinstance(outcome, _Failure):
                raise outcome.error.with_traceback(outcome.traceback)
        return Column(outcomes, self._returns)

    def _ask(self, rows: list[Row]) -> list[Any]:
        """What each row gives: a value or a :class:`_Failure`."""
        if not self._shares:
            return _Call(lambda: self._outcomes(rows)).wait()
        keys = [repr(row) for row in rows]
        distinct = dict(zip(keys, rows, strict=True))
        outcomes = _Call(lambda: self._outcomes(distinct.values())).wait()
        by_key = dict(zip(distinct, outcomes, strict=True))
        return [by_key[key] for key in keys]

    async def _outcomes(self, rows: Collection[Row]) -> list[Any]:
        tasks: list[asyncio.Task[Any]] = []
        async with asyncio.TaskGroup() as group:
            for row in rows:
                await self._slots.acquire()
                task = group.create_task(self._outcome(row))
                # Not in the coroutine: one that is cancelled before it begins never runs.
                task.add_done_callback(lambda _: self._slots.release())
                tasks.append(task)
        return [task.result() for task in tasks]

    async def _outcome(self, row: Row) -> Any:
        try:
            return await self._answer(row)
        except BaseException as error:
            # All that a function raises is its row's: `SystemExit` would end the loop. But when the call is cancelled its rows are.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            return _Failure(error)

    async def _answer(self, row: Row) -> Any:
        delay = self._delay
        for number in count(1):
            try:
                return await self._try(row, number)
            except self._retry_on:
                if number == self._tries:
                    raise
            # Rows that have failed together do not come back together.
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, max(self._delay, LONGEST_DELAY))

    async def _try(self, row: Row, number: int) -> Any:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._function(*row)
        except TimeoutError:
            # The function may raise one itself.
            if not limit.expired():
                raise
            message = f"{self._name} gave no answer within {self._timeout:g} s (try {number} of {self._tries})"
            raise TimeoutError(message) from None


def _whole(option: str, value: int, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{option} is a whole number from {least}, not {value!r}")
    return value


class _Failure:
    """What a row has raised. Each time that it is raised again it begins with the traceback that it came with."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.traceback: TracebackType | None = error.__traceback__


class _Answers:
    """What the rows of a call have given, for calls for parts of them."""

    def __init__(self, rows: list[Row], outcomes: list[Any]) -> None:
        self._rows = rows
        self.outcomes = outcomes
        #: Where the next part begins.
        self.begin = 0
        #: When they are forgotten, by the monotonic clock.
        self.until = 0.0

    def are_of(self, rows: list[Row]) -> bool:
        """Whether these rows are the next part."""
        part = self._rows[self.begin : self.begin + len(rows)]
        # As texts: NaN is not equal to NaN, and 0.0 is to -0.0.
        return time.monotonic() < self.until and len(part) == len(rows) and all(map(_is_same, part, rows))


def _is_same(one: Row, other: Row) -> bool:
    return repr(one) == repr(other)


class _Call:
    """A coroutine on the loop, and the worker that waits for it."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, list[Any]]]) -> None:
        self._begin = begin
        self._task: asyncio.Task[list[Any]] | None = None
        # Is released at the end. A lock alone: an interruption anywhere leaves nothing half changed that the loop might wait for.
        self._ended = threading.Lock()
        self._ended.acquire()

    def wait(self) -> list[Any]:
        """Runs it to its end. An exception that is raised in this thread cancels it, and does not wait for the loop, which may be blocked."""
        loop = _running_loop()
        try:
            loop.call_soon_threadsafe(self._start, loop)
            while not self._ended.acquire(timeout=SLICE):
                pass
        except BaseException:
            loop.call_soon_threadsafe(self._cancel)
            raise
        assert self._task is not None
        return self._task.result()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._begin())
        self._task.add_done_callback(lambda _: self._ended.release())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop of all async functions. It starts with the first call and runs as long as the process."""
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            # A daemon: nothing waits for it at exit, where jobs have been ended before.
            threading.Thread(target=_run, args=[loop], name="millstream async functions", daemon=True).start()
            _loop = loop
        return _loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            # Of a task that a function has begun: it ends that task, not the loop.
            pass
