-- Three nodes in one process, with a source each: what every one of them keeps.
SET 'pipeline.nodes' = '3';
CREATE TABLE events_2 LIKE events;
CREATE TABLE events_3 LIKE events;
CREATE VIEW bids AS
    SELECT bid.bidder AS bidder, bid.price AS price, bid.channel AS channel, ts FROM events WHERE event_type = 2
    UNION ALL SELECT bid.bidder, bid.price + 1, bid.channel, ts FROM events_2 WHERE event_type = 2
    UNION ALL SELECT bid.bidder, bid.price + 2, bid.channel, ts FROM events_3 WHERE event_type = 2;
CREATE TABLE rows (start TIMESTAMP(3), channel STRING, n BIGINT, most BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'csv');
CREATE TABLE best (bidder BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, highest BIGINT) WITH ('connector' = 'filesystem', 'path' = 'best', 'format' = 'csv');
EXECUTE STATEMENT SET BEGIN
INSERT INTO rows SELECT window_start, channel, COUNT(*), MAX(price) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1.5' SECOND))
WHERE channel IN ('Google', 'Baidu', 'Apple') GROUP BY channel, window_start, window_end;
INSERT INTO best SELECT bidder, window_start, window_end, COUNT(*), MAX(price) FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '0.3' SECOND))
GROUP BY bidder, window_start, window_end;
END;
