CREATE TABLE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'examples/bids.jsonl', 'format' = 'json');

SELECT bidder, window_start, COUNT(*) AS bids, MAX(price) AS highest
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
WHERE price >= 100
GROUP BY bidder, window_start, window_end;
