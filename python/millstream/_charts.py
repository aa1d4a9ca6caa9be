"""Charts of relations, drawn again as rows come.

A chart is text: SVG, which needs no library, or sparklines in a terminal. It has no colours for text and axes, so that it fits dark and light
pages. Those of its series can be told apart by the colour-blind (Okabe and Ito), and repeat with other dashes.
"""

from __future__ import annotations

import bisect
import math
import os
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from datetime import time as clock_time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from millstream import _display
from millstream._core import Batch
from millstream._display import cut, escaped, is_number, printable, text_width, value_text
from millstream._polling import poll

if TYPE_CHECKING:
    from millstream._relation import Relation

Kind = Literal["line", "bar"]

#: The most series; rows of others are left out.
SERIES = 12
#: The most steps of an axis of numbers.
TICKS = 6
#: How often a chart is drawn again, in seconds.
REFRESH = 0.5

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
_DASHES = ("", ' stroke-dasharray="6 3"')
_WIDTH, _HEIGHT = 720, 340
_FONT = 12
#: The width of a place of a monospaced font, a little more than that of usual ones.
_PLACE = 0.62 * _FONT
_SPARKS = "▁▂▃▄▅▆▇█"
_EPOCH = datetime(1970, 1, 1)
#: What is greater is not drawn: the span of an axis is a number, too.
_MOST = 1e300



