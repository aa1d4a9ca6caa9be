"""Tables whose rows an iterator makes."""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import polars as pl
import pytest

import millstream as ms

ROW = {"n": "BIGINT", "s": "STRING"}


def until(condition: Any, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.005)


def sources() -> int:
    return sum(thread.name.startswith("millstream source") for thread in threading.enumerate())


def test_dicts_tuples_lists_and_frames_are_rows(con: ms.Session) -> None:
    def read() -> Iterator[Any]:
        yield {"n": 1, "s": "a"}
        yield {"n": 2}
        yield (3, "c")
        yield [{"s": "d"}, (5, None)]
        yield None
        yield []
        yield pl.DataFrame({"more": [0], "s": ["f"], "n": [6]})

    con.register_source("t", read, ROW, bounded=True)
    rows = [(1, "a"), (2, None), (3, "c"), (None, "d"), (5, None), (6, "f")]
    assert con.sql("SELECT * FROM t").fetchall() == rows
    # It is called for each query.
    assert con.sql("SELECT COUNT(*) FROM t").fetchall() == [(6,)]
    assert con.table("t").schema == ROW


def test_async_generators_lists_and_iterators(con: ms.Session) -> None:
    async def read() -> AsyncIterator[Any]:
        for n in range(3):
            await asyncio.sleep(0.001)
            yield (n, "x")

    con.register_source("a", read, ROW, bounded=True)
    assert con.sql("SELECT n FROM a").fetchall() == [(0,), (1,), (2,)]
    con.register_source("l", [(1, "a"), (2, "b")], ROW, bounded=True)
    assert con.sql("SELECT n FROM l").fetchall() == con.sql("SELECT n FROM l").fetchall() == [(1,), (2,)]
    con.register_source("i", iter([(1, "a")]), ROW, bounded=True)
    assert con.sql("SELECT n FROM i").fetchall() == [(1,)]
    with pytest.raises(ms.errors.ConnectorError, match="an iterator gives them once"):
        con.sql("SELECT n FROM i").fetchall()


def test_event_time_and_windows(con: ms.Session) -> None:
    def read() -> Iterator[Any]:
        for second in (1, 3, 2, 12, 4, 25):
            yield {"at": datetime(2026, 1, 1, 0, 0, second), "n": second}

    columns = {"at": "TIMESTAMP(3)", "n": "INT"}
    con.register_source("t", read, columns, time="at", delay="2s")
    rows = con.table("t").window(ms.Tumble("10s", on="at")).agg(total=ms.col("n").sum()).select("total").fetchall(timeout=20)
    # 4 comes when the window from 0 is complete.
    assert rows == [(6,), (12,), (25,)]
    con.register_source("u", read, "n INT, at TIMESTAMP(3), twice AS n * 2, WATERMARK FOR at AS at")
    assert con.sql("SELECT twice FROM u LIMIT 2").fetchall() == [(2,), (6,)]


def test_a_source_is_endless_unless_it_is_bounded(con: ms.Session) -> None:
    def read() -> Iterator[Any]:
        n = 0
        while True:
            yield (n, "x")
            n += 1

    con.register_source("t", read, ROW)
    assert con.table("t").is_endless
    with pytest.raises(ms.errors.QueryError, match="MS2016"):
        con.table("t").fetchall()
    assert con.sql("SELECT n FROM t").fetchall(limit=3) == [(0,), (1,), (2,)]
    until(lambda: sources() == 0)


def test_a_row_does_not_wait_for_the_next_one(con: ms.Session) -> None:
    release = threading.Event()

    def read() -> Iterator[Any]:
        yield (1, "x")
        release.wait(10)
        yield (2, "x")

    con.register_source("t", read, ROW)
    with con.sql("SELECT n FROM t").batches() as batches:
        assert next(batches).rows() == [(1,)]
        release.set()
        assert next(batches).rows() == [(2,)]
        assert list(batches) == []


