-- configurations: some
SELECT window_end, k, SUM(v) AS s FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)) WHERE g <> 'blue' OR g IS NULL GROUP BY window_start, window_end, k HAVING COUNT(*) > 2 AND SUM(v) > 10 AND MIN(v) IS NOT NULL;
