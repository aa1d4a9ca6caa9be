-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT x.id FROM timely AS x WHERE EXISTS (SELECT 1 FROM acts AS y WHERE y.k = x.k AND y.w > x.v) AND NOT EXISTS (SELECT 1 FROM acts AS z WHERE z.g = x.g AND z.w > 38);
