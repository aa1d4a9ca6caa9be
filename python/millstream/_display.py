"""How relations, jobs and sessions look in a terminal and in a notebook.

What is shown never raises an error of the engine, and costs a second at most. HTML has no colours of its own, so that it fits dark and
light pages.
"""

from __future__ import annotations

import datetime
import decimal
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import IO, Any

from millstream import _core
from millstream._polling import poll

#: How long a relation runs for its first rows.
SECONDS = 1.0
#: How many rows are shown.
ROWS = 10
#: How many columns HTML has. Text has as many as fit.
COLUMNS = 20
#: How wide a value is shown.
WIDTH = 40
#: How many elements of a nested value are shown.
ELEMENTS = 10

_QUIET = "opacity:0.65"
_CELL = "padding:0.2em 0.7em;text-align:{};white-space:pre"


class Preview:
    """The first rows of a relation, or a sentence that says why there are none."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], note: str) -> None:
        self.rows, self.note = rows, note


def preview(relation: _core.Relation) -> Preview:
    """Runs a relation for its first rows, unless it is endless or its rows can be read only once."""
    if relation.is_endless:
        return Preview([], "endless: batches() gives its rows as they come, limit= and timeout= some of them")
    if relation.reads_once:
        return Preview([], "its rows can be read once, so none is shown")
    rows: list[tuple[Any, ...]] = []
    deadline = time.monotonic() + SECONDS
    try:
        # One more says whether there are more.
        has_ended = poll(relation.read(ROWS + 1, None), deadline, lambda batch: rows.extend(batch.rows() if batch is not None else ()))
    except Exception as error:
        return Preview(rows[:ROWS], " ".join(str(error).split("\n  -->")[0].split()))
    if has_ended:
        return Preview(rows[:ROWS], _count(len(rows)))
    return Preview(rows[:ROWS], f"{counted(len(rows), 'row') if rows else 'no row'} within {SECONDS:g} s")


def _count(rows: int) -> str:
    return f"the first {ROWS} rows" if rows > ROWS else counted(rows, "row")


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def relation_text(relation: _core.Relation, shown: Preview) -> str:
    """A table with names, types and rows; without rows a column a line."""
    schema = relation.schema
    if (text := _text(shown)) is not None:
        return text
    if not shown.rows:
        names = [printable(name) for name, _, _ in schema]
        width = max(map(text_width, names), default=0)
        types = [data_type if nullable else f"{data_type} NOT NULL" for _, data_type, nullable in schema]
        lines = [f"  {padded(name, width)}  {data_type}" for name, data_type in zip(names, types, strict=True)]
        return "\n".join([f"Relation ({shown.note})", *lines])
    columns: list[list[str]] = []
    left = terminal_width() - 1
    for place, (name, data_type, _) in enumerate(schema):
        cells = [cut(printable(name)), cut(data_type), *(cut(value_text(row[place])) for row in shown.rows)]
        width = max(map(text_width, cells))
        if columns and left < width + 2:
            break
        left -= width + 2
        cells = [padded(cell, width, to_right=is_number(data_type)) for cell in cells]
        columns.append([*cells[:2], "─" * width, *cells[2:]])
    lines = [" " + "  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([*lines, f"({shown.note}{_missing([name for name, _, _ in schema[len(columns) :]])})"])


def relation_html(relation: _core.Relation, shown: Preview) -> str:
    schema = relation.schema
    if (text := _text(shown)) is not None:
        return f"<pre>{escaped(text)}</pre>"
    if not shown.rows:
        types = [data_type if nullable else f"{data_type} NOT NULL" for _, data_type, nullable in schema]
        names = [printable(name) for name, _, _ in schema]
        return _html_table(["column", "type"], zip(names, types, strict=True), [False, False], shown.note)
    kept = schema[:COLUMNS]
    heads = [
        f'{escaped(printable(name))}<br><span style="font-weight:normal;{_QUIET}">{escaped(data_type)}</span>' for name, data_type, _ in kept
    ]
    rows = ([None if value is None else cut(value_text(value)) for value in row[: len(kept)]] for row in shown.rows)
    note = shown.note + _missing([name for name, _, _ in schema[COLUMNS:]])
    return _html_table(heads, rows, [is_number(data_type) for _, data_type, _ in kept], note, is_markup=True)


def _text(shown: Preview) -> str | None:
    """The text of several lines that is all that a relation has: what EXPLAIN gives."""
    match shown.rows:
        case [(str() as text,)] if "\n" in text:
            return "\n".join(map(_visible, text.split("\n")))
        case _:
            return None


def _missing(names: Sequence[str]) -> str:
    return f"; {counted(len(names), 'more column')}: {cut(listed(names), 60)}" if names else ""


def listed(names: Sequence[str]) -> str:
    """Some names, and how many there are beyond ten."""
    shown = [printable(name) for name in names[:ROWS]]
    return ", ".join(shown) + (f" and {len(names) - ROWS} more" if len(names) > ROWS else "")


def facts_html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A table of names and values below a title."""
    rows = "".join(
        f'<tr><th style="{_CELL.format("left")};font-weight:normal;{_QUIET}">{escaped(name)}</th>'
        f'<td style="{_CELL.format("left")}">{escaped(value)}</td></tr>'
        for name, value in facts
    )
    return f'<div><div><code>{escaped(title)}</code></div><table style="border-collapse:collapse"><tbody>{rows}</tbody></table></div>'


