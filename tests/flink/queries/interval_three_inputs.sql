-- configurations: some
SELECT x.id, y.id AS yid, z.id AS zid FROM timely AS x JOIN acts AS y ON x.k = y.k AND x.ts BETWEEN y.ts - INTERVAL '0.5' SECOND AND y.ts + INTERVAL '0.5' SECOND JOIN trades AS z ON x.k = z.k AND z.ts BETWEEN x.ts - INTERVAL '0.5' SECOND AND x.ts;
