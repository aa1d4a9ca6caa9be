CREATE TABLE rows (start TIMESTAMP(3), channel STRING, auction BIGINT, price BIGINT, place BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT window_start, channel, auction, price, place FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, channel ORDER BY price DESC, auction) AS place
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND)) WHERE channel = 'Google' AND price > 100) WHERE place <= 3;
