"""Aggregate functions of Python in SQL."""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millstream as ms


@ms.udaf
def second_largest(values: list[float]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[-2] if len(known) > 1 else None


@ms.udaf(state="ROW<total DOUBLE, weight DOUBLE>")
class WeightedMean:
    def create(self) -> tuple[float, float]:
        return 0.0, 0.0

    def accumulate(self, state: dict[str, float] | tuple[float, float], value: float | None, weight: float | None) -> Any:
        total, weights = state.values() if isinstance(state, dict) else state
        if value is None or weight is None:
            return total, weights
        return total + value * weight, weights + weight

    def merge(self, state: Any, other: Any) -> Any:
        one, two = (tuple(s.values()) if isinstance(s, dict) else s for s in (state, other))
        return one[0] + two[0], one[1] + two[1]

    def finish(self, state: Any) -> float | None:
        total, weights = state.values() if isinstance(state, dict) else state
        return total / weights if weights else None


class Largest:
    """The largest numbers, as an ARRAY that is changed in its place."""

    def create(self) -> list[int]:
        return []

    def accumulate(self, state: list[int], number: int) -> None:
        state.append(number)
        state.sort(reverse=True)
        del state[3:]

    def merge(self, state: list[int], other: list[int]) -> None:
        for number in other:
            self.accumulate(state, number)

    def finish(self, state: list[int]) -> str:
        return " ".join(map(str, state))


@pytest.fixture
def functions(con: ms.Session) -> ms.Session:
    con.register_function(second_largest)
    con.register_function(WeightedMean)
    con.register_function(ms.udaf(Largest, state="ARRAY<BIGINT>", name="largest"))
    return con


def test_groups_nulls_filter_and_having(functions: ms.Session) -> None:
    df = pl.DataFrame({"k": ["a", "a", "a", "b", "c", "c"], "x": [1.0, 5.0, 3.0, 9.0, None, 2.0], "keep": [True, False, True, True, True, True]})
    rows = functions.sql("SELECT k, second_largest(x) FROM df GROUP BY k").fetchall()
    assert df.height == 6 and sorted(rows) == [("a", 3.0), ("b", None), ("c", None)]
    rows = functions.sql("SELECT k, second_largest(x) FILTER (WHERE keep) FROM df GROUP BY k HAVING second_largest(x) > 2").fetchall()
    assert rows == [("a", 1.0)]
    assert functions.sql("SELECT second_largest(x), COUNT(*), second_largest(DISTINCT x) FROM df").fetchall() == [(5.0, 6, 5.0)]
    # No rows, no result.
    assert functions.sql("SELECT second_largest(x) FROM df WHERE x > 100").fetchall() == [(None,)]


def test_a_state_gives_the_result_of_all_rows(functions: ms.Session) -> None:
    df = pl.DataFrame({"k": [n % 3 for n in range(20_000)], "x": [float(n) for n in range(20_000)], "w": [float(n % 7) for n in range(20_000)]})
    rows = functions.sql("SELECT k, WeightedMean(x, w), largest(CAST(x AS BIGINT)) FROM df GROUP BY k").fetchall()
    assert len(rows) == 3
    for k, mean, largest in rows:
        group = df.filter(pl.col("k") == k)
        pairs = list(zip(group["x"].to_list(), group["w"].to_list(), strict=True))
        assert mean == pytest.approx(sum(x * w for x, w in pairs) / sum(w for _, w in pairs), rel=1e-9)
        assert largest == " ".join(str(int(x)) for x in sorted(group["x"], reverse=True)[:3])
    assert functions.sql("SELECT WeightedMean(x, w), largest(1) FROM df WHERE k > 5").fetchall() == [(None, "")]


def test_plans_name_the_functions_of_states(functions: ms.Session) -> None:
    df = pl.DataFrame({"k": [1], "n": [1]})
    text = functions.sql("SELECT k, largest(n), SUM(n) FROM df GROUP BY k").explain()
    assert df.height == 1 and "components [FOLD(largest in ARRAY<BIGINT>), SUM" in text.replace("SumI64", "SUM")
    functions.register("t", pl.DataFrame({"at": [ms_of(1)], "n": [1]}), time="at")
    # The argument of OVER is a column by then.
    assert "components [FOLD]" in functions.sql("SELECT largest(n) OVER (ORDER BY at) FROM t").explain()


def test_windows_and_over(functions: ms.Session) -> None:
    functions.execute("""
        CREATE TABLE bids (at TIMESTAMP(3), price BIGINT, WATERMARK FOR at AS at) WITH ('connector' = 'datagen', 'number-of-rows' = '5000',
            'rows-per-second' = '100000000', 'fields.price.kind' = 'sequence', 'fields.price.start' = '1', 'fields.price.end' = '5000')
    """)
    source = [(ms_of(n), n) for n in range(1, 101)]
    functions.register_source("t", source, {"at": "TIMESTAMP(3)", "n": "BIGINT"}, time="at", bounded=True)
    windows = functions.sql("""
        SELECT window_start, largest(n), second_largest(CAST(n AS DOUBLE)), WeightedMean(CAST(n AS DOUBLE), 1.0e0)
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
    """).fetchall()
    expected = []
    for start in range(0, 101, 10):
        numbers = [n for _, n in source if start <= n < start + 10]
        largest = sorted(numbers, reverse=True)
        expected.append((" ".join(map(str, largest[:3])), largest[1] if len(largest) > 1 else None, statistics.mean(numbers)))
    assert [row[1:] for row in windows] == expected
    hops = functions.sql("""
        SELECT window_end, largest(n) FROM TABLE(HOP(TABLE t, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
        GROUP BY window_start, window_end
    """).fetchall()
    assert len(hops) == 22 and hops[1][1] == "9 8 7"
    over = functions.sql("""
        SELECT n, largest(n) OVER w, second_largest(CAST(n AS DOUBLE)) OVER w FROM t
        WINDOW w AS (ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
    """).fetchall()
    assert over[:3] == [(1, "1", None), (2, "2 1", 1.0), (3, "3 2 1", 2.0)] and over[-1] == (100, "100 99 98", 99.0)


def ms_of(second: int) -> Any:
    from datetime import datetime, timedelta

    return datetime(2026, 1, 1) + timedelta(seconds=second)


@given(values=st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(-(2**62), 2**62)), st.one_of(st.none(), st.text(max_size=4)))))
def test_arguments_of_several_types_arrive(values: list[tuple[int, int | None, str | None]]) -> None:
    seen: dict[str, list[Any]] = {}

    @ms.udaf(returns="STRING", takes=["BIGINT", "STRING", "ARRAY<STRING>"])
    def joined(numbers: list[Any], texts: list[Any], lists: list[Any]) -> str:
        assert lists == [[text] for text in texts]
        return repr(list(zip(numbers, texts, strict=True)))

    with ms.connect(settings={"parallelism.default": 1}) as con:
        con.register_function(joined)
        df = pl.DataFrame(values, schema={"k": pl.Int64, "n": pl.Int64, "s": pl.String}, orient="row")
        rows = con.sql("SELECT k, joined(n, s, ARRAY[s]) FROM df GROUP BY k").fetchall() if values else []
        assert df.height == len(values)
    for k, n, s in values:
        seen.setdefault(str(k), []).append((n, s))
    assert {str(k): text for k, text in rows} == {k: repr(list_) for k, list_ in seen.items()}


