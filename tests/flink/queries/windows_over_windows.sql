-- configurations: some
SELECT window_start, window_end, SUM(n) AS n, MAX(s) AS s, COUNT(*) AS c FROM TABLE(TUMBLE((SELECT window_time AS rt, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, window_time, k), DESCRIPTOR(rt), INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
