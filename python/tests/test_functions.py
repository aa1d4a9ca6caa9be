"""Functions of Python in SQL."""

import dataclasses
import decimal
import functools
import importlib.util
import re
import subprocess
import sys
import threading
import time
from typing import Any

import millstream as ms
import numpy
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

numbers = pl.DataFrame({"x": [1, 2, None, 4], "s": ["a", "b", "c", None]})


@ms.udf(by="column", returns="BIGINT", arrow="polars")
def squared(x: pl.Series) -> pl.Series:
    return x * x


@ms.udf
def described(x: int | None, s: str | None) -> str:
    return f"{x}-{s}"


def test_a_function_by_column(con: ms.Session) -> None:
    con.register_function(squared)
    assert con.sql("SELECT squared(x) FROM numbers").fetchall() == [(1,), (4,), (None,), (16,)]
    assert con.sql("SELECT SQUARED(x) + 1 AS y FROM numbers WHERE squared(x) > 3").fetchall() == [(5,), (17,)]
    assert con.sql("SELECT MAX(squared(x)) FROM numbers").fetchall() == [(16,)]
    assert squared(pl.Series([3])).to_list() == [9]
    assert repr(squared) == "<Function: squared(…) RETURNS BIGINT, by column>"
    assert squared.__name__ == "squared"


def test_a_function_by_row_has_types_from_annotations(con: ms.Session) -> None:
    con.register_function(described)
    assert con.sql("SELECT described(x, s) FROM numbers").fetchall() == [("1-a",), ("2-b",), ("None-c",), ("4-None",)]
    assert described.takes == ["BIGINT", "STRING"] and described.returns == "STRING"
    assert con.sql("SELECT described(CAST(1 AS TINYINT), 'x')").fetchall() == [("1-x",)]
    with pytest.raises(ms.errors.QueryError, match="2 arguments"):
        con.sql("SELECT described(1)")
    with pytest.raises(ms.errors.QueryError):
        con.sql("SELECT described('x', 1)")


@pytest.mark.parametrize(
    ("arrow", "function"),
    [
        ("polars", lambda x: x.fill_null(0) + 1),
        ("pyarrow", lambda x: pc.add(pc.fill_null(x, 0), 1)),
        ("numpy", lambda x: numpy.nan_to_num(x.astype(float)).astype(numpy.int64) + 1),
        (None, lambda x: [(value or 0) + 1 for value in x.to_list()]),
    ],
)
def test_columns_come_as_is_asked(con: ms.Session, arrow: Any, function: Any) -> None:
    con.register_function(ms.udf(by="column", returns="BIGINT", arrow=arrow, name="next_one")(function))
    assert con.sql("SELECT next_one(x) FROM numbers").fetchall() == [(2,), (3,), (1,), (5,)]


@pytest.mark.parametrize(
    "text",
    ["TRUE", "CAST(1 AS TINYINT)", "2", "CAST(3 AS BIGINT)", "CAST(0.5 AS FLOAT)", "1e0", "1.50", "'ä'", "X'00FF'", "DATE '2020-02-29'"]
    + ["TIME '12:34:56.789'", "TIMESTAMP '1969-12-31 23:59:59.999999'", "TO_TIMESTAMP_LTZ(-1, 3)", "INTERVAL '1' DAY"]
    + ["INTERVAL '2' YEAR", "ARRAY[1, NULL]", "MAP['a', 1]", "ROW(1, 'x')", "ARRAY[ROW(1, ARRAY['a'])]", "CAST(NULL AS INT)"],
)
def test_values_of_every_type_go_in_and_out(con: ms.Session, text: str) -> None:
    relation = con.sql(f"SELECT {text} AS v")
    [data_type] = relation.types
    con.register_function(ms.udf(returns=data_type, name="same_row")(lambda value: value))
    con.register_function(ms.udf(returns=data_type, by="column", name="same_column")(lambda column: column))
    [(row, column, value)] = con.sql(f"SELECT same_row({text}), same_column({text}), {text}").fetchall()
    assert row == column == value


