-- configurations: some
-- zone: Australia/Sydney
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT window_start, window_end, k, COUNT(*) AS n, MIN(ts) AS a, MAX(ts) AS b FROM TABLE(TUMBLE(TABLE clocks, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end, k;
