-- configurations: some
SELECT window_start, g, id, ts FROM (SELECT window_start, window_end, g, id, ts, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, g ORDER BY ts DESC) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '4' SECOND))) WHERE n = 1;
