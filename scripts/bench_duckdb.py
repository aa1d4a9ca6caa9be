"""The group-by of the NDJSON benchmark in DuckDB: answers every line that it reads with a line of JSON."""
import json
import sys
import time

import duckdb

from bench_checksum import checksum

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
    columns = [column.to_numpy() for column in rows.columns]
    print(json.dumps({"seconds": seconds, "checksum": checksum(columns)}), flush=True)
