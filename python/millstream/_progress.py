"""Jobs as they go: what is told of one, and how it is shown until it ends."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from millstream import _display
from millstream._display import amount, duration, size

if TYPE_CHECKING:
    from millstream._jobs import Job

#: How often what is shown is drawn again, in seconds.
REFRESH = 0.5
#: How often a line is written where lines cannot be written over, in seconds.
PATIENCE = 10.0

#: Rows of a shorter time, in seconds, say nothing of a rate.
_MOMENT = 0.2
#: Classes of memory that are state; the rest is on its way.
_STATE = ("tables", "partials", "operators", "lookups")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Glance:
    """A job at a moment: its state and its numbers, as names and values."""

    def __init__(self, job: Job, before: Glance | None = None) -> None:
        """The rate is that since the glance ``before``; without one that of the whole run."""
        self.state: str = job.state
        self.rate = 0.0
        self.text = " ".join(job._job.text.split())
        stats = job.stats()
        self.rows: int = stats.get("rows_in", 0)
        self.seconds: float = stats.get("elapsed_s", 0.0)
        is_running = self.state == "running"
        self.facts = [("state", f"{self.state} {'for' if is_running else 'after'} {duration(self.seconds)}")]
        if stats:
            self.facts += self._numbers(stats, before if is_running else None)
        if job.error is not None:
            self.facts.append(("error", job.error.message))

    def _numbers(self, stats: dict[str, Any], before: Glance | None) -> list[tuple[str, str]]:
        rows, seconds = (before.rows, before.seconds) if before is not None else (0, 0.0)
        self.rate = (self.rows - rows) / max(self.seconds - seconds, 1e-3)
        if before is not None and self.seconds - seconds < _MOMENT:
            self.rate = before.rate
        facts = [("rows in", f"{amount(self.rows)} ({amount(self.rate)}/s)"), ("rows out", amount(stats["rows_out"]))]
        if stats["watermark_ms"] is not None:
            facts.append(("watermark", watermark(stats["watermark_ms"])))
        counts = (("late", "records_late_total"), ("malformed", "records_malformed_total"), ("failed", "records_failed_total"))
        facts += [(f"{name} rows", amount(stats[field])) for name, field in counts if stats[field]]
        state = sum(stats["memory"]["by_class"][name] for name in _STATE) + stats["spill"]["held_bytes"]
        if state:
            facts.append(("state held", size(state)))
        if stats["checkpoints"]["complete"]:
            facts.append(("checkpoints", f"{stats['checkpoints']['complete']} ({size(stats['checkpoints']['state_bytes'])})"))
        return facts

    def __repr__(self) -> str:
        (_, state), *numbers = self.facts
        return ", ".join([state, *(f"{name} {value}" for name, value in numbers)])

    def _repr_html_(self) -> str:
        return _display.facts_html(_display.cut(self.text, 100), self.facts)


def watermark(millis: int) -> str:
    """A watermark, and how far it is behind the clock where that says something: rows of the past week."""
    try:
        time = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms"
    behind = datetime.now(timezone.utc) - time
    text = time.replace(tzinfo=None).isoformat(" ", "milliseconds")
    return f"{text} ({duration(behind.total_seconds())} ago)" if timedelta(0) <= behind < timedelta(days=7) else text


def follow(job: Job, timeout: float | None) -> None:
    """Shows a job until it has ended, or for so many seconds."""
    is_live = _display.is_live()
    live = _display.Live()
    deadline = None if timeout is None else time.monotonic() + timeout
    glance, told = Glance(job), time.monotonic()

    def tell(is_last: bool = False) -> None:
        nonlocal glance, told
        glance = Glance(job, glance)
        if is_live:
            live.show(glance)
        elif is_last or time.monotonic() - told >= PATIENCE:
            print(repr(glance), file=sys.stderr, flush=True)
            told = time.monotonic()

    try:
        while job.state == "running":
            patience = REFRESH if deadline is None else min(REFRESH, deadline - time.monotonic())
            if patience <= 0:
                return
            try:
                job.wait(patience)
            except TimeoutError:
                tell()
        # It raises what the job has failed with.
        job.wait()
    except KeyboardInterrupt:
        # One that came between two waits has not stopped it yet.
        job.stop()
        job.wait()
        raise
    finally:
        tell(is_last=True)
        live.end()
