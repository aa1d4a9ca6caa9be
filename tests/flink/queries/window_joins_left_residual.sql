-- configurations: some
SELECT x.id, y.id AS yid, x.v, y.w FROM (SELECT * FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS x LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS y ON x.k = y.k AND x.g = y.g AND x.window_start = y.window_start AND x.window_end = y.window_end AND x.v > y.w;
