-- varies: which of two inputs Flink reads first decides which rows are late
-- configurations: some
-- zone: Europe/London
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT id, window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE clocks, DESCRIPTOR(ts), INTERVAL '30' MINUTE)) WHERE k = 0) AS x WHERE EXISTS (SELECT 1 FROM (SELECT * FROM TABLE(TUMBLE(TABLE clocks, DESCRIPTOR(ts), INTERVAL '30' MINUTE)) WHERE k = 1) AS y WHERE x.window_start = y.window_start AND x.window_end = y.window_end AND x.v < y.v);
