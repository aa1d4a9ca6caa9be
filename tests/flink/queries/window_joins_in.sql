-- configurations: some
SELECT id, g, window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '3' SECOND))) AS x WHERE g IN (SELECT y.g FROM (SELECT * FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '3' SECOND))) AS y WHERE x.window_start = y.window_start AND x.window_end = y.window_end);
