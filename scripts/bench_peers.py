"""DuckDB or Polars for the benchmarks: runs one query over files or over rows in memory, once for each line of input.

usage: bench_peers.py duckdb|polars QUERY FORMAT PATH THREADS

QUERY is q1, q2, tumbling (Nexmark over bids) or ysb; FORMAT is ndjson, parquet, or memory: a Parquet file that is loaded
into the system's own columns before the first query. Says `ready`, and then answers each line of standard input with a
line of JSON: the seconds from the start of the query until its result is in memory, and the checksum of that
(docs/benchmarks.md), which is computed outside of the measured time, for the first line only. Of the two engines of
Polars the one that is faster for the query is taken.
"""

import json
import os
import sys
import time

system, query, form, path, threads = sys.argv[1:6]
# Polars reads this when it is imported.
os.environ["POLARS_MAX_THREADS"] = threads

import pyarrow

from bench_checksum import checksum

BID = {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "VARCHAR", "url": "VARCHAR",
       "dateTime": "BIGINT", "extra": "VARCHAR"}


def duckdb_query():
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {int(threads)}")
    # All systems may give the rows in any order.
    connection.execute("SET preserve_insertion_order = false")
    if form == "ndjson":
        wanted = {"q1": ["auction", "bidder", "price", "dateTime", "extra"], "q2": ["auction", "price"],
                  "tumbling": ["bidder", "dateTime"]}[query]
        columns = ", ".join(f"{name}: '{BID[name]}'" for name in wanted)
        source = f"read_json('{path}', format = 'newline_delimited', columns = {{{columns}}})"
    elif form == "parquet":
        source = f"read_parquet('{path}')"
    else:
        connection.execute(f"CREATE TABLE loaded AS FROM read_parquet('{path}')")
        source = "loaded"
    sql = {
        "q1": f"SELECT auction, bidder, 0.908 * price AS price, make_timestamp(dateTime * 1000) AS t, extra FROM {source}",
        "q2": f"SELECT auction, price FROM {source} WHERE auction % 123 = 0",
        "tumbling": f"""SELECT bidder, dateTime // 10000 * 10000 AS window_start, COUNT(*) AS bids
                        FROM {source} GROUP BY ALL""",
        "ysb": f"""SELECT campaign, event_time // 10000 * 10000 AS window_start,
                          COUNT(*) AS views
                   FROM {source} WHERE event_type = 'view' GROUP BY ALL""",
    }[query]
    return lambda: connection.sql(sql).to_arrow_table()


def polars_query():
    import polars as pl

    kinds = {"BIGINT": pl.Int64, "VARCHAR": pl.String}
    if form == "ndjson":
        rows = pl.scan_ndjson(path, schema={name: kinds[kind] for name, kind in BID.items()})
    elif form == "parquet":
        rows = pl.scan_parquet(path)
    else:
        rows = pl.read_parquet(path).lazy()
    window = lambda column: (pl.col(column).cast(pl.Int64) // 10_000 * 10_000).alias("window_start")
    plan = {
        # Thousandths in integers, which are cheaper than decimals.
        "q1": lambda: rows.select("auction", "bidder", pl.col("price") * 908, pl.col("dateTime").cast(pl.Datetime("ms")), "extra"),
        "q2": lambda: rows.filter(pl.col("auction") % 123 == 0).select("auction", "price"),
        "tumbling": lambda: rows.group_by("bidder", window("dateTime")).agg(pl.len().cast(pl.Int64)),
        "ysb": lambda: rows.filter(pl.col("event_type") == "view")
        .group_by("campaign", window("event_time"))
        .agg(pl.len().cast(pl.Int64)),
    }[query]()
    engine = min(["in-memory", "streaming"], key=lambda engine: seconds_of(lambda: plan.collect(engine=engine)))
    return lambda: plan.collect(engine=engine)


def seconds_of(work):
    """Of the second run: the first one warms up."""
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    run = {"duckdb": duckdb_query, "polars": polars_query}[system]()
    print("ready", flush=True)
    is_first = True
    for _ in sys.stdin:
        start = time.perf_counter()
        result = run()
        answer = {"seconds": time.perf_counter() - start}
        if is_first:
            answer["checksum"] = checksum(result if isinstance(result, pyarrow.Table) else result.to_arrow())
            is_first = False
        del result
        print(json.dumps(answer), flush=True)


main()
