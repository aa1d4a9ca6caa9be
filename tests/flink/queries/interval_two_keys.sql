-- configurations: some
SELECT x.id, y.id AS yid FROM timely AS x JOIN acts AS y ON x.k = y.k AND x.g = y.g AND x.ts BETWEEN y.ts - INTERVAL '3' SECOND AND y.ts + INTERVAL '1' SECOND;
