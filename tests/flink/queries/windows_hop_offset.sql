-- configurations: some
SELECT window_start, window_end, window_time, COUNT(*) AS n, MIN(v) AS m FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND, INTERVAL '2' SECOND)) GROUP BY window_start, window_end, window_time;
