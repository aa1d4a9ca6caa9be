-- The tables of all jobs: 12 seconds of auctions, in real time while a checkpoint is made, and a file that is looked up.
CREATE TABLE events (
    event_type INT,
    person  ROW<id BIGINT, name STRING, city STRING, `dateTime` TIMESTAMP(3)>,
    auction ROW<id BIGINT, itemName STRING, seller BIGINT, category BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3)>,
    bid     ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, `dateTime` TIMESTAMP(3)>,
    ts AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
    WATERMARK FOR ts AS ts - INTERVAL '0.5' SECOND
) WITH (
    'connector' = 'nexmark', 'first-event.rate' = '1000', 'events.num' = '4000', 'base-time' = '1767225600000',
    'rate.limited' = '${LIMITED}'
);
CREATE VIEW person AS SELECT person.id AS id, person.name AS name, person.city AS city, ts FROM events WHERE event_type = 0;
CREATE VIEW auction AS SELECT auction.id AS id, auction.itemName AS item, auction.seller AS seller, auction.category AS category, ts
    FROM events WHERE event_type = 1;
CREATE VIEW bid AS SELECT bid.auction AS auction, bid.bidder AS bidder, bid.price AS price, bid.channel AS channel, ts
    FROM events WHERE event_type = 2;
CREATE TABLE categories (category BIGINT, title STRING) WITH ('connector' = 'filesystem', 'path' = 'categories.csv', 'format' = 'csv');