@pytest.mark.parametrize("arrow", [None, "polars", "pyarrow", "numpy"])
def test_by_column(con: ms.Session, arrow: Any) -> None:
    def total(values: Any) -> float:
        if arrow is None:
            return float(sum(values.to_list()))
        return float(values.to_numpy(zero_copy_only=False).sum()) if arrow == "pyarrow" else float(values.sum())

    class Sum:
        def create(self) -> float:
            return 0.0

        def accumulate(self, state: float, values: Any) -> float:
            return state + total(values)

        def merge(self, state: float, other: float) -> float:
            return state + other

        def finish(self, state: float) -> float:
            return state

    con.register_function(ms.udaf(returns="DOUBLE", takes=["DOUBLE"], by="column", arrow=arrow, name="total")(total))
    con.register_function(ms.udaf(returns="DOUBLE", takes=["DOUBLE"], state="DOUBLE", by="column", arrow=arrow, name="folded")(Sum))
    df = pl.DataFrame({"k": [n % 2 for n in range(5_000)], "x": [float(n) for n in range(5_000)]})
    rows = con.sql("SELECT k, total(x), folded(x) FROM df GROUP BY k").fetchall()
    assert df.height == 5_000
    assert sorted(rows) == [(k, float(sum(range(k, 5_000, 2))), float(sum(range(k, 5_000, 2)))) for k in range(2)]


