-- zone: Europe/Berlin
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) AS s, TUMBLE_END(ts, INTERVAL '1' HOUR) AS e, TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS r, COUNT(*) AS n FROM clocks GROUP BY TUMBLE(ts, INTERVAL '1' HOUR);
