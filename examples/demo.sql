-- A live auction: 20,000 events per second for twelve seconds of real time. Every two seconds the bids of each of the
-- big sites are counted, and their average and highest price computed.
CREATE TABLE events (
    event_type INT,
    person  ROW<id BIGINT, name STRING, `dateTime` TIMESTAMP(3)>,
    auction ROW<id BIGINT, itemName STRING, seller BIGINT, `dateTime` TIMESTAMP(3)>,
    bid     ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, `dateTime` TIMESTAMP(3)>,
    ts AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
    WATERMARK FOR ts AS ts - INTERVAL '0.2' SECOND
) WITH (
    'connector' = 'nexmark',
    'first-event.rate' = '20000',
    'rate.limited' = 'true',
    'events.num' = '240000',
    'base-time' = 'now'
);

SELECT window_start, bid.channel AS channel, COUNT(*) AS bids, AVG(bid.price) AS average_price, MAX(bid.price) AS highest
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND))
WHERE event_type = 2 AND bid.channel IN ('Google', 'Facebook', 'Baidu', 'Apple')
GROUP BY bid.channel, window_start, window_end;