def session_html(tables: Sequence[tuple[str, str]], left: int) -> str:
    """Tables and views with their columns, and how many more there are."""
    note = f"and {left} more" if left > 0 else "" if tables else "no tables"
    return _html_table(["table", "columns"], tables, [False, False], note)


def _html_table(
    heads: Sequence[str], rows: Iterable[Sequence[str | None]], to_right: Sequence[bool], note: str, is_markup: bool = False
) -> str:
    def cell(value: str | None, right: bool) -> str:
        text = f'<span style="{_QUIET}">NULL</span>' if value is None else escaped(value)
        return f'<td style="{_CELL.format("right" if right else "left")}">{text}</td>'

    head = "".join(
        f'<th style="{_CELL.format("right" if right else "left")}">{text if is_markup else escaped(text)}</th>'
        for text, right in zip(heads, to_right, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(cell, row, to_right))}</tr>" for row in rows)
    return (
        f'<div><table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f'<div style="{_QUIET}">{escaped(note)}</div></div>'
    )


def is_number(data_type: str) -> bool:
    """Whether values of a SQL type are numbers."""
    return data_type.startswith(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")) and not data_type.startswith("INTERVAL")


def value_text(value: Any) -> str:
    """A value as SQL would write it, more or less; without line breaks, and not much longer than what is shown."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case decimal.Decimal():
            return f"{value:f}"
        case str():
            return printable(value)
        case bytes():
            return f"x'{value[:WIDTH].hex()}'"
        case datetime.datetime() if value.tzinfo is not None:
            return f"{value.astimezone(datetime.timezone.utc).replace(tzinfo=None)} UTC"
        case list() | tuple():
            return f"[{_elements(value, value_text)}]"
        case dict():
            return f"{{{_elements(value.items(), lambda item: f'{value_text(item[0])}: {value_text(item[1])}')}}}"
        case _:
            return printable(str(value))


def _elements(values: Iterable[Any], text: Callable[[Any], str]) -> str:
    shown: list[str] = []
    length = 0
    for value in values:
        if len(shown) == ELEMENTS or length > WIDTH:
            return ", ".join([*shown, "…"])
        shown.append(text(value))
        length += len(shown[-1])
    return ", ".join(shown)


def printable(text: str) -> str:
    """Without what would move the cursor, and not much longer than what is shown."""
    return _visible(text if len(text) <= 2 * WIDTH else text[: 2 * WIDTH] + "…")


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c in "\n\r\t" else "\ufffd" for c in text)


def escaped(text: str) -> str:
    import html

    return html.escape(text)


def text_width(text: str) -> int:
    """How many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, width: int, to_right: bool = False) -> str:
    space = " " * (width - text_width(text))
    return space + text if to_right else text + space


def cut(text: str, width: int = WIDTH) -> str:
    """A text, or its beginning with an ellipsis."""
    if text_width(text) <= width:
        return text
    while text_width(text) >= width:
        text = text[: min(len(text) - 1, width)]
    return text + "…"


def terminal_width(stream: IO[str] | None = None) -> int:
    """How wide a terminal is; 80 where there is none."""
    if stream is None:
        import shutil

        return shutil.get_terminal_size().columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def amount(number: float) -> str:
    """A number with three digits and a unit: 12.3 M."""
    if number >= 1e9:
        return f"{number / 1e9:.2f} G"
    if number >= 1e6:
        return f"{number / 1e6:.2f} M"
    return f"{number / 1e3:.1f} k" if number >= 1e4 else f"{number:.0f}"


def size(number: float) -> str:
    """A number of bytes: 12.3 MB."""
    text = amount(number)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def duration(seconds: float) -> str:
    """A time with a unit: 12.3 s."""
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.1f} s"


def notebook() -> Any:
    """The shell of a notebook's kernel that this is run by; None elsewhere. IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


class Live:
    """Something that is shown and changes: redrawn in a notebook; in a terminal lines of standard error that are written over."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._lines = 0

    def show(self, picture: Any) -> None:
        """Shows an object: its ``_repr_html_`` in a notebook, the lines of its ``repr`` in a terminal."""
        if notebook() is None:
            self._write(repr(picture).splitlines())
        elif self._handle is None:
            self._handle = import_module("IPython.display").display(picture, display_id=True)
        else:
            self._handle.update(picture)

    def _write(self, lines: list[str]) -> None:
        # A line that is wrapped cannot be written over.
        width = terminal_width(sys.stderr) - 1
        up = f"\x1b[{self._lines - 1}A" if self._lines > 1 else ""
        start = f"\r{up}\x1b[J" if self._lines else ""
        sys.stderr.write(start + "\n".join(cut(line, width) for line in lines))
        sys.stderr.flush()
        self._lines = len(lines)

    def end(self) -> None:
        """What is shown stays."""
        if self._lines:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._lines = 0


def is_live() -> bool:
    """Whether there is something to redraw: a notebook or a terminal."""
    return notebook() is not None or (sys.stderr is not None and sys.stderr.isatty())
