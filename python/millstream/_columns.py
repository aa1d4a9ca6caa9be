"""Columns of tables as users write them."""

from __future__ import annotations

from collections.abc import Mapping

from millstream._durations import Duration, milliseconds
from millstream._expressions import quoted

#: Types by name, ``{"price": "DECIMAL(10, 2)", "at": "TIMESTAMP(3) NOT NULL"}``, or what stands between the parentheses of CREATE TABLE.
Columns = Mapping[str, str] | str


def columns_text(columns: Columns, time: str | None = None, delay: Duration = "0s") -> str:
    """What stands between the parentheses of CREATE TABLE, with a watermark for the column ``time``."""
    if isinstance(columns, str):
        parts = [columns]
    else:
        parts = [f"{quoted(name)} {data_type}" for name, data_type in columns.items()]
    if not parts:
        raise ValueError("a table has columns: give a type for each name")
    if time is not None:
        if not isinstance(columns, str) and time not in columns:
            raise ValueError(f"the event time `{time}` is no column; the columns are {', '.join(columns)}")
        parts.append(f"WATERMARK FOR {quoted(time)} AS {quoted(time)} - {_interval(milliseconds(delay))}")
    return ", ".join(parts)


def _interval(millis: int) -> str:
    seconds, millis = divmod(millis, 1_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}"
    return f"INTERVAL '{days} {clock}' DAY(9) TO SECOND(3)"
