-- configurations: some
SELECT x.k, x.n, y.price FROM (SELECT k, COUNT(*) AS n, window_time AS rt FROM TABLE(TUMBLE(TABLE timely, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end, window_time) AS x LEFT JOIN prices FOR SYSTEM_TIME AS OF x.rt AS y ON x.k = y.k;
