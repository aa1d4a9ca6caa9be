-- zone: America/Sao_Paulo
CREATE TABLE clocks (id INT, k INT, v INT, e BIGINT, ts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${DATA}/clocks.jsonl', 'format' = 'json');
CREATE VIEW before AS SELECT * FROM clocks WHERE e < 1550000000000;
SELECT window_start, window_end, window_time, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE before, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '3' HOUR)) GROUP BY window_start, window_end, window_time;
