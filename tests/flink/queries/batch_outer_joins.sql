-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT x.id, y.id AS yid FROM timely AS x FULL JOIN acts AS y ON x.k = y.k AND x.g = y.g AND x.v > y.w + 10;
