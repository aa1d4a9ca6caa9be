"""Async functions in SQL: the rows of a buffer are under way together."""

import asyncio
import functools
import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import millstream as ms
import polars as pl
import pytest


def numbered(size: int) -> pl.DataFrame:
    return pl.DataFrame({"x": range(size)})


def test_results_come_in_the_order_of_rows(con: ms.Session) -> None:
    @ms.udf
    async def reversed_waits(x: int) -> str:
        await asyncio.sleep((49 - x) / 1_000)
        return f"<{x}>"

    con.register_function(reversed_waits)
    frame = numbered(50)
    assert con.sql("SELECT x, reversed_waits(x) FROM frame").fetchall() == [(x, f"<{x}>") for x in range(50)]
    assert (reversed_waits.takes, reversed_waits.returns) == (["BIGINT"], "STRING")
    # Called in Python it is what it was.
    assert asyncio.run(reversed_waits(49)) == "<49>"


def test_capacity_is_reached_and_never_exceeded(con: ms.Session) -> None:
    under_way: list[int] = [0]
    most: list[int] = []

    @ms.udf(capacity=100)
    async def slow(x: int) -> int:
        under_way[0] += 1
        most.append(under_way[0])
        await asyncio.sleep(0.02)
        under_way[0] -= 1
        return x

    con.register_function(slow)
    frame = numbered(200)
    threads: list[threading.Thread] = []
    began = time.monotonic()
    assert con.sql("SELECT SUM(slow(x)) FROM frame").fetchall() == [(19_900,)]
    # One after another they take four seconds.
    assert time.monotonic() - began < 2.0
    assert max(most) == 100
    # Capacity is that of the function: two sessions share it.
    with ms.connect() as other:
        other.register_function(slow)
        for session in (con, other):
            relation = session.sql("SELECT SUM(slow(x)) FROM frame")
            threads.append(threading.Thread(target=relation.fetchall))
            threads[-1].start()
        for thread in threads:
            thread.join()
    assert max(most) == 100 and len(most) == 600 and under_way == [0]


def test_rows_that_are_not_answered_in_time(con: ms.Session) -> None:
    tries: list[int] = []

    @ms.udf(timeout="20ms", retries=2, retry_delay="1ms")
    async def hangs(x: int) -> int:
        if x == 2:
            tries.append(x)
            await asyncio.sleep(1_000)
        return x

    con.register_function(hangs)
    frame = numbered(5)
    with pytest.raises(ms.errors.RunError) as caught:
        con.sql("SELECT hangs(x) FROM frame").fetchall()
    error = caught.value
    assert "TimeoutError: hangs gave no answer within 0.02 s (try 3 of 3) for hangs(2) in hangs, row 2 of a buffer" in error.message
    assert error.code == "MS3005" and isinstance(error.__cause__, TimeoutError)
    assert tries == [2, 2, 2]
    con.set("pipeline.error-policy", "skip")
    assert con.sql("SELECT hangs(x) FROM frame").fetchall() == [(0,), (1,), (3,), (4,)]


def test_what_fails_is_tried_again(con: ms.Session) -> None:
    tries: Counter[int] = Counter()
    at: list[float] = []

    @ms.udf(retries=3, retry_delay="40ms", retry_on=(ConnectionError, TimeoutError))
    async def flaky(x: int) -> int:
        tries[x] += 1
        at.append(time.monotonic())
        if x == 7:
            raise KeyError(x)
        if x == 5 and tries[x] < 4:
            raise ConnectionResetError("away")
        return x

    con.register_function(flaky)
    assert con.sql("SELECT flaky(x) FROM (SELECT CAST(5 AS BIGINT) AS x)").fetchall() == [(5,)]
    # Delays double, and are half as long at least.
    assert [second - first >= least for first, second, least in zip(at, at[1:], (0.02, 0.04, 0.08), strict=False)] == [True] * 3
    with pytest.raises(ms.errors.RunError, match="KeyError: 7"):
        con.sql("SELECT flaky(x) FROM (SELECT CAST(7 AS BIGINT) AS x)").fetchall()
    assert tries == {5: 4, 7: 1}


