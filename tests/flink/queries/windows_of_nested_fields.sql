-- configurations: some
SELECT window_start, r.x AS rx, COUNT(r.y) AS n, MAX(r.y) AS m, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, r.x;
