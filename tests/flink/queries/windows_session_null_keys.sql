-- configurations: some
SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, MAX(g) AS m FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.4' SECOND)) GROUP BY k, window_start, window_end;
