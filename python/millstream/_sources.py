"""Tables whose rows an iterator makes."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from millstream import _core
from millstream._frames import plain
from millstream._functions import is_coroutine_function
from millstream._logging import logger
from millstream.errors import Interrupted

if TYPE_CHECKING:
    import asyncio

#: A function that returns what yields rows, or such an object itself.
Read = Callable[..., Iterable[Any] | AsyncIterable[Any]] | Iterable[Any]
#: How many splits, or their names.
Splits = int | Sequence[str]

#: Seconds that an iterator has to end by itself when nobody wants its rows any more.
PATIENCE = 1.0
#: Seconds until an asynchronous iterator looks again whether there is room.
LOOK = 0.005


def to_json(value: Any, what: str) -> str:
    """A value as JSON, from which the same value is read again: tuples as lists."""
    import json

    def check(part: Any) -> None:
        if isinstance(part, dict):
            for key, item in part.items():
                if not isinstance(key, str):
                    raise TypeError(f"{what} is what JSON has; {key!r} is no key in it: use strings")
                check(item)
        elif isinstance(part, (list, tuple)):
            for item in part:
                check(item)

    check(value)
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} is what JSON has, which {value!r} is not: {error}") from None


def from_json(text: str | None) -> Any:
    """What :func:`to_json` was given; ``None`` where there is no text."""
    import json

    return None if text is None else json.loads(text)


Begin = Callable[[_core.Feed, int, str | None], Callable[[], None]]


def _names(splits: Splits | None) -> list[str]:
    """The names of splits."""
    if splits is None:
        return ["0"]
    if isinstance(splits, str):
        raise TypeError("splits are a number, or a list of names")
    names = [str(number) for number in range(splits)] if isinstance(splits, int) else list(splits)
    if not names:
        raise ValueError("a source has at least one split")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the name of a split is a string, not {name!r}")
    if len(set(names)) < len(names):
        raise ValueError("two splits have the same name")
    return names


def beginning(name: str, read: Read, splits: Splits | None, positions: bool) -> tuple[Begin, list[str]]:
    """What the engine calls to begin a split, with its number and the position behind which it begins, as JSON; and the names of splits."""
    names = _names(splits)
    has_begun = False
    is_once = not callable(read) and iter(read) is read
    if not callable(read) and (splits is not None or positions):
        raise TypeError("splits and positions need a function that is called with them")
    if is_coroutine_function(read):
        raise TypeError("an async function that does not yield is no source: make it an async generator")

    def rows(number: int, position: str | None) -> Iterable[Any] | AsyncIterable[Any]:
        nonlocal has_begun
        if not callable(read):
            if is_once and has_begun:
                raise ValueError(f"the rows of `{name}` have been read: an iterator gives them once. Give a function that makes one")
            has_begun = True
            return read
        arguments: list[Any] = []
        if splits is not None:
            arguments.append(number if isinstance(splits, int) else names[number])
        if positions:
            arguments.append(from_json(position))
        return read(*arguments)

    def begin(feed: _core.Feed, number: int, position: str | None) -> Callable[[], None]:
        feeder = _Feeder(f"millstream source {name}", feed, lambda: rows(number, position), positions)
        feeder.start()
        return feeder.stop

    return begin, names


def _is_cancelled(error: BaseException) -> bool:
    """Whether it is asyncio's. That is not imported for this: it takes longer than this package."""
    module = sys.modules.get("asyncio")
    return module is not None and isinstance(error, module.CancelledError)


class _Feeder(threading.Thread):
    """Runs the iterator of a split. A daemon: an iterator that waits for the outside does not hold the process up."""

    def __init__(
        self, name: str, feed: _core.Feed, rows: Callable[[], Iterable[Any] | AsyncIterable[Any]], has_positions: bool
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._feed = feed
        self._rows = rows
        self._has_positions = has_positions
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def run(self) -> None:
        try:
            rows = self._rows()
            if isinstance(rows, AsyncIterable):
                import asyncio

                asyncio.run(self._put_async(rows))
            elif isinstance(rows, Iterable):
                self._put_all(rows)
            else:
                raise TypeError(f"a source returned a {type(rows).__name__}, which has no rows: make it a generator, or return a list")
        except BaseException as error:
            if not self._feed.is_closed:
                self._feed.fail(error)
            elif not isinstance(error, Interrupted) and not _is_cancelled(error):
                logger().warning("%s raised an exception after its query had ended", self.name, exc_info=error)
        else:
            self._feed.end()

    def _put_all(self, rows: Iterable[Any]) -> None:
        iterator = iter(rows)
        try:
            for item in iterator:
                if item is None:
                    if self._feed.is_closed:
                        return
                elif not self._feed.put(*self._placed(item)):
                    return
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    async def _put_async(self, rows: AsyncIterable[Any]) -> None:
        import asyncio

        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._feed.is_closed:
            # Whoever wanted to cancel this found no task.
            return
        iterator = aiter(rows)
        try:
            async for item in iterator:
                if self._feed.is_closed:
                    return
                if item is None:
                    continue
                placed = self._placed(item)
                # Other tasks of the loop go on meanwhile.
                while (taken := self._feed.offer(*placed)) is None:
                    await asyncio.sleep(LOOK)
                if not taken:
                    return
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()

    def _placed(self, item: Any) -> tuple[Any, str | None]:
        """Rows, and the position behind them."""
        if not self._has_positions:
            # Rows come by themselves, and fast.
            return item if isinstance(item, (tuple, dict)) else plain(item), None
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeError(f"a source with positions yields pairs of a position and rows, not {item!r}")
        position, rows = item
        if position is None:
            raise ValueError("a position is not None, which stands for the start")
        return [] if rows is None else plain(rows), to_json(position, "a position")

    def stop(self) -> None:
        """Nobody wants the rows any more."""
        if not self.is_alive():
            return
        if self._loop is not None and self._task is not None:
            try:
                self._loop.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                # It has just ended.
                return
        # One that yields, or ends, does so in good order; another one is interrupted.
        timer = threading.Timer(PATIENCE, self._interrupt)
        timer.daemon = True
        timer.start()

    def _interrupt(self) -> None:
        if self.is_alive() and self.ident is not None:
            _core.interrupt_thread(self.ident)
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):
                    # One that waits is woken.
                    self._loop.call_soon_threadsafe(lambda: None)
