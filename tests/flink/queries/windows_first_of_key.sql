-- configurations: some
SELECT window_start, k, id, ts FROM (SELECT window_start, window_end, k, id, ts, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '4' SECOND))) WHERE n = 1;
