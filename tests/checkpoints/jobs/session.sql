CREATE TABLE rows (bidder BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, highest BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT bidder, window_start, window_end, COUNT(*), MAX(price) FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '0.3' SECOND))
GROUP BY bidder, window_start, window_end;