def test_functions_of_one_name_are_told_apart(con: ms.Session) -> None:
    con.register_function(ms.udf(returns="INT", name="f")(lambda: 1))
    first = con.sql("SELECT f() AS n")
    con.register_function(ms.udf(returns="INT", name="f")(lambda: 2))
    second = con.sql("SELECT f() AS n")
    assert (first.fetchall(), second.fetchall()) == ([(1,)], [(2,)])
    assert con.sql("SELECT first.n, second.n FROM first, second").fetchall() == [(1, 2)]


def test_an_exception_comes_with_its_cause_and_its_row(con: ms.Session) -> None:
    calls: list[int] = []

    @ms.udf
    def inverse(x: int) -> float:
        calls.append(x)
        return 1 / x

    con.register_function(inverse)
    frame = pl.DataFrame({"x": [*range(1, 5000), 0, *range(1, 5000)]})
    with pytest.raises(ms.errors.RunError) as caught:
        con.sql("SELECT inverse(x) FROM frame").fetchall()
    error = caught.value
    assert error.code == "MS3005"
    assert "ZeroDivisionError: division by zero for inverse(0)" in error.message and re.search(r"row \d+ of a buffer", error.message)
    assert error.place == "line 1, column 8"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__ is not None
    assert frame.height == 9999 and len(calls) < 100_000
    con.set("pipeline.error-policy", "skip")
    assert len(con.sql("SELECT inverse(x) FROM frame").fetchall()) == 9998


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: x.to_list()[1:], "returned 0 values for 1 row"),
        (lambda x: 1, "a function by column returns a column"),
        (lambda x: ["a", "b", "c", "d"], "'a' is no BIGINT"),
        (lambda x: pa.array(["a", "b", "c", "d"]), "cannot be read as BIGINT"),
        (lambda x: [2**70] * 4, "is no BIGINT"),
    ],
)
def test_a_result_that_does_not_fit(con: ms.Session, result: Any, message: str) -> None:
    con.register_function(ms.udf(returns="BIGINT", by="column", name="f")(result))
    with pytest.raises(ms.errors.RunError, match=message):
        con.sql("SELECT f(x) FROM numbers").fetchall()


def test_parts_do_not_stand_for_the_whole(con: ms.Session) -> None:
    con.register_function(ms.udf(returns="BIGINT", by="column", name="total")(lambda x: [sum(v or 0 for v in x.to_list())]))
    con.register_function(ms.udf(returns="BIGINT", by="column", name="unordered")(lambda x: {1, 2, 3, 4}))
    with pytest.raises(ms.errors.RunError, match="returned 1 value for 4 rows"):
        con.sql("SELECT total(x) FROM numbers").fetchall()
    with pytest.raises(ms.errors.RunError, match="a function by column returns a column"):
        con.sql("SELECT unordered(x) FROM numbers").fetchall()


def test_all_that_can_be_called_is_a_function(con: ms.Session) -> None:
    class Adder:
        def __call__(self, x: int | None) -> int | None:
            return None if x is None else x + 1

    @dataclasses.dataclass
    class Times:
        n: int

        def __call__(self, x: int) -> int:
            return x * self.n

    @functools.cache
    def doubled(x: int) -> int:
        return x * 2

    con.register_function(ms.udf(name="adder")(Adder()))
    con.register_function(ms.udf(name="power_of_two", returns="DOUBLE")(functools.partial(pow, 2)))
    con.register_function(ms.udf(name="times")(Times(3)))
    con.register_function(ms.udf(doubled))
    found = con.sql("SELECT adder(x), power_of_two(x), times(x), doubled(x) FROM numbers WHERE x = 4").fetchall()
    assert found == [(5, 16.0, 12, 8)]