@pytest.mark.parametrize("splits", [4, ["a", "b", "c"]])
def test_splits_are_read_at_the_same_time(con: ms.Session, splits: Any) -> None:
    names = list(range(splits)) if isinstance(splits, int) else splits
    barrier = threading.Barrier(len(names))

    def read(split: int | str) -> Iterator[Any]:
        barrier.wait(10)
        yield from [(n, str(split)) for n in range(100)]

    con.register_source("t", read, ROW, splits=splits)
    rows = con.sql("SELECT s, n FROM t").fetchall(timeout=20)
    for name in names:
        assert [n for s, n in rows if s == str(name)] == list(range(100))


def test_a_silent_split_does_not_hold_the_watermark_back(con: ms.Session) -> None:
    over = threading.Event()

    def read(split: str) -> Iterator[Any]:
        if split == "busy":
            yield [(datetime(2026, 1, 1, 0, 0, second),) for second in (1, 11)]
        while not over.wait(0.01):
            yield None

    con.register_source("t", read, {"at": "TIMESTAMP(3)"}, splits=["busy", "silent"], time="at", idle_timeout="100ms")
    with con.table("t").window(ms.Tumble("10s", on="at")).agg(n=ms.count()).select("n").batches() as batches:
        assert next(batches).rows() == [(1,)]
    over.set()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"m": 1}], "keys that are no columns; the columns are n, s"),
        ([(1,)], "has 1 value; the columns are n, s"),
        ([("x", "y")], r"column `n`: 'x' is no BIGINT"),
        (["text"], "a str is no row"),
        ([17], "a int is no row|a builtins.int is no row"),
        ([[17]], "no row"),
        ([pl.DataFrame({"n": [1]})], "a batch has no column `s`; it has n"),
        ([pl.DataFrame({"n": ["a"], "s": ["a"]})], "column `n`"),
    ],
)
def test_what_is_no_row(con: ms.Session, rows: list[Any], message: str) -> None:
    con.register_source("t", lambda: iter(rows), ROW, bounded=True)
    with pytest.raises(ms.errors.ConnectorError, match=message) as caught:
        con.sql("SELECT n FROM t").fetchall()
    assert caught.value.code == "MS4002" and isinstance(caught.value.__cause__, (TypeError, ValueError))


def test_a_null_where_there_must_be_none(con: ms.Session) -> None:
    con.register_source("t", lambda: [{"s": "x"}], {"n": "BIGINT NOT NULL", "s": "STRING"}, bounded=True)
    with pytest.raises(ms.errors.Error, match="n"):
        con.sql("SELECT n FROM t").fetchall()


@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_arrives_with_its_cause_and_split(con: ms.Session, is_async: bool) -> None:
    def read(split: int) -> Iterator[Any]:
        yield (1, "x")
        raise LookupError("no such customer")

    async def read_async(split: int) -> AsyncIterator[Any]:
        yield (1, "x")
        raise LookupError("no such customer")

    con.register_source("t", read_async if is_async else read, ROW, splits=1, bounded=True)
    with pytest.raises(ms.errors.ConnectorError) as caught:
        con.sql("SELECT n FROM t").fetchall()
    assert caught.value.code == "MS4002" and "split 0" in str(caught.value.place)
    assert "the source `t` raised LookupError: no such customer" in caught.value.message
    assert isinstance(caught.value.__cause__, LookupError)


