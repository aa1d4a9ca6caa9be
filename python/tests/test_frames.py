"""Data frames in and out."""

import asyncio
import datetime
import gc
import threading
import time
from typing import Any

import duckdb
import millstream as ms
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

source = pa.table({"k": [1, 2, 1], "s": ["a", "b", None], "x": [0.5, 1.5, 2.5]})
frame_of_module = pl.DataFrame({"n": [1, 2, 3]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: source,
        lambda: source.to_batches()[0],
        lambda: pl.from_arrow(source),
        lambda: source.to_pandas(),
        lambda: duckdb.from_arrow(source),
        lambda: source.to_reader(),
        lambda: ms.sql("SELECT * FROM source"),
    ],
    ids=["pyarrow", "batch", "polars", "pandas", "duckdb", "reader", "relation"],
)
def test_a_variable_is_a_table(make: Any) -> None:
    df = make()
    relation = ms.sql("SELECT k, COUNT(*) AS n, SUM(x) AS x, MAX(s) AS s FROM df GROUP BY k")
    assert df is not None
    assert sorted(relation.fetchall()) == [(1, 2, 3.0, "a"), (2, 1, 1.5, "b")]


def test_names_are_looked_up_where_sql_is_called() -> None:
    assert ms.sql("SELECT SUM(n) FROM frame_of_module").fetchall() == [(6,)]
    local = pl.DataFrame({"n": [4]})
    frame_of_module = pl.DataFrame({"n": [5]})
    assert ms.sql("SELECT l.n + m.n FROM local l JOIN frame_of_module m ON l.n < m.n").fetchall() == [(9,)]
    assert len(local) == len(frame_of_module) == 1


def test_a_table_of_the_catalog_is_found_first(con: ms.Session) -> None:
    con.execute("CREATE VIEW df AS SELECT 'catalog' AS s")
    df = pl.DataFrame({"s": ["variable"]})
    assert con.sql("SELECT s FROM df").fetchall() == [("catalog",)]
    assert df.height == 1


def test_frames_of_one_name_in_relations_of_relations() -> None:
    df = pl.DataFrame({"n": [1]})
    first = ms.sql("SELECT n FROM df")
    df = pl.DataFrame({"n": [10]})
    second = ms.sql("SELECT df.n + first.n AS n FROM df, first")
    df = pl.DataFrame({"n": [100]})
    assert ms.sql("SELECT df.n + second.n + first.n FROM df, second, first").fetchall() == [(112,)]
    assert df.height == 1


def test_a_frame_that_changes_does_not_change_the_query() -> None:
    df = pd.DataFrame({"n": [1, 2]})
    relation = ms.sql("SELECT SUM(n) FROM df")
    df["n"] = [100, 200]
    assert relation.fetchall() == [(3,)]


@pytest.mark.parametrize(
    "index",
    [pd.Index([7, 8, 9]), pd.Index(["a", "b", "c"], name="k"), pd.RangeIndex(5, 8), pd.date_range("2026-01-01", periods=3, name="n"),
     pd.MultiIndex.from_product([["a"], [1, 2, 3]])],
    ids=["numbers", "named", "range", "times", "levels"],
)
def test_the_index_of_a_pandas_frame_is_no_column(con: ms.Session, index: Any) -> None:
    df = pd.DataFrame({"n": [1, 2, 3]}).set_index(index)
    con.register("registered", df)
    relations = [con.sql("SELECT * FROM df"), con.sql("SELECT * FROM registered"), con.table(df)]
    for relation in relations:
        assert relation.columns == ["n"] and relation.fetchall() == [(1,), (2,), (3,)]
    # The frame keeps it, and may make columns of it.
    assert df.index.equals(index)
    reset = df.reset_index(names=[f"level{n}" for n in range(index.nlevels)])
    assert con.sql("SELECT * FROM reset").columns == [*reset.columns]


