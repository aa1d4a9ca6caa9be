-- configurations: some
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND, INTERVAL '4' SECOND)) GROUP BY window_start, window_end, k;
