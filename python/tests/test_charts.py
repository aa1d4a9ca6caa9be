"""Charts: points, ticks, and pictures in which nothing overlaps or overflows."""

import datetime
import pathlib
import random
import re
import signal
import threading
import time
import xml.etree.ElementTree
from typing import Any

import millstream as ms
import polars as pl
import pytest
from millstream import Tumble, _charts, _display, count

SVG = "{http://www.w3.org/2000/svg}"


def frame(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame(columns)


def drawn(data: pl.DataFrame, **options: Any) -> ms.Chart:
    with ms.connect() as con:
        return con.table(data).chart(**options)


def checked(chart: ms.Chart) -> xml.etree.ElementTree.Element:
    """The picture, after a look whether it is well-formed and all is within it, and no two texts overlap."""
    root = xml.etree.ElementTree.fromstring(chart.svg)
    assert root.tag == SVG + "svg" and root.find(SVG + "title") is not None and root.find(SVG + "desc") is not None
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    boxes = []
    for text in root.iter(SVG + "text"):
        long = _display.text_width(text.text or "") * 0.61 * 12
        x, y, anchor = float(text.attrib["x"]), float(text.attrib["y"]), text.attrib.get("text-anchor", "start")
        left = {"start": x, "middle": x - long / 2, "end": x - long}[anchor]
        boxes.append((left, y - 10, left + long, y + 2, text.text))
        assert left >= 0 and left + long <= width and y - 10 >= 0 and y + 2 <= height, text.text
    for i, (a, b, c, d, text_) in enumerate(boxes):
        for e, f, g, h, other in boxes[:i]:
            assert c <= e or g <= a or d <= f or h <= b, (text_, other)
    for rect in root.iter(SVG + "rect"):
        assert 0 <= float(rect.attrib["x"]) <= width and float(rect.attrib["height"]) >= 0
    numbers = [float(n) for path in root.iter(SVG + "path") for n in re.findall(r"-?\d+\.?\d*", path.attrib["d"])]
    assert all(-1 <= n <= width for n in numbers)
    return root


def texts(root: xml.etree.ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(SVG + "text")]


def test_a_line_for_each_value_of_a_column(tmp_path: pathlib.Path) -> None:
    times = [datetime.datetime(2026, 1, 1, 12, minute) for minute in range(0, 60, 10)]
    chart = drawn(frame(ts=times * 2, n=[*range(6), *range(10, 16)], k=["a"] * 6 + ["b & <c>"] * 6), by="k")
    assert (chart.x, chart.y, chart.by) == ("ts", "n", "k")
    root = checked(chart)
    assert {"n", "ts", "a", "b & <c>", "01-01 12:00", "12:10", "12:50", "0", "15"} <= set(texts(root))
    # Dots too, since there are few points.
    assert len(list(root.iter(SVG + "circle"))) == 12
    chart.save(tmp_path / "chart.svg")
    assert (tmp_path / "chart.svg").read_text() == chart.svg == chart._repr_html_()
    assert repr(chart).splitlines() == [
        "n by ts",
        "  a        ▁▂▄▅▇█  0 … 5, last 5",
        "  b & <c>  ▆▆▇▇██  10 … 15, last 15",
    ]


def test_bars_stand_on_zero() -> None:
    root = checked(drawn(frame(site=["Apple", "Baidu", "Google"], n=[5, -2, 9]), x="site", kind="bar"))
    bars = [(float(r.attrib["y"]), float(r.attrib["height"])) for r in root.iter(SVG + "rect")]
    assert len(bars) == 3
    (top, height), (zero, _), _ = bars
    assert abs(top + height - zero) < 0.2 and {"Apple", "Baidu", "Google", "0"} <= set(texts(root))


def test_points_and_series_are_bounded() -> None:
    chart = drawn(frame(x=range(5000), y=range(5000)), x="x", y="y", points=100)
    assert list(chart._series["y"]) == list(range(4900, 5000)) and "latest 100 points" in chart.svg
    many = drawn(frame(x=[1] * 5000, y=[1] * 5000, k=range(5000)), x="x", y="y", by="k")
    assert len(many._series) == _charts.SERIES and len(many._left_out) == 1000
    checked(many)
    assert "more series are left out" in repr(many)


def test_points_that_replace_one_another_are_told() -> None:
    chart = drawn(frame(x=[1, 1, 2], y=[1, 5, 2]), x="x", y="y")
    assert chart._series["y"] == {1: 5.0, 2: 2.0} and "name a key with by=" in chart.svg
    assert "by=" not in drawn(frame(x=[1, 1], y=[1, 5], k=["a", "b"]), x="x", y="y", by="k").svg


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (frame(ts=[1.0], a=[1], b=[2]), "several numbers could be y: a, b"),
        (frame(a=["x"]), "no number could be y"),
        (frame(l=[[1]], n=[1]), "x is a number, a time or a text, and 'l' is ARRAY<BIGINT>"),
    ],
)
def test_axes_that_cannot_be_guessed(data: pl.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        drawn(data)


def test_wrong_arguments_are_told(con: ms.Session) -> None:
    relation = con.sql("SELECT 1 AS x, 2 AS y, 'a' AS s")
    for options, message in (
        ({"y": "z"}, "there is no column 'z'; the columns are x, y, s"),
        ({"x": "x", "y": "s"}, "y is a number, and 's' is CHAR(1)"),
        ({"kind": "pie"}, "kind is 'line' or 'bar', not 'pie'"),
        ({"points": 0}, "points is a number from 1, not 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            relation.chart(**options)


def test_pictures_of_all_sorts_of_values() -> None:
    random.seed(7)
    now = datetime.datetime(2026, 3, 4, 5, 6, 7)
    xs: list[list[Any]] = [
        [],
        [3],
        [10**17, 10**17 + 1],
        [-1e-9, 1e-9, float("nan")],
        [1e308, -1e308],
        [now],
        *([now + datetime.timedelta(milliseconds=step * n) for n in range(12)] for step in (1, 70, 900, 61_000, 4_000_000, 90_000_000, 10**10)),
        [now.date() + datetime.timedelta(days=n) for n in range(100)],
        [datetime.time(hour, 5) for hour in range(24)],
        [f"category {n} with a long name" for n in range(50)],
        [True, False],
    ]
    ys: list[list[Any]] = [[0.0], [None, 1.0], [1e9, -3e12, 5.0], [float("inf"), 2.0], [1e-7], [-5.0], [1e308, -1e308], [1e17, 1e17 + 16]]
    for x in xs:
        for y in ys:
            data = pl.DataFrame({"x": x, "y": [random.choice(y) for _ in x]}, strict=False)
            data = data.with_columns(pl.col("y").cast(pl.Float64))
            for kind in ("line", "bar") if x else ("line",):
                chart = _charts.Chart("x", "y", None, kind, 1000)
                for at, value in data.rows():
                    chart._add(at, value, at)
                checked(chart)
                repr(chart)


@pytest.mark.parametrize(("span", "most", "step"), [(10, 5, 2), (1, 8, 0.2), (0.03, 6, 0.005), (7e6, 8, 1e6), (100, 10, 10)])
def test_steps_are_nice(span: float, most: int, step: float) -> None:
    assert _charts.nice_step(span, most) == pytest.approx(step)


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [
        (0.9, ["00:00:00.000", "00:00:00.200"]),
        (60, ["00:00:00", "00:00:10"]),
        (3600, ["00:00", "00:10"]),
        (86400 * 2, ["00:00", "12:00", "01-02 00:00"]),
        (86400 * 300, ["1970-01-01", "1970-02-20"]),
    ],
)
def test_ticks_of_times_are_nice(seconds: float, ticks: list[str]) -> None:
    found = [text for _, text in _charts._time_ticks(0, seconds, False)]
    assert [found[0].removeprefix("01-01 "), *found[1:]][: len(ticks)] == ticks and len(found) <= 8


WINDOWS = """
    CREATE TABLE clicks (ts TIMESTAMP(3), site BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',
        'fields.site.min' = '1', 'fields.site.max' = '3')
"""


def test_an_endless_query_is_drawn_until_its_end(con: ms.Session) -> None:
    con.execute(WINDOWS)
    windows = con.table("clicks").key_by("site").window(Tumble("200ms")).agg(n=count())
    chart = windows.chart(y="n", by="site", limit=6)
    assert chart.x == "window_end" and 1 <= len(chart._series) <= 3 and sum(map(len, chart._series.values())) == 6
    began = time.monotonic()
    chart = windows.chart(y="n", by="site", timeout=0.8)
    assert 0.7 < time.monotonic() - began < 5 and set(chart._series) == {"1", "2", "3"}
    checked(chart)


def test_an_interrupt_ends_a_chart_with_what_came(con: ms.Session) -> None:
    con.execute(WINDOWS)
    windows = con.table("clicks").window(Tumble("100ms")).agg(n=count())
    threading.Timer(1.0, signal.raise_signal, [signal.SIGINT]).start()
    began = time.monotonic()
    chart = windows.chart(y="n")
    assert time.monotonic() - began < 4 and len(chart._series["n"]) >= 2
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_an_error_of_the_query_is_raised(con: ms.Session) -> None:
    df = frame(x=[1, 2], y=[0, 1])
    with pytest.raises(ms.errors.RunError, match="division by zero"):
        con.sql("SELECT x, 1 / y AS y FROM df").chart(x="x")
    assert df.height == 2
