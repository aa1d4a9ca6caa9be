-- configurations: some
SET 'execution.runtime-mode' = 'batch';
SELECT k, f, COUNT(*) AS n, SUM(v) AS s, AVG(p) AS a, GROUPING(k) AS gk FROM timely GROUP BY GROUPING SETS ((k), (f), (k, f), ()) HAVING COUNT(*) > 3;
