-- configurations: some
SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE((SELECT x.ts, x.v FROM timely AS x JOIN acts AS y ON x.k = y.k AND x.ts BETWEEN y.ts - INTERVAL '1' SECOND AND y.ts + INTERVAL '1' SECOND), DESCRIPTOR(ts), INTERVAL '4' SECOND)) GROUP BY window_start, window_end;
