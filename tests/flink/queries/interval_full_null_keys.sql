-- configurations: some
SELECT x.id, y.id AS yid, x.g FROM timely AS x FULL JOIN acts AS y ON x.k = y.k AND x.g = y.g AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '2' SECOND AND x.v + y.w > 20;
