-- zone: Europe/Moscow
-- differs: the zone has no summer time today, so Flink fires the windows of a repeated hour when that is over for the first time
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
SELECT window_start, window_end, window_time, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE clocks PARTITION BY k, DESCRIPTOR(ts), INTERVAL '25' MINUTE)) GROUP BY window_start, window_end, window_time, k;
