"""Millstream over data frames beside Polars and DuckDB, functions of Python, and memory: `make bench-python`.

Every figure is a ratio of medians of runs that alternate, in one process: 2.0 is twice as fast as the other. Their order changes from
round to round, for what one leaves behind, in caches and in threads that still spin, costs the next.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import duckdb
import millstream as ms
import polars as pl
import pyarrow as pa

Work = Callable[[], Any]


def medians(rounds: int, *works: Work) -> list[float]:
    """Seconds of each, the median of runs that alternate after one that does not count."""
    taken: list[list[float]] = [[] for _ in works]
    order, pairs = random.Random(0), list(zip(taken, works, strict=True))
    for number in range(rounds + 1):
        order.shuffle(pairs)
        for times, work in pairs:
            began = time.perf_counter()
            work()
            if number > 0:
                times.append(time.perf_counter() - began)
    return [statistics.median(times) for times in taken]


def compared(name: str, rows: int, rounds: int, ours: Work, **others: Work) -> None:
    own, *rest = medians(rounds, ours, *others.values())
    ratios = ", ".join(f"{seconds / own:.2f} of {other}" for other, seconds in zip(others, rest, strict=True))
    print(f"{name}: {own * 1e3:.0f} ms, {rows / own / 1e6:.0f} M rows/s; {ratios}", flush=True)


def events(rows: int) -> pl.DataFrame:
    """Views of ads of a thousand campaigns, a hundred thousand a second, in order."""
    number = pl.int_range(rows, eager=True)
    millis = 1_700_000_000_000 + number // 100
    return pl.DataFrame({
        "ts": millis.cast(pl.Datetime("ms")),
        "campaign": (number * 7_919) % 1_000,
        "kind": pl.select(pl.lit(number % 3)).to_series().replace_strict([0, 1, 2], ["view", "click", "purchase"]),
        "price": (number * 31) % 997,
    })


def frames(rows: int, rounds: int) -> None:
    frame = events(rows)
    names = pl.DataFrame({"campaign": range(1_000), "name": [f"campaign {n}" for n in range(1_000)]})
    con = ms.connect()
    con.register("events", frame, time="ts")
    tumble = con.sql("""
        SELECT window_start, campaign, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY campaign, window_start, window_end
    """)
    ysb = con.sql("""
        SELECT window_start, campaign, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        WHERE kind = 'view' GROUP BY campaign, window_start, window_end
    """)
    joined = con.sql("SELECT e.price, n.name FROM events e JOIN names n ON e.campaign = n.campaign WHERE e.price < 100")
    window = pl.col("ts").dt.truncate("10s").alias("window_start")
    bucket = "time_bucket(INTERVAL 10 SECONDS, ts)"
    db = duckdb.connect()
    db.register("frame", frame)
    db.register("names", names)
    compared(
        "tumbling counts",
        rows,
        rounds,
        lambda: pl.DataFrame(tumble),
        Polars=lambda: frame.lazy().group_by(window, "campaign").len().collect(),
        DuckDB=lambda: db.sql(f"SELECT {bucket} AS w, campaign, COUNT(*) AS n FROM frame GROUP BY ALL").pl(),
    )
    compared(
        "YSB counts",
        rows,
        rounds,
        lambda: pl.DataFrame(ysb),
        Polars=lambda: frame.lazy().filter(pl.col("kind") == "view").group_by(window, "campaign").len().collect(),
        DuckDB=lambda: db.sql(f"SELECT {bucket} AS w, campaign, COUNT(*) AS n FROM frame WHERE kind = 'view' GROUP BY ALL").pl(),
    )
    compared(
        "join with a bounded frame",
        rows,
        rounds,
        lambda: pl.DataFrame(joined),
        Polars=lambda: frame.lazy().filter(pl.col("price") < 100).join(names.lazy(), on="campaign").select("price", "name").collect(),
        DuckDB=lambda: db.sql("SELECT e.price, n.name FROM frame e JOIN names n USING (campaign) WHERE e.price < 100").pl(),
    )


def functions(rows: int, rounds: int) -> None:
    frame = pl.DataFrame({"x": pl.int_range(rows, eager=True).cast(pl.Float64)})
    con = ms.connect()

    @ms.udf(by="column", returns="DOUBLE", arrow="polars")
    def by_column(x: pl.Series) -> pl.Series:
        return x * 2.0 + 1.0

    @ms.udf
    def by_row(x: float) -> float:
        return x * 2.0 + 1.0

    con.register_function(by_column)
    con.register_function(by_row)
    few = frame.head(rows // 20)
    fast, slow = con.sql("SELECT by_column(x) AS y FROM frame"), con.sql("SELECT by_row(x) AS y FROM few")
    # As many rows in a call as the engine gives it.
    pieces = list(frame.iter_slices(131_072))
    assert sum(map(len, pieces)) == rows
    called = pl.col("x").map_batches(by_column, return_dtype=pl.Float64)
    own, by_polars, by_loop, by_rows = medians(
        rounds,
        lambda: pl.DataFrame(fast),
        lambda: pl.concat([piece.select(called) for piece in pieces]),
        lambda: pl.concat([by_column(piece["x"]) for piece in pieces]),
        lambda: pl.DataFrame(slow),
    )
    print(
        f"a function by column over {rows / 1e6:.0f} M rows, from the frame to the frame: {own * 1e3:.0f} ms; {own / by_polars:.2f} times as long "
        f"as Polars takes to call it for the same batches, {own / by_loop:.2f} times as long as a loop of Python; {by_rows * 20 / own:.0f} times "
        f"as fast as by row",
        flush=True,
    )


def async_functions(rounds: int) -> None:
    rows, latency = 10_000, 0.005
    frame = pl.DataFrame({"x": range(rows)})
    con = ms.connect()

    async def answered(x: int) -> int:
        await asyncio.sleep(latency)
        return x

    for capacity in (10, 100, 1_000):
        con.register_function(ms.udf(capacity=capacity)(answered))
        [taken] = medians(rounds, con.sql("SELECT SUM(answered(x)) FROM frame").fetchall)
        print(
            f"an async function of 5 ms, capacity {capacity}: {rows / taken:.0f} rows/s, {rows * latency / taken:.0f} times as fast as one "
            f"after another",
            flush=True,
        )


MEMORY = """
import resource, sys
import millstream as ms
import numpy
import pyarrow as pa
rows = int(sys.argv[1])
def held():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
data = numpy.arange(rows, dtype=numpy.int64)
table = pa.table({name: pa.array(data + number) for number, name in enumerate("abcd")})
small = table.slice(0, 1_000_000)
for _ in pa.RecordBatchReader.from_stream(ms.sql("SELECT * FROM small")):
    pass
before, total = held(), 0
for batch in pa.RecordBatchReader.from_stream(ms.sql("SELECT * FROM `table` WHERE a >= 0")):
    total += batch.num_rows
assert total == rows
print(held() - before, table.nbytes)
"""


def memory(rows: int) -> None:
    result = subprocess.run([sys.executable, "-c", MEMORY, str(rows)], capture_output=True, text=True, check=True)
    grown, size = map(int, result.stdout.split())
    print(f"{size / 1e9:.2f} GB of Arrow in, through and out: the peak of memory grows by {grown / 1e6:.0f} MB, {grown / size:.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(f"millstream {ms.__version__}, polars {pl.__version__}, duckdb {duckdb.__version__}, pyarrow {pa.__version__}", flush=True)
    memory(32_000_000)
    functions(arguments.rows, arguments.rounds)
    async_functions(arguments.rounds)
    frames(arguments.rows, arguments.rounds)
    print(f"peak of memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()
