CREATE TABLE rows (auction BIGINT, start TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT auction, MIN(ts), COUNT(*), SUM(price) FROM TABLE(COUNT_TUMBLE(TABLE bid PARTITION BY auction, DESCRIPTOR(ts), 5)) GROUP BY auction, window_start, window_end;
