-- configurations: some
SELECT x.id, y.id AS yid, COALESCE(x.window_start, y.window_start) AS ws FROM (SELECT * FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS x FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE acts, DESCRIPTOR(ts), INTERVAL '2' SECOND))) AS y ON x.k = y.k AND x.g = y.g AND x.window_start = y.window_start AND x.window_end = y.window_end;
