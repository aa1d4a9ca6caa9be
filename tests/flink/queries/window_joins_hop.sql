-- configurations: some
SELECT x.window_start, x.id, y.id AS yid FROM (SELECT * FROM TABLE(HOP(TABLE timely, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) WHERE f) AS x JOIN (SELECT * FROM TABLE(HOP(TABLE acts, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) WHERE w > 20) AS y ON x.window_start = y.window_start AND x.window_end = y.window_end AND x.k = y.k;