def test_what_cannot_be_declared(con: ms.Session) -> None:
    with pytest.raises(TypeError, match="returns"):
        ms.udf(by="column")(lambda x: x)
    with pytest.raises(TypeError, match="its result"):
        ms.udf(lambda x: x)
    with pytest.raises(TypeError, match="is no type of SQL"):

        @ms.udf
        def f(x: complex) -> int:
            return 1

    with pytest.raises(ValueError, match="arrow"):
        ms.udf(arrow="polars")(lambda x: x)
    with pytest.raises(ms.errors.QueryError, match="data type"):
        con.register_function(ms.udf(returns="NUMBER", name="f")(lambda x: x))
    with pytest.raises(ms.errors.QueryError, match="built-in"):
        con.register_function(ms.udf(returns="INT", name="upper")(lambda x: x))
    with pytest.raises(ms.errors.ConfigurationError, match="name"):
        con.register_function(ms.udf(returns="INT")(lambda x: x))
    with pytest.raises(ms.errors.QueryError, match="did you mean"):
        con.register_function(described)
        con.sql("SELECT describet(1, 'a')")


def test_what_is_not_deterministic_makes_no_keys(con: ms.Session) -> None:
    con.register_function(ms.udf(returns="BIGINT", name="dice", deterministic=False)(lambda x: x))
    assert con.sql("SELECT dice(x) FROM numbers WHERE dice(x) > 1").fetchall() == [(2,), (4,)]
    assert con.sql("SELECT SUM(dice(x)) FROM numbers").fetchall() == [(7,)]
    for query in (
        "SELECT dice(x), COUNT(*) FROM numbers GROUP BY dice(x)",
        "SELECT k, COUNT(*) FROM (SELECT dice(x) AS k FROM numbers) GROUP BY k",
        "SELECT DISTINCT dice(x) FROM numbers",
        "SELECT * FROM numbers a JOIN numbers b ON dice(a.x) = b.x",
        "SELECT * FROM numbers a JOIN (SELECT dice(x) + 1 AS y FROM numbers) b ON a.x = b.y",
    ):
        with pytest.raises(ms.errors.QueryError, match="dice gives another value each time"):
            con.sql(query)


def test_a_job_does_not_resume_with_another_version(tmp_path: Any) -> None:
    def run(version: str) -> None:
        with ms.connect(state_dir=tmp_path / "state") as con:
            con.register_function(ms.udf(returns="BIGINT", name="bucket", version=version)(lambda n: n % 3))
            con.execute("""
                CREATE TABLE events (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
                    'rows-per-second' = '1000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000');
                CREATE TABLE hole (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole')
            """)
            con.execute("CREATE VIEW buckets AS SELECT ts, bucket(n) AS k FROM events")
            job = con.submit("""
                INSERT INTO hole SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE buckets, DESCRIPTOR(ts), INTERVAL '1' HOUR))
                GROUP BY k, window_start, window_end
            """)
            deadline = time.monotonic() + 20
            while job.stats().get("rows_in", 0) < 100 and job.state == "running" and time.monotonic() < deadline:
                time.sleep(0.01)
            job.stop()
            job.wait()

    run("1")
    run("1")
    with pytest.raises(ms.errors.RunError) as caught:
        run("2")
    assert caught.value.code == "MS3013"


def test_a_function_that_hangs_is_interrupted(con: ms.Session) -> None:
    caught: list[type[BaseException]] = []

    @ms.udf
    def hangs(x: int) -> int:
        try:
            while True:
                pass
        except BaseException as error:
            caught.append(type(error))
            raise

    con.register_function(hangs)
    con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
    job = con.submit("INSERT INTO hole SELECT hangs(x) FROM numbers")
    while not job.stats() or job._job.wait_within(0.2):
        pass
    began = time.monotonic()
    job.cancel()
    # Typically a third of a second; a machine that is busy takes longer.
    assert time.monotonic() - began < 2.0
    assert job.state == "cancelled"
    assert set(caught) == {ms.errors.Interrupted}
    batches = con.sql("SELECT hangs(x) FROM numbers").batches()
    threading.Timer(0.3, batches.close).start()
    began = time.monotonic()
    assert list(batches) == []
    assert time.monotonic() - began < 4.0
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_what_is_stuck_in_native_code_holds_nobody_up() -> None:
    script = """
import time, millstream as ms
con = ms.connect()
started = []
@ms.udf
def sleeps(x: int) -> int:
    started.append(x)
    time.sleep(1_000)
    return x
con.register_function(sleeps)
con.execute("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole')")
job = con.submit("INSERT INTO hole SELECT sleeps(CAST(n AS BIGINT)) FROM (VALUES (1), (2)) AS t (n)")
while not started:
    time.sleep(0.01)
began = time.monotonic()
try:
    job.cancel()
except ms.errors.RunError as error:
    print(error.code, time.monotonic() - began < 3)
print(ms.connect().sql("SELECT 1").fetchall(), job.state)
"""
    began = time.monotonic()
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert result.stdout.splitlines() == ["MS3019 True", "[(1,)] running"], result.stderr
    assert result.returncode == 0 and time.monotonic() - began < 30


