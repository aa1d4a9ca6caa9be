-- configurations: some
SELECT window_start, window_end, k, f, COUNT(*) AS n, SUM(v) AS s, GROUPING(k) AS gk, GROUPING(f) AS gf, GROUPING_ID(k, f) AS gi FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, GROUPING SETS ((k), (f), (k, f), ());
