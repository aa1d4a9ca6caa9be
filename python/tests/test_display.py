"""What relations, jobs and sessions look like."""

import datetime
import decimal
import html.parser
import logging
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree
from typing import Any

import millstream as ms
import polars as pl
import pyarrow as pa
import pytest
from millstream import _display


class Tags(html.parser.HTMLParser):
    """Checks that tags are closed, and keeps the texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_first_rows_are_shown_with_names_and_types(con: ms.Session) -> None:
    df = pl.DataFrame({"auction": [1, 22], "site": ["Baidu", None]})
    relation = con.sql("SELECT auction, site, TRUE AS paid FROM df")
    assert df.height == 2
    assert repr(relation).splitlines() == [
        " auction  site    paid",
        "  BIGINT  STRING  BOOLEAN",
        " ───────  ──────  ───────",
        "       1  Baidu   true",
        "      22  NULL    true",
        "(2 rows)",
    ]
    texts = Tags(relation._repr_html_()).texts
    assert texts == ["auction", "BIGINT", "site", "STRING", "paid", "BOOLEAN", "1", "Baidu", "true", "22", "NULL", "true", "2 rows"]
    bundle = relation._repr_mimebundle_()
    assert bundle == {"text/plain": repr(relation), "text/html": relation._repr_html_()}


def test_many_rows_and_columns_are_cut(con: ms.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    df = pl.DataFrame({f"column{n}": range(100_000) for n in range(30)})
    relation = con.sql("SELECT * FROM df")
    assert df.width == 30
    lines = repr(relation).splitlines()
    assert len(lines) == 3 + _display.ROWS + 1 and all(len(line) < 60 for line in lines[:-1])
    assert lines[-1].startswith("(the first 10 rows; 24 more columns: column6, column7, ")
    texts = Tags(relation._repr_html_()).texts
    assert texts.count("BIGINT") == _display.COLUMNS and texts[-1].startswith("the first 10 rows; 10 more columns: column20, ")


def test_without_rows_the_columns_are_listed(con: ms.Session, endless: ms.Session) -> None:
    assert repr(con.sql("SELECT 1 AS n, 'a' AS name WHERE FALSE")) == "Relation (0 rows)\n  n     INT NOT NULL\n  name  CHAR(1) NOT NULL"
    relation = endless.sql("SELECT n FROM endless")
    began = time.monotonic()
    assert repr(relation).startswith("Relation (endless: batches() gives") and repr(relation).endswith("\n  n  BIGINT")
    assert time.monotonic() - began < 0.5
    assert Tags(relation._repr_html_()).texts[:4] == ["column", "type", "n", "BIGINT"]


def test_a_reader_is_not_used_up_by_being_shown(con: ms.Session) -> None:
    reader = pa.table({"n": [1, 2]}).to_reader()
    relation = con.sql("SELECT n FROM reader")
    assert reader is not None
    outer = con.sql("SELECT n + 1 AS m FROM relation")
    assert repr(relation) == "Relation (its rows can be read once, so none is shown)\n  n  BIGINT"
    assert "read once" in repr(outer) and "read once" in outer._repr_html_()
    assert outer.fetchall() == [(2,), (3,)]


def test_what_fails_while_it_is_shown_is_said(con: ms.Session) -> None:
    df = pl.DataFrame({"n": [0]})
    relation = con.sql("SELECT 1 / n AS q FROM df")
    assert df.height == 1
    assert repr(relation) == "Relation (error[MS3002]: division by zero in (1 / n))\n  q  BIGINT"
    assert "division by zero" in Tags(relation._repr_html_()).texts[-1]

    @ms.udf
    def bad(n: int) -> int:
        raise OSError("the disk <is> gone")

    con.register_function(bad)
    relation = con.sql("SELECT bad(n) AS q FROM df")
    assert "OSError" in repr(relation) and "<is>" in "".join(Tags(relation._repr_html_()).texts)


def test_what_is_slow_is_shown_for_a_second(con: ms.Session, caplog: pytest.LogCaptureFixture) -> None:
    @ms.udf
    def slow(n: int) -> int:
        time.sleep(0.3)
        return n

    con.register_function(slow)
    df = pl.DataFrame({"n": range(100_000)})
    relation = con.sql("SELECT slow(n) AS n FROM df")
    assert df.height == 100_000
    with caplog.at_level(logging.WARNING):
        began = time.monotonic()
        text = repr(relation)
        assert 0.9 < time.monotonic() - began < 4
    assert "within 1 s" in text and not caplog.records
    assert con.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (12, "12"),
        (0.1, "0.1"),
        (decimal.Decimal("1E+3"), "1000"),
        ("two\nlines\x1b[2J", "two lines\ufffd[2J"),
        (b"\x00\xff", "x'00ff'"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 6000), "2026-01-02 03:04:05.006000"),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone.utc), "2026-01-02 03:00:00 UTC"),
        (datetime.timedelta(hours=1), "1:00:00"),
        ([1, None, "a"], "[1, NULL, a]"),
        ({"a": [1], "b": {"c": True}}, "{a: [1], b: {c: true}}"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …]"),
    ],
)
def test_values_of_all_types_have_a_form(value: Any, text: str) -> None:
    assert _display.value_text(value) == text


def test_long_values_are_cut_at_the_places_that_they_take() -> None:
    assert _display.cut("x" * 40) == "x" * 40 and _display.cut("x" * 41) == "x" * 39 + "…"
    assert _display.cut("日本語", 5) == "日本…" and _display.text_width("日本語e\u0301") == 7
    assert len(_display.value_text("x" * 1_000_000)) < 100 and len(_display.value_text([["x" * 100] * 100] * 100)) < 2000


def test_names_and_values_are_escaped(con: ms.Session) -> None:
    relation = con.sql("SELECT '<script>alert(1)</script>' AS `<b>&`")
    text = relation._repr_html_()
    assert "<script>" not in text and "<b>" not in text
    assert {"<script>alert(1)</script>", "<b>&"} <= set(Tags(text).texts)


def test_a_plan_is_a_picture(con: ms.Session, tmp_path: pathlib.Path) -> None:
    df = pl.DataFrame({"k": [1, 2, 3], "s": ["a", "b", "c"]})
    relation = con.sql("SELECT l.k, COUNT(*) AS n FROM df l JOIN df r ON l.k = r.k WHERE l.s <> '<&>' GROUP BY l.k")
    assert df.height == 3
    plan = relation.plan()
    root = xml.etree.ElementTree.fromstring(plan.svg)
    namespace = "{http://www.w3.org/2000/svg}"
    texts = [text.text or "" for text in root.iter(f"{namespace}text")]
    boxes = re.findall(r"^((?:source|aggregation|operator|lookup|pipeline) \d+): ", plan_text := repr(plan), re.MULTILINE)
    assert boxes and set(boxes) < set(texts) and "sink 0" in texts and "'<&>'" in "".join(texts)
    ways = {title.text for title in root.iter(f"{namespace}title")}
    assert {f"{a} to {b}" for b, a in re.findall(r"^(pipeline \d+): from (source \d+)", plan_text, re.MULTILINE)} <= ways
    assert plan_text == relation.explain()
    plan.save(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text() == plan.svg == plan._repr_svg_() and plan.svg in plan._repr_html_()
    # Lines of what each part did.
    assert "3 rows" in relation.plan(analyze=True).svg and "3 rows" not in plan.svg
    with pytest.raises(ms.errors.RunError, match="division by zero"):
        con.sql("SELECT 1 / (k - k) AS q FROM df").plan(analyze=True)


def test_a_session_shows_its_tables(con: ms.Session) -> None:
    assert repr(con) == "<Session: no tables>"
    con.execute("CREATE VIEW `v<1>` AS SELECT 1 AS n, 2 AS m")
    for n in range(12):
        con.execute(f"CREATE VIEW w{n:02} AS SELECT 1 AS n")
    assert repr(con) == "<Session: v<1>, w00, w01, w02, w03, w04, w05, w06, w07, w08 and 3 more>"
    assert Tags(str(con._repr_html_())).texts[:4] == ["table", "columns", "v<1>", "n, m"]
    con.close()
    assert repr(con) == "<Session: the session is closed>" and con._repr_html_() is None


def test_a_job_shows_its_numbers(endless: ms.Session) -> None:
    endless.execute("""
        CREATE TABLE timed (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
            'fields.n.min' = '1', 'fields.n.max' = '9');
        CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')
    """)
    job = endless.submit("""
        INSERT INTO hole SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end
    """)
    deadline = time.monotonic() + 20
    while job.watermark is None and time.monotonic() < deadline:
        time.sleep(0.01)
    text = repr(job)
    assert text.startswith("<Job: running for ") and "rows in" in text and " ago)" in text
    assert text.endswith(": INSERT INTO hole SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE ti…>")
    texts = Tags(str(job._repr_html_())).texts
    assert {"state", "rows in", "rows out", "watermark"} <= set(texts)
    job.cancel()
    assert repr(job).startswith("<Job: cancelled after ")


PROGRESS = """
import os, signal, sys, threading, time
import millstream as ms
con = ms.connect()
con.execute("CREATE TABLE e (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.n.min' = '1', 'fields.n.max' = '2')")
con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
job = con.submit("INSERT INTO hole SELECT n FROM e")
job.progress(timeout=1.2)
assert job.state == "running"
threading.Timer(0.7, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    job.progress()
except KeyboardInterrupt:
    print(job.state)
failing = con.submit("INSERT INTO hole SELECT n / (n - n) FROM e")
try:
    failing.progress()
except ms.errors.RunError as error:
    print(error.code)
"""


def test_progress_of_a_job_goes_to_standard_error() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRESS], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.split()) == (0, ["stopped", "MS3002"]), result.stderr
    # Nothing can be written over: the last line of each.
    lines = result.stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["running", "stopped", "failed"]
    assert "division by zero" in lines[2] and "/s)" in lines[0]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_progress_in_a_terminal_is_one_line_that_is_written_over() -> None:
    import pty

    main, other = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", PROGRESS], stdout=subprocess.PIPE, stderr=other, close_fds=True) as process:
        os.close(other)
        written = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            written += piece
        assert process.wait(timeout=60) == 0
    os.close(main)
    text = written.decode()
    # Three lines, the first two drawn several times.
    assert text.count("\n") == 3 and text.count("\r\x1b[J") >= 3
    assert all(len(line) < 80 for line in text.replace("\r", "\n").split("\n"))
