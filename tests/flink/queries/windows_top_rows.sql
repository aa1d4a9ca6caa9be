-- configurations: some
SELECT window_start, id, v, r FROM (SELECT id, v, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, id) AS r FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '3' SECOND))) WHERE r <= 3;