def test_rows_that_pandas_has_left_out_are_not_there(con: ms.Session) -> None:
    df = pd.DataFrame({"n": [3, 1, 2, 4]})
    kept = df[df["n"] != 1].sort_values("n", ascending=False)
    assert con.sql("SELECT * FROM kept").fetchall() == [(4,), (3,), (2,)]
    only_index = df.set_index("n")
    with pytest.raises(ms.errors.QueryError, match="no columns"):
        con.sql("SELECT * FROM only_index")
    assert kept.index.tolist() == [3, 0, 2] and only_index.index.tolist() == [3, 1, 2, 4]


def test_results_go_to_whoever_takes_arrow() -> None:
    relation = ms.sql("SELECT * FROM source")
    expected = source.to_pylist()
    assert relation.to_arrow().to_pylist() == expected
    assert relation.pl().to_dicts() == expected
    assert relation.df()["k"].tolist() == [1, 2, 1]
    assert pl.DataFrame(relation).to_dicts() == expected
    assert pa.table(relation).to_pylist() == expected
    assert pa.RecordBatchReader.from_stream(relation).read_all().to_pylist() == expected
    summed = duckdb.sql("SELECT SUM(k) FROM relation")
    assert summed is not None and summed.fetchall() == [(4,)]
    [batch] = relation.batches()
    assert batch.columns == ["k", "s", "x"] and batch.num_rows == len(batch) == 3
    assert batch.rows() == [(1, "a", 0.5), (2, "b", 1.5), (1, None, 2.5)]
    assert pa.record_batch(batch).to_pylist() == pa.table(batch).to_pylist() == expected
    wanted = pa.schema([("k", pa.int32()), ("s", pa.string()), ("x", pa.float32())])
    assert pa.table(relation, schema=wanted).schema == wanted
    assert ms.sql("SELECT 1 AS n WHERE FALSE").pl().schema == {"n": pl.Int32}
    assert ms.sql("SELECT COUNT(*) FROM relation").fetchall() == [(3,)]


def test_a_reader_is_read_once() -> None:
    reader = source.to_reader()
    relation = ms.sql("SELECT k FROM reader")
    assert len(relation.fetchall()) == 3
    with pytest.raises(ms.errors.ConnectorError, match="have been read"):
        relation.fetchall()
    assert reader is not None


def test_a_reader_is_read_while_the_query_runs() -> None:
    made = 0

    def batches() -> Any:
        nonlocal made
        for start in range(0, 1_000_000, 1000):
            made += 1
            yield pa.record_batch({"n": pa.array(range(start, start + 1000))})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())
    assert ms.sql("SELECT n FROM reader").fetchall(limit=5) == [(0,), (1,), (2,), (3,), (4,)]
    assert made < 1000
    assert reader is not None


def test_an_exception_of_a_reader_is_told() -> None:
    def batches() -> Any:
        yield pa.record_batch({"n": [1]})
        raise RuntimeError("the source is broken")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())
    with pytest.raises(ms.errors.ConnectorError, match="the source is broken"):
        ms.sql("SELECT n FROM reader").fetchall()
    assert reader is not None


@pytest.mark.parametrize("value", [3, [1, 2], {"a": 1}, pl.LazyFrame({"n": [1]}), pl.Series([1])])
def test_what_is_no_table(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="table|Schema"):
        ms.sql("SELECT * FROM value")


