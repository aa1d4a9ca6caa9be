-- configurations: some
SELECT x.id, y.id AS yid, z.id AS zid FROM timely AS x JOIN acts AS y ON x.k = y.k AND x.g = y.g JOIN orders AS z ON z.k = x.k AND z.id < y.w;
