CREATE TABLE rows (start TIMESTAMP(3), auction BIGINT, n BIGINT, bidders STRING, first_one STRING, last_one STRING) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT window_start, MOD(auction, 20), COUNT(*), LISTAGG(DISTINCT channel ORDER BY channel), MIN(channel), MAX(channel)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND)) WHERE channel IN ('Google', 'Baidu', 'Apple') GROUP BY MOD(auction, 20), window_start, window_end;