def test_an_exception_comes_with_its_cause_and_its_row_and_nothing_is_asked_twice(con: ms.Session) -> None:
    asked: Counter[int] = Counter()

    @ms.udf
    async def inverse(x: int) -> float:
        asked[x] += 1
        await asyncio.sleep(0)
        return 1 / x

    con.register_function(inverse)
    frame = pl.DataFrame({"x": range(-1_000, 1_000)})
    with pytest.raises(ms.errors.RunError, match=r"ZeroDivisionError: division by zero for inverse\(0\) in inverse, row \d+") as caught:
        con.sql("SELECT inverse(x) FROM frame").fetchall()
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    depth, traceback = 0, cause.__traceback__
    while traceback is not None:
        depth, traceback = depth + 1, traceback.tb_next
    assert depth < 10
    assert len(asked) == 2_000 and set(asked.values()) == {1}
    con.set("pipeline.error-policy", "skip")
    assert len(con.sql("SELECT inverse(x) FROM frame").fetchall()) == 1_999
    # Another query asks again, once.
    assert set(asked.values()) == {2}


def test_rows_that_fail_or_do_not_fit_are_found_among_many(con: ms.Session) -> None:
    asked: list[float] = []

    @ms.udf(returns="BIGINT", takes=["DOUBLE"], deterministic=False)
    async def picky(x: float) -> Any:
        asked.append(x)
        if math.isnan(x):
            raise ValueError("not a number")
        if x % 3 == 0:
            return "text"
        if x % 3 == 1:
            raise SystemExit(1)
        return int(x)

    con.register_function(picky)
    con.set("pipeline.error-policy", "skip")
    frame = pl.DataFrame({"x": [math.nan, *map(float, range(300)), math.nan]})
    assert con.sql("SELECT picky(x) FROM frame").fetchall() == [(x,) for x in range(2, 300, 3)]
    assert len(asked) == 302
    con.set("pipeline.error-policy", "fail")
    with pytest.raises(ms.errors.RunError, match=r"'text' is no BIGINT.* for picky\(3.0\)"):
        con.sql("SELECT picky(x) FROM frame WHERE x = 3").fetchall()
    with pytest.raises(ms.errors.RunError, match=r"SystemExit: 1 for picky\(1.0\)"):
        con.sql("SELECT picky(x) FROM frame WHERE x = 1").fetchall()


def test_rows_with_equal_arguments_share_a_call_if_the_function_is_deterministic(con: ms.Session) -> None:
    asked: Counter[str] = Counter()

    async def looked_up(ip: str | None, tags: Any) -> str:
        asked[f"{ip} {tags}"] += 1
        await asyncio.sleep(0)
        return f"{ip}{len(tags)}"

    options: dict[str, Any] = {"returns": "STRING", "takes": ["STRING", "ARRAY<STRING>"]}
    con.register_function(ms.udf(name="shared", **options)(looked_up))
    con.register_function(ms.udf(name="single", deterministic=False, **options)(looked_up))
    frame = pl.DataFrame({"ip": ["a", "b", None] * 100, "tags": [["t"]] * 300})
    # The 300 rows are few buffers.
    for name, least, most in (("shared", 1, 5), ("single", 100, 100)):
        asked.clear()
        assert con.sql(f"SELECT {name}(ip, tags) FROM frame").fetchall() == [("a1",), ("b1",), ("None1",)] * 100
        assert len(asked) == 3 and all(least <= calls <= most for calls in asked.values())


def test_conditions_windows_and_other_functions(con: ms.Session) -> None:
    @ms.udf
    async def half(x: int | None) -> int | None:
        await asyncio.sleep(0.001)
        return None if x is None else x // 2

    con.register_function(half)
    numbers = pl.DataFrame({"x": [1, 2, None, 7]})
    assert con.sql("SELECT half(x) FROM numbers").fetchall() == [(0,), (1,), (None,), (3,)]
    assert con.sql("SELECT x, half(half(x)) FROM numbers WHERE half(x) >= 1").fetchall() == [(2, 0), (7, 1)]
    assert con.sql("SELECT half(9)").fetchall() == [(4,)]
    events = pl.DataFrame({"ms": range(1_000)}).select(ts=pl.from_epoch("ms", time_unit="ms"), n="ms")
    con.register("events", events, time="ts")
    counted = con.sql("""
        SELECT half(n), COUNT(*), half(COUNT(*)) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
        WHERE half(n) < 3 GROUP BY half(n), window_start, window_end
    """)
    assert sorted(counted.fetchall()) == [(0, 2, 1), (1, 2, 1), (2, 2, 1)]


