"""Columns of tables as users write them."""

from __future__ import annotations

from collections.abc import Mapping

from millstream._durations import Duration, milliseconds
from millstream._expressions import Expression, interval, quoted

#: What SQL writes behind each column's name (``{"price": "DECIMAL(10, 2)", "cents": "AS price * 100"}``), or all that stands between the
#: parentheses of CREATE TABLE.
Columns = Mapping[str, str | Expression] | str


def columns_text(columns: Columns, time: str | None = None, delay: Duration = "0s") -> str:
    """What stands between the parentheses of CREATE TABLE, with a watermark for the column ``time``."""
    if not isinstance(columns, str):
        elements = column_elements(columns, time, delay)
    else:
        elements = [columns, *_watermark(time, delay)]
    if not any(elements):
        raise ValueError("a table has columns: give a type for each name")
    return ", ".join(elements)


def column_elements(columns: Mapping[str, str | Expression], time: str | None, delay: Duration) -> list[str]:
    """The columns of a table, and its watermark."""
    if time is not None and time not in columns:
        raise ValueError(f"the event time `{time}` is no column; the columns are {', '.join(columns)}")
    return [*(_column(name, definition) for name, definition in columns.items()), *_watermark(time, delay)]


def _watermark(time: str | None, delay: Duration) -> list[str]:
    millis = milliseconds(delay)
    if time is None:
        if millis:
            raise ValueError("a delay is one of event time: name its column with time=")
        return []
    # A row as old as the watermark is late, and rows of one millisecond are the rule.
    return [f"WATERMARK FOR {quoted(time)} AS {quoted(time)} - {interval(delay if millis else '1ms')}"]


def _column(name: str, definition: object) -> str:
    if isinstance(definition, Expression):
        return f"{quoted(name)} AS {definition.sql}"
    if not isinstance(definition, str):
        raise TypeError(f"column {name!r} has a type of SQL such as 'BIGINT', or is computed by an expression, not {definition!r}")
    return f"{quoted(name)} {definition}"