def test_columns_that_sql_has_no_type_for(con: ms.Session) -> None:
    df = pa.table({"months": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(ms.errors.QueryError, match="months"):
        con.sql("SELECT * FROM df")
    assert df.num_rows == 1


def test_a_registered_table_can_have_event_time(con: ms.Session) -> None:
    start = datetime.datetime(2026, 1, 1)
    rows = pl.DataFrame({
        "ts": [start + datetime.timedelta(seconds=s) for s in (0, 1, 12, 9, 25)],
        "price": [1, 2, 3, 4, 5],
    })
    con.register("bid", rows, time="ts", delay="5s")
    windows = con.sql("""
        SELECT window_start, COUNT(*) AS n, SUM(price) AS price
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
    """)
    at = [start + datetime.timedelta(seconds=s) for s in (0, 10, 20)]
    assert windows.fetchall() == [(at[0], 3, 7), (at[1], 1, 3), (at[2], 1, 5)]
    with pytest.raises(ms.Error, match="nothing"):
        con.register("other", rows, time="nothing")
    with pytest.raises(ms.Error, match="event time"):
        con.register("other", rows, time="price")
    con.register("bid", rows.head(2))
    assert windows.fetchall() == [(at[0], 3, 7), (at[1], 1, 3), (at[2], 1, 5)]
    # What is bounded has windows without event time.
    unordered = "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"
    assert con.sql(unordered).fetchall() == [(at[0], 2)]
    con.execute("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(ms.Error, match="is not a time attribute"):
        con.sql(unordered)
    con.execute("RESET 'execution.runtime-mode'")
    con.register("bid", rows, time="ts", delay="5s")
    with pytest.raises(ValueError, match="duration"):
        con.register("other", rows, time="ts", delay="soon")
    con.register("again", con.sql("SELECT * FROM bid"))
    assert con.sql("SELECT COUNT(*) FROM again").fetchall() == [(5,)]
    con.execute("DROP TABLE bid")
    assert con.tables() == ["again"]


def test_big_frames_are_read_in_pieces() -> None:
    df = pl.DataFrame({"n": range(1_000_000)})
    relation = ms.sql("SELECT n FROM df WHERE n >= 0")
    assert relation.pl()["n"].to_list() == list(range(1_000_000))
    assert all(batch.num_rows <= 131_072 for batch in relation.batches())
    assert df.height == 1_000_000


def test_async_iteration(endless: ms.Session) -> None:
    async def first(count: int) -> list[int]:
        found: list[int] = []
        async for batch in endless.sql("SELECT n FROM endless"):
            found.extend(n for (n,) in batch.rows())
            if len(found) >= count:
                break
        return found[:count]

    async def both() -> list[list[int]]:
        return list(await asyncio.gather(first(20), first(30)))

    assert [len(rows) for rows in asyncio.run(both())] == [20, 30]


def test_an_async_iteration_that_is_cancelled_ends(endless: ms.Session) -> None:
    async def wait() -> None:
        async for _ in endless.sql("SELECT n FROM endless WHERE n < 0"):
            pass

    async def run() -> None:
        await asyncio.wait_for(wait(), timeout=0.3)

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert time.monotonic() - began < 5


def test_dropping_a_reader_cancels_the_query(endless: ms.Session) -> None:
    relation = endless.sql("SELECT n FROM endless")
    threads = threading.active_count()
    for take in (
        lambda: next(relation.batches()),
        lambda: next(iter(pa.RecordBatchReader.from_stream(relation))),
    ):
        assert take() is not None
        began = time.monotonic()
        gc.collect()
        assert time.monotonic() - began < 5
    assert threading.active_count() <= threads + 1


def test_sessions_in_threads() -> None:
    found: list[Any] = []

    def work(number: int) -> None:
        df = pl.DataFrame({"n": [number] * 1000})
        for _ in range(5):
            found.append(ms.connect().sql("SELECT SUM(n), COUNT(*) FROM df").fetchall() == [(number * 1000, 1000)])
        assert df.height == 1000

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


def test_a_schema_is_matched_by_name_and_nothing_is_lost() -> None:
    relation = ms.sql("SELECT 300 AS a, 7 AS b")
    swapped = pa.schema([("b", pa.int64()), ("a", pa.int64())])
    assert pa.table(relation, schema=swapped).to_pylist() == [{"b": 7, "a": 300}]
    with pytest.raises(pa.ArrowInvalid):
        pa.table(relation, schema=pa.schema([("a", pa.int8()), ("b", pa.int8())]))
    with pytest.raises(ValueError, match="'c'"):
        pa.table(relation, schema=pa.schema([("c", pa.int8())]))


def test_expressions_see_the_function_around_them() -> None:
    local = pl.DataFrame({"n": [1]})
    assert [ms.sql("SELECT n FROM local").fetchall() for _ in range(2)] == [[(1,)], [(1,)]]
    assert (lambda: ms.sql("SELECT n FROM local").fetchall())() == [(1,)]
    assert local.height == 1


def test_a_table_whose_making_uses_the_session(con: ms.Session) -> None:
    class Lazy:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return con.sql("SELECT 1 AS n").__arrow_c_stream__(requested_schema)

    lazy = Lazy()
    assert con.sql("SELECT n FROM lazy").fetchall() == [(1,)]
    assert lazy is not None


@pytest.mark.parametrize("frame", [pl.DataFrame(), pd.DataFrame([[1, 2]], columns=["a", "a"])])
def test_frames_that_are_no_tables(frame: Any) -> None:
    with pytest.raises((ms.Error, ValueError)) as caught:
        ms.sql("SELECT * FROM frame")
    assert "SQL:1:19" not in str(caught.value)


def test_capsules_that_are_used_up() -> None:
    class Once:
        def __init__(self) -> None:
            self.capsules = pa.record_batch({"n": [1]}).__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
            return self.capsules

    once = Once()
    assert ms.sql("SELECT n FROM once").fetchall() == [(1,)]
    with pytest.raises(ValueError, match="once"):
        ms.sql("SELECT n FROM once")
    rows = pa.array([{"a": 1}, None])
    with pytest.raises((TypeError, ValueError)):
        ms.sql("SELECT * FROM rows")


def test_names_with_quotes() -> None:
    frame = pa.table({"a`b": [{"c`d": 1}]})
    assert ms.sql("SELECT `a``b` FROM frame").fetchall() == [({"c`d": 1},)]


def test_lists_of_texts_as_pandas() -> None:
    frame = ms.sql("SELECT ARRAY['a', 'b'] AS l, MAP['k', 'v'] AS m, ROW('x', 1) AS r, 's' AS s").df()
    assert list(frame["l"][0]) == ["a", "b"] and frame["s"][0] == "s"


def test_dropping_something_else_keeps_the_table(con: ms.Session) -> None:
    con.register("reg", source)
    for drop in ("DROP VIEW reg", "DROP FUNCTION reg"):
        with pytest.raises(ms.Error):
            con.execute(drop)
    con.execute("DROP FUNCTION IF EXISTS reg; CREATE TABLE other LIKE reg; DROP TABLE other")
    assert con.sql("SELECT COUNT(*) FROM reg").fetchall() == [(3,)]
    with pytest.raises(ms.Error) as caught:
        con.execute("CREATE TABLE x (k BIGINT) WITH ('connector' = 'memory', 'endless' = 'false', 'number' = '0')")
    assert caught.value.code == "MS4007"


def test_late_rows_are_told(con: ms.Session, caplog: pytest.LogCaptureFixture) -> None:
    start = datetime.datetime(2026, 1, 1)
    rows = pl.DataFrame({"ts": [start + datetime.timedelta(seconds=s) for s in (100, 1, 2, 3)]})
    con.register("events", rows, time="ts")
    windows = con.sql("""
        SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
    """)
    assert windows.fetchall() == [(1,)]
    assert "3 rows were late" in caplog.text
    caplog.clear()
    con.register("events", rows.head(2), time="ts")
    windows = con.sql("""
        SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
    """)
    assert windows.fetchall() == [(1,)]
    assert "1 row was late" in caplog.text


def test_a_timeout_ends_a_query_that_is_always_ready(con: ms.Session) -> None:
    con.execute("CREATE TABLE fast (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'fields.n.min' = '1', 'fields.n.max' = '2')")
    relation = con.sql("SELECT n FROM fast")
    began = time.monotonic()
    for _ in relation.batches(timeout=0.3):
        time.sleep(0.02)
    assert time.monotonic() - began < 3
    for timeout in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            relation.fetchall(timeout=timeout)

    async def fair() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        counting = asyncio.create_task(count())
        async for _ in relation.batches(timeout=0.5):
            pass
        counting.cancel()
        return turns

    assert asyncio.run(fair()) > 5


def test_dictionaries_within_rows() -> None:
    texts = pa.dictionary(pa.int32(), pa.string())
    # Of a row that is NULL the keys are any numbers.
    frame = pa.table({"c": pa.array([None, {"a": "x", "b": None}], pa.struct([("a", texts), ("b", texts)]))})
    assert ms.sql("SELECT * FROM frame").fetchall() == [(None,), ({"a": "x", "b": None},)]


KEYS: dict[str, list[int | None]] = {
    "dense": [5, 1, 3, 2, None, -4],
    "sparse": [5, 1 << 40, -(1 << 50), 2],
    "outermost": [-(1 << 63), (1 << 63) - 1, 0],
    "twice": [1, 2, 2, 3, None, None],
    "none": [],
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("dtype", [pl.Int64, pl.Int32, pl.Date, pl.String])
def test_joins_with_a_small_frame_are_those_of_polars(con: ms.Session, keys: str, dtype: type[pl.DataType]) -> None:
    def column(values: list[int | None]) -> pl.Series:
        wide = pl.Series("k", values, pl.Int64)
        return wide if dtype == pl.Int64 else wide.cast(pl.Int32, strict=False).cast(dtype)

    small = pl.DataFrame({"k": column([*KEYS[keys]]), "name": [f"a name that is not short {n}" for n in range(len(KEYS[keys]))]})
    probes = [*(key for values in KEYS.values() for key in values), *range(-10, 10), 4_000_000_000]
    events = pl.DataFrame({"k": column(probes * 40)}).with_row_index("id").with_columns(ts=pl.datetime(2026, 1, 1))
    for rows in (events, events.filter(pl.col("k").is_in(small["k"].implode()))):
        con.register(f"events{len(rows)}", rows, time="ts")
        big = f"events{len(rows)}"
        found = {
            "inner": con.sql(f"SELECT e.id, e.k, n.name FROM {big} e JOIN small n ON e.k = n.k"),
            "left": con.sql(f"SELECT e.id, e.k, n.name FROM {big} e LEFT JOIN small n ON e.k = n.k"),
            "semi": con.sql(f"SELECT e.id, e.k FROM {big} e WHERE EXISTS (SELECT 1 FROM small n WHERE e.k = n.k)"),
            "anti": con.sql(f"SELECT e.id, e.k FROM {big} e WHERE NOT EXISTS (SELECT 1 FROM small n WHERE e.k = n.k)"),
        }
        for how, relation in found.items():
            assert "probe lookup" in relation.explain()
            joined = rows.drop("ts").join(small, on="k", how=how)  # type: ignore[arg-type]
            assert sorted(map(str, relation.fetchall())) == sorted(map(str, joined.rows())), how


def test_whether_a_frame_has_nulls_is_no_part_of_its_types(con: ms.Session) -> None:
    without, with_null = pl.DataFrame({"n": [1, 2, 3]}), pl.DataFrame({"n": [1, None, 3]})
    assert con.sql("SELECT n FROM without").schema == con.sql("SELECT n FROM with_null").schema == {"n": "BIGINT"}
    counts = "SELECT COUNT(n), COUNT(*), SUM(n), MIN(CASE WHEN n IS NULL THEN 0 ELSE n END) FROM"
    assert con.sql(f"{counts} without").fetchall() == [(3, 3, 6, 1)]
    assert con.sql(f"{counts} with_null").fetchall() == [(2, 3, 4, 0)]


def test_rows_of_one_millisecond_are_not_late(con: ms.Session, caplog: pytest.LogCaptureFixture) -> None:
    frame = pl.DataFrame({"ts": (pl.int_range(4_000, eager=True) // 100).cast(pl.Datetime("ms"))})
    con.register("clicks", frame, time="ts")
    counts = con.sql("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '0.010' SECOND)) GROUP BY window_start, window_end")
    assert counts.fetchall() == [(1_000,)] * 4
    assert not caplog.records


def test_registering_again_replaces_data(con: ms.Session) -> None:
    con.register("t", pl.DataFrame({"a": [1, 2]}))
    before, text = con.sql("SELECT a FROM t"), con.sql("SELECT COUNT(*) AS n FROM t")
    con.register("t", pl.DataFrame({"b": ["x"]}))
    assert (before.fetchall(), text.fetchall()) == ([(1,), (2,)], [(2,)])
    assert con.sql("SELECT * FROM t").fetchall() == [("x",)]
    con.register("t", con.sql("SELECT b, 1 AS n FROM t"))
    assert con.sql("SELECT * FROM t").fetchall() == [("x", 1)]
    con.register("t", pl.DataFrame({"a": [3]}).to_arrow().to_reader())
    assert con.sql("SELECT * FROM t").fetchall() == [(3,)]
    with pytest.raises(ms.Error):
        con.register("t", pl.DataFrame({"a": [4]}), time="a")
    con.register("t", pl.DataFrame({"a": [5]}))
    assert con.sql("SELECT * FROM t").fetchall() == [(5,)]


def test_registering_replaces_only_data(con: ms.Session) -> None:
    con.execute("CREATE TABLE made (a INT) WITH ('connector' = 'blackhole'); CREATE VIEW seen AS SELECT 1 AS a")
    con.register_source("source", lambda: [], {"a": "INT"})
    con.register_sink("sink", lambda rows: None, {"a": "INT"})
    for name in ("made", "seen", "source", "sink"):
        with pytest.raises(ms.Error, match=f"there is a (table|view) '{name}' already") as caught:
            con.register(name, pl.DataFrame({"a": [1]}))
        assert caught.value.place is None
        assert caught.value.advice is not None and "take another name" in caught.value.advice
    con.register("data", pl.DataFrame({"a": [1]}))
    with pytest.raises(ms.Error, match="already"):
        con.register_source("data", lambda: [], {"a": "INT"})
    assert con.sql("SELECT * FROM data").fetchall() == [(1,)]


def test_programs_look_for_no_null_where_a_frame_has_none(con: ms.Session) -> None:
    con.register("t", pl.DataFrame({"a": [1, 2, 3], "b": [3, None, 3]}))
    relation = con.sql("SELECT a, b FROM t WHERE a > 1 AND b > 1")
    assert "(a: i64, b: i64?)" in relation.explain(codegen=True)
    assert relation.fetchall() == [(3, 3)]
    # A type does not follow from the rows.
    assert con.sql("SHOW CREATE TABLE t").fetchall()[0][0].count("NOT NULL") == 0
    con.register("t", pl.DataFrame({"a": [1, None, 3], "b": [3, 2, 3]}))
    assert "(a: i64?, b: i64)" in con.sql("SELECT a, b FROM t WHERE a > 1 AND b > 1").explain(codegen=True)
    assert con.sql("SELECT a, b FROM t WHERE a > 1 AND b > 1").fetchall() == [(3, 3)]


def test_an_index_is_no_event_time(con: ms.Session) -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime([1, 2], unit="s"), "n": [1, 2]}).set_index("ts")
    with pytest.raises(ValueError, match=r"`ts` is the index of the data frame, not a column: register frame.reset_index\(\)"):
        con.register("t", frame, time="ts")
    con.register("t", frame.reset_index(), time="ts")
    assert con.sql("SELECT SUM(n) FROM t").fetchall() == [(3,)]