@pytest.fixture
def stuck(con: ms.Session) -> Iterator[tuple[Callable[[], bool], list[str]]]:
    """A function `waits` that does not end by itself: whether it has begun, and what has become of its rows."""
    ends: list[str] = []
    begun = threading.Event()

    @ms.udf(capacity=10, deterministic=False)
    async def waits(x: int) -> int:
        begun.set()
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return x

    con.register_function(waits)
    con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
    yield lambda: begun.wait(20), ends


def ended_within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


def test_a_job_that_is_cancelled_cancels_what_is_under_way(con: ms.Session, stuck: Any) -> None:
    has_begun, ends = stuck
    frame = numbered(100)
    # Twice: the slots are free again.
    for number in (1, 2):
        job = con.submit("INSERT INTO hole SELECT waits(x) FROM frame")
        assert has_begun() and ended_within(20, lambda: bool(job.stats()))
        time.sleep(0.1)
        began = time.monotonic()
        job.cancel()
        # Typically a third of a second; a machine that is busy takes longer.
        assert time.monotonic() - began < 2.0
        assert job.state == "cancelled"
        assert ended_within(5, lambda: len(ends) == 10 * number)
    assert con.sql("SELECT waits(x) FROM frame").fetchall(timeout=0.1) == []
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_a_blocked_loop_holds_no_cancelled_query_up(con: ms.Session) -> None:
    release, begun = threading.Event(), threading.Event()
    asked: list[int] = []

    @ms.udf(deterministic=False)
    async def blocks(x: int) -> int:
        begun.set()
        release.wait(60)
        return x

    @ms.udf
    async def innocent(x: int) -> int:
        asked.append(x)
        return x

    con.register_function(blocks)
    con.register_function(innocent)
    con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
    frame = numbered(3)
    try:
        jobs = [con.submit("INSERT INTO hole SELECT blocks(x) FROM frame")]
        assert begun.wait(20)
        jobs.append(con.submit("INSERT INTO hole SELECT innocent(x) FROM frame"))
        assert ended_within(20, lambda: all(job.stats() for job in jobs))
        for job in jobs:
            began = time.monotonic()
            job.cancel()
            assert time.monotonic() - began < 2.0 and job.state == "cancelled"
    finally:
        release.set()
    # What was cancelled before it began never runs.
    assert con.sql("SELECT innocent(x + 10) FROM frame").fetchall() == [(10,), (11,), (12,)]
    assert asked == [10, 11, 12]


def test_interrupts_end_a_query_and_the_process_ends_while_calls_are_under_way() -> None:
    # What is not flushed before a fork is written by both processes.
    script = """
import asyncio, os, signal, sys, threading, time
import millstream as ms
con = ms.connect()
@ms.udf
async def waits(x: int) -> int:
    await asyncio.sleep(1_000)
    return x
con.register_function(waits)
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    con.sql("SELECT waits(x) FROM (VALUES (CAST(1 AS BIGINT))) AS t (x)").fetchall()
except KeyboardInterrupt:
    print("interrupted", flush=True)
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    con.sql("SELECT waits(1)").fetchall()
except KeyboardInterrupt:
    print("interrupted", flush=True)
child = os.fork()
if child == 0:
    try:
        con.sql("SELECT waits(1)")
    except ms.Error as error:
        print(error.code, flush=True)
    os._exit(0)
os.waitpid(child, 0)
reader = con.sql("SELECT waits(x) FROM (VALUES (CAST(1 AS BIGINT))) AS t (x)").batches()
time.sleep(0.1)
"""
    began = time.monotonic()
    result = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["interrupted", "interrupted", "MS1008"]
    assert time.monotonic() - began < 20


def test_what_is_bound_to_a_loop_can_be_kept(con: ms.Session) -> None:
    """A connection that the first call opens is that of all calls, in every query."""
    opened: list[asyncio.StreamWriter] = []
    ready = threading.Event()
    port: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while line := await reader.readline():
            writer.write(line.strip().upper() + b"\n")
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()

    serving = asyncio.new_event_loop()
    stop = asyncio.Event()
    server = threading.Thread(target=lambda: serving.run_until_complete(serve()))
    server.start()
    assert ready.wait(20)
    session: dict[str, Any] = {}

    @ms.udf(capacity=20)
    async def remote(text: str) -> str:
        if not session:
            session["lock"] = asyncio.Lock()
            session["connection"] = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", port[0]))
        reader, writer = await asyncio.shield(session["connection"])
        async with session["lock"]:
            writer.write(text.encode() + b"\n")
            line: bytes = await reader.readline()
        return line.decode().strip()

    con.register_function(remote)
    frame = pl.DataFrame({"s": [f"row {n}" for n in range(100)]})
    for _ in range(2):
        assert con.sql("SELECT remote(s) FROM frame").fetchall() == [(f"ROW {n}",) for n in range(100)]
    assert len(opened) == 1
    serving.call_soon_threadsafe(opened[0].close)
    serving.call_soon_threadsafe(stop.set)
    server.join(20)
    serving.close()


