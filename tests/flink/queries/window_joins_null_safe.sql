-- configurations: some
SELECT x.id, y.id AS yid FROM (SELECT * FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS x JOIN (SELECT * FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS y ON x.k IS NOT DISTINCT FROM y.k AND x.window_start = y.window_start AND x.window_end = y.window_end WHERE x.v < 10;
