-- zone: America/New_York
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT id, window_start, window_end, window_time FROM TABLE(HOP(TABLE clocks, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR));