class Chart:
    """Points of a relation, and their picture. Made by :meth:`Relation.chart`."""

    def __init__(self, x: str, y: str, by: str | None, kind: Kind, points: int) -> None:
        self.x, self.y, self.by = x, y, by
        self.kind: Kind = kind
        #: How many points of each series are kept, the latest.
        self.points = points
        self._series: dict[str, dict[Any, float]] = {}
        self._left_out: set[str] = set()
        self._is_dropped = self._is_replaced = False
        self._shown_in: object = None

    def _add(self, x: Any, y: Any, by: Any) -> None:
        name = value_text(by) if self.by is not None else self.y
        if x is None or name in self._left_out or (isinstance(x, (float, Decimal)) and not abs(float(x)) < _MOST):
            return
        series = self._series.get(name)
        if series is None:
            if len(self._series) == SERIES:
                # Their names are kept for their number only, and that is bounded as well.
                if len(self._left_out) < 1000:
                    self._left_out.add(name)
                return
            series = self._series[name] = {}
        self._is_replaced |= x in series
        value = math.nan if y is None else float(y)
        series[x] = value if abs(value) < _MOST else math.nan
        if len(series) > self.points:
            del series[next(iter(series))]
            self._is_dropped = True

    @property
    def svg(self) -> str:
        """The picture: SVG that stands by itself."""
        return _svg(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def _note(self) -> str:
        parts = []
        if self._is_dropped:
            parts.append(f"the latest {self.points} points of each series")
        if self._is_replaced and self.by is None:
            parts.append(f"several rows have the same {printable(self.x)}, and the last one is shown: name a key with by=")
        if self._left_out:
            parts.append(f"{len(self._left_out)} more series are left out")
        return "; ".join(parts)

    def _repr_html_(self) -> str:
        return self.svg

    def _ipython_display_(self) -> None:
        # The cell that has drawn it shows it already.
        shell = _display.notebook()
        if shell is None or self._shown_in is None or self._shown_in != shell.execution_count:
            raise NotImplementedError

    def __repr__(self) -> str:
        title = f"{printable(self.y)} by {printable(self.x)}"
        if not self._series:
            return f"{title}: no rows"
        names = {name: cut(name, 24) for name in self._series}
        width = max(map(text_width, names.values()))
        room = max(8, _display.terminal_width() - width - 36)
        lines = []
        for name, series in self._series.items():
            values = [series[x] for x in _sorted(series)]
            numbers = [value for value in values if math.isfinite(value)]
            ends = f"  {_number(min(numbers))} … {_number(max(numbers))}, last {_number(values[-1])}" if numbers else ""
            lines.append(f"  {_display.padded(names[name], width)}  {_sparks(values[-room:])}{ends}")
        note = self._note()
        return "\n".join([title, *lines, *([f"({note})"] if note else [])])


class _Picture:
    """What is shown of a chart while it grows: unlike the chart itself it is drawn wherever it is displayed."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart

    def _repr_html_(self) -> str:
        return self._chart.svg

    def __repr__(self) -> str:
        return repr(self._chart)


def draw(
    relation: Relation,
    x: str | None,
    y: str | None,
    by: str | None,
    kind: Kind,
    points: int,
    limit: int | None,
    timeout: float | None,
) -> Chart:
    """The chart of a relation; see :meth:`Relation.chart`."""
    if kind not in ("line", "bar"):
        raise ValueError(f"kind is 'line' or 'bar', not {kind!r}")
    if points < 1:
        raise ValueError(f"points is a number from 1, not {points}")
    x, y = _axes(relation, x, y, by)
    chart = Chart(x, y, by, kind, points)
    places = [relation.columns.index(name) for name in (x, y, by or x)]
    is_live, live, drawn, is_new = _display.is_live(), _display.Live(), -math.inf, True
    deadline = math.inf if timeout is None else time.monotonic() + timeout

    def look(batch: Batch | None) -> None:
        nonlocal drawn, is_new
        if batch is not None:
            for row in batch.rows():
                chart._add(*(row[place] for place in places))
            is_new = True
        if is_live and is_new and time.monotonic() - drawn >= REFRESH:
            live.show(_Picture(chart))
            drawn, is_new = time.monotonic(), False

    reader = relation._relation.read(limit, None)
    try:
        poll(reader, deadline, look)
    except KeyboardInterrupt:
        # That is how one ends it. What came until then is the chart.
        pass
    finally:
        if is_live:
            live.show(_Picture(chart))
            live.end()
    shell = _display.notebook()
    chart._shown_in = shell.execution_count if shell is not None else None
    return chart


def _axes(relation: Relation, x: str | None, y: str | None, by: str | None) -> tuple[str, str]:
    """The columns of the axes: those that were named, or the time and the one number."""
    types: dict[str, str] = dict(zip(relation.columns, relation.types, strict=True))
    relation._check([name for name in (x, y, by) if name is not None])
    if x is None:
        times = [name for name, data_type in types.items() if data_type.startswith("TIMESTAMP")]
        found = [name for name in ("window_end", *times, *types) if name in types and name not in (y, by)]
        if not found:
            raise ValueError("there is no column for x")
        x = found[0]
    if y is None:
        numbers = [name for name, data_type in types.items() if is_number(data_type) and name not in (x, by)]
        if len(numbers) != 1:
            which = f"several numbers could be y: {', '.join(numbers)}" if numbers else f"no number could be y; the columns are {', '.join(types)}"
            raise ValueError(f"{which}. Name it: chart(y=…)")
        y = numbers[0]
    if not is_number(types[y]):
        raise ValueError(f"y is a number, and {y!r} is {types[y]}")
    if not (is_number(types[x]) or types[x].startswith(("TIMESTAMP", "DATE", "TIME", "STRING", "VARCHAR", "CHAR", "BOOLEAN"))):
        raise ValueError(f"x is a number, a time or a text, and {x!r} is {types[x]}")
    return x, y


# Pictures


class _Axis:
    """Where values are, from 0 to 1, and the ticks: places and texts."""

    def __init__(self, place: Callable[[Any], float], ticks: list[tuple[float, str]]) -> None:
        self.place, self.ticks = place, ticks


def _sorted(values: Any) -> list[Any]:
    """In order; texts as they came: the order of a query may mean something."""
    values = list(values)
    return values if isinstance(values[0], (str, bool)) else sorted(values)


def _x_axis(values: list[Any], kind: Kind) -> _Axis:
    first = values[0]
    if isinstance(first, (str, bool)) or (kind == "bar" and len(values) <= 60):
        return _categories(values)
    if isinstance(first, (datetime, date, clock_time)):
        seconds, is_clock = [_seconds(value) for value in values], isinstance(first, clock_time)
        if len(seconds) <= 6:
            # Windows: there is nothing between them.
            ticks = list(zip(seconds, _times(seconds, is_clock), strict=True))
            return _scale(seconds, _seconds, lambda _, __: ticks)
        return _scale(seconds, _seconds, lambda least, most: _time_ticks(least, most, is_clock))
    return _scale([float(value) for value in values], float, _number_ticks)


def _categories(values: list[Any]) -> _Axis:
    """A place for each value; as many texts as there is room for."""
    if isinstance(values[0], (datetime, date, clock_time)):
        texts = _times([_seconds(value) for value in values], isinstance(values[0], clock_time))
    elif isinstance(values[0], (str, bool)):
        texts = [cut(value_text(value), 16) for value in values]
    else:
        texts = [_number(float(value)) for value in values]
    widest = max(map(text_width, texts)) * _PLACE + 8
    step = max(1, math.ceil(widest * len(values) / (_WIDTH - 120)))
    places = {value: (i + 0.5) / len(values) for i, value in enumerate(values)}
    return _Axis(places.__getitem__, [(places[value], texts[i]) for i, value in enumerate(values) if i % step == 0])


def _scale(values: list[float], number: Callable[[Any], float], ticks: Callable[[float, float], list[tuple[float, str]]]) -> _Axis:
    least, most = min(values), max(values)
    if most - least <= 1e-13 * max(abs(least), abs(most)):
        least, most = least - max(0.5, abs(least) / 100), most + max(0.5, abs(most) / 100)
    span = most - least
    return _Axis(lambda value: (number(value) - least) / span, [((at - least) / span, text) for at, text in ticks(least, most)])


def nice_step(span: float, most: int) -> float:
    """The least of 1, 2 and 5 times powers of ten that is in a span so many times at most."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def _number_ticks(least: float, most: float) -> list[tuple[float, str]]:
    step = nice_step(most - least, TICKS)
    first = math.ceil(least / step - 1e-9)
    return [(i * step, _number(i * step)) for i in range(first, math.floor(most / step + 1e-9) + 1)]


_SECOND_STEPS = [
    *(unit * factor for unit in (1e-3, 1e-2, 1e-1) for factor in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12)),
    *(days * 86400 for days in (1, 2, 7, 14, 28)),
]


