-- configurations: some
SELECT src, id, COUNT(*) OVER w AS n, SUM(x) OVER w AS s FROM (SELECT 'a' AS src, id, k, v AS x, ts FROM timely UNION ALL SELECT 'b', id, k, w, ts FROM acts UNION ALL SELECT 'c', id, k, q, ts FROM trades) WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW);
