CREATE TABLE rows (start TIMESTAMP(3), channel STRING, n BIGINT, total BIGINT, mean DOUBLE, least STRING, most BIGINT, bidders BIGINT, about BIGINT, spread DOUBLE, half DOUBLE, common BIGINT, exact DECIMAL(38, 2), few BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
INSERT INTO rows SELECT window_start, channel, COUNT(*), SUM(price), AVG(CAST(price AS DOUBLE)), MIN(channel || CAST(auction AS STRING)), MAX(price), COUNT(DISTINCT bidder),
    APPROX_COUNT_DISTINCT(bidder), STDDEV_POP(price), MEDIAN(price), MODE(auction), SUM(CAST(price AS DECIMAL(20, 2))), COUNT(*) FILTER (WHERE price > 1000)
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1.5' SECOND)) WHERE channel IN ('Google', 'Baidu', 'Apple') GROUP BY channel, window_start, window_end;