def test_what_cannot_be_a_source(con: ms.Session) -> None:
    async def no_generator() -> None: ...

    refused: list[tuple[Any, dict[str, Any], str]] = [
        (no_generator, {}, "make it an async generator"),
        ([(1, "a")], {"positions": True}, "a function"),
        ([(1, "a")], {"splits": 2}, "a function"),
        (lambda split: [], {"splits": 0}, "at least one split"),
        (lambda split: [], {"splits": ["a", "a"]}, "the same name"),
        (lambda split: [], {"splits": "ab"}, "a list of names"),
        (lambda: [], {"time": "at"}, "is no column"),
        (lambda: [], {"idle_timeout": "0s"}, "longer than 0"),
    ]
    for read, options, message in refused:
        with pytest.raises((TypeError, ValueError), match=message):
            con.register_source("t", read, ROW, **options)
    with pytest.raises(ValueError, match="columns"):
        con.register_source("t", lambda: [], {})
    with pytest.raises(ms.errors.QueryError):
        con.register_source("t", lambda: [], {"n": "NUMBER OF THINGS"})
    con.register_source("t", lambda: 17, ROW, bounded=True)  # type: ignore[arg-type, return-value]
    with pytest.raises(ms.errors.ConnectorError, match="returned a int, which has no rows"):
        con.sql("SELECT n FROM t").fetchall()
    with pytest.raises(ms.errors.Error, match="only read"):
        con.execute("INSERT INTO t SELECT 1, 'a'")
    with pytest.raises(ms.errors.QueryError, match="there is a table 't' already") as caught:
        con.register_source("t", lambda: [], ROW)
    assert caught.value.place is None


def test_a_source_that_hangs_does_not_hold_up_a_query(con: ms.Session) -> None:
    ended = threading.Event()

    def waits() -> Iterator[Any]:
        try:
            yield (1, "x")
            while True:
                time.sleep(0.02)
        finally:
            ended.set()

    con.register_source("t", waits, ROW)
    began = time.monotonic()
    assert con.sql("SELECT n FROM t").fetchall(timeout=0.3) == [(1,)]
    assert time.monotonic() - began < 2.0
    # It is interrupted a second later.
    assert ended.wait(5)


def test_an_async_source_is_cancelled_and_cleans_up(con: ms.Session) -> None:
    ended = threading.Event()

    async def waits() -> AsyncIterator[Any]:
        try:
            yield (1, "x")
            await asyncio.sleep(60)
        finally:
            ended.set()

    con.register_source("t", waits, ROW)
    assert con.sql("SELECT n FROM t").fetchall(limit=1) == [(1,)]
    assert ended.wait(1)
    until(lambda: sources() == 0)


def test_a_source_waits_for_the_query(con: ms.Session) -> None:
    made = 0

    def read() -> Iterator[Any]:
        nonlocal made
        while True:
            yield (made, "x" * 100)
            made += 1

    con.register_source("t", read, ROW)
    con.set("pipeline.memory", "64 MB")
    with con.sql("SELECT * FROM t").batches() as batches:
        next(batches)
        last = -1

        def is_still() -> bool:
            nonlocal last
            was, last = last, made
            time.sleep(0.2)
            return made == was

        until(is_still)
        assert made < 2_000_000
    until(lambda: sources() == 0)


JOB = """
    import json, pathlib, sys, time
    import millstream as ms

    kill_at = int(sys.argv[1])

    def read(split, position):
        with open("starts", "a") as file:
            print(json.dumps([split, position]), file=file)
        start = 0 if position is None else position["next"]
        for first in range(start, 3000, 10):
            time.sleep(0.002)
            yield {"next": first + 10}, [(split, n) for n in range(first, first + 10)]

    con = ms.connect(state_dir="state", settings={"execution.checkpointing.interval": "20 ms"})
    con.register_source("numbers", read, {"split": "STRING", "n": "BIGINT"}, splits=["a", "b"], positions=True)
    con.execute("CREATE TABLE out (split STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv')")
    job = con.table("numbers").insert_into("out")
    if kill_at:
        while job.state == "running" and job.stats().get("checkpoints", {}).get("complete", 0) < kill_at:
            time.sleep(0.001)
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    job.wait()
"""


