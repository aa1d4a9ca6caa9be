-- configurations: some
SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION((SELECT k, ts FROM timely WHERE f UNION ALL SELECT k, ts FROM acts) PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.6' SECOND)) GROUP BY k, window_start, window_end;
