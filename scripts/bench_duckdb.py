"""The group-by of the NDJSON benchmark in DuckDB: prints `seconds groups bids` for every line it reads."""
import sys
import time

import duckdb

path, threads = sys.argv[1], int(sys.argv[2])
connection = duckdb.connect()
connection.execute(f"SET threads = {threads}")
query = f"""
    SELECT bidder, dateTime // 10000 * 10000 AS window_start, COUNT(*) AS bids
    FROM read_json('{path}', format = 'newline_delimited', columns = {{bidder: 'BIGINT', dateTime: 'BIGINT'}})
    GROUP BY ALL
"""
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    rows = connection.sql(query).to_arrow_table()
    seconds = time.perf_counter() - start
    counted = sum(rows.column("bids").to_pylist())
    print(seconds, rows.num_rows, counted, flush=True)
