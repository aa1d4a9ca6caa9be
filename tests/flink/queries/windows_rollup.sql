-- configurations: some
SELECT window_start, window_end, k, g, COUNT(*) AS n, MAX(v) AS m FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '6' SECOND)) GROUP BY window_start, window_end, ROLLUP (k, g);
