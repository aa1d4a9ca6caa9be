-- configurations: some
SELECT k, f, window_start, window_end, COUNT(*) AS n, COUNT(DISTINCT g) AS c FROM TABLE(SESSION(TABLE events PARTITION BY (k, f), DESCRIPTOR(ts), INTERVAL '0.9' SECOND)) GROUP BY k, f, window_start, window_end;
