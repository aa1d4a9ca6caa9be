-- configurations: some
-- zone: Europe/London
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE clocks, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end, GROUPING SETS ((k), ());
