-- configurations: some
SELECT x.id, y.id AS yid FROM timely AS x JOIN acts AS y ON x.k = y.k AND x.g = y.g WHERE x.v < y.w;
