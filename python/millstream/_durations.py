"""Lengths of time as users write them."""

from __future__ import annotations

import re
from datetime import timedelta

#: ``"10s"``, ``"1.5 min"``, ``"250ms"``, or a ``timedelta``.
Duration = str | timedelta

_MILLISECONDS = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "seconds": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}


def milliseconds(duration: Duration) -> int:
    """The whole milliseconds of a duration."""
    if isinstance(duration, timedelta):
        whole, rest = divmod(duration, timedelta(milliseconds=1))
        if rest or whole < 0:
            raise ValueError(f"{duration!r} is not a number of whole milliseconds from 0")
        return whole
    if not isinstance(duration, str):
        raise TypeError(f"a duration is a string like '10s' or a timedelta, not {duration!r}")
    from fractions import Fraction

    total = Fraction(0)
    is_duration = re.fullmatch(r"(\s*\d+(\.\d+)?\s*[a-zA-Z]+)+\s*", duration) is not None
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)", duration) if is_duration else []:
        is_duration = is_duration and unit.lower() in _MILLISECONDS
        total += Fraction(number) * _MILLISECONDS.get(unit.lower(), 0)
    if not is_duration or total.denominator != 1:
        raise ValueError(f"{duration!r} is not a duration in whole milliseconds: write '10s', '5 min', '1h 30min' or '250ms'")
    return int(total)
