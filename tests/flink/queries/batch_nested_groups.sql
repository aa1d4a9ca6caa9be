-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT n, COUNT(*) AS keys, SUM(s) AS s FROM (SELECT k, g, COUNT(*) AS n, SUM(v) AS s FROM timely GROUP BY k, g) GROUP BY n;
