CREATE TABLE rows (bidder BIGINT, ts TIMESTAMP(3), price BIGINT, n BIGINT, mean DOUBLE, total BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT bidder, ts, price, COUNT(*) OVER w, AVG(CAST(price AS DOUBLE)) OVER w, SUM(price) OVER w FROM bid WHERE MOD(auction, 5) = 0
WINDOW w AS (PARTITION BY bidder ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW);
