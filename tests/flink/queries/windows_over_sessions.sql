-- configurations: some
SELECT window_start, COUNT(*) AS sessions, MAX(n) AS longest FROM TABLE(TUMBLE((SELECT k, window_time AS rt, COUNT(*) AS n FROM TABLE(SESSION(TABLE timely PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.5' SECOND)) GROUP BY k, window_start, window_end, window_time), DESCRIPTOR(rt), INTERVAL '4' SECOND)) GROUP BY window_start, window_end;
