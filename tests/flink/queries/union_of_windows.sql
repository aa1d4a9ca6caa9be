-- configurations: some
SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, k UNION ALL SELECT window_start, window_end, k, COUNT(*) FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '4' SECOND)) GROUP BY window_start, window_end, k;