def test_a_task_of_a_function_does_not_end_the_loop(con: ms.Session) -> None:
    @ms.udf
    async def spawns(x: int) -> int:
        async def exits() -> None:
            sys.exit(1)

        if x == 0:
            task = asyncio.ensure_future(exits())
            await asyncio.wait([task])
            assert isinstance(task.exception(), SystemExit)
        if x == 1:
            task = asyncio.ensure_future(asyncio.sleep(1_000))
            task.cancel()
            await task
        return x

    con.register_function(spawns)
    con.set("pipeline.error-policy", "skip")
    frame = numbered(4)
    assert con.sql("SELECT spawns(x) FROM frame").fetchall() == [(0,), (2,), (3,)]


def test_a_job_with_checkpoints(tmp_path: Any) -> None:
    for _ in range(2):
        with ms.connect(state_dir=tmp_path / "state") as con:

            @ms.udf
            async def tripled(n: int) -> int:
                await asyncio.sleep(0.001)
                return 3 * n

            con.register_function(tripled)
            con.execute(f"""
                CREATE TABLE events (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
                    'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000');
                CREATE TABLE file (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / "out"}', 'format' = 'csv')
            """)
            job = con.submit("INSERT INTO file SELECT tripled(n) FROM events")
            assert ended_within(20, lambda: job.stats().get("rows_out", 0) > 100)
            job.checkpoint()
            job.stop()
            job.wait()
    written = sorted(int(line) for file in (tmp_path / "out").iterdir() if file.is_file() for line in file.read_text().split())
    assert len(written) > 200 and written == list(range(3, 3 * len(written) + 1, 3))


def test_all_that_gives_a_coroutine_is_an_async_function(con: ms.Session) -> None:
    class Adder:
        async def __call__(self, x: int) -> int:
            return x + 1

    async def added(n: int, x: int) -> int:
        return x + n

    con.register_function(ms.udf(name="adder", capacity=1)(Adder()))
    con.register_function(ms.udf(name="ten_more", retries=1)(functools.partial(added, 10)))
    assert con.sql("SELECT adder(1), ten_more(1)").fetchall() == [(2, 11)]


def test_what_cannot_be_declared(con: ms.Session) -> None:
    async def later(x: int) -> int:
        return x

    async def many(x: int) -> AsyncIterator[int]:
        yield x

    async def nothing() -> int:
        return 1

    wrong: Any = ms.udf
    for options in ({"by": "column"}, {"processes": 2}, {"arrow": "polars"}, {"by": "column", "arrow": "polars"}):
        with pytest.raises(TypeError, match="an async function is called by row, in this process"):
            wrong(returns="BIGINT", **options)(later)
    for option, value in {"capacity": 1, "timeout": "1s", "retries": 0, "retry_delay": "1s", "retry_on": (OSError,)}.items():
        with pytest.raises(TypeError, match=f"{option} is for an async function"):
            wrong(returns="BIGINT", **{option: value})(lambda x: x)
    for option, value, message in (
        ("capacity", 0, "capacity is a whole number from 1, not 0"),
        ("capacity", 1.5, "capacity is a whole number"),
        ("retries", -1, "retries is a whole number from 0"),
        ("timeout", "0s", "timeout is longer than 0"),
        ("timeout", 5, "a duration is a string"),
        ("timeout", "soon", "is not a duration"),
        ("retry_delay", "later", "is not a duration"),
        ("retry_on", OSError, "retry_on is a tuple of classes of exceptions"),
        ("retry_on", (asyncio.CancelledError,), "retry_on is a tuple"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            wrong(**{option: value})(later)
    with pytest.raises(TypeError, match="an async generator gives many values"):
        ms.udf(many)
    with pytest.raises(TypeError, match="without arguments"):
        ms.udf(nothing)
    con.register_function(ms.udf(returns="BIGINT", name="open_ended")(lambda *x: later(*x)))
    with pytest.warns(RuntimeWarning, match="never awaited"), pytest.raises(ms.errors.RunError, match="coroutine object .* is no BIGINT"):
        con.sql("SELECT open_ended(1)").fetchall()