def test_functions_in_other_processes(con: ms.Session, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_test.py").write_text("""
import os
import time
import millstream as ms

@ms.udf(processes=2)
def tripled(x: int | None) -> int | None:
    return None if x is None else 3 * x

@ms.udf(processes=1)
def fails(x: int) -> int:
    return {}[x]

@ms.udf(processes=1)
def dies(x: int) -> int:
    os._exit(1)

@ms.udf(processes=1)
def sleeps(x: int) -> int:
    time.sleep(1_000)
    return x

@ms.udf(by="column", returns="BIGINT", arrow="polars", processes=1)
def process(x):
    return x * 0 + os.getpid()
""")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    import os

    import of_test  # type: ignore[import-not-found]

    con.register_function(of_test.tripled)
    con.register_function(of_test.process)
    assert con.sql("SELECT tripled(x) FROM numbers").fetchall() == [(3,), (6,), (None,), (12,)]
    assert con.sql("SELECT process(x) FROM numbers").fetchone() != (os.getpid(),)
    con.register_function(of_test.fails)
    for _ in range(2):
        with pytest.raises(ms.errors.RunError, match="KeyError: 1"):
            con.sql("SELECT fails(x) FROM numbers WHERE x = 1").fetchall()
    con.register_function(of_test.dies)
    for _ in range(2):
        with pytest.raises(ms.errors.RunError, match="BrokenProcessPool"):
            con.sql("SELECT dies(x) FROM numbers WHERE x = 1").fetchall()
    con.register_function(of_test.sleeps)
    began = time.monotonic()
    assert con.sql("SELECT sleeps(x) FROM numbers WHERE x = 1").fetchall(timeout=1.0) == []
    assert time.monotonic() - began < 5
    with pytest.raises(ValueError, match="other processes"):

        @ms.udf(processes=1)
        def local(x: int) -> int:
            return x


def test_a_column_is_made_of_values() -> None:
    column = ms.Column([1, None], "DECIMAL(5, 2)")
    assert column.to_list() == [decimal.Decimal("1.00"), None]
    assert pa.array(column).type == pa.decimal128(5, 2)
    assert pl.Series(column).to_list() == column.to_list()
    with pytest.raises(ms.errors.QueryError):
        ms.Column([1], "NUMBER")
    assert ms.Column(pl.Series([1, 2]), "BIGINT").to_list() == [1, 2]
    assert ms.Column(pl.Series([None, None]), "STRING").to_list() == [None, None]
    assert ms.Column(pl.Series([[None], []]), "ARRAY<INT>").to_list() == [[None], []]


def test_many_workers_call_one_function(con: ms.Session) -> None:
    lengths: list[int] = []

    @ms.udf(by="column", returns="BIGINT", arrow="polars")
    def same(x: pl.Series) -> pl.Series:
        lengths.append(len(x))
        return x

    con.register_function(same)
    frame = pl.DataFrame({"x": range(1_000_000)})
    assert con.sql("SELECT SUM(same(x)) FROM frame").fetchall() == [(499_999_500_000,)]
    # A call a buffer.
    assert sum(lengths) == frame.height and len(lengths) < 200


def test_a_package_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "polars" else found(name, *rest))
    for make in (ms.udf, ms.udaf):
        with pytest.raises(ImportError, match="arrow='numpy' needs polars: pip install polars"):
            make(by="column", returns="INT", arrow="numpy")(lambda x: x)
    ms.udf(by="column", returns="INT", arrow="pyarrow")(lambda x: x)