def test_exceptions_arrive_with_their_cause(con: ms.Session) -> None:
    @ms.udaf(returns="DOUBLE", takes=["DOUBLE"])
    def broken(values: list[float]) -> float:
        raise LookupError("nothing here")

    class Broken(Largest):
        def accumulate(self, state: list[int], number: int) -> None:
            if number == 1_500:
                raise OverflowError("too large")
            super().accumulate(state, number)

    con.register_function(broken)
    con.register_function(ms.udaf(returns="STRING", takes=["BIGINT"], state="ARRAY<BIGINT>", name="broken_state")(Broken))
    df = pl.DataFrame({"x": range(3_000)})
    for call, cause in (("broken(x)", LookupError), ("broken_state(x)", OverflowError)):
        with pytest.raises(ms.errors.RunError) as caught:
            con.sql(f"SELECT {call} FROM df").fetchall()
        assert isinstance(caught.value.__cause__, cause), call
    assert df.height == 3_000
    for wrong, message in ((lambda: None, "returned None"), (lambda: "text", "no ARRAY")):
        kind = type("Wrong", (Largest,), {"create": lambda self, wrong=wrong: wrong(), "accumulate": lambda self, state, number: None})
        con.register_function(ms.udaf(returns="STRING", takes=["BIGINT"], state="ARRAY<BIGINT>", name="wrong")(kind))
        with pytest.raises(ms.errors.RunError, match=message):
            con.sql("SELECT wrong(x) FROM df").fetchall()


def test_what_is_no_aggregate_function(con: ms.Session) -> None:
    async def later(x: list[float]) -> float:
        return 0.0

    class Half:
        def create(self) -> int:
            return 0

    def untyped(x):  # type: ignore[no-untyped-def]
        return 0.0

    refused: list[tuple[Any, dict[str, Any], str]] = [
        (later, {}, "cannot be async"),
        (Half, {"state": "INT"}, "lacks accumulate, merge, finish"),
        (Largest, {}, "needs `state`"),
        (untyped, {"returns": "DOUBLE"}, "the type of `x` is not known"),
        (untyped, {"takes": ["DOUBLE"]}, "the result"),
        (untyped, {"state": "INT", "returns": "INT", "takes": ["INT"]}, "a state is for a class"),
    ]
    for function, options, message in refused:
        with pytest.raises(TypeError, match=message):
            ms.udaf(**options)(function)
    with pytest.raises(ms.errors.ConfigurationError, match="no parameters"):
        con.register_function(ms.udaf(returns="INT", takes=[], name="none")(lambda: 1))
    con.register_function(second_largest)
    for query, message in (
        ("SELECT x FROM (VALUES (1.0e0)) AS t (x) WHERE second_largest(x) > 1", "cannot stand in WHERE"),
        ("SELECT second_largest(x, x) FROM (VALUES (1.0e0)) AS t (x)", "takes 1 argument, not 2"),
        ("SELECT second_largest('a') FROM (VALUES (1.0e0)) AS t (x)", "second_largest"),
        ("SELECT second_largest(x ORDER BY x) FROM (VALUES (1.0e0)) AS t (x)", "a clause within second_largest"),
    ):
        with pytest.raises(ms.errors.QueryError, match=message):
            con.sql(query).fetchall()
    con.register_function(WeightedMean)
    with pytest.raises(ms.errors.QueryError, match="DISTINCT"):
        con.sql("SELECT WeightedMean(DISTINCT x, x) FROM (VALUES (1.0e0)) AS t (x)")


def test_static_methods_do(con: ms.Session) -> None:
    class Product:
        @staticmethod
        def create() -> float:
            return 1.0

        @staticmethod
        def accumulate(state: float, one: float, two: float) -> float:
            return state * one * two

        @classmethod
        def merge(cls, state: float, other: float) -> float:
            return state * other

        @staticmethod
        def finish(state: float) -> float:
            return state

    product = ms.udaf(Product, state="DOUBLE")
    con.register_function(product)
    assert product.takes == ["DOUBLE", "DOUBLE"]
    assert con.sql("SELECT Product(x, x) FROM (VALUES (2.0e0), (3.0e0)) AS t (x)").fetchall() == [(36.0,)]
    with pytest.raises(TypeError, match="SQL calls it"):
        product()


