-- zone: Europe/Berlin
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT window_start, window_end, id, r FROM (SELECT id, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, id) AS r FROM TABLE(TUMBLE(TABLE clocks, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE r <= 2;