def test_a_job_resumes_behind_its_positions_exactly_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    for kill_at in (1, 2, 2, 0):
        done = subprocess.run([sys.executable, "job.py", str(kill_at)], cwd=tmp_path, timeout=60, capture_output=True, text=True)
        assert done.returncode == (-9 if kill_at else 0), done.stderr
    lines = [line for path in sorted((tmp_path / "out").iterdir()) if path.is_file() for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{split},{n}" for split in "ab" for n in range(3000))
    starts = [json.loads(line) for line in (tmp_path / "starts").read_text().splitlines()]
    assert starts[:2] == [["a", None], ["b", None]] or starts[:2] == [["b", None], ["a", None]]
    assert any(position is not None for _, position in starts), "it never resumed"


def test_positions_are_pairs(con: ms.Session) -> None:
    for item, message in ((17, "pairs of a position and rows"), ((None, []), "not None"), (({1}, []), "JSON")):

        def read(position: Any, item: Any = item) -> Iterator[Any]:
            yield item

        con.execute("DROP TABLE IF EXISTS t")
        con.register_source("t", read, ROW, positions=True, bounded=True)
        with pytest.raises(ms.errors.ConnectorError, match=message):
            con.sql("SELECT n FROM t").fetchall()


def test_a_pair_is_no_list_of_two_rows(con: ms.Session) -> None:
    con.register_source("t", lambda position: [[(1, "a"), (2, "b")]], ROW, positions=True, bounded=True)
    with pytest.raises(ms.errors.ConnectorError, match="pairs of a position and rows"):
        con.sql("SELECT n FROM t").fetchall()


def test_a_task_that_was_cancelled_is_no_end(con: ms.Session) -> None:
    async def read() -> AsyncIterator[Any]:
        yield (1, "x")
        raise asyncio.CancelledError

    con.register_source("t", read, ROW, bounded=True)
    with pytest.raises(ms.errors.ConnectorError, match="CancelledError"):
        con.sql("SELECT n FROM t").fetchall()


def test_many_bounded_splits_may_wait_for_each_other(con: ms.Session) -> None:
    barrier = threading.Barrier(20)

    def read(split: int) -> Iterator[Any]:
        barrier.wait(10)
        yield (split, "x")

    con.register_source("t", read, ROW, splits=20, bounded=True)
    assert sorted(con.sql("SELECT n FROM t").fetchall()) == [(n,) for n in range(20)]


def test_a_job_that_is_stopped_at_once_keeps_its_positions(tmp_path: pathlib.Path) -> None:
    begun: list[Any] = []

    def read(position: Any) -> Iterator[Any]:
        begun.append(position)
        for n in range(0 if position is None else position["n"], 3000):
            time.sleep(0.0005)
            yield {"n": n + 1, "at": 1704763532.0869935}, (n, "x")

    def run(seconds: float | None) -> None:
        with ms.connect(state_dir=tmp_path / "state", settings={"execution.checkpointing.interval": "20 ms"}) as con:
            con.register_source("t", read, ROW, positions=True)
            con.execute(f"CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'out'}', 'format' = 'csv')")
            job = con.submit("INSERT INTO out SELECT n FROM t")
            if seconds is not None:
                time.sleep(seconds)
                job.stop()
            job.wait()

    run(0.3)
    for _ in range(6):
        run(0.0)
    run(None)
    lines = [int(line) for path in (tmp_path / "out").iterdir() if path.is_file() for line in path.read_text().split()]
    assert sorted(lines) == list(range(3000))
    assert all(position is None or position["at"] == 1704763532.0869935 for position in begun)


def test_positions_that_are_gone_are_missed(tmp_path: pathlib.Path) -> None:
    def run(positions: bool) -> None:
        with ms.connect(state_dir=tmp_path / "state", settings={"execution.checkpointing.interval": "10 ms"}) as con:
            rows = [(n + 1, (n, "x")) if positions else (n, "x") for n in range(100)]

            def read(position: Any = None) -> Iterator[Any]:
                for row in rows:
                    time.sleep(0.005)
                    yield row

            con.register_source("t", read, ROW, positions=positions)
            con.execute(f"CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'out'}', 'format' = 'csv')")
            job = con.submit("INSERT INTO out SELECT n FROM t")
            time.sleep(0.2)
            job.stop()
            job.wait()

    run(True)
    with pytest.raises(ms.errors.Error, match="read the source with positions"):
        run(False)