def test_a_state_takes_little_memory_and_few_calls(con: ms.Session) -> None:
    calls = 0

    class Count:
        def create(self) -> int:
            return 0

        def accumulate(self, state: int, values: Any) -> int:
            nonlocal calls
            calls += 1
            return state + len(values)

        def merge(self, state: int, other: int) -> int:
            return state + other

        def finish(self, state: int) -> int:
            return state

    con.register_function(ms.udaf(Count, returns="BIGINT", takes=["STRING"], state="BIGINT", by="column", name="counted"))
    con.set("pipeline.memory", "32 MB")
    con.set("pipeline.spill", "never")
    df = pl.DataFrame({"s": ["x" * 100]}).select(pl.col("s").repeat_by(400_000).explode())
    assert con.sql("SELECT counted(s) FROM df").fetchall() == [(df.height,)]
    assert calls < 2_000
    calls = 0
    rows = [(ms_of(n), "x" * 100) for n in range(3_000)]
    con.register_source("t", rows, {"at": "TIMESTAMP(3)", "s": "STRING"}, time="at", bounded=True)
    over = con.sql("SELECT counted(s) OVER (ORDER BY at) FROM t").fetchall()
    assert over == [(n + 1,) for n in range(3_000)]
    assert calls < 10_000


def test_two_of_one_name_are_not_merged(con: ms.Session) -> None:
    con.register_function(ms.udaf(returns="BIGINT", takes=["BIGINT"], name="f")(lambda x: len(x)))
    df = pl.DataFrame({"x": [1, 2, 3]})
    first = con.sql("SELECT f(x) AS n FROM df")
    con.register_function(ms.udaf(returns="BIGINT", takes=["BIGINT"], name="f")(lambda x: sum(x)))
    second = con.sql("SELECT f(x) AS n FROM df")
    both = con.sql("SELECT a.n, b.n FROM first AS a CROSS JOIN second AS b")
    assert df.height == 3 and both.fetchall() == [(3, 6)]


def test_an_aggregate_that_hangs_is_cancelled(con: ms.Session) -> None:
    began = threading.Event()

    class Hangs(Largest):
        def accumulate(self, state: list[int], number: int) -> None:
            began.set()
            while True:
                time.sleep(0.01)

    con.register_function(ms.udaf(returns="STRING", takes=["BIGINT"], state="ARRAY<BIGINT>", name="hangs")(Hangs))
    df = pl.DataFrame({"x": range(5_000)})
    job = con.sql("SELECT hangs(x) AS s FROM df").write_to(print)
    assert df.height == 5_000 and began.wait(10)
    start = time.monotonic()
    job.cancel()
    assert job.state == "cancelled" and time.monotonic() - start < 2.0


JOB = """
    import os, signal, sys, time
    import millstream as ms
    from datetime import datetime, timedelta

    class Total:
        def create(self): return 0
        def accumulate(self, state, n): return state + n
        def merge(self, state, other): return state + other
        def finish(self, state): return state

    def read(position):
        for first in range(position or 0, 6000, 20):
            time.sleep(0.001)
            yield first + 20, [(datetime(2026, 1, 1) + timedelta(milliseconds=n), n) for n in range(first, first + 20)]

    con = ms.connect(state_dir="state", settings={"execution.checkpointing.interval": "30 ms"})
    state = sys.argv[2]
    con.register_function(ms.udaf(returns="BIGINT", takes=["BIGINT"], state=state, name="total")(Total))
    con.register_function(ms.udaf(returns="BIGINT", takes=["BIGINT"], name="middle")(lambda ns: sorted(ns)[len(ns) // 2]))
    con.register_source("t", read, {"at": "TIMESTAMP(3)", "n": "BIGINT"}, positions=True, time="at")
    con.execute("CREATE TABLE out (s TIMESTAMP(3), total BIGINT, middle BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv')")
    job = con.submit("INSERT INTO out SELECT window_start, total(n), middle(n) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '4' SECOND)) GROUP BY window_start, window_end")
    if sys.argv[1] == "kill":
        while job.stats().get("checkpoints", {}).get("complete", 0) < 3:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)
    job.wait()
"""


def test_states_and_values_are_in_checkpoints(tmp_path: pathlib.Path) -> None:
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "job.py", *words], cwd=tmp_path, timeout=60, capture_output=True, text=True)

    assert run("kill", "BIGINT").returncode == -9
    other = run("end", "INT")
    assert other.returncode == 1 and "MS3013" in other.stderr, other.stderr
    done = run("end", "BIGINT")
    assert done.returncode == 0, done.stderr
    lines = sorted(line for path in (tmp_path / "out").iterdir() if path.is_file() for line in path.read_text().splitlines())
    assert [line.split(",")[1:] for line in lines] == [[str(sum(range(4000))), "2000"], [str(sum(range(4000, 6000))), "5000"]]