def _time_ticks(least: float, most: float, without_date: bool) -> list[tuple[float, str]]:
    at = bisect.bisect_left(_SECOND_STEPS, (most - least) / 6)
    step = _SECOND_STEPS[at] if at < len(_SECOND_STEPS) else 86400 * nice_step((most - least) / 86400, 6)
    first = math.ceil(least / step - 1e-9)
    places = [i * step for i in range(first, math.floor(most / step + 1e-9) + 1)]
    return list(zip(places, _times(places, without_date), strict=True))


def _times(seconds: list[float], without_date: bool) -> list[str]:
    """Times as short as they can be: the date at the first one and where it changes."""
    moments = [_EPOCH + timedelta(milliseconds=round(s * 1000)) for s in seconds]
    if all(m.time() == clock_time() for m in moments) and not without_date:
        return [f"{m:%Y-%m-%d}" for m in moments]
    digits = "milliseconds" if any(m.microsecond for m in moments) else "seconds" if any(m.second for m in moments) else "minutes"
    texts = [m.time().isoformat(digits) for m in moments]
    if without_date:
        return texts
    days = [m.date() for m in moments]
    return [text if i and days[i] == days[i - 1] else f"{days[i]:%m-%d} {text}" for i, text in enumerate(texts)]


def _seconds(value: date | clock_time) -> float:
    if isinstance(value, datetime):
        plain = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo is not None else value
        return (plain - _EPOCH).total_seconds()
    if isinstance(value, date):
        return (value - _EPOCH.date()).total_seconds()
    return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6


def _number(value: float) -> str:
    """A number of a few digits: 12.5k."""
    if not math.isfinite(value):
        return "NULL" if math.isnan(value) else str(value)
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * (10 if unit == "k" else 1):
            return f"{value / size:.4g}{unit}" if abs(value) < 1e15 else f"{value:.3g}"
    return f"{value:.6g}" if value else "0"


def _sparks(values: list[float]) -> str:
    numbers = [value for value in values if math.isfinite(value)]
    if not numbers:
        return " " * len(values)
    # From zero: a number that hardly changes is a flat line.
    least, most = min(0.0, *numbers), max(0.0, *numbers)
    span = (most - least) or 1.0
    return "".join(_SPARKS[min(7, int((value - least) / span * 8))] if math.isfinite(value) else " " for value in values)


def _svg(chart: Chart) -> str:
    title = f"{chart.y} by {chart.x}" + (f" and {chart.by}" if chart.by is not None else "")
    xs = _sorted(dict.fromkeys(x for series in chart._series.values() for x in series)) if chart._series else []
    ys = [y for series in chart._series.values() for y in series.values() if math.isfinite(y)]
    parts: list[str] = []
    height = _HEIGHT
    if xs and ys:
        height = _plot(chart, xs, ys, parts)
    else:
        parts.append(f'<text x="{_WIDTH / 2}" y="{height / 2}" text-anchor="middle">no rows yet</text>')
    note = chart._note()
    if note:
        parts.append(f'<text x="{_WIDTH - 8}" y="{height + 12}" text-anchor="end" opacity="0.65">{escaped(note)}</text>')
        height += 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="{_FONT}" fill="currentColor" '
        f'style="max-width:100%;height:auto;color-scheme:light dark">'
        f"<title>{escaped(printable(title))}</title><desc>{escaped(_description(chart))}</desc>{''.join(parts)}</svg>"
    )


def _description(chart: Chart) -> str:
    """The chart in words, for who cannot see it."""
    return "; ".join(
        f"{name}: {len(series)} points, from {_number(min(series.values()))} to {_number(max(series.values()))}"
        for name, series in chart._series.items()
    )


