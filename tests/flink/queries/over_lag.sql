-- configurations: some
-- differs: LAG is not there yet
SELECT id, LAG(v) OVER (PARTITION BY k ORDER BY ts) AS a, LAG(v, 2, -1) OVER (PARTITION BY k ORDER BY ts) AS b FROM timely;
