-- configurations: some
SELECT * FROM (SELECT window_start, window_end, k, s, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, k) AS r FROM (SELECT window_start, window_end, k, SUM(v) AS s FROM TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '8' SECOND)) GROUP BY window_start, window_end, k)) WHERE r <= 2;
