-- configurations: some
-- differs: Flink has read the first file to its end before it opens the second one, and then drops all rows of that one as late
SELECT window_start, src, COUNT(*) AS n, SUM(x) AS s FROM TABLE(TUMBLE((SELECT 'a' AS src, v AS x, ts FROM timely UNION ALL SELECT 'b', w, ts FROM acts), DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end, src;