def _plot(chart: Chart, xs: list[Any], ys: list[float], parts: list[str]) -> int:
    """Draws axes, series and legend; the height."""
    least, most = min(ys), max(ys)
    # Bars stand on zero; lines show it unless they are far from it.
    if chart.kind == "bar" or (least > 0 and least < most / 2) or (most < 0 and most > least / 2):
        least, most = min(least, 0.0), max(most, 0.0)
    if most - least <= 1e-9 * max(abs(least), abs(most)):
        least, most = min(least, 0.0), max(most, 0.0) or (1.0 if least == 0 else 0.0)
    step = nice_step(most - least, TICKS)
    least, most = math.floor(least / step + 1e-9) * step, math.ceil(most / step - 1e-9) * step
    y_axis = _scale([least, most], float, _number_ticks)
    x_axis = _x_axis(xs, chart.kind)
    left = max(text_width(text) for _, text in y_axis.ticks) * _PLACE + 14
    right, top, bottom = _WIDTH - 16, 30, _HEIGHT - 44

    def across(place: float) -> float:
        return round(left + 6 + place * (right - left - 12), 1)

    def down(place: float) -> float:
        return round(bottom - place * (bottom - top), 1)

    parts.append(f'<text x="8" y="16" font-weight="bold">{escaped(cut(printable(chart.y), 60))}</text>')
    parts.append(f'<text x="{right}" y="{_HEIGHT - 8}" text-anchor="end" font-weight="bold">{escaped(cut(printable(chart.x), 60))}</text>')
    for place, text in y_axis.ticks:
        parts.append(f'<path d="M{left:.1f} {down(place)}H{right}" stroke="currentColor" stroke-opacity="0.15"/>')
        parts.append(f'<text x="{left - 6:.1f}" y="{down(place) + 4:.1f}" text-anchor="end">{escaped(text)}</text>')
    end = -math.inf
    for place, text in x_axis.ticks:
        half = text_width(text) * _PLACE / 2
        middle = min(max(across(place), half + 2), _WIDTH - half - 2)
        if middle - half > end:
            parts.append(f'<path d="M{across(place)} {bottom}v5" stroke="currentColor" stroke-opacity="0.5"/>')
            parts.append(f'<text x="{middle:.1f}" y="{bottom + 18}" text-anchor="middle">{escaped(text)}</text>')
            end = middle + half + 4
    parts.append(f'<path d="M{left:.1f} {bottom}H{right}" stroke="currentColor" stroke-opacity="0.5"/>')
    for number, series in enumerate(chart._series.values()):
        points = [(across(x_axis.place(x)), series[x]) for x in _sorted(series)]
        draw_series = _bars if chart.kind == "bar" else _line
        draw_series(points, number, len(chart._series), (right - left - 12) / len(xs), lambda y: down(y_axis.place(y)), parts)
    return _legend(chart, parts) if chart.by is not None else _HEIGHT


def _line(points: list[tuple[float, float]], number: int, _: int, __: float, down: Callable[[float], float], parts: list[str]) -> None:
    colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
    path, pen = "", "M"
    for i, (x, y) in enumerate(points):
        if not math.isfinite(y):
            pen = "M"
            continue
        path += f"{pen}{x} {down(y)}"
        pen = "L"
        is_alone = (i == 0 or not math.isfinite(points[i - 1][1])) and (i + 1 == len(points) or not math.isfinite(points[i + 1][1]))
        if is_alone or len(points) <= 40:
            parts.append(f'<circle cx="{x}" cy="{down(y)}" r="2.5" fill="{colour}"/>')
    parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"{dash}/>')


def _bars(points: list[tuple[float, float]], number: int, count: int, room: float, down: Callable[[float], float], parts: list[str]) -> None:
    colour = _COLOURS[number % len(_COLOURS)]
    opacity = ' fill-opacity="0.55"' if number >= len(_COLOURS) else ""
    width = room * 0.8 / count
    for x, y in points:
        if math.isfinite(y):
            low, high = sorted((down(0.0), down(y)))
            at = x - room * 0.4 + number * width
            parts.append(f'<rect x="{at:.1f}" y="{low}" width="{max(width - 0.5, 0.5):.1f}" height="{high - low:.1f}" fill="{colour}"{opacity}/>')


def _legend(chart: Chart, parts: list[str]) -> int:
    """Names of the series below the plot, in as many lines as they need; the height."""
    x, y = 8.0, float(_HEIGHT + 12)
    for number, name in enumerate(chart._series):
        text = cut(name, 24)
        width = 26 + text_width(text) * _PLACE + 14
        if x > 8 and x + width > _WIDTH:
            x, y = 8.0, y + 20
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        if chart.kind == "bar":
            opacity = ' fill-opacity="0.55"' if number >= len(_COLOURS) else ""
            parts.append(f'<rect x="{x}" y="{y - 10}" width="20" height="10" fill="{colour}"{opacity}/>')
        else:
            parts.append(f'<path d="M{x} {y - 4}h20" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(f'<text x="{x + 26:.1f}" y="{y}">{escaped(text)}</text>')
        x += width
    return int(y) + 12
