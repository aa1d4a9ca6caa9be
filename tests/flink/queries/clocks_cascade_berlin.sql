-- zone: Europe/Berlin
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE((SELECT window_time AS rt, k, COUNT(*) AS n FROM TABLE(HOP(TABLE clocks, DESCRIPTOR(ts), INTERVAL '15' MINUTE, INTERVAL '45' MINUTE)) GROUP BY window_start, window_end, window_time, k), DESCRIPTOR(rt), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
