-- configurations: some
SELECT id, k, v, window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS x WHERE NOT EXISTS (SELECT 1 FROM (SELECT * FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS y WHERE x.k = y.k AND x.window_start = y.window_start AND x.window_end = y.window_end);
